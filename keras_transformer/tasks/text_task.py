"""Base class of tasks whose outputs are texts, in memory and on a server."""

import dataclasses
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, ClassVar

from keras_transformer._arguments import as_strings, check_flags
from keras_transformer.tasks.results import (
    OPTIONS,
    SEED,
    TEXT_SIGNATURES,
    Alignment,
    PairScore,
    ServedSignature,
    Translation,
)
from keras_transformer.tasks.task import Task
from keras_transformer.types import Columns, Progress, Signature, Value


class TextTask(Task):
    """Base class of `Translator`, `TextGenerator` and `export.ServedModel`.

    A subclass also sets `num_outputs` and `takes_seed`.
    """

    signatures: ClassVar[Mapping[Signature, ServedSignature]] = TEXT_SIGNATURES

    @property
    def num_outputs(self) -> int:
        """Number of outputs that `n_best` returns for each source."""
        raise NotImplementedError

    @property
    def takes_seed(self) -> bool:
        """Whether requests to `search` have a seed, because the search samples."""
        raise NotImplementedError

    @property
    def options(self) -> Columns:
        """Options of a request to `search`."""
        return {**OPTIONS, **(SEED if self.takes_seed else {})}

    def specification(self, signature: Signature) -> ServedSignature:
        """Return the inputs and outputs of a signature; `search` has the options as inputs, too."""
        known = super().specification(signature)
        options = self.options if signature == "search" else {}
        return known._replace(inputs={**known.inputs, **options})

    def translate(
        self, texts: Iterable[Value], batch_size: int = 64, progress: Progress | None = None
    ) -> Any:
        """Translate one source or several.

        Args:
            texts: A string, or strings in a list, an array, a TensorFlow tensor or a dataset. For frames, an
                array `(s, w)`, or several in a list or an array `(b, s, w)`; frames of NaN at
                the start or end are padding.
            batch_size: Number of sources to decode together. Defaults to 64.
            progress: Called after each batch with the number of its sources.

        Returns:
            The best output for each source, in the same order, or one string for a single source. Empty for
            an empty source and for white space.

        Raises:
            TypeError: If `texts` contains something else.

        Warns:
            TruncationWarning: Once, if sources were too long; see `Translator`.
        """
        found = self._answer(texts, batch_size, progress)
        return found.text if self.reader.is_one(texts) else [result.text for result in found]

    def translate_with_scores(
        self, texts: Iterable[Value], batch_size: int = 64, progress: Progress | None = None
    ) -> list[Translation]:
        """Translate sources, with the score of each output.

        The arguments are those of `translate`, except that `texts` must not be a single string.

        Returns:
            The best output for each source, in the same order.
        """
        return self._in_batches("serving_default", self.reader.check("texts", texts), batch_size, progress)

    def n_best(
        self,
        texts: Iterable[Value],
        num: int | None = None,
        batch_size: int = 64,
        progress: Progress | None = None,
        *,
        tokens: bool = False,
    ) -> list[list[Translation]]:
        """Return several outputs for each source.

        Args:
            texts: As for `translate`, but not a single string.
            num: Maximum number of outputs for each source. Defaults to the number that the search returns,
                such as `beam_size`.
            batch_size: As for `translate`.
            progress: As for `translate`.
            tokens: Whether to include the tokens of each output with log-probabilities and alternatives, as
                `score` returns them for the text. A sample may have been generated in other subwords, and
                a text that was cut off has no end token. Defaults to False.

        Returns:
            The outputs for each source, best first. There may be fewer than `num`; an empty source has one.

        Raises:
            TypeError: If `num` is not an integer, or `texts` is not as for `translate`.
            ValueError: If `num` is not positive, or exceeds the number of outputs of the search.
        """
        check_flags(tokens=tokens)
        if num is not None and not isinstance(num, Integral):
            raise TypeError(f"`num` must be an integer or None. Received: num={num!r}.")
        if num is not None and not 1 <= num <= self.num_outputs:
            raise ValueError(
                f"`num` must be between 1 and the {self.num_outputs} hypotheses that the search keeps. "
                f"Received: num={num}."
            )
        sources = self.reader.check("texts", texts)
        found = [found[:num] for found in self._in_batches("n_best", sources, batch_size, progress)]
        if not tokens:
            return found
        repeated = [source for source, row in zip(sources, found, strict=True) for _ in row]
        outputs = [each.text for row in found for each in row]
        # The first call has already warned about truncation.
        scores = self._in_batches("score", repeated, batch_size, None, outputs, details=True, warns=False)
        of_each = iter(scores)
        return [[dataclasses.replace(each, tokens=next(of_each).tokens) for each in row] for row in found]

    def score(
        self,
        sources: Iterable[Value],
        targets: Iterable[str],
        batch_size: int = 64,
        progress: Progress | None = None,
        *,
        tokens: bool = False,
    ) -> list[PairScore]:
        """Score given targets, to rank or to filter pairs.

        Args:
            sources: As for `translate`, but not a single string.
            targets: One string for each source. Each is truncated to the maximum output length and gets an
                end token. An output that the search cut off has no end token, so its score here differs.
            batch_size: Number of pairs to score together. Defaults to 64.
            progress: As for `translate`.
            tokens: Whether to include the target's tokens, each with its log-probability and the 5 most
                likely tokens at its position. Defaults to False.

        Returns:
            The score of each pair, in the same order: the log-probability of the target, divided by the
            length penalty of the search, without repetition penalties. 0 for two empty texts.

        Raises:
            TypeError: If sources or targets have the wrong type.
            ValueError: If sources and targets differ in number.
        """
        check_flags(tokens=tokens)
        checked, outputs = self.reader.check("sources", sources), as_strings(targets=targets)
        if len(checked) != len(outputs):
            raise ValueError(
                "`targets` must hold a target for each source. Received: "
                f"{len(outputs)} targets, {len(checked)} sources."
            )
        return self._in_batches("score", checked, batch_size, progress, outputs, details=tokens)

    def align(
        self, texts: Iterable[Value], batch_size: int = 64, progress: Progress | None = None
    ) -> list[Alignment]:
        """Translate sources, with the attention of each output token to the source.

        The arguments are those of `translate`, except that `texts` must not be a single string.

        Returns:
            For each source the output, the tokens of source and output, and the attention of the last
            decoder layer. Empty for an empty source.
        """
        return self._in_batches("align", self.reader.check("texts", texts), batch_size, progress)
