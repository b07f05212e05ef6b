"""Models of a few lines, so that a search is tested without a Transformer."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from keras import ops


class ScriptedCache(NamedTuple):
    """One state for each hypothesis, `(b, n, any)`."""

    states: Any

    def reorder(self, rows: Any) -> "ScriptedCache":
        flat = ops.reshape(self.states, (-1, self.states.shape[-1]))
        return ScriptedCache(ops.reshape(ops.take(flat, rows, axis=0), ops.shape(self.states)))

    def grow(self, num_positions: Any) -> "ScriptedCache":
        return self


class TableModel:
    """Gives probabilities by the token before and nothing else: a table `(v, v)`."""

    def __init__(self, table: dict[int, dict[int, float]], vocabulary_size: int) -> None:
        probabilities = np.zeros((vocabulary_size, vocabulary_size), "float32")
        for before, row in table.items():
            for token, probability in row.items():
                probabilities[before, token] = probability
        # A row that the script leaves out must be no NaN: every token is as likely there.
        probabilities[probabilities.sum(1) == 0] = 1 / vocabulary_size
        self.logits = np.log(probabilities, where=probabilities > 0, out=np.full_like(probabilities, -np.inf))

    def start_decoding(self, inputs: Any, max_length: Any, beam_size: int = 1, **options: Any) -> Any:
        return self.decode_step, ScriptedCache(ops.zeros((ops.shape(inputs)[0], beam_size, 1)))

    def decode_step(self, token_ids: Any, position: Any, cache: Any) -> tuple[Any, ScriptedCache]:
        return ops.take(ops.convert_to_tensor(self.logits), token_ids, axis=0), cache


class RecurrentModel:
    """Gives logits that depend on the source and on every token before, by random weights.

    A source is one id, which chooses the first state; a cache in a wrong order changes what follows.
    """

    def __init__(self, num_sources: int, vocabulary_size: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.first = rng.normal(size=(num_sources, 5)).astype("float32")
        self.embedding = rng.normal(size=(vocabulary_size, 5)).astype("float32")
        self.recurrent = rng.normal(size=(5, 5)).astype("float32")
        self.output = 2 * rng.normal(size=(5, vocabulary_size)).astype("float32")

    def start_decoding(self, inputs: Any, max_length: Any, beam_size: int = 1, **options: Any) -> Any:
        states = ops.take(ops.convert_to_tensor(self.first), inputs[:, 0], axis=0)
        return self.decode_step, ScriptedCache(ops.repeat(states[:, None], beam_size, axis=1))

    def decode_step(self, token_ids: Any, position: Any, cache: Any) -> tuple[Any, ScriptedCache]:
        embedded = ops.take(ops.convert_to_tensor(self.embedding), token_ids, axis=0)
        states = ops.matmul(cache.states, self.recurrent)
        states = ops.tanh(states + ops.reshape(embedded, ops.shape(states)))
        logits = ops.reshape(ops.matmul(states, self.output), (-1, self.output.shape[-1]))
        return logits, ScriptedCache(states)

    def log_probability(self, source: int, token_ids: Sequence[int]) -> float:
        """Sum the log-probabilities of tokens of which the first is the start token, in NumPy."""
        state, total = self.first[source].astype("float64"), 0.0
        for before, token in itertools.pairwise(token_ids):
            state = np.tanh(state @ self.recurrent + self.embedding[before])
            logits = state @ self.output
            total += logits[token] - np.log(np.exp(logits).sum())
        return total


@pytest.fixture(scope="session")
def table_model() -> Callable[..., TableModel]:
    return TableModel


@pytest.fixture(scope="session")
def recurrent_model() -> Callable[..., RecurrentModel]:
    return RecurrentModel


@pytest.fixture(scope="session")
def source_ids() -> np.ndarray:
    """Sources of different lengths, each ended by 3: `(5, 6)`."""
    return np.array(
        [
            [4, 5, 6, 7, 8, 3],
            [4, 3, 0, 0, 0, 0],
            [8, 7, 3, 0, 0, 0],
            [3, 0, 0, 0, 0, 0],
            [6, 1, 6, 5, 3, 0],
        ],
        dtype="int32",
    )
