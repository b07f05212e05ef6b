"""Any number of sources in, results in the same order out: what every task has, in memory and on a server."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import tensorflow as tf

from keras_transformer._arguments import check_kind, check_number
from keras_transformer.tasks.results import ServedSignature, TruncationWarning
from keras_transformer.tasks.sources import Source, TextSource
from keras_transformer.types import Progress, Signature, Value


class _Functions(Protocol):
    """The functions of a task's signatures, compiled in memory or those of a SavedModel."""

    def __getitem__(self, signature: Signature) -> Callable[..., dict[str, tf.Tensor]]:
        """Return the function of a signature; options of a source follow the columns."""


class Task:
    """Base of all tasks and of what is served.

    Every call takes any iterable of sources, computes sources of similar length together, and returns the
    results in the order of the sources. A subclass sets `source` and `functions`, and `limits` as far as it
    knows them.
    """

    signatures: ClassVar[Mapping[Signature, ServedSignature]]
    """What sources can be asked for."""
    source: Source | type[Source]
    """The kind of the sources; the class alone checks and batches them."""
    noun: ClassVar[str] = "translator"
    """What messages call the task."""

    @property
    def functions(self) -> _Functions:
        """The functions of the signatures, from the columns of a batch to its outputs."""
        raise NotImplementedError

    @property
    def limits(self) -> dict[str, int]:
        """The maximum lengths of a source and of a target to score, by the names of the arguments."""
        return {}

    def specification(self, signature: Signature) -> ServedSignature:
        """Return the inputs of a signature, its outputs, and what reads them."""
        served = self.signatures[signature]
        return served._replace(inputs={**self.source.columns, **served.inputs})

    def _in_batches(
        self,
        signature: Signature,
        sources: Sequence[Value],
        batch_size: int,
        progress: Progress | None,
        targets: Sequence[str] | None = None,
        *,
        details: bool = False,
        warns: bool = True,
    ) -> list[Any]:
        """Ask for batches of similar length, the longest first: a lack of memory shows at once."""
        if signature not in self.signatures:
            wanted = f"`{signature}` needs a task that has it among {', '.join(self.signatures)}"
            raise TypeError(f"{wanted}. Received: a {type(self).__name__}.")
        check_number(above=0, whole=True, batch_size=batch_size)
        check_kind(Callable, None, progress=progress)
        # Characters stand for tokens, which are not known yet; texts of one length need the least padding.
        lengths = [len(source) for source in sources]
        if targets is not None:
            lengths = [max(length, len(target)) for length, target in zip(lengths, targets, strict=True)]
        order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
        functions, num_cut = self.functions, 0
        served = self.specification(signature)
        served = served.detailed() if details else served
        results: list[Any] = [None] * len(order)
        for start in range(0, len(order), batch_size):
            numbers = order[start : start + batch_size]
            columns = self.source.batch([sources[number] for number in numbers])
            if targets is not None:
                columns += TextSource.batch([targets[number] for number in numbers])
            answer = functions[signature](*columns, numbers)
            outputs = {name: np.asarray(values) for name, values in answer.items()}
            num_cut += int(outputs.pop("is_cut", np.zeros(0)).sum())
            for number, result in zip(numbers, served.results(outputs), strict=True):
                results[number] = result
            if progress is not None:
                progress(len(numbers))
        if num_cut and warns:
            self._warn(f"{num_cut} of {len(results)} were", 1 if targets is None else 2)
        return results

    def _warn(self, subject: str, num_limits: int) -> None:
        limits = ", ".join(f"{name}={limit}" for name, limit in [*self.limits.items()][:num_limits])
        # Those of an export are not known.
        limits = f"limits ({limits})" if limits else "limits"
        message = f"{subject} longer than the {self.noun}'s {limits} and were cut off."
        warnings.warn(message, TruncationWarning, stacklevel=4)
