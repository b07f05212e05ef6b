import datetime as dt
import time

import pytest

from keras_transformer.data.dates import generate_dates
from keras_transformer.data.dates.cldr import LOCALES
from keras_transformer.data.dates.generation import FIRST_DAY, LAST_DAY, patterns_by_locale


def test_pairs_of_the_splits_share_no_date_for_any_seed() -> None:
    dates = [
        {target for seed in (0, 1) for _, target in generate_dates(3000, seed=seed, split=split)}
        for split in ("train", "validation", "test")
    ]
    assert dates[0].isdisjoint(dates[1] | dates[2])
    assert dates[1].isdisjoint(dates[2])


def test_same_seed_same_pairs() -> None:
    assert generate_dates(500, seed=3) == generate_dates(500, seed=3)
    assert generate_dates(500, seed=3)[:100] == generate_dates(100, seed=3)
    assert generate_dates(500, seed=3) != generate_dates(500, seed=4)
    # The task itself must not change unnoticed: a saved model was trained on it.
    assert generate_dates(2, seed=0, locales=["fr"]) == [
        (" 27 janv.  2094", "2094-01-27"),
        ("7 mars 2022", "2022-03-07"),
    ]


def test_generation_is_fast_short_and_in_iso_format() -> None:
    start = time.process_time()
    pairs = generate_dates(60_000, seed=0)
    assert time.process_time() - start < 10
    assert max(len(source) for source, _ in pairs) <= 50
    for source, target in pairs[:2000]:
        day = dt.date.fromisoformat(target)
        assert FIRST_DAY <= day <= LAST_DAY
        assert source.strip()


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="Received: num_pairs=-1"):
        generate_dates(-1)
    with pytest.raises(ValueError, match=r"train, validation, test\. Received: split='dev'"):
        generate_dates(1, split="dev")


def test_every_locale_and_style_keeps_its_order() -> None:
    written = patterns_by_locale()
    assert tuple(written) == LOCALES
    assert [pattern.style for pattern in written["fr"]] == ["full", "long", "medium"]
    assert [pattern.style for pattern in written["de"]] == ["full", "long"]


def test_only_the_wanted_locales_are_written() -> None:
    sources = [source for source, _ in generate_dates(300, locales=["ja"])]
    assert all(set("年/") & set(source) for source in sources)
