"""Tokenizers of pretrained encoders: WordPiece (BERT) and byte-level BPE (RoBERTa)."""

import dataclasses
from typing import Any, Literal

from keras_transformer._files import read_file
from keras_transformer.errors import InputError
from keras_transformer.pretrained.directory import _MAX_ROWS, _Directory, _typed
from keras_transformer.pretrained.tokenizer_files import (
    _FAST,
    _SETTINGS,
    _added_tokens,
    _has_only_fast,
    _read_settings,
    _steps,
)
from keras_transformer.pretrained.tokenizers import (
    _END,
    _MASK,
    _NO_TOKEN,
    _SPECIAL,
    _START,
    _UNKNOWN,
    _byte_pairs,
    _Reader,
    _refuse_language,
    _stripped,
    _vocabulary,
)
from keras_transformer.text import BertTokenizer, BytePairTokenizer, Tokenizer

# Classes that read all settings from `tokenizer.json`.
_FAST_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _BertSettings:
    """Settings of `tokenizer_config.json` that change ids, with the defaults of `transformers`."""

    do_lower_case: bool = True
    do_basic_tokenize: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    pad_token: str | dict[str, Any] = "[PAD]"
    unk_token: str | dict[str, Any] = "[UNK]"
    cls_token: str | dict[str, Any] = "[CLS]"
    sep_token: str | dict[str, Any] = "[SEP]"
    mask_token: str | dict[str, Any] = "[MASK]"


_TOKENS = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _WordPieces:
    type: Literal["WordPiece"]
    vocab: dict[str, int]
    unk_token: str = "[UNK]"
    continuing_subword_prefix: str = "##"
    max_input_chars_per_word: int = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Normalizer:
    type: Literal["BertNormalizer"] = "BertNormalizer"
    clean_text: bool = True
    handle_chinese_chars: bool = True
    strip_accents: bool | None = None
    lowercase: bool = True


def _read_bert(files: _Directory, source: str | None, target: str | None) -> tuple[Tokenizer, Tokenizer]:
    """Read `vocab.txt` or `tokenizer.json`, and the settings of word splitting."""
    _refuse_language(files, source, target)
    path, settings = files.path / _SETTINGS, files.read(_SETTINGS, _BertSettings, optional=True)
    if (_read_settings(files).tokenizer_class or "").removesuffix("Fast") in _FAST_CLASSES:
        settings = _fast_settings(files, settings)
    if not settings.do_basic_tokenize:
        raise InputError(f"{path}: `do_basic_tokenize` must be true. Received: false.")
    names = []
    for field in _TOKENS:
        given, default = getattr(settings, field), getattr(_BertSettings, field)
        if given != default and (not isinstance(given, dict) or given.get("content") != default):
            raise InputError(f"{path}: `{field}` must be {default!r}. Received: {given!r:.80}.")
        names.append(default)
    pad, unknown, start, end, mask = names
    pieces = _fast_pieces(files) if _has_only_fast(files, "vocab.txt") else _listed_pieces(files)
    vocabulary = _vocabulary(files, pieces, [mask], special=((pad,), (unknown,), (start,), (end,)))
    others = [token.content for token in _added_tokens(files) if not token.special]
    if settings.do_lower_case and {*others} & {*vocabulary["split_tokens"]}:
        # The original searches for them after lowercasing.
        received = f"{others[0]!r}, with do_lower_case=true"
        raise InputError(f"{files.path}: added tokens must be special ones. Received: {received}.")
    accents = settings.do_lower_case if settings.strip_accents is None else settings.strip_accents
    spec = BertTokenizer.Spec(
        **vocabulary,
        prefix=(start,),
        special_in_text=tuple(name for name in names[1:] if name in vocabulary["pieces"]),
        lowercase=settings.do_lower_case,
        strip_accents=accents,
        split_on_cjk=settings.tokenize_chinese_chars,
    )
    return (BertTokenizer(spec),) * 2


def _fast_settings(files: _Directory, settings: _BertSettings) -> _BertSettings:
    path, name = files.path / _FAST, "normalizer"
    table = files.table(_FAST).get(name)
    if not isinstance(table, dict) or table.get("type") != "BertNormalizer":
        raise InputError(f"{path}: `{name}` must be a BertNormalizer. Received: {table!r:.80}.")
    for step in _steps(path, files.table(_FAST), "pre_tokenizer", "pretokenizers"):
        if step.get("type") != "BertPreTokenizer":
            wanted = "`pre_tokenizer` must be a BertPreTokenizer"
            raise InputError(f"{path}: {wanted}. Received: {step.get('type')!r:.80}.")
    given = _typed(table, path, _Normalizer)
    if not given.clean_text:
        raise InputError(f"{path}: `clean_text` must be true. Received: false.")
    return dataclasses.replace(
        settings,
        do_lower_case=given.lowercase,
        strip_accents=given.strip_accents,
        tokenize_chinese_chars=given.handle_chinese_chars,
    )


def _listed_pieces(files: _Directory) -> list[str]:
    path = files.path / "vocab.txt"
    text = read_file(path).decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    lines = text.removesuffix("\n").split("\n")
    # If a line occurs twice, the last one has the id.
    last = {piece: number for number, piece in enumerate(lines)}
    return [
        piece if piece and last[piece] == number else _NO_TOKEN.format(number)
        for number, piece in enumerate(lines)
    ]


def _fast_pieces(files: _Directory) -> list[str]:
    path, table = files.path / _FAST, files.table(_FAST).get("model")
    if not isinstance(table, dict) or table.get("type", "WordPiece") != "WordPiece":
        received = table.get("type") if isinstance(table, dict) else table
        raise InputError(f"{path}: `model` must be of the type 'WordPiece'. Received: {received!r:.80}.")
    model = _typed({"type": "WordPiece", **table}, path, _WordPieces)
    for name in ("unk_token", "continuing_subword_prefix", "max_input_chars_per_word"):
        given, wanted = getattr(model, name), getattr(_WordPieces, name)
        if given != wanted:
            raise InputError(f"{path}: `{name}` must be {wanted!r}. Received: {given!r:.80}.")
    # A token that was listed twice leaves a gap in the ids.
    by_number = {number: piece for piece, number in model.vocab.items() if piece}
    for number, piece in by_number.items():
        if not 0 <= number < _MAX_ROWS:
            wanted = f"the id of {piece!r:.80} must be from 0 to {_MAX_ROWS - 1}"
            raise InputError(f"{path}: {wanted}. Received: {number}.")
    rows = range(max(by_number, default=-1) + 1)
    return [by_number.get(number, _NO_TOKEN.format(number)) for number in rows]


def _read_roberta(files: _Directory, source: str | None, target: str | None) -> tuple[Tokenizer, Tokenizer]:
    """Read BART's byte pairs, with start and end token around each text."""
    _refuse_language(files, source, target)
    pieces, byte_pairs = _byte_pairs(files)
    vocabulary = _vocabulary(files, pieces, special=_SPECIAL)
    in_text = [name for name in (_START, _END, _UNKNOWN, _MASK) if name in vocabulary["pieces"]]
    spec = BytePairTokenizer.Spec(
        **vocabulary,
        **byte_pairs,
        prefix=(_START,),
        special_in_text=tuple(in_text),
        stripped=_stripped(files, [*vocabulary["split_tokens"], *in_text]),
    )
    return (BytePairTokenizer(spec),) * 2


_ENCODER_READERS: dict[object, _Reader] = {
    "BertTokenizer": _read_bert,
    "DistilBertTokenizer": _read_bert,
    "RobertaTokenizer": _read_roberta,
}
