"""What greedy search and sampling share: the state, and the order of the result."""

from typing import Any

import numpy as np
from keras import ops

from keras_transformer.decoding import GreedySearch, Request, RowState, SampleSearch, generate

SOURCES = np.arange(3, dtype="int32")[:, None]


def begun(search: Any, model: Any, num_steps: int) -> RowState:
    state = search.initialize(model.create_cache(SOURCES, 6, search.beam_size), Request(3, 6), 6)
    for _ in range(num_steps):
        state = search.advance(state, model.decode_step, 6)
    return state


def test_the_state_has_the_shapes_that_it_declares(recurrent_model: Any) -> None:
    search = SampleSearch(num_samples=2, seed=0)
    state = begun(search, recurrent_model(3, 6, 1), 2)
    sizes = {"b": 3, "n": 2, "t": 6, "c": 6}
    for name, letters in search.axes.items():
        assert tuple(getattr(state, name).shape) == tuple(sizes[letter] for letter in letters), name


def test_tokens_are_written_one_after_the_other(recurrent_model: Any) -> None:
    state = begun(GreedySearch(), recurrent_model(3, 6, 1), 2)
    token_ids = ops.convert_to_numpy(state.token_ids)[:, 0]
    assert (token_ids[:, 2:] == 0).all()
    is_running = ~ops.convert_to_numpy(state.ended)[:, 0]
    np.testing.assert_array_equal(
        ops.convert_to_numpy(state.last_ids)[is_running, 0], token_ids[is_running, 1]
    )


def test_a_source_runs_while_one_of_its_hypotheses_does(recurrent_model: Any) -> None:
    search = SampleSearch(num_samples=2, seed=0)
    state = begun(search, recurrent_model(3, 6, 1), 0)
    state = state._replace(ended=ops.convert_to_tensor([[True, True], [True, False], [False, False]]))
    np.testing.assert_array_equal(ops.convert_to_numpy(search.is_running(state, 6)), [False, True, True])


def test_the_best_comes_first(recurrent_model: Any) -> None:
    result = generate(recurrent_model(3, 6, 2), SOURCES, SampleSearch(num_samples=5, seed=1), 6)
    assert (np.diff(ops.convert_to_numpy(result.scores), axis=1) <= 0).all()
