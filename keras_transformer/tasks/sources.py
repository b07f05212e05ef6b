"""What a model reads: how sources are checked, batched, and turned into the model's inputs."""

import abc
from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeAlias

import keras
import tensorflow as tf

from keras_transformer._arguments import as_strings, is_text
from keras_transformer.text import Reader, Tokenizer
from keras_transformer.types import SPECIAL_TOKENS, Columns, Shape, Value

Batch: TypeAlias = tuple[tf.Tensor, ...]

# Control characters, of which tokenizers of subwords read nothing, all that Unicode calls white space, and
# marks without a width.
_BLANK = r"[\p{Cc}\p{Z}\x{180e}\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{206f}\x{feff}]*"


class Source(abc.ABC):
    """The kind of a task's sources. A task knows this interface, and no kind.

    A batch is a tuple of tensors, one for each column of a request; what a model reads is another one. `read`
    and `is_empty` consist of TensorFlow operations: an export serves them.
    """

    kinds: ClassVar[dict[str, type["Source"]]] = {}
    """The classes by their names, for a served model, which has no tokenizer."""
    reader: ClassVar[type]
    """What turns a source into numbers, such as a tokenizer; it can be saved, and makes a `Source`."""
    columns: ClassVar[Columns]
    """The inputs of a served signature, with the batch as their first axis."""
    name: ClassVar[str]
    """The name of the first of them."""
    unit: ClassVar[str] = "tokens"
    """What its length counts."""
    hard_values: tuple[Value, ...]
    """Sources that users send by mistake, with which an export is verified."""
    about: str
    """What the README of an export says about the input."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name = next(iter(cls.columns))
        Source.kinds[cls.name] = cls

    @classmethod
    def of(cls, reader: Reader) -> "Source":
        """Return the source that a tokenizer, or another reader, makes."""
        # The readers of other kinds are saved like tokenizers, and so are tokenizers, too.
        kinds = [kind for kind in cls.kinds.values() if kind is not TextSource]
        return next((kind(reader) for kind in kinds if isinstance(reader, kind.reader)), TextSource(reader))

    @classmethod
    def default_reader(cls, model: keras.Model) -> Reader | None:
        """Return the reader of a model whose sources need none, None for other models."""
        readers = (kind.default_reader(model) for kind in cls.__subclasses__())
        return next((reader for reader in readers if reader is not None), None)

    @abc.abstractmethod
    def __init__(self, reader: Reader) -> None:
        """Keep the reader."""

    @property
    @abc.abstractmethod
    def input_specs(self) -> tuple[tuple[Shape, str], ...]:
        """The shape and dtype of each tensor that the model reads: the values, and perhaps their mask."""

    @abc.abstractmethod
    def check_model(self, model: keras.Model) -> None:
        """Raise `ValueError` for a model that does not read what `read` returns."""

    @classmethod
    def longest(cls, model: keras.Model) -> int | None:
        """Return the most that a model can read of a source, None where it has no limit."""
        return None

    @abc.abstractmethod
    def example(self) -> Value:
        """Return a source for the warm-up of an export, where none is given."""

    @classmethod
    @abc.abstractmethod
    def check(cls, argument: str, values: Iterable[object]) -> list[Value]:
        """Return sources as a list; raise `TypeError` or `ValueError` for a value of another kind."""

    @classmethod
    def is_one(cls, value: object) -> bool:
        """Return whether a value is one source, and not several; only for strings is that certain."""
        return False

    @classmethod
    @abc.abstractmethod
    def batch(cls, values: Sequence[Value]) -> Batch:
        """Join sources into a tensor for each of the columns."""

    @abc.abstractmethod
    def read(self, columns: Batch, max_length: int) -> tuple[Batch, tf.Tensor]:
        """Return what the model reads, at most `max_length` long, and which rows were cut off, `(b,)`."""

    @abc.abstractmethod
    def is_empty(self, columns: Batch) -> tf.Tensor:
        """Return which rows are empty, so that their outputs are empty too, boolean `(b,)`."""

    @abc.abstractmethod
    def tokens(self, inputs: Batch) -> tf.Tensor:
        """Name each position of what the encoder returns for what `read` gives, string `(b, s)`."""


class TextSource(Source):
    """Strings, turned into token ids by a tokenizer in the graph.

    Args:
        tokenizer: The tokenizer of the sources.
        reads_empty: Whether an empty string is read like any other, as a prompt is. If False, its output is
            empty, and so is that of white space alone.
    """

    reader = Tokenizer
    columns: ClassVar[Columns] = {"text": ("string", 1)}
    hard_values = ("", "  ", "\u3000\u2028\u200b", "\U0001f600 \u05e9\u05dc\u05d5\u05dd", b"\xff\xfe\xc3")
    about = "Bytes that are not UTF-8 are no error."
    input_specs = (((None, None), "int32"),)

    def __init__(self, tokenizer: Tokenizer, *, reads_empty: bool = False) -> None:
        self.tokenizer = tokenizer
        self._reads_empty = reads_empty

    def check_model(self, model: keras.Model) -> None:
        """Raise `ValueError` for a model with another vocabulary."""
        _check_vocabulary("source_tokenizer", self.tokenizer, model.source_embedding.vocabulary_size)

    @classmethod
    def longest(cls, model: keras.Model) -> int | None:
        """Return the number of learned positions, None for other positions."""
        return getattr(model, "max_length", None)

    def example(self) -> Value:
        """Return what the vocabulary begins with."""
        first = len(SPECIAL_TOKENS)
        token_ids = tf.range(first, min(first + 8, self.tokenizer.vocabulary_size))
        [text] = self.tokenizer.detokenize(token_ids[tf.newaxis]).numpy().tolist()
        return str(text.decode("utf-8", "replace"))

    @classmethod
    def check(cls, argument: str, values: Iterable[object]) -> list[Value]:
        """Return strings as a list; raise `TypeError` for a single string and for other values."""
        return [*as_strings(**{argument: values})]

    @classmethod
    def is_one(cls, value: object) -> bool:
        """Return whether a value is one string, and not several."""
        return is_text(value)

    @classmethod
    def batch(cls, values: Sequence[Value]) -> Batch:
        """Encode strings, string `(b,)`."""
        # A lone surrogate is no UTF-8, and an unknown token to a tokenizer.
        texts = (
            value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
            for value in values
        )
        return (tf.constant([*texts], tf.string, [len(values)]),)

    def read(self, columns: Batch, max_length: int) -> tuple[Batch, tf.Tensor]:
        """Return ended and padded token ids, int32 `(b, s)`, and which texts were cut off, `(b,)`."""
        [texts] = columns
        token_ids, is_cut = _ended_ids(self.tokenizer, texts, max_length)
        return (token_ids,), is_cut

    def is_empty(self, columns: Batch) -> tf.Tensor:
        """Return which texts hold nothing but white space, none where empty texts are read."""
        [texts] = columns
        return _is_blank(texts) & (not self._reads_empty)

    def tokens(self, inputs: Batch) -> tf.Tensor:
        """Name each token, string `(b, s)`."""
        [token_ids] = inputs
        return self.tokenizer.tokens(token_ids)


def _is_blank(texts: tf.Tensor) -> tf.Tensor:
    """Return which texts have nothing that is seen, boolean `(b,)`; training drops such pairs."""
    return tf.strings.regex_full_match(texts, _BLANK)


def _ended_ids(tokenizer: Tokenizer, texts: tf.Tensor, max_length: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Tokenize, end, cut off and pad texts: int32 `(b, s)`, and which were cut off, boolean `(b,)`."""
    token_ids, is_cut = tokenizer.ended_ids(texts, max_length)
    # A column even where there are no rows: a reshape cannot tell the size of 0 elements.
    return tf.pad(token_ids, [[0, 0], [0, tf.maximum(1 - tf.shape(token_ids)[1], 0)]]), is_cut


def _check_vocabulary(argument: str, tokenizer: Tokenizer, size: int) -> None:
    """Raise ValueError for a tokenizer whose vocabulary is not of the model's size."""
    received = getattr(tokenizer, "vocabulary_size", None)
    if received != size:
        # That of a layer of Keras is a method.
        received = received if isinstance(received, int) else f"that of a {type(tokenizer).__name__}"
        side = argument.removesuffix("tokenizer").replace("_", " ")
        raise ValueError(
            f"`{argument}` must have the vocabulary of the model, as a tokenizer of this package; "
            "`text.as_tokenizer` makes one of a tokenizer of Keras, KerasHub or SentencePiece. "
            f"Received: {argument}.vocabulary_size={received}, model {side}vocabulary size={size}."
        )
