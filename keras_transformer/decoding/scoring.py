"""How likely given targets are: the sums of a search, of sequences that somebody else chose."""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from keras_transformer.decoding.contract import Search
from keras_transformer.decoding.scores import length_penalty
from keras_transformer.decoding.teacher_forcing import teacher_forcing
from keras_transformer.types import Tensor


class TargetScores(NamedTuple):
    """The log-probabilities of targets."""

    log_probabilities: Tensor
    """float32 `(b,)`: the sum over the tokens, not divided by anything."""
    num_tokens: Tensor
    """int32 `(b,)`: the tokens that were summed, the end token included if it is there."""


def score_targets(
    model: Callable[[dict[str, Tensor]], Any],
    encoder_inputs: Tensor,
    decoder_token_ids: Tensor,
    padding_mask: Tensor | None = None,
    pad_id: int = 0,
) -> TargetScores:
    """Score targets in one teacher-forced pass.

    The sums are those of a search: divided by its length penalty, the score of a hypothesis is the
    one that the search gave. A search never generates the unknown token; here it has the probability
    that the model gives it.

    Args:
        model: a `Transformer`, or any function of its inputs that gives logits `(b, t, v)`.
        encoder_inputs: as for `Transformer.encode`.
        decoder_token_ids: integers `(b, t)`: the start token, the tokens, usually the end token, and
            padding.
        padding_mask: `(b, s)`, True (1) where features have a frame; None for ids.
        pad_id: what fills the rows; it is not scored.

    Returns:
        Log-probabilities `(b,)` and numbers of tokens `(b,)`.

    Raises:
        TypeError: targets that are not integers.
        ValueError: targets of another rank, or without a token after the first.

    Example:
        >>> from keras_transformer.models import Transformer
        >>> model = Transformer(9, 11, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
        >>> scores = score_targets(model, [[4, 5, 3]], [[2, 7, 9, 3, 0]])
        >>> int(scores.num_tokens[0])
        3
    """
    inputs, target_ids = teacher_forcing(encoder_inputs, decoder_token_ids, padding_mask)
    logits = model(inputs)  # (b, t - 1, v)
    log_probabilities = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
    chosen = ops.take_along_axis(log_probabilities, target_ids[..., None], axis=-1)[..., 0]  # (b, t - 1)
    is_token = ops.not_equal(target_ids, pad_id)
    return TargetScores(
        # Not a product: an impossible token may have minus infinity where there is padding.
        log_probabilities=ops.sum(ops.where(is_token, chosen, 0.0), axis=1),
        num_tokens=ops.sum(ops.cast(is_token, "int32"), axis=1),
    )


def normalized(scores: TargetScores, search: Search) -> Tensor:
    """Divide log-probabilities as a search does.

    A coverage penalty is not in the result: it belongs to the attention of a search on its way.

    Args:
        scores: of targets.
        search: whose length penalty is meant; one without any divides by nothing.

    Returns:
        float32 `(b,)`.
    """
    alpha: float = getattr(search, "length_penalty", 0.0)
    return scores.log_probabilities / length_penalty(scores.num_tokens, alpha)
