"""How a pretrained model generates: a `generation_config.json` as a search, and a search as one."""

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_transformer._files import read_table
from keras_transformer.decoding import BeamSearch, Constraints, GreedySearch
from keras_transformer.errors import InputError
from keras_transformer.types import SPECIAL_IDS, Config

_Search: TypeAlias = BeamSearch | GreedySearch
_Ids: TypeAlias = npt.NDArray[np.int64]

# Names that must be None or have the value that changes nothing: no search here does what they say.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("constraints", "dola_layers", "exponential_decay_length_penalty", "max_time"), ()),
    **dict.fromkeys(("force_words_ids", "prompt_lookup_num_tokens", "sequence_bias", "stop_strings"), ()),
    **dict.fromkeys(("do_sample", "renormalize_logits", "return_timestamps", "token_healing"), (False,)),
    **dict.fromkeys(("num_beam_groups", "num_return_sequences"), (1,)),
    **dict.fromkeys(("encoder_repetition_penalty", "guidance_scale", "repetition_penalty"), (1.0,)),
    **dict.fromkeys(("diversity_penalty", "penalty_alpha"), (0.0,)),
    "encoder_no_repeat_ngram_size": (0,),
    "remove_invalid_values": (False,),
    "watermarking_config": (),
}
# Of samples alone, of the cache, and of what is returned beside the tokens.
_OTHERS = (
    "_from_model_config assistant_confidence_threshold assistant_early_exit assistant_lookbehind "
    "cache_config cache_implementation compile_config disable_compile epsilon_cutoff eta_cutoff is_assistant "
    "low_memory max_cache_len max_matching_ngram_size min_p num_assistant_tokens "
    "num_assistant_tokens_schedule output_attentions output_hidden_states output_logits output_scores "
    "return_dict_in_generate return_legacy_cache target_lookbehind temperature top_h top_k top_p "
    "transformers_version typical_p use_cache"
)
_UNUSED = frozenset(_OTHERS.split())
# What `generate` alone does, by the options of our searches and their rules.
_ONLY = {
    "length_normalization": "length",
    "cut_off_competes": True,
    "coverage_penalty": 0.0,
    "num_hypotheses": None,
    "min_length_ratio": 0.0,
    "max_length_ratio": None,
    "repetition_penalty": 1.0,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Generation:
    """The names that a search here follows, with the defaults of transformers."""

    max_length: int | None = None
    max_new_tokens: int | None = None
    min_length: int = 0
    min_new_tokens: int | None = None
    num_beams: int = 1
    early_stopping: bool | Literal["never"] = False
    length_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    forced_bos_token_id: int | None = None
    forced_eos_token_id: int | tuple[int, ...] | None = None
    decoder_start_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | tuple[int, ...] | None = None
    pad_token_id: int | None = None

    @classmethod
    def read(cls, table: Config, path: Path) -> "_Generation":
        """Return what a table of names says; raise InputError for what no search here can do."""
        followed = {}
        for name, value in table.items():
            if name not in _GENERATION_NAMES and value not in (None, False):
                raise InputError(f"{path}: the option {name!r} is not known. Received: {name}={value!r:.80}.")
            if name in _NEUTRAL and value is not None and value not in _NEUTRAL[name]:
                wanted = " or ".join(map(str, (*_NEUTRAL[name], None)))
                raise InputError(
                    f"{path}: `{name}` must be {wanted}, since no search here does it. "
                    f"Received: {value!r:.80}."
                )
            if name not in _UNUSED and name not in _NEUTRAL and value is not None:
                followed[name] = value
        generation: _Generation = read_table(json.dumps(followed).encode(), path, cls)
        return generation

    def search(self, path: Path, original_ids: _Ids, first: tuple[int, ...], *, is_given: bool) -> _Search:
        """Return the search of `generate`, with the ids of our vocabulary.

        `first` are our ids that an output begins with, which with `is_given` no score counts.
        """
        ours = {int(theirs): number for number, theirs in enumerate(original_ids) if theirs >= 0}

        def renumbered(token_ids: tuple[int, ...]) -> tuple[int, ...]:
            unknown = [token_id for token_id in token_ids if token_id not in ours]
            if unknown:
                wanted = f"ids of the generation must be in the vocabulary of {len(ours)}"
                raise InputError(f"{path}: {wanted}. Received: {unknown[0]}.")
            return tuple(ours[token_id] for token_id in token_ids)

        bans = [renumbered(sequence) for sequence in self.bad_words_ids]
        banned = {each[0] for each in bans if len(each) == 1} | {*renumbered(self.suppress_tokens)}
        # Theirs may write the unknown token, which is no text, unless it is banned.
        special_ids = SPECIAL_IDS
        if SPECIAL_IDS.unknown not in banned:
            special_ids = SPECIAL_IDS._replace(unknown=SPECIAL_IDS.start)
        if self.forced_eos_token_id not in (None, self.eos_token_id):
            wanted = f"`forced_eos_token_id` must be {self.eos_token_id}, the end"
            raise InputError(f"{path}: {wanted}. Received: {self.forced_eos_token_id}.")
        if not first and self.forced_bos_token_id is not None:
            first = renumbered((self.forced_bos_token_id,))
        shortest = self.min_new_tokens
        options: Config = {
            "length_penalty": self.length_penalty,
            "length_normalization": "generated_length" if is_given else "length",
            "constraints": Constraints(
                # The start token, which counts there, is as many as the end token, which counts here.
                min_length=self.min_length if shortest is None else shortest + 1,
                banned_token_ids=tuple(sorted(banned - {*special_ids[:3]})),  # which need no ban
                banned_first_token_ids=renumbered(self.begin_suppress_tokens),
                banned_sequences=tuple(each for each in bans if len(each) > 1),
                first_token_ids=first,
                force_end=self.forced_eos_token_id is not None,
                no_repeat_ngram_size=self.no_repeat_ngram_size,
            ),
            "special_ids": special_ids,
        }
        if self.num_beams == 1:
            return GreedySearch(**options)
        options |= {"early_stopping": self.early_stopping, "cut_off_competes": True}
        return BeamSearch(self.num_beams, **options)


_GENERATION_NAMES = {field.name for field in dataclasses.fields(_Generation)} | {*_NEUTRAL, *_UNUSED}


def _written_search(search: object, ids: _Ids, max_length: int) -> Config:
    """Return the inverse of `_Generation.search`; raise ValueError for what `generate` cannot do."""
    if not isinstance(search, _Search):
        raise ValueError(
            f"`search` must be a BeamSearch or a GreedySearch. Received: a {type(search).__name__}."
        )
    rules, special = search.constraints, search.special_ids or SPECIAL_IDS
    options = {**_fields(search), **_fields(rules)}
    if options["length_penalty"] == 0:  # both normalizations are the same
        options["length_normalization"] = "length"
    if options.get("num_hypotheses") == search.beam_size:
        options["num_hypotheses"] = None
    for name, only in _ONLY.items():
        if options.get(name, only) != only:
            raise ValueError(
                f"`{name}` of the search must be {only!r}, as in `generate` of transformers; assign another "
                f"`search` to the translator. Received: {name}={options[name]!r}."
            )
    if len(rules.first_token_ids) > 1:
        raise ValueError(f"`first_token_ids` must be one at most. Received: {rules.first_token_ids}.")

    def theirs(token_ids: tuple[int, ...]) -> list[int]:
        return sorted({int(ids[token_id]) for token_id in token_ids} - {-1})

    never = (special.pad, special.unknown, special.start, *rules.banned_token_ids)
    return {
        "max_length": max_length + 1,  # which counts the start token
        "min_length": rules.min_length,
        "num_beams": search.beam_size,
        "length_penalty": search.length_penalty,
        **({"early_stopping": search.early_stopping} if isinstance(search, BeamSearch) else {}),
        "no_repeat_ngram_size": rules.no_repeat_ngram_size,
        "suppress_tokens": theirs(never),
        "begin_suppress_tokens": theirs(rules.banned_first_token_ids) or None,
        "bad_words_ids": [[int(ids[each]) for each in row] for row in rules.banned_sequences] or None,
        "forced_bos_token_id": int(ids[rules.first_token_ids[0]]) if rules.first_token_ids else None,
        "forced_eos_token_id": int(ids[special.end]) if rules.force_end else None,
    }


def _fields(options: Any) -> Config:
    return {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
