"""The Markdown tables of `decoding.py`."""

import statistics
from collections.abc import Sequence

REFERENCE = "ctranslate2"


def number(values: Sequence[float], scale: float = 1.0, digits: int = 0) -> str:
    """Write a median.

    Args:
        values: measurements.
        scale: what they are multiplied with.
        digits: after the point.

    Returns:
        the number, or a dash where there is none.
    """
    return f"{scale * statistics.median(values):,.{digits}f}" if values else "-"


def ratio(values: Sequence[float], reference: Sequence[float]) -> str:
    """Write how many times the reference's speed a system reaches.

    Args:
        values: tokens a second.
        reference: likewise.

    Returns:
        the ratio of the medians in brackets, or nothing.
    """
    if not values or not reference:
        return ""
    return f" ({statistics.median(values) / statistics.median(reference):.2f}x)"


def percentile(values: Sequence[float], share: float) -> float:
    """Find the smallest value that a share of all does not exceed.

    Args:
        values: measurements, at least one.
        share: such as 0.99.

    Returns:
        one of them.
    """
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Make a table whose first column is text.

    Args:
        heads: of the columns.
        rows: cells.

    Returns:
        lines of Markdown.
    """
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def grid_table(shape: str, numbers: dict) -> list[str]:
    """Make the table of tokens a second.

    Args:
        shape: of the model.
        numbers: what `decoding_parts.grid` gave.

    Returns:
        lines of Markdown.
    """
    cells = numbers["rates"]
    heads = [
        f"{shape}: tokens a second (times CTranslate2 float32)",
        *(name.removeprefix(f"{shape}:") for name in cells),
        "peak MB (loaded)",
    ]
    rows = [
        [
            system,
            *(
                number(by_system[system]) + ratio(by_system[system], by_system.get(REFERENCE, []))
                for by_system in cells.values()
            ),
            f"{numbers['peak'][system]:,.0f} ({numbers['loaded'][system]:,.0f})",
        ]
        for system in numbers["peak"]
    ]
    return table(heads, rows)


def length_table(shape: str, numbers: dict) -> list[str]:
    """Make the table of the cost of a token by length.

    Args:
        shape: of the model.
        numbers: what `decoding_parts.lengths` gave.

    Returns:
        lines of Markdown.
    """
    shortest, longest = (function(numbers, key=int) for function in (min, max))
    heads = [f"{shape}, batch 1, greedy: ms a token", *(f"{length} tokens" for length in numbers), "growth"]
    rows = []
    for system in numbers[shortest]:
        rates = {length: numbers[length][system] for length in numbers}
        costs = [f"{1000 / statistics.median(rate):.3f}" if rate else "-" for rate in rates.values()]
        growth = ratio(rates[shortest], rates[longest]).strip(" ()") or "-"
        rows.append([system, *costs, growth])
    return table(heads, rows)


def latency_table(shape: str, numbers: dict) -> list[str]:
    """Make the table of single sentences.

    Args:
        shape: of the model.
        numbers: what `decoding_parts.latencies` gave.

    Returns:
        lines of Markdown.
    """
    rows = [
        [system, *(f"{1000 * percentile(times, share):.2f}" if times else "-" for share in (0.5, 0.99))]
        for system, times in numbers.items()
    ]
    return table([f"{shape}, one sentence, greedy: ms", "p50", "p99"], rows)


def first_table(shape: str, numbers: dict) -> list[str]:
    """Make the table of the first request after loading.

    Args:
        shape: of the model.
        numbers: what `decoding_parts.first_requests` gave.

    Returns:
        lines of Markdown.
    """
    heads = [
        f"{shape}, one sentence, greedy",
        "start and load, s",
        "first request, ms",
        "after one warm-up request, ms",
    ]
    rows = [
        [
            system,
            number(times["load"], digits=2),
            *(number(times[name], 1000, 1) for name in ("cold", "warm")),
        ]
        for system, times in numbers.items()
    ]
    return table(heads, rows)
