"""Sources: how a task checks, batches and encodes what it reads."""

import abc
from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeAlias

import keras
import tensorflow as tf

from keras_transformer._arguments import as_strings, is_text
from keras_transformer.text import Reader, Tokenizer
from keras_transformer.types import SPECIAL_TOKENS, Columns, Shape, Value

Batch: TypeAlias = tuple[tf.Tensor, ...]

# Control characters, which subword tokenizers ignore, Unicode white space, and zero-width characters.
_BLANK = r"[\p{Cc}\p{Z}\x{180e}\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{206f}\x{feff}]*"


class Source(abc.ABC):
    """Base class of the kinds of sources. A task uses only this interface.

    A batch is a tuple of tensors, one for each column of a request; `read` converts it to the model's inputs.
    `read` and `is_empty` consist of TensorFlow operations, so that an export can serve them.
    """

    kinds: ClassVar[dict[str, type["Source"]]] = {}
    """Subclasses by `name`. A served model has no tokenizer and finds the kind of its source here."""
    reader: ClassVar[type]
    """Class of the reader, such as a tokenizer, which encodes sources and can be saved."""
    columns: ClassVar[Columns]
    """Inputs of a served signature; their first axis is the batch."""
    name: ClassVar[str]
    """Name of the first column."""
    unit: ClassVar[str] = "tokens"
    """Unit of a source's length."""
    hard_values: tuple[Value, ...]
    """Typical invalid or unusual sources, with which an export is verified."""
    about: str
    """Description of the input in the README of an export."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name = next(iter(cls.columns))
        Source.kinds[cls.name] = cls

    @classmethod
    def of(cls, reader: Reader) -> "Source":
        """Return the source for a tokenizer or another reader."""
        # `TextSource` is the fallback: its `check_model` names an object that is not a reader.
        kinds = [kind for kind in cls.kinds.values() if kind is not TextSource]
        return next((kind(reader) for kind in kinds if isinstance(reader, kind.reader)), TextSource(reader))

    @classmethod
    def default_reader(cls, model: keras.Model) -> Reader | None:
        """Return the reader for a model if the user passes none; None if the user must pass one."""
        readers = (kind.default_reader(model) for kind in cls.__subclasses__())
        return next((reader for reader in readers if reader is not None), None)

    @abc.abstractmethod
    def __init__(self, reader: Reader) -> None:
        """Store the reader."""

    @property
    @abc.abstractmethod
    def input_specs(self) -> tuple[tuple[Shape, str], ...]:
        """Shape and dtype of each model input: the values and, for some kinds, their mask."""

    @abc.abstractmethod
    def check_model(self, model: keras.Model) -> None:
        """Raise `ValueError` if a model does not read what `read` returns."""

    @abc.abstractmethod
    def example(self) -> Value:
        """Return an example source, for the warm-up of an export without examples."""

    @classmethod
    @abc.abstractmethod
    def check(cls, argument: str, values: Iterable[object]) -> list[Value]:
        """Validate the sources and return them as a list."""

    @classmethod
    def is_one(cls, value: object) -> bool:
        """Return whether a value is a single source, not several. The base class returns False."""
        return False

    @classmethod
    @abc.abstractmethod
    def batch(cls, values: Sequence[Value]) -> Batch:
        """Convert sources to one tensor for each column."""

    @abc.abstractmethod
    def read(self, columns: Batch, max_length: int) -> tuple[Batch, tf.Tensor]:
        """Return the model's inputs, truncated to `max_length`, and which rows were truncated, `(b,)`."""

    @abc.abstractmethod
    def is_empty(self, columns: Batch) -> tf.Tensor:
        """Return which rows are empty and so have an empty output, boolean `(b,)`."""

    @abc.abstractmethod
    def tokens(self, inputs: Batch) -> tf.Tensor:
        """Return a name for each position of the encoder's output, string `(b, s)`."""


class TextSource(Source):
    """Texts, tokenized in the graph.

    Args:
        tokenizer: Tokenizer of the sources.
        reads_empty: Whether the model reads an empty string, as for prompts. If False, an empty string, or
            one of white space, has an empty output.
    """

    reader = Tokenizer
    columns: ClassVar[Columns] = {"text": ("string", 1)}
    hard_values = ("", "  ", "\u3000\u2028\u200b", "\U0001f600 \u05e9\u05dc\u05d5\u05dd", b"\xff\xfe\xc3")
    about = "Bytes that are not valid UTF-8 are accepted."
    input_specs = (((None, None), "int32"),)

    def __init__(self, tokenizer: Tokenizer, *, reads_empty: bool = False) -> None:
        self.tokenizer = tokenizer
        self._reads_empty = reads_empty

    def check_model(self, model: keras.Model) -> None:
        """Raise `ValueError` if the model and the tokenizer differ in vocabulary size."""
        _check_vocabulary("source_tokenizer", self.tokenizer, model.source_embedding.vocabulary_size)

    def example(self) -> Value:
        """Return the text of the first tokens of the vocabulary."""
        first = len(SPECIAL_TOKENS)
        token_ids = tf.range(first, min(first + 8, self.tokenizer.vocabulary_size))
        [text] = self.tokenizer.detokenize(token_ids[tf.newaxis]).numpy().tolist()
        return str(text.decode("utf-8", "replace"))

    @classmethod
    def check(cls, argument: str, values: Iterable[object]) -> list[Value]:
        """Validate strings and return them as a list. Raise `TypeError` for a single string."""
        return [*as_strings(**{argument: values})]

    @classmethod
    def is_one(cls, value: object) -> bool:
        """Return whether a value is a single string."""
        return is_text(value)

    @classmethod
    def batch(cls, values: Sequence[Value]) -> Batch:
        """Convert strings to a tensor of UTF-8 bytes, string `(b,)`."""
        # A lone surrogate is not valid UTF-8; a tokenizer reads it as an unknown token.
        texts = (
            value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
            for value in values
        )
        return (tf.constant([*texts], tf.string, [len(values)]),)

    def read(self, columns: Batch, max_length: int) -> tuple[Batch, tf.Tensor]:
        """Return token ids, int32 `(b, s)`, with end tokens and padding, and which texts were truncated."""
        [texts] = columns
        token_ids, is_cut = self.tokenizer.ended_ids(texts, max_length)
        return (token_ids,), is_cut

    def is_empty(self, columns: Batch) -> tf.Tensor:
        """Return which texts are blank, boolean `(b,)`. With `reads_empty`, all are False."""
        [texts] = columns
        return _is_blank(texts) & (not self._reads_empty)

    def tokens(self, inputs: Batch) -> tf.Tensor:
        """Return the string of each token, string `(b, s)`."""
        [token_ids] = inputs
        return self.tokenizer.tokens(token_ids)


def _is_blank(texts: tf.Tensor) -> tf.Tensor:
    """Return which texts have no visible character, boolean `(b,)`; training has no empty texts."""
    return tf.strings.regex_full_match(texts, _BLANK)


def _check_vocabulary(argument: str, tokenizer: Tokenizer, size: int) -> None:
    """Raise ValueError if a tokenizer's vocabulary does not have the model's size."""
    received = getattr(tokenizer, "vocabulary_size", None)
    if received != size:
        # `vocabulary_size` of a Keras layer is a method.
        received = received if isinstance(received, int) else f"that of a {type(tokenizer).__name__}"
        side = argument.removesuffix("tokenizer").replace("_", " ")
        raise ValueError(
            f"`{argument}` must have the vocabulary of the model and be a tokenizer of this package; "
            "`text.as_tokenizer` converts one of Keras, KerasHub or SentencePiece. "
            f"Received: {argument}.vocabulary_size={received}, model {side}vocabulary size={size}."
        )
