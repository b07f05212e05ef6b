"""What a beam search carries from step to step, and how its rows are moved."""

from typing import NamedTuple

from keras import ops

from keras_transformer.decoding.contract import Cache
from keras_transformer.decoding.limits import Limits
from keras_transformer.types import Tensor


class BeamState(NamedTuple):
    """What changes from step to step, and what it depends on."""

    position: Tensor
    """An integer scalar: how many tokens were generated."""
    last_ids: Tensor
    """int32 `(b, n)`: the token before; first the start token."""
    running_ids: Tensor
    """int32 `(b, n, t)`: the tokens so far, then padding."""
    running_log_probabilities: Tensor
    """float32 `(b, n)`, best first."""
    finished_ids: Tensor
    """int32 `(b, n, t)`, hypotheses that ended."""
    finished_scores: Tensor
    """float32 `(b, n)`, best first, `LOWEST_SCORE` where there is none yet."""
    limits: Limits
    """Of each source."""
    cache: Cache
    """The model's, `b * n` hypotheses."""


class Candidates(NamedTuple):
    """The `2n` most likely extensions of a source: enough, should `n` of them end."""

    log_probabilities: Tensor
    """float32 `(b, 2n)`, best first."""
    beams: Tensor
    """int32 `(b, 2n)`: which hypothesis is extended."""
    token_ids: Tensor
    """int32 `(b, 2n)`: by which token."""


def flat_rows(beams: Tensor, size: int) -> Tensor:
    """Number hypotheses as a cache does.

    Args:
        beams: integers `(b, n)`, hypotheses of each source.
        size: hypotheses for each source in the cache.

    Returns:
        Integers `(b * n,)`.
    """
    offsets = ops.arange(ops.shape(beams)[0], dtype="int32") * size
    return ops.reshape(beams + offsets[:, None], (-1,))
