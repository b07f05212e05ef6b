"""Token masking for masked language models."""

import tensorflow as tf

from keras_transformer._arguments import check_kind, check_number
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS

_MASK_SHARE = 0.8
_RANDOM_SHARE = 0.1


def mask_tokens(
    dataset: tf.data.Dataset, *, mask_id: int, vocabulary_size: int, rate: float = 0.15, seed: int = 0
) -> tf.data.Dataset:
    """Build inputs with masked tokens, and labels with the original tokens, as in BERT.

    The mask token replaces 80 % of the selected tokens, a random token replaces 10 %, and 10 % stay unchanged
    (Devlin et al. 2019, section 3.1). Special tokens, including padding, are never selected and never
    inserted.

    The random choices depend only on `seed` and the index of the element of `dataset`, so each epoch masks
    the same tokens. To mask different tokens in each epoch, repeat the dataset first:
    `mask_tokens(dataset.repeat(), ...)`.

    Args:
        dataset: Token ids, integers `(b, s)` or `(s,)`, padded with 0.
        mask_id: Id of the mask token, preferably an id that the tokenizer never returns, such as its
            vocabulary size.
        vocabulary_size: Number of ids of the model, including `mask_id`.
        rate: Probability that a token is selected. Defaults to 0.15.
        seed: Random seed.

    Returns:
        A dataset of `(masked ids, labels)`, int32 of the same shape. A label is the original id at a selected
        position, and 0 at all others; the losses of `training` ignore 0.

    Raises:
        TypeError: If `dataset` does not hold dense integers, a size or the seed is not an integer, or the
            rate is not a number.
        ValueError: If the ids have another rank, the vocabulary has no regular token, `mask_id` is padding or
            outside the vocabulary, or the rate is outside (0, 1].

    Example:
        >>> dataset = tf.data.Dataset.from_tensors([2, 4, 5, 6, 3, 0])
        >>> [(masked, labels)] = mask_tokens(dataset, mask_id=7, vocabulary_size=8, rate=1.0)
        >>> labels.numpy().tolist()
        [0, 4, 5, 6, 0, 0]
    """
    check_kind(tf.data.Dataset, dataset=dataset)
    _check_arguments(dataset.element_spec, mask_id, vocabulary_size, rate, seed)

    @tf.autograph.experimental.do_not_convert
    def mask(number: tf.Tensor, token_ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        token_ids = tf.cast(token_ids, tf.int32)
        element_seed = tf.stack([tf.constant(seed, tf.int64), number])
        return _mask(token_ids, mask_id, vocabulary_size, rate, element_seed)

    return dataset.enumerate().map(mask, num_parallel_calls=tf.data.AUTOTUNE)


def _mask(
    token_ids: tf.Tensor, mask_id: int, vocabulary_size: int, rate: float, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mask int32 (b, s) or (s,); return masked ids and labels of the same shape."""
    choice_seed, fate_seed, random_seed = tf.unstack(tf.random.split(seed, 3))
    shape = tf.shape(token_ids)
    is_regular = (token_ids >= len(SPECIAL_TOKENS)) & (token_ids != mask_id)
    chosen = is_regular & (tf.random.stateless_uniform(shape, choice_seed) < rate)
    fate = tf.random.stateless_uniform(shape, fate_seed)  # decides between mask, random token, unchanged
    # Uniform over the ids that are neither special nor the mask: skip the mask by adding 1 from there on.
    first = len(SPECIAL_TOKENS)
    has_gap = int(mask_id >= first)
    others = tf.random.stateless_uniform(shape, random_seed, first, vocabulary_size - has_gap, tf.int32)
    others += has_gap * tf.cast(others >= mask_id, tf.int32)
    replaced = tf.where(fate < _MASK_SHARE + _RANDOM_SHARE, others, token_ids)
    replaced = tf.where(fate < _MASK_SHARE, mask_id, replaced)
    return tf.where(chosen, replaced, token_ids), tf.where(chosen, token_ids, SPECIAL_IDS.pad)


def _check_arguments(spec: object, mask_id: int, vocabulary_size: int, rate: float, seed: int) -> None:
    wanted = "`dataset` must hold token ids, dense integers of shape (b, s) or (s,)."
    if not isinstance(spec, tf.TensorSpec) or not spec.dtype.is_integer:
        raise TypeError(f"{wanted} Received: elements of {spec}.")
    if spec.shape.rank not in (1, 2, None):
        raise ValueError(f"{wanted} Received: shape={spec.shape}.")
    check_number(mask_id=mask_id, vocabulary_size=vocabulary_size, whole=True)
    check_number(seed=seed, below=2**63, whole=True)
    num_regular = vocabulary_size - len(SPECIAL_TOKENS) - (mask_id >= len(SPECIAL_TOKENS))
    if num_regular < 1:
        raise ValueError(
            "`vocabulary_size` must leave at least one id besides the special tokens and the mask. "
            f"Received: vocabulary_size={vocabulary_size}, mask_id={mask_id}."
        )
    if not SPECIAL_IDS.pad < mask_id < vocabulary_size:
        raise ValueError(
            "`mask_id` must be above the padding's 0 and below `vocabulary_size`. "
            f"Received: mask_id={mask_id}, vocabulary_size={vocabulary_size}."
        )
    check_number(rate=rate, above=0)
    if rate > 1:
        raise ValueError(f"`rate` must be above 0 and at most 1. Received: rate={rate}.")
