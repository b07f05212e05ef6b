"""A model in memory with its tokenizers and a search: what `Translator` and `TextGenerator` share."""

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np

from keras_transformer._arguments import check_kind
from keras_transformer._files import as_path
from keras_transformer.decoding import GreedySearch, Search, stream_tokens
from keras_transformer.errors import InputError
from keras_transformer.tasks.directory import _read_task, _write_task
from keras_transformer.tasks.results import TruncationWarning
from keras_transformer.tasks.sources import Source
from keras_transformer.tasks.string_functions import _StringFunctions
from keras_transformer.tasks.text_task import TextTask
from keras_transformer.tasks.token_functions import _CompiledFunctions, _TokenFunctions
from keras_transformer.text import Tokenizer
from keras_transformer.types import SPECIAL_IDS, Length, Signature, Value

# Stands for bytes that are no character, or not yet.
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class ModelTask(TextTask):
    """A task of a model in memory; `Translator` and `TextGenerator` are its two kinds."""

    source: Source
    options_file: ClassVar[str]
    tokenizer_names: ClassVar[tuple[str, ...]]
    limit_names: ClassVar[tuple[str, ...]]
    option_types: ClassVar[dict[str, Any]] = {"search": Search}
    """Further arguments of the constructor that `save` writes, by name, with their types in JSON."""
    about_outputs: ClassVar[str]
    """What the README of an export says about outputs and scores."""

    def __init__(
        self,
        model: keras.Model,
        source: Source,
        target_tokenizer: Tokenizer,
        search: Search,
        limits: tuple[int, int],
    ) -> None:
        self.model = model
        self.source = source
        self.target_tokenizer = target_tokenizer
        self.search = search
        # A model with learned positions has no others; frames have positions of their own.
        longest = getattr(model, "max_length", None) or max(limits)
        reads_ids = source.input_spec[1] == "int32"
        self.max_source_length = min(limits[0], longest) if reads_ids else limits[0]
        self.max_target_length = min(limits[1], longest)
        # Compiled once for each search, limit and kind of weights: an assigned search takes effect, and the
        # one before is not compiled again.
        self._functions: dict[tuple[object, ...], _StringFunctions] = {}
        self._streams: dict[tuple[object, ...], Callable[..., Iterator[np.ndarray]]] = {}

    @property
    def search(self) -> Search:
        """How outputs are found; an assigned search takes effect."""
        return self._search

    @search.setter
    def search(self, search: Search) -> None:
        """Use another search; without special ids, it gets those of the tokenizers."""
        check_kind(Search, search=search)
        self._search = _with_ids(search)

    @property
    def token_functions(self) -> _TokenFunctions:
        """The model and its search as they are now, in numbers; not compiled."""
        return _TokenFunctions(self.model, self.search, self.max_target_length)

    @property
    def functions(self) -> _StringFunctions:
        """The functions of the signatures, as the search and the limits are now."""
        key = (self.search, self.max_source_length, self.max_target_length, self._dtypes())
        if key not in self._functions:
            self._functions[key] = self.string_functions(_CompiledFunctions(self.token_functions))
        return self._functions[key]

    def string_functions(self, tokens: Any) -> _StringFunctions:
        """Return the functions of the signatures over token functions, compiled or traced."""
        limits = self.max_source_length, self.max_target_length
        return _StringFunctions(tokens, self.source, self.target_tokenizer, *limits)

    @property
    def num_outputs(self) -> int:
        """The number of outputs of `n_best` for a source."""
        return self.search.num_outputs

    @property
    def takes_seed(self) -> bool:
        """Whether a request to `search` has a seed, since the search samples."""
        return self.search.is_random

    @property
    def default_options(self) -> dict[str, float]:
        """The options with which the served `search` answers as `n_best` does."""
        values = self.max_target_length, float(self.search.length_penalty), self.num_outputs, 0
        return dict(zip(self.options, values, strict=False))

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the constructor, as they are now."""
        names = ("model", *self.tokenizer_names, *self.option_types, *self.limit_names)
        return {name: getattr(self, name) for name in names}

    def with_changes(self, **changes: Any) -> Self:
        """Return a task with other arguments of the constructor."""
        return type(self)(**{**self.arguments, **changes})

    def answers(self, sources: Sequence[Value]) -> tuple[list[str], dict[Signature, Sequence[Any]]]:
        """Return the best output for each source, and the results of each signature, to judge an export."""

        def ask(function: Callable[[Sequence[Value]], list[Any]]) -> list[Any]:
            # A sample depends on the number of its source: on a server on the seed of the request, else 0.
            if self.search.is_random:
                return [function([source])[0] for source in sources]
            return function(sources)

        hypotheses = ask(self.n_best)
        best = [each[0] for each in hypotheses]
        outputs = [each.text for each in best]
        return outputs, {
            "serving_default": best,
            "n_best": hypotheses,
            "align": ask(self.align) if "align" in self.signatures else [],
            "score": self.score(sources, outputs),
            "search": self.n_best(sources) if self.search.is_random else hypotheses,
        }

    def token_ids(self, texts: Iterable[Value]) -> np.ndarray:
        """Return what the model reads of sources: token ids, int32 `(b, s)`, each row ended and padded."""
        batch = self.source.batch(self.source.check("texts", texts))
        return np.asarray(self.source.read(batch, self.max_source_length)[0])

    def stream(self, text: Value, search: Search | None = None) -> Iterator[str]:
        """Yield the output for one source in pieces, each as soon as it is certain.

        Args:
            text: The source or the prompt, read as in `translate`.
            search: The search. Defaults to `GreedySearch()`, whatever search `self` has: a beam does not know
                its output before the end. `SampleSearch` of one sample also works.

        Returns:
            An iterator over non-empty pieces; together they are the output. A character of several tokens
            comes when it is complete.

        Raises:
            TypeError: If `text` is not a source.
            ValueError: If the search has several hypotheses.

        Warns:
            TruncationWarning: If the text is too long.
        """
        check_kind(Search, None, search=search)
        functions = self.token_functions._replace(search=_with_ids(search or GreedySearch()))
        key = (functions.search, functions.max_length, self._dtypes())
        if key not in self._streams:
            self._streams[key] = stream_tokens(self.model, functions.search, functions.max_length)
        batch = self.source.batch(self.source.check("text", [text]))
        if bool(self.source.is_empty(batch)[0]):
            return iter(())
        inputs, is_cut = self.source.read(batch, self.max_source_length)
        if bool(is_cut[0]):
            message = f"The text was longer than the translator's {self.max_source_length} tokens"
            warnings.warn(f"{message} and was cut off.", TruncationWarning, stacklevel=2)
        token_ids = (int(step[0]) for step in self._streams[key](*functions.inputs(np.asarray(inputs))))
        return _join_pieces(token_ids, self.target_tokenizer)

    def _dtypes(self) -> tuple[str, ...]:
        # `quantize` gives a model other variables.
        return tuple(str(variable.dtype) for variable in getattr(self.model, "variables", ()))

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy in another process needs; it compiles functions of its own."""
        return {**vars(self), "_functions": {}, "_streams": {}}

    def save(self, directory: str | Path) -> None:
        """Write the model, its tokenizers and the search, to be read by `load`.

        Args:
            directory: Created if absent. If something fails, it stays as it was; other files in it stay.

        Raises:
            InputError: If a file cannot be written.
            ValueError: If the search is of a class that cannot be read back.
        """
        options = {name: getattr(self, name) for name in (*self.option_types, *self.limit_names)}
        tokenizers = {name: getattr(self, name) for name in self.tokenizer_names}
        _write_task(as_path(directory) / self.options_file, self.model, tokenizers, options)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Read what `save` wrote.

        Args:
            directory: The one that was given to `save`, or a copy of it.

        Returns:
            What was saved.

        Raises:
            InputError: If the directory is of another kind of task, or a part of it is damaged.
        """
        types = {**cls.option_types, **dict.fromkeys(cls.limit_names, Length)}
        arguments = _read_task(as_path(directory) / cls.options_file, cls.tokenizer_names, types)
        try:
            return cls(**arguments)
        # A Keras model of another class lacks attributes.
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{directory}: {error}") from error


def _with_ids(search: Search) -> Search:
    """Return a search with special ids: if it has none, those of the tokenizers."""
    return search if search.special_ids else dataclasses.replace(search, special_ids=SPECIAL_IDS)


def _join_pieces(token_ids: Iterable[int], tokenizer: Tokenizer) -> Iterator[str]:
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
