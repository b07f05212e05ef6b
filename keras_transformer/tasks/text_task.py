"""Any number of sources in, texts out: what tasks that write texts have, in memory and on a server."""

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
    """Base of `Translator`, `TextGenerator` and `export.ServedModel`.

    A subclass sets `num_outputs` and `takes_seed`, too.
    """

    signatures: ClassVar[Mapping[Signature, ServedSignature]] = TEXT_SIGNATURES

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

    def specification(self, signature: Signature) -> ServedSignature:
        """Return the inputs of a signature, its outputs, and what reads them."""
        known = super().specification(signature)
        options = self.options if signature == "search" else {}
        return known._replace(inputs={**known.inputs, **options})

    def translate(
        self, texts: Iterable[Value], batch_size: int = 64, progress: Progress | None = None
    ) -> Any:
        """Translate one source, or any number of them.

        Args:
            texts: A string, or strings in a list, an array, a tensor of TensorFlow or a dataset. For a model
                of frames an array `(s, w)`, or several in a list or an array `(b, s, w)`; whole frames of NaN
                at their ends are padding.
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
        sources = self.source.check("texts", [texts] if is_one else texts)
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
        *,
        tokens: bool = False,
    ) -> list[list[Translation]]:
        """Translate sources to several outputs each.

        Args:
            texts: As for `translate`, like all arguments that follow `num`.
            num: Maximum number of outputs for a source. Defaults to all that the search keeps.
            batch_size: Number of sources that are decoded together.
            progress: Called after each batch.
            tokens: Whether each output has its tokens with their log-probabilities and alternatives: those
                that `score` gives the output, the end token included.

        Returns:
            The outputs for each source, best first. There are fewer where there are fewer sequences, and one
            for an empty source.

        Raises:
            TypeError: If `num` is not an integer; see also `translate`.
            ValueError: If `num` is not above zero, or more than the search keeps.
        """
        check_flags(tokens=tokens)
        if num is not None and not isinstance(num, Integral):
            raise TypeError(f"`num` must be an integer or None. Received: num={num!r}.")
        if num is not None and not 1 <= num <= self.num_outputs:
            raise ValueError(
                f"`num` must be between 1 and the {self.num_outputs} hypotheses that the search keeps. "
                f"Received: num={num}."
            )
        sources = self.source.check("texts", texts)
        found = [found[:num] for found in self._in_batches("n_best", sources, batch_size, progress)]
        if not tokens:
            return found
        repeated = [source for source, row in zip(sources, found, strict=True) for _ in row]
        outputs = [each.text for row in found for each in row]
        # What is cut off was told above.
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
            sources: As for `translate`.
            targets: One string for each source. Each is scored with the end token behind it, which replaces
                the last token where the target is as long as the longest output: an output that the search
                cut off at the limit has another score here.
            batch_size: Number of pairs that are scored together.
            progress: As for `translate`.
            tokens: Whether each result has the tokens of the target, each with its log-probability and the 5
                most likely tokens in its place.

        Returns:
            A score for each pair, in the same order, as the search would give it without penalties for
            coverage and repetition; 0 for two empty texts.

        Raises:
            TypeError: As for `translate`.
            ValueError: If there are not as many targets as sources.
        """
        check_flags(tokens=tokens)
        checked, outputs = self.source.check("sources", sources), as_strings(targets=targets)
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

        The arguments are those of `translate`.

        Returns:
            For each source the output, the tokens of both, and the attention between them; see
            `decoding.align_targets`. Empty for an empty source.
        """
        return self._in_batches("align", self.source.check("texts", texts), batch_size, progress)
