"""Graphs of the served signatures: a task's functions, traced with the exported weights.

The options of a request are inputs of the separate signature `search`. A server requires every input of a
signature, so as inputs of `serving_default` they would break existing clients.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from keras_transformer.decoding import SearchResult
from keras_transformer.export.weights import _StoredWeights
from keras_transformer.tasks import ModelTask, SearchTask
from keras_transformer.types import SPECIAL_IDS, Batch, Signature

_Graph = Callable[..., dict[str, tf.Tensor]]
_Find = Callable[..., SearchResult]
_MIN_BUCKET_LENGTH = 16
# Warm-up of a compiled search: batch sizes up to the example's `max_execution_batch_size`.
WARM_BATCH_SIZES = (1, 2, 4, 8, 16, 32)
_MAX_BUCKET_BATCH = 2**20


def _served_signatures(task: ModelTask, optimize: str) -> list[Signature]:
    """Return the names of an export's signatures."""
    # Under XLA a source cannot leave the batch at its own maximum length, so there is no `search`.
    return [name for name in task.signatures if (name, optimize) != ("search", "xla")]


class _ServingGraphs:
    """Signatures of a task as graphs without Keras."""

    def __init__(self, task: ModelTask, optimize: str = "float32", threads: int | None = None) -> None:
        self._task, self._optimize = task, optimize
        self._weights = _StoredWeights(task.model, optimize)
        traced = _TracedFunctions(task.token_functions, self._weights)
        if isinstance(task, SearchTask):
            traced = _TracedSearch(task, self._weights, optimize, threads)
        self._functions = task.string_functions(traced)

    def module(self, vocabulary_files: Sequence[str]) -> tf.Module:
        """Return a module with the weights, tokenizers and vocabularies of the traced `signatures`."""
        # A separate module: as attributes of this object, the graphs would save functions and Keras objects
        # that no server reads.
        module = tf.Module(name="serving")
        module.model_variables = self._weights.variables
        module.tokenizers = [getattr(self._task, name) for name in self._task.tokenizer_names]
        module.vocabularies = [tf.saved_model.Asset(path) for path in vocabulary_files]
        return module

    def signatures(self) -> dict[Signature, _Graph]:
        """Return a graph for each signature."""
        graphs: dict[Signature, _Graph] = {}
        for name in _served_signatures(self._task, self._optimize):
            served = self._task.specification(name)
            specs = [
                tf.TensorSpec([None] * rank, dtype, name=column)
                for column, (dtype, rank) in served.inputs.items()
            ]
            serve = partial(_documented_outputs, self._functions[name], [*served.served_outputs])
            graph = tf.function(serve, input_signature=specs, autograph=False)
            graphs[name] = graph.get_concrete_function()
        return graphs


def _documented_outputs(function: _Graph, names: Sequence[str], *columns: tf.Tensor) -> dict[str, tf.Tensor]:
    """Return only the documented outputs of a signature."""
    outputs = function(*columns)
    return {name: outputs[name] for name in names}


class _TracedFunctions:
    """Token functions of a task, traced with the exported weights."""

    def __init__(self, functions: Any, weights: _StoredWeights) -> None:
        self._functions = functions
        self._weights = weights

    def predict(self, inputs: Batch) -> tf.Tensor:
        """Return the logits of a classifier or tagger."""
        with self._weights.scope():
            return self._functions.predict(inputs)

    def score(self, inputs: Batch, target_ids: tf.Tensor) -> Sequence[tf.Tensor]:
        """Score targets."""
        with self._weights.scope():
            return self._functions.score(inputs, target_ids)

    def attend(self, inputs: Batch, target_ids: tf.Tensor) -> tf.Tensor:
        """Return the attention of targets."""
        with self._weights.scope():
            return self._functions.attend(inputs, target_ids)


class _TracedSearch(_TracedFunctions):
    """Traced token functions of a task with a search, with one decoding loop for all signatures."""

    def __init__(self, task: SearchTask, weights: _StoredWeights, optimize: str, threads: int | None) -> None:
        super().__init__(task.token_functions, weights)
        # XLA has no options, see `_served_signatures`. `num_hypotheses` does not affect the loop.
        names = [] if optimize == "xla" else [name for name in task.options if name != "num_hypotheses"]
        self._defaults = [task.default_options[name] for name in names]
        options = [tf.TensorSpec([None], task.options[name][0]) for name in names]
        source = [tf.TensorSpec(*spec) for spec in task.reader.input_specs]
        self._num_inputs, search = len(source), self._search
        if optimize == "xla":
            search = _compile_in_buckets(search, source[0], task.max_source_length)
        # Traced once for four signatures.
        graph = _trace(search, *source, *options)
        self._found = graph if threads is None else partial(_search_in_threads, graph, threads)

    def find(self, inputs: Batch, *options: tf.Tensor) -> SearchResult:
        """Generate hypotheses. Options: maximum lengths, length penalties, seeds, each `(b,)`; or none."""
        rows = tf.shape(inputs[0])[:1]
        return self._found(*inputs, *(options or [tf.fill(rows, value) for value in self._defaults]))

    def _search(self, *columns: tf.Tensor) -> SearchResult:
        inputs, options = columns[: self._num_inputs], columns[self._num_inputs :]
        # Seeds instead of row indices, which would depend on other requests in the batch.
        seeds = options[2] if len(options) > 2 else tf.zeros(tf.shape(inputs[0])[:1], tf.int32)
        with self._weights.scope():
            return self._functions.find(inputs, seeds, *options[:2])


def _trace(find: _Find, *signature: tf.TensorSpec, jit_compile: bool | None = None) -> _Find:
    """Trace a search once for all sizes of its source and options."""
    return tf.function(find, input_signature=signature, autograph=False, jit_compile=jit_compile)


def _compile_in_buckets(find: _Find, source: tf.TensorSpec, max_length: int) -> _Find:
    """Compile a search with XLA, once for each bucket of sizes on its first use."""
    compiled = _trace(find, source, jit_compile=True)

    def find_in_buckets(token_ids: tf.Tensor) -> SearchResult:
        result = compiled(_pad_to_bucket(token_ids, max_length))
        batch_size = tf.shape(token_ids)[0]
        return SearchResult(result.token_ids[:batch_size], result.scores[:batch_size])

    return find_in_buckets


def _search_in_threads(find: Any, threads: int, *inputs: tf.Tensor) -> SearchResult:
    """Split a batch across threads and search for the parts in parallel."""
    # If two threads share each operation, they wait for each other at its end and read from each other's
    # cache: a step for 32 sources took as long as with one thread. `MapDefun` runs a function for each part
    # on a single thread. It is for CPUs only.
    function = find.get_concrete_function()
    batch_size = tf.shape(inputs[0])[0]
    size = -(-batch_size // threads)
    num_parts = tf.maximum(-(-batch_size // tf.maximum(size, 1)), 1)
    # All parts have the same size; the last source fills the missing rows.
    rows = tf.minimum(tf.range(num_parts * size), tf.maximum(batch_size - 1, 0))
    sizes = tf.stack([num_parts, size])
    parts = [tf.reshape(tf.gather(each, rows), tf.concat([sizes, tf.shape(each)[1:]], 0)) for each in inputs]
    found = tf.raw_ops.MapDefun(
        arguments=parts,
        captured_inputs=function.captured_inputs,
        output_types=function.output_dtypes,
        output_shapes=function.output_shapes,
        f=function,
        max_intra_op_parallelism=1,
    )
    shapes = function.output_shapes
    joined = (tf.reshape(each, [-1, *shape[1:]]) for each, shape in zip(found, shapes, strict=True))
    return SearchResult(*(each[:batch_size] for each in joined))


def _pad_to_bucket(token_ids: tf.Tensor, max_length: int) -> tf.Tensor:
    """Pad sources `(b, s)` to a length of 16, 32, 64 ... and their number to a power of two."""
    powers, lengths = _powers_of_two(), _bucket_lengths(max_length)
    batch_size, length = tf.shape(token_ids)[0], tf.shape(token_ids)[1]
    num_rows = _smallest_fitting(powers, batch_size)
    num_columns = _smallest_fitting(lengths, length)
    token_ids = tf.pad(token_ids, [[0, 0], [0, num_columns - length]], constant_values=SPECIAL_IDS.pad)
    # Extra rows repeat the first source: a row of padding would also be decoded to its end, and might take
    # longest. If there is no source, they are empty sources.
    empty = tf.concat([[[SPECIAL_IDS.end]], tf.fill([1, num_columns - 1], SPECIAL_IDS.pad)], axis=1)
    rows = tf.range(num_rows)
    rows = tf.where(rows < batch_size, rows, 0)
    return tf.gather(tf.concat([token_ids, empty], axis=0), rows)


def _powers_of_two() -> list[int]:
    return [2**power for power in range(_MAX_BUCKET_BATCH.bit_length())]


def _bucket_lengths(max_length: int) -> list[int]:
    """Return the lengths to which a compiled search pads sources."""
    return [*(size for size in _powers_of_two() if _MIN_BUCKET_LENGTH <= size < max_length), max_length]


def _smallest_fitting(sizes: list[int], size: tf.Tensor) -> tf.Tensor:
    """Return the smallest of the ascending sizes that is at least `size`."""
    return tf.gather(sizes, tf.searchsorted(sizes, [size], side="left")[0])
