"""A model in memory that takes strings: what `Translator` and `TextGenerator` share."""

import abc
import dataclasses
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from keras import ops

from keras_transformer._arguments import pad_audio
from keras_transformer._backend.compiler import compile_function
from keras_transformer._files import as_path
from keras_transformer.decoding.generation import _token_stream, generate
from keras_transformer.decoding.sampling import GreedySearch
from keras_transformer.decoding.scoring import align_targets
from keras_transformer.decoding.search import Search, SearchResult
from keras_transformer.decoding.text_translator import Outputs, TextTranslator, TruncationWarning
from keras_transformer.decoding.translator_directory import _read_translator, _write_translator
from keras_transformer.errors import InputError
from keras_transformer.types import AUDIO, SPECIAL_IDS, TEXT, Config, ServedInput, Signature, Source, Tensor

if TYPE_CHECKING:
    from keras_transformer.text.tokenizer import Tokenizer

# Stands for bytes that are no character, or not yet.
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class _ModelTranslator(TextTranslator):
    """A model with its tokenizers and a search."""

    options_file: ClassVar[str]
    blanks_empty: bool = True
    """Whether an empty text has an empty output."""

    def __init__(
        self,
        model: Any,
        tokenizers: tuple["Tokenizer", "Tokenizer"],
        search: Search,
        limits: tuple[int, int],
    ) -> None:
        self.model = model
        self.source_tokenizer, self.target_tokenizer = tokenizers
        self.search = search
        # Where positions are learned, there are no others.
        limit = getattr(model, "max_length", None) or max(limits)
        self.max_source_length, self.max_target_length = (min(length, limit) for length in limits)
        if self.reads == AUDIO:
            # Frames have positions of their own; and in a batch nothing tells silence from no audio.
            self.max_source_length, self.blanks_empty = limits[0], False
        # By name, search, limit and dtypes: an assigned search takes effect, and the one before is not
        # compiled again.
        self._compiled: dict[tuple[object, ...], Callable[..., Any]] = {}

    @property
    def search(self) -> Search:
        """How outputs are found; an assigned one takes effect."""
        return self._search

    @search.setter
    def search(self, search: Search) -> None:
        """Use another search; without special ids, it gets those of the tokenizers."""
        self._search = _with_ids(search)

    @property
    def reads(self) -> ServedInput:
        """What a source is: a text, or audio."""
        return self.source_tokenizer.reads

    @property
    def arguments(self) -> Config:
        """The arguments of the constructor, as they are now."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def trace_search(
        self,
        source_ids: Tensor,
        source_numbers: Tensor | None = None,
        max_lengths: Tensor | None = None,
        length_penalties: Tensor | None = None,
    ) -> SearchResult:
        """Find the outputs of ended ids `(b, s)`; not compiled, so that a graph may hold it."""
        inputs, prefix_ids = self._model_inputs(source_ids)
        return generate(
            self.model,
            inputs,
            self.search,
            self.max_target_length,
            prefix_ids=prefix_ids,
            score_prefix=False,
            source_numbers=source_numbers,
            max_lengths=max_lengths,
            length_penalties=length_penalties,
        )

    @abc.abstractmethod
    def trace_scores(self, source_ids: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Score ended targets `(b, t)`, not compiled: float32 `(b,)`, and their tokens, int32 `(b,)`."""

    def trace_attention(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Read the attention `(b, t, s)` of targets, not compiled; only for signatures with `align`."""
        return align_targets(self.model, source_ids, target_ids, special_ids=SPECIAL_IDS)

    def stream(self, text: Source, search: Search | None = None) -> Iterator[str]:
        """Write the output for one text piece by piece, each as soon as it is certain.

        Args:
            text: the source or the prompt, read as in `translate`.
            search: `GreedySearch()` if None, whatever search `self` has: a beam does not know its
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
        if self.reads == TEXT and not isinstance(text, str):
            raise TypeError(f"`text` must be a string. Received: text={text!r}.")
        search = _with_ids(search or GreedySearch())
        key = self._key("stream", search)
        if key not in self._compiled:
            self._compiled[key] = _token_stream(self.model, search, self.max_target_length)
        [text] = self.sources(text=[text])
        if not len(text) and self.blanks_empty:
            return iter(())
        source_ids, is_cut = _token_ids([text], self.source_tokenizer, self.max_source_length)
        if is_cut.any():
            message = f"The text was longer than the translator's {self.max_source_length} tokens"
            warnings.warn(f"{message} and was cut off.", TruncationWarning, stacklevel=2)
        token_ids = (int(step[0]) for step in self._compiled[key](*self._model_inputs(source_ids)))
        return _join_pieces(token_ids, self.target_tokenizer)

    def save(self, directory: str | Path) -> None:
        """Write the model, its vocabulary and the search, to be read by `load`.

        Args:
            directory: made if absent. If something fails, it is what it was; other files in it stay.

        Raises:
            InputError: If a file cannot be written.
            ValueError: If the search is of a class that cannot be read back.
        """
        _write_translator(as_path(directory), self.options_file, self.arguments)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Read what `save` wrote.

        Args:
            directory: the one that was given to `save`, or a copy of it.

        Returns:
            What was saved.

        Raises:
            InputError: If the directory is another one's, or a part of it is damaged.
        """
        names = tuple(inspect.signature(cls).parameters)
        arguments = _read_translator(as_path(directory), cls.options_file, names)
        try:
            return cls(**arguments)
        # A Keras model of another class lacks attributes.
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{directory}: {error}") from error

    def token_ids(self, texts: Sequence[Source]) -> np.ndarray:
        """Tokenize sources as the model reads them, int32 `(b, s)`: each ended, cut off and padded."""
        return _token_ids(texts, self.source_tokenizer, self.max_source_length)[0]

    @property
    def _num_outputs(self) -> int:
        return self.search.num_outputs

    def _outputs(self, signature: Signature, columns: list[list[Source]], numbers: list[int]) -> Outputs:
        if signature not in self.signatures:
            raise TypeError(
                f"`{signature}` needs a model with an encoder. Received: a {type(self.model).__name__}."
            )
        is_empty = np.array([self.blanks_empty and not any(row) for row in zip(*columns, strict=True)])
        source_ids, is_cut = _token_ids(columns[0], self.source_tokenizer, self.max_source_length)
        if signature == "score":
            limit = self.max_target_length
            target_ids, is_target_cut = _token_ids(columns[1], self.target_tokenizer, limit)
            score, num_tokens = map(
                ops.convert_to_numpy, self._run("score", self.trace_scores, source_ids, target_ids)
            )
            outputs = {"score": score, "num_tokens": num_tokens}
            return {**self.blanked(outputs, is_empty), "is_cut": is_cut | is_target_cut}
        token_ids, scores = map(ops.convert_to_numpy, self._find(source_ids, numbers))
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
                outputs["attention"] = ops.convert_to_numpy(
                    self._run("align", self.trace_attention, source_ids, best)
                )
        return {**self.blanked(outputs, is_empty), "is_cut": is_cut}

    def _limits(self, signature: Signature) -> str:
        limits = f"max_source_length={self.max_source_length}"
        return f"{limits}, max_target_length={self.max_target_length}" if signature == "score" else limits

    def _model_inputs(self, source_ids: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return what the model reads, and what each output begins with."""
        return source_ids, None

    def _find(self, source_ids: Tensor, numbers: Sequence[int]) -> SearchResult:
        def run(source_ids: Tensor, numbers: Tensor) -> SearchResult:
            return self.trace_search(source_ids, numbers[:, 0])

        return self._run("generate", run, source_ids, np.reshape(numbers, (-1, 1)))

    def _key(self, name: str, search: Search) -> tuple[object, ...]:
        """Return what a compiled function was made for; `quantize` gives a model other variables."""
        dtypes = tuple(str(variable.dtype) for variable in self.model.variables)
        return name, search, self.max_target_length, dtypes

    def _run(self, name: str, function: Callable[..., Any], *token_ids: Any) -> Any:
        """Call a function of token ids, or frames, compiled once for each search and limit."""
        key = self._key(name, self.search)
        if key not in self._compiled:
            num_inputs = len(token_ids) if self.reads == TEXT else None
            self._compiled[key] = compile_function(function, self.model.variables, num_inputs=num_inputs)
        dtypes = ("float32" if len(np.shape(ids)) == 3 else "int32" for ids in token_ids)
        return self._compiled[key](*map(ops.convert_to_tensor, token_ids, dtypes))


def _with_ids(search: Search) -> Search:
    """Return a search with special ids: if it has none, those of the tokenizers."""
    return search if search.special_ids else dataclasses.replace(search, special_ids=SPECIAL_IDS)


def _token_ids(
    texts: Sequence[Source], tokenizer: "Tokenizer", max_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Tokenize texts, end each row and pad it: int32 `(b, s)`, and bool `(b,)` for rows that were cut off."""
    if tokenizer.reads == AUDIO:
        limit = tokenizer.longest(max_length)
        frames = tokenizer.padded_ids(pad_audio(samples[:limit] for samples in texts), max_length).numpy()
        return frames, np.array([len(samples) > limit for samples in texts], "bool")
    token_ids = tokenizer.padded_ids(texts, max_length + 1).numpy()
    if token_ids.shape[1] <= max_length:
        return token_ids, np.zeros(len(token_ids), "bool")
    is_cut = token_ids[:, max_length] != SPECIAL_IDS.pad
    token_ids[is_cut, max_length - len(tokenizer.end_ids) : max_length] = tokenizer.end_ids
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


def _check_vocabulary(argument: str, tokenizer: "Tokenizer", size: int) -> None:
    received = getattr(tokenizer, "vocabulary_size", None)
    if received != size:
        # That of a layer of Keras is a method.
        received = received if isinstance(received, int) else f"that of a {type(tokenizer).__name__}"
        side = argument.removesuffix("tokenizer").replace("_", " ")
        raise ValueError(
            f"`{argument}` must have the vocabulary of the model, as a tokenizer of this package; "
            "`text.as_tokenizer` makes one of a tokenizer of Keras, KerasHub or SentencePiece. "
            f"Received: {argument}.vocabulary_size={received}, model {side}vocabulary size={size}."
        )
