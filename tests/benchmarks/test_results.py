"""The table of results on the page is the one that the records give."""

from pathlib import Path

from benchmarks.quality.results import record_table

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_has_the_table_of_the_records() -> None:
    assert record_table(DOCS / "results.jsonl") in (DOCS / "results.md").read_text(encoding="utf-8")


def test_seeds_share_a_row(tmp_path: Path) -> None:
    record = '{"result": "x", "seed": %d, "measure": "m", "score": %s, "published": "3", "parameters": 1000, '
    record += '"minutes": 2.0, "commit": "abc"}\n'
    file = tmp_path / "records.jsonl"
    file.write_text(record % (1, 1.5) + record % (2, 2.5), encoding="utf-8")
    assert (
        record_table(file).splitlines()[-1]
        == "| `x` | m | 2.00 (1.50 to 2.50) | 3 | 1, 2 | 1,000 | 2 | abc |"
    )
