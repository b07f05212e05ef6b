"""Pages that `mkdocs` makes of files outside `docs`: examples, notebooks, the changelog."""

import ast
import base64
import html
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
CONFIGURATIONS = "examples/configurations.md"
OVERVIEW = "examples/index.md"
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples": OVERVIEW,
    "examples/notebooks": OVERVIEW,
    "examples/recipes": CONFIGURATIONS,
    "examples/tf_serving": "examples/tf_serving.md",
    "examples/tf_serving/README.md": "examples/tf_serving.md",
}
"""The page of each file of the checkout that has one."""
PROGRAMS = sorted(path for path in (ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
TABLES = sorted((ROOT / "examples/recipes").glob("*.toml"))
PAGES |= {f"examples/{path.name}": f"examples/{path.stem}.md" for path in PROGRAMS}
PAGES |= {f"examples/notebooks/{path.name}": f"examples/notebooks/{path.stem}.md" for path in NOTEBOOKS}
PAGES |= {f"examples/recipes/{path.name}": f"{CONFIGURATIONS}#{path.stem}" for path in TABLES}
ORIGINS = {page: path for path, page in PAGES.items() if (ROOT / path).is_file()}
ORIGINS |= {OVERVIEW: "examples/index", CONFIGURATIONS: "examples/configurations"}
"""The file of the checkout that each page is made of; the links of the page are relative to it."""
# In a search, the guides and the reference come first.
LATER = "---\nsearch:\n  boost: 0.3\n---\n\n"
COMMANDS = ("python ", "pip ", "keras-transformer ")


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add a page for each example, and the pictures of the notebooks."""
    for name, page in PAGES.items():
        path = ROOT / name
        if path.suffix == ".md":
            _add(files, config, page, path.read_text(encoding="utf-8"))
    for path in PROGRAMS:
        _add(files, config, PAGES[f"examples/{path.name}"], program_page(path))
    for path in NOTEBOOKS:
        text, pictures = notebook_page(path)
        _add(files, config, PAGES[f"examples/notebooks/{path.name}"], text)
        for name, picture in pictures.items():
            _add(files, config, f"examples/notebooks/{name}", picture)
    _add(files, config, CONFIGURATIONS, configurations_page())
    _add(files, config, OVERVIEW, overview_page())
    return files


def _add(files: Files, config: Any, path: str, content: str | bytes) -> None:
    files.append(File.generated(config, path, content=content))


def on_page_content(content: str, **_: Any) -> str:
    """Turn formulas into MathML, which browsers draw without a script."""
    formula = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.DOTALL)

    def drawn(match: re.Match[str]) -> str:
        tag, latex = match.groups()
        latex = re.sub(r"\\tag\{(.*?)\}", r"\\qquad (\1)", html.unescape(latex))
        if tag == "span":
            return convert(latex, display="inline")
        return f'<div class="formula">{convert(latex, display="block")}</div>'

    return formula.sub(drawn, content)


def relink(markdown: str, page: str) -> str:
    """Point links to files of the checkout at their pages; show the path of a file that has none."""
    folder = posixpath.dirname(ORIGINS.get(page, f"docs/{page}"))

    def linked(match: re.Match[str]) -> str:
        text, target = match.groups()
        target, _, anchor = target.partition("#")
        if ":" in target or not target:
            return match.group(0)
        path = posixpath.normpath(posixpath.join(folder, target))
        found = path.removeprefix("docs/") if path.startswith("docs/") else PAGES.get(path)
        if found is None:
            return f"`{path}`" if text.strip("`") == path else f"{text} (`{path}`)"
        found = f"{found}#{anchor}" if anchor else found
        return f"[{text}]({posixpath.relpath(found, posixpath.dirname(page) or '.')})"

    # Links in code stay as they are.
    parts = re.split(r"(^```.*?^```)", markdown, flags=re.MULTILINE | re.DOTALL)
    links = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
    return "".join(part if part.startswith("```") else links.sub(linked, part) for part in parts)


def program_page(path: Path) -> str:
    """Show the docstring of a program as text and commands, then the program without it."""
    source = path.read_text(encoding="utf-8")
    paragraphs = (ast.get_docstring(ast.parse(source)) or "").split("\n\n")
    text = "\n\n".join(_block("sh", part) if part.startswith(COMMANDS) else part for part in paragraphs)
    program = source.split('"""\n', 1)[1].lstrip("\n")
    return f"{LATER}# {path.name}\n\n{text}\n\n## The program\n\n{_block('python', program)}\n"


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return the cells and outputs of a notebook as Markdown, and its pictures by name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(_block("python", source))
        for kind, value in _outputs(cell):
            if kind == "image/png":
                name = f"{path.stem}_{len(pictures)}.png"
                pictures[name] = base64.b64decode(value)
                parts.append(f"![Output of the cell above]({name})")
            else:
                parts.append(_block("text", value))
    return LATER + "\n\n".join(parts) + "\n", pictures


def _outputs(cell: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the value of each output, a picture rather than its name."""
    for output in cell["outputs"]:
        data = output.get("data", {"text/plain": output.get("text", "")})
        kind = "image/png" if "image/png" in data else "text/plain"
        yield kind, "".join(data[kind])


def configurations_page() -> str:
    """Show every configuration in `examples`."""
    sections = (
        f"## {path.name} {{#{path.stem}}}\n\n{_block('toml', path.read_text(encoding='utf-8'))}"
        for path in TABLES
    )
    head = (
        f"{LATER}# Configurations\n\nThe runs of the [results](../docs/results.md), and recipes of the "
        "guides. Train one with\n`keras-transformer train --config FILE`. "
        "[The TOML file](../docs/reference/toml.md) explains every field.\n\n"
    )
    return head + "\n\n".join(sections) + "\n"


def overview_page() -> str:
    """List all examples, each with the first line of its text."""
    notebooks = "\n".join(f"- [{path.stem}](notebooks/{path.name}): {_title(path)}" for path in NOTEBOOKS)
    programs = "\n".join(f"- [{path.name}]({path.name}): {_first_line(path)}" for path in PROGRAMS)
    return f"""# Examples

Every example is in the folder `examples` of a checkout and runs from its root.

## Notebooks

They are committed with their outputs; `python examples/notebooks/execute.py` executes them again.

{notebooks}

## Programs

{programs}

## Servers and configurations

- [TensorFlow Serving](tf_serving/README.md): requests, batching, versions, monitoring, a C client
- [Configurations](recipes/{TABLES[0].name}): the TOML files of the results and the guides
"""


def _title(path: Path) -> str:
    first = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
    return first.splitlines()[0].removeprefix("# ")


def _first_line(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()[0]


def _block(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"
