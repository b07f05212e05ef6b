"""Dates as people write them, to ISO 8601: a translation task that needs no download.

`vendredi 3 mars 2023` becomes `2023-03-03`. The patterns and names come from the Unicode CLDR
through the optional package `babel`; see `generate_dates`.
"""

from keras_transformer.data.dates.cldr import LOCALES
from keras_transformer.data.dates.generation import generate_dates

__all__ = ["LOCALES", "generate_dates"]
