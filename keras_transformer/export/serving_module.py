"""The graph that a model server runs: strings in; strings, scores and alignments out."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.decoding import (
    SearchResult,
    Translator,
    align_targets,
    generate,
    score_targets,
)
from keras_transformer.decoding.log_probabilities import LOWEST_SCORE
from keras_transformer.export.stored_weights import StoredWeights
from keras_transformer.text import SPECIAL_IDS, Tokenizer


class Signature(NamedTuple):
    """The names, types and ranks of what goes in and comes out; the first axis is the batch."""

    inputs: dict[str, tuple[str, int]]
    """dtype and rank by name."""
    outputs: dict[str, tuple[str, int]]
    """Likewise."""


def utf8(texts: Sequence[str]) -> list[bytes]:
    """Encode texts; a lone surrogate is no UTF-8, and an unknown token to a tokenizer."""
    return [text.encode("utf-8", "surrogatepass") for text in texts]


_TEXT = {"text": ("string", 1)}

SIGNATURES = {
    "serving_default": Signature(_TEXT, {"output": ("string", 1), "score": ("float32", 1)}),
    "n_best": Signature(_TEXT, {"output": ("string", 2), "score": ("float32", 2)}),
    "align": Signature(
        _TEXT,
        {
            "output": ("string", 1),
            "score": ("float32", 1),
            "source_tokens": ("string", 2),
            "output_tokens": ("string", 2),
            "attention": ("float32", 3),
        },
    ),
    "score": Signature(
        {**_TEXT, "output": ("string", 1)}, {"score": ("float32", 1), "num_tokens": ("int32", 1)}
    ),
}

SHORTEST = 16
LARGEST_BATCH = 2**20

Generate = Callable[[tf.Tensor], SearchResult]


def length_buckets(max_length: int) -> list[int]:
    """List the lengths that sources are padded to.

    Args:
        max_length: of a source.

    Returns:
        16, 32, 64 and so on, with `max_length` as the last.
    """
    buckets = [SHORTEST]
    while buckets[-1] < max_length:
        buckets.append(2 * buckets[-1])
    return [*buckets[:-1], max_length]


def pad_to_bucket(token_ids: tf.Tensor, max_length: int) -> tf.Tensor:
    """Pad sources to the next length, and repeat the first until their number is a power of two.

    The first and not padding: a row of nothing would be decoded to its end as well, and may be the
    one that takes longest.

    Args:
        token_ids: int32 `(b, s)`, of any batch size, 0 included.
        max_length: the longest `s`.

    Returns:
        int32, at least as large on both axes and with at least one row.
    """
    batch_size, length = tf.shape(token_ids)[0], tf.shape(token_ids)[1]
    num_rows = _next([2**power for power in range(LARGEST_BATCH.bit_length())], batch_size)
    num_columns = _next(length_buckets(max_length), length)
    token_ids = tf.pad(token_ids, [[0, 0], [0, num_columns - length]], constant_values=SPECIAL_IDS.pad)
    # Where there is no first row, an empty source stands for it.
    nothing = tf.concat([[[SPECIAL_IDS.end]], tf.fill([1, num_columns - 1], SPECIAL_IDS.pad)], axis=1)
    rows = tf.range(num_rows)
    rows = tf.where(rows < batch_size, rows, 0)
    return tf.gather(tf.concat([token_ids, nothing], axis=0), rows)


def compiled_in_buckets(generate: Generate, max_length: int) -> Generate:
    """Compile a search with XLA, for each bucket when it is first used.

    Args:
        generate: from int32 `(b, s)` to a `SearchResult`.
        max_length: the longest `s`.

    Returns:
        A function that gives the same, of any batch size and length.
    """
    compiled = graph_of(generate, jit_compile=True)

    def generate_in_buckets(token_ids: tf.Tensor) -> SearchResult:
        """Pad, search, and drop what was added."""
        result = compiled(pad_to_bucket(token_ids, max_length))
        batch_size = tf.shape(token_ids)[0]
        return SearchResult(result.token_ids[:batch_size], result.scores[:batch_size])

    return generate_in_buckets


def graph_of(generate: Generate, *, jit_compile: bool | None = None) -> Generate:
    """Make a graph of a search, traced once for all sizes.

    Args:
        generate: from int32 `(b, s)` to a `SearchResult`.
        jit_compile: whether XLA compiles it, for each size when it is first used.

    Returns:
        The graph.
    """
    signature = [tf.TensorSpec([None, None], tf.int32)]
    return tf.function(generate, input_signature=signature, autograph=False, jit_compile=jit_compile)


def _next(sizes: list[int], size: tf.Tensor) -> tf.Tensor:
    """Find the first of ascending sizes that is not below a size."""
    return tf.gather(sizes, tf.searchsorted(sizes, [size], side="left")[0])


OPTIMIZATIONS = ("float32", "bfloat16", "xla")


class _Graphs:
    """The search as a graph."""

    def __init__(self, search: Callable[[tf.Tensor], SearchResult], max_length: int, optimize: str) -> None:
        self.generate = compiled_in_buckets(search, max_length) if optimize == "xla" else graph_of(search)


class ServingModule(tf.Module):
    """Everything of a translator that a server needs, without Keras.

    Args:
        translator: on the TensorFlow backend.
        vocabulary_files: copied into `assets/` of the SavedModel.
        optimize: `float32`; `bfloat16` for matrices of half the size; or `xla` for a search that is
            compiled for lengths 16, 32, 64 and so on.

    Raises:
        ValueError: the model's variables are not those of TensorFlow, or an unknown `optimize`.
    """

    def __init__(
        self, translator: Translator, vocabulary_files: list[str], optimize: str = "float32"
    ) -> None:
        super().__init__(name="serving")
        if optimize not in OPTIMIZATIONS:
            raise ValueError(f"`optimize` must be one of {OPTIMIZATIONS}. Received: optimize={optimize!r}.")
        weights = StoredWeights(translator.model, bfloat16=optimize == "bfloat16")
        # No trackables: the SavedModel holds variables and tables, not Keras objects.
        self._translator, self._weights = translator, weights
        self.model_variables = weights.variables
        self.source_tokenizer = translator.source_tokenizer
        self.target_tokenizer = translator.target_tokenizer
        self.vocabularies = [tf.saved_model.Asset(path) for path in vocabulary_files]
        # Traced once, for three signatures. In a plain object, since a function that is an attribute
        # would be traced and saved a second time.
        self._graphs = _Graphs(self._search, translator.max_source_length, optimize)

    def serving_default(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Answers each source.

        Args:
            text: string (b,), any bytes.

        Returns:
            `output`, string (b,), and `score`, float32 (b,): its log-probability, divided by the
            search's length penalty. An empty source has an empty output and the score 0.
        """
        result, is_empty = self._graphs.generate(self._source_ids(text)), _is_empty(text)
        output = self.target_tokenizer.detokenize(result.token_ids[:, 0])
        return {
            "output": tf.where(is_empty, "", output),
            "score": tf.where(is_empty, 0.0, result.scores[:, 0]),
        }

    def n_best(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Gives every hypothesis of the search.

        Args:
            text: string (b,), any bytes.

        Returns:
            `output`, string (b, n), and `score`, float32 (b, n), best first. Where there are fewer
            sequences than n, the output is empty and the score -1e30. An empty source has one, with
            an empty output and the score 0.
        """
        result, is_empty = self._graphs.generate(self._source_ids(text)), _is_empty(text)[:, None]
        token_ids, scores = result
        output = self.target_tokenizer.detokenize(tf.reshape(token_ids, [-1, token_ids.shape[-1]]))
        scores_of_empty = [0.0, *[LOWEST_SCORE] * (self._translator.search.num_outputs - 1)]  # (n,)
        return {
            "output": tf.where(is_empty, "", tf.reshape(output, tf.shape(scores))),
            "score": tf.where(is_empty, scores_of_empty, scores),
        }

    def align(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Answers each source, and says where the model looked for each token of the answer.

        Args:
            text: string (b,), any bytes.

        Returns:
            `output` and `score` as of `serving_default`; `source_tokens`, string (b, s), and
            `output_tokens`, string (b, t), with the end token, `""` where there is padding; and
            `attention`, float32 (b, t, s), 0 where there is padding.
        """
        source_ids, is_empty = self._source_ids(text), _is_empty(text)
        result = self._graphs.generate(source_ids)
        best_ids = _trimmed(result.token_ids[:, 0])  # (b, t)
        with self._weights.scope():
            attention = align_targets(self._translator.model, source_ids, best_ids)
        source_tokens = self.source_tokenizer.tokens(source_ids)
        output_tokens = self.target_tokenizer.tokens(best_ids)
        return {
            "output": tf.where(is_empty, "", self.target_tokenizer.detokenize(best_ids)),
            "score": tf.where(is_empty, 0.0, result.scores[:, 0]),
            "source_tokens": tf.where(is_empty[:, None], "", source_tokens),
            "output_tokens": tf.where(is_empty[:, None], "", output_tokens),
            "attention": tf.where(is_empty[:, None, None], 0.0, attention),
        }

    def score(self, text: tf.Tensor, output: tf.Tensor) -> dict[str, tf.Tensor]:
        """Scores given answers.

        Args:
            text: string (b,), any bytes.
            output: string (b,), an answer to each text. Its tokens are read up to the translator's limit
                less one, and the end token put behind them, so that an answer which the search cut off
                at the limit loses its last token.

        Returns:
            `score`, float32 (b,), as the search would give it to what is read, without penalties for
            coverage and repetition, and `num_tokens`, int32 (b,), the end token included; both 0 where both
            texts are empty.
        """
        same_size = "`text` and `output` must have the same number of rows."
        tf.debugging.assert_equal(tf.shape(text), tf.shape(output), same_size)
        target_ids = _ended_ids(output, self.target_tokenizer, self._translator.max_target_length)
        with self._weights.scope():
            scores = score_targets(self._translator.model, self._source_ids(text), target_ids)
        is_empty = _is_empty(text) & _is_empty(output)
        return {
            "score": tf.where(is_empty, 0.0, self._translator.search.score(*scores)),
            "num_tokens": tf.where(is_empty, 0, scores.num_tokens),
        }

    def signatures(self) -> dict[str, Any]:
        """Names the functions that a server offers.

        Returns:
            a concrete function for each signature name.
        """
        return {name: self._graph(name, list(signature.inputs)) for name, signature in SIGNATURES.items()}

    def _graph(self, name: str, columns: list[str]) -> Any:
        specs = [tf.TensorSpec([None], tf.string, name=column) for column in columns]
        return tf.function(
            getattr(self, name), input_signature=specs, autograph=False
        ).get_concrete_function()

    def _source_ids(self, text: tf.Tensor) -> tf.Tensor:
        return _ended_ids(text, self.source_tokenizer, self._translator.max_source_length)

    def _search(self, source_ids: tf.Tensor) -> SearchResult:
        translator = self._translator
        with self._weights.scope():
            return generate(translator.model, source_ids, translator.search, translator.max_target_length)


def _ended_ids(text: tf.Tensor, tokenizer: Tokenizer, max_length: int) -> tf.Tensor:
    """Tokenize, with a column even where there are no rows: a reshape cannot tell what 0 elements are."""
    token_ids = tokenizer.padded_ids(text, max_length)  # (b, s)
    return tf.pad(token_ids, [[0, 0], [0, tf.maximum(1 - tf.shape(token_ids)[1], 0)]])


def _is_empty(text: tf.Tensor) -> tf.Tensor:
    return tf.equal(tf.strings.length(text), 0)


def _trimmed(token_ids: tf.Tensor) -> tf.Tensor:
    """Drop the columns of `(b, T)` in which every row is padding, all but the first."""
    lengths = tf.math.count_nonzero(token_ids != SPECIAL_IDS.pad, axis=1, dtype=tf.int32)  # (b,)
    return token_ids[:, : tf.reduce_max(tf.concat([lengths, [1]], axis=0))]
