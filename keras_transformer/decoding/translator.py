"""Strings in, strings out: a model, its tokenizers and a search."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from keras_transformer.backend import compile_function
from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.generation import TokenStreamer, generate
from keras_transformer.decoding.sampling import RowSearch
from keras_transformer.decoding.scoring import align_targets, normalized, score_targets
from keras_transformer.decoding.search import Search, SearchResult
from keras_transformer.decoding.text_translator import (
    BatchAnswers,
    Pair,
    PairScore,
    TextTranslator,
    TruncationWarning,
    make_alignment,
    make_hypotheses,
    started,
    token_ids_of,
)
from keras_transformer.decoding.translator_files import load_translator, save_translator
from keras_transformer.types import Tensor

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


class Translator(TextTranslator):
    """Translates strings with a trained model.

    An empty source has an empty answer. What is longer than the limits is cut
    off: the source after `max_source_length` tokens, the answer after
    `max_target_length`. A call that cut a source, or a target to be scored, says so
    by one `TruncationWarning`. `search` and the limits may be changed at any time.
    Where positions are learned, limits above their number are taken down to it.

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
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.search = search or BeamSearch(4)
        self.max_source_length = max_source_length
        self.max_target_length = max_target_length
        self._compiled: dict[str, tuple[str, Callable[..., Any]]] = {}

    @property
    def max_source_length(self) -> int:
        """Most tokens of a source, the end token included."""
        return self._max_source_length

    @max_source_length.setter
    def max_source_length(self, length: int) -> None:
        """Check the limit; see `Translator`."""
        self._max_source_length = self._limit("max_source_length", length)

    @property
    def max_target_length(self) -> int:
        """Most tokens of an answer, the end token included."""
        return self._max_target_length

    @max_target_length.setter
    def max_target_length(self, length: int) -> None:
        """Check the limit; see `Translator`."""
        self._max_target_length = self._limit("max_target_length", length)

    def generate(
        self, encoder_token_ids: Tensor, source_numbers: Sequence[int] | None = None
    ) -> SearchResult:
        """Find answers of a batch as token ids.

        Args:
            encoder_token_ids: integers `(b, s)`, each row ended and padded.
            source_numbers: of each row, see `decoding.generate`.

        Returns:
            Hypotheses `(b, n, T)` and scores `(b, n)`, best first.
        """
        numbers = range(len(encoder_token_ids)) if source_numbers is None else source_numbers
        return self._run("generate", self._generate, encoder_token_ids, np.reshape(numbers, (-1, 1)))

    def save(self, directory: str | Path) -> None:
        """Write the model, the tokenizers and the search, to be read by `load`.

        Args:
            directory: made if absent. If something fails, it is what it was; files of others stay.

        Raises:
            OSError: a file cannot be written.
            ValueError: the search is of a class that cannot be read back.
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

    def export(self, directory: str | Path, examples: Sequence[str] = (), optimize: str = "float32") -> Path:
        """Write the next version of a SavedModel; see `export.export_saved_model`.

        Args:
            directory: of the model; its last part is the model's name on the server.
            examples: real sources, for the check and for the warm-up requests.
            optimize: `float32`, `bfloat16` or `xla`.

        Returns:
            The directory of the version.

        Raises:
            InputError: the directory cannot be written, or Keras runs on another backend.
            ExportError: the SavedModel does not answer as this translator does.
        """
        # Imported here: exporting needs TensorFlow, and comes after decoding.
        from keras_transformer.export.saved_model import export_saved_model

        return export_saved_model(self, directory, examples, optimize)

    @property
    def _num_hypotheses(self) -> int:
        return self.search.num_hypotheses

    def _translate_batch(self, texts: list[str], places: list[int]) -> BatchAnswers:
        batch = self._n_best_batch(texts, places)
        return batch._replace(answers=[hypotheses[0] for hypotheses in batch.answers])

    def _n_best_batch(self, texts: list[str], places: list[int]) -> BatchAnswers:
        source_ids, is_cut = token_ids_of(texts, self.source_tokenizer, self.max_source_length)
        result = self.generate(source_ids, places)
        token_ids, scores = ops.convert_to_numpy(result.token_ids), ops.convert_to_numpy(result.scores)
        outputs = self.target_tokenizer.detokenize(token_ids.reshape(-1, token_ids.shape[-1])).numpy()
        rows = zip(texts, outputs.reshape(scores.shape), scores, strict=True)
        answers = [make_hypotheses(*row) for row in rows]
        return BatchAnswers(answers, int(is_cut.sum()), self._named_limits("source"))

    def _score_batch(self, pairs: list[Pair], places: list[int]) -> BatchAnswers:
        sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
        source_ids, is_cut_source = token_ids_of(sources, self.source_tokenizer, self.max_source_length)
        target_ids, is_cut_target = token_ids_of(targets, self.target_tokenizer, self.max_target_length)
        result = self._run("score", self._score, source_ids, started(target_ids))
        numbers = zip(pairs, *(ops.convert_to_numpy(values) for values in result), strict=True)
        answers = [
            PairScore(float(score), int(num_tokens)) if any(pair) else PairScore(0.0, 0)
            for pair, score, num_tokens in numbers
        ]
        num_cut = int((is_cut_source | is_cut_target).sum())
        return BatchAnswers(answers, num_cut, self._named_limits("source", "target"))

    def _align_batch(self, texts: list[str], places: list[int]) -> BatchAnswers:
        source_ids, is_cut = token_ids_of(texts, self.source_tokenizer, self.max_source_length)
        result = self.generate(source_ids, places)
        best_ids = ops.convert_to_numpy(result.token_ids)[:, 0]  # (b, T)
        attention = self._run("align", self._align, source_ids, started(best_ids))  # (b, T, s)
        columns = (
            self.target_tokenizer.detokenize(best_ids).numpy(),
            ops.convert_to_numpy(result.scores)[:, 0],
            self.source_tokenizer.tokens(source_ids).numpy(),
            self.target_tokenizer.tokens(best_ids).numpy(),
            ops.convert_to_numpy(attention),
        )
        answers = [make_alignment(*row) for row in zip(texts, *columns, strict=True)]
        return BatchAnswers(answers, int(is_cut.sum()), self._named_limits("source"))

    def _named_limits(self, *sides: str) -> str:
        """Name the limits for a warning."""
        return ", ".join(f"max_{side}_length={getattr(self, f'max_{side}_length')}" for side in sides)

    def _limit(self, name: str, length: int) -> int:
        """Check a limit; beyond the learned positions there are none, and no answer."""
        if length < 2:
            raise ValueError(
                f"`{name}` must be at least 2, a token and the end token. Received: {name}={length}."
            )
        return min(length, getattr(self.model, "max_length", None) or length)

    def _generate(self, encoder_token_ids: Tensor, numbers: Tensor) -> SearchResult:
        return generate(
            self.model, encoder_token_ids, self.search, self.max_target_length, source_numbers=numbers[:, 0]
        )

    def _score(self, encoder_token_ids: Tensor, decoder_token_ids: Tensor) -> tuple[Tensor, Tensor]:
        scores = score_targets(self.model, encoder_token_ids, decoder_token_ids)
        return normalized(scores, self.search), scores.num_tokens

    def _align(self, encoder_token_ids: Tensor, decoder_token_ids: Tensor) -> Tensor:
        return align_targets(self.model, encoder_token_ids, decoder_token_ids)

    def _run(self, name: str, function: Callable[..., Any], *token_ids: Any) -> Any:
        """Call a compiled function, compiled anew if the search or a limit was changed."""
        options = f"{self.max_target_length} {self.search!r} {getattr(self.search, '__dict__', None)}"
        if self._compiled.get(name, ("", None))[0] != options:
            compiled = compile_function(function, self.model.variables, num_inputs=len(token_ids))
            self._compiled[name] = options, compiled
        return self._compiled[name][1](*(ops.convert_to_tensor(ids, "int32") for ids in token_ids))


def _check_vocabulary(side: str, tokenizer: Any, embedding: Any) -> None:
    if tokenizer.vocabulary_size != embedding.vocabulary_size:
        raise ValueError(
            f"`{side}_tokenizer` must have the vocabulary of the model. Received: "
            f"{side}_tokenizer.vocabulary_size={tokenizer.vocabulary_size}, "
            f"model {side} vocabulary size={embedding.vocabulary_size}."
        )
