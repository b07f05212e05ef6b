"""Masks in the courses' shapes, as `layers.MultiHeadAttention` takes them."""

from typing import Literal

from keras_transformer.layers.masks import as_boolean
from keras_transformer.layers.validation import known_sizes
from keras_transformer.types import Shape, Tensor

# What a mask of rank 2 covers is said by the name of its argument, never guessed from its sizes:
# a guess would change its mind in the one batch that has as many rows as positions.
Covers = Literal["keys", "queries and keys"]


def read_mask(name: str, mask: Tensor | None, scores_shape: Shape, covers: Covers) -> Tensor | None:
    """Check a mask against the scores, and give it the rank of an `attention_mask`.

    Args:
        name: the argument that it was passed as, for the message.
        mask: of any dtype, 1 (True) where the key may be attended to:
            `(b, 1, s)`, `(b, t, s)`, `(b, 1, 1, s)`, `(b, 1, t, s)` or
            `(b, h, t, s)`, where `b` may be 1; or of rank 2, see `covers`. None
            lets everything be attended to.
        scores_shape: `(b, h, t, s)`, None for sizes that are not known.
        covers: what a mask of rank 2 is: "keys" for padding, `(b, s)` or
            `(1, s)`; "queries and keys" for `(t, s)`, the same for every row.

    Returns:
        A boolean tensor of rank 3 or 4 that broadcasts to the scores, or None.

    Raises:
        TypeError: a mask of neither booleans nor numbers.
        ValueError: a mask of another rank or size, or of other numbers than 0 and 1.
    """
    if mask is None:
        return None
    mask = as_boolean(mask, name)
    shape, scores_shape = known_sizes(mask.shape), known_sizes(scores_shape)
    if not _fits(shape, _wanted(len(shape), scores_shape, covers)):
        raise ValueError(_message(name, shape, scores_shape, covers))
    if len(shape) == 2:
        return mask[:, None, :] if covers == "keys" else mask[None, :, :]
    return mask


def _wanted(rank: int, scores_shape: Shape, covers: Covers) -> Shape:
    """Give the sizes that a mask of this rank has, or nothing if there is none."""
    b, _, t, s = scores_shape
    rank_2 = (b, s) if covers == "keys" else (t, s)
    return {2: rank_2, 3: (b, t, s), 4: scores_shape}.get(rank, ())


def _fits(shape: Shape, wanted: Shape) -> bool:
    """Say whether each size is the wanted one, or 1 in front of the keys."""
    if not wanted:
        return False
    *front, keys = zip(shape, wanted, strict=True)
    same = [size is None or size == want or want is None for size, want in (*front, keys)]
    return same[-1] and all(fits or size == 1 for fits, (size, _) in zip(same, front, strict=False))


def _message(name: str, shape: Shape, scores_shape: Shape, covers: Covers) -> str:
    rank_2 = "(b, s)" if covers == "keys" else "(t, s)"
    return (
        f"`{name}` must have the shape {rank_2}, (b, 1, s), (b, t, s), (b, 1, 1, s) or (b, 1, t, s), "
        f"where b may be 1, with (b, h, t, s) = {scores_shape}. Received: shape={shape}."
    )
