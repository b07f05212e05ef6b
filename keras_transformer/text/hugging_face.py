"""Tokenizers of pretrained encoder-decoders, from the files of a directory of Hugging Face."""

import base64
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from keras_transformer.errors import InputError
from keras_transformer.files import _as_path, read_file, read_table
from keras_transformer.text.bridge import _BridgedTokenizer
from keras_transformer.text.languages import _LANGUAGES
from keras_transformer.text.lookup import _read_word_level
from keras_transformer.text.splitters import _byte_letters
from keras_transformer.text.subword import _own_subwords
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.text.word_level import _TARGET_DIRECTORY
from keras_transformer.types import Config

_PAD, _UNKNOWN, _START, _END, _MASK = "<pad>", "<unk>", "<s>", "</s>", "<mask>"
_FAIRSEQ = (_START, _PAD, _END, _UNKNOWN)  # where SentencePiece has three others
# Where a directory names no class of tokenizers, or one that says nothing.
_CLASSES = {
    "bart": "BartTokenizer",
    "m2m_100": "M2M100Tokenizer",
    "marian": "MarianTokenizer",
    "mt5": "T5Tokenizer",
    "pegasus": "PegasusTokenizer",
    "t5": "T5Tokenizer",
    "umt5": "T5Tokenizer",
}
_ANY_CLASS = (None, "PreTrainedTokenizer", "TokenizersBackend")
_WORD_LEVEL = "WordLevel"


def read_hugging_face_tokenizers(
    directory: str | Path, source_language: str | None = None, target_language: str | None = None
) -> tuple[Tokenizer, Tokenizer]:
    """Read the tokenizers of a pretrained encoder-decoder.

    They split texts as the original does, in the graph, are saved, read by `load_tokenizer` and exported as
    all others. **The ids are other ones**, as those of `as_tokenizer`; `Tokenizer.original_ids` has the
    original of each, which orders the rows of an embedding. Both have all ids of the model, also those that
    no text has.

    | tokenizer | files |
    |---|---|
    | Marian | `vocab.json`, `source.spm`, `target.spm`, `target_vocab.json` where vocabularies are separate |
    | T5, mT5, UMT5, Pegasus | `spiece.model` |
    | M2M100, SMaLL-100 | `vocab.json`, `sentencepiece.bpe.model` |
    | NLLB, mBART-50 | `sentencepiece.bpe.model` |
    | BART | `vocab.json` and `merges.txt`, or `tokenizer.json` |
    | ByT5 | none |
    | words and characters of this package | `tokenizer.json`, and one in `target_tokenizer` |

    `config.json` is read too, and `tokenizer_config.json` and `generation_config.json` where they are there.

    A SentencePiece model splits as SentencePiece does. Differences to `transformers` remain:

    - special tokens that are written in a text, as `</s>` or `<extra_id_0>`, are text; only a language code
      of Marian at the start, `>>deu<<`, is a token;
    - NUL and what is not UTF-8 become U+FFFD;
    - version 5 of `transformers` has another implementation of SentencePiece for T5, Pegasus, NLLB and
      mBART-50, which makes a token of a space at the end, splits at U+0085 (T5), knows no bytes for unknown
      letters (mT5) and normalizes some rare combining characters otherwise; where two splits have the same
      score, either may come;
    - spaces at the ends of a joined text are left out.

    Args:
        directory: what `save_pretrained` wrote, or a download from the hub.
        source_language: of M2M100, NLLB and mBART-50, as their tokenizer names it: `"de"`, `"deu_Latn"`,
            `"de_DE"`. Its token is put in front of every source. The default is `src_lang` of the
            configuration.
        target_language: the same of the target; the default is `tgt_lang`, or the token that the
            configuration forces at the start. Of a Marian model with many target languages: `"deu"`, whose
            token is put in front of every source.

    Returns:
        The tokenizer of the source and that of the target.

    Raises:
        InputError: A file is missing, damaged or does not fit the others; the tokenizer is none of these, or
            has tokens that cannot be reproduced; a language is missing or unknown.
    """
    files = _Directory(_as_path(directory))
    if files.class_name() == _WORD_LEVEL:
        _refuse_language(files, source_language, target_language)
        other = files.path / _TARGET_DIRECTORY
        return _read_word_level(files.path), _read_word_level(other if other.is_dir() else files.path)
    name = files.class_name()
    if name not in _FAMILIES:
        known = tuple(_FAMILIES)
        wanted = f"the tokenizer must be one of {known}"
        raise InputError(f"{files.settings_path}: {wanted}. Received: {name!r}.")
    source, target = _FAMILIES[name](files, source_language, target_language)
    return _tokenizer(source), _tokenizer(target)


def _tokenizer(description: Config) -> Tokenizer:
    return _own_subwords(description) or _BridgedTokenizer(description)


class _Directory:
    """The files of a tokenizer."""

    def __init__(self, path: Path) -> None:
        self.path, self.settings_path = path, path / "tokenizer_config.json"
        self.config = self.table("config.json")
        self.settings = self.table(self.settings_path.name, optional=True)

    def table(self, name: str, *, optional: bool = False) -> Config:
        path = self.path / name
        if optional and not path.exists():
            return {}
        table: Config = read_table(read_file(path), path)
        return table

    def class_name(self) -> object:
        name = self.settings.get("tokenizer_class")
        name = name.removesuffix("Fast") if isinstance(name, str) else name
        if name not in _ANY_CLASS:
            return name
        model = self.table("tokenizer.json", optional=True).get("model")
        if isinstance(model, dict) and model.get("type") == _WORD_LEVEL:
            return _WORD_LEVEL
        return _CLASSES.get(str(self.config.get("model_type")))

    def number(self, name: str, default: int) -> int:
        value = self.settings.get(name, default)
        if type(value) is not int or value < 0:
            raise InputError(f"{self.settings_path}: {name} must be a number. Received: {value!r}.")
        return value

    def vocabulary(self, name: str) -> list[str]:
        return self.ordered(self.path / name, self.table(name))

    @staticmethod
    def ordered(path: Path, numbers: object) -> list[str]:
        """Return pieces in the order of their ids."""
        numbers = numbers if isinstance(numbers, dict) else {}
        by_number = {number: piece for piece, number in numbers.items()}
        for number in range(len(numbers)):
            if number not in by_number:
                wanted = f"the ids of the vocabulary must be 0 to {len(numbers) - 1}, each once"
                raise InputError(f"{path}: {wanted}. Received: no token for {number}.")
        return [by_number[number] for number in range(len(numbers))]

    def model(self, name: str, first: Sequence[str] = ()) -> tuple[str, list[str]]:
        """Read a SentencePiece model, in Base64, and its pieces, which must start with some."""
        from sentencepiece import SentencePieceProcessor

        proto = read_file(self.path / name)
        try:
            model = SentencePieceProcessor(model_proto=proto)
        except RuntimeError as error:
            received = f"{len(proto)} bytes starting with {proto[:16]!r}"
            raise InputError(
                f"{self.path / name} must be a SentencePiece model. Received: {received}."
            ) from error
        pieces = [model.id_to_piece(number) for number in range(model.get_piece_size())]
        if pieces[: len(first)] != [*first]:
            others = pieces[: len(first)]
            raise InputError(f"{self.path / name} must start with {[*first]}. Received: {others}.")
        return base64.b64encode(proto).decode(), pieces

    def describe(
        self,
        kind: str,
        pieces: list[str],
        hidden: Sequence[str] = (),
        size: str = "vocab_size",
        **more: object,
    ) -> Config:
        """Describe a tokenizer with all ids of the model."""
        pieces, never_text = [*pieces], [*hidden, _START, _MASK]
        for number, token, is_special in self.added_tokens():
            if number >= len(pieces):
                pieces += [f"<no token {at}>" for at in range(len(pieces), number + 1)]
            if pieces[number] != token and not is_special:
                wanted = "added tokens must be special, since others split texts"
                raise InputError(f"{self.settings_path}: {wanted}. Received: {token!r}.")
            pieces[number] = token
            never_text += [token] * is_special
        rows = self.config.get(size, len(pieces))
        if type(rows) is not int or rows < len(pieces):
            wanted = f"{size} must be at least {len(pieces)}, the tokens of the vocabulary"
            raise InputError(f"{self.path / 'config.json'}: {wanted}. Received: {rows!r}.")
        pieces += [f"<no token {at}>" for at in range(len(pieces), rows)]
        for token in (_PAD, _UNKNOWN, _END):
            if token not in pieces:
                raise InputError(
                    f"{self.path}: the vocabulary must have {token!r}. Received: {len(pieces)} others."
                )
        never_text += [piece for piece in pieces if piece.startswith("<no token ")]
        # Our own models start from a token that is no text.
        start = self.config.get("decoder_start_token_id")
        is_start = _START in pieces and pieces.index(_START) == start
        special = [[_PAD], [_UNKNOWN], [_START] if is_start else [], [_END]]
        return {
            "kind": kind,
            "special": special,
            "pieces": pieces,
            "hidden": never_text,
            "code": False,
            **more,
        }

    def added_tokens(self) -> list[tuple[int, str, bool]]:
        """Return id, name and whether it is special of each token that the configuration adds."""
        try:
            return [
                (int(number), str(token["content"]), bool(token["special"]))
                for number, token in self.settings.get("added_tokens_decoder", {}).items()
            ]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            wanted = "added_tokens_decoder must have a `content` and `special` for each id"
            raise InputError(f"{self.settings_path}: {wanted}. Received: {error!r}.") from error


def _marian(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    _refuse_language(files, source)
    separate = files.settings.get("separate_vocabs") is True
    pieces = files.vocabulary("vocab.json")
    target_pieces = files.vocabulary("target_vocab.json") if separate else pieces
    prefix = []
    if target is not None:
        languages = [piece[2:-2] for piece in pieces if piece.startswith(">>") and piece.endswith("<<")]
        prefix = [f">>{_language(files, 'target_language', target, languages)}<<"]
    size = "decoder_vocab_size" if separate else "vocab_size"
    return (
        files.describe("named_pieces", pieces, proto=files.model("source.spm")[0], code=True, prefix=prefix),
        files.describe(
            "named_pieces", target_pieces, size=size, proto=files.model("target.spm")[0], code=True
        ),
    )


def _t5(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    _refuse_language(files, source, target)
    proto, pieces = files.model("spiece.model")
    extra = [f"<extra_id_{number}>" for number in reversed(range(files.number("extra_ids", 100)))]
    new = [] if "<extra_id_0>" in pieces else extra
    description = files.describe("named_pieces", [*pieces, *new], extra, proto=proto)
    return description, description


def _pegasus(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    _refuse_language(files, source, target)
    proto, pieces = files.model("spiece.model", [_PAD, _END])
    offset = files.number("offset", 103)
    if offset < 2:
        raise InputError(f"{files.settings_path}: offset must be at least 2. Received: {offset}.")
    extra = ["<mask_1>", "<mask_2>", *(f"<unk_{number}>" for number in range(2, offset))]
    description = files.describe("named_pieces", [_PAD, _END, *extra, *pieces[2:]], extra, proto=proto)
    return description, description


def _m2m100(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    proto, _ = files.model("sentencepiece.bpe.model")
    codes = files.settings.get("language_codes", "m2m100")
    if codes not in ("m2m100", "wmt21"):
        wanted = "language_codes must be 'm2m100' or 'wmt21'"
        raise InputError(f"{files.settings_path}: {wanted}. Received: {codes!r}.")
    languages = {code: f"__{code}__" for code in _LANGUAGES[codes].split()}
    pieces = [*files.vocabulary("vocab.json"), *languages.values()]
    return _with_languages(files, pieces, languages, proto, source, target)


def _fairseq(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    proto, pieces = files.model("sentencepiece.bpe.model", [_UNKNOWN, _START, _END])
    if files.settings.get("legacy_behaviour"):
        wanted = "legacy_behaviour must be false, since the language is put in front"
        raise InputError(f"{files.settings_path}: {wanted}. Received: true.")
    codes = {
        "NllbTokenizer": _LANGUAGES["nllb"],
        "MBartTokenizer": _LANGUAGES["mbart"],
        "MBart50Tokenizer": f"{_LANGUAGES['mbart']} {_LANGUAGES['mbart50']}",
    }[str(files.class_name())]
    languages = {code: code for code in codes.split()}
    pieces = [*_FAIRSEQ, *pieces[3:], *languages, _MASK]
    return _with_languages(files, pieces, languages, proto, source, target)


def _with_languages(
    files: _Directory,
    pieces: list[str],
    languages: dict[str, str],
    proto: str,
    source: str | None,
    target: str | None,
) -> tuple[Config, Config]:
    """Describe tokenizers that put the token of a language in front of each text."""
    forced = files.table("generation_config.json", optional=True).get("forced_bos_token_id")
    forced = files.config.get("forced_bos_token_id") if forced is None else forced
    by_number: dict[object, str] = {pieces.index(token): code for code, token in languages.items()}
    source = source or files.settings.get("src_lang")
    target = target or files.settings.get("tgt_lang") or by_number.get(forced)
    tokens = [
        languages[_language(files, argument, name, languages)]
        for argument, name in (("source_language", source), ("target_language", target))
    ]
    prefixes = [[token] for token in tokens]
    if files.class_name() == "SMALL100Tokenizer":  # whose encoder is told the target
        prefixes = [[tokens[1]], []]
    first, second = (
        files.describe("named_pieces", pieces, [*languages.values()], proto=proto, prefix=prefix)
        for prefix in prefixes
    )
    return first, second


def _language(files: _Directory, argument: str, name: object, languages: Collection[str]) -> str:
    if name not in languages:
        wanted = f"`{argument}` must be one of {', '.join(sorted(languages)) or 'no languages'}"
        raise InputError(f"{files.path}: {wanted}. Received: {argument}={name!r}.")
    return str(name)


def _refuse_language(files: _Directory, *names: str | None) -> None:
    if any(names):
        raise InputError(f"{files.path}: the model has no languages of this kind. Received: {names}.")


def _bart(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    _refuse_language(files, source, target)
    space: object = files.settings.get("add_prefix_space", False)
    path = files.path / "tokenizer.json"
    if (files.path / "vocab.json").exists() or not path.exists():
        pieces, path = files.vocabulary("vocab.json"), files.path / "merges.txt"
        lines = read_file(path).decode("utf-8", "replace").splitlines()
        merges = [line for line in lines if line.strip() and not line.startswith("#version")]
    else:
        table = files.table(path.name)
        parts = (table.get("model"), table.get("pre_tokenizer"))
        model, splitter = (part if isinstance(part, dict) else {} for part in parts)
        kinds = [model.get("type"), splitter.get("type")]
        if kinds != ["BPE", "ByteLevel"] or table.get("normalizer") is not None:
            received = f"{kinds} and the normalizer {table.get('normalizer')!r}"
            raise InputError(f"{path} must be of byte-level BPE without a normalizer. Received: {received}.")
        pieces = files.ordered(path, model.get("vocab"))
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model.get("merges", ())]
        space = splitter.get("add_prefix_space", space)
    known = {*pieces}
    for merge in merges:
        if merge.count(" ") != 1 or not known.issuperset([*merge.split(" "), merge.replace(" ", "")]):
            raise InputError(f"{path}: merges must be two tokens of the vocabulary. Received: {merge!r}.")
    if missing := [letter for letter in _byte_letters() if letter not in known]:
        raise InputError(f"{path}: the vocabulary must have all bytes. Received: none of {missing[:3]}.")
    description = files.describe(
        "byte_level", pieces, merges=merges, prefix=[_START], add_prefix_space=space is True
    )
    return description, description


def _byt5(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    _refuse_language(files, source, target)
    extra = [f"<extra_id_{number}>" for number in range(files.number("extra_ids", 125))]
    pieces = [_PAD, _END, _UNKNOWN, *map(chr, range(256)), *extra]
    description = files.describe("bytes", pieces, extra)
    return description, description


_FAMILIES: dict[object, Callable[[_Directory, str | None, str | None], tuple[Config, Config]]] = {
    "BartTokenizer": _bart,
    "ByT5Tokenizer": _byt5,
    "M2M100Tokenizer": _m2m100,
    "MBart50Tokenizer": _fairseq,
    "MT5Tokenizer": _t5,
    "MarianTokenizer": _marian,
    "NllbTokenizer": _fairseq,
    "PegasusTokenizer": _pegasus,
    "RobertaTokenizer": _bart,  # another name of it
    "SMALL100Tokenizer": _m2m100,
    "T5Tokenizer": _t5,
}
