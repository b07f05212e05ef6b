"""Subword tokens from a trained SentencePiece model."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

import tensorflow as tf
from typing_extensions import Self

from keras_transformer.text.special_tokens import NUM_SPECIAL_TOKENS, SPECIAL_TOKENS
from keras_transformer.text.subword_training import train_sentence_piece
from keras_transformer.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from keras_nlp.tokenizers import SentencePieceTokenizer

AnySubwordTokenizer = TypeVar("AnySubwordTokenizer", bound="SubwordTokenizer")


class SubwordTokenizer(Tokenizer):
    """Splits texts into subwords with `keras_nlp.tokenizers.SentencePieceTokenizer`.

    Fit for open vocabularies: sentences. White space is normalized and joined back, and
    Unicode compatibility forms become their plain ones (NFKC), as SentencePiece does. A
    program that loads an export of it imports `tensorflow_text` before.

    Args:
        proto: a serialized SentencePiece model whose first four pieces are
            `SPECIAL_TOKENS`.
        lowercase: whether texts are lower-cased before they are split.

    Raises:
        TypeError: `proto` is not bytes.
        ValueError: `proto` is no SentencePiece model, or has other special tokens.

    Example:
        >>> tokenizer = SubwordTokenizer.train(["a dog", "a cat"], vocabulary_size=15)
        >>> tokenizer.detokenize(tokenizer.tokenize(["a dog"])).numpy()
        array([b'a dog'], dtype=object)
    """

    kind: ClassVar[str] = "subword"
    needs_tensorflow_text: ClassVar[bool] = True
    vocabulary_file: ClassVar[str] = "vocabulary.spm"

    def __init__(self, proto: bytes, *, lowercase: bool = False) -> None:
        layer = _sentence_piece_layer(proto)
        super().__init__(layer.get_vocabulary(), lowercase=lowercase)
        self.proto = proto
        self._use(layer)

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocabulary_size: int = 8000,
        model_type: str = "bpe",
        *,
        lowercase: bool = False,
    ) -> "SubwordTokenizer":
        """Trains a SentencePiece model on a corpus; deterministic.

        Args:
            texts: the corpus.
            vocabulary_size: the number of token ids, special ones included; fewer where the corpus
                yields fewer.
            model_type: `"bpe"` or `"unigram"`.
            lowercase: as in the constructor.

        Returns:
            a tokenizer.

        Raises:
            ValueError: `model_type` is unknown.
            InputError: the corpus is empty, or its characters alone are more than
                `vocabulary_size`.

        Warns:
            VocabularyWarning: the corpus yields fewer pieces; all that it yields are taken.
        """
        proto = train_sentence_piece(
            texts, vocabulary_size=vocabulary_size, model_type=model_type, lowercase=lowercase
        )
        return cls(proto, lowercase=lowercase)

    def _encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        self._revive()
        return self._tokenize(texts)

    def _decode(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        self._revive()
        return self._detokenize(token_ids)

    def _use(self, layer: "SentencePieceTokenizer") -> None:
        self._layer = layer
        # On other backends than TensorFlow a Keras layer does not track its resources,
        # which a SavedModel must find.
        self._resource = getattr(layer, "_sentence_piece", None)
        # Compiled, because the layer's eager path is another implementation, in Python,
        # that refuses bytes; this one is what an export runs.
        self._tokenize = tf.function(layer.tokenize, input_signature=[tf.TensorSpec([None], tf.string)])
        self._detokenize = tf.function(
            layer.detokenize, input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)]
        )

    def _revive(self) -> None:
        """Loads the model anew if TensorFlow has lost it.

        TensorFlow Text leaves the model to an operation in TensorFlow's cache, and that cache is
        cleared by whoever sets the global seed, `keras.utils.set_random_seed` among them.
        """
        with tf.init_scope():
            try:
                self._tokenize(tf.constant([""]))
            except tf.errors.NotFoundError:
                self._use(_sentence_piece_layer(self.proto))

    def _vocabulary_bytes(self) -> bytes:
        return self.proto

    @classmethod
    def _restore(cls, path: Path, vocabulary: bytes, flags: dict[str, bool]) -> Self:
        del path  # The model is one piece: its errors have no line to name.
        return cls(vocabulary, **flags)


def _sentence_piece_layer(proto: bytes) -> "SentencePieceTokenizer":
    if not isinstance(proto, bytes):
        raise TypeError(f"`proto` must be bytes. Received: {proto!r} of type {type(proto)}.")
    # Imported here, because it takes seconds and the other tokenizers do not need it.
    from keras_nlp.tokenizers import SentencePieceTokenizer

    try:
        layer = SentencePieceTokenizer(proto=proto, dtype="int32")
    except (tf.errors.OpError, RuntimeError) as error:
        received = f"{len(proto)} bytes starting with {proto[:16]!r}"
        raise ValueError(f"`proto` must be a SentencePiece model. Received: {received}.") from error
    first = tuple(layer.get_vocabulary()[:NUM_SPECIAL_TOKENS])
    if first != SPECIAL_TOKENS:
        raise ValueError(f"`proto` must start with {SPECIAL_TOKENS}. Received: {first}.")
    return layer
