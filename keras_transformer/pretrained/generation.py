"""How a pretrained model generates: the names of a `generation_config.json`."""

import dataclasses
import json
from pathlib import Path
from typing import Literal

from keras_transformer._files import read_table
from keras_transformer.errors import InputError
from keras_transformer.types import Config

# Names that must have one of these values, or None: another would change the outputs, and no search here does
# what it says.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "constraints": (),
    "diversity_penalty": (0.0,),
    "do_sample": (False,),
    "dola_layers": (),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1.0,),
    "exponential_decay_length_penalty": (),
    "force_words_ids": (),
    "guidance_scale": (1.0,),
    "max_time": (),
    "num_beam_groups": (1,),
    "num_return_sequences": (1,),
    "penalty_alpha": (0.0,),
    "prompt_lookup_num_tokens": (),
    "renormalize_logits": (False,),
    "return_timestamps": (False,),
    "remove_invalid_values": (False,),
    "repetition_penalty": (1.0,),
    "sequence_bias": (),
    "stop_strings": (),
    "token_healing": (False,),
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


_GENERATION_NAMES = {field.name for field in dataclasses.fields(_Generation)} | {*_NEUTRAL, *_UNUSED}


def _read_generation(table: Config, path: Path) -> _Generation:
    """Return what a table of names says; raise InputError for what no search here can do."""
    followed = {}
    for name, value in table.items():
        if name not in _GENERATION_NAMES and value not in (None, False):
            raise InputError(f"{path}: the option {name!r} is not known. Received: {name}={value!r:.80}.")
        if name in _NEUTRAL and value is not None and value not in _NEUTRAL[name]:
            wanted = " or ".join(map(str, (*_NEUTRAL[name], None)))
            raise InputError(
                f"{path}: `{name}` must be {wanted}, since no search here does it. Received: {value!r:.80}."
            )
        if name not in _UNUSED and name not in _NEUTRAL and value is not None:
            followed[name] = value
    generation: _Generation = read_table(json.dumps(followed).encode(), path, _Generation)
    return generation
