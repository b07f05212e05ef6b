"""Conversion between `generation_config.json` and searches."""

import dataclasses
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_transformer.decoding import BeamSearch, Constraints, GreedySearch, SampleSearch
from keras_transformer.errors import InputError
from keras_transformer.pretrained.directory import _left_out, _typed
from keras_transformer.types import SPECIAL_IDS, Config

_Search: TypeAlias = BeamSearch | GreedySearch | SampleSearch
_Ids: TypeAlias = npt.NDArray[np.int64]

# Unsupported settings, with the values (besides None) that have no effect.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("constraints", "dola_layers", "exponential_decay_length_penalty", "max_time"), ()),
    **dict.fromkeys(("force_words_ids", "prompt_lookup_num_tokens", "sequence_bias", "stop_strings"), ()),
    **dict.fromkeys(("return_timestamps", "token_healing"), (False,)),
    **dict.fromkeys(("num_beam_groups", "num_return_sequences"), (1,)),
    **dict.fromkeys(("encoder_repetition_penalty", "guidance_scale"), (1.0,)),
    **dict.fromkeys(("diversity_penalty", "penalty_alpha"), (0.0,)),
    "encoder_no_repeat_ngram_size": (0,),
    "remove_invalid_values": (False,),
    "watermarking_config": (),
}
# The same for sampling; beam and greedy search ignore these settings.
_NEUTRAL_OF_SAMPLES: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("epsilon_cutoff", "eta_cutoff", "min_p"), (0.0,)),
    "top_h": (),
    "typical_p": (1.0,),
}
# Settings that do not change tokens: cache, speculative decoding, additional outputs.
_OTHERS = (
    "_from_model_config assistant_confidence_threshold assistant_early_exit assistant_lookbehind "
    "cache_config cache_implementation compile_config disable_compile is_assistant "
    "low_memory max_cache_len max_matching_ngram_size num_assistant_tokens "
    "num_assistant_tokens_schedule output_attentions output_hidden_states output_logits output_scores "
    "return_dict_in_generate return_legacy_cache target_lookbehind "
    "transformers_version use_cache"
)
_UNUSED = frozenset(_OTHERS.split())
# More beams are a mistake, and would exhaust the memory.
_MAX_BEAMS = 1000
# The only values of our search options that `generate` supports.
_ONLY = {
    "length_normalization": "length",
    "cut_off_competes": True,
    "num_hypotheses": None,
    "min_length_ratio": 0.0,
    "max_length_ratio": None,
    "repetition_penalty": 1.0,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Generation:
    """Supported settings, with the defaults of `transformers`."""

    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    renormalize_logits: bool = False
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
    def read(cls, table: Config, path: Path, *, is_followed: bool = True) -> "_Generation":
        """Read the settings.

        Raises InputError for unsupported ones, unless `is_followed` is False because another search is given.
        """
        others = {name: value for name, value in table.items() if value not in (None, False)}
        _left_out(
            path, (f"{name}={others[name]!r:.80}" for name in sorted(others.keys() - _GENERATION_NAMES))
        )
        generation = _typed(table, path, cls)
        for name, least in (("max_length", 2), ("max_new_tokens", 1)):
            value = getattr(generation, name)
            if value is not None and value < least:
                raise InputError(f"{path}: `{name}` must be at least {least}. Received: {value}.")
        neutral = {**_NEUTRAL, **(_NEUTRAL_OF_SAMPLES if generation.do_sample else {})}
        for name, value in table.items() if is_followed else ():
            if name in neutral and value is not None and value not in neutral[name]:
                raise _unknown_search(path, name, " or ".join(map(str, (*neutral[name], None))), value)
        return generation

    def search(
        self, path: Path, original_ids: _Ids, first: tuple[int, ...], longest: int, *, is_given: bool
    ) -> _Search:
        """Return the search of `generate` with our ids; raise InputError if it is not supported.

        `first` are our ids that an output starts with. With `is_given`, scores do not include them.
        """
        if not 1 <= self.num_beams <= _MAX_BEAMS:
            raise InputError(
                f"{path}: `num_beams` must be from 1 to {_MAX_BEAMS}. Received: {self.num_beams}."
            )
        if self.forced_eos_token_id not in (None, *self._ends):
            wanted = f"`forced_eos_token_id` must be {self.eos_token_id}, the end"
            raise InputError(f"{path}: {wanted}. Received: {self.forced_eos_token_id}.")
        renumber = _Renumbering(path, original_ids)
        banned = self._banned(path, renumber)
        # `generate` may write the unknown token unless it is banned.
        special_ids = SPECIAL_IDS
        if SPECIAL_IDS.unknown not in banned:
            special_ids = SPECIAL_IDS._replace(unknown=SPECIAL_IDS.start)
        options: Config = {
            "length_penalty": self.length_penalty,
            "length_normalization": "generated_length" if is_given else "length",
            "special_ids": special_ids,
        }
        banned = tuple(sorted({*banned} - {*special_ids[:3]}))  # never generated anyway
        try:
            num_given = len(first) if is_given else 0
            constraints = self._constraints(renumber, banned, first, num_given, longest)
            if self.renormalize_logits and not constraints.renormalize:
                _left_out(path, ["renormalize_logits=True"])
            return self._kind(path, {**options, "constraints": constraints})
        except (TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path}: {error}") from error

    @property
    def _ends(self) -> tuple[int | tuple[int, ...] | None, ...]:
        return self.eos_token_id, (self.eos_token_id,) if isinstance(self.eos_token_id, int) else ()

    def _banned(self, path: Path, renumber: "_Renumbering") -> tuple[int, ...]:
        """Return our ids of the single tokens that are never generated."""
        suppressed = renumber("suppress_tokens", self.suppress_tokens)
        if SPECIAL_IDS.end in suppressed:
            wanted = f"`suppress_tokens` must leave {self.eos_token_id}, the end"
            raise InputError(f"{path}: {wanted}. Received: {self.suppress_tokens!s:.80}.")
        single = [renumber("bad_words_ids", each)[0] for each in self.bad_words_ids if len(each) == 1]
        # `generate` does not ban the end alone.
        return (*suppressed, *(each for each in single if each != SPECIAL_IDS.end))

    def _constraints(
        self,
        renumber: "_Renumbering",
        banned: tuple[int, ...],
        first: tuple[int, ...],
        num_given: int,
        longest: int,
    ) -> Constraints:
        if not first and self.forced_bos_token_id is not None:
            first = renumber("forced_bos_token_id", (self.forced_bos_token_id,))
        # An n-gram longer than the output cannot repeat.
        size = self.no_repeat_ngram_size if self.no_repeat_ngram_size <= longest else 0
        # `generate` counts the start as generated, which matters where it is the end.
        counts = (self.repetition_penalty != 1.0 or size == 1) and self.decoder_start_token_id in self._ends
        # `generate` counts the start token, we count the end token, so the numbers agree. An output of
        # maximum length needs no end. New tokens do not include given ones.
        shortest = self.min_length if self.min_new_tokens is None else num_given + self.min_new_tokens + 1
        rules = Constraints(
            min_length=min(shortest, longest),
            banned_token_ids=banned,
            banned_first_token_ids=renumber("begin_suppress_tokens", self.begin_suppress_tokens),
            banned_sequences=tuple(
                renumber("bad_words_ids", each) for each in self.bad_words_ids if len(each) > 1
            ),
            no_repeat_ngram_size=size,
            repetition_penalty=self.repetition_penalty,
            seen_token_ids=(SPECIAL_IDS.end,) if counts else (),
        )
        # Forced tokens have the whole probability already.
        renormalize = self.renormalize_logits and rules != Constraints()
        force_end = self.forced_eos_token_id is not None
        return dataclasses.replace(rules, first_token_ids=first, force_end=force_end, renormalize=renormalize)

    def _kind(self, path: Path, options: Config) -> _Search:
        if self.num_beams > 1:
            if self.do_sample:
                raise _unknown_search(path, "do_sample", f"False with num_beams={self.num_beams}", True)
            options |= {"early_stopping": self.early_stopping, "cut_off_competes": True}
            return BeamSearch(self.num_beams, **options)
        if self.repetition_penalty != 1.0:  # `generate` applies it to logits, we to log-probabilities
            raise _unknown_search(path, "repetition_penalty", "1.0 without beams", self.repetition_penalty)
        if not self.do_sample:
            return GreedySearch(**options)
        top_p = None if self.top_p == 1.0 else self.top_p
        return SampleSearch(self.temperature, self.top_k or None, top_p, **options)


_GENERATION_NAMES = {field.name for field in dataclasses.fields(_Generation)}
_GENERATION_NAMES |= {*_NEUTRAL, *_NEUTRAL_OF_SAMPLES, *_UNUSED}


class _Renumbering:
    """Our ids of the token ids of a directory."""

    def __init__(self, path: Path, original_ids: _Ids) -> None:
        self._path = path
        self._ours = {int(theirs): number for number, theirs in enumerate(original_ids) if theirs >= 0}

    def __call__(self, name: str, token_ids: tuple[int, ...]) -> tuple[int, ...]:
        """Return our ids; raise InputError for ids that are not in the vocabulary."""
        for token_id in token_ids:
            if token_id not in self._ours:
                wanted = f"`{name}` must be in the vocabulary of {len(self._ours)}"
                raise InputError(f"{self._path}: {wanted}. Received: {token_id}.")
        return tuple(self._ours[token_id] for token_id in token_ids)


def _unknown_search(path: Path, name: str, wanted: str, received: object) -> InputError:
    return InputError(
        f"{path}: `{name}` must be {wanted}, since no search here does it; or choose another search, "
        "`search=BeamSearch(4)` in Python, `--beam-size 4` on the command line. "
        f"Received: {received!r:.80}."
    )


def _written_search(search: object, ids: _Ids, max_length: int) -> Config:
    """Return the settings of a search; raise ValueError for what `generate` does not support."""
    if not isinstance(search, BeamSearch | GreedySearch):
        raise ValueError(
            f"`search` must be a BeamSearch or a GreedySearch. Received: a {type(search).__name__}."
        )
    rules, special = search.constraints, search.special_ids or SPECIAL_IDS
    options = {**_fields(search), **_fields(rules)}
    if options["length_penalty"] == 0:  # both normalizations are equal
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
        "max_length": max_length + 1,  # includes the start token
        "min_length": rules.min_length,
        "num_beams": search.beam_size,
        "length_penalty": search.length_penalty,
        **({"early_stopping": search.early_stopping} if isinstance(search, BeamSearch) else {}),
        "no_repeat_ngram_size": rules.no_repeat_ngram_size,
        "renormalize_logits": rules.renormalize,
        "suppress_tokens": theirs(never),
        "begin_suppress_tokens": theirs(rules.banned_first_token_ids) or None,
        "bad_words_ids": [[int(ids[each]) for each in row] for row in rules.banned_sequences] or None,
        "forced_bos_token_id": int(ids[rules.first_token_ids[0]]) if rules.first_token_ids else None,
        "forced_eos_token_id": int(ids[special.end]) if rules.force_end else None,
    }


def _fields(options: Any) -> Config:
    return {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
