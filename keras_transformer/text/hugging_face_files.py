"""Tokenizers as `transformers.MarianTokenizer` has them: SentencePiece, and a table of names and ids."""

import json

import numpy as np

from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import SPECIAL_TOKENS, Config

_PAD, _UNKNOWN, _START, _END = "<pad>", "<unk>", "<s>", "</s>"
# Where another token has that name.
_OTHER_START = "<start>"


def _marian_files(
    tokenizers: tuple[Tokenizer, Tokenizer], token_ids: tuple[np.ndarray, np.ndarray], max_length: int
) -> dict[str, bytes]:
    """Return the content of each file of the tokenizers of source and target."""
    # Nothing splits as SentencePiece but SentencePiece, and this class runs it, with one vocabulary or two.
    models = [model for tokenizer in tokenizers if (model := tokenizer._sentence_piece()) is not None]
    if len(models) < len(tokenizers):
        kinds = tuple(tokenizer.kind for tokenizer in tokenizers)
        raise ValueError(f"Both tokenizers must be of subwords, or none. Received: kinds={kinds}.")
    starts, vocabularies = zip(*map(_vocabulary, tokenizers, token_ids), strict=True)
    hidden = {*starts, *(piece for _, pieces in models for piece in pieces)}
    source, target = vocabularies
    settings: Config = {
        **({"bos_token": starts[1]} if starts[1] in target else {}),
        "tokenizer_class": "MarianTokenizer",
        "pad_token": _PAD,
        "unk_token": _UNKNOWN,
        "eos_token": _END,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
        "separate_vocabs": source != target,
        "added_tokens_decoder": {
            str(number): {"content": piece, "special": True}
            for piece, number in {**source, **target}.items()
            if piece in hidden
        },
    }
    tables = {"vocab.json": source, "tokenizer_config.json": settings}
    if source != target:
        tables["target_vocab.json"] = target
    files = {name: (json.dumps(table, indent=2) + "\n").encode() for name, table in tables.items()}
    return {**files, "source.spm": models[0][0], "target.spm": models[1][0]}


def _vocabulary(tokenizer: Tokenizer, token_ids: np.ndarray) -> tuple[str, dict[str, int]]:
    """Return the name of the start token, and the id there of each piece that has one."""
    names = [piece.decode() for piece in tokenizer.tokens([list(range(len(token_ids)))]).numpy()[0]]
    regular = names[len(SPECIAL_TOKENS) :]
    start = _OTHER_START if _START in regular else _START
    special = [_PAD, _UNKNOWN, start, _END]
    if taken := {*special}.intersection(regular):
        raise ValueError(
            f"A vocabulary must have no pieces of the names {special}. Received: {min(taken)!r}."
        )
    ids = zip([*special, *regular], token_ids.tolist(), strict=True)
    # Without the rows of a table that have no token: the import counts them again.
    return start, {name: number for name, number in ids if number >= 0 and not name.startswith("<no token ")}
