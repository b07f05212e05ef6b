"""`report.html` of a run: one file to look at, which opens without a network. Its text is in `templates/`."""

import difflib
import json
import math
import platform
import shlex
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import keras
import numpy as np
from matplotlib.ticker import MaxNLocator

from keras_transformer._files import write_file
from keras_transformer.runs.config import RunConfig
from keras_transformer.runs.directory import PAGE_FILE, _flat
from keras_transformer.runs.kind import RunKind, RunResults
from keras_transformer.text import Tokenizer
from keras_transformer.training.checkpoint import Checkpoint
from keras_transformer.types import SPECIAL_IDS

_NUM_TOKENS = 40
_NUM_BINS = 32


def _write_report(kind: RunKind, results: RunResults, checkpoint: Checkpoint, seconds: int) -> None:
    """Write `report.html`, with what the kind of the run adds to it."""
    config = kind.config
    values = {
        **results._asdict(),
        "directory": str(results.directory),
        "kind": kind,
        "config": config,
        "checkpoint": checkpoint,
        "seconds": seconds,
        "target": Path(config.export_directory, config.name),
        "charts": _charts(checkpoint.history),
        "settings": _settings(config, results.task.model),
        "sides": [],
        "now": datetime.now(UTC),
        "keras": keras,
        "platform": platform,
    }
    text = _template(kind.template).render({**values, **kind.page(results)})
    # The name of a directory may hold bytes that are no UTF-8.
    write_file(results.directory / PAGE_FILE, text.encode("utf-8", "replace"))


def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    environment.filters.update(
        quote=shlex.quote, python=repr, json=partial(json.dumps, ensure_ascii=False), differences=_differences
    )
    environment.tests["finite"] = math.isfinite
    return environment.get_template(name)


def _charts(history: Mapping[str, Iterable[float]]) -> dict[str, list[float]]:
    """Return the marks of a vertical axis, from its lower to its upper end, for each number of a history."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    # Loss and learning rate first. What is missing to a perfect score is the score once more.
    for name in sorted(history, key=lambda name: "loss learning_rate".find(name.removeprefix("val_")) < 0):
        if not name.endswith("_loss") or name == "val_loss":
            values[name.removeprefix("val_")] += filter(math.isfinite, history[name])
    return {name: _marks(min(numbers), max(numbers)) for name, numbers in values.items() if numbers}


def _marks(low: float, high: float) -> list[float]:
    margin = (high - low) / 20 or abs(high) / 20 or 1.0
    low, high = low - margin, high + margin
    inner = map(float, MaxNLocator(5).tick_values(low, high))
    return [low, *(mark for mark in inner if low < mark < high), high]


def _differences(text: str, other: str) -> list[tuple[str, bool]]:
    """Cut a text into parts, and say of each whether the other text differs there."""
    blocks = difflib.SequenceMatcher(None, text, other, autojunk=False).get_opcodes()
    return [(text[start:end], kind != "equal") for kind, start, end, _, _ in blocks]


def text_side(
    name: str,
    tokenizer: Tokenizer,
    lengths: np.ndarray,
    limit: int,
    token_ids: np.ndarray,
    test_texts: Sequence[str],
) -> dict[str, Any]:
    """Return what the page shows of the texts of one side: their lengths and their tokens.

    Args:
        name: of the side, such as `source`.
        tokenizer: of its texts.
        lengths: of the training texts, int32 (n,).
        limit: highest length that a text may have.
        token_ids: of training texts, one after the other.
        test_texts: texts that the tokenizer was not made from.
    """
    width = math.ceil((lengths.max() - lengths.min() + 1) / _NUM_BINS)
    edges = np.arange(lengths.min(), lengths.max() + width + 1, width)
    counts = np.bincount(token_ids, minlength=tokenizer.vocabulary_size)  # (v,)
    frequent = np.argsort(-counts, kind="stable")[: min(_NUM_TOKENS, np.count_nonzero(counts))]
    names = tokenizer.tokens(frequent[None]).numpy()[0]
    test_ids = tokenizer.tokenize(test_texts).flat_values.numpy()
    return {
        "name": name,
        "tokenizer": tokenizer,
        "lengths": lengths,
        "median": np.median(lengths),
        "limit": limit,
        "width": width,
        "bars": list(zip(edges.tolist(), np.histogram(lengths, edges)[0].tolist(), strict=False)),
        "num_used": np.count_nonzero(counts),
        "characters": sum(map(len, test_texts)) / max(len(test_ids), 1),
        "unknown": [np.mean(ids == SPECIAL_IDS.unknown) for ids in (token_ids, test_ids) if len(ids)],
        "tokens": [
            (visible(name.decode("utf-8", "replace")), count)
            for name, count in zip(names, counts[frequent].tolist(), strict=True)
        ],
    }


def visible(token: str) -> str:
    """Return a token as text that can be seen: spaces, control characters, and marks without a letter."""
    category = unicodedata.category(token[:1] or " ")
    if len(token) == 1 and token != " " and category[0] in "CZ":
        return f"U+{ord(token):04X}"
    mark = "\N{DOTTED CIRCLE}" if category[0] == "M" else ""
    return f"{mark}{token}".replace(" ", "\N{OPEN BOX}")


def _settings(config: RunConfig, model: keras.Model) -> dict[str, list[tuple[str, object, bool, str]]]:
    """Return for each section the names, values, whether they are no defaults, and what they mean."""
    options = config.options()
    fields = {name for name, option in options.items() if option.sections == ("model",)}
    values, defaults = _flat(config), _flat(type(config)())
    # Sizes of the model that the preset, the vocabularies or an earlier model decided.
    sizes = model.get_config()
    decided = {f"model.{name}": sizes[name] for name in sizes if name in fields}
    sections: defaultdict[str, list[tuple[str, object, bool, str]]] = defaultdict(list)
    for name, value in {**values, **decided, **values}.items():
        section, _, field = name.rpartition(".")
        if value is not None:
            changed = name in values and value != defaults.get(name)
            sections[section or "run"].append((field, value, changed, options[field].text))
    return sections
