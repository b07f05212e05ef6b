"""Searches, written down and made again."""

import json

import pytest

from keras_transformer.decoding import (
    BeamSearch,
    Constraints,
    GreedySearch,
    SampleSearch,
    SpecialIds,
    change_search,
    make_search,
)
from keras_transformer.decoding.translator_files import read_search, search_options


def test_searches_by_beam_size() -> None:
    greedy, beam = make_search(1, 0.5), make_search(2, 0.5)
    assert isinstance(greedy, GreedySearch)
    assert isinstance(beam, BeamSearch)
    assert (greedy.length_penalty, beam.length_penalty, beam.beam_size) == (0.5, 0.5, 2)


@pytest.mark.parametrize(
    "search",
    [
        GreedySearch(length_penalty=0.3),
        BeamSearch(3, length_penalty=0.5, special_ids=SpecialIds(end=7)),
        BeamSearch(1),
    ],
)
def test_every_option_is_read_back(search: object) -> None:
    again = read_search(json.loads(json.dumps(search_options(search))))
    assert type(again) is type(search)
    assert vars(again) == vars(search)


def test_options_without_a_kind_are_those_of_make_search() -> None:
    assert isinstance(read_search({"beam_size": 1, "length_penalty": 0.5}), GreedySearch)
    with pytest.raises(TypeError, match="length_penalty"):
        read_search({"beam_size": 1})


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"one of \['beam', 'greedy', 'sample'\]\. Received: 'magic'\."):
        read_search({"kind": "magic"})


def test_a_search_that_cannot_be_read_back_is_not_written() -> None:
    class OtherSearch(BeamSearch):
        pass

    with pytest.raises(
        ValueError, match=r"BeamSearch, GreedySearch, SampleSearch to be saved\. Received: OtherSearch\."
    ):
        search_options(OtherSearch(2))


def test_another_beam_keeps_the_rest() -> None:
    rules = {"constraints": Constraints(min_length=2), "special_ids": SpecialIds(end=7)}
    beam = BeamSearch(4, num_hypotheses=3, coverage_penalty=0.2, exhaustive=True, **rules)
    assert vars(change_search(beam, None, None)) == vars(beam)
    assert vars(change_search(beam, None, 0.5)) == {**vars(beam), "length_penalty": 0.5}
    wider, narrower = change_search(beam, 6, None), change_search(beam, 2, None)
    assert (wider.beam_size, wider.num_hypotheses) == (6, 3)
    assert (narrower.beam_size, narrower.num_hypotheses, narrower.exhaustive) == (2, 2, True)
    assert change_search(BeamSearch(2), 3, None).num_hypotheses == 3
    greedy = change_search(beam, 1, None)
    assert vars(greedy) == vars(GreedySearch(length_penalty=1.0, **rules))
    assert vars(change_search(greedy, 3, 0.1)) == vars(BeamSearch(3, length_penalty=0.1, **rules))


def test_what_draws_by_chance_is_not_changed() -> None:
    with pytest.raises(ValueError, match=r"`search` must be greedy or a beam\. Received: SampleSearch\."):
        change_search(SampleSearch(), 2, None)
