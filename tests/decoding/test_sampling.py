"""Drawing one token: by hand, by frequency, and at the edges of float32."""

from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_transformer.backend import compile_function, draw_uniforms
from keras_transformer.decoding.log_probabilities import LOWEST_SCORE
from keras_transformer.decoding.sampling import Sampler

PROBABILITIES = np.array([0.1, 0.4, 0.2, 0.3], "float32")
LARGEST = np.nextafter(np.float32(1), np.float32(0))  # 0.99999994


def choose(sampler: Sampler, probabilities: np.ndarray, uniform: Any) -> np.ndarray:
    """Draw a token of one distribution for each uniform number."""
    uniform = np.array(uniform, "float32")
    scores = np.full_like(probabilities, LOWEST_SCORE)
    np.log(probabilities, where=probabilities > 0, out=scores)
    rows = ops.convert_to_tensor(np.tile(scores, (len(uniform), 1)))
    return ops.convert_to_numpy(sampler.choose(rows, ops.convert_to_tensor(uniform)))


def is_drawn(sampler: Sampler, probabilities: np.ndarray = PROBABILITIES) -> list[int]:
    """Which tokens a fine grid of uniform numbers gives."""
    grid = np.append(np.linspace(0, 1, 101, endpoint=False), LARGEST)
    return np.unique(choose(sampler, probabilities, grid)).tolist()


def test_the_cumulated_distribution_is_inverted() -> None:
    # The borders are at 0.1, 0.5 and 0.7.
    tokens = choose(Sampler(), PROBABILITIES, [0.0, 0.09, 0.11, 0.49, 0.51, 0.69, 0.71, LARGEST])
    np.testing.assert_array_equal(tokens, [0, 0, 1, 1, 2, 2, 3, 3])
    assert tokens.dtype == np.int32


def test_temperature_reshapes_the_distribution() -> None:
    # Squares of the probabilities: 0.01, 0.16, 0.04, 0.09, in all 0.3.
    borders = np.cumsum([0.01, 0.16, 0.04, 0.09]) / 0.3
    uniform = np.sort(np.concatenate([borders - 0.01, borders[:-1] + 0.01]))
    tokens = choose(Sampler(0.5), PROBABILITIES, uniform)
    np.testing.assert_array_equal(tokens, [0, 1, 1, 2, 2, 3, 3])


def test_a_tiny_temperature_takes_the_most_likely() -> None:
    assert is_drawn(Sampler(1e-30)) == [1]
    assert is_drawn(Sampler(1e-30), np.array([0.0, 0.2, 0.8, 0.0], "float32")) == [2]


@pytest.mark.parametrize(("top_k", "tokens"), [(1, [1]), (2, [1, 3]), (3, [1, 2, 3]), (9, [0, 1, 2, 3])])
def test_top_k_keeps_the_most_likely(top_k: int, tokens: list[int]) -> None:
    assert is_drawn(Sampler(top_k=top_k)) == tokens


@pytest.mark.parametrize(
    ("top_p", "tokens"),
    [(0.01, [1]), (0.39, [1]), (0.41, [1, 3]), (0.69, [1, 3]), (0.71, [1, 2, 3]), (1, [0, 1, 2, 3])],
)
def test_top_p_keeps_the_smallest_nucleus(top_p: float, tokens: list[int]) -> None:
    assert is_drawn(Sampler(top_p=top_p)) == tokens


def test_top_p_sees_what_top_k_left() -> None:
    # Of 0.4 and 0.3 alone, the first has 0.571 of the whole.
    assert is_drawn(Sampler(top_k=2, top_p=0.56)) == [1]
    assert is_drawn(Sampler(top_k=2, top_p=0.58)) == [1, 3]


def test_what_is_left_shares_the_whole() -> None:
    tokens = choose(Sampler(top_k=2), PROBABILITIES, [0.0, 0.56, 0.58, LARGEST])  # 0.4 of 0.7 is 0.571
    np.testing.assert_array_equal(tokens, [1, 1, 3, 3])


@pytest.mark.parametrize("sampler", [Sampler(), Sampler(3.0), Sampler(top_k=700), Sampler(top_p=0.9999)])
def test_what_is_forbidden_is_never_drawn(sampler: Sampler) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        probabilities = rng.dirichlet(np.full(997, 0.05)).astype("float32")
        probabilities[rng.random(997) < 0.7] = 0
        probabilities[[0, -1]] = 0
        uniform = np.concatenate([[0.0, LARGEST, np.nextafter(LARGEST, np.float32(0))], rng.random(20)])
        assert (probabilities[choose(sampler, probabilities, uniform)] > 0).all()


def test_minus_infinity_is_forbidden_too() -> None:
    scores = ops.convert_to_tensor(np.array([[-np.inf, 0.0, -np.inf]] * 2, "float32"))
    tokens = Sampler().choose(scores, ops.convert_to_tensor([0.0, LARGEST], "float32"))
    np.testing.assert_array_equal(ops.convert_to_numpy(tokens), [1, 1])


@pytest.mark.parametrize("sampler", [Sampler(), Sampler(0.7), Sampler(top_k=5), Sampler(1.5, 6, 0.9)])
def test_frequencies_are_those_of_the_distribution(sampler: Sampler) -> None:
    probabilities = np.array([0.05, 0.3, 0.02, 0.25, 0.11, 0.2, 0.07], "float32")
    uniform = ops.convert_to_numpy(draw_uniforms(5, 1, ops.arange(20_000)))[0]
    counts = np.bincount(choose(sampler, probabilities, uniform), minlength=7)
    expected = reference(sampler, probabilities.astype("float64")) * 20_000
    np.testing.assert_array_equal(counts[expected == 0], 0)
    kept = expected > 0
    chi_square = ((counts - expected)[kept] ** 2 / expected[kept]).sum()
    assert chi_square < 22.5, "the 99.9th percentile of 6 degrees of freedom"


def reference(sampler: Sampler, probabilities: np.ndarray) -> np.ndarray:
    """Compute the distribution in NumPy."""
    probabilities = probabilities ** (1 / sampler.temperature)
    order = np.argsort(-probabilities)
    probabilities[order[sampler.top_k or 7 :]] = 0
    probabilities /= probabilities.sum()
    before = np.cumsum(probabilities[order]) - probabilities[order]
    probabilities[order[before >= (sampler.top_p or 1)]] = 0
    return probabilities / probabilities.sum()


def test_compiled_code_draws_the_same() -> None:
    def draw(rows: Any) -> Any:
        scores = ops.tile(ops.convert_to_tensor(np.log(PROBABILITIES))[None], (ops.shape(rows)[0], 1))
        return Sampler(0.9, 3, 0.9).choose(scores, draw_uniforms(7, 2, ops.arange(ops.shape(rows)[0]))[1])

    rows = ops.zeros((50, 1), "int32")
    compiled, plain = ops.convert_to_numpy(compile_function(draw)(rows)), ops.convert_to_numpy(draw(rows))
    np.testing.assert_array_equal(compiled, plain)
    assert len(np.unique(plain)) > 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"temperature": 0}, ValueError, r"`GreedySearch`.* Received: temperature=0\."),
        ({"temperature": -1.0}, ValueError, r"Received: temperature=-1\.0\."),
        ({"temperature": "1"}, TypeError, r"Received: temperature='1'\."),
        ({"top_k": 0}, ValueError, r"Received: top_k=0\."),
        ({"top_k": 1.5}, TypeError, r"Received: top_k=1\.5\."),
        ({"top_p": 0.0}, ValueError, r"Received: top_p=0\.0\."),
        ({"top_p": 1.01}, ValueError, r"at most 1\. Received: top_p=1\.01\."),
        ({"top_p": True}, TypeError, r"Received: top_p=True\."),
    ],
)
def test_wrong_options_are_refused(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Sampler(**options)
