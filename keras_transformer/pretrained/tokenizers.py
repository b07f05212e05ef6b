"""Import and export of pretrained tokenizers."""

import base64
import contextlib
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_transformer._files import as_json, read_file
from keras_transformer.errors import InputError
from keras_transformer.pretrained.directory import _MAX_ROWS, _Directory
from keras_transformer.pretrained.graph_tokenizers import _ByteTokenizer, _NamedPieceTokenizer
from keras_transformer.pretrained.languages import _LANGUAGES
from keras_transformer.pretrained.tokenizer_files import (
    _FAST,
    _SETTINGS,
    _added_tokens,
    _AddedToken,
    _BytePairs,
    _fast_model,
    _fast_sentence_piece,
    _has_only_fast,
    _read_settings,
    _steps,
)
from keras_transformer.text import AdaptedTokenizer, BytePairTokenizer, SubwordTokenizer, Tokenizer
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS, Config

_Ids: TypeAlias = npt.NDArray[np.int64]
_Reader: TypeAlias = Callable[[_Directory, str | None, str | None], tuple[Tokenizer, Tokenizer]]
_Files: TypeAlias = tuple[dict[str, bytes], Config]

_PAD, _UNKNOWN, _START, _END, _MASK = "<pad>", "<unk>", "<s>", "</s>", "<mask>"
_SPECIAL = ((_PAD,), (_UNKNOWN,), (_START,), (_END,))
_FAIRSEQ = (_START, _PAD, _END, _UNKNOWN)  # replaces the first three pieces of SentencePiece
_OTHER_START = "<start>"  # if another token is named `_START`
_NO_TOKEN = "<no token {}>"  # for a row of the embedding without a token
# Multilingual tokenizer classes: format of the language tokens, and the languages.
_LANGUAGE_CLASSES = {
    "M2M100Tokenizer": ("__{}__", "m2m100"),
    "MBart50Tokenizer": ("{}", "mbart mbart50"),
    "NllbTokenizer": ("{}", "nllb"),
    "MBartTokenizer": ("{}", "mbart"),
}


def _vocabulary(
    files: _Directory,
    pieces: Sequence[str],
    hidden: Sequence[str] = (),
    *,
    size: str = "vocab_size",
    special: Sequence[tuple[str, ...]] | None = None,
) -> Config:
    """Return the fields of a `Spec` that cover all ids of the model, including added tokens."""
    rows = files.config.get(size)
    pieces, never_text, split = [*pieces], [*hidden, _START, _MASK], []
    limit = _MAX_ROWS if type(rows) is not int else min(rows, _MAX_ROWS)
    known = {*pieces, *never_text}
    for token in _added_tokens(files):
        number, name = token.id, token.content
        if number >= max(limit, len(pieces)):
            # The model has no row for it; an error only if a text can contain it.
            _check_unwritten(files, [name] if not token.special else [], limit, size)
            continue
        pieces += [_NO_TOKEN.format(at) for at in range(len(pieces), number + 1)]
        is_new = pieces[number] != name
        if is_new and not token.special and not pieces[number].startswith("<no token "):
            wanted = f"the added token {name!r} must have a separate id"
            raise InputError(f"{files.path}: {wanted}. Received: {number}, that of {pieces[number]!r}.")
        pieces[number] = name
        never_text += [name] * token.special
        if not token.special or name not in known:
            _check_recognized(files, token)
            split.append(name)
    rows = len(pieces) if rows is None else rows
    if type(rows) is not int or not 0 < rows <= _MAX_ROWS:
        wanted = f"`{size}` must be from 1 to {_MAX_ROWS}"
        raise InputError(f"{files.path / 'config.json'}: {wanted}. Received: {rows!r}.")
    # Some models have no row for tokens that never occur in a text, such as <mask>.
    _check_unwritten(files, [piece for piece in pieces[rows:] if piece not in never_text], rows, size)
    pieces = [*pieces[:rows], *(_NO_TOKEN.format(at) for at in range(len(pieces), rows))]
    if special is None:
        # Models exported by this package start from their own token.
        start = files.config.get("decoder_start_token_id")
        is_start = _START in pieces and pieces.index(_START) == start
        special = [names if names != (_START,) or is_start else () for names in _SPECIAL]
    for name in (name for names in special for name in names):
        if name not in pieces:
            raise InputError(
                f"{files.path}: the vocabulary must have {name!r}. Received: {len(pieces)} others."
            )
    never_text += [piece for piece in pieces if piece.startswith("<no token ")]
    fields = {"pieces": tuple(pieces), "special": tuple(special), "hidden": tuple(dict.fromkeys(never_text))}
    return {**fields, "split_tokens": tuple(name for name in split if name in pieces)}


def _check_recognized(files: _Directory, token: _AddedToken) -> None:
    """Raise InputError if an added token is recognized only in some surroundings."""
    for field in ("single_word", "rstrip"):
        if getattr(token, field):
            wanted = f"`{field}` of added tokens must be false"
            raise InputError(f"{files.path}: {wanted}. Received: true for {token.content!r}.")


def _check_unwritten(files: _Directory, texts: Sequence[str], rows: int, size: str) -> None:
    if texts:
        wanted = f"`{size}` must be at least the tokens of the vocabulary"
        received = f"{rows}, without a row for {texts[0]!r}"
        raise InputError(f"{files.path / 'config.json'}: {wanted}. Received: {received}.")


def _split_model(files: _Directory, name: str, first: Sequence[str] = ()) -> tuple[Config, list[str], bool]:
    """Return fields of a `Spec`, the pieces, and whether the pieces cover all ids of the model.

    A SentencePiece model covers only its own pieces. Without one, `tokenizer.json` is read, which covers all.
    """
    if not _has_only_fast(files, name):
        proto, pieces = files.sentence_piece(name, first)
        return {"proto": proto}, pieces, False
    proto, pieces, has_spaces = _fast_sentence_piece(files)
    return {"proto": proto, "has_spaces": has_spaces}, pieces, True


def _named_pieces(vocabulary: Config, **others: Any) -> Tokenizer:
    spec = _NamedPieceTokenizer.Spec(**vocabulary, **others)
    return _own_subwords(spec) or _NamedPieceTokenizer(spec)


def _own_subwords(spec: _NamedPieceTokenizer.Spec) -> SubwordTokenizer | None:
    """Return the `SubwordTokenizer` that was exported as a `MarianTokenizer`; None for others."""
    if not spec.special[SPECIAL_IDS.start]:
        return None
    # Recognized by its start token and its pieces.
    with contextlib.suppress(ValueError):
        own, first = SubwordTokenizer(base64.b64decode(spec.proto)), len(SPECIAL_TOKENS)
        names = [piece.decode() for piece in own.tokens([list(range(own.vocabulary_size))]).numpy()[0]]
        # The embedding may have more rows, without tokens.
        pieces = [piece for piece in spec.pieces if not piece.startswith("<no token ")]
        return own if names[first:] == pieces[first:] else None
    return None


def _language(files: _Directory, argument: str, name: object, languages: Collection[str]) -> str:
    if name not in languages:
        wanted = f"`{argument}` must be one of {', '.join(sorted(languages)) or 'no languages'}"
        raise InputError(f"{files.path}: {wanted}. Received: {argument}={name!r}.")
    return str(name)


def _refuse_language(files: _Directory, *names: str | None) -> None:
    if any(names):
        raise InputError(f"{files.path}: the model has no languages of this kind. Received: {names}.")


def _read_marian(files: _Directory, source: str | None, target: str | None) -> tuple[Tokenizer, Tokenizer]:
    _refuse_language(files, source)
    is_separate = _read_settings(files).separate_vocabs
    pieces = files.vocabulary("vocab.json")
    target_pieces = files.vocabulary("target_vocab.json") if is_separate else pieces
    prefix: tuple[str, ...] = ()
    if target is not None:
        languages = [piece[2:-2] for piece in pieces if piece.startswith(">>") and piece.endswith("<<")]
        prefix = (f">>{_language(files, 'target_language', target, languages)}<<",)
    size = "decoder_vocab_size" if is_separate else "vocab_size"
    protos = [files.sentence_piece(f"{side}.spm")[0] for side in ("source", "target")]
    vocabularies = _vocabulary(files, pieces), _vocabulary(files, target_pieces, size=size)
    return (
        _named_pieces(vocabularies[0], proto=protos[0], has_codes=True, prefix=prefix),
        _named_pieces(vocabularies[1], proto=protos[1], has_codes=True),
    )


def _read_t5(files: _Directory, source: str | None, target: str | None) -> tuple[Tokenizer, Tokenizer]:
    _refuse_language(files, source, target)
    model, pieces, is_whole = _split_model(files, "spiece.model")
    number = _read_settings(files).number(files, "extra_ids", 100)
    extra = [f"<extra_id_{each}>" for each in reversed(range(number))]
    new = [] if is_whole or "<extra_id_0>" in pieces else extra
    hidden = [*extra, *(piece for piece in pieces if piece.startswith("<extra_id_"))]
    return (_named_pieces(_vocabulary(files, [*pieces, *new], hidden), **model),) * 2


def _read_pegasus(files: _Directory, source: str | None, target: str | None) -> tuple[Tokenizer, Tokenizer]:
    _refuse_language(files, source, target)
    model, pieces, is_whole = _split_model(files, "spiece.model", [_PAD, _END])
    offset = _read_settings(files).number(files, "offset", 103)
    if offset < 2:
        raise InputError(f"{files.path / _SETTINGS}: `offset` must be at least 2. Received: {offset}.")
    extra = ["<mask_1>", "<mask_2>", *(f"<unk_{number}>" for number in range(2, offset))]
    pieces = pieces if is_whole else [_PAD, _END, *extra, *pieces[2:]]
    return (_named_pieces(_vocabulary(files, pieces, extra), **model),) * 2


def _read_with_languages(
    name: str, files: _Directory, source: str | None, target: str | None
) -> tuple[Tokenizer, Tokenizer]:
    """Read tokenizers that add a language token before each text, or after its end token."""
    is_last, settings = name == "MBartTokenizer", _read_settings(files)
    tokens = _language_tokens(name)
    if name == "M2M100Tokenizer":
        if settings.language_codes != "m2m100":
            wanted, received = "`language_codes` must be 'm2m100'", settings.language_codes
            raise InputError(f"{files.path / _SETTINGS}: {wanted}. Received: {received!r}.")
        model: Config = {"proto": files.sentence_piece("sentencepiece.bpe.model")[0]}
        pieces = [*files.vocabulary("vocab.json"), *tokens]
    else:
        if settings.legacy_behaviour:
            wanted = "`legacy_behaviour` must be false, since the language is put in front"
            raise InputError(f"{files.path / _SETTINGS}: {wanted}. Received: true.")
        model, pieces, is_whole = _split_model(files, "sentencepiece.bpe.model", [_UNKNOWN, _START, _END])
        pieces = pieces if is_whole else [*_FAIRSEQ, *pieces[3:], *tokens, _MASK]
    form, _ = _LANGUAGE_CLASSES[name]
    first, last = form.split("{}")
    # Fine-tuned models may have more languages.
    tokens |= {
        token.content: token.content.removeprefix(first).removesuffix(last)
        for token in _added_tokens(files)
        if token.special and token.content.startswith(first) and token.content.endswith(last)
        if token.content not in (*_FAIRSEQ, _MASK)
    }
    vocabulary = _vocabulary(files, pieces, [*tokens])
    numbers = {piece: number for number, piece in enumerate(vocabulary["pieces"])}
    languages = {code: token for token, code in tokens.items() if token in numbers}
    name = "decoder_start_token_id" if is_last else "forced_bos_token_id"
    forced = files.table("generation_config.json", optional=True).get(name, files.config.get(name))
    of_forced = (code for code, token in languages.items() if numbers[token] == forced)
    source = source or settings.src_lang
    target = target or settings.tgt_lang or next(of_forced, None)
    of_source, of_target = (
        languages[_language(files, argument, given, languages)]
        for argument, given in (("source_language", source), ("target_language", target))
    )
    language_fields: list[Config] = [{"prefix": (of_source,)}, {"prefix": (of_target,)}]
    if is_last:  # decoding starts from the language token
        language_fields = [{"suffix": (of_source,), "start": of_target}, {"start": of_target}]
    # Language tokens inside a text are plain text.
    vocabulary["split_tokens"] = tuple(each for each in vocabulary["split_tokens"] if each not in tokens)
    return _named_pieces(vocabulary, **model, **language_fields[0]), _named_pieces(
        vocabulary, **model, **language_fields[1]
    )


def _read_bart(files: _Directory, source: str | None, target: str | None) -> tuple[Tokenizer, Tokenizer]:
    _refuse_language(files, source, target)
    pieces, byte_pairs = _byte_pairs(files)
    vocabulary = _vocabulary(files, pieces)
    stripped = _stripped(files, vocabulary["split_tokens"])
    spec = BytePairTokenizer.Spec(**vocabulary, **byte_pairs, prefix=(_START,), stripped=stripped)
    return (BytePairTokenizer(spec),) * 2


def _stripped(files: _Directory, names: Collection[str]) -> tuple[str, ...]:
    """Return which of the tokens absorb the white space before them."""
    return tuple(token.content for token in _added_tokens(files) if token.lstrip and token.content in names)


def _byte_pairs(files: _Directory) -> tuple[list[str], Config]:
    """Read the pieces, and the `Spec` fields of the merges."""
    has_space = _read_settings(files).add_prefix_space
    path = files.path / _FAST
    if not _has_only_fast(files, "vocab.json"):
        pieces, path = files.vocabulary("vocab.json"), files.path / "merges.txt"
        lines = read_file(path).decode("utf-8", "replace").splitlines()
        merges = [line for line in lines if line.strip() and not line.startswith("#version")]
    else:
        table, model = files.table(path.name), _fast_model(files)
        splitters = [*_steps(path, table, "pre_tokenizer", "pretokenizers")]
        kinds = [model.type, *(splitter.get("type") for splitter in splitters)]
        if (
            not isinstance(model, _BytePairs)
            or kinds[1:] != ["ByteLevel"]
            or table.get("normalizer") is not None
        ):
            received = f"{kinds} and the normalizer {table.get('normalizer')!r:.80}"
            raise InputError(f"{path} must be of byte-level BPE without a normalizer. Received: {received}.")
        pieces = files.ordered(path, model.vocab)
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model.merges]
        has_space = splitters[0].get("add_prefix_space", has_space) is True
    known = {*pieces}
    for merge in merges:
        if merge.count(" ") != 1 or not known.issuperset([*merge.split(" "), merge.replace(" ", "")]):
            raise InputError(f"{path}: merges must be two tokens of the vocabulary. Received: {merge!r:.80}.")
    if missing := [letter for letter in BytePairTokenizer.byte_letters() if letter not in known]:
        raise InputError(f"{path}: the vocabulary must have all bytes. Received: none of {missing[:3]}.")
    return pieces, {"merges": tuple(merges), "add_prefix_space": has_space}


def _read_byt5(files: _Directory, source: str | None, target: str | None) -> tuple[Tokenizer, Tokenizer]:
    _refuse_language(files, source, target)
    extra = [
        f"<extra_id_{number}>" for number in range(_read_settings(files).number(files, "extra_ids", 125))
    ]
    pieces = [_PAD, _END, _UNKNOWN, *map(chr, range(256)), *extra]
    return (_ByteTokenizer(_ByteTokenizer.Spec(**_vocabulary(files, pieces, extra))),) * 2


_READERS: dict[object, _Reader] = {
    "BartTokenizer": _read_bart,
    "ByT5Tokenizer": _read_byt5,
    **{name: partial(_read_with_languages, name) for name in _LANGUAGE_CLASSES},
    "MT5Tokenizer": _read_t5,
    "MarianTokenizer": _read_marian,
    "PegasusTokenizer": _read_pegasus,
    "RobertaTokenizer": _read_bart,  # the same tokenizer
    "T5Tokenizer": _read_t5,
}


def _language_tokens(name: str) -> dict[str, str]:
    """Return the language of each language token of a class, ordered by id."""
    form, families = _LANGUAGE_CLASSES[name]
    return {form.format(code): code for family in families.split() for code in _LANGUAGES[family].split()}


def _subword_files(
    tokenizers: tuple[Tokenizer, Tokenizer], token_ids: tuple[_Ids, _Ids], max_length: int
) -> dict[str, bytes]:
    """Return the files of the source and target tokenizers, by name."""
    kinds = tuple(tokenizer.kind for tokenizer in tokenizers)
    source, target = map(_written_spec, tokenizers)
    if source is None or target is None or type(source) is not type(target):
        raise ValueError(f"Both tokenizers must be of subwords, of one kind. Received: kinds={kinds}.")
    if source.suffix:
        raise ValueError(f"A text must end with its end. Received: {[*source.suffix]} after it.")
    starts, vocabularies = zip(*map(_written_vocabulary, tokenizers, token_ids), strict=True)
    hidden = {*starts, *source.hidden, *target.hidden}
    numbers = {**vocabularies[0], **vocabularies[1]}
    never_text = {piece: number for piece, number in numbers.items() if piece in hidden}
    files, settings = _written_class(source, target, vocabularies)
    settings = {
        "pad_token": _PAD,
        "unk_token": _UNKNOWN,
        "eos_token": _END,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
        **({"bos_token": starts[1]} if starts[1] in vocabularies[1] else {}),
        # The first setting skips them in decoded texts, the second makes them special.
        "additional_special_tokens": [*never_text],
        "added_tokens_decoder": {
            str(number): {"content": piece, "special": piece in never_text}
            for piece, number in numbers.items()
            if piece in never_text or piece in {*source.split_tokens, *target.split_tokens}
        },
        **settings,
    }
    return {**files, "tokenizer_config.json": as_json(settings)}


def _written_spec(tokenizer: Tokenizer) -> AdaptedTokenizer.Spec | None:
    """Return the spec of a tokenizer; None if `transformers` has no such tokenizer."""
    if isinstance(tokenizer, SubwordTokenizer):
        if tokenizer.lowercase:
            raise ValueError(
                "A tokenizer of subwords must keep the case, since that of Marian does. "
                "Received: lowercase=True."
            )
        proto = base64.b64encode(tokenizer.proto).decode()
        return _NamedPieceTokenizer.Spec(pieces=(), special=_SPECIAL, proto=proto, has_codes=True)
    if isinstance(tokenizer, _NamedPieceTokenizer | _ByteTokenizer):
        return tokenizer.spec
    # BART's tokenizer adds the start token before each text.
    is_bart = isinstance(tokenizer, BytePairTokenizer) and tokenizer.spec.prefix == (_START,)
    return tokenizer.spec if is_bart else None


def _written_vocabulary(tokenizer: Tokenizer, token_ids: _Ids) -> tuple[str, dict[str, int]]:
    """Return the name of the start token, and the exported id of each piece."""
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


def _written_class(
    source: AdaptedTokenizer.Spec, target: AdaptedTokenizer.Spec, vocabularies: Sequence[dict[str, int]]
) -> _Files:
    """Return the files and the settings of a tokenizer class."""
    if isinstance(source, BytePairTokenizer.Spec):
        merges = "".join(f"{merge}\n" for merge in source.merges)
        files = {"vocab.json": as_json(vocabularies[0]), "merges.txt": f"#version: 0.2\n{merges}".encode()}
        return files, {"tokenizer_class": "BartTokenizer", "add_prefix_space": source.add_prefix_space}
    if not isinstance(source, _NamedPieceTokenizer.Spec) or not isinstance(target, _NamedPieceTokenizer.Spec):
        number = sum(piece.startswith("<extra_id_") for piece in vocabularies[0])
        return {}, {"tokenizer_class": "ByT5Tokenizer", "extra_ids": number}
    # With Marian, the user writes the language code before a text.
    if not source.has_codes and (source.prefix or target.prefix):
        return _written_with_languages(source, target, vocabularies[0])
    # Marian's class runs SentencePiece itself, with one or two vocabularies, so splits are identical.
    is_separate = vocabularies[0] != vocabularies[1]
    protos = {"source.spm": source.proto, "target.spm": target.proto}
    files = {name: base64.b64decode(proto) for name, proto in protos.items()}
    files["vocab.json"] = as_json(vocabularies[0])
    files |= {"target_vocab.json": as_json(vocabularies[1])} if is_separate else {}
    return files, {"tokenizer_class": "MarianTokenizer", "separate_vocabs": is_separate}


def _written_with_languages(
    source: _NamedPieceTokenizer.Spec, target: _NamedPieceTokenizer.Spec, vocabulary: dict[str, int]
) -> _Files:
    prefixes = [[*source.prefix], [*target.prefix]]
    for name in _LANGUAGE_CLASSES:
        codes = _language_tokens(name)
        if all(len(prefix) == 1 and prefix[0] in codes for prefix in prefixes):
            break
    else:
        raise ValueError(f"Each text must begin with the token of its language. Received: {prefixes}.")
    source_language, target_language = (codes[prefix[0]] for prefix in prefixes)
    settings = {"tokenizer_class": name, "src_lang": source_language, "tgt_lang": target_language}
    files = {"sentencepiece.bpe.model": base64.b64decode(source.proto)}
    if name == "M2M100Tokenizer":
        # The class adds the languages after the listed pieces; rows without a token follow.
        first = min(vocabulary[token] for token in codes)
        listed = {piece: number for piece, number in vocabulary.items() if number < first}
        files["vocab.json"] = as_json(listed)
        settings["language_codes"] = "m2m100"
    else:
        # The class numbers its pieces after this token, which is not the one that decoding starts with.
        settings["bos_token"] = _START
    return files, settings
