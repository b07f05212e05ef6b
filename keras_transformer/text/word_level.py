"""Tokenizers of words and characters as a `tokenizer.json`, which the package `tokenizers` reads."""

import json

import numpy as np

from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS, Config

# Of targets, where the vocabulary is another one: a file has one.
_TARGET_DIRECTORY = "target_tokenizer"
# White space, as `_single_spaces` has it.
_SPACES = r"[\t-\r\x1C-\x20\x{85}\p{Z}]+"
_KINDS = ("character", "whitespace")


def _steps(kind: str, *, lowercase: bool, normalize_spaces: bool = False) -> Config:
    """Return how texts are split and joined, in the words of `tokenizers`."""
    normalizers = []
    if lowercase:
        # At the end of a word sigma has a form of its own, which `tokenizers` does not know.
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


def _word_level_files(
    tokenizers: tuple[Tokenizer, Tokenizer], token_ids: tuple[np.ndarray, np.ndarray], max_length: int
) -> dict[str, bytes]:
    """Return the content of each file of the tokenizers of source and target."""
    kinds = tuple(tokenizer.kind for tokenizer in tokenizers)
    if not {*kinds} <= {*_KINDS}:
        raise ValueError(f"Both tokenizers must be of words or characters, or none. Received: kinds={kinds}.")
    source, target = (
        _files(tokenizer, ids, max_length) for tokenizer, ids in zip(tokenizers, token_ids, strict=True)
    )
    # The end of a source and that of a target have one id, as all special tokens have.
    others = {f"{_TARGET_DIRECTORY}/{name}": content for name, content in target.items()}
    return source if source == target else {**source, **others}


def _files(tokenizer: Tokenizer, token_ids: np.ndarray, max_length: int) -> dict[str, bytes]:
    names = [*SPECIAL_TOKENS, *(piece.decode() for piece in tokenizer._pieces.numpy()[len(SPECIAL_TOKENS) :])]
    special = dict(zip(("pad", "unk", "bos", "eos"), SPECIAL_TOKENS, strict=True))
    # What follows each text.
    end, text = (
        {"SpecialToken": {"id": special["eos"], "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    )
    own = {"id": special["eos"], "ids": [SPECIAL_IDS.end], "tokens": [special["eos"]]}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    table = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": name, **flags, "special": True}
            for number, name in zip(SPECIAL_IDS, SPECIAL_TOKENS, strict=True)
        ],
        **_steps(tokenizer.kind, **tokenizer.options),
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [text, end],
            "pair": [text, {"Sequence": {"id": "B", "type_id": 0}}, end],
            "special_tokens": {special["eos"]: own},
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
    return {name: (json.dumps(each, indent=2) + "\n").encode() for name, each in tables.items()}
