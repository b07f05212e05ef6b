"""A run: what a notebook and the command line both call."""

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
from keras_transformer._files import as_path, read_file, read_table, write_file
from keras_transformer.errors import InputError
from keras_transformer.evaluation.report import EvaluationReport
from keras_transformer.export.saved_model import export_saved_model
from keras_transformer.runs.config import RunConfig, Value
from keras_transformer.runs.data import _run_readers, _RunBatches
from keras_transformer.runs.directory import (
    REPORT_FILE,
    _as_json,
    _saved_config,
    begun,
    check_data,
    locked,
    resumed,
)
from keras_transformer.runs.kind import Progress, RunData, RunKind, RunResults
from keras_transformer.runs.model import _finished_task, _train_model
from keras_transformer.runs.report import _write_report
from keras_transformer.tasks import ModelTask, Translator
from keras_transformer.training.checkpoint import Checkpoint
from keras_transformer.training.distribution import distributed

_LOGGER = logging.getLogger(__name__)
_NUM_EXAMPLES = 8


class Run:
    """A training run from files to a task such as a `Translator`, in a directory of its own.

    Args:
        config: all that decides the outcome; the built-in dates if None. Its `task` says what is trained.

    Example:
        ```python
        run = kt.Run.from_toml("multi30k.toml", epochs=20)
        print(run.train())
        run.translator.translate(["ein hund läuft ."])
        run.export("saved_models/de_en")
        ```
    """

    def __init__(self, config: RunConfig | None = None) -> None:
        if not isinstance(config, RunConfig | None):
            raise TypeError(
                "`config` must be a RunConfig or None; `Run.from_toml(path)` reads a file. "
                f"Received: config={config!r:.200}."
            )
        self.config = RunConfig.default() if config is None else config
        self.outputs: list[Any] = []
        """The outputs for the test examples, in their order; empty before `train`."""

    @classmethod
    def from_toml(cls, path: str | PathLike[str], **options: Value) -> "Run":
        """Make the run that a TOML file describes.

        Args:
            path: of the file; see `RunConfig`.
            **options: values that win over the file's, by the names of the fields.

        Raises:
            InputError: if the file cannot be read, or a name or a value is wrong.
        """
        return cls(RunConfig.from_toml(path).override(**options))

    @classmethod
    def open(cls, directory: str | PathLike[str], **options: Value) -> "Run":
        """Open the directory of a run, to use its model or to go on with `train(resume=True)`.

        Args:
            directory: of the run, such as `runs/de_en`.
            **options: values that change, by the names of the fields.

        Raises:
            InputError: if there is no run, or a name or a value is wrong.
        """
        path = as_path(directory)
        # Where it is now, since a directory may have been renamed or moved after its configuration was saved.
        place = {"name": path.name, "run_directory": str(path.parent)}
        return cls(_saved_config(path).override(**{**place, **options}))

    @staticmethod
    def examples(directory: str | PathLike[str]) -> tuple[Any, ...]:
        """Return some sources that the run in a directory was tested on; none where there is no report."""
        # An export needs no report: of a saved task alone there is none, and one that is damaged gives none.
        try:
            examples = read_table(read_file(Path(directory, REPORT_FILE)), directory)["examples"]
            return tuple(example for example in examples if isinstance(example, str | list))
        except (OSError, ValueError, KeyError, TypeError):
            return ()

    @property
    def directory(self) -> Path:
        """Where checkpoints, the trained task, pictures and report are."""
        return Path(self.config.run_directory, self.config.name)

    @property
    def kind(self) -> RunKind:
        """What is special to the task of the run."""
        return RunKind.of(self.config)

    @cached_property
    def data(self) -> RunData:
        """Examples to train, validate and test on, such as pairs of texts; read once."""
        return self.kind.read()

    @cached_property
    def task(self) -> ModelTask:
        """What was trained, with the weights of the best epoch or the mean of the last.

        Raises:
            InputError: before `train`.
        """
        return self.kind.task_class.load(self.directory)

    @property
    def translator(self) -> Translator:
        """The trained task of a run that translates; raises InputError before `train`, and for others."""
        task = self.task
        if not isinstance(task, Translator):
            raise InputError(f"`task` has what was trained. Received: a run with task={self.config.task!r}.")
        return task

    @property
    def num_epochs(self) -> int:
        """Number of epochs that are saved."""
        return Checkpoint(self.directory).epoch

    @property
    def is_improving(self) -> bool:
        """Whether the last epoch that is saved is the best, so that further ones may be better."""
        checkpoint = Checkpoint(self.directory)
        return checkpoint.best_epoch == checkpoint.epoch > 1

    def train(
        self,
        *,
        resume: bool = False,
        overwrite: bool = False,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        verbose: str | int = "auto",
        progress: Progress | None = None,
    ) -> EvaluationReport:
        """Train the model, save the task, score it on the test examples, and write `report.html`.

        Args:
            resume: whether to go on after the last epoch that was saved.
            overwrite: whether to replace an earlier run in the directory. It is kept until this one has saved
                its first epoch.
            callbacks: further ones for `model.fit`.
            verbose: of `model.fit`.
            progress: as for `score`; a cache of token ids is shown too.

        Returns:
            Scores of the test examples, which `report.json` has too.

        Raises:
            InputError: if the data, the configuration or the directory cannot be used, another process trains
                in it, or training is interrupted.
        """
        start, config, directory = time.monotonic(), self.config, self.directory
        if resume and overwrite:
            raise InputError("A run goes on or starts again. Received: --resume and --overwrite.")
        engine = config.training.distribute
        # First of all, since TensorFlow takes cores only before it has computed anything.
        devices = distributed(engine) if engine else nullcontext()
        if kept := keep_compilations():
            _LOGGER.info("compiled functions are kept in %s", kept)
        with locked(directory):
            examples = self.data
            begin = resumed(directory, config) if resume else begun(directory, config, overwrite=overwrite)
            with begin as saved:
                kind = RunKind.of(config.completed(saved.chosen))
                corpus, fingerprint = examples.corpus, kind.fingerprint
                trained_on = fingerprint(examples.train) if corpus is None else corpus.fingerprint
                check_data(
                    directory, type(kind), train=trained_on, validation=fingerprint(examples.validation)
                )
                _LOGGER.info("training %s, for example:", kind.noun)
                for example in examples.train[:5]:
                    _LOGGER.info("  %s", kind.describe(example))
                readers = _run_readers(kind, directory, examples)
                data = _RunBatches(kind, examples, readers, progress)
                self.config = config.completed(data.sizes._asdict())
                checkpoint = _train_model(data, saved, devices, callbacks=callbacks, verbose=verbose)
            self.task = _finished_task(data, directory)
            self.task.save(directory)
            report, self.outputs = self.kind.score(self.task, examples.test, progress=progress)
            # Real sources for the check of an export and its warm-up, when the examples are elsewhere.
            sources = [kind.source(example) for example in examples.test[:_NUM_EXAMPLES]]
            seconds = round(time.monotonic() - start)
            values = {**report.to_dict(), "seconds": seconds, "examples": sources}
            write_file(directory / REPORT_FILE, _as_json(values))
            results = RunResults(examples, readers, data.training, self.task, report, self.outputs, directory)
            _write_report(self.kind, results, checkpoint, seconds)
        return report

    def evaluate(
        self,
        examples: Sequence[Any] | None = None,
        *,
        unique: bool = False,
        progress: Progress | None = None,
    ) -> EvaluationReport:
        """Score what was trained.

        Args:
            examples: such as pairs of sources and targets; the test examples of the run if None.
            unique: as for `score`.
            progress: as for `score`.

        Returns:
            For translations exact match and error rates, and BLEU and chrF where targets have words.

        Raises:
            InputError: if there is no trained model, or the examples cannot be read.
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
        """Write the next version of a SavedModel; see `export.export_saved_model`.

        Args:
            directory: of the model; `export_directory/name` of the configuration if None.
            examples: real sources, for the check and for the warm-up requests; some test sources if None.
            optimize: as there.
            threads: as there.

        Returns:
            The directory of the version.

        Raises:
            InputError: if there is no trained model, the directory cannot be written, or Keras runs on
                another backend than TensorFlow.
            ExportError: if the SavedModel does not answer as the task does.
        """
        configured = Path(self.config.export_directory, self.config.name)
        place = configured if directory is None else as_path(directory)
        given = self.examples(self.directory) if examples is None else examples
        return export_saved_model(self.task, place, given, optimize, threads)
