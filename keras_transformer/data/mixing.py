"""Several corpora in one."""

import math
from collections.abc import Sequence

import numpy as np

from keras_transformer.data.pairs import Pair


def mix_pairs(corpora: Sequence[tuple[Sequence[Pair], float]], *, seed: int = 0) -> list[Pair]:
    """Joins corpora, each as often as its weight says.

    A weight of 2 takes every pair twice, 0.5 a random half of them, 2.5 every pair twice and a random half
    once more. The result is a list, so that everything that follows, from the vocabulary to the order of an
    epoch, works as with one corpus.

    Args:
        corpora: pairs and their weight.
        seed: of what is drawn for the fraction of a weight.

    Returns:
        the pairs, corpus after corpus.

    Raises:
        ValueError: a weight that is below 0 or not finite.

    Example:
        >>> mix_pairs([([("a", "b")], 2), ([("c", "d"), ("e", "f")], 1)])
        [('a', 'b'), ('a', 'b'), ('c', 'd'), ('e', 'f')]
    """
    mixed: list[Pair] = []
    for number, (pairs, weight) in enumerate(corpora):
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError(f"A weight must be at least 0 and finite. Received: weight={weight}.")
        whole = int(weight)
        mixed += list(pairs) * whole
        num_drawn = round((weight - whole) * len(pairs))
        drawn = np.random.default_rng((seed, number)).permutation(len(pairs))[:num_drawn]
        mixed += [pairs[index] for index in sorted(drawn)]
    return mixed
