"""Tokenizers of pretrained encoder-decoders, from the files of a directory of Hugging Face."""

from collections.abc import Callable
from pathlib import Path

from keras_transformer._files import as_path
from keras_transformer.errors import InputError
from keras_transformer.text.bridge import _BridgedTokenizer
from keras_transformer.text.hugging_face_files import (
    _END,
    _MASK,
    _PAD,
    _START,
    _UNKNOWN,
    _WORD_LEVEL,
    _byte_pairs,
    _Directory,
    _language,
    _refuse_language,
)
from keras_transformer.text.languages import _LANGUAGES
from keras_transformer.text.log_mel import _LogMel
from keras_transformer.text.lookup import _read_word_level
from keras_transformer.text.subword import _own_subwords
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.text.whisper import _whisper
from keras_transformer.text.word_level import _TARGET_DIRECTORY
from keras_transformer.types import Config

_FAIRSEQ = (_START, _PAD, _END, _UNKNOWN)  # where SentencePiece has three others
# Where a directory names no class of tokenizers, or one that says nothing.
_CLASSES = {
    "bart": "BartTokenizer",
    "m2m_100": "M2M100Tokenizer",
    "marian": "MarianTokenizer",
    "mbart": "MBartTokenizer",
    "mt5": "T5Tokenizer",
    "pegasus": "PegasusTokenizer",
    "plbart": "PLBartTokenizer",
    "t5": "T5Tokenizer",
    "umt5": "T5Tokenizer",
    "whisper": "WhisperTokenizer",
}


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
    | NLLB, mBART, mBART-50, PLBart | `sentencepiece.bpe.model` |
    | BART | `vocab.json` and `merges.txt`, or `tokenizer.json` |
    | ByT5 | none |
    | Whisper | as BART, and `preprocessor_config.json` or `processor_config.json` |
    | words and characters of this package | `tokenizer.json`, and one in `target_tokenizer` |

    The source of Whisper is audio: in the place of a tokenizer stand its log-mel features, which are those of
    `WhisperFeatureExtractor`. What the target begins with is what `generate` begins with, `<|notimestamps|>`
    last, always.

    `config.json` is read too, and `tokenizer_config.json` and `generation_config.json` where they are there.

    A SentencePiece model splits as SentencePiece does. Differences to `transformers` remain:

    - special tokens that are written in a text, as `</s>` or `<extra_id_0>`, are text; only a language code
      of Marian at the start, `>>deu<<`, is a token;
    - NUL and what is not UTF-8 become U+FFFD;
    - version 5 of `transformers` has another implementation of SentencePiece for T5, Pegasus, NLLB, mBART and
      mBART-50, which makes a token of a space at the end, splits at U+0085 (T5), knows no bytes for unknown
      letters (mT5) and normalizes some rare combining characters otherwise; where two splits have the same
      score, either may come;
    - spaces at the ends of a joined text are left out; those before punctuation stay (PLBart).

    Args:
        directory: what `save_pretrained` wrote, or a download from the hub.
        source_language: of M2M100, NLLB, mBART and PLBart, as their tokenizer names it: `"de"`, `"deu_Latn"`,
            `"de_DE"`, `"java"`. Its token is put in front of every source, or after its end (mBART, PLBart).
            The default is `src_lang` of the configuration. Of Whisper with many languages the one that is
            spoken, `"de"`; the default is the one that the configuration names or forces, and there is no
            detection.
        target_language: the same of the target; the default is `tgt_lang`, or the token that the
            configuration forces at the start, or starts from. Of a Marian model with many target languages:
            `"deu"`, whose token is put in front of every source. Of Whisper `"en"`, to
            translate, or the one that is spoken, to transcribe, which it does by default.

    Returns:
        The tokenizer of the source and that of the target.

    Raises:
        InputError: A file is missing, damaged or does not fit the others; the tokenizer is none of these, or
            has tokens that cannot be reproduced; a language is missing or unknown.
    """
    files = _Directory(as_path(directory), _CLASSES)
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
    first = _LogMel(**source) if name == "WhisperTokenizer" else _tokenizer(source)
    return first, _tokenizer(target)


def _tokenizer(description: Config) -> Tokenizer:
    return _own_subwords(description) or _BridgedTokenizer(description)


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


def _plbart(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    proto, pieces = files.model("sentencepiece.bpe.model", [_UNKNOWN, _START, _END])
    codes = files.settings.get("language_codes", "base")
    if codes not in ("base", "multi"):
        wanted = "language_codes must be 'base' or 'multi'"
        raise InputError(f"{files.settings_path}: {wanted}. Received: {codes!r}.")
    languages = {code: f"__{code}__" for code in _LANGUAGES[codes].split()}
    pieces = [*_FAIRSEQ, *pieces[3:], *languages.values(), *([_MASK] if codes == "base" else [])]
    # Its own configuration names them with underscores.
    languages |= {token: token for token in languages.values()}
    return _with_languages(files, pieces, languages, proto, source, target)


def _with_languages(
    files: _Directory,
    pieces: list[str],
    languages: dict[str, str],
    proto: str,
    source: str | None,
    target: str | None,
) -> tuple[Config, Config]:
    """Describe tokenizers that put the token of a language in front of each text, or after its end."""
    is_last = files.class_name() in ("MBartTokenizer", "PLBartTokenizer")
    first = "decoder_start_token_id" if is_last else "forced_bos_token_id"
    forced = files.table("generation_config.json", optional=True).get(first, files.config.get(first))
    by_number: dict[object, str] = {pieces.index(token): code for code, token in languages.items()}
    source = source or files.settings.get("src_lang")
    target = target or files.settings.get("tgt_lang") or by_number.get(forced)
    tokens = [
        languages[_language(files, argument, name, languages)]
        for argument, name in (("source_language", source), ("target_language", target))
    ]
    around: list[Config] = [{"prefix": [token]} for token in tokens]
    if files.class_name() == "SMALL100Tokenizer":  # whose encoder is told the target
        around = [{"prefix": [tokens[1]]}, {}]
    if is_last:  # the decoder starts from its language
        around = [{"suffix": [tokens[0]], "start": tokens[1]}, {"start": tokens[1]}]
    both = [
        files.describe("named_pieces", pieces, [*languages.values()], proto=proto, **each) for each in around
    ]
    return both[0], both[1]


def _bart(files: _Directory, source: str | None, target: str | None) -> tuple[Config, Config]:
    _refuse_language(files, source, target)
    pieces, merges, space = _byte_pairs(files)
    description = files.describe("byte_level", pieces, merges=merges, prefix=[_START], add_prefix_space=space)
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
    "MBartTokenizer": _fairseq,
    "MT5Tokenizer": _t5,
    "MarianTokenizer": _marian,
    "NllbTokenizer": _fairseq,
    "PLBartTokenizer": _plbart,
    "PegasusTokenizer": _pegasus,
    "RobertaTokenizer": _bart,  # another name of it
    "SMALL100Tokenizer": _m2m100,
    "T5Tokenizer": _t5,
    "WhisperTokenizer": _whisper,
}
