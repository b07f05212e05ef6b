"""The locales of the dates task, and the digits that some of them write."""

#: CLDR locales, grouped by script. Their dates are written in the Gregorian calendar.
LOCALES: tuple[str, ...] = (
    *("en_US", "en_GB", "de", "fr", "es", "it", "pt_BR", "nl", "ro", "sv", "da", "nb", "is"),
    *("fi", "et", "lv", "lt", "pl", "cs", "hu", "tr", "id", "vi"),
    *("ru", "uk", "bg"),
    *("el", "he", "ar", "ar_EG", "fa"),
    *("hi", "mr", "bn", "ta", "th"),
    *("ko", "ja", "zh_Hans"),
)

#: The digit zero of each CLDR numbering system used here; the digits 1 to 9 follow it.
ZERO_DIGITS: dict[str, str] = {
    "latn": "0",
    "arab": "\N{ARABIC-INDIC DIGIT ZERO}",
    "arabext": "\N{EXTENDED ARABIC-INDIC DIGIT ZERO}",
    "deva": "\N{DEVANAGARI DIGIT ZERO}",
    "beng": "\N{BENGALI DIGIT ZERO}",
}


def digits_of(numbering_system: str) -> str:
    """Return the ten digits of a CLDR numbering system, zero first.

    A system that is not in `ZERO_DIGITS` is written with Latin digits.
    """
    zero = ord(ZERO_DIGITS.get(numbering_system, "0"))
    return "".join(chr(zero + value) for value in range(10))
