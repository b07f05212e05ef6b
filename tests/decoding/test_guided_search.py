"""Options that every search has."""

from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import (
    BeamSearch,
    Constraints,
    GreedySearch,
    SampleSearch,
    SpecialIds,
    generate,
)

SOURCES = np.arange(1, 5, dtype="int32")[:, None]
SEARCHES = [GreedySearch, BeamSearch, SampleSearch]


@pytest.mark.parametrize("search_class", SEARCHES)
def test_defaults(search_class: Any) -> None:
    search = search_class()
    assert search.constraints == Constraints()
    assert search.special_ids == SpecialIds()
    assert not search.tracks_attention


@pytest.mark.parametrize("search_class", SEARCHES)
def test_a_negative_length_penalty_is_refused(search_class: Any) -> None:
    with pytest.raises(ValueError, match=r"Received: length_penalty=-0\.5\."):
        search_class(length_penalty=-0.5)


@pytest.mark.parametrize("search_class", SEARCHES)
def test_constraints_and_prefixes_hold(search_class: Any, recurrent_model: Any) -> None:
    rules = Constraints(min_length=3, max_length_ratio=5.0, banned_token_ids=(4,))
    search = search_class(constraints=rules)
    prefix_ids = ops.convert_to_tensor([[5]] * 4, "int32")
    result = generate(recurrent_model(5, 7, 3), SOURCES, search, 9, prefix_ids=prefix_ids)
    best = ops.convert_to_numpy(result.token_ids)[:, 0]
    assert (best[:, 0] == 5).all()
    assert ((best > 0).sum(1) >= 3).all()
    assert ((best > 0).sum(1) <= 5).all()
    assert (best != 4).all()
