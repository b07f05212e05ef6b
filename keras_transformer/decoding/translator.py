"""Strings in, strings out: a model, its tokenizers and a search."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.compilation import compile_function
from keras_transformer.decoding.contract import Search, SearchResult
from keras_transformer.decoding.generation import generate
from keras_transformer.decoding.translator_files import load_translator, save_translator
from keras_transformer.types import Tensor


@dataclasses.dataclass(frozen=True)
class Translation:
    """An answer and how sure the model is of it."""

    text: str
    """The answer, without special tokens."""
    score: float
    """Its log-probability, divided by the search's length penalty."""


class Translator:
    """Translates strings with a trained model.

    An empty source has an empty answer. What is longer than the limits is cut
    off: the source after `max_source_length` tokens, the answer after
    `max_target_length`.

    Args:
        model: a `Transformer` with weights.
        source_tokenizer: of the source language.
        target_tokenizer: of the target language.
        search: `BeamSearch(4)` if None.
        max_source_length: most tokens of a source, the end token included.
        max_target_length: most tokens of an answer, the end token included.

    Raises:
        ValueError: a tokenizer whose vocabulary does not have the model's size,
            or a limit below 2.
    """

    def __init__(
        self,
        model: Any,
        source_tokenizer: Any,
        target_tokenizer: Any,
        *,
        search: Search | None = None,
        max_source_length: int = 256,
        max_target_length: int = 256,
    ) -> None:
        if not (hasattr(model, "source_embedding") and hasattr(model, "target_embedding")):
            raise ValueError(
                "`model` must read and write token ids; `decoding.generate` decodes other sources, and "
                f"`decoding.complete` a decoder alone. Received: {type(model).__name__} {model.name!r}."
            )
        _check_vocabulary("source", source_tokenizer, model.source_embedding)
        _check_vocabulary("target", target_tokenizer, model.target_embedding)
        if min(max_source_length, max_target_length) < 2:
            raise ValueError(
                "Limits must be at least 2, a token and the end token. Received: "
                f"max_source_length={max_source_length}, max_target_length={max_target_length}."
            )
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.search = search or BeamSearch(4)
        self.max_source_length = max_source_length
        self.max_target_length = max_target_length
        self._compiled_generate = compile_function(self._generate, model.variables)

    def generate(self, encoder_token_ids: Tensor) -> SearchResult:
        """Find answers of a batch as token ids.

        Args:
            encoder_token_ids: integers `(b, s)`, each row ended and padded.

        Returns:
            Hypotheses `(b, n, T)` and scores `(b, n)`, best first.
        """
        return self._compiled_generate(encoder_token_ids)

    def translate(
        self,
        texts: Iterable[str],
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
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
        """
        return [answer.text for answer in self.translate_with_scores(texts, batch_size, progress)]

    def translate_with_scores(
        self,
        texts: Iterable[str],
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[Translation]:
        """Translate any number of strings, with the score of each answer.

        Args:
            texts: sources, of any lengths.
            batch_size: how many are decoded together.
            progress: called after each batch with the number of strings in it.

        Returns:
            An answer for each source, in the same order.

        Raises:
            TypeError: a single string instead of several, or something that is no string.
        """
        texts = _check_texts(texts)
        answers = [Translation("", 0.0)] * len(texts)
        for rows in _batches_by_length(texts, batch_size):
            batch = self._translate_batch([texts[row] for row in rows])
            for row, answer in zip(rows, batch, strict=True):
                answers[row] = answer
            if progress is not None:
                progress(len(rows))
        return answers

    def save(self, directory: str | Path) -> None:
        """Write the model, the tokenizers and the search, to be read by `load`.

        Args:
            directory: made if absent. Each file is written beside and renamed.

        Raises:
            OSError: a file cannot be written.
        """
        save_translator(self, Path(directory))

    @classmethod
    def load(cls, directory: str | Path) -> "Translator":
        """Read what `save` wrote.

        Args:
            directory: where it was written.

        Returns:
            The translator.

        Raises:
            InputError: the directory is not that of a translator, or a part of it is damaged.
        """
        return load_translator(cls, Path(directory))

    def export(self, directory: str | Path, examples: Sequence[str] = ()) -> Path:
        """Write the next version of a SavedModel; see `export.export_saved_model`.

        Args:
            directory: of the model; its last part is the model's name on the server.
            examples: real sources, for the check and for the warm-up requests.

        Returns:
            The directory of the version.

        Raises:
            InputError: the directory cannot be written, or Keras runs on another backend.
        """
        # Imported here: exporting needs TensorFlow, and comes after decoding.
        from keras_transformer.export.saved_model import export_saved_model

        return export_saved_model(self, directory, examples)

    def _generate(self, encoder_token_ids: Tensor) -> SearchResult:
        return generate(self.model, encoder_token_ids, self.search, self.max_target_length)

    def _translate_batch(self, texts: list[str]) -> list[Translation]:
        # Imported here: tokenizers need TensorFlow, the rest of decoding does not.
        from keras_transformer.text.source_ids import source_token_ids

        # A lone surrogate is no UTF-8, which the tokenizer takes for an unknown token.
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        token_ids = source_token_ids(encoded, self.source_tokenizer, self.max_source_length).numpy()
        result = self.generate(ops.convert_to_tensor(token_ids))
        best_ids = keras.ops.convert_to_numpy(result.token_ids)[:, 0]  # (b, T)
        scores = keras.ops.convert_to_numpy(result.scores)[:, 0]  # (b,)
        answers = self.target_tokenizer.detokenize(best_ids).numpy()
        return [
            Translation(text.decode("utf-8"), float(score)) if source else Translation("", 0.0)
            for source, text, score in zip(texts, answers, scores, strict=True)
        ]


def _check_vocabulary(side: str, tokenizer: Any, embedding: Any) -> None:
    if tokenizer.vocabulary_size != embedding.vocabulary_size:
        raise ValueError(
            f"`{side}_tokenizer` must have the vocabulary of the model. Received: "
            f"{side}_tokenizer.vocabulary_size={tokenizer.vocabulary_size}, "
            f"model {side} vocabulary size={embedding.vocabulary_size}."
        )


def _check_texts(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise TypeError(f"`texts` must be several strings, such as a list. Received: texts={texts!r}.")
    texts = list(texts)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"`texts` must hold strings. Received: texts[{row}]={text!r}.")
    return texts


def _batches_by_length(texts: Sequence[str], batch_size: int) -> Iterator[list[int]]:
    """Give the rows of each batch, the longest texts first, so that a lack of memory shows at once."""
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be above zero. Received: batch_size={batch_size}.")
    rows = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    for start in range(0, len(rows), batch_size):
        yield rows[start : start + batch_size]
