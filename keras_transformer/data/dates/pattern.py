"""One way to write a date: a template and the words that fill it."""

import dataclasses
import datetime as dt


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatePattern:
    """One way to write a date.

    >>> pattern = DatePattern(locale="en_US", style="long", template="{month}/{day} {year}",
    ...                       months=numbers(12, width=2), days=numbers(31))
    >>> pattern.write(dt.date(2023, 3, 4))
    '03/4 2023'
    """

    locale: str
    """The CLDR locale, for example `pt_BR`."""

    style: str
    """The CLDR style: `full`, `long` or `medium`."""

    template: str
    """Text with the slots `{year}`, `{month}`, `{day}` and perhaps `{weekday}`."""

    months: tuple[str, ...]
    """What is written for the months 1 to 12: names or numbers."""

    days: tuple[str, ...]
    """What is written for the days 1 to 31."""

    weekdays: tuple[str, ...] = ("",) * 7
    """What is written for Monday to Sunday."""

    digits: str = "0123456789"
    """The ten digits of the year, zero first."""

    def write(self, date: dt.date) -> str:
        """Return the date as this pattern writes it."""
        return self.compose(date.year, date.month, date.day, date.weekday())

    def compose(self, year: int, month: int, day: int, weekday: int) -> str:
        """Return the text of four values; `weekday` counts from Monday = 0."""
        return self.template.format(
            year="".join([self.digits[int(digit)] for digit in str(year)]),
            month=self.months[month - 1],
            day=self.days[day - 1],
            weekday=self.weekdays[weekday],
        )


def numbers(last: int, *, width: int = 1, digits: str = "0123456789") -> tuple[str, ...]:
    """Return the numbers 1 to `last`, padded with zeros to `width`, written in `digits`.

    >>> numbers(3, width=2)
    ('01', '02', '03')
    """
    native = str.maketrans("0123456789", digits)
    return tuple(str(value).zfill(width).translate(native) for value in range(1, last + 1))
