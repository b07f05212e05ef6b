"""Names, ids and class weights of labels and tags."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from keras_transformer._arguments import as_labels, check_choice, check_number
from keras_transformer.errors import InputError
from keras_transformer.types import LabelledText, TaggedText

_MAX_SHOWN = 8


def label_names(examples: Iterable[LabelledText | TaggedText]) -> list[str]:
    """Return the distinct labels or tags of examples.

    Args:
        examples: Examples as returned by `read_labelled` or `read_tagged`.

    Returns:
        The names in alphabetical order; numbers of digits alone first, by value.

    Raises:
        InputError: If there are fewer than two different labels.
        TypeError: If an example is not a text and its labels.

    Example:
        >>> label_names([("Well done.", "good"), ("Too late.", "bad"), ("Fine.", "good")])
        ['bad', 'good']
    """
    counts: Counter[str] = Counter()
    for number, (_, labels) in enumerate(_checked_examples(examples)):
        names = (labels,) if isinstance(labels, str) else labels
        if not all(isinstance(name, str) for name in names):
            raise TypeError(f"Labels must be strings. Received: examples[{number}] with {labels!r:.200}.")
        counts.update(names)
    if len(counts) < 2:
        received = f"{counts.total()} times {next(iter(counts))!r}" if counts else "none"
        raise InputError(f"There must be at least two different labels. Received: {received}.")
    return sorted(counts, key=_order)


def _order(name: str) -> tuple[float, str]:
    return (float(name), name) if name.isdecimal() else (float("inf"), name)


def _checked_examples(examples: Iterable[LabelledText | TaggedText]) -> list[LabelledText | TaggedText]:
    several = list(examples)
    for number, example in enumerate(several):
        is_pair = isinstance(example, tuple | list) and len(example) == 2
        if not is_pair or not isinstance(example[1], str | tuple | list):
            # For example NaN, from an empty table cell.
            raise TypeError(
                "Each example must be a text and its label, or its labels. "
                f"Received: examples[{number}]={example!r:.200}."
            )
    return several


class _LabelNumbers:
    """The id of each label."""

    def __init__(self, **labels: Sequence[str]) -> None:
        [self._argument] = labels
        self.names = as_labels(**labels)
        self._numbers = {name: number for number, name in enumerate(self.names)}

    def of(self, labels: Sequence[str]) -> list[int]:
        """Return the ids of labels; raise InputError for unknown labels."""
        for label in labels:
            if label not in self._numbers:
                shown = ", ".join(map(repr, self.names[:_MAX_SHOWN])) + ", …" * (len(self.names) > _MAX_SHOWN)
                raise InputError(f"A label must be one of `{self._argument}`: {shown}. Received: {label!r}.")
        return [self._numbers[label] for label in labels]

    def targets(self, labels: Sequence[Sequence[str]], *, multi_label: bool) -> np.ndarray:
        """Return label ids, int32 (n,), or with `multi_label` float32 (n, c) of zeros and ones."""
        if not multi_label:
            return np.asarray([self.of(each)[0] for each in labels], np.int32)
        targets = np.zeros((len(labels), len(self.names)), np.float32)
        for row, each in enumerate(labels):
            targets[row, self.of(each)] = 1
        return targets

    def weights(self, class_weight: str | Mapping[str, float], numbers: np.ndarray) -> np.ndarray:
        """Return the weight of each label, float32 (c,), from the label ids of all examples (n,)."""
        if isinstance(class_weight, str):
            check_choice(("balanced",), class_weight=class_weight)
            counts = np.bincount(numbers, minlength=len(self.names))
            # Labels without examples are not counted.
            by_label = len(numbers) / (np.count_nonzero(counts) * np.maximum(counts, 1))
        else:
            by_label = np.ones(len(self.names))
            for name, weight in class_weight.items():
                check_number(class_weight=weight)
                by_label[self.of([name])] = weight
        return by_label.astype("float32")
