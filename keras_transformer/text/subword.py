"""Subword tokenizer with a trained SentencePiece model.

Why SentencePiece: it restores spaces exactly, and its operations are in TensorFlow Text, which the standard
TensorFlow Serving binary includes. `keras_nlp` wraps it.
"""

import io
import re
from collections.abc import Iterable
from numbers import Integral
from typing import TYPE_CHECKING, ClassVar, Self

import tensorflow as tf

from keras_transformer._arguments import check_choice, check_flags, check_kind, warn_user
from keras_transformer.errors import InputError
from keras_transformer.text.normalization import REPLACEMENT_CHARACTER, _normalized_batches
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS

if TYPE_CHECKING:
    from keras_nlp.tokenizers import SentencePieceTokenizer

_MODEL_TYPES = ("bpe", "unigram")
_NORMALIZATIONS = ("nmt_nfkc", "nfkc", "identity")
_DEFAULT_MAX_SENTENCE_LENGTH = 4192


class VocabularyWarning(UserWarning):
    """A corpus is too small for the requested vocabulary size; the vocabulary is smaller."""


class SubwordTokenizer(Tokenizer):
    """Subword tokenizer with a SentencePiece model (BPE or unigram).

    Use it for natural-language text. As in SentencePiece, several spaces become one, and by default
    compatibility characters of Unicode are replaced (NFKC), such as `m²` by `m2`. To load an export in
    Python, first import `tensorflow_text`.

    Args:
        proto: Serialized SentencePiece model whose first pieces are `[PAD]`, `[UNK]`, `[START]` and `[END]`.
        lowercase: Whether to lower-case texts first.

    Raises:
        TypeError: If `proto` is not bytes.
        ValueError: If `proto` is not a SentencePiece model, or has different special tokens.

    Example:
        >>> tokenizer = SubwordTokenizer.train(["a dog", "a cat"], vocabulary_size=15)
        >>> tokenizer.detokenize(tokenizer.tokenize(["a dog"])).numpy()
        array([b'a dog'], dtype=object)
    """

    kind: ClassVar[str] = "subword"
    needs_tensorflow_text: bool = True
    vocabulary_file: ClassVar[str] = "vocabulary.spm"

    def __init__(self, proto: bytes, *, lowercase: bool = False) -> None:
        if not isinstance(proto, bytes):
            raise TypeError(f"`proto` must be bytes. Received: {proto!r} of type {type(proto)}.")
        layer = load_sentence_piece(proto, "proto")
        first = tuple(layer.get_vocabulary()[: len(SPECIAL_TOKENS)])
        if first != SPECIAL_TOKENS:
            raise ValueError(f"`proto` must start with {SPECIAL_TOKENS}. Received: {first}.")
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
        normalization_rule: str = "nmt_nfkc",
    ) -> Self:
        """Train a SentencePiece model on a corpus.

        Args:
            texts: The corpus.
            vocabulary_size: Number of token ids, including the special tokens. Smaller if the corpus yields
                fewer.
            model_type: `"bpe"` or `"unigram"`.
            lowercase: As for the constructor.
            normalization_rule: `"nmt_nfkc"` or `"nfkc"`, rules of SentencePiece that replace compatibility
                characters, or `"identity"`, which keeps all characters, such as Chinese punctuation.

        Returns:
            A tokenizer.

        Raises:
            InputError: If the corpus is empty, or `vocabulary_size` is too small for the special tokens and
                the characters of the corpus. The message shows the size needed.
            ValueError: If `model_type` or `normalization_rule` is unknown.

        Warns:
            VocabularyWarning: If the corpus yields fewer pieces. The tokenizer then uses all of them.
        """
        check_choice(_MODEL_TYPES, model_type=model_type)
        check_choice(_NORMALIZATIONS, normalization_rule=normalization_rule)
        check_kind(Integral, vocabulary_size=vocabulary_size)
        check_flags(lowercase=lowercase)
        if vocabulary_size <= len(SPECIAL_TOKENS):
            raise InputError(
                f"`vocabulary_size` must be above {len(SPECIAL_TOKENS)}, the number of special tokens. "
                f"Received: vocabulary_size={vocabulary_size}."
            )
        lines = _training_lines(texts, lowercase)
        try:
            return cls(_train(lines, vocabulary_size, model_type, normalization_rule), lowercase=lowercase)
        except RuntimeError as error:
            message = " ".join(str(error).split())  # several lines with a source position
            largest = re.search(r"value <= (\d+)", message)
            if largest is None:
                if smallest := re.search(r"required_chars\. \d+ vs (\d+)", message):
                    message = f"its characters alone need {smallest[1]} tokens."
                wanted = f"a subword vocabulary of {vocabulary_size} tokens"
                raise InputError(f"Cannot train {wanted} on this corpus: {message}") from error
        warn_user(
            f"The corpus is too small for a subword vocabulary of {vocabulary_size} tokens. "
            f"It yields {largest[1]}, which are used.",
            VocabularyWarning,
        )
        return cls(_train(lines, int(largest[1]), model_type, normalization_rule), lowercase=lowercase)

    @property
    def normalization_rule(self) -> str:
        """Rule of SentencePiece for characters; see `train`."""
        from sentencepiece import sentencepiece_model_pb2

        rule: str = sentencepiece_model_pb2.ModelProto.FromString(self.proto).normalizer_spec.name
        return rule

    def _encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        self._reload_if_lost()
        return self._tokenize(texts)

    def _decode(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        self._reload_if_lost()
        return self._detokenize(token_ids)

    def _use(self, layer: "SentencePieceTokenizer") -> None:
        self._layer = layer
        # A SavedModel must find the resources of the layer, which Keras tracks only on the TensorFlow
        # backend.
        self._resource = getattr(layer, "_sentence_piece", None)
        # Compiled, because the eager layer runs a different implementation, in Python, which raises for
        # bytes. An export runs this one.
        texts, rows = tf.TensorSpec([None], tf.string), tf.RaggedTensorSpec([None, None], tf.int32)
        self._tokenize = tf.function(layer.tokenize, input_signature=[texts], autograph=False)
        self._detokenize = tf.function(layer.detokenize, input_signature=[rows], autograph=False)

    def _reload_if_lost(self) -> None:
        """Reload the model if TensorFlow has dropped it."""
        # TensorFlow Text keeps the model in TensorFlow's cache of kernels. Setting the global seed clears
        # that cache, for example with `keras.utils.set_random_seed`.
        with tf.init_scope():
            try:
                self._tokenize(tf.constant([""]))
            except tf.errors.NotFoundError:
                self._use(load_sentence_piece(self.proto, "proto"))

    def _vocabulary_bytes(self) -> bytes:
        return self.proto

    @classmethod
    def _restore(cls, vocabulary: bytes, options: dict[str, bool]) -> Self:
        return cls(vocabulary, **options)


def load_sentence_piece(proto: bytes, argument: str) -> "SentencePieceTokenizer":
    """Create the layer of a serialized SentencePiece model; a ValueError names `argument`."""
    # Imported here, because the import takes seconds and only this tokenizer needs it.
    from keras_nlp.tokenizers import SentencePieceTokenizer

    try:
        return SentencePieceTokenizer(proto=proto, dtype="int32")
    except (tf.errors.OpError, RuntimeError) as error:
        received = f"{len(proto)} bytes starting with {proto[:16]!r}"
        raise ValueError(f"`{argument}` must be a SentencePiece model. Received: {received}.") from error


def _training_lines(texts: Iterable[str], lowercase: bool) -> list[bytes]:
    """Return the corpus as the tokenizer will receive it, without unusable characters."""
    batches = (batch.numpy() for batch in _normalized_batches(texts, lowercase=lowercase))
    replacement = REPLACEMENT_CHARACTER.encode()
    lines = [line.replace(replacement, b" ").strip() for batch in batches for line in batch]
    lines = [line for line in lines if line]
    if not lines:
        raise InputError("Cannot train a vocabulary: the corpus holds no text. Received: 0 lines.")
    return lines


def _train(lines: list[bytes], vocabulary_size: int, model_type: str, normalization_rule: str) -> bytes:
    # Imported here, because only subword tokenizers need it.
    from sentencepiece import SentencePieceTrainer

    pad, unknown, start, end = SPECIAL_TOKENS
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=vocabulary_size,
        model_type=model_type,
        normalization_rule_name=normalization_rule,
        # By default, SentencePiece silently drops longer lines.
        max_sentence_length=max(_DEFAULT_MAX_SENTENCE_LENGTH, *map(len, lines)) + 1,
        # Reproducible: every character is kept, and training in one thread is deterministic.
        character_coverage=1.0,
        num_threads=1,
        minloglevel=2,
        pad_id=SPECIAL_IDS.pad,
        unk_id=SPECIAL_IDS.unknown,
        bos_id=SPECIAL_IDS.start,
        eos_id=SPECIAL_IDS.end,
        pad_piece=pad,
        unk_piece=unknown,
        bos_piece=start,
        eos_piece=end,
    )
    return model.getvalue()
