"""Report of a run: `report.html`, one self-contained page made from `templates/`."""

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
from keras_transformer.runs.model import _Trained
from keras_transformer.text import Tokenizer
from keras_transformer.types import SPECIAL_IDS

_NUM_TOKENS = 40
_NUM_BINS = 32


def _write_report(kind: RunKind, results: RunResults, trained: _Trained, seconds: int) -> None:
    """Write `report.html` from the template and values of the run's kind."""
    config = kind.config
    values = {
        **results._asdict(),
        "directory": str(results.directory),
        "kind": kind,
        "config": config,
        "checkpoint": trained.checkpoint,
        "average_last": trained.average_last,
        "seconds": seconds,
        "target": Path(config.export_directory, config.name),
        "charts": _charts(trained.checkpoint.history),
        "settings": _settings(config, results.task.model),
        "sides": [],
        "now": datetime.now(UTC),
        "keras": keras,
        "platform": platform,
    }
    text = _template(kind.template).render({**values, **kind.page(results)})
    # A directory name may contain invalid UTF-8.
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
    """Return the axis ticks of each metric in the history, from the lower to the upper end of the axis."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    # Loss and learning rate first. Skip the losses that only mirror a score, such as 1 - BLEU.
    for name in sorted(history, key=lambda name: name.removeprefix("val_") not in ("loss", "learning_rate")):
        if not name.endswith("_loss") or name == "val_loss":
            values[name.removeprefix("val_")] += filter(math.isfinite, history[name])
    return {name: _ticks(min(numbers), max(numbers)) for name, numbers in values.items() if numbers}


def _ticks(low: float, high: float) -> list[float]:
    margin = (high - low) / 20 or abs(high) / 20 or 1.0
    low, high = low - margin, high + margin
    inner = map(float, MaxNLocator(5).tick_values(low, high))
    return [low, *(tick for tick in inner if low < tick < high), high]


def _differences(text: str, other: str) -> list[tuple[str, bool]]:
    """Split a text into parts, each with a flag that says whether the other text differs there."""
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
    """Return the length histogram and vocabulary statistics of one side's texts.

    Args:
        name: Name of the side, such as `source`.
        tokenizer: Tokenizer of the texts.
        lengths: Lengths of the training texts, int32 `(n,)`.
        limit: Maximum length of a text.
        token_ids: Concatenated token ids of training texts.
        test_texts: Texts that the tokenizer was not trained on.
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
    """Return a token with spaces, control characters and lone combining characters made visible."""
    category = unicodedata.category(token[:1] or " ")
    if len(token) == 1 and token != " " and category[0] in "CZ":
        return f"U+{ord(token):04X}"
    mark = "\N{DOTTED CIRCLE}" if category[0] == "M" else ""
    return f"{mark}{token}".replace(" ", "\N{OPEN BOX}")


def _settings(config: RunConfig, model: keras.Model) -> dict[str, list[tuple[str, object, bool, str]]]:
    """Return for each section its fields: name, value, whether it differs from the default, and meaning."""
    options = config.options()
    fields = {name for name, option in options.items() if option.sections == ("model",)}
    values, defaults = _flat(config), _flat(type(config)())
    # Model sizes that follow from the preset, the vocabularies or the initial model.
    sizes = model.get_config()
    decided = {f"model.{name}": sizes[name] for name in sizes if name in fields}
    sections: defaultdict[str, list[tuple[str, object, bool, str]]] = defaultdict(list)
    for name, value in {**values, **decided, **values}.items():
        section, _, field = name.rpartition(".")
        if value is not None:
            changed = name in values and value != defaults.get(name)
            sections[section or "run"].append((field, value, changed, options[field].text))
    return sections
