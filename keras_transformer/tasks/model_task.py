"""A task of a model in memory: what it is made of, how it is saved, and what an export asks it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np

from keras_transformer._files import as_path
from keras_transformer.errors import InputError
from keras_transformer.tasks.directory import _read_task, _write_task
from keras_transformer.tasks.sources import Source
from keras_transformer.tasks.task import Task
from keras_transformer.types import Length, Signature, Value


class ModelTask(Task):
    """A task of a model in memory. A task is one file: a subclass, and what its signatures compute.

    A subclass has `token_functions` and `string_functions`, of which an export serves the second over the
    first, traced, and `functions` over what `compiled_functions` returns.
    """

    source: Source
    options_file: ClassVar[str]
    tokenizer_names: ClassVar[tuple[str, ...]]
    limit_names: ClassVar[tuple[str, ...]]
    option_types: ClassVar[dict[str, Any]] = {}
    """Further arguments of the constructor that `save` writes, by name, with their types in JSON."""
    readme_template: ClassVar[str]
    """The template of the README of an export, among those of `export`."""

    def __init__(self, model: keras.Model, source: Source, max_source_length: int) -> None:
        self.model = model
        self.source = source
        # A model with learned positions has no others.
        self.max_source_length = min(max_source_length, source.longest(model) or max_source_length)
        # Compiled once for each search, limit and kind of weights: an assigned search takes effect, and the
        # one before is not compiled again.
        self._functions: dict[tuple[object, ...], Any] = {}

    @property
    def token_functions(self) -> Any:
        """What the task computes with its model, in numbers; not compiled."""
        raise NotImplementedError

    def compiled_functions(self) -> Any:
        """Return `token_functions`, each compiled when it is first called."""
        raise NotImplementedError

    def string_functions(self, tokens: Any) -> Any:
        """Return the functions of the signatures over token functions, compiled or traced."""
        raise NotImplementedError

    @property
    def functions(self) -> Any:
        """The functions of the signatures, as the options, the limits and the weights are now."""
        names = (*self.option_types, *self.limit_names)
        key = (*(getattr(self, name) for name in names), self._dtypes())
        if key not in self._functions:
            self._functions[key] = self.string_functions(self.compiled_functions())
        return self._functions[key]

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the constructor, as they are now."""
        names = ("model", *self.tokenizer_names, *self.option_types, *self.limit_names)
        return {name: getattr(self, name) for name in names}

    def with_changes(self, **changes: Any) -> Self:
        """Return a task with other arguments of the constructor."""
        return type(self)(**{**self.arguments, **changes})

    def repeatable(self) -> Self:
        """Return a task that gives the same answer each time."""
        return self

    def answers(self, sources: Sequence[Value]) -> dict[Signature, Sequence[Any]]:
        """Return the results of each signature for some sources, to judge an export."""
        return {name: self._in_batches(name, sources, 64, None) for name in self.signatures}

    def request_columns(
        self, sources: Sequence[Value], results: dict[Signature, Sequence[Any]]
    ) -> dict[str, np.ndarray]:
        """Return a column for each input of all signatures, of sources and of `answers` to the first."""
        return {
            name: column.numpy()
            for name, column in zip(self.source.columns, self.source.batch(sources), strict=True)
        }

    def token_ids(self, texts: Iterable[Value]) -> np.ndarray:
        """Return what the model reads of sources: token ids, int32 `(b, s)`, each row ended and padded."""
        batch = self.source.batch(self.source.check("texts", texts))
        return np.asarray(self.source.read(batch, self.max_source_length)[0][0])

    def _dtypes(self) -> tuple[str, ...]:
        # `quantize` gives a model other variables.
        return tuple(str(variable.dtype) for variable in getattr(self.model, "variables", ()))

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy in another process needs; it compiles functions of its own."""
        return {**vars(self), "_functions": {}}

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
