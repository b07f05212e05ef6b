"""Tokenizers of subwords as classes of `transformers` read them: a model that splits, names and their ids."""

import base64
import json

import numpy as np

from keras_transformer.text.languages import _LANGUAGES
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import SPECIAL_TOKENS, Config

_PAD, _UNKNOWN, _START, _END = "<pad>", "<unk>", "<s>", "</s>"
# Where another token has that name.
_OTHER_START = "<start>"
# By the class that puts them in front of texts: the languages, and how their tokens are made.
_CLASSES = {
    "M2M100Tokenizer": ("m2m100 wmt21", "__{}__"),
    "MBart50Tokenizer": ("mbart mbart50", "{}"),
    "NllbTokenizer": ("nllb", "{}"),
}


def _subword_files(
    tokenizers: tuple[Tokenizer, Tokenizer], token_ids: tuple[np.ndarray, np.ndarray], max_length: int
) -> dict[str, bytes]:
    """Return the content of each file of the tokenizers of source and target."""
    descriptions = [tokenizer._description() for tokenizer in tokenizers]
    kinds = tuple(tokenizer.kind for tokenizer in tokenizers)
    source, target = descriptions
    if not source or not target or source["kind"] != target["kind"]:
        raise ValueError(f"Both tokenizers must be of subwords, of one kind. Received: kinds={kinds}.")
    if source.get("suffix"):
        raise ValueError(f"A text must end with its end. Received: {source['suffix']} after it.")
    starts, vocabularies = zip(*map(_vocabulary, tokenizers, token_ids), strict=True)
    settings: Config = {
        "pad_token": _PAD,
        "unk_token": _UNKNOWN,
        "eos_token": _END,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
        **({"bos_token": starts[1]} if starts[1] in vocabularies[1] else {}),
    }
    hidden = {*starts, *source["hidden"], *target["hidden"]}
    numbers = {**vocabularies[0], **vocabularies[1]}
    never_text = {piece: number for piece, number in numbers.items() if piece in hidden}
    # The first says that they are left out of a text, the second that they are special.
    settings["additional_special_tokens"] = [*never_text]
    settings["added_tokens_decoder"] = {
        str(number): {"content": piece, "special": True} for piece, number in never_text.items()
    }
    make = _FILES[source["kind"]]
    # Of Marian, who asks has to write the language in front of a text.
    if source["kind"] == "named_pieces" and not source["code"] and (source["prefix"] or target["prefix"]):
        make = _language_files
    files, more = make(descriptions, vocabularies)
    files["tokenizer_config.json"] = _json({**settings, **more})
    return files


def _vocabulary(tokenizer: Tokenizer, token_ids: np.ndarray) -> tuple[str, dict[str, int]]:
    """Return the name of the start token, and the id there of each piece that has one."""
    names = [piece.decode() for piece in tokenizer.tokens([list(range(len(token_ids)))]).numpy()[0]]
    regular = names[len(SPECIAL_TOKENS) :]
    start = _OTHER_START if _START in regular else _START
    special = [_PAD, _UNKNOWN, start, _END]
    if taken := {*special}.intersection(regular):
        raise ValueError(
            f"A vocabulary must have no piece that is one of {special}. Received: {min(taken)!r}."
        )
    ids = zip([*special, *regular], token_ids.tolist(), strict=True)
    return start, {name: number for name, number in ids if number >= 0}


def _marian_files(
    descriptions: list[Config], vocabularies: tuple[dict[str, int], ...]
) -> tuple[dict[str, bytes], Config]:
    # Nothing splits as SentencePiece but SentencePiece. This class runs it, with one vocabulary or two.
    source, target = vocabularies
    models = {
        f"{side}.spm": _model(each) for side, each in zip(("source", "target"), descriptions, strict=True)
    }
    tables = {"vocab.json": _json(source)}
    if source != target:
        tables["target_vocab.json"] = _json(target)
    return {**models, **tables}, {"tokenizer_class": "MarianTokenizer", "separate_vocabs": source != target}


def _language_files(
    descriptions: list[Config], vocabularies: tuple[dict[str, int], ...]
) -> tuple[dict[str, bytes], Config]:
    prefixes = [description["prefix"] for description in descriptions]
    fitting = [name for name in _CLASSES if all(_is_language(name, prefix) for prefix in prefixes)]
    if not fitting:
        raise ValueError(f"Each text must begin with the token of its language. Received: {prefixes}.")
    name, codes = fitting[0], _language_tokens(fitting[0])
    source, target = (codes[prefix[0]] for prefix in prefixes)
    settings = {"tokenizer_class": name, "src_lang": source, "tgt_lang": target}
    files = {"sentencepiece.bpe.model": _model(descriptions[0])}
    if name == "M2M100Tokenizer":
        # They follow what is listed, and after them come rows of the table that have no token.
        present = [number for piece, number in vocabularies[0].items() if piece in codes]
        listed = {piece: number for piece, number in vocabularies[0].items() if number < min(present)}
        files["vocab.json"] = _json(listed)
        settings["language_codes"] = "m2m100" if len(present) == len(codes) else "wmt21"
    return files, settings


def _is_language(name: str, prefix: list[str]) -> bool:
    return len(prefix) == 1 and prefix[0] in _language_tokens(name)


def _language_tokens(name: str) -> dict[str, str]:
    """Return the language of each token that a class puts in front of texts."""
    families, form = _CLASSES[name]
    return {form.format(code): code for family in families.split() for code in _LANGUAGES[family].split()}


def _byte_level_files(
    descriptions: list[Config], vocabularies: tuple[dict[str, int], ...]
) -> tuple[dict[str, bytes], Config]:
    merges = "".join(f"{merge}\n" for merge in descriptions[0]["merges"])
    files = {"vocab.json": _json(vocabularies[0]), "merges.txt": f"#version: 0.2\n{merges}".encode()}
    space = descriptions[0]["add_prefix_space"]
    return files, {"tokenizer_class": "BartTokenizer", "add_prefix_space": space}


def _byte_files(_: list[Config], vocabularies: tuple[dict[str, int], ...]) -> tuple[dict[str, bytes], Config]:
    number = sum(piece.startswith("<extra_id_") for piece in vocabularies[0])
    return {}, {"tokenizer_class": "ByT5Tokenizer", "extra_ids": number}


def _model(description: Config) -> bytes:
    return base64.b64decode(description["proto"])


def _json(table: Config) -> bytes:
    return (json.dumps(table, indent=2) + "\n").encode()


_FILES = {"named_pieces": _marian_files, "byte_level": _byte_level_files, "bytes": _byte_files}
