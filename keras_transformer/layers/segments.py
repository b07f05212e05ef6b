"""Packed rows: several sentences side by side in one row, told apart by the number of their segment.

Raffel et al. 2020, "Exploring the Limits of Transfer Learning", section 3.1.3, train on such rows. Here they
are told apart, so that a packed row gives each sentence what it would get in a row of its own.
"""

from keras import ops

from keras_transformer.layers.dot_product_attention import as_tensor
from keras_transformer.types import Tensor


def segment_mask(query_segments: Tensor, key_segments: Tensor) -> Tensor:
    """Let each query see the keys of its own segment.

    Args:
        query_segments: integers `(b, t)`, the segment of each query.
        key_segments: integers `(b, s)`, the segment of each key.

    Returns:
        A boolean tensor `(b, t, s)`, an `attention_mask`: True where both are of one segment.

    Example:
        >>> mask = segment_mask([[1, 2, 2]], [[1, 1, 2, 0]])
        >>> ops.convert_to_numpy(mask).astype(int).tolist()
        [[[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0]]]
    """
    queries, keys = as_tensor(query_segments), as_tensor(key_segments)
    return ops.equal(queries[:, :, None], keys[:, None, :])


def segment_positions(segments: Tensor) -> Tensor:
    """Count the positions of each segment from 0.

    Args:
        segments: integers `(b, t)`, the segment of each token; 0 is padding.

    Returns:
        int32 `(b, t)`: how many tokens of its segment stand before each token; 0 for padding, which so has
        no position that a model does not know.

    Example:
        >>> ops.convert_to_numpy(segment_positions([[1, 1, 1, 2, 2, 0, 0]])).tolist()
        [[0, 1, 2, 0, 1, 0, 0]]
    """
    segments = as_tensor(segments)
    same = ops.cast(segment_mask(segments, segments), "int32")  # (b, t, t)
    counts = ops.sum(ops.tril(same, k=-1), axis=-1)
    return ops.where(ops.equal(segments, 0), 0, counts)
