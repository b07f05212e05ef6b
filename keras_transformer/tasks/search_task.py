"""Base class of tasks with a search, `Translator` and `TextGenerator`: decoding and streaming."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self

import keras
import numpy as np
import tensorflow as tf

from keras_transformer._arguments import check_kind, check_number, warn_user
from keras_transformer.decoding import GreedySearch, Search, stream_tokens
from keras_transformer.tasks.long_texts import ABOUT_SPLITTING, SPLITTING, WhichTexts
from keras_transformer.tasks.model_task import ModelTask
from keras_transformer.tasks.results import TruncationWarning
from keras_transformer.tasks.string_functions import _StringFunctions
from keras_transformer.tasks.text_task import TextTask
from keras_transformer.text import Reader, Tokenizer
from keras_transformer.types import SPECIAL_IDS, Batch, Signature, Value

# Decoded bytes that are not, or not yet, a character.
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class SearchTask(ModelTask, TextTask):
    """Base class of tasks whose outputs a search generates token by token."""

    option_types: ClassVar[dict[str, Any]] = {"search": Search}
    readme_template: ClassVar[str] = "text_task.md"
    reads_empty: ClassVar[bool] = False
    """Whether the model reads an empty string, as for prompts."""
    continues_source: ClassVar[bool] = False
    """Whether an output begins with its source, whose tokens then count for its length."""
    about_outputs: ClassVar[str]
    """Description of outputs and scores in the README of an export."""

    def __init__(
        self,
        model: keras.Model,
        reader: Reader,
        target_tokenizer: Tokenizer,
        search: Search,
    ) -> None:
        super().__init__(model, reader)
        self.target_tokenizer = target_tokenizer
        self.search = search
        self._streams: dict[tuple[object, ...], Callable[..., Iterator[np.ndarray]]] = {}

    @property
    def search(self) -> Search:
        """Search strategy. You may assign another one."""
        return self._search

    @search.setter
    def search(self, search: Search) -> None:
        """Replace the search; if it has no special ids, fill in those of the tokenizers."""
        check_kind(Search, search=search)
        if self.continues_source and search.constraints.first_token_ids:
            raise ValueError(
                "`search` must be without `first_token_ids`, since an output begins with its prompt. "
                f"Received: first_token_ids={search.constraints.first_token_ids}."
            )
        self._search = _with_ids(search)

    @property
    def max_target_length(self) -> int:
        """Maximum length of an output. A value above the model's number of positions is reduced to it."""
        return self._max_target_length

    @max_target_length.setter
    def max_target_length(self, max_target_length: int) -> None:
        """Set the maximum length."""
        check_number(at_least=2, whole=True, max_target_length=max_target_length)
        longest = getattr(self.model, "max_length", None)
        self._max_target_length = min(max_target_length, longest or max_target_length)

    @property
    def _splitting(self) -> WhichTexts:
        """Which texts `translate` splits."""
        return "none"

    @property
    def about_long_texts(self) -> str:
        """README text of an export: how it splits long texts."""
        return ABOUT_SPLITTING[self._splitting]

    def string_functions(self, tokens: Any) -> _StringFunctions:
        """Return a function from strings to strings for each signature. They call `tokens`."""
        return SPLITTING[self._splitting](self, tokens)

    def is_empty(self, columns: Batch) -> tf.Tensor:
        """Return which sources are empty and so have an empty output, boolean `(b,)`."""
        return self.reader.is_empty(columns) & (not self.reads_empty)

    def source_names(self, inputs: Batch) -> tf.Tensor:
        """Return a name for each position of the encoder's output, string `(b, s)`."""
        return self.reader.position_names(inputs, getattr(self.model, "source_stride", 1))

    @property
    def num_outputs(self) -> int:
        """Number of outputs that `n_best` returns for each source."""
        return self.search.num_outputs

    @property
    def takes_seed(self) -> bool:
        """Whether requests to `search` have a seed, because the search samples."""
        return self.search.is_random

    @property
    def default_options(self) -> dict[str, float]:
        """Options with which the served `search` returns what `n_best` returns."""
        values = self.max_target_length, float(self.search.length_penalty), self.num_outputs, 0
        return dict(zip(self.options, values, strict=False))

    def repeatable(self) -> Self:
        """Return the task, or a copy with the seed 0 if its search samples without a seed."""
        search: Any = self.search
        if not search.is_random:
            return self
        if not hasattr(search, "seed"):
            raise ValueError(
                "`task.search` must return the same output each time, or have a `seed`, to be exported. "
                f"Received: {type(search).__name__}."
            )
        # The default only: each request may have another seed.
        seeded = search if search.seed is not None else dataclasses.replace(search, seed=0)
        return self.with_changes(search=seeded)

    def expected_results(self, sources: Sequence[Value]) -> dict[Signature, Sequence[Any]]:
        """Return the results of each signature for some sources, to verify an export."""

        def ask(function: Callable[[Sequence[Value]], list[Any]]) -> list[Any]:
            # A sample depends on the index of its source; on a server, on the request's seed, by default 0.
            if self.search.is_random:
                return [function([source])[0] for source in sources]
            return function(sources)

        best, hypotheses = ask(self.translate_with_scores), ask(self.n_best)
        return {
            "serving_default": best,
            "n_best": hypotheses,
            "align": ask(self.align) if "align" in self.signatures else [],
            "score": self.score(sources, [each.text for each in best]),
            "search": self.n_best(sources) if self.search.is_random else hypotheses,
        }

    def request_columns(
        self, sources: Sequence[Value], results: dict[Signature, Sequence[Any]]
    ) -> dict[str, np.ndarray]:
        """Return a request with an array for each input of each signature, and a seed for each source."""
        outputs: list[Any] = [best.text for best in results["serving_default"]]
        outputs += sources[len(outputs) :]  # bytes that are not UTF-8 serve as their outputs
        [output] = Tokenizer.batch(outputs)
        options = {name: np.array([value] * len(sources)) for name, value in self.default_options.items()}
        if "seed" in options:
            options["seed"] = np.arange(len(sources))
        return {**super().request_columns(sources, results), "output": output.numpy(), **options}

    def stream(self, text: Value, search: Search | None = None) -> Iterator[str]:
        """Stream the output for one source, in pieces that later tokens do not change.

        Args:
            text: The source or the prompt, as for `translate`.
            search: A `GreedySearch`, or a `SampleSearch` with one sample. Defaults to a `GreedySearch` with
                the constraints of the task's search: a beam search knows its output only at the end.

        Returns:
            An iterator over non-empty strings, which together are the output. A character of several tokens
            is yielded when it is complete.

        Raises:
            TypeError: If `text` is not a source.
            ValueError: If the search keeps more than one hypothesis.

        Warns:
            TruncationWarning: If the text is too long.
        """
        check_kind(Search, None, search=search)
        # The default keeps the constraints, such as a language that each output begins with.
        search = search or GreedySearch(constraints=self.search.constraints)
        functions = self.token_functions._replace(search=_with_ids(search))
        key = (functions.search, functions.max_length, self._dtypes())
        if key not in self._streams:
            self._streams[key] = stream_tokens(self.model, functions.search, functions.max_length)
        batch = self.reader.batch(self.reader.check("text", [text]))
        if bool(self.is_empty(batch)[0]):
            return iter(())
        inputs, is_cut = self.reader.read(batch, self.max_source_length)
        if bool(is_cut[0]):
            limit = f"{self.noun}'s {self.max_source_length} {self.reader.unit}"
            message = f"The text was longer than the {limit} and was cut off."
            warn_user(message, TruncationWarning)
        given, padding_mask, prefix_ids = functions.decoding_inputs(tuple(map(np.asarray, inputs)))
        steps = self._streams[key](given, prefix_ids, padding_mask)
        token_ids = (int(step[0]) for step in steps)
        return _join_pieces(token_ids, self.target_tokenizer)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, which compiles its functions itself."""
        return {**super().__getstate__(), "_streams": {}}


def _with_ids(search: Search) -> Search:
    """Return a search with special ids; if it has none, with those of the tokenizers."""
    return search if search.special_ids else dataclasses.replace(search, special_ids=SPECIAL_IDS)


def _join_pieces(token_ids: Iterable[int], tokenizer: Tokenizer) -> Iterator[str]:
    """Yield the text that each token adds, once no later token can change it."""
    so_far: list[int] = []
    given = text = ""
    for token_id in token_ids:
        so_far.append(token_id)
        # Detokenized from the start at each step, since the text of a token depends on its neighbors.
        text = tokenizer.detokenize([so_far]).numpy()[0].decode("utf-8")
        # The bytes of a character may come one by one; until it is complete, it is decoded to replacements.
        certain = text.rstrip(_REPLACEMENT)
        if certain.startswith(given) and certain != given:
            yield certain[len(given) :]
            given = certain
    if text != given:
        yield text[len(given) :]
