"""Translations as they come about, in pieces of text."""

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from keras_transformer.decoding.answers import token_ids_of
from keras_transformer.decoding.row_search import RowSearch
from keras_transformer.decoding.streaming import TokenStreamer
from keras_transformer.decoding.translation import TruncationWarning

# What stands for bytes that are no character, or not yet.
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class TextStreamer:
    """Translates one text at a time, and gives each part of the answer as soon as it is certain.

    Args:
        translator: a `Translator`, for its model, tokenizers and limits.
        search: `GreedySearch()` if None, whatever search the translator has: a beam does not know its
            answer before the end. `SampleSearch` of one sample will do.

    Raises:
        ValueError: a search of several hypotheses.
    """

    def __init__(self, translator: Any, search: RowSearch | None = None) -> None:
        self.translator = translator
        self.search = search
        self._stream = self._new_stream()

    def __call__(self, text: str) -> Iterator[str]:
        """Give the pieces of an answer, which together are the answer.

        Args:
            text: the source. As for the translator, an empty one has an empty answer, and what is too
                long is cut off.

        Returns:
            An iterator over pieces that are not empty. A character of several tokens comes when it is
            complete.

        Raises:
            TypeError: what is no string.

        Warns:
            TruncationWarning: the text is too long.
        """
        if not isinstance(text, str):
            raise TypeError(f"`text` must be a string. Received: text={text!r}.")
        if not text:
            return iter(())
        if self.translator.max_target_length != self._stream.max_length:
            self._stream = self._new_stream()
        return join_pieces(self._stream(self._encode(text)), self.translator.target_tokenizer)

    def _new_stream(self) -> TokenStreamer:
        return TokenStreamer(self.translator.model, self.search, self.translator.max_target_length)

    def _encode(self, text: str) -> np.ndarray[Any, Any]:
        limit = self.translator.max_source_length
        token_ids, is_cut = token_ids_of([text], self.translator.source_tokenizer, limit)
        if is_cut.any():
            message = f"The text was longer than the translator's {limit} tokens and was cut off."
            warnings.warn(message, TruncationWarning, stacklevel=3)
        return token_ids


def stream_text(translator: Any, text: str, search: RowSearch | None = None) -> Iterator[str]:
    """Yield the pieces of one translation as they are generated.

    For more than one text a `TextStreamer` is faster, since it compiles its step only once.

    Args:
        translator: a `Translator`.
        text: the source.
        search: as for `TextStreamer`.

    Returns:
        An iterator over pieces; together they are the answer.

    Raises:
        ValueError: a search of several hypotheses.
        TypeError: what is no string.
    """
    return TextStreamer(translator, search)(text)


def join_pieces(steps: Iterable[np.ndarray[Any, Any]], tokenizer: Any) -> Iterator[str]:
    """Yield what each token adds to the text, once no later token can change it.

    The tokens so far are joined anew at each step, since what a token adds depends on its neighbors.

    Args:
        steps: integers `(1,)`, one token after the other.
        tokenizer: of the answer.

    Yields:
        Pieces that are not empty.
    """
    token_ids: list[int] = []
    given = text = ""
    for step in steps:
        token_ids.append(int(step[0]))
        text = tokenizer.detokenize([token_ids]).numpy()[0].decode("utf-8")
        # The bytes of a character may come one by one: until the last, they are no character.
        certain = text.rstrip(REPLACEMENT)
        if certain.startswith(given) and certain != given:
            yield certain[len(given) :]
            given = certain
    if text != given:
        yield text[len(given) :]
