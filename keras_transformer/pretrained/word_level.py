"""Word and character tokenizers of this package as `tokenizer.json`."""

import itertools
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from keras_transformer._files import as_json, read_file, read_table
from keras_transformer.errors import InputError
from keras_transformer.text import CharacterTokenizer, Tokenizer, WhitespaceTokenizer
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS, Config

_Ids: TypeAlias = npt.NDArray[np.int64]

# Directory of the target tokenizer if it differs; a `tokenizer.json` has one vocabulary.
_TARGET_DIRECTORY = "target_tokenizer"
# White space as in the tokenizers of this package.
_SPACES = r"[\t-\r\x1C-\x20\x{85}\p{Z}]+"
_CLASSES = (CharacterTokenizer, WhitespaceTokenizer)


def _word_level_files(
    tokenizers: tuple[Tokenizer, Tokenizer], token_ids: tuple[_Ids, _Ids], max_length: int
) -> dict[str, bytes]:
    """Return the files of the source and target tokenizers, by name."""
    if not all(isinstance(tokenizer, _CLASSES) for tokenizer in tokenizers):
        kinds = tuple(tokenizer.kind for tokenizer in tokenizers)
        raise ValueError(f"Both tokenizers must be of words or characters, or none. Received: kinds={kinds}.")
    source, target = (
        _files_of_one(tokenizer, ids, max_length)
        for tokenizer, ids in zip(tokenizers, token_ids, strict=True)
    )
    # All special tokens, such as the end token, have the same ids on both sides.
    others = {f"{_TARGET_DIRECTORY}/{name}": content for name, content in target.items()}
    return source if source == target else {**source, **others}


def _read_word_level(directory: Path) -> tuple[Tokenizer, Tokenizer]:
    other = directory / _TARGET_DIRECTORY
    return _read_one(directory), _read_one(other if other.is_dir() else directory)


def _read_one(directory: Path) -> Tokenizer:
    """Read a tokenizer written by `_files_of_one`; raise InputError for other tokenizers."""
    path = directory / "tokenizer.json"
    table = read_table(read_file(path), path)
    numbers = table["model"].get("vocab") if isinstance(table.get("model"), dict) else None
    by_number = {str(number): piece for piece, number in (numbers or {}).items()}
    pieces = [by_number.get(str(number), "") for number in range(len(by_number))]
    given = {name: table.get(name) for name in _split_settings("character", lowercase=False)}
    for cls in _CLASSES:
        for values in itertools.product((False, True), repeat=len(cls.option_names)):
            options = dict(zip(cls.option_names, values, strict=True))
            if given == _split_settings(cls.kind, **options):
                first = tuple(pieces[: len(SPECIAL_TOKENS)])
                if first != SPECIAL_TOKENS:
                    raise InputError(f"{path}: It must start with {SPECIAL_TOKENS}. Received: {first}.")
                try:
                    return cls(pieces[len(SPECIAL_TOKENS) :], **options)
                except ValueError as error:
                    raise InputError(f"{path}: {error}") from error
    raise InputError(f"{path} must split into words or characters as this package. Received: {given!r:.200}.")


def _split_settings(kind: str, *, lowercase: bool, normalize_spaces: bool = False) -> Config:
    """Return the normalizer, splitter and decoder in the format of `tokenizers`."""
    normalizers = []
    if lowercase:
        # `tokenizers` does not know the final form of sigma at the end of a word.
        normalizers += [_replace(r"(?<=\p{L})Σ(?!\p{L})", "ς"), {"type": "Lowercase"}]
    if normalize_spaces:
        normalizers += [_replace(_SPACES, " "), {"type": "Strip", "strip_left": True, "strip_right": True}]
    pattern, behavior = (r"[\s\S]", "Isolated") if kind == "character" else (_SPACES, "Removed")
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers} if normalizers else None,
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": pattern},
            "behavior": behavior,
            "invert": False,
        },
        "decoder": {"type": "Fuse"} if kind == "character" else None,
    }


def _replace(pattern: str, content: str) -> Config:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _files_of_one(tokenizer: Tokenizer, token_ids: _Ids, max_length: int) -> dict[str, bytes]:
    [named] = tokenizer.tokens([range(len(token_ids))]).numpy()
    names = [*SPECIAL_TOKENS, *(piece.decode() for piece in named[len(SPECIAL_TOKENS) :])]
    special = dict(zip(("pad", "unk", "bos", "eos"), SPECIAL_TOKENS, strict=True))
    # End token after each text.
    end = {"SpecialToken": {"id": special["eos"], "type_id": 0}}
    text, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    end_token = {"id": special["eos"], "ids": [SPECIAL_IDS.end], "tokens": [special["eos"]]}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    table = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": name, **flags, "special": True}
            for number, name in zip(SPECIAL_IDS, SPECIAL_TOKENS, strict=True)
        ],
        **_split_settings(tokenizer.kind, **tokenizer.options),
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [text, end],
            "pair": [text, second, end],
            "special_tokens": {special["eos"]: end_token},
        },
        "model": {
            "type": "WordLevel",
            "vocab": dict(zip(names, token_ids.tolist(), strict=True)),
            "unk_token": special["unk"],
        },
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{name}_token": token for name, token in special.items()},
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": max_length,
    }
    tables = {"tokenizer.json": table, "tokenizer_config.json": settings}
    return {name: as_json(each) for name, each in tables.items()}
