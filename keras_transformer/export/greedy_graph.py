"""Greedy decoding as one graph in which every size is known, as converters for other engines want it."""

from typing import Any

import tensorflow as tf
from keras import ops

from keras_transformer.decoding import GreedySearch, Translator
from keras_transformer.decoding.contract import Request
from keras_transformer.decoding.fixed_weights import fixed_weights
from keras_transformer.decoding.row_search import RowState
from keras_transformer.export.stored_weights import StoredWeights
from keras_transformer.layers.compiler import without_doubles
from keras_transformer.layers.validation import check_positive


def greedy_translator(
    translator: Translator, source_length: int | None = None, max_length: int | None = None
) -> Translator:
    """Make a translator that answers as a graph of fixed sizes shall answer.

    Args:
        translator: whose model and tokenizers are shared.
        source_length: most tokens of a source, the end token included; the translator's limit if None.
        max_length: most tokens of an answer, likewise.

    Returns:
        A translator with greedy search, under the length penalty and the constraints of the other's search.

    Raises:
        ValueError: a length below 2.
    """
    search = translator.search
    options = {name: getattr(search, name, None) for name in ("constraints", "special_ids")}
    return Translator(
        translator.model,
        translator.source_tokenizer,
        translator.target_tokenizer,
        search=GreedySearch(length_penalty=getattr(search, "length_penalty", 0.0), **options),
        max_source_length=translator.max_source_length if source_length is None else source_length,
        max_target_length=translator.max_target_length if max_length is None else max_length,
    )


class GreedyGraph(tf.Module):
    """A single loop with room for the whole answer: no size changes while it runs.

    Args:
        translator: from `greedy_translator`, on the TensorFlow backend.
        batch_size: the number of sources, `b`.

    Raises:
        TypeError: a batch size that is not an integer.
        ValueError: a batch size that is not above zero, another search, or variables that are not those
            of TensorFlow.
    """

    def __init__(self, translator: Translator, batch_size: int = 1) -> None:
        super().__init__(name="greedy")
        check_positive(batch_size=batch_size)
        if not isinstance(translator.search, GreedySearch):
            raise ValueError(
                f"`translator` must have greedy search. Received: {type(translator.search).__name__}."
            )
        self._translator, self._search = translator, translator.search
        self.batch_size = batch_size
        self.model_variables = StoredWeights(translator.model).variables

    def answer(self, source_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """Answers sources.

        Args:
            source_ids: int32 `(b, s)`, each row ended and padded.

        Returns:
            `token_ids`, int32 `(b, T)`, ended and padded; and `score`, float32 `(b,)`: the
            log-probability, divided by the search's length penalty.
        """
        search, max_length = self._search, self._translator.max_target_length
        with fixed_weights(self._translator.model), without_doubles():
            state = self._advance(self._initial_state(source_ids))
            token_ids, scores = search.finalize(state, max_length)
        return {"token_ids": token_ids[:, 0], "score": scores[:, 0]}

    def function(self) -> Any:
        """Make the graph, not yet traced.

        Returns:
            `answer` as a `tf.function` for sources as long as the translator's limit.
        """
        sizes = self.batch_size, self._translator.max_source_length
        signature = [tf.TensorSpec(sizes, tf.int32, name="source_ids")]
        return tf.function(self.answer, input_signature=signature, autograph=False)

    def _initial_state(self, source_ids: tf.Tensor) -> RowState:
        max_length = self._translator.max_target_length
        source_lengths = ops.sum(ops.cast(source_ids != 0, "int32"), axis=1)  # (b,)
        cache = self._translator.model.create_cache(source_ids, max_length)
        request = Request(self.batch_size, max_length, source_lengths)
        return self._search.initialize(cache, request, max_length)

    def _advance(self, state: RowState) -> RowState:
        search, max_length = self._search, self._translator.max_target_length
        step = self._translator.model.decode_step

        def is_running(*fields: tf.Tensor) -> tf.Tensor:
            state = RowState(*fields)
            return ops.logical_and(state.position < max_length, ops.any(search.is_running(state, max_length)))

        fields = ops.while_loop(
            is_running, lambda *fields: search.advance(RowState(*fields), step, max_length), state
        )
        return RowState(*fields)
