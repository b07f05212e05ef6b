"""Training run, used by notebooks and the command line."""

import logging
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import keras

from keras_transformer._backend.compilation_cache import keep_compilations
from keras_transformer._files import as_json, as_path, read_file, read_table, write_file
from keras_transformer.errors import InputError
from keras_transformer.evaluation.report import EvaluationReport
from keras_transformer.export.saved_model import export_saved_model
from keras_transformer.runs.config import RunConfig, Value
from keras_transformer.runs.directory import (
    REPORT_FILE,
    _saved_config,
    begun,
    check_data,
    locked,
    resumed,
)
from keras_transformer.runs.kind import ProgressBar, RunData, RunKind, RunResults
from keras_transformer.runs.model import _run_readers, _RunBatches, _train_model
from keras_transformer.runs.report import _write_report
from keras_transformer.tasks import ModelTask, Translator
from keras_transformer.training.checkpoint import Checkpoint
from keras_transformer.training.distribution import distributed

_LOGGER = logging.getLogger(__name__)
_NUM_EXAMPLES = 8


class Run:
    """Training run in its own directory. It reads data files and trains a task, such as a `Translator`.

    Args:
        config: Configuration; its `task` decides what to train. Defaults to the built-in dates.

    Example:
        ```python
        run = kt.Run.from_toml("multi30k.toml", epochs=20)
        print(run.train())
        run.translator.translate(["a dog runs ."])
        run.export("saved_models/en_de")
        ```
    """

    def __init__(self, config: RunConfig | None = None) -> None:
        if not isinstance(config, RunConfig | None):
            raise TypeError(
                "`config` must be a RunConfig or None; `Run.from_toml(path)` reads a file. "
                f"Received: config={config!r:.200}."
            )
        self.kind = RunKind.of(RunConfig.default() if config is None else config)
        """Task-specific part of the run, which holds the configuration."""
        self.outputs: list[Any] = []
        """Outputs for the test examples, in order. Empty before `train`."""

    @classmethod
    def from_toml(cls, path: str | PathLike[str], **options: Value) -> "Run":
        """Create a run from a TOML file.

        Args:
            path: Path of the file; see `RunConfig`.
            **options: Values by field name, which override the file.

        Raises:
            InputError: If the file cannot be read, or a field name or a value is invalid.
        """
        return cls(RunConfig.from_toml(path).override(**options))

    @classmethod
    def open(cls, directory: str | PathLike[str], **options: Value) -> "Run":
        """Open the directory of a run, to use its model or to continue with `train(resume=True)`.

        Args:
            directory: Directory of the run, such as `runs/de_en`.
            **options: Changed values, by field name.

        Raises:
            InputError: If the directory holds no run, or a field name or a value is invalid.
        """
        path = as_path(directory)
        path = path if path.name.strip(".") else path.resolve()  # `.` and `..` have no name
        # The current path: the directory may have been moved after its configuration was saved.
        place = {"name": path.name, "run_directory": str(path.parent)}
        saved = _saved_config(path)
        if (task := options.get("task", saved.task)) != saved.task:
            raise InputError(f"A run keeps its task. Received: task={task!r}; {path} has {saved.task!r}.")
        return cls(saved.override(**{**place, **options}))

    @staticmethod
    def examples(directory: str | PathLike[str]) -> tuple[Any, ...]:
        """Return some test sources of the run in a directory; an empty tuple if it has no report."""
        # Exports must not depend on the report: a saved task has none, and a damaged one is ignored.
        try:
            examples = read_table(read_file(Path(directory, REPORT_FILE)), directory)["examples"]
            return tuple(example for example in examples if isinstance(example, str | list))
        except (OSError, ValueError, KeyError, TypeError):
            return ()

    @property
    def directory(self) -> Path:
        """Directory of the checkpoints, the trained task and the report."""
        return Path(self.config.run_directory, self.config.name)

    @property
    def config(self) -> RunConfig:
        """Configuration; `train` completes it with what it chose, such as the number of epochs."""
        config: RunConfig = self.kind.config
        return config

    @cached_property
    def data(self) -> RunData:
        """Training, validation and test examples, such as pairs of texts. Read once."""
        return self.kind.read()

    @cached_property
    def task(self) -> ModelTask:
        """Trained task, with the weights of the best epoch or the average of the last epochs.

        Raises:
            InputError: If the run is not trained yet.
        """
        return self.kind.task_class.load(self.directory)

    @property
    def translator(self) -> Translator:
        """Trained `Translator`; raises InputError before `train`, and for runs of other tasks."""
        task = self.task
        if not isinstance(task, Translator):
            raise InputError(f"`task` has what was trained. Received: a run with task={self.config.task!r}.")
        return task

    @property
    def num_epochs(self) -> int:
        """Number of saved epochs."""
        return Checkpoint(self.directory).epoch

    @property
    def is_improving(self) -> bool:
        """Whether the last saved epoch is the best, so that longer training may help."""
        checkpoint = Checkpoint(self.directory)
        return checkpoint.best_epoch == checkpoint.epoch > 1

    def train(
        self,
        *,
        resume: bool = False,
        overwrite: bool = False,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        verbose: str | int = "auto",
        progress: ProgressBar | None = None,
    ) -> EvaluationReport:
        """Train the model, save the task, score it on the test examples, and write `report.html`.

        Args:
            resume: Whether to continue after the last saved epoch.
            overwrite: Whether to replace an earlier run in the directory. The old run is kept until the new
                one has saved its first epoch.
            callbacks: Additional callbacks for `model.fit`.
            verbose: Verbosity of `model.fit`.
            progress: Progress bar factory, as for `evaluate`. Also for the tokenization of a large corpus.

        Returns:
            Scores of the test examples, also written to `report.json`.

        Raises:
            InputError: If the data, the configuration or the directory are not usable, another process trains
                in the directory, or a loss is not finite.
        """
        start, config, directory = time.monotonic(), self.config, self.directory
        if resume and overwrite:
            raise InputError("A run goes on or starts again. Received: --resume and --overwrite.")
        engine = config.training.distribute
        # Before anything else: TensorFlow accepts its number of threads only before the first computation.
        devices = distributed(engine) if engine else nullcontext()
        if kept := keep_compilations():
            _LOGGER.info("compiled functions are cached in %s", kept)
        with locked(directory):
            examples = self.data
            begin = resumed(directory, config) if resume else begun(directory, config, overwrite=overwrite)
            with begin as saved:
                kind = self.kind.completed(saved.chosen)
                parts = {"train": examples.train, "validation": examples.validation}
                check_data(
                    directory, type(kind), **{name: kind.fingerprint(part) for name, part in parts.items()}
                )
                _LOGGER.info("training %s, for example:", kind.noun)
                for example in examples.train[:5]:
                    _LOGGER.info("  %s", kind.describe(example))
                readers = _run_readers(kind, directory, examples)
                data = _RunBatches(kind, examples, readers, progress)
                self.kind = self.kind.completed(data.sizes._asdict())
                trained = _train_model(data, saved, devices, callbacks=callbacks, verbose=verbose)
            # Mixed precision is only for training: the weights are float32, every export accepts a float32
            # model, and its outputs do not depend on the precision of the training.
            self.task = kind.make_task(trained.model.with_dtype("float32"), readers)
            self.task.save(directory)
            report, self.outputs = self.kind.score(self.task, examples.test, progress=progress)
            # Sources for the check and warm-up of an export, which may run without the data files.
            sources = [kind.source(example) for example in examples.test[:_NUM_EXAMPLES]]
            seconds = round(time.monotonic() - start)
            values = {**report.to_dict(), "seconds": seconds, "examples": sources}
            write_file(directory / REPORT_FILE, as_json(values))
            results = RunResults(examples, readers, data.training, self.task, report, self.outputs, directory)
            _write_report(self.kind, results, trained, seconds)
        return report

    def evaluate(
        self,
        examples: Sequence[Any] | None = None,
        *,
        unique: bool = False,
        progress: ProgressBar | None = None,
    ) -> EvaluationReport:
        """Score the trained task.

        Args:
            examples: Examples, such as pairs of sources and targets. Defaults to the test examples of the
                run.
            unique: Whether to score each distinct source once, with all its targets as references.
            progress: Progress bar factory: called with the number of sources and a label, it returns a
                context manager. The yielded function is called after each batch with its number of sources.

        Returns:
            The scores. For translations: exact match and error rates, and BLEU and chrF if a target has
            several words.

        Raises:
            InputError: If there is no trained model, or the examples cannot be read.
        """
        given = self.data.test if examples is None else examples
        return self.kind.score(self.task, given, unique=unique, progress=progress)[0]

    def export(
        self,
        directory: str | PathLike[str] | None = None,
        examples: Sequence[Any] | None = None,
        optimize: str = "float32",
        threads: int | None = None,
    ) -> Path:
        """Export the next version of a SavedModel; see `export.export_saved_model`.

        Args:
            directory: Directory of the model. Defaults to `export_directory/name` of the configuration.
            examples: Realistic sources for the check and the warm-up. Defaults to some test sources.
            optimize: As for `export_saved_model`.
            threads: As for `export_saved_model`.

        Returns:
            The directory of the version.

        Raises:
            InputError: If there is no trained model, the directory is not writable, or the Keras backend is
                not TensorFlow.
            ExportError: If the outputs of the SavedModel differ from those of the task.
        """
        configured = Path(self.config.export_directory, self.config.name)
        place = configured if directory is None else as_path(directory)
        given = self.examples(self.directory) if examples is None else examples
        return export_saved_model(self.task, place, given, optimize, threads)
