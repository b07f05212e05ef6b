"""A pretrained translator: tokenizers, model and search of a directory of Hugging Face."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer._files import as_path, atomic_directory
from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.sampling import GreedySearch
from keras_transformer.decoding.search import Search
from keras_transformer.errors import InputError
from keras_transformer.pretrained import HuggingFaceCheckpoint
from keras_transformer.types import SPECIAL_IDS, TEXT, Config

if TYPE_CHECKING:
    from keras_transformer.text.tokenizer import Tokenizer

# Where neither the model nor its configuration has a limit.
_LENGTHS = 512, 256
# Their tokenizer of the target begins with its language, which the search must write; others with a token
# that the model has learned to write.
_WITH_LANGUAGES = ("m2m_100", "mbart", "whisper")
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


def _read_hugging_face(
    source: str | Path, source_language: str | None, target_language: str | None, given: Config
) -> Config:
    """Return the arguments of a translator, of which some are given."""
    # Imported here: tokenizers need TensorFlow, the rest of decoding does not.
    from keras_transformer.text import read_hugging_face_tokenizers

    checkpoint = HuggingFaceCheckpoint(source)
    names = ("source_tokenizer", "target_tokenizer")
    if all(name in given for name in names):
        first, second = (given[name] for name in names)
    else:
        first, second = read_hugging_face_tokenizers(checkpoint.directory, source_language, target_language)
    # The search comes first, since it is quickly refused.
    search = _search(checkpoint, second)
    is_text = first.reads == TEXT
    limits = _limits(checkpoint) if is_text else _limits_of_speech(checkpoint, len(second.prefix_ids))
    return {
        "model": checkpoint.load(first.original_ids if is_text else None, second.original_ids),
        "source_tokenizer": first,
        "target_tokenizer": second,
        "search": search,
        "max_source_length": limits[0],
        "max_target_length": limits[1],
        **given,
    }


def _limits(checkpoint: HuggingFaceCheckpoint) -> tuple[int, int]:
    generation, limit = checkpoint.generation, checkpoint.max_length or _LENGTHS[0]
    longest = generation.max_new_tokens
    if longest is None and generation.max_length is not None:
        longest = generation.max_length - 1  # which counts the start token
    return limit, min(longest or _LENGTHS[1], limit)


def _limits_of_speech(checkpoint: HuggingFaceCheckpoint, num_first: int) -> tuple[int, int]:
    """Return the frames of a source and the tokens of an output, with those that it begins with."""
    generation, limit = checkpoint.generation, checkpoint.max_length or _LENGTHS[0]
    if generation.max_new_tokens is not None:
        longest = generation.max_new_tokens + num_first
    else:  # counted after the start token and the first ones, as long as there are positions for all of them
        longest = min((generation.max_length or limit) + num_first, limit - 1)
    return 2 * checkpoint.config.get("max_source_positions", 1500), longest


def _search(checkpoint: HuggingFaceCheckpoint, tokenizer: "Tokenizer") -> Search:
    """Return the search of `generate`, with the ids of our vocabulary."""
    generation, ids = checkpoint.generation, _Ids(checkpoint, tokenizer)
    bans = [ids.ours(sequence) for sequence in generation.bad_words_ids]
    banned = {each[0] for each in bans if len(each) == 1} | {*ids.ours(generation.suppress_tokens)}
    # Theirs may write the unknown token, which is no text, unless it is banned.
    special_ids = SPECIAL_IDS
    if SPECIAL_IDS.unknown not in banned:
        special_ids = SPECIAL_IDS._replace(unknown=SPECIAL_IDS.start)
    forced_end = generation.forced_eos_token_id
    if forced_end not in (None, generation.eos_token_id):
        raise InputError(
            f"{checkpoint.directory}: `forced_eos_token_id` must be {generation.eos_token_id}, the end. "
            f"Received: {forced_end}."
        )
    shortest = generation.min_new_tokens
    constraints = Constraints(
        # The start token, which counts there, is as many as the end token, which counts here.
        min_length=generation.min_length if shortest is None else shortest + 1,
        banned_token_ids=tuple(sorted(banned - {*special_ids[:3]})),  # which need no ban
        banned_first_token_ids=ids.ours(generation.begin_suppress_tokens),
        banned_sequences=tuple(each for each in bans if len(each) > 1),
        first_token_ids=ids.first,
        force_end=forced_end is not None,
        no_repeat_ngram_size=generation.no_repeat_ngram_size,
    )
    # Whisper is given its first tokens; others are made to generate the one of a language.
    is_given = checkpoint.config["model_type"] == "whisper"
    options: Config = {
        "length_penalty": generation.length_penalty,
        "length_normalization": "generated_length" if is_given else "length",
        "constraints": constraints,
        "special_ids": special_ids,
    }
    if generation.num_beams == 1:
        return GreedySearch(**options)
    return BeamSearch(
        generation.num_beams,
        early_stopping=generation.early_stopping,
        cut_off_competes=True,
        **options,
    )


class _Ids:
    """Our ids of the target by theirs."""

    def __init__(self, checkpoint: HuggingFaceCheckpoint, tokenizer: "Tokenizer") -> None:
        self._ours = {int(theirs): ours for ours, theirs in enumerate(tokenizer.original_ids) if theirs >= 0}
        self._directory = checkpoint.directory
        forced = checkpoint.generation.forced_bos_token_id
        self.first = () if forced is None else self.ours((forced,))
        if checkpoint.config["model_type"] in _WITH_LANGUAGES:
            self.first = tuple(tokenizer.prefix_ids) or self.first

    def ours(self, token_ids: tuple[int, ...]) -> tuple[int, ...]:
        """Return our ids; raise InputError for one that is in no vocabulary."""
        unknown = [token_id for token_id in token_ids if token_id not in self._ours]
        if unknown:
            wanted = f"ids of the generation must be in the vocabulary of {len(self._ours)}"
            raise InputError(f"{self._directory}: {wanted}. Received: {unknown[0]}.")
        return tuple(self._ours[token_id] for token_id in token_ids)


def _write_hugging_face(arguments: Config, directory: str | Path) -> None:
    """Write a translator, by the arguments of its constructor."""
    source, target = arguments["source_tokenizer"], arguments["target_tokenizer"]
    lengths = arguments["max_source_length"], arguments["max_target_length"]
    ids = _original_ids(source), _original_ids(target)
    generation = _generation(arguments["search"], ids[1], lengths[1])
    with atomic_directory(as_path(directory)) as partial:
        ids = HuggingFaceCheckpoint.write(
            partial, arguments["model"], *ids, generation=generation, num_positions=max(lengths)
        )
        source.save_hugging_face(partial, target, ids, lengths[0])


def _original_ids(tokenizer: "Tokenizer") -> np.ndarray:
    """Return for each id of ours that of the directory, -1 where the start token has none."""
    ids, own = tokenizer.original_ids, np.arange(tokenizer.vocabulary_size)
    others = np.delete(ids, SPECIAL_IDS.start)
    # Tokenizers of other libraries need not have all special tokens.
    return ids if others.min() >= 0 and len({*others.tolist()}) == len(others) else own


def _generation(search: Search, ids: np.ndarray, max_length: int) -> Config:
    """Return what `generate` is told; raise ValueError for what it cannot do."""
    if not isinstance(search, BeamSearch | GreedySearch):
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


def _fields(options: Search | Constraints) -> Config:
    return {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
