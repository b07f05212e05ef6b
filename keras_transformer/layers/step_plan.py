"""What all layers of a decoder need to know of one step, computed once."""

from typing import NamedTuple

from keras import ops

from keras_transformer.layers.attention_cache import AttentionCache
from keras_transformer.layers.hypotheses import Hypotheses
from keras_transformer.layers.masks import combine_masks
from keras_transformer.layers.step_attention import hide_unless
from keras_transformer.layers.value_checks import as_position
from keras_transformer.types import Tensor


class StepPlan(NamedTuple):
    """One step of decoding, as every layer sees it."""

    position: Tensor
    """An integer scalar: which position is computed."""
    bias: Tensor
    """float32 `(b, 1, n, T * n)`, added to the logits of self-attention; the first size may be 1."""
    slots: Tensor
    """Where the caches are written; see `AttentionCache.slots`."""
    hypotheses: Hypotheses
    """How many each source has, and how their heads are moved."""
    encoder_bias: Tensor | None
    """float32 `(b, 1, 1, s)`, likewise for the encoder's output; None where all of it counts."""


def plan_step(
    cache: AttentionCache,
    position: Tensor,
    visible: Tensor,
    num_heads: int,
    encoder_padding_mask: Tensor | None = None,
) -> StepPlan:
    """Compute what the layers of a stack share.

    Args:
        cache: of any of them; they are of one size.
        position: an integer scalar.
        visible: boolean `(b, 1, n, T * n)`, which slots of a cache each hypothesis may attend to; the
            first size may be 1.
        num_heads: of the queries, `h`.
        encoder_padding_mask: `(b, s)`, True (1) where the source has a token.

    Returns:
        The plan.

    Raises:
        ValueError: a position that there is no room for, where it is known.
    """
    position, encoder_bias = as_position(position), None
    if encoder_padding_mask is not None:
        encoder_bias = hide_unless(combine_masks(padding_mask=encoder_padding_mask))
    beam_size = int(visible.shape[2])
    hypotheses = Hypotheses.of(beam_size, ops.shape(cache.keys)[0], num_heads)
    slots = cache.slots(position, beam_size)
    return StepPlan(position, hide_unless(visible), slots, hypotheses, encoder_bias)
