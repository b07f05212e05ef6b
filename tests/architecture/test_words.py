"""Words that make a sentence hard to read, in the package, the pages and the examples."""

import io
import json
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Everyday words in place of a term, pronouns without a noun, negations in place of a positive term.
WORDS = re.compile(
    r"\b(rubbish|anew|likewise|beside|marks|talk|crowded|so many|what is no|what is none|of its own|"
    r"of their own|nobody|none of which|who edits|whoever|save for|to the bit|takes the place of)\b",
    re.IGNORECASE,
)
FRONTED = re.compile(r"(?:^|[.:;!?]\s+)Of (?!course)", re.MULTILINE)
# Where such a word is the right one: a file, the word, and why.
EXCEPTIONS = {("examples/data/make.py", "talk"): "a verb of the English sentences"}

PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
    )
]
CODE = [
    path.relative_to(ROOT).as_posix()
    for folder in ("keras_transformer", "examples", "benchmarks", "docs")
    for path in (ROOT / folder).rglob("*.py")
]
NOTEBOOKS = [path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("*.ipynb")]


def prose_of_page(text: str) -> Iterator[str]:
    """Yield the paragraphs of a page, without code."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for paragraph in re.split(r"\n\s*\n|^[-*|#>]+ |\n(?=[-*|] )|\|", text, flags=re.MULTILINE):
        yield " ".join(re.sub(r"`[^`]*`", "CODE", paragraph).split())


def prose_of_code(text: str) -> Iterator[str]:
    """Yield the strings and comments of a module."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")
        elif token.type == tokenize.STRING or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            for paragraph in re.split(r"\n\s*\n", token.string):
                yield " ".join(paragraph.strip("rfb\"'").split())


def prose_of_notebook(text: str) -> Iterator[str]:
    """Yield the markdown of a notebook, and the comments of its code."""
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        yield from prose_of_page(source) if cell["cell_type"] == "markdown" else re.findall(r"# (.*)", source)


def hard_words(name: str) -> list[str]:
    """Return the words of a file that the rule forbids, with their surroundings."""
    text = (ROOT / name).read_text(encoding="utf-8")
    prose = {".py": prose_of_code, ".md": prose_of_page, ".ipynb": prose_of_notebook}[Path(name).suffix]
    return [
        paragraph[max(0, match.start() - 40) : match.end() + 40]
        for paragraph in prose(text)
        for match in (*WORDS.finditer(paragraph), *FRONTED.finditer(paragraph))
        if (name, match[0].lower()) not in EXCEPTIONS
    ]


def test_sentences_have_no_hard_words() -> None:
    assert {name: found for name in (*PAGES, *CODE, *NOTEBOOKS) if (found := hard_words(name))} == {}


def test_hard_words_are_noticed() -> None:
    page = "# Title\n\nIt is of no use.\n\n```\nrubbish\n```\n\n- `marks`, and rubbish\n- Of models, none\n"
    found = [text for text in prose_of_page(page) if WORDS.search(text) or FRONTED.search(text)]
    assert found == ["CODE, and rubbish", "Of models, none"]
    module = 'x = 1  # anew\ny = """Return x.\n\nOf y, nobody knows."""\nrubbish = 2\n'
    found = [text for text in prose_of_code(module) if WORDS.search(text) or FRONTED.search(text)]
    assert found == ["anew", "Of y, nobody knows."]


def test_each_exception_is_needed() -> None:
    for name, word in EXCEPTIONS:
        assert re.search(rf"\b{word}\b", (ROOT / name).read_text(encoding="utf-8"), re.IGNORECASE), (
            name,
            word,
        )
