"""BPE-dropout: each epoch sees the pieces of a text spelled in other ways."""

from collections.abc import Callable

import tensorflow as tf

from keras_transformer.data.transformations import Transformation
from keras_transformer.text.subword import SubwordTokenizer
from keras_transformer.text.subword_sampling import sample_spellings


def subword_dropout(
    source_tokenizer: SubwordTokenizer | None,
    target_tokenizer: SubwordTokenizer | None,
    rate: float,
    *,
    max_length: int | None = None,
    num_samples: int = 32,
    seed: int = 0,
) -> Transformation:
    """Spells tokens by smaller ones, as if merges had been left out (Provilkov et al. 2020, section 3.2).

    It takes what `gather_pairs` gives, and comes before `teacher_forcing`; hand it to `encoded_dataset` or
    `translation_dataset` as `noise`. In the paper merges are left out of words; here out of each piece of a
    word, so no new piece reaches over the border of two old ones. The spellings of each piece are drawn
    once, and each token of each batch takes one of them, by the seed and the place of the batch in the
    epoch. Rows get longer, and batches with them.

    Args:
        source_tokenizer: of the sources, of type "bpe"; None leaves them alone.
        target_tokenizer: of the targets.
        rate: the probability that a merge is left out; 0.1 in the paper.
        max_length: most tokens of a row without its special token; one that would become longer stays as
            it is. None for no limit.
        num_samples: spellings of each piece.
        seed: of all draws.

    Returns:
        from token ids int32 (b, ragged) of source and target to the same.

    Raises:
        ValueError: a rate outside [0, 1), no samples, or a vocabulary of another type.
    """
    tokenizers = (source_tokenizer, target_tokenizer)
    changes = {
        id(t): _respelling(t, rate, num_samples, max_length, seed) for t in tokenizers if t is not None
    }

    def change_batch(
        number: tf.Tensor, pair: tuple[tf.RaggedTensor, tf.RaggedTensor]
    ) -> tuple[tf.RaggedTensor, ...]:
        """Change one batch."""
        return tuple(
            ids if tokenizer is None else changes[id(tokenizer)](ids, tf.stack([2 * number + side, seed]))
            for side, (ids, tokenizer) in enumerate(zip(pair, tokenizers, strict=True))
        )

    return lambda dataset: dataset.enumerate().map(change_batch, num_parallel_calls=tf.data.AUTOTUNE)


def _respelling(
    tokenizer: SubwordTokenizer, rate: float, num_samples: int, max_length: int | None, seed: int
) -> Callable[[tf.RaggedTensor, tf.Tensor], tf.RaggedTensor]:
    """Make what takes one of its spellings for each token of int32 (b, ragged)."""
    spellings = sample_spellings(tokenizer.proto, rate, num_samples, seed=seed)  # (v, k, ragged)
    spellings = spellings.merge_dims(0, 1)
    lengths = tf.cast(spellings.row_lengths(), tf.int32)

    def respell(token_ids: tf.RaggedTensor, draw_seed: tf.Tensor) -> tf.RaggedTensor:
        """Draw for one batch."""
        draws = tf.random.stateless_uniform(
            tf.shape(token_ids.flat_values), draw_seed, 1, num_samples + 1, tf.int32
        )
        wholes = token_ids.flat_values * (num_samples + 1)
        if max_length is not None:
            new_lengths = tf.reduce_sum(token_ids.with_values(tf.gather(lengths, wholes + draws)), axis=1)
            draws *= tf.cast(tf.gather(new_lengths <= max_length, token_ids.value_rowids()), tf.int32)
        return token_ids.with_values(tf.gather(spellings, wholes + draws)).merge_dims(1, 2)

    return respell
