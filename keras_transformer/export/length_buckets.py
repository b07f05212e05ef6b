"""Few shapes for a compiler that needs each size: lengths and batches, padded to the next of a list."""

from collections.abc import Callable

import tensorflow as tf

from keras_transformer.decoding import SearchResult
from keras_transformer.text.special_tokens import END_ID, PAD_ID

SHORTEST = 16
LARGEST_BATCH = 2**20

Generate = Callable[[tf.Tensor], SearchResult]


def length_buckets(max_length: int) -> list[int]:
    """List the lengths that sources are padded to.

    Args:
        max_length: of a source.

    Returns:
        16, 32, 64 and so on, with `max_length` as the last.
    """
    buckets = [SHORTEST]
    while buckets[-1] < max_length:
        buckets.append(2 * buckets[-1])
    return [*buckets[:-1], max_length]


def pad_to_bucket(token_ids: tf.Tensor, max_length: int) -> tf.Tensor:
    """Pad sources to the next length, and repeat the first until their number is a power of two.

    The first and not padding: a row of nothing would be decoded to its end as well, and may be the
    one that takes longest.

    Args:
        token_ids: int32 `(b, s)`, of any batch size, 0 included.
        max_length: the longest `s`.

    Returns:
        int32, at least as large on both axes and with at least one row.
    """
    batch_size, length = tf.shape(token_ids)[0], tf.shape(token_ids)[1]
    num_rows = _next([2**power for power in range(LARGEST_BATCH.bit_length())], batch_size)
    num_columns = _next(length_buckets(max_length), length)
    token_ids = tf.pad(token_ids, [[0, 0], [0, num_columns - length]], constant_values=PAD_ID)
    # Where there is no first row, an empty source stands for it.
    nothing = tf.concat([[[END_ID]], tf.fill([1, num_columns - 1], PAD_ID)], axis=1)
    rows = tf.range(num_rows)
    rows = tf.where(rows < batch_size, rows, 0)
    return tf.gather(tf.concat([token_ids, nothing], axis=0), rows)


def compiled_in_buckets(generate: Generate, max_length: int) -> Generate:
    """Compile a search with XLA, for each bucket when it is first used.

    Args:
        generate: from int32 `(b, s)` to a `SearchResult`.
        max_length: the longest `s`.

    Returns:
        A function that gives the same, of any batch size and length.
    """
    compiled = graph_of(generate, jit_compile=True)

    def generate_in_buckets(token_ids: tf.Tensor) -> SearchResult:
        """Pad, search, and drop what was added."""
        result = compiled(pad_to_bucket(token_ids, max_length))
        batch_size = tf.shape(token_ids)[0]
        return SearchResult(result.token_ids[:batch_size], result.scores[:batch_size])

    return generate_in_buckets


def graph_of(generate: Generate, *, jit_compile: bool | None = None) -> Generate:
    """Make a graph of a search, traced once for all sizes.

    Args:
        generate: from int32 `(b, s)` to a `SearchResult`.
        jit_compile: whether XLA compiles it, for each size when it is first used.

    Returns:
        The graph.
    """
    signature = [tf.TensorSpec([None, None], tf.int32)]
    return tf.function(generate, input_signature=signature, autograph=False, jit_compile=jit_compile)


def _next(sizes: list[int], size: tf.Tensor) -> tf.Tensor:
    """Find the first of ascending sizes that is not below a size."""
    return tf.gather(sizes, tf.searchsorted(sizes, [size], side="left")[0])
