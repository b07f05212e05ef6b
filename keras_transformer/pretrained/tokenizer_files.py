"""JSON files of a tokenizer: settings, added tokens, and `tokenizer.json` as a SentencePiece model."""

import base64
import binascii
import dataclasses
import re
import reprlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from keras_transformer.errors import InputError
from keras_transformer.pretrained.directory import _MAX_ROWS, _Directory, _typed
from keras_transformer.types import Config

_SETTINGS, _FAST = "tokenizer_config.json", "tokenizer.json"
_TEXT = "TEXT"  # in messages, between the tokens around it
_SPACE = "\u2581"  # symbol of a space in pieces
# A regular expression of white space only, with its repetitions.
_SPACES = rf"(\\[stnrvf]|[ \t\n\r\u00a0{_SPACE}\[\]()|^$+*]|\{{\d*,?\d*\}})+"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Settings:
    """Settings of `tokenizer_config.json` that change ids, with the defaults of `transformers`."""

    tokenizer_class: str | None = None
    add_prefix_space: bool = False
    extra_ids: int | None = None
    language_codes: str = "m2m100"
    legacy_behaviour: bool = False
    model_max_length: float | None = None
    offset: int = 103
    separate_vocabs: bool = False
    src_lang: str | None = None
    tgt_lang: str | None = None

    def number(self, files: _Directory, name: str, default: int) -> int:
        """Return a setting that is a number of tokens."""
        value: int | None = getattr(self, name)
        value = default if value is None else value
        if not 0 <= value <= _MAX_ROWS:
            wanted = f"`{name}` must be from 0 to {_MAX_ROWS}"
            raise InputError(f"{files.path / _SETTINGS}: {wanted}. Received: {value}.")
        return value


@dataclasses.dataclass(frozen=True, kw_only=True)
class _AddedToken:
    """Token outside the SentencePiece or BPE model."""

    id: int
    content: str
    special: bool = False
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class _AddedTokens:
    added_tokens: tuple[_AddedToken, ...] = ()


def _read_settings(files: _Directory) -> _Settings:
    return files.read(_SETTINGS, _Settings, optional=True)


def _added_tokens(files: _Directory) -> list[_AddedToken]:
    """Return the added tokens of all three possible files, ordered by id."""
    found: dict[int, _AddedToken] = {}
    for path, tables in _added_tables(files):
        names = {field.name for field in dataclasses.fields(_AddedToken)}
        given = [
            {name: each[name] for name in names & each.keys()} if isinstance(each, dict) else each
            for each in tables
        ]
        for token in _typed({"added_tokens": given}, path, _AddedTokens).added_tokens:
            if not 0 <= token.id <= _MAX_ROWS:
                wanted = f"the id of the added token {token.content!r} must be from 0 to {_MAX_ROWS}"
                raise InputError(f"{path}: {wanted}. Received: {token.id}.")
            if not token.content:
                raise InputError(f"{path}: the added token {token.id} must have a `content`. Received: ''.")
            found.setdefault(token.id, token)
    return [found[number] for number in sorted(found)]


def _added_tables(files: _Directory) -> Iterator[tuple[Path, list[Any]]]:
    path, name = files.path / _SETTINGS, "added_tokens_decoder"
    table = files.table(path.name, optional=True).get(name) or {}
    if not isinstance(table, dict) or not all(number.isdecimal() for number in table):
        raise InputError(f"{path}: `{name}` must have a token for each id. Received: {reprlib.repr(table)}.")
    yield path, [{"id": int(number[:10]), **_dict(each)} for number, each in table.items()]
    path = files.path / _FAST
    tokens = files.table(path.name, optional=True).get("added_tokens") or []
    yield path, tokens if isinstance(tokens, list) else [tokens]
    path = files.path / "added_tokens.json"
    yield (
        path,
        [
            {"id": number, "content": content}
            for content, number in files.table(path.name, optional=True).items()
        ],
    )


def _dict(value: Any) -> Config:
    return value if isinstance(value, dict) else {"content": value}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Unigram:
    type: Literal["Unigram"]
    vocab: tuple[tuple[str, float], ...]
    unk_id: int
    byte_fallback: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class _BytePairs:
    type: Literal["BPE"]
    vocab: dict[str, int]
    merges: tuple[str | tuple[str, str], ...]
    unk_token: str | None = None
    byte_fallback: bool = False
    ignore_merges: bool = False
    dropout: float | None = None
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None


def _has_only_fast(files: _Directory, name: str) -> bool:
    """Return whether the directory has `tokenizer.json` instead of the given file."""
    return not (files.path / name).exists() and (files.path / _FAST).exists()


def _fast_model(files: _Directory) -> _Unigram | _BytePairs:
    path = files.path / _FAST
    table = files.table(_FAST).get("model")
    kind = table.get("type") if isinstance(table, dict) else None
    if not isinstance(table, dict) or kind not in ("Unigram", "BPE", None):
        wanted = "`model` must be of the type 'Unigram' or 'BPE'"
        raise InputError(f"{path}: {wanted}. Received: {reprlib.repr(table if kind is None else kind)}.")
    # Older files do not name the type.
    kind = kind or ("BPE" if "merges" in table else "Unigram")
    table = {**table, "type": kind}
    if kind == "Unigram":
        return _typed(table, path, _Unigram)
    model = _typed(table, path, _BytePairs)
    for name in ("ignore_merges", "dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if value := getattr(model, name):
            raise InputError(f"{path}: `{name}` must not be set. Received: {value!r:.80}.")
    return model


def _fast_sentence_piece(files: _Directory) -> tuple[str, list[str], bool]:
    """Convert `tokenizer.json` into a SentencePiece model.

    Returns the model in Base64, its pieces, and whether all white space counts as a space.
    """
    from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

    path, model = files.path / _FAST, _fast_model(files)
    table = files.table(_FAST)
    characters, has_words = _normalizer(path, table), _splits_words(path, table)
    pieces, scores, unknown = _scored_pieces(files, path, model)
    control = {token.content for token in _added_tokens(files) if token.special}
    proto = sentencepiece_model_pb2.ModelProto()
    kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
    for number, (piece, score) in enumerate(zip(pieces, scores, strict=True)):
        kind = kinds.CONTROL if piece in control or score is None else kinds.NORMAL
        if model.byte_fallback and len(piece) == 6 and piece.startswith("<0x"):
            kind = kinds.BYTE
        kind = kinds.UNKNOWN if number == unknown else kind
        proto.pieces.add(piece=piece, score=score or 0.0, type=kind)
    trainer, normalizer = proto.trainer_spec, proto.normalizer_spec
    trainer.model_type = trainer.BPE if isinstance(model, _BytePairs) else trainer.UNIGRAM
    trainer.vocab_size, trainer.unk_id, trainer.unk_piece = len(pieces), unknown, pieces[unknown]
    trainer.bos_id = trainer.eos_id = trainer.pad_id = -1
    trainer.byte_fallback = model.byte_fallback
    normalizer.precompiled_charsmap = characters
    normalizer.add_dummy_prefix = normalizer.remove_extra_whitespaces = normalizer.escape_whitespaces = True
    content = proto.SerializeToString()
    try:
        SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:  # for example a duplicate or empty piece
        message = " ".join(str(error).split())
        raise InputError(f"{path}: `vocab` must be that of a SentencePiece model: {message:.200}.") from error
    return base64.b64encode(content).decode(), pieces, has_words and not characters


def _scored_pieces(
    files: _Directory, path: Path, model: _Unigram | _BytePairs
) -> tuple[list[str], list[float | None], int]:
    """Return pieces, scores (None for pieces that no text is split into), and the id of the unknown token."""
    if isinstance(model, _Unigram):
        pieces = [piece for piece, _ in model.vocab]
        if not 0 <= model.unk_id < len(pieces):
            wanted = f"`unk_id` must be below {len(pieces)}, the pieces"
            raise InputError(f"{path}: {wanted}. Received: {model.unk_id}.")
        return pieces, [score for _, score in model.vocab], model.unk_id
    pieces = files.ordered(path, model.vocab)
    if model.unk_token not in model.vocab:
        wanted = "`unk_token` must be in the vocabulary"
        raise InputError(f"{path}: {wanted}. Received: {model.unk_token!r}.")
    ranks: dict[str, int] = {}
    for merge in model.merges:
        ranks.setdefault(merge.replace(" ", "") if isinstance(merge, str) else "".join(merge), len(ranks))
    # SentencePiece merges pairs by the highest score of the result. Characters need no merge.
    scores = [
        -float(ranks[piece]) if piece in ranks else 0.0 if len(piece) == 1 else None for piece in pieces
    ]
    return pieces, scores, model.vocab[str(model.unk_token)]


def _steps(path: Path, table: Config, name: str, inner: str) -> Iterator[Config]:
    """Yield the steps of a part of `tokenizer.json`, which may be a sequence."""
    step = table.get(name)
    if step is None:
        return
    if not isinstance(step, dict):
        raise InputError(f"{path}: `{name}` must be an object. Received: {reprlib.repr(step)}.")
    steps = step.get(inner) if step.get("type") == "Sequence" else [step]
    for each in steps if isinstance(steps, list) else [steps]:
        if not isinstance(each, dict):
            raise InputError(f"{path}: `{name}` must have objects. Received: {reprlib.repr(each)}.")
        yield each


def _normalizer(path: Path, table: Config) -> bytes:
    """Return the character table of the normalizer; raise InputError if it is not SentencePiece's."""
    characters = b""
    for step in _steps(path, table, "normalizer", "normalizers"):
        # SentencePiece itself collapses and strips spaces.
        pattern = step.get("pattern")
        searched = next(iter(pattern.values()), "") if isinstance(pattern, dict) else " "
        is_spaces = (
            step.get("type") in ("Replace", "Strip")
            and step.get("content", " ") in (" ", _SPACE)
            and re.fullmatch(_SPACES, str(searched)) is not None
        )
        if step.get("type") == "Precompiled":
            try:
                characters = base64.b64decode(str(step.get("precompiled_charsmap")), validate=True)
            except (binascii.Error, ValueError) as error:
                raise InputError(
                    f"{path}: `precompiled_charsmap` must be Base64. Received: {error}."
                ) from error
        elif not is_spaces:
            wanted = "`normalizer` must be that of a SentencePiece model"
            raise InputError(f"{path}: {wanted}. Received: {reprlib.repr(step)}.")
    return characters


def _check_surroundings(files: _Directory, before: Sequence[str], after: Sequence[str]) -> None:
    """Raise InputError unless `tokenizer.json` puts these tokens around a text."""
    path = files.path / _FAST
    found, wanted = [_TEXT], " ".join([*before, _TEXT, *after])
    for step in _steps(path, files.table(_FAST), "post_processor", "processors"):
        if step.get("type") == "ByteLevel":  # it changes offsets only
            continue
        try:
            found = _surroundings(step)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            received = reprlib.repr(step)
            raise InputError(
                f"{path}: `post_processor` must add tokens around a text. Received: {received}."
            ) from error
    if " ".join(found) != wanted:
        received = " ".join(found)
        raise InputError(f"{path}: `post_processor` must make {wanted} of a text. Received: {received}.")


def _surroundings(step: Config) -> list[str]:
    """Return the tokens of a post-processor, with `_TEXT` between them; raise for other kinds."""
    if step.get("type") in ("BertProcessing", "RobertaProcessing"):
        return [str(step["cls"][0]), _TEXT, str(step["sep"][0])]
    if step.get("type") != "TemplateProcessing":
        raise ValueError(step)
    parts = [part for each in step["single"] for part in each.items()]
    return [_TEXT if kind == "Sequence" else str(value["id"]) for kind, value in parts]


def _splits_words(path: Path, table: Config) -> bool:
    """Return whether texts are split at all white space; raise InputError for other rules."""
    found = [*_steps(path, table, "pre_tokenizer", "pretokenizers")]
    for step in found:
        is_prefixed = step.get("prepend_scheme", "always") != "never" and step.get("add_prefix_space", True)
        is_space = (
            step.get("type") == "Metaspace" and step.get("replacement", _SPACE) == _SPACE and is_prefixed
        )
        if not is_space and step.get("type") != "WhitespaceSplit":
            wanted = "`pre_tokenizer` must be that of a SentencePiece model"
            raise InputError(f"{path}: {wanted}. Received: {reprlib.repr(step)}.")
    return any(step["type"] == "WhitespaceSplit" for step in found)
