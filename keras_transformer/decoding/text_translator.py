"""Translation of strings, by a model in memory (`Translator`) or an exported one (`export.ServedModel`)."""

import abc
import dataclasses
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, ClassVar, TypeAlias, get_args

import numpy as np

from keras_transformer._arguments import as_audio, as_strings, check_number
from keras_transformer.decoding.log_probabilities import LOWEST_SCORE, _is_possible
from keras_transformer.types import TEXT, ServedInput, Signature, Source, Tensor


@dataclasses.dataclass(frozen=True)
class Translation:
    """The output for a text, and its score."""

    text: str
    """The output, without special tokens."""
    score: float
    """Its log-probability, divided by the search's length penalty."""


@dataclasses.dataclass(frozen=True)
class PairScore:
    """The score of a given target."""

    score: float
    """Its log-probability, divided by the search's length penalty."""
    num_tokens: int
    """Its tokens, the end token included."""


@dataclasses.dataclass(frozen=True, eq=False)
class Alignment:
    """The output for a text, and the attention of each of its tokens to the source."""

    text: str
    """The output, without special tokens."""
    score: float
    """Its log-probability, divided by the search's length penalty."""
    source_tokens: tuple[str, ...]
    """The pieces that the model read, `s`; the last is the end token."""
    output_tokens: tuple[str, ...]
    """The pieces that it generated, `t`, with the end token if the output has one."""
    attention: np.ndarray
    """float32 `(t, s)`: a row for each piece of the output, which sums to 1."""


class TruncationWarning(UserWarning):
    """A text was longer than the translator's limit, and its end was not read.

    `warnings.simplefilter("error", TruncationWarning)` makes it an error, `"ignore"` takes them in silence.
    """


Result: TypeAlias = Translation | list[Translation] | Alignment | PairScore
Outputs = Mapping[str, np.ndarray]
Progress = Callable[[int], None]


class TextTranslator(abc.ABC):
    """Base of `Translator`, `TextGenerator` and `export.ServedModel`: it takes any number of strings.

    Every call takes any iterable of strings, decodes texts of similar length together, and returns the
    outputs in the order of the texts. A subclass computes the arrays of one batch.
    """

    signatures: ClassVar[tuple[Signature, ...]] = get_args(Signature)
    """What texts can be asked for."""

    @property
    def reads(self) -> ServedInput:
        """What a source is: a text, or audio."""
        return TEXT

    def sources(self, **given: Iterable[Source]) -> list[Source]:
        """Return sources as a list; raise for what is none."""
        return as_strings(**given) if self.reads == TEXT else as_audio(**given)

    def translate(
        self, texts: Iterable[Source], batch_size: int = 64, progress: Progress | None = None
    ) -> list[str]:
        """Translate any number of strings.

        Args:
            texts: sources, of any lengths; of a model of speech arrays of samples at 16 kHz, floats `(n,)`.
            batch_size: the number that are decoded together.
            progress: called after each batch with the number of strings in it.

        Returns:
            The best output for each source, in the same order; the empty string for an empty source.

        Raises:
            TypeError: If `texts` is a single string, or holds something else.

        Warns:
            TruncationWarning: Once, if sources were too long; see `Translator`.
        """
        results = self._in_batches("serving_default", [self.sources(texts=texts)], batch_size, progress)
        return [result.text for result in results]

    def translate_with_scores(
        self, texts: Iterable[Source], batch_size: int = 64, progress: Progress | None = None
    ) -> list[Translation]:
        """Translate any number of strings, with the score of each output.

        The arguments are those of `translate`.

        Returns:
            The best output for each source, in the same order.
        """
        return self._in_batches("serving_default", [self.sources(texts=texts)], batch_size, progress)

    def n_best(
        self,
        texts: Iterable[Source],
        num: int | None = None,
        batch_size: int = 64,
        progress: Progress | None = None,
    ) -> list[list[Translation]]:
        """Translate strings to several outputs each.

        Args:
            texts: as for `translate`, like all that follows `num`.
            num: the most outputs for a source; None for all that the search keeps.
            batch_size: the number that are decoded together.
            progress: called after each batch.

        Returns:
            The outputs for each source, best first. There are fewer where there are fewer sequences, and one
            for an empty source.

        Raises:
            TypeError: If `num` is not an integer; see also `translate`.
            ValueError: If `num` is not above zero, or more than the search keeps.
        """
        if num is not None and not isinstance(num, Integral):
            raise TypeError(f"`num` must be an integer or None. Received: num={num!r}.")
        if num is not None and not 1 <= num <= self._num_outputs:
            raise ValueError(
                f"`num` must be between 1 and the {self._num_outputs} hypotheses that the search keeps. "
                f"Received: num={num}."
            )
        results = self._in_batches("n_best", [self.sources(texts=texts)], batch_size, progress)
        return [hypotheses[:num] for hypotheses in results]

    def score(
        self,
        sources: Iterable[Source],
        targets: Iterable[str],
        batch_size: int = 64,
        progress: Progress | None = None,
    ) -> list[PairScore]:
        """Score given targets, to rank or to filter pairs.

        Args:
            sources: of any lengths.
            targets: one for each source. Each is scored with the end token behind it, which replaces the last
                token where the target is as long as the longest output: one that the search cut off at the
                limit has another score here.
            batch_size: the number of pairs that are scored together.
            progress: as for `translate`.

        Returns:
            A score for each pair, in the same order, as the search would give it without penalties for
            coverage and repetition; 0 for two empty texts.

        Raises:
            TypeError: As for `translate`.
            ValueError: If there are not as many targets as sources.
        """
        sides = self.sources(sources=sources), as_strings(targets=targets)
        if len(sides[0]) != len(sides[1]):
            raise ValueError(
                "`targets` must hold a target for each source. Received: "
                f"{len(sides[1])} targets, {len(sides[0])} sources."
            )
        return self._in_batches("score", sides, batch_size, progress)

    def align(
        self, texts: Iterable[Source], batch_size: int = 64, progress: Progress | None = None
    ) -> list[Alignment]:
        """Translate strings, with the attention of each output token to the source.

        The arguments are those of `translate`.

        Returns:
            For each source the output, the tokens of both, and the attention between them; see
            `align_targets`. Empty for an empty source.
        """
        return self._in_batches("align", [self.sources(texts=texts)], batch_size, progress)

    def _in_batches(
        self,
        signature: Signature,
        columns: Sequence[list[Source]],
        batch_size: int,
        progress: Progress | None,
    ) -> list[Any]:
        """Read rows in batches of similar length, the longest first: a lack of memory shows at once."""
        check_number(above=0, whole=True, batch_size=batch_size)
        lengths = [max(map(len, row)) for row in zip(*columns, strict=True)]
        # Characters stand for tokens, which are not known yet; texts of one length need the least padding.
        order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
        results: list[Result | None] = [None] * len(order)
        num_cut = 0
        for start in range(0, len(order), batch_size):
            numbers = order[start : start + batch_size]
            batch = [[column[number] for number in numbers] for column in columns]
            outputs = dict(self._outputs(signature, batch, numbers))
            num_cut += int(outputs.pop("is_cut", np.zeros(0)).sum())
            for number, result in zip(numbers, self.read(signature, outputs), strict=True):
                results[number] = result
            if progress is not None:
                progress(len(numbers))
        if num_cut:
            limits = f"longer than the translator's limits ({self._limits(signature)})"
            message = f"{num_cut} of {len(results)} were {limits} and were cut off."
            warnings.warn(message, TruncationWarning, stacklevel=3)
        return results

    @staticmethod
    def read(signature: Signature, outputs: Outputs) -> list[Any]:
        """Turn arrays of a batch into translations, lists of them, alignments or scores of pairs."""
        names, make = _READERS[signature]
        return [make(*row) for row in zip(*(outputs[name] for name in names), strict=True)]

    @staticmethod
    def blanked(
        outputs: Mapping[str, Tensor], is_empty: Tensor, where: Callable[..., Tensor] = np.where
    ) -> dict[str, Tensor]:
        """Replace the outputs for empty texts: by empty strings and zeros, and no second hypothesis.

        An exported graph does so too, with the `where` of TensorFlow.
        """
        blanked = {}
        for name, values in outputs.items():
            blank = _BLANKS.get(name, np.float32(0))
            rank = len(values.shape)
            if name == "score" and rank == 2:
                blank = np.array([0.0, *[LOWEST_SCORE] * (values.shape[1] - 1)], "float32")  # (n,)
            blanked[name] = where(is_empty[(..., *[None] * (rank - 1))], blank, values)
        return blanked

    @property
    @abc.abstractmethod
    def _num_outputs(self) -> int:
        """The number of outputs of `n_best` for a source."""

    @abc.abstractmethod
    def _outputs(self, signature: Signature, columns: list[list[Source]], numbers: list[int]) -> Outputs:
        """Compute the outputs of one batch as an export names them, and `is_cut` for texts cut off."""
        # Strings are bytes. An empty text has an empty output of score 0, whatever the model makes of it.
        # `numbers` are the indices of the texts among all of a call.

    def _limits(self, signature: Signature) -> str:
        """Name the limits that texts of a signature are cut off at."""
        return ""


_TEXTS = ("output", "source_tokens", "output_tokens")
_BLANKS: dict[str, Tensor] = {"num_tokens": np.int32(0), **dict.fromkeys(_TEXTS, np.array(b"", object))}


def _translation(output: bytes, score: float) -> Translation:
    return Translation(output.decode("utf-8"), float(score))


def _hypotheses(outputs: np.ndarray, scores: np.ndarray) -> list[Translation]:
    """Leave out the hypotheses that stand for no sequence, because there are fewer than `n`."""
    return [
        _translation(output, score)
        for rank, (output, score) in enumerate(zip(outputs, scores, strict=True))
        if rank == 0 or _is_possible(score)
    ]


def _alignment(
    output: bytes, score: float, source_tokens: np.ndarray, output_tokens: np.ndarray, attention: np.ndarray
) -> Alignment:
    """Cut an alignment to its real lengths; tokens of padding are empty."""
    columns, rows = (
        tuple(token.decode("utf-8") for token in tokens if token) for tokens in (source_tokens, output_tokens)
    )
    attention = attention[: len(rows), : len(columns)]
    return Alignment(output.decode("utf-8"), float(score), columns, rows, attention)


# For each signature the outputs that are read, and what one row of them becomes.
_READERS: dict[str, tuple[tuple[str, ...], Callable[..., Result]]] = {
    "serving_default": (("output", "score"), _translation),
    "n_best": (("output", "score"), _hypotheses),
    "search": (("output", "score"), _hypotheses),
    "align": (("output", "score", "source_tokens", "output_tokens", "attention"), _alignment),
    "score": (("score", "num_tokens"), lambda score, num_tokens: PairScore(float(score), int(num_tokens))),
}
