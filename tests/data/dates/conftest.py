"""The patterns of all locales, read once."""

import pytest

from keras_transformer.data.dates.cldr import DatePattern
from keras_transformer.data.dates.generation import patterns_by_locale

pytest.importorskip("babel")


@pytest.fixture(scope="session")
def chosen_patterns() -> list[DatePattern]:
    """Every pattern that the task writes."""
    return [pattern for patterns in patterns_by_locale().values() for pattern in patterns]
