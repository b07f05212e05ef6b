from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import EncodedPairs
from keras_transformer.text import CharacterTokenizer

LETTERS = "abcdefgh"


@pytest.fixture(scope="module", autouse=True)
def _graphs_as_they_are() -> Iterator[None]:
    """Run pipelines without rewriting their graphs first, which takes longer than these pipelines do."""
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    yield
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


@pytest.fixture(scope="session")
def tokenizer() -> CharacterTokenizer:
    """Gives "a" the id 4, "b" 5 and so on."""
    return CharacterTokenizer(list(LETTERS))


@pytest.fixture(scope="session")
def pairs() -> list[tuple[str, str]]:
    """223 different pairs of 1 to 23 letters."""
    generator = np.random.default_rng(3)

    def text() -> str:
        return "".join(generator.choice(list(LETTERS), size=generator.integers(1, 24)))

    drawn = {(text(), text()): None for _ in range(240)}
    return list(drawn)[:223]


def encoded_of_lengths(lengths: Sequence[tuple[int, int]]) -> EncodedPairs:
    """Makes pairs of so many tokens, all tokens of pair i being 10 + i."""
    source = tf.ragged.constant([[10 + i] * source for i, (source, _) in enumerate(lengths)], tf.int32)
    target = tf.ragged.constant([[10 + i] * target for i, (_, target) in enumerate(lengths)], tf.int32)
    return EncodedPairs(source=source, target=target)


@pytest.fixture
def encoded() -> EncodedPairs:
    return encoded_of_lengths([(1, 2), (3, 1), (2, 2)])


@pytest.fixture
def varied() -> EncodedPairs:
    """200 pairs of 0 to 39 tokens, the same number on both sides."""
    return encoded_of_lengths([(i * 7 % 40, i * 7 % 40) for i in range(200)])
