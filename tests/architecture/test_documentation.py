"""What the pages say exists: commands, options, programs, files and links; examples in docstrings run."""

import ast
import contextlib
import doctest
import importlib
import importlib.util
import itertools
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import keras_transformer
from keras_transformer.errors import InputError
from keras_transformer.runs import RunConfig

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
PAGES += sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
LANGUAGES = {"", "python", "sh", "text", "toml"}
README_COMMANDS = (
    'python -m pip install ".[demo]" && keras-transformer train',
    'python -m pip install ".[test]" && python -m pytest',
)


def page(root: Path, name: str) -> str:
    """Return the text of a page of the checkout."""
    return (root / name).read_text(encoding="utf-8")


def wrong_pages(root: Path, check: Callable[[str, str], None]) -> dict[str, str]:
    """Return what a check of the name and the text of a page says of each page that fails it."""
    wrong = {}
    for name in PAGES:
        try:
            check(name, page(root, name))
        except (AssertionError, click.UsageError, InputError) as error:
            wrong[name] = str(error)
    return wrong


def blocks(text: str, language: str = r"\w*") -> list[str]:
    """Return the fenced blocks of a page in a language, or in any."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def code(text: str) -> str:
    """Return the code of a page, blocks and spans, a command in each line."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    return "\n".join(blocks(text)).replace("\\\n", " ") + "\n" + "\n".join(spans)


def quoted_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each `keras-transformer ...` call in a page's code, without the program."""
    for line in code(text).splitlines():
        for command in re.split(r"&&|\||;|\$ ", line):
            if called := re.match(r"\s*(?:[A-Z_]+=\S+ )*keras-transformer(?:\s|$)", command):
                yield shlex.split(command[called.end() :].split(" #")[0])


def test_quoted_commands() -> None:
    fence = "```\npip install x && keras-transformer train \\\n  --epochs 3  # it's quick\n```\n"
    text = fence + "then `keras-transformer\nplot`\n"
    assert list(quoted_commands(text)) == [["train", "--epochs", "3"], ["plot"]]


def test_commands_that_do_not_exist_are_noticed() -> None:
    main = importlib.import_module("keras_transformer_cli").main
    for words in (["trane"], ["train", "--epoch"], ["plot", "flowers"], ["plot", "mask", "--size", "3"]):
        with pytest.raises(AssertionError, match="keras-transformer"):
            check_command(main, words)
    check_command(main, ["plot", "mask", "--length", "3"])


def test_every_quoted_command_exists(root: Path) -> None:
    main = importlib.import_module("keras_transformer_cli").main

    def check(name: str, text: str) -> None:
        for words in quoted_commands(text):
            check_command(main, words)

    assert wrong_pages(root, check) == {}


def test_every_command_of_a_block_is_one_that_can_be_given(root: Path) -> None:
    main = importlib.import_module("keras_transformer_cli").main

    def check(name: str, text: str) -> None:
        for words in quoted_commands("\n".join(f"```\n{block}```" for block in blocks(text))):
            parse(main, [re.sub(r"\$\w+", "1", word) for word in words])

    assert wrong_pages(root, check) == {}


def test_commands_of_the_guide_are_in_blocks_that_a_test_runs(root: Path) -> None:
    """See tests/integration/test_code_blocks.py, which runs the blocks of `sh`."""

    def check(name: str, text: str) -> None:
        if name.startswith(("README", "docs/index", "docs/guide/")):
            fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
            plain = [block for language, block in fenced if not language]
            assert [block for block in plain if "keras-transformer " in block] == []

    assert wrong_pages(root, check) == {}


def parse(command: click.Command, words: list[str]) -> None:
    """Parse a command as the program does, without running it; what a shell redirects is no part of it."""
    words = list(itertools.takewhile(lambda word: word not in "<>", words))
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None
        command = found
    with contextlib.suppress(click.exceptions.Exit):  # of --help
        command.make_context(command.name, words)


def test_commands_that_cannot_be_given_are_noticed() -> None:
    main = importlib.import_module("keras_transformer_cli").main
    for words in (["train", "--epochs", "many"], ["export", "runs/dates"], ["plot", "mask", "--length", "0"]):
        with pytest.raises(click.UsageError):
            parse(main, words)


def test_blocks_are_of_known_languages_and_tables_of_known_fields(root: Path, tmp_path: Path) -> None:
    def check(name: str, text: str) -> None:
        assert set(re.findall(r"^```(\w*)\n.*?^```$", text, flags=re.MULTILINE | re.DOTALL)) <= LANGUAGES
        for block in blocks(text, "toml"):
            (tmp_path / "run.toml").write_text(block, encoding="utf-8")
            RunConfig.from_toml(tmp_path / "run.toml")

    assert wrong_pages(root, check) == {}


def test_every_message_of_the_troubleshooting_page_is_one_of_the_package(
    root: Path, trees: dict[str, ast.Module]
) -> None:
    literals = [
        "…".join(
            part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)
        )
        for tree in trees.values()
        for node in ast.walk(tree)
        for parts in [node.values if isinstance(node, ast.JoinedStr) else [node]]
    ]
    every = re.sub(r"`(\w*)`", r"…\1…", "\n".join(literals))
    text = page(root, "docs/guide/troubleshooting.md")
    quoted = re.findall(r"^\| `(.+?)` \|", text, flags=re.MULTILINE)
    fragments = [part.strip() for message in quoted for part in message.split("…") if part.strip()]
    assert len(quoted) > 30
    assert [part for part in fragments if part not in every] == []


def check_command(group: click.Group, words: list[str]) -> None:
    """Fail unless the verb exists and has each option that the words use."""
    context, command, verb = click.Context(group), group, ""
    for word in words:
        if word.startswith("-") or not isinstance(command, click.Group):
            break
        command, verb = command.get_command(context, word), f"{verb} {word}".strip()
        assert command is not None, f"keras-transformer {verb} does not exist"
    known = {
        option
        for parameter in command.get_params(context)
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    used = {word.split("=")[0] for word in words if word.startswith("--")}
    assert used <= known, f"keras-transformer {verb} has no {sorted(used - known)}"


def test_quoted_files_exist(root: Path) -> None:
    def check(name: str, text: str) -> None:
        if name == "CHANGELOG.md":  # which names the files of its time
            return
        quoted = re.findall(r"(?:benchmarks|examples|keras_transformer|tests)/[\w/]*\.\w+", code(text))
        programs = re.findall(r"python\s+-m\s+(benchmarks[\w.]+)", text)
        quoted += [f"{program.replace('.', '/')}.py" for program in programs]
        assert {path for path in quoted if not (root / path).exists()} == set()

    assert wrong_pages(root, check) == {}


def python_programs(root: Path) -> Iterator[tuple[str, str]]:
    """Yield what is no part of the package and uses it: programs, and the Python of the pages."""
    for path in sorted((*root.glob("benchmarks/**/*.py"), *root.glob("examples/**/*.py"))):
        yield path.name, path.read_text(encoding="utf-8")
    for name in PAGES:
        for block in blocks(page(root, name), "python"):
            yield name, block


def used_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the package that a program imports, or reads as `kt.room.name`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "keras_transformer":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if isinstance(node, ast.Attribute) and re.fullmatch(r"kt(\.\w+){1,2}", ast.unparse(node)):
            yield ast.unparse(node).replace("kt.", "keras_transformer.", 1)


def exists(name: str) -> bool:
    """Return whether a dotted name leads to a module, or to an attribute of one or of a class in it."""
    found: Any = keras_transformer
    for part in name.split(".")[1:]:
        if hasattr(found, "__path__") and importlib.util.find_spec(f"{found.__name__}.{part}"):
            found = importlib.import_module(f"{found.__name__}.{part}")
        elif hasattr(found, part):
            found = getattr(found, part)
        else:
            return False
    return True


def test_exists() -> None:
    assert exists("keras_transformer.layers.FeedForward")
    assert exists("keras_transformer.Translator.load")
    assert exists("keras_transformer.layers.masks.causal_mask")
    assert not exists("keras_transformer.layers.feed_backward")


def test_programs_use_what_exists(root: Path) -> None:
    wrong = [
        f"{file}: {name}"
        for file, text in python_programs(root)
        for name in used_names(ast.parse(text))
        if not exists(name)
    ]
    assert wrong == [], "\n".join(wrong)


def anchors(text: str) -> set[str]:
    """Return the anchors that headings of a Markdown page make."""
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_internal_links_resolve(root: Path) -> None:
    def check(name: str, text: str) -> None:
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = link.partition("#")
            path = (root / name).parent / target if target else root / name
            assert path.exists(), link
            if anchor:
                assert anchor in anchors(path.read_text(encoding="utf-8")), link

    assert wrong_pages(root, check) == {}


def test_every_page_is_in_the_navigation(root: Path) -> None:
    navigation = page(root, "mkdocs.yml").partition("\nnav:")[2]
    pages = [name.removeprefix("docs/") for name in PAGES if name.startswith("docs/")]
    assert [name for name in pages if f" {name}\n" not in navigation] == []
    text = page(root, "README.md")
    assert [name for name in ("docs/index.md", "CHANGELOG.md", "CONTRIBUTING.md") if name not in text] == []


@pytest.mark.parametrize(("name", "most"), [("README.md", 200), ("CONTRIBUTING.md", 120)])
def test_first_pages_are_short(root: Path, name: str, most: int) -> None:
    assert len(page(root, name).splitlines()) <= most


def test_the_readme_has_the_commands_that_ci_runs(root: Path) -> None:
    text, script = page(root, "README.md"), page(root, ".ci/run")
    for command in README_COMMANDS:
        assert command in text
        for part in command.split(" && "):
            assert part.removeprefix("python -m pip install ") in script


def test_the_version_stands_in_one_place(root: Path) -> None:
    [version] = re.findall(r'^version = "(.+)"$', page(root, "pyproject.toml"), flags=re.MULTILINE)
    assert f"## {version}" in page(root, "CHANGELOG.md")
    sources = [path.read_text(encoding="utf-8") for path in (root / "keras_transformer").rglob("*.py")]
    assert not any(re.search(r"^__version__ = [\"']", source, flags=re.MULTILINE) for source in sources)


@pytest.mark.slow
def test_examples_in_docstrings_run(trees: dict[str, ast.Module], paths: dict[str, Path]) -> None:
    modules = [name for name in trees if ">>> " in paths[name].read_text(encoding="utf-8")]
    failed = {name: doctest.testmod(importlib.import_module(name)).failed for name in modules}
    assert {name: count for name, count in failed.items() if count} == {}
