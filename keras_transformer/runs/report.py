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
from typing import NamedTuple

import jinja2
import keras
import numpy as np
from matplotlib.ticker import MaxNLocator

from keras_transformer._files import write_file
from keras_transformer.evaluation.report import EvaluationReport, evaluate
from keras_transformer.runs.config import RunConfig
from keras_transformer.runs.data import _RunData, _RunPairs
from keras_transformer.runs.directory import ATTENTION_FILE, PAGE_FILE, _flat
from keras_transformer.tasks import Translation, Translator
from keras_transformer.training.checkpoint import Checkpoint
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS, Pair
from keras_transformer.visualization.attention import plot_attention

_NUM_EXAMPLES = 6  # of each kind
_NUM_ANSWERS = 10  # with maps of their attention
_MAX_WEIGHTS = 300_000  # of all maps together, two or three bytes each
_MAX_RANKED = 5_000  # which takes two seconds
_NUM_TOKENS = 40
_NUM_BINS = 32
_MAX_COUNTED = 500_000

_Values = dict[str, object]


class _Results(NamedTuple):
    """What a run has when it is trained and scored; the template reads most of it."""

    data: _RunData
    pairs: _RunPairs
    checkpoint: Checkpoint
    translator: Translator
    report: EvaluationReport
    outputs: list[Translation]
    seconds: int


def _write_report(results: _Results, directory: Path) -> None:
    """Write `report.html`, and a picture of the attention of the first test pair's answer."""
    config, pairs = results.data.config, results.pairs
    chrf = _chrf(pairs.test[:_MAX_RANKED], results.outputs)
    examples = _examples(chrf, results.outputs, config.data.seed)
    # The first, whose picture is drawn too, and then one of each kind by turns.
    numbers = [0, *(number for turn in zip(*examples.values(), strict=True) for number in turn)]
    answers = _answers(results, directory, list(dict.fromkeys(numbers))[:_NUM_ANSWERS])
    text = _template().render(
        **results._asdict(),
        config=config,
        directory=str(directory),
        target=Path(config.export_directory, config.name),
        charts=_charts(results.checkpoint.history),
        chrf=chrf,
        examples=examples,
        answers=answers,
        sides=[_side(results, number) for number in range(2)],
        settings=_settings(config, results.translator),
        now=datetime.now(UTC),
        keras=keras,
        platform=platform,
    )
    # The name of a directory may hold bytes that are no UTF-8.
    write_file(directory / PAGE_FILE, text.encode("utf-8", "replace"))


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    environment.filters.update(
        quote=shlex.quote, python=repr, json=partial(json.dumps, ensure_ascii=False), differences=_differences
    )
    environment.tests["finite"] = math.isfinite
    path = Path(__file__).with_name("templates") / PAGE_FILE
    return environment.from_string(path.read_text(encoding="utf-8"))


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


def _chrf(pairs: Sequence[Pair], outputs: Sequence[Translation]) -> list[float]:
    return [
        100.0 if output.text == target else evaluate([output.text], [target], ["chrf"])["chrf"]
        for (_, target), output in zip(pairs, outputs, strict=False)
    ]


def _examples(chrf: list[float], outputs: list[Translation], seed: int) -> dict[str, list[int]]:
    # Among right outputs the worst are those that the model itself doubts.
    order = sorted(range(len(chrf)), key=lambda number: (chrf[number], outputs[number].score))
    drawn = np.random.default_rng(seed).permutation(len(chrf)).tolist()
    kinds = {"worst": order, "random": drawn, "best": order[::-1]}
    return {kind: numbers[:_NUM_EXAMPLES] for kind, numbers in kinds.items()}


def _differences(text: str, other: str) -> list[tuple[str, bool]]:
    """Cut a text into parts, and say of each whether the other text differs there."""
    blocks = difflib.SequenceMatcher(None, text, other, autojunk=False).get_opcodes()
    return [(text[start:end], kind != "equal") for kind, start, end, _, _ in blocks]


def _answers(results: _Results, directory: Path, numbers: list[int]) -> dict[int, _Values]:
    """Return outputs with all their attention maps, as far as there is room, and draw those of the first."""
    answers: dict[int, _Values] = {}
    room = _MAX_WEIGHTS
    for number in numbers:
        source = results.pairs.test[number][0]
        alignment, maps = results.translator.attention_maps(source, results.outputs[number])
        if not number:
            plot_attention(
                alignment.attention,
                alignment.source_tokens,
                alignment.output_tokens,
                path=directory / ATTENTION_FILE,
                title="Cross-attention, last decoder layer",
            )
        num_weights = sum(scores.size for scores in maps.values())
        if num_weights > room:
            continue
        room -= num_weights
        written = [_visible(token) for token in alignment.output_tokens]
        answers[number] = {
            "text": f"{source} → {alignment.text}",
            "source": [_visible(token) for token in alignment.source_tokens],
            "read": [SPECIAL_TOKENS[SPECIAL_IDS.start], *written[:-1]],
            "written": written,
            # In thousandths.
            "maps": {name: np.rint(1000 * scores).astype(int).tolist() for name, scores in maps.items()},
        }
    return answers


def _side(results: _Results, number: int) -> _Values:
    """Return the statistics of the sources (0) or targets (1): their lengths and their tokens."""
    data, tokenizer = results.data, results.data.tokenizers[number]
    lengths = data.training.lengths()[:, number]  # (n, 2) -> (n,)
    width = math.ceil((lengths.max() - lengths.min() + 1) / _NUM_BINS)
    edges = np.arange(lengths.min(), lengths.max() + width + 1, width)
    # As many pairs as a run keeps in memory by default; of more the ids are on the disk.
    counted = np.arange(min(len(lengths), _MAX_COUNTED))
    token_ids = data.training._rows(counted)[number].flat_values.numpy()
    counts = np.bincount(token_ids, minlength=tokenizer.vocabulary_size)  # (v,)
    frequent = np.argsort(-counts, kind="stable")[: min(_NUM_TOKENS, np.count_nonzero(counts))]
    names = tokenizer.tokens(frequent[None]).numpy()[0]
    texts = [pair[number] for pair in results.pairs.test]
    test_ids = tokenizer.tokenize(texts).flat_values.numpy()
    return {
        "tokenizer": tokenizer,
        "lengths": lengths,
        "median": np.median(lengths),
        "limit": (data.config.data.max_source_length, data.config.data.max_target_length)[number],
        "width": width,
        "bars": list(zip(edges.tolist(), np.histogram(lengths, edges)[0].tolist(), strict=False)),
        "num_used": np.count_nonzero(counts),
        "characters": sum(map(len, texts)) / max(len(test_ids), 1),
        "unknown": [np.mean(ids == SPECIAL_IDS.unknown) for ids in (token_ids, test_ids) if len(ids)],
        "tokens": [
            (_visible(name.decode("utf-8", "replace")), count)
            for name, count in zip(names, counts[frequent].tolist(), strict=True)
        ],
    }


def _visible(token: str) -> str:
    """Return a token as text that can be seen: spaces, control characters, and marks without a letter."""
    category = unicodedata.category(token[:1] or " ")
    if len(token) == 1 and token != " " and category[0] in "CZ":
        return f"U+{ord(token):04X}"
    mark = "\N{DOTTED CIRCLE}" if category[0] == "M" else ""
    return f"{mark}{token}".replace(" ", "\N{OPEN BOX}")


def _settings(config: RunConfig, translator: Translator) -> dict[str, list[tuple[str, object, bool, str]]]:
    """Return for each section the names, values, whether they are no defaults, and what they mean."""
    options = RunConfig.options()
    fields = {name for name, option in options.items() if option.sections == ("model",)}
    values, defaults = _flat(config), _flat(RunConfig())
    # Sizes of the model that the preset, the vocabularies or an earlier model decided.
    sizes = translator.model.get_config()
    decided = {f"model.{name}": sizes[name] for name in sizes if name in fields}
    sections: defaultdict[str, list[tuple[str, object, bool, str]]] = defaultdict(list)
    for name, value in {**values, **decided, **values}.items():
        section, _, field = name.rpartition(".")
        if value is not None:
            changed = name in values and value != defaults.get(name)
            sections[section or "run"].append((field, value, changed, options[field].text))
    return sections
