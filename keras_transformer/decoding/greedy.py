"""Greedy search: always the most likely next token."""

from keras import ops

from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.contract import SpecialIds
from keras_transformer.decoding.row_search import RowSearch, RowState
from keras_transformer.decoding.scores import best_tokens
from keras_transformer.layers.gathering import first_largest
from keras_transformer.types import Tensor


class GreedySearch(RowSearch):
    """Takes the most likely token at each step, until every row has ended.

    Args:
        length_penalty: of the score that is reported; the search ignores it.
        constraints: what may not be generated; None for no rules.
        special_ids: which tokens are special.

    Raises:
        ValueError: a negative length penalty.
    """

    def __init__(
        self,
        *,
        length_penalty: float = 0.0,
        constraints: Constraints | None = None,
        special_ids: SpecialIds | None = None,
    ) -> None:
        super().__init__(length_penalty=length_penalty, constraints=constraints, special_ids=special_ids)

    def _choose(self, logits: Tensor, state: RowState, max_length: int) -> tuple[Tensor, Tensor]:
        if self._is_free(state.limits):
            gained, chosen = best_tokens(logits, 1, self.special_ids)
        else:
            scores, allowed = self._allowed(logits, state.token_ids, state.position, state.limits, max_length)
            chosen = first_largest(allowed)
            gained = ops.take_along_axis(scores, chosen, axis=-1)
        return chosen[:, 0], gained[:, 0]
