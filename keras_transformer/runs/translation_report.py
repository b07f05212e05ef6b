"""Report of a translation run: examples, attention maps and both vocabularies."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_transformer.evaluation.report import evaluate
from keras_transformer.runs.kind import RunResults
from keras_transformer.runs.report import text_side, visible
from keras_transformer.tasks import Translation
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS, Pair

_NUM_EXAMPLES = 6  # for each of worst, random and best
_NUM_WITH_MAPS = 10  # outputs with attention maps
_MAX_WEIGHTS = 300_000  # of all embedded maps, two or three bytes each
_MAX_RANKED = 5_000  # takes two seconds
_MAX_COUNTED = 500_000


def _page(
    results: RunResults,
    seed: int,
    limits: tuple[int, int],
    shown: Callable[[Any], str],
    sides: Sequence[int] = (0, 1),
) -> dict[str, Any]:
    """Return the values of `translation.html`."""
    chrf = _chrf(results.data.test[:_MAX_RANKED], results.outputs)
    examples = _examples(chrf, results.outputs, seed)
    # Worst, random and best in turn.
    numbers = [number for turn in zip(*examples.values(), strict=True) for number in turn]
    return {
        "chrf": chrf,
        "examples": examples,
        "answers": _outputs_with_maps(results, list(dict.fromkeys(numbers))[:_NUM_WITH_MAPS], shown),
        "sides": [_side(results, number, limits[number]) for number in sides],
    }


def _chrf(pairs: Sequence[Pair], outputs: Sequence[Translation]) -> list[float]:
    return [
        100.0 if output.text == target else evaluate([output.text], [target], ["chrf"])["chrf"]
        for (_, target), output in zip(pairs, outputs, strict=False)
    ]


def _examples(chrf: list[float], outputs: list[Translation], seed: int) -> dict[str, list[int]]:
    # Among correct outputs, those with the lowest score are the worst.
    order = sorted(range(len(chrf)), key=lambda number: (chrf[number], outputs[number].score))
    drawn = np.random.default_rng(seed).permutation(len(chrf)).tolist()
    kinds = {"worst": order, "random": drawn, "best": order[::-1]}
    return {kind: numbers[:_NUM_EXAMPLES] for kind, numbers in kinds.items()}


def _outputs_with_maps(
    results: RunResults, numbers: list[int], shown: Callable[[Any], str]
) -> dict[int, dict[str, Any]]:
    """Return outputs with their attention maps, up to `_MAX_WEIGHTS`."""
    with_maps: dict[int, dict[str, Any]] = {}
    num_left = _MAX_WEIGHTS
    for number in numbers:
        source = results.data.test[number][0]
        alignment, maps = results.task.attention_maps(source, results.outputs[number])
        num_weights = sum(scores.size for scores in maps.values())
        if num_weights > num_left:
            continue
        num_left -= num_weights
        written = [visible(token) for token in alignment.output_tokens]
        with_maps[number] = {
            "text": f"{shown(source)} → {alignment.text}",
            "source": [visible(token) for token in alignment.source_tokens],
            "read": [SPECIAL_TOKENS[SPECIAL_IDS.start], *written[:-1]],
            "written": written,
            # in thousandths
            "maps": {name: np.rint(1000 * scores).astype(int).tolist() for name, scores in maps.items()},
        }
    return with_maps


def _side(results: RunResults, number: int, limit: int) -> dict[str, Any]:
    """Return the statistics of the sources (0) or the targets (1)."""
    training: Any = results.training
    lengths = training.lengths()[:, number]  # (n, 2) -> (n,)
    # By default a run keeps this many pairs in memory; the ids of larger corpora are on disk.
    counted = np.arange(min(len(lengths), _MAX_COUNTED))
    token_ids = training._rows(counted)[number].flat_values.numpy()
    texts = [pair[number] for pair in results.data.test]
    name = ("source", "target")[number]
    return text_side(name, results.readers[number], lengths, limit, token_ids, texts)
