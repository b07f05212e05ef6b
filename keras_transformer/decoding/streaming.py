"""Answers as they come about: one token, or one piece of text, after the other."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_transformer.decoding.compilation import compile_step
from keras_transformer.decoding.contract import Cache, Request
from keras_transformer.decoding.generation import StepwiseModel, source_lengths
from keras_transformer.decoding.greedy import GreedySearch
from keras_transformer.decoding.row_search import RowSearch
from keras_transformer.decoding.validation import check_positions
from keras_transformer.types import Tensor


class TokenStreamer:
    """Generates tokens one step at a time, and compiles that step once for all its streams.

    Args:
        model: a `Transformer` with weights.
        search: `GreedySearch()` if None; `SampleSearch` of one sample will do.
        max_length: the most tokens, the end token included, `T`.

    Raises:
        ValueError: a beam, or several samples, which do not know their answer before the end; more tokens
            than the model has positions.

    Example:
        >>> from keras_transformer.models import Transformer
        >>> model = Transformer(9, 8, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
        >>> streamer = TokenStreamer(model, max_length=3)
        >>> [token_ids.shape for token_ids in streamer(np.array([[4, 5, 3], [6, 3, 0]]))][0]
        (2,)
    """

    def __init__(self, model: StepwiseModel, search: RowSearch | None = None, max_length: int = 256) -> None:
        self.model = model
        self.search = search or GreedySearch()
        self.max_length = max_length
        check_positions(model, max_length)
        # A beam of one hypothesis goes on with the next best token when the end is the best.
        if not isinstance(self.search, RowSearch) or self.search.beam_size != 1:
            raise ValueError(
                "`search` must decide on each token at once: greedy, or one sample. "
                f"Received: {type(self.search).__name__}, beam_size={self.search.beam_size}."
            )
        variables = getattr(model, "variables", ())
        self._create_cache = compile_step(self._cache_of, variables)
        self._advance = compile_step(self._next, variables)

    def __call__(
        self, encoder_inputs: Any, padding_mask: Tensor | None = None
    ) -> Iterator[np.ndarray[Any, Any]]:
        """Yield the tokens of each step, until every row has ended.

        Args:
            encoder_inputs: integers `(b, s)`, padded with 0; or features `(b, s, w)` where the model
                takes them.
            padding_mask: `(b, s)`, True (1) where the source has a token; None leaves it to the model.

        Yields:
            int32 `(b,)`: the next token of each row, padding for rows that have ended.
        """
        encoder_inputs = ops.convert_to_tensor(encoder_inputs)
        cache = self._create_cache(encoder_inputs, padding_mask)
        # Not compiled: so chance without a seed is new each time on JAX too.
        lengths = source_lengths(encoder_inputs, padding_mask)
        request = Request(encoder_inputs.shape[0], self.max_length, lengths)
        state: Any = self.search.initialize(cache, request, self.max_length)
        while int(state.position) < self.max_length and self._is_running(state):
            state, token_ids = self._advance(state)
            yield np.array(ops.convert_to_numpy(token_ids))

    def _cache_of(self, encoder_inputs: Tensor, padding_mask: Tensor | None) -> Cache:
        masks: dict[str, Any] = {} if padding_mask is None else {"padding_mask": padding_mask}
        return self.model.create_cache(encoder_inputs, self.max_length, 1, **masks)

    def _next(self, state: Any) -> tuple[NamedTuple, Tensor]:
        state = self.search.advance(state, self.model.decode_step, self.max_length)
        return state, state.last_ids[:, 0]

    def _is_running(self, state: Any) -> bool:
        return bool(ops.any(self.search.is_running(state, self.max_length)))


def stream(
    model: StepwiseModel,
    encoder_inputs: Any,
    search: RowSearch | None = None,
    max_length: int = 256,
    padding_mask: Tensor | None = None,
) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the tokens of one batch as they are generated; the same as `generate` finds.

    For more than one batch a `TokenStreamer` is faster, since it compiles its step only once.

    Args:
        model: a `Transformer` with weights.
        encoder_inputs: as for `TokenStreamer`.
        search: `GreedySearch()` if None; `SampleSearch` of one sample will do.
        max_length: the most tokens, the end token included, `T`.
        padding_mask: as for `TokenStreamer`.

    Returns:
        An iterator over int32 `(b,)`, one for each step.

    Raises:
        ValueError: a search of several hypotheses.
    """
    return TokenStreamer(model, search, max_length)(encoder_inputs, padding_mask)
