"""From source ids to target ids: a model and a search, joined."""

from typing import Any, Protocol

from keras import ops

from keras_transformer.decoding.contract import Cache, Search, SearchResult
from keras_transformer.types import Tensor


class StepwiseModel(Protocol):
    """What a model must offer to be decoded."""

    def create_cache(self, encoder_inputs: Tensor, max_length: int, beam_size: int = 1) -> Cache:
        """Run the encoder and make room; see `Transformer.create_cache`."""

    def decode_step(self, token_ids: Tensor, position: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Compute the next logits; see `Transformer.decode_step`."""


def generate(
    model: StepwiseModel,
    encoder_inputs: Tensor,
    search: Search,
    max_length: int,
    padding_mask: Tensor | None = None,
) -> SearchResult:
    """Find target sequences for a batch of source sequences.

    Args:
        model: with weights.
        encoder_inputs: integers `(b, s)`, padded with 0; or features
            `(b, s, w)` where the model takes them.
        search: `GreedySearch` or `BeamSearch`.
        max_length: the most target tokens, the end token included.
        padding_mask: `(b, s)`, True (1) where the source has a token or a
            frame; None leaves it to the model.

    Returns:
        Hypotheses `(b, n, T)` and scores `(b, n)`, best first.
    """
    # A model whose sources need no mask of their own need not take one.
    masks: dict[str, Any] = {} if padding_mask is None else {"padding_mask": padding_mask}
    cache = model.create_cache(encoder_inputs, max_length, search.beam_size, **masks)
    return search(model.decode_step, cache, ops.shape(encoder_inputs)[0], max_length)
