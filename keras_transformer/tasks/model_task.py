"""Base class of tasks with a model in memory: saving, loading and the interface for exports."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np

from keras_transformer._arguments import check_number
from keras_transformer._files import as_path, current_path
from keras_transformer.errors import InputError
from keras_transformer.tasks.compiled_functions import _CompiledFunctions
from keras_transformer.tasks.directory import _read_task, _write_task
from keras_transformer.tasks.task import Task
from keras_transformer.text import Reader
from keras_transformer.types import Length, Signature, Value


class ModelTask(Task):
    """Base class of tasks with a model in memory.

    A subclass defines `token_functions`, the model's computations on token ids or frames, and
    `string_functions`, which encode sources, call the token functions and convert the results. `functions`
    calls compiled token functions; an export traces the string functions and token functions into its graph.
    """

    reader: Reader
    options_file: ClassVar[str]
    tokenizer_names: ClassVar[tuple[str, ...]]
    limit_names: ClassVar[tuple[str, ...]]
    option_types: ClassVar[dict[str, Any]] = {}
    """Further constructor arguments that `save` writes, by name, with their JSON types."""
    readme_template: ClassVar[str]
    """File name of the README template for exports, in `export/templates`."""

    _kinds: ClassVar[dict[str, type["ModelTask"]]] = {}
    """Subclasses by their `options_file`."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "options_file" in vars(cls):
            ModelTask._kinds[cls.options_file] = cls

    def __init__(self, model: keras.Model, reader: Reader) -> None:
        self.model = model
        self.reader = reader
        # Compiled once for each combination of search, output length and weight dtypes: an assigned search
        # takes effect at once, and the previous one is not compiled again.
        self._compiled: dict[tuple[object, ...], _CompiledFunctions] = {}

    @property
    def max_source_length(self) -> int:
        """Maximum length of a source. A value above the model's number of positions is reduced to it."""
        return self._max_source_length

    @max_source_length.setter
    def max_source_length(self, max_source_length: int) -> None:
        """Set the maximum length."""
        check_number(at_least=2, whole=True, max_source_length=max_source_length)
        limit = getattr(self.model, "max_source_length", None)
        self._max_source_length = min(max_source_length, limit or max_source_length)

    @property
    def limits(self) -> dict[str, int]:
        """Maximum lengths, by argument name."""
        return {name: getattr(self, name) for name in self.limit_names}

    @property
    def token_functions(self) -> Any:
        """Computations on token ids with the model, not compiled; a hashable tuple."""
        raise NotImplementedError

    def string_functions(self, tokens: Any) -> Any:
        """Return a function from strings to strings for each signature. They call `tokens`."""
        raise NotImplementedError

    @property
    def functions(self) -> Any:
        """Functions of the signatures for the current options, limits and weights."""
        tokens = self.token_functions
        key = tokens, self._dtypes()
        if key not in self._compiled:
            self._compiled[key] = _CompiledFunctions(tokens, self.model)
        return self.string_functions(self._compiled[key])

    @property
    def arguments(self) -> dict[str, Any]:
        """Current constructor arguments."""
        names = ("model", *self.tokenizer_names, *self.option_types, *self.limit_names)
        return {name: getattr(self, name) for name in names}

    def with_changes(self, **changes: Any) -> Self:
        """Return a copy of the task with some constructor arguments replaced."""
        return type(self)(**{**self.arguments, **changes})

    def repeatable(self) -> Self:
        """Return a task that returns the same results each time."""
        return self

    def expected_results(self, sources: Sequence[Value]) -> dict[Signature, Sequence[Any]]:
        """Return the results of each signature for some sources, to verify an export."""
        return {name: self._in_batches(name, sources, 64, None) for name in self.signatures}

    def request_columns(
        self, sources: Sequence[Value], results: dict[Signature, Sequence[Any]]
    ) -> dict[str, np.ndarray]:
        """Return an array for each input of each signature. `results` are those of `expected_results`."""
        return {
            name: column.numpy()
            for name, column in zip(self.reader.columns, self.reader.batch(sources), strict=True)
        }

    def token_ids(self, texts: Iterable[Value]) -> np.ndarray:
        """Return the token ids that the model reads, int32 `(b, s)`, with end tokens and padding."""
        batch = self.reader.batch(self.reader.check("texts", texts))
        return np.asarray(self.reader.read(batch, self.max_source_length)[0][0])

    def _dtypes(self) -> tuple[str, ...]:
        # After `quantize` a model has other variables.
        return tuple(str(variable.dtype) for variable in getattr(self.model, "variables", ()))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, which compiles its functions itself."""
        return {**vars(self), "_compiled": {}}

    def save(self, directory: str | Path) -> None:
        """Save the model, its tokenizers and its options, to be read by `load`.

        Args:
            directory: Created if it does not exist. A task in it is replaced, and other files are kept. If
                saving fails, the directory does not change.

        Raises:
            InputError: If a file cannot be written.
            ValueError: If the search is of a class that `load` cannot read.
        """
        options = {**{name: getattr(self, name) for name in self.option_types}, **self.limits}
        tokenizers = {name: getattr(self, name) for name in self.tokenizer_names}
        path = as_path(directory)
        _write_task(path / self.options_file, self.model, tokenizers, options)
        for name in ModelTask._kinds.keys() - {self.options_file}:
            (path / name).unlink(missing_ok=True)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Load a task that `save` wrote. `ModelTask.load` loads a task of any kind.

        Args:
            directory: The directory that was passed to `save`, or a copy of it.

        Returns:
            The task.

        Raises:
            InputError: If the directory contains no task or another kind of task, or a part of it is damaged.

        Example:
            ```python
            translator = kt.Translator.load("runs/de_en")
            ```
        """
        if not hasattr(cls, "options_file"):
            return cls.kind_of(directory).load(directory)
        types = {**cls.option_types, **dict.fromkeys(cls.limit_names, Length)}
        arguments = _read_task(as_path(directory) / cls.options_file, cls.tokenizer_names, types)
        try:
            return cls(**arguments)
        # A Keras model of another class may lack attributes.
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{directory}: {error}") from error

    @classmethod
    def kind_of(cls, directory: str | Path) -> type[Self]:
        """Return the class of a saved task, without loading it.

        Args:
            directory: As for `load`.

        Returns:
            `Translator`, `TextGenerator`, `TextClassifier`, `TextTagger`, or your own subclass.

        Raises:
            InputError: If there is no task.
        """
        path = as_path(directory)
        kinds = {name: kind for name, kind in ModelTask._kinds.items() if issubclass(kind, cls)}
        for name, kind in kinds.items():
            if current_path(path, name).is_file():
                return kind
        wanted = f"it has no {' or '.join(kinds)}, which a run writes when its training is done"
        raise InputError(f"{path} is not the directory of a model: {wanted}.")
