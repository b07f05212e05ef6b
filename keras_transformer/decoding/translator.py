"""Strings in, strings out: a model, its tokenizers and a search."""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops
from typing_extensions import Self

from keras_transformer.arguments import check_number
from keras_transformer.backend.compiler import compile_function
from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.generation import _token_stream, generate
from keras_transformer.decoding.sampling import GreedySearch
from keras_transformer.decoding.scoring import _layer_name, _teacher_forcing, align_targets, score_targets
from keras_transformer.decoding.search import Search, SearchResult
from keras_transformer.decoding.text_translator import (
    Alignment,
    Outputs,
    Signature,
    TextTranslator,
    TruncationWarning,
)
from keras_transformer.decoding.translator_directory import _ARGUMENTS, _read_translator, _write_translator
from keras_transformer.errors import InputError
from keras_transformer.files import _as_path
from keras_transformer.models.ensemble import Ensemble
from keras_transformer.models.transformer import Transformer
from keras_transformer.types import SPECIAL_IDS, Tensor

if TYPE_CHECKING:
    from keras_transformer.text.tokenizer import Tokenizer

# Stands for bytes that are no character, or not yet.
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Translator(TextTranslator):
    """Translate strings with a trained model.

    An empty source has an empty output. A source is cut off after `max_source_length` tokens, an output after
    `max_target_length`; a call that cuts off a source, or a target to be scored, warns once with a
    `TruncationWarning`. Where positions are learned, limits above their number are taken down to it. `search`
    and the limits are plain attributes, which may be assigned: the next call uses them.

    Args:
        model: a `Transformer` or an `Ensemble` with weights, of token ids on both sides.
        source_tokenizer: of the source language.
        target_tokenizer: of the target language.
        search: `BeamSearch(4)` if None.
        max_source_length: most tokens of a source, the end token included.
        max_target_length: most tokens of an output, the end token included.

    Raises:
        ValueError: If a tokenizer's vocabulary does not have the model's size, or a limit is below 2.

    Example:
        ```python
        translator = Translator(model, source_tokenizer, target_tokenizer, search=BeamSearch(4))
        translator.translate(["Ein Hund läuft."])
        ```
    """

    def __init__(
        self,
        model: Transformer | Ensemble,
        source_tokenizer: "Tokenizer",
        target_tokenizer: "Tokenizer",
        *,
        search: Search | None = None,
        max_source_length: int = 256,
        max_target_length: int = 256,
    ) -> None:
        if not (hasattr(model, "source_embedding") and hasattr(model, "target_embedding")):
            raise ValueError(
                "`model` must read and write token ids; `decoding.generate` decodes other models. "
                f"Received: {type(model).__name__} {model.name!r}."
            )
        _check_vocabulary("source", source_tokenizer, model.source_embedding.vocabulary_size)
        _check_vocabulary("target", target_tokenizer, model.target_embedding.vocabulary_size)
        check_number(
            at_least=2, whole=True, max_source_length=max_source_length, max_target_length=max_target_length
        )
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.search = search or BeamSearch(4)
        # Where positions are learned, there are no others.
        limit = getattr(model, "max_length", None) or max(max_source_length, max_target_length)
        self.max_source_length = min(max_source_length, limit)
        self.max_target_length = min(max_target_length, limit)
        # By name, search and limit: an assigned search takes effect, and the one before is not compiled
        # again.
        self._compiled: dict[tuple[str, Search, int], Callable[..., Any]] = {}

    @property
    def search(self) -> Search:
        """How outputs are found; an assigned one takes effect."""
        return self._search

    @search.setter
    def search(self, search: Search) -> None:
        """Use another search; without special ids, it gets those of the tokenizers."""
        self._search = _with_ids(search)

    def generate(
        self, encoder_token_ids: Tensor, source_numbers: Sequence[int] | None = None
    ) -> SearchResult:
        """Find the outputs of a batch as token ids.

        Args:
            encoder_token_ids: integers `(b, s)`, each row ended and padded.
            source_numbers: of each row, see `decoding.generate`.

        Returns:
            Hypotheses `(b, n, T)` and scores `(b, n)`, best first.
        """
        model, search, max_length = self.model, self.search, self.max_target_length

        def run(token_ids: Tensor, numbers: Tensor) -> SearchResult:
            return generate(model, token_ids, search, max_length, source_numbers=numbers[:, 0])

        numbers = range(len(encoder_token_ids)) if source_numbers is None else source_numbers
        return self._run("generate", run, encoder_token_ids, np.reshape(numbers, (-1, 1)))

    def stream(self, text: str, search: Search | None = None) -> Iterator[str]:
        """Translate one text piece by piece, each as soon as it is certain.

        Args:
            text: the source. As in `translate`, an empty one has an empty output, and what is too long is cut
                off.
            search: `GreedySearch()` if None, whatever search the translator has: a beam does not know its
                output before the end. `SampleSearch` of one sample will do.

        Returns:
            An iterator over pieces that are not empty; together they are the output. A character of several
            tokens comes when it is complete.

        Raises:
            TypeError: If `text` is not a string.
            ValueError: If the search has several hypotheses.

        Warns:
            TruncationWarning: If the text is too long.
        """
        if not isinstance(text, str):
            raise TypeError(f"`text` must be a string. Received: text={text!r}.")
        search = _with_ids(search or GreedySearch())
        key = "stream", search, self.max_target_length
        if key not in self._compiled:
            self._compiled[key] = _token_stream(self.model, search, self.max_target_length)
        if not text:
            return iter(())
        source_ids, is_cut = _token_ids([text], self.source_tokenizer, self.max_source_length)
        if is_cut.any():
            message = f"The text was longer than the translator's {self.max_source_length} tokens"
            warnings.warn(f"{message} and was cut off.", TruncationWarning, stacklevel=2)
        token_ids = (int(step[0]) for step in self._compiled[key](source_ids))
        return _join_pieces(token_ids, self.target_tokenizer)

    def save(self, directory: str | Path) -> None:
        """Write the model, the tokenizers and the search, to be read by `load`.

        Args:
            directory: made if absent. If something fails, it is what it was; other files in it stay.

        Raises:
            InputError: If a file cannot be written.
            ValueError: If the search is of a class that cannot be read back.
        """
        _write_translator(_as_path(directory), {name: getattr(self, name) for name in _ARGUMENTS})

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Read what `save` wrote.

        Args:
            directory: the one that was given to `save`, or a copy of it.

        Returns:
            The translator.

        Raises:
            InputError: If the directory is not that of a translator, or a part of it is damaged.
        """
        arguments = _read_translator(_as_path(directory))
        try:
            return cls(**arguments)
        # A Keras model of another class lacks the attributes of a `Transformer`.
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{directory}: {error}") from error

    def token_ids(self, texts: Sequence[str]) -> np.ndarray:
        """Tokenize sources as the model reads them, int32 `(b, s)`: each ended, cut off and padded."""
        return _token_ids(texts, self.source_tokenizer, self.max_source_length)[0]

    def attention_maps(self, text: str) -> tuple[Alignment, dict[str, np.ndarray]]:
        """Translate one text, with the attention of every layer and head.

        Args:
            text: the source, cut off where it is too long; an empty one is its end token.

        Returns:
            What `align` gives, and the maps of `model.attention_scores`, float32 `(h, t, s)` by names such as
            `decoder/layer_1/cross_attention`. A row of the decoder belongs to the token that it writes; it
            has read those before.
        """
        source_ids = self.token_ids([text])
        token_ids, scores = map(ops.convert_to_numpy, self.generate(source_ids))
        best = token_ids[:1, 0]  # (1, n, T) -> (1, T)
        best = best[:, : np.count_nonzero(best != SPECIAL_IDS.pad)]
        found = self.model.attention_scores(_teacher_forcing(source_ids, best, None, SPECIAL_IDS))
        # (1, h, t, s) -> (h, t, s)
        maps = {name: ops.convert_to_numpy(each)[0].astype("float32") for name, each in found.items()}
        attention = maps[_layer_name(maps, -1)].mean(axis=0)
        names = (self.source_tokenizer.tokens(source_ids), self.target_tokenizer.tokens(best))
        read, written = (tuple(name.decode("utf-8") for name in each.numpy()[0]) for each in names)
        output = self.target_tokenizer.detokenize(best).numpy()[0].decode("utf-8")
        return Alignment(output, float(scores[0, 0]), read, written, attention), maps

    @property
    def _num_outputs(self) -> int:
        return self.search.num_outputs

    def _outputs(self, signature: Signature, columns: list[list[str]], numbers: list[int]) -> Outputs:
        is_empty = np.array([not any(row) for row in zip(*columns, strict=True)])
        source_ids, is_cut = _token_ids(columns[0], self.source_tokenizer, self.max_source_length)
        if signature == "score":
            limit = self.max_target_length
            target_ids, is_target_cut = _token_ids(columns[1], self.target_tokenizer, limit)
            score, num_tokens = map(ops.convert_to_numpy, self._score(source_ids, target_ids))
            outputs = {"score": score, "num_tokens": num_tokens}
            return {**self.blanked(outputs, is_empty), "is_cut": is_cut | is_target_cut}
        token_ids, scores = map(ops.convert_to_numpy, self.generate(source_ids, numbers))
        # Only what is asked for becomes text: `translate` reads one hypothesis of each source.
        if signature == "n_best":
            texts = self.target_tokenizer.detokenize(token_ids.reshape(-1, token_ids.shape[-1])).numpy()
            outputs = {"output": texts.reshape(scores.shape), "score": scores}
        else:
            best = token_ids[:, 0]  # (b, n, T) -> (b, T)
            outputs = {"output": self.target_tokenizer.detokenize(best).numpy(), "score": scores[:, 0]}
            if signature == "align":
                outputs["source_tokens"] = self.source_tokenizer.tokens(source_ids).numpy()
                outputs["output_tokens"] = self.target_tokenizer.tokens(best).numpy()
                # (b, T) and (b, s) -> (b, T, s)
                outputs["attention"] = ops.convert_to_numpy(self._align(source_ids, best))
        return {**self.blanked(outputs, is_empty), "is_cut": is_cut}

    def _limits(self, signature: Signature) -> str:
        limits = f"max_source_length={self.max_source_length}"
        return f"{limits}, max_target_length={self.max_target_length}" if signature == "score" else limits

    def _score(self, source_ids: np.ndarray, target_ids: np.ndarray) -> tuple[Tensor, Tensor]:
        model, search = self.model, self.search

        def run(source_ids: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
            scores = score_targets(model, source_ids, target_ids, special_ids=SPECIAL_IDS)
            return search.score(*scores), scores.num_tokens

        return self._run("score", run, source_ids, target_ids)

    def _align(self, source_ids: np.ndarray, target_ids: np.ndarray) -> Tensor:
        align = functools.partial(align_targets, self.model, special_ids=SPECIAL_IDS)
        return self._run("align", align, source_ids, target_ids)

    def _run(self, name: str, function: Callable[..., Any], *token_ids: Any) -> Any:
        """Call a function of token ids, compiled once for each search and limit."""
        key = name, self.search, self.max_target_length
        if key not in self._compiled:
            variables = self.model.variables
            self._compiled[key] = compile_function(function, variables, num_inputs=len(token_ids))
        return self._compiled[key](*(ops.convert_to_tensor(ids, "int32") for ids in token_ids))


def _with_ids(search: Search) -> Search:
    """Return a search with special ids: if it has none, those of the tokenizers."""
    return search if search.special_ids else dataclasses.replace(search, special_ids=SPECIAL_IDS)


def _token_ids(
    texts: Sequence[str], tokenizer: "Tokenizer", max_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Tokenize texts, end each row and pad it: int32 `(b, s)`, and bool `(b,)` for rows that were cut off."""
    token_ids = tokenizer.padded_ids(texts, max_length + 1).numpy()
    if token_ids.shape[1] <= max_length:
        return token_ids, np.zeros(len(token_ids), "bool")
    is_cut = token_ids[:, max_length] != SPECIAL_IDS.pad
    token_ids[is_cut, max_length - 1] = SPECIAL_IDS.end
    return token_ids[:, :max_length], is_cut


def _join_pieces(token_ids: Iterable[int], tokenizer: "Tokenizer") -> Iterator[str]:
    """Yield what each token adds to a text, once no later token can change it; no piece is empty."""
    so_far: list[int] = []
    given = text = ""
    for token_id in token_ids:
        so_far.append(token_id)
        # All are joined again at each step, since what a token adds depends on its neighbors.
        text = tokenizer.detokenize([so_far]).numpy()[0].decode("utf-8")
        # The bytes of a character may come one by one: until the last, they are no character.
        certain = text.rstrip(_REPLACEMENT)
        if certain.startswith(given) and certain != given:
            yield certain[len(given) :]
            given = certain
    if text != given:
        yield text[len(given) :]


def _check_vocabulary(side: str, tokenizer: "Tokenizer", size: int) -> None:
    received = getattr(tokenizer, "vocabulary_size", None)
    if received != size:
        # That of a layer of Keras is a method.
        received = received if isinstance(received, int) else f"that of a {type(tokenizer).__name__}"
        raise ValueError(
            f"`{side}_tokenizer` must have the vocabulary of the model, as a tokenizer of this package. "
            f"Received: {side}_tokenizer.vocabulary_size={received}, model {side} vocabulary size={size}."
        )
