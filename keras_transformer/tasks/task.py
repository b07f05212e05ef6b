"""Base class of all tasks: from any number of sources to results in the same order."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import tensorflow as tf

from keras_transformer._arguments import check_kind, check_number, warn_user
from keras_transformer.tasks.results import ServedSignature, TruncationWarning
from keras_transformer.text import Reader, Tokenizer
from keras_transformer.types import Batch, Progress, Signature, Value


class _Functions(Protocol):
    """Functions of a task's signatures, compiled in memory or loaded from a SavedModel."""

    def __getitem__(self, signature: Signature) -> Callable[..., dict[str, tf.Tensor]]:
        """Return the function of a signature. Its arguments are the source columns, then the options."""


class Task:
    """Base class of tasks in memory and on a server.

    Every call takes any iterable of sources, batches sources of similar length, and returns the results in
    the order of the sources. A subclass sets `reader`, `functions` and, if it knows them, `limits`.
    """

    signatures: ClassVar[Mapping[Signature, ServedSignature]]
    """Signatures of the task, by name."""
    reader: Reader | type[Reader]
    """What reads the sources, or its class, which is enough to check and batch them."""
    noun: ClassVar[str] = "translator"
    """Name of the task in messages."""

    @property
    def functions(self) -> _Functions:
        """Functions by signature. Each converts the columns of a batch (see `Reader`) to outputs."""
        raise NotImplementedError

    @property
    def limits(self) -> dict[str, int]:
        """Maximum lengths of a source and of a target to score, by argument name."""
        return {}

    def specification(self, signature: Signature) -> ServedSignature:
        """Return the inputs and outputs of a signature."""
        served = self.signatures[signature]
        return served._replace(inputs={**self.reader.columns, **served.inputs})

    def _answer(self, texts: Value | Iterable[Value], batch_size: int, progress: Progress | None) -> Any:
        """Return the result of each source; that of a single source is not in a list."""
        is_one = self.reader.is_one(texts)
        sources = self.reader.check("texts", [texts] if is_one else texts)
        results = self._in_batches("serving_default", sources, batch_size, progress)
        return results[0] if is_one else results

    def _in_batches(
        self,
        signature: Signature,
        sources: Sequence[Value],
        batch_size: int,
        progress: Progress | None,
        targets: Sequence[str] | None = None,
        *,
        options: Callable[[Sequence[int]], Batch] | None = None,
        details: bool = False,
        warns: bool = True,
    ) -> list[Any]:
        """Compute batches of similar length, the longest first, so that a lack of memory shows at once."""
        if signature not in self.signatures:
            wanted = f"`{signature}` needs a task that has it among {', '.join(self.signatures)}"
            raise TypeError(f"{wanted}. Received: a {type(self).__name__}.")
        check_number(above=0, whole=True, batch_size=batch_size)
        check_kind(Callable, None, progress=progress)
        # Sorted by characters, since the number of tokens is not known yet. Similar lengths save padding.
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
            columns = self.reader.batch([sources[number] for number in numbers])
            if targets is not None:
                columns += Tokenizer.batch([targets[number] for number in numbers])
            if options is not None:
                columns += options(numbers)
            tensors = functions[signature](*columns, numbers)
            outputs = {name: np.asarray(values) for name, values in tensors.items()}
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
        # The limits of an export are not known.
        limits = f"limits ({limits})" if limits else "limits"
        message = f"{subject} longer than the {self.noun}'s {limits} and were cut off."
        warn_user(message, TruncationWarning)
