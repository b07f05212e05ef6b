"""A model as a directory that CTranslate2, the C++ engine, loads as it is."""

import secrets
import shutil
from pathlib import Path
from typing import Any

from keras_transformer.decoding import Translator
from keras_transformer.errors import InputError
from keras_transformer.files import remove_stale
from keras_transformer.interop.ctranslate2_readme import ctranslate2_readme
from keras_transformer.interop.ctranslate2_spec import transformer_spec
from keras_transformer.text.special_tokens import END_ID, PAD_ID, SPECIAL_TOKENS, START_ID, UNKNOWN_ID

NUM_POSITIONS = 2048
"""Sinusoidal positions that are written at least; CTranslate2 cuts sources at 1,024 by default."""

DEFAULT_LENGTHS = (1024, 256)
"""What CTranslate2 reads and writes at most where nothing else is said."""

QUANTIZATIONS = (
    None,
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
    "int16",
    "float16",
    "bfloat16",
)


def export_ctranslate2(
    model: Any, directory: str | Path, *, quantization: str | None = None, num_positions: int = NUM_POSITIONS
) -> Path:
    """Write a CTranslate2 model with the weights of ours.

    The directory of a translator also gets both tokenizers, as `Tokenizer.save` writes them. The
    tokens of the vocabularies are the tokenizers' pieces; a model alone has its ids in decimal.

    Args:
        model: a `Translator`, or a `Transformer` with weights.
        directory: made by this call; written beside and renamed.
        quantization: of the weights: None for float32, or what CTranslate2 knows, such as `int8`.
        num_positions: how many sinusoidal positions are written; more if the translator's limits
            ask for more.

    Returns:
        The directory.

    Raises:
        InputError: CTranslate2 is not installed, or the directory is there already or cannot be written.
        ValueError: an option of the model that CTranslate2 has no layer for, an unknown quantization.
    """
    directory = Path(directory)
    if quantization not in QUANTIZATIONS:
        known = ", ".join(str(name) for name in QUANTIZATIONS)
        raise ValueError(f"`quantization` must be one of {known}. Received: quantization={quantization!r}.")
    if directory.exists():
        raise InputError(f"Cannot write {directory}: it is there already.")
    limits = _limits(model)
    num_positions = max(num_positions, *limits)
    spec = transformer_spec(getattr(model, "model", model), num_positions)
    _name_tokens(spec, model)
    spec.validate()
    spec.optimize(quantization)
    _write(spec, model, directory, _longest(model, num_positions))
    return directory


def vocabulary_tokens(size: int, tokenizer: Any = None) -> list[str]:
    """Name each token id for CTranslate2.

    Args:
        size: the number of ids.
        tokenizer: whose pieces are the names; None for the ids in decimal.

    Returns:
        A string for each id, the special tokens first.
    """
    names = [str(token_id) for token_id in range(size)]
    if tokenizer is not None:
        names = [piece.decode("utf-8") for piece in tokenizer.tokens([list(range(size))]).numpy()[0]]
    return [*SPECIAL_TOKENS, *names[len(SPECIAL_TOKENS) :]]


def _limits(model: Any) -> tuple[int, int]:
    """Give the most positions of source and target, 0 where nothing limits them."""
    if isinstance(model, Translator):
        return model.max_source_length, model.max_target_length
    return 0, 0


def _longest(model: Any, num_positions: int) -> tuple[int, int]:
    """Give the most tokens of source and target for the README: where nothing limits them, the defaults."""
    if isinstance(model, Translator):
        return _limits(model)
    longest = model.config["max_length"] or num_positions
    source_length, target_length = DEFAULT_LENGTHS
    return min(source_length, longest), min(target_length, longest)


def _name_tokens(spec: Any, model: Any) -> None:
    """Register the vocabularies, and say which tokens are special."""
    [source_size], target_size = spec.get_source_vocabulary_size(), spec.get_target_vocabulary_size()
    source_tokenizer = getattr(model, "source_tokenizer", None)
    target_tokenizer = getattr(model, "target_tokenizer", None)
    spec.register_source_vocabulary(vocabulary_tokens(source_size, source_tokenizer))
    spec.register_target_vocabulary(vocabulary_tokens(target_size, target_tokenizer))
    spec.config.unk_token = SPECIAL_TOKENS[UNKNOWN_ID]
    spec.config.bos_token = SPECIAL_TOKENS[START_ID]
    spec.config.eos_token = SPECIAL_TOKENS[END_ID]
    spec.config.decoder_start_token = SPECIAL_TOKENS[START_ID]
    spec.config.add_source_eos = True


def _write(spec: Any, model: Any, directory: Path, lengths: tuple[int, int]) -> None:
    # Of this export alone: another one may be at work, and the first to end gets the name.
    partial = directory.with_name(f".partial-{directory.name}-{secrets.token_hex(4)}")
    try:
        for left in directory.parent.glob(f".partial-{directory.name}-*"):
            remove_stale(left)
        partial.mkdir(parents=True)
        spec.save(str(partial))
        for side in ("source", "target") if isinstance(model, Translator) else ():
            getattr(model, f"{side}_tokenizer").save(partial / f"{side}_tokenizer")
        banned = [SPECIAL_TOKENS[token_id] for token_id in (PAD_ID, UNKNOWN_ID, START_ID)]
        readme = ctranslate2_readme(directory.name, banned, *lengths)
        (partial / "README.md").write_text(readme, encoding="utf-8")
        partial.rename(directory)
    except OSError as error:
        raise InputError(f"Cannot write {directory}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
