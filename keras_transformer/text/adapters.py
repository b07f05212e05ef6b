"""Adapters for existing tokenizers of Keras, KerasHub and SentencePiece."""

import base64
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import keras
import tensorflow as tf

from keras_transformer._files import read_file
from keras_transformer.text.adapted_tokenizer import AdaptedTokenizer
from keras_transformer.text.byte_pair import BytePairTokenizer
from keras_transformer.text.subword import load_sentence_piece
from keras_transformer.text.tokenizer import Tokenizer

# Names of the padding, unknown, start and end tokens in other libraries.
_NAMES = (
    ("[PAD]", "<pad>", "<|pad|>", ""),
    ("[UNK]", "<unk>"),
    ("[START]", "[start]", "<s>", "<bos>", "[BOS]", "[CLS]"),
    ("[END]", "[end]", "</s>", "<eos>", "[EOS]", "[SEP]", "<|endoftext|>"),
)
_ATTRIBUTES = ("pad_token", "oov_token", "start_token", "end_token")  # of KerasHub tokenizers
# The characters that Keras's `lower_and_strip_punctuation` removes.
_PUNCTUATION = r'[!"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']'
_WORD_PIECE_OPTIONS = ("lowercase", "strip_accents", "split_on_cjk", "suffix_indicator", "oov_token")
_Special: TypeAlias = tuple[tuple[str, ...], ...]


def as_tokenizer(tokenizer: object) -> Tokenizer:
    """Convert an existing tokenizer of Keras, KerasHub or SentencePiece to a `Tokenizer`.

    The result splits and joins texts like the original, but with TensorFlow operations. You can train with
    it, save it, load it with `Tokenizer.load` and export it.

    **The token ids change**: `SPECIAL_IDS` come first, followed by the original pieces in their order,
    without the original special tokens. Special tokens in a text, such as `[start]` and `[end]`, are ignored;
    the data pipeline adds those of this package.

    Args:
        tokenizer: One of

            - `keras.layers.TextVectorization`, adapted or with a vocabulary, that splits into words or
              characters;
            - KerasHub's `BytePairTokenizer`, `WordPieceTokenizer` or `SentencePieceTokenizer`, or a subclass
              such as `GPT2Tokenizer`. Byte pairs are split by GPT-2's rules, which differ from KerasHub for
              rare digits and spaces;
            - the path of a SentencePiece model (`.model`, `.spm`), or its bytes.

    Returns:
        The tokenizer.

    Raises:
        InputError: If a file cannot be read.
        TypeError: If `tokenizer` is of another type.
        ValueError: If it has no vocabulary, or splits in a way that a graph cannot reproduce.

    Example:
        >>> import keras
        >>> layer = keras.layers.TextVectorization(vocabulary=["a", "dog", "runs"])
        >>> tokenizer = as_tokenizer(layer)
        >>> tokenizer.tokenize(["A dog barks."]).to_list()
        [[4, 5, 1]]
        >>> tokenizer.detokenize([[5, 6, 3]]).numpy()
        array([b'dog runs'], dtype=object)
    """
    if isinstance(tokenizer, str | Path | bytes):
        proto = tokenizer if isinstance(tokenizer, bytes) else read_file(Path(tokenizer))
        return _adapt_sentence_piece(load_sentence_piece(proto, "tokenizer"), _NAMES)
    own = [getattr(tokenizer, name, None) for name in _ATTRIBUTES]
    special = tuple(
        (*names, *([name] if isinstance(name, str) else [])) for names, name in zip(_NAMES, own, strict=True)
    )
    classes = {base.__name__ for base in type(tokenizer).__mro__}
    for name, adapt in _ADAPTERS.items():
        if name in classes:
            return adapt(tokenizer, special)
    raise TypeError(
        f"`tokenizer` must be one of {sorted(_ADAPTERS)}, or the path or bytes of a SentencePiece model. "
        f"Received: a {type(tokenizer).__name__}."
    )


class _WordTokenizer(AdaptedTokenizer):
    """Words or characters, split as by `keras.layers.TextVectorization`."""

    kind: ClassVar[str] = "words"
    needs_tensorflow_text = False

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Spec(AdaptedTokenizer.Spec):
        standardize: str | None
        split: str

    spec: Spec

    def create_resources(self) -> None:
        pieces = self.spec.pieces
        entries = tf.lookup.KeyValueTensorInitializer(pieces[1:], tf.range(1, len(pieces)))
        self._table = tf.lookup.StaticHashTable(entries, default_value=1)
        self._in_words = self.spec.split == "whitespace"

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        standardize = self.spec.standardize or ""
        if "lower" in standardize:
            texts = tf.strings.lower(texts)
        if "strip" in standardize:
            texts = tf.strings.regex_replace(texts, _PUNCTUATION, "")
        words = tf.strings.split(texts) if self._in_words else tf.strings.unicode_split(texts, "UTF-8")
        return words.with_flat_values(self._table.lookup(words.flat_values))

    def join(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        names = tf.gather(tf.constant(self.spec.pieces), token_ids)
        return tf.strings.reduce_join(names, axis=-1, separator=" " if self._in_words else "")


class _WordPieceTokenizer(AdaptedTokenizer):
    """WordPiece, split as by KerasHub."""

    kind: ClassVar[str] = "word_pieces"

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Spec(AdaptedTokenizer.Spec):
        lowercase: bool
        strip_accents: bool
        split_on_cjk: bool
        suffix_indicator: str
        oov_token: str

    spec: Spec

    def create_resources(self) -> None:
        from keras_nlp.tokenizers import WordPieceTokenizer

        options = {name: getattr(self.spec, name) for name in _WORD_PIECE_OPTIONS}
        self._layer = WordPieceTokenizer([*self.spec.pieces], **options, dtype="int32")

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._layer.tokenize(texts)

    def join(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        return self._layer.detokenize(token_ids)


class _SentencePieceTokenizer(AdaptedTokenizer):
    """An existing SentencePiece model."""

    kind: ClassVar[str] = "sentence_pieces"

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Spec(AdaptedTokenizer.Spec):
        proto: str
        """The serialized model, in Base64."""

    spec: Spec

    def create_resources(self) -> None:
        self._layer = load_sentence_piece(base64.b64decode(self.spec.proto), "tokenizer")
        # Only on the TensorFlow backend does a Keras layer track its resources.
        self._resource = getattr(self._layer, "_sentence_piece", None)

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._layer.tokenize(texts)

    def join(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        return self._layer.detokenize(token_ids)


def _adapt_words(layer: keras.layers.Layer, special: _Special) -> Tokenizer:
    config = layer.get_config()
    wanted = {
        "standardize": (None, "lower", "strip_punctuation", "lower_and_strip_punctuation"),
        "split": ("whitespace", "character"),
        "ngrams": (None,),
        "output_mode": ("int",),  # other modes have no id for padding
    }
    for name, values in wanted.items():
        if config[name] not in values:
            raise ValueError(
                f"`{name}` of a TextVectorization must be one of {values}. Received: {name}={config[name]!r}."
            )
    vocabulary = [str(word) for word in layer.get_vocabulary()]
    if len(vocabulary) < 3:
        raise ValueError(f"The TextVectorization must be adapted. Received: vocabulary={vocabulary}.")
    return _WordTokenizer(
        _WordTokenizer.Spec(
            pieces=tuple(vocabulary),
            special=special,
            standardize=config["standardize"],
            split=config["split"],
        )
    )


def _adapt_byte_pair(layer: keras.layers.Layer, special: _Special) -> Tokenizer:
    pieces = [""] * (1 + max(layer.vocabulary.values()))
    for piece, number in layer.vocabulary.items():
        pieces[int(number)] = str(piece)
    return BytePairTokenizer(
        BytePairTokenizer.Spec(
            pieces=tuple(pieces),
            special=special,
            merges=tuple(map(str, layer.merges)),
            add_prefix_space=layer.add_prefix_space,
        )
    )


def _adapt_word_piece(layer: keras.layers.Layer, special: _Special) -> Tokenizer:
    if not layer.split:
        raise ValueError("`split` of a WordPieceTokenizer must be True. Received: split=False.")
    options = {name: getattr(layer, name) for name in _WORD_PIECE_OPTIONS}
    return _WordPieceTokenizer(
        _WordPieceTokenizer.Spec(pieces=tuple(layer.vocabulary), special=special, **options)
    )


def _adapt_sentence_piece(layer: keras.layers.Layer, special: _Special) -> Tokenizer:
    return _SentencePieceTokenizer(
        _SentencePieceTokenizer.Spec(
            pieces=tuple(layer.get_vocabulary()),
            special=special,
            proto=base64.b64encode(layer.proto).decode(),
        )
    )


_ADAPTERS: dict[str, Callable[[Any, _Special], Tokenizer]] = {
    "TextVectorization": _adapt_words,
    "BytePairTokenizer": _adapt_byte_pair,
    "WordPieceTokenizer": _adapt_word_piece,
    "SentencePieceTokenizer": _adapt_sentence_piece,
}
