"""Any number of sources in, results in the same order out: what tasks in memory and on a server share."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any, ClassVar, Protocol, get_args

import numpy as np
import tensorflow as tf

from keras_transformer._arguments import as_strings, check_kind, check_number
from keras_transformer.tasks.results import (
    OPTIONS,
    SEED,
    SIGNATURES,
    Alignment,
    PairScore,
    Translation,
    TruncationWarning,
    _ServedSignature,
)
from keras_transformer.tasks.sources import Source, TextSource
from keras_transformer.types import Columns, Progress, Signature, Value


class _Functions(Protocol):
    """`_StringFunctions`, or those of a SavedModel."""

    def __getitem__(self, signature: Signature) -> Callable[..., dict[str, tf.Tensor]]:
        """Return the function of a signature; options of a source follow the columns."""


class TextTask:
    """Base of `Translator`, `TextGenerator` and `export.ServedModel`.

    Every call takes any iterable of sources, decodes sources of similar length together, and returns the
    results in the order of the sources. A subclass sets `source` and `functions`, and `limits` and
    `num_outputs` as far as it knows them.
    """

    signatures: ClassVar[tuple[Signature, ...]] = get_args(Signature)
    """What sources can be asked for."""
    source: Source | type[Source]
    """The kind of the sources; the class alone checks and batches them."""

    @property
    def functions(self) -> _Functions:
        """The functions of the signatures, from the columns of a batch to its outputs."""
        raise NotImplementedError

    @property
    def limits(self) -> dict[str, int]:
        """The maximum lengths of a source and of a target to score, by the names of the arguments."""
        return {}

    @property
    def num_outputs(self) -> int:
        """The number of outputs of `n_best` for a source."""
        raise NotImplementedError

    @property
    def takes_seed(self) -> bool:
        """Whether a request to `search` has a seed, since the search samples."""
        raise NotImplementedError

    @property
    def options(self) -> Columns:
        """The options of a request to `search`."""
        return {**OPTIONS, **(SEED if self.takes_seed else {})}

    def specification(self, signature: Signature) -> _ServedSignature:
        """Return the inputs of a signature, its outputs, and what reads them."""
        source, served = self.source, SIGNATURES[signature]
        inputs = self.options if signature == "search" else served.inputs
        return served._replace(inputs={source.name: (source.dtype, source.rank), **inputs})

    def translate(
        self, texts: Iterable[Value], batch_size: int = 64, progress: Progress | None = None
    ) -> Any:
        """Translate one source, or any number of them.

        Args:
            texts: A string, or strings in a list, an array, a tensor of TensorFlow or a dataset, or what else
                the model reads.
            batch_size: Number of sources that are decoded together.
            progress: Called after each batch with the number of sources in it.

        Returns:
            The best output for each source, in the same order; the empty string for an empty source
            and for white space alone. For a single string a string.

        Raises:
            TypeError: If `texts` holds something else.

        Warns:
            TruncationWarning: Once, if sources were too long; see `Translator`.
        """
        is_one = self.source.is_one(texts)
        one = texts if isinstance(texts, str | bytes) else np.asarray(texts).item() if is_one else None
        sources = self.source.check("texts", [one] if is_one else texts)
        results = self._in_batches("serving_default", sources, batch_size, progress)
        return results[0].text if is_one else [result.text for result in results]

    def translate_with_scores(
        self, texts: Iterable[Value], batch_size: int = 64, progress: Progress | None = None
    ) -> list[Translation]:
        """Translate any number of sources, with the score of each output.

        The arguments are those of `translate`, without a single string.

        Returns:
            The best output for each source, in the same order.
        """
        return self._in_batches("serving_default", self.source.check("texts", texts), batch_size, progress)

    def n_best(
        self,
        texts: Iterable[Value],
        num: int | None = None,
        batch_size: int = 64,
        progress: Progress | None = None,
    ) -> list[list[Translation]]:
        """Translate sources to several outputs each.

        Args:
            texts: As for `translate`, like all arguments that follow `num`.
            num: Maximum number of outputs for a source. Defaults to all that the search keeps.
            batch_size: Number of sources that are decoded together.
            progress: Called after each batch.

        Returns:
            The outputs for each source, best first. There are fewer where there are fewer sequences, and one
            for an empty source.

        Raises:
            TypeError: If `num` is not an integer; see also `translate`.
            ValueError: If `num` is not above zero, or more than the search keeps.
        """
        if num is not None and not isinstance(num, Integral):
            raise TypeError(f"`num` must be an integer or None. Received: num={num!r}.")
        if num is not None and not 1 <= num <= self.num_outputs:
            raise ValueError(
                f"`num` must be between 1 and the {self.num_outputs} hypotheses that the search keeps. "
                f"Received: num={num}."
            )
        results = self._in_batches("n_best", self.source.check("texts", texts), batch_size, progress)
        return [hypotheses[:num] for hypotheses in results]

    def score(
        self,
        sources: Iterable[Value],
        targets: Iterable[str],
        batch_size: int = 64,
        progress: Progress | None = None,
    ) -> list[PairScore]:
        """Score given targets, to rank or to filter pairs.

        Args:
            sources: As for `translate`.
            targets: One string for each source. Each is scored with the end token behind it, which replaces
                the last token where the target is as long as the longest output: an output that the search
                cut off at the limit has another score here.
            batch_size: Number of pairs that are scored together.
            progress: As for `translate`.

        Returns:
            A score for each pair, in the same order, as the search would give it without penalties for
            coverage and repetition; 0 for two empty texts.

        Raises:
            TypeError: As for `translate`.
            ValueError: If there are not as many targets as sources.
        """
        checked, outputs = self.source.check("sources", sources), as_strings(targets=targets)
        if len(checked) != len(outputs):
            raise ValueError(
                "`targets` must hold a target for each source. Received: "
                f"{len(outputs)} targets, {len(checked)} sources."
            )
        return self._in_batches("score", checked, batch_size, progress, outputs)

    def align(
        self, texts: Iterable[Value], batch_size: int = 64, progress: Progress | None = None
    ) -> list[Alignment]:
        """Translate sources, with the attention of each output token to the source.

        The arguments are those of `translate`.

        Returns:
            For each source the output, the tokens of both, and the attention between them; see
            `decoding.align_targets`. Empty for an empty source.
        """
        return self._in_batches("align", self.source.check("texts", texts), batch_size, progress)

    def _in_batches(
        self,
        signature: Signature,
        sources: Sequence[Value],
        batch_size: int,
        progress: Progress | None,
        targets: Sequence[str] | None = None,
    ) -> list[Any]:
        """Ask for batches of similar length, the longest first: a lack of memory shows at once."""
        if signature not in self.signatures:
            raise TypeError(
                f"`{signature}` needs a model with an encoder. Received: a {type(self).__name__}."
            )
        check_number(above=0, whole=True, batch_size=batch_size)
        check_kind(Callable, None, progress=progress)
        # Characters stand for tokens, which are not known yet; texts of one length need the least padding.
        lengths = [len(source) for source in sources]
        if targets is not None:
            lengths = [max(length, len(target)) for length, target in zip(lengths, targets, strict=True)]
        order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
        functions, num_cut = self.functions, 0
        results: list[Any] = [None] * len(order)
        for start in range(0, len(order), batch_size):
            numbers = order[start : start + batch_size]
            columns = [self.source.batch([sources[number] for number in numbers])]
            if targets is not None:
                columns.append(TextSource.batch([targets[number] for number in numbers]))
            answer = functions[signature](*columns, numbers)
            outputs = {name: np.asarray(values) for name, values in answer.items()}
            num_cut += int(outputs.pop("is_cut", np.zeros(0)).sum())
            for number, result in zip(numbers, self.specification(signature).results(outputs), strict=True):
                results[number] = result
            if progress is not None:
                progress(len(numbers))
        if num_cut:
            self._warn(f"{num_cut} of {len(results)} were", 1 if targets is None else 2)
        return results

    def _warn(self, subject: str, num_limits: int) -> None:
        limits = ", ".join(f"{name}={limit}" for name, limit in [*self.limits.items()][:num_limits])
        # Those of an export are not known.
        limits = f"limits ({limits})" if limits else "limits"
        message = f"{subject} longer than the translator's {limits} and were cut off."
        warnings.warn(message, TruncationWarning, stacklevel=4)
