"""What a model in memory and an exported one have in common: how they are asked."""

import abc
from collections.abc import Iterable
from numbers import Integral

from keras_transformer.decoding.text_batches import BatchAnswers, Progress, check_texts, in_batches
from keras_transformer.decoding.translation import Alignment, PairScore, Translation

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
