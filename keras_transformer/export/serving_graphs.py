"""The graphs that a model server runs: strings in; strings, scores and alignments out."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

import tensorflow as tf

from keras_transformer.decoding.search import SearchResult
from keras_transformer.decoding.text_generator import TextGenerator
from keras_transformer.decoding.text_translator import TextTranslator
from keras_transformer.decoding.translator import Translator
from keras_transformer.export.weights import _StoredWeights
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import SPECIAL_IDS

SignatureName: TypeAlias = Literal["serving_default", "n_best", "align", "score"]


class _ServedFunction(Protocol):
    """A function of a SavedModel."""

    structured_input_signature: tuple[tuple[()], dict[str, tf.TensorSpec]]
    structured_outputs: dict[str, tf.TensorSpec]
    variables: Sequence[tf.Variable]

    def __call__(self, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Compute the outputs of a batch."""


class _Signature(NamedTuple):
    """The dtypes and ranks of inputs and outputs by their names; the first axis is the batch."""

    inputs: dict[str, tuple[str, int]]
    outputs: dict[str, tuple[str, int]]


_TEXT = {"text": ("string", 1)}
_BEST = {"output": ("string", 1), "score": ("float32", 1)}

SIGNATURES: dict[SignatureName, _Signature] = {
    "serving_default": _Signature(_TEXT, _BEST),
    "n_best": _Signature(_TEXT, {"output": ("string", 2), "score": ("float32", 2)}),
    "align": _Signature(
        _TEXT,
        {
            **_BEST,
            "source_tokens": ("string", 2),
            "output_tokens": ("string", 2),
            "attention": ("float32", 3),
        },
    ),
    "score": _Signature(
        {**_TEXT, "output": ("string", 1)}, {"score": ("float32", 1), "num_tokens": ("int32", 1)}
    ),
}


def _utf8(texts: Sequence[str]) -> list[bytes]:
    """Encode texts; a lone surrogate is no UTF-8, and an unknown token to a tokenizer."""
    return [text.encode("utf-8", "surrogatepass") for text in texts]


class _ServingGraphs:
    """The signatures of a translator as graphs, without Keras."""

    def __init__(self, translator: Translator | TextGenerator, optimize: str = "float32") -> None:
        self._translator = translator
        self._weights = _StoredWeights(translator.model, bfloat16=optimize == "bfloat16")
        # Traced once, for three signatures.
        self._generate = (
            _compiled_in_buckets(self._search, translator.max_source_length)
            if optimize == "xla"
            else _graph_of(self._search)
        )

    def module(self, vocabulary_files: Sequence[str]) -> tf.Module:
        """Return a module with the weights, the tables of the tokenizers, and the vocabularies as assets."""
        # A module of its own: one with the graphs as attributes would save functions and Keras objects, which
        # no server reads.
        module = tf.Module(name="serving")
        module.model_variables = self._weights.variables
        module.source_tokenizer = self._translator.source_tokenizer
        module.target_tokenizer = self._translator.target_tokenizer
        module.vocabularies = [tf.saved_model.Asset(path) for path in vocabulary_files]
        return module

    def signatures(self) -> dict[SignatureName, _ServedFunction]:
        """Return a concrete function for each signature."""
        functions: dict[SignatureName, Callable[..., dict[str, tf.Tensor]]] = {
            "serving_default": self._best,
            "n_best": self._n_best,
            "align": self._align,
            "score": self._score,
        }
        concrete: dict[SignatureName, _ServedFunction] = {}
        for name in self._translator.signatures:
            specs = [tf.TensorSpec([None], tf.string, name=column) for column in SIGNATURES[name].inputs]
            graph = tf.function(functions[name], input_signature=specs, autograph=False)
            concrete[name] = graph.get_concrete_function()
        return concrete

    def _best(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the best hypothesis of each text `(b,)`."""
        token_ids, scores = self._generate(self._source_ids(text))
        output = self._translator.target_tokenizer.detokenize(token_ids[:, 0])
        return self._blanked({"output": output, "score": scores[:, 0]}, _is_empty(text))

    def _n_best(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return every hypothesis `(b, n)`, best first; what stands for none has the score -1e30."""
        token_ids, scores = self._generate(self._source_ids(text))
        rows = tf.reshape(token_ids, [-1, token_ids.shape[-1]])
        output = tf.reshape(self._translator.target_tokenizer.detokenize(rows), tf.shape(scores))
        return self._blanked({"output": output, "score": scores}, _is_empty(text))

    def _align(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the best hypothesis, the tokens of both sides and the attention `(b, t, s)` between them."""
        source_ids = self._source_ids(text)
        token_ids, scores = self._generate(source_ids)
        # (b, n, T) -> (b, t): attention to padding would be computed for nothing
        best_ids = _trimmed(token_ids[:, 0])
        with self._weights.scope():
            attention = self._translator.trace_attention(source_ids, best_ids)
        outputs = {
            "output": self._translator.target_tokenizer.detokenize(best_ids),
            "score": scores[:, 0],
            "source_tokens": self._translator.source_tokenizer.tokens(source_ids),
            "output_tokens": self._translator.target_tokenizer.tokens(best_ids),
            "attention": attention,
        }
        return self._blanked(outputs, _is_empty(text))

    def _score(self, text: tf.Tensor, output: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the score of an output `(b,)` for each text, read up to the translator's limit."""
        same_size = "`text` and `output` must have the same number of rows."
        tf.debugging.assert_equal(tf.shape(text), tf.shape(output), same_size)
        translator = self._translator
        target_ids = _ended_ids(output, translator.target_tokenizer, translator.max_target_length)
        with self._weights.scope():
            score, num_tokens = translator.trace_scores(self._source_ids(text), target_ids)
        outputs = {"score": score, "num_tokens": num_tokens}
        return self._blanked(outputs, _is_empty(text) & _is_empty(output))

    def _blanked(self, outputs: dict[str, tf.Tensor], is_empty: tf.Tensor) -> dict[str, tf.Tensor]:
        if not self._translator.blanks_empty:
            return outputs
        return TextTranslator.blanked(outputs, is_empty, where=tf.where)

    def _source_ids(self, text: tf.Tensor) -> tf.Tensor:
        return _ended_ids(text, self._translator.source_tokenizer, self._translator.max_source_length)

    def _search(self, source_ids: tf.Tensor) -> SearchResult:
        with self._weights.scope():
            return self._translator.trace_search(source_ids)


def _ended_ids(text: tf.Tensor, tokenizer: Tokenizer, max_length: int) -> tf.Tensor:
    """Tokenize and end texts `(b,)`: int32 `(b, s)`."""
    token_ids = tokenizer.padded_ids(text, max_length)
    # A column even where there are no rows: a reshape cannot tell the size of 0 elements.
    return tf.pad(token_ids, [[0, 0], [0, tf.maximum(1 - tf.shape(token_ids)[1], 0)]])


def _is_empty(text: tf.Tensor) -> tf.Tensor:
    return tf.equal(tf.strings.length(text), 0)


def _trimmed(token_ids: tf.Tensor) -> tf.Tensor:
    """Drop the columns of `(b, T)` in which every row is padding, all but the first."""
    lengths = tf.math.count_nonzero(token_ids != SPECIAL_IDS.pad, axis=1, dtype=tf.int32)  # (b,)
    return token_ids[:, : tf.reduce_max(tf.concat([lengths, [1]], axis=0))]


_SHORTEST = 16
_LARGEST_BATCH = 2**20
_Generate = Callable[[tf.Tensor], SearchResult]


def _graph_of(generate: _Generate, *, jit_compile: bool | None = None) -> _Generate:
    """Make a graph of a search from int32 `(b, s)`, traced once for all sizes."""
    signature = [tf.TensorSpec([None, None], tf.int32)]
    return tf.function(generate, input_signature=signature, autograph=False, jit_compile=jit_compile)


def _compiled_in_buckets(generate: _Generate, max_length: int) -> _Generate:
    """Compile a search with XLA, for each bucket of sizes when it is first used."""
    compiled = _graph_of(generate, jit_compile=True)

    def generate_in_buckets(token_ids: tf.Tensor) -> SearchResult:
        result = compiled(_pad_to_bucket(token_ids, max_length))
        batch_size = tf.shape(token_ids)[0]
        return SearchResult(result.token_ids[:batch_size], result.scores[:batch_size])

    return generate_in_buckets


def _pad_to_bucket(token_ids: tf.Tensor, max_length: int) -> tf.Tensor:
    """Pad sources `(b, s)` to the next length of 16, 32, 64 and so on, and their number to a power of two."""
    powers = [2**power for power in range(_LARGEST_BATCH.bit_length())]
    lengths = [*(size for size in powers if _SHORTEST <= size < max_length), max_length]
    batch_size, length = tf.shape(token_ids)[0], tf.shape(token_ids)[1]
    num_rows = _next(powers, batch_size)
    num_columns = _next(lengths, length)
    token_ids = tf.pad(token_ids, [[0, 0], [0, num_columns - length]], constant_values=SPECIAL_IDS.pad)
    # The first source is repeated: a row of padding would be decoded to its end as well, and may be the one
    # that takes longest. Where there is no source, an empty one stands for it.
    empty = tf.concat([[[SPECIAL_IDS.end]], tf.fill([1, num_columns - 1], SPECIAL_IDS.pad)], axis=1)
    rows = tf.range(num_rows)
    rows = tf.where(rows < batch_size, rows, 0)
    return tf.gather(tf.concat([token_ids, empty], axis=0), rows)


def _next(sizes: list[int], size: tf.Tensor) -> tf.Tensor:
    """Find the first of ascending sizes that is not below a size."""
    return tf.gather(sizes, tf.searchsorted(sizes, [size], side="left")[0])
