"""What a model in memory and an exported one have in common: how they are asked."""

import abc
import dataclasses
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any, NamedTuple, TypeVar

import numpy as np

from keras_transformer.decoding.log_probabilities import LOWEST_SCORE
from keras_transformer.types import SpecialIds


@dataclasses.dataclass(frozen=True)
class Translation:
    """An answer and how sure the model is of it."""

    text: str
    """The answer, without special tokens."""
    score: float
    """Its log-probability, divided by the search's length penalty."""


@dataclasses.dataclass(frozen=True)
class PairScore:
    """How likely a given target is."""

    score: float
    """Its log-probability, divided by the search's length penalty."""
    num_tokens: int
    """Its tokens, the end token included."""


@dataclasses.dataclass(frozen=True, eq=False)
class Alignment:
    """An answer, and where the model looked for each of its tokens."""

    text: str
    """The answer, without special tokens."""
    score: float
    """Its log-probability, divided by the search's length penalty."""
    source_tokens: tuple[str, ...]
    """The pieces that the model read, `s`; the last is the end token."""
    output_tokens: tuple[str, ...]
    """The pieces that it generated, `t`, with the end token if the answer has one."""
    attention: np.ndarray
    """float32 `(t, s)`: a row for each piece of the answer, which sums to 1."""


class TruncationWarning(UserWarning):
    """A text was longer than the translator's limit, and its end was not read.

    `warnings.simplefilter("error", TruncationWarning)` refuses such texts,
    `"ignore"` takes them without a word.
    """


Item = TypeVar("Item")
Answer = TypeVar("Answer")
Progress = Callable[[int], None]


class BatchAnswers(NamedTuple):
    """What becomes of one batch."""

    answers: Sequence[Any]
    """One for each item."""
    num_cut: int = 0
    """Items that were too long, and of which the end was not read."""
    limits: str = ""
    """What they were longer than, each limit by its name."""


def in_batches(
    items: Sequence[Item],
    answer: Callable[[list[Item], list[int]], BatchAnswers],
    length: Callable[[Item], int],
    batch_size: int,
    progress: Progress | None,
) -> list[Any]:
    """Answer items, those of similar length together.

    Args:
        items: in any order.
        answer: answers one batch; it gets the items and the place of each among all.
        length: says how long an item is.
        batch_size: the most items of a batch.
        progress: called after each batch with the number of items in it.

    Returns:
        An answer for each item, in the same order.

    Raises:
        ValueError: a batch size not above zero.

    Warns:
        TruncationWarning: once, with the number of items that were cut and the limits.
    """
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be above zero. Received: batch_size={batch_size}.")
    answers: list[Any] = [None] * len(items)
    num_cut, limits = 0, ""
    for rows in _batches([length(item) for item in items], batch_size):
        batch = answer([items[row] for row in rows], rows)
        num_cut, limits = num_cut + batch.num_cut, batch.limits
        for row, one in zip(rows, batch.answers, strict=True):
            answers[row] = one
        if progress is not None:
            progress(len(rows))
    if num_cut:
        message = f"{num_cut} of {len(items)} were longer than the translator's limits"
        message += f" ({limits}) and were cut off." if limits else " and were cut off."
        warnings.warn(message, TruncationWarning, stacklevel=3)
    return answers


def check_texts(texts: Iterable[str], name: str = "texts") -> list[str]:
    """Take texts from any iterable, and refuse what is none.

    Args:
        texts: strings.
        name: of the argument, for the message.

    Returns:
        The strings as a list.

    Raises:
        TypeError: a single string instead of several, or something that holds or is no strings.
    """
    try:
        rows = None if isinstance(texts, str | bytes) else iter(texts)
    except TypeError:
        rows = None
    if rows is None:
        raise TypeError(f"`{name}` must be several strings, such as a list. Received: {name}={texts!r}.")
    texts = list(rows)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"`{name}` must hold strings. Received: {name}[{row}]={text!r}.")
    return texts


def _batches(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Give the rows of each batch, the longest first, so that a lack of memory shows at once."""
    rows = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    for start in range(0, len(rows), batch_size):
        yield rows[start : start + batch_size]


def token_ids_of(texts: Sequence[str], tokenizer: Any, max_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokenize texts, end each row and pad it.

    Args:
        texts: of any lengths.
        tokenizer: of their language.
        max_length: most tokens of a row, the end token included; what follows is cut off.

    Returns:
        int32 `(b, s)`, and bool `(b,)`, which rows were cut.
    """
    token_ids = tokenizer.padded_ids(texts, max_length + 1).numpy()
    if token_ids.shape[1] <= max_length:
        return token_ids, np.zeros(len(token_ids), "bool")
    is_cut = token_ids[:, max_length] != SpecialIds().pad
    token_ids[is_cut, max_length - 1] = SpecialIds().end
    return token_ids[:, :max_length], is_cut


def utf8(texts: Sequence[str]) -> list[bytes]:
    """Encode texts for a tokenizer.

    Args:
        texts: strings.

    Returns:
        Bytes. A lone surrogate is no UTF-8, which a tokenizer takes for an unknown token.
    """
    return [text.encode("utf-8", "surrogatepass") for text in texts]


def started(token_ids: np.ndarray) -> np.ndarray:
    """Put the start token before targets.

    Args:
        token_ids: int32 `(b, t)`.

    Returns:
        int32 `(b, t + 1)`.
    """
    return np.pad(token_ids, [(0, 0), (1, 0)], constant_values=SpecialIds().start)


def make_hypotheses(source: str, texts: np.ndarray, scores: np.ndarray) -> list[Translation]:
    """Name the hypotheses of one source.

    Args:
        source: its text.
        texts: the answers as bytes, `(n,)`, best first.
        scores: float32 `(n,)`.

    Returns:
        The answers; those are left out that stand for no sequence, because there are fewer than `n`.
    """
    if not source:
        return [Translation("", 0.0)]
    is_sequence = [rank == 0 or score > LOWEST_SCORE / 2 for rank, score in enumerate(scores)]
    return [
        Translation(text.decode("utf-8"), float(score))
        for text, score, is_one in zip(texts, scores, is_sequence, strict=True)
        if is_one
    ]


def make_alignment(
    source: str,
    output: bytes,
    score: float,
    source_tokens: np.ndarray,
    output_tokens: np.ndarray,
    attention: np.ndarray,
) -> Alignment:
    """Cut the alignment of one source to its real lengths.

    Args:
        source: its text.
        output: the answer.
        score: of the answer.
        source_tokens: bytes `(s,)`, empty where there is padding.
        output_tokens: bytes `(t,)`, likewise.
        attention: float32 `(t, s)`.

    Returns:
        The alignment, with nothing in it if the source is empty.
    """
    if not source:
        return Alignment("", 0.0, (), (), np.zeros((0, 0), "float32"))
    columns, rows = _decoded(source_tokens), _decoded(output_tokens)
    return Alignment(
        output.decode("utf-8"), float(score), columns, rows, attention[: len(rows), : len(columns)]
    )


def _decoded(tokens: np.ndarray) -> tuple[str, ...]:
    return tuple(token.decode("utf-8") for token in tokens if token)


Pair = tuple[str, str]


class TextTranslator(abc.ABC):
    """Answers any number of strings, by four methods that answer one batch, and know its places among all.

    Every call takes any iterable of strings, decodes texts of similar length together, and gives the
    answers in the order of the texts.
    """

    def translate(
        self, texts: Iterable[str], batch_size: int = 64, progress: Progress | None = None
    ) -> list[str]:
        """Translate any number of strings.

        Args:
            texts: sources, of any lengths.
            batch_size: how many are decoded together.
            progress: called after each batch with the number of strings in it.

        Returns:
            An answer for each source, in the same order.

        Raises:
            TypeError: a single string instead of several, or something that is no string.

        Warns:
            TruncationWarning: once, if sources were too long; see `Translator`.
        """
        answers = in_batches(check_texts(texts), self._translate_batch, len, batch_size, progress)
        return [answer.text for answer in answers]

    def translate_with_scores(
        self, texts: Iterable[str], batch_size: int = 64, progress: Progress | None = None
    ) -> list[Translation]:
        """Translate any number of strings, with the score of each answer.

        Args:
            texts: see `translate`, as for the other arguments.
            batch_size: how many are decoded together.
            progress: called after each batch.

        Returns:
            An answer for each source, in the same order.
        """
        return in_batches(check_texts(texts), self._translate_batch, len, batch_size, progress)

    def n_best(
        self,
        texts: Iterable[str],
        num: int | None = None,
        batch_size: int = 64,
        progress: Progress | None = None,
    ) -> list[list[Translation]]:
        """Give several answers to each string.

        Args:
            texts: see `translate`, as for the other arguments.
            num: the most answers to a source; None for all that the search keeps.
            batch_size: how many are decoded together.
            progress: called after each batch.

        Returns:
            For each source its answers, best first. There are fewer where there are fewer sequences, and
            one to an empty source.

        Raises:
            TypeError: `num` is no integer; see also `translate`.
            ValueError: `num` is not above zero, or more than the search keeps.
        """
        if num is not None and not isinstance(num, Integral):
            raise TypeError(f"`num` must be an integer or None. Received: num={num!r}.")
        if num is not None and not 1 <= num <= self._num_hypotheses:
            raise ValueError(
                f"`num` must be between 1 and the {self._num_hypotheses} hypotheses that the search keeps. "
                f"Received: num={num}."
            )
        answers = in_batches(check_texts(texts), self._n_best_batch, len, batch_size, progress)
        return [hypotheses[:num] for hypotheses in answers]

    def score(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        batch_size: int = 64,
        progress: Progress | None = None,
    ) -> list[PairScore]:
        """Say how likely given targets are, to rank or to filter pairs.

        Args:
            sources: of any lengths.
            targets: one for each source. Each is scored with the end token behind it, which takes the
                place of the last token where the target is as long as the longest answer: one that
                the search cut off at the limit has another score here.
            batch_size: how many pairs are scored together.
            progress: called after each batch with the number of pairs in it.

        Returns:
            A score for each pair, in the same order, as the search would give it without penalties for
            coverage and repetition; 0 for two empty texts.

        Raises:
            TypeError: see `translate`.
            ValueError: not as many targets as sources.
        """
        sources, targets = check_texts(sources, "sources"), check_texts(targets, "targets")
        if len(sources) != len(targets):
            raise ValueError(
                "`targets` must hold a target for each source. Received: "
                f"{len(targets)} targets, {len(sources)} sources."
            )
        pairs = list(zip(sources, targets, strict=True))
        return in_batches(pairs, self._score_batch, _pair_length, batch_size, progress)

    def align(
        self, texts: Iterable[str], batch_size: int = 64, progress: Progress | None = None
    ) -> list[Alignment]:
        """Translate strings, and show where the model looked for each token of the answer.

        Args:
            texts: see `translate`, as for the other arguments.
            batch_size: how many are decoded together.
            progress: called after each batch.

        Returns:
            For each source the answer, the tokens of both, and the attention between them; see
            `align_targets`. Nothing of an empty source.
        """
        return in_batches(check_texts(texts), self._align_batch, len, batch_size, progress)

    @property
    @abc.abstractmethod
    def _num_hypotheses(self) -> int:
        """How many answers there are to a source."""

    @abc.abstractmethod
    def _translate_batch(self, texts: list[str], places: list[int]) -> BatchAnswers:
        """Give a `Translation` for each text."""

    @abc.abstractmethod
    def _n_best_batch(self, texts: list[str], places: list[int]) -> BatchAnswers:
        """Give a list of `Translation` for each text."""

    @abc.abstractmethod
    def _score_batch(self, pairs: list[Pair], places: list[int]) -> BatchAnswers:
        """Give a `PairScore` for each pair."""

    @abc.abstractmethod
    def _align_batch(self, texts: list[str], places: list[int]) -> BatchAnswers:
        """Give an `Alignment` for each text."""


def _pair_length(pair: Pair) -> int:
    return max(len(pair[0]), len(pair[1]))
