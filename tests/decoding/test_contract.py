"""What the parts of decoding agree on."""

from typing import get_type_hints

import pytest

from keras_transformer.decoding import BeamSearch, GreedySearch, Search, SearchResult


@pytest.mark.parametrize(("search", "beam_size"), [(BeamSearch(3), 3), (GreedySearch(), 1)])
def test_searches_keep_the_contract(search: Search, beam_size: int) -> None:
    assert search.beam_size == beam_size
    assert get_type_hints(type(search).__call__) == get_type_hints(Search.__call__)


def test_a_result_is_a_pair() -> None:
    assert SearchResult._fields == ("token_ids", "scores")
