"""From source ids to target ids: a model and a search, joined."""

from typing import Protocol

from keras import ops

from keras_transformer.decoding.contract import Cache, Search, SearchResult
from keras_transformer.types import Tensor


class StepwiseModel(Protocol):
    """What a model must offer to be decoded."""

    def create_cache(self, encoder_token_ids: Tensor, max_length: int, beam_size: int = 1) -> Cache:
        """Run the encoder and make room; see `Transformer.create_cache`."""

    def decode_step(self, token_ids: Tensor, position: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Compute the next logits; see `Transformer.decode_step`."""


def generate(
    model: StepwiseModel, encoder_token_ids: Tensor, search: Search, max_length: int
) -> SearchResult:
    """Find target sequences for a batch of source sequences.

    Args:
        model: with weights.
        encoder_token_ids: integers `(b, s)`, padded with 0.
        search: `GreedySearch` or `BeamSearch`.
        max_length: the most target tokens, the end token included.

    Returns:
        Hypotheses `(b, n, T)` and scores `(b, n)`, best first.
    """
    cache = model.create_cache(encoder_token_ids, max_length, search.beam_size)
    return search(model.decode_step, cache, ops.shape(encoder_token_ids)[0], max_length)
