"""The graphs that a model server runs: strings in; strings, scores and alignments out.

The options of a request are inputs of `search`, a signature of its own. TensorFlow Serving fills in what a
gRPC request leaves out (`SignatureDef.defaults`), but its REST interface asks for every input of a signature,
as a function in Python does: in `serving_default` they would turn today's clients away.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer._arguments import pad_audio
from keras_transformer.decoding.search import SearchResult
from keras_transformer.decoding.text_generator import TextGenerator
from keras_transformer.decoding.text_translator import TextTranslator
from keras_transformer.decoding.translator import Translator
from keras_transformer.export.weights import _StoredWeights
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import AUDIO, SPECIAL_IDS, TEXT, ServedInput, Signature, Source


class _Signature(NamedTuple):
    """The dtypes and ranks of inputs and outputs by their names; the first axis is the batch."""

    inputs: dict[str, tuple[str, int]]
    outputs: dict[str, tuple[str, int]]


_Graph = Callable[..., dict[str, tf.Tensor]]
_BEST = {"output": ("string", 1), "score": ("float32", 1)}
_HYPOTHESES = {"output": ("string", 2), "score": ("float32", 2)}
# An option has a row for each text, or one for all: a server that joins the requests of several clients joins
# their rows, and each text keeps the options of its own request.
_OPTIONS = {"max_length": ("int32", 1), "length_penalty": ("float32", 1), "num_hypotheses": ("int32", 1)}

_ALIGNMENT = {"source_tokens": ("string", 2), "output_tokens": ("string", 2), "attention": ("float32", 3)}
_SCORES = {"score": ("float32", 1), "num_tokens": ("int32", 1)}


def _signatures_of(reads: ServedInput) -> dict[Signature, _Signature]:
    """Return the signatures of models that read texts, or audio."""
    source = {reads.name: (reads.dtype, reads.rank)}
    return {
        "serving_default": _Signature(source, _BEST),
        "n_best": _Signature(source, _HYPOTHESES),
        "align": _Signature(source, {**_BEST, **_ALIGNMENT}),
        "score": _Signature({**source, "output": ("string", 1)}, _SCORES),
        "search": _Signature({**source, **_OPTIONS}, _HYPOTHESES),
    }


# The score of what stands for no hypothesis, as `n_best` gives it.
_NO_HYPOTHESIS = -1e30
# A length penalty above it could make a hypothesis that there is not look possible.
_LARGEST_PENALTY = 3.0


def _default_options(translator: Translator | TextGenerator) -> dict[str, float]:
    """Return the options with which `search` answers as `n_best` does."""
    search = translator.search
    values = translator.max_target_length, float(search.length_penalty), search.num_outputs
    return dict(zip(_OPTIONS, values, strict=True))


def _columns(
    translator: Translator | TextGenerator, rows: Source, output: list[bytes]
) -> dict[str, list[Any]]:
    """Return a column for each input of all signatures, with the default options."""
    options = {name: [value] * len(rows) for name, value in _default_options(translator).items()}
    return {translator.reads.name: rows, "output": output, **options}


def _rows(reads: ServedInput, sources: Sequence[Source]) -> Source:
    """Return sources as an export takes them: bytes, or samples `(b, n)`."""
    return pad_audio(sources) if reads == AUDIO else _utf8(sources)


def _utf8(texts: Sequence[str]) -> list[bytes]:
    """Encode texts; a lone surrogate is no UTF-8, and an unknown token to a tokenizer."""
    return [text.encode("utf-8", "surrogatepass") for text in texts]


class _ServingGraphs:
    """The signatures of a translator as graphs, without Keras."""

    def __init__(
        self, translator: Translator | TextGenerator, optimize: str = "float32", threads: int | None = None
    ) -> None:
        self._translator = translator
        self._weights = _StoredWeights(translator.model, optimize)
        # XLA cannot put a source aside when it has as many tokens as were asked for: no options, no `search`.
        self._options = {} if optimize == "xla" else _default_options(translator)
        source = _IDS if translator.reads == TEXT else _frames(translator.source_tokenizer)
        options = [tf.TensorSpec([None], dtype) for dtype in (tf.int32, tf.float32) if self._options]
        search = self._search
        if optimize == "xla":
            search = _compiled_in_buckets(search, translator.max_source_length)
        # Traced once, for four signatures.
        graph = _graph_of(search, source, *options)
        self._found = graph if threads is None else partial(_found_by_threads, graph, threads)

    def module(self, vocabulary_files: Sequence[str]) -> tf.Module:
        """Return a module with what the graphs of `signatures` read, made before, and the vocabularies."""
        # A module of its own: one with the graphs as attributes would save functions and Keras objects, which
        # no server reads.
        module = tf.Module(name="serving")
        module.model_variables = self._weights.variables
        module.source_tokenizer = self._translator.source_tokenizer
        module.target_tokenizer = self._translator.target_tokenizer
        module.vocabularies = [tf.saved_model.Asset(path) for path in vocabulary_files]
        return module

    def signatures(self) -> dict[Signature, _Graph]:
        """Return a function for each signature; TensorFlow saves the defaults of its arguments."""
        functions: dict[Signature, _Graph] = {
            "serving_default": self._best,
            "n_best": self._n_best,
            "align": self._align,
            "score": self._score,
            "search": self._with_options,
        }
        graphs = {}
        for name in (name for name in self._translator.signatures if name != "search" or self._options):
            inputs = _signatures_of(self._translator.reads)[name].inputs.items()
            specs = [tf.TensorSpec([None] * rank, dtype, name=column) for column, (dtype, rank) in inputs]
            graph = tf.function(functions[name], input_signature=specs, autograph=False)
            graphs[name] = graph.get_concrete_function()
            if name == "search":  # A concrete function has no defaults.
                graphs[name] = tf.function(self._with_defaults(graphs[name]), input_signature=specs)
        return graphs

    def _best(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the best hypothesis of each text `(b,)`."""
        token_ids, scores = self._generate(self._source_ids(text))
        output = self._translator.target_tokenizer.detokenize(token_ids[:, 0])
        return self._blanked({"output": output, "score": scores[:, 0]}, _is_empty(text))

    def _n_best(self, text: tf.Tensor, *options: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return every hypothesis `(b, n)`, best first; what stands for none has the score -1e30."""
        token_ids, scores = self._generate(self._source_ids(text), *options)
        rows = tf.reshape(token_ids, [-1, token_ids.shape[-1]])
        output = tf.reshape(self._translator.target_tokenizer.detokenize(rows), tf.shape(scores))
        return self._blanked({"output": output, "score": scores}, _is_empty(text))

    def _with_options(self, text: tf.Tensor, *options: tf.Tensor) -> dict[str, tf.Tensor]:
        """Search with options brought into their range: an error would be that of others, too."""
        limit, penalty, num_outputs = self._options.values()
        max_length, given, wanted = map(_of_each, self._options, options, [text] * len(options))
        max_length = tf.clip_by_value(max_length, 1, limit)
        # NaN is not above 0 either.
        given = tf.where(given > 0, tf.minimum(given, max(penalty, _LARGEST_PENALTY)), 0.0)
        wanted = tf.clip_by_value(wanted, 1, num_outputs)
        ranks = tf.range(tf.reduce_max(tf.concat([wanted, [1]], axis=0)))  # (n,)
        outputs = self._n_best(text, max_length, given)
        is_wanted = ranks[None, :] < wanted[:, None]  # (b, n)
        width = tf.size(ranks)
        return {
            "output": tf.where(is_wanted, outputs["output"][:, :width], ""),
            "score": tf.where(is_wanted, outputs["score"][:, :width], _NO_HYPOTHESIS),
        }

    def _with_defaults(self, search: _Graph) -> _Graph:
        """Give options their defaults, which TensorFlow saves of a Python function alone."""
        limit, penalty, num_outputs = (tf.constant([value]) for value in self._options.values())

        def with_defaults(
            text: tf.Tensor,
            max_length: tf.Tensor = limit,
            length_penalty: tf.Tensor = penalty,
            num_hypotheses: tf.Tensor = num_outputs,
        ) -> dict[str, tf.Tensor]:
            return search(text, max_length, length_penalty, num_hypotheses)

        return with_defaults

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
        tf.debugging.assert_equal(tf.shape(text)[:1], tf.shape(output), same_size)
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

    def _generate(self, source_ids: tf.Tensor, *options: tf.Tensor) -> SearchResult:
        """Find hypotheses, with maximal lengths and length penalties `(b,)`, or those of the translator."""
        rows = tf.shape(source_ids)[:1]
        defaults = [tf.fill(rows, value) for value in self._options.values()]
        return self._found(source_ids, *(options or defaults[:2]))

    def _search(self, source_ids: tf.Tensor, *options: tf.Tensor) -> SearchResult:
        with self._weights.scope():
            return self._translator.trace_search(source_ids, None, *options)


def _ended_ids(text: tf.Tensor, tokenizer: Tokenizer, max_length: int) -> tf.Tensor:
    """Tokenize and end texts `(b,)`: int32 `(b, s)`; turn audio into frames `(b, s, w)`."""
    token_ids = tokenizer.padded_ids(text, max_length)
    if tokenizer.reads == AUDIO:
        return token_ids
    # A column even where there are no rows: a reshape cannot tell the size of 0 elements.
    return tf.pad(token_ids, [[0, 0], [0, tf.maximum(1 - tf.shape(token_ids)[1], 0)]])


def _of_each(name: str, given: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
    """Return an option `(b,)` of each text, given with a row for each or one for all."""
    rows = tf.shape(text)[0]
    fits = tf.reduce_any(tf.size(given) == [1, rows])
    message = f"`{name}` must have a row for each text, or one for all. Rows and texts received:"
    with tf.control_dependencies([tf.debugging.Assert(fits, [message, tf.size(given), rows])]):
        return tf.broadcast_to(given, [rows])


def _is_empty(text: tf.Tensor) -> tf.Tensor:
    # In a batch nothing tells silence from no audio.
    return tf.equal(tf.strings.length(text), 0) if text.dtype == tf.string else tf.constant([False])


def _trimmed(token_ids: tf.Tensor) -> tf.Tensor:
    """Drop the columns of `(b, T)` in which every row is padding, all but the first."""
    lengths = tf.math.count_nonzero(token_ids != SPECIAL_IDS.pad, axis=1, dtype=tf.int32)  # (b,)
    return token_ids[:, : tf.reduce_max(tf.concat([lengths, [1]], axis=0))]


# Token ids (b, s).
_IDS = tf.TensorSpec([None, None], tf.int32)


def _frames(tokenizer: Tokenizer) -> tf.TensorSpec:
    """Return the shape and dtype of frames `(b, s, w)`."""
    return tf.TensorSpec([None, None, tokenizer.num_mels], tf.float32)


_SHORTEST = 16
_LARGEST_BATCH = 2**20
_Generate = Callable[..., SearchResult]


def _graph_of(generate: _Generate, *signature: tf.TensorSpec, jit_compile: bool | None = None) -> _Generate:
    """Make a graph of a search from a source and options, traced once for all sizes."""
    return tf.function(generate, input_signature=signature, autograph=False, jit_compile=jit_compile)


def _compiled_in_buckets(generate: _Generate, max_length: int) -> _Generate:
    """Compile a search with XLA, for each bucket of sizes when it is first used."""
    compiled = _graph_of(generate, _IDS, jit_compile=True)

    def generate_in_buckets(token_ids: tf.Tensor) -> SearchResult:
        result = compiled(_pad_to_bucket(token_ids, max_length))
        batch_size = tf.shape(token_ids)[0]
        return SearchResult(result.token_ids[:batch_size], result.scores[:batch_size])

    return generate_in_buckets


def _found_by_threads(generate: Any, threads: int, *inputs: tf.Tensor) -> SearchResult:
    """Search for parts of a batch, each on a thread of its own."""
    # Two threads that share each operation wait for each other at its end, and fetch from the other's cache
    # what follows: a step for 32 sources took as long as by one. This operation of TensorFlow runs a function
    # for each part, whose operations keep to the thread that they are on. It is for processors.
    function = generate.get_concrete_function()
    batch_size = tf.shape(inputs[0])[0]
    size = -(-batch_size // threads)
    num_parts = tf.maximum(-(-batch_size // tf.maximum(size, 1)), 1)
    # All parts have one size: the last source stands for those that are missing.
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
