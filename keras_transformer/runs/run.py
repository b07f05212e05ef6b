"""A run: what a notebook and the command line both call."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from os import PathLike
from pathlib import Path

import keras

from keras_transformer._arguments import as_pairs, check_flags, check_kind
from keras_transformer._files import as_path, read_file, read_table, write_file
from keras_transformer.errors import InputError
from keras_transformer.evaluation.report import EvaluationReport, evaluate
from keras_transformer.export.saved_model import export_saved_model
from keras_transformer.runs.config import RunConfig, Value
from keras_transformer.runs.data import _load_pairs, _run_tokenizers, _RunData, _RunPairs
from keras_transformer.runs.directory import (
    REPORT_FILE,
    _as_json,
    _saved_config,
    begun,
    check_pairs,
    locked,
    resumed,
)
from keras_transformer.runs.large_corpus import Progress
from keras_transformer.runs.model import _finished_translator, _train_model
from keras_transformer.runs.report import _Results, _write_report
from keras_transformer.tasks import TextTask, Translation, Translator
from keras_transformer.training.checkpoint import Checkpoint
from keras_transformer.training.distribution import distributed
from keras_transformer.types import Pair

_LOGGER = logging.getLogger(__name__)
_NUM_EXAMPLES = 8
# Of texts without n-grams of words, such as ISO dates, BLEU would always be 0.
_METRICS_WITHOUT_WORDS = ("exact_match", "character_error_rate")


class Run:
    """A training run from pairs of texts to a translator, in a directory of its own.

    Args:
        config: all that decides the outcome; the built-in dates if None.

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
        self.outputs: list[Translation] = []
        """The translations of the test pairs, in their order; empty before `train`."""

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
        """Open the directory of a run, to use its translator or to go on with `train(resume=True)`.

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
    def examples(directory: str | PathLike[str]) -> tuple[str, ...]:
        """Return some sources that the run in a directory was tested on; none where there is no report."""
        # An export needs no report: of a translator alone there is none, and one that is damaged gives none.
        try:
            examples = read_table(read_file(Path(directory, REPORT_FILE)), directory)["examples"]
            return tuple(example for example in examples if isinstance(example, str))
        except (OSError, ValueError, KeyError, TypeError):
            return ()

    @property
    def directory(self) -> Path:
        """Where checkpoints, translator, pictures and report are."""
        return Path(self.config.run_directory, self.config.name)

    @cached_property
    def pairs(self) -> _RunPairs:
        """Pairs to train, validate and test on, read once."""
        return _load_pairs(self.config)

    @cached_property
    def translator(self) -> Translator:
        """Translator of the best epoch, or of the mean of the last; raises InputError before `train`."""
        return Translator.load(self.directory)

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
        """Train the model, save its translator, score it on the test pairs, and write `report.html`.

        Args:
            resume: whether to go on after the last epoch that was saved.
            overwrite: whether to replace an earlier run in the directory. It is kept until this one has saved
                its first epoch.
            callbacks: further ones for `model.fit`.
            verbose: of `model.fit`.
            progress: as for `score`; a cache of token ids is shown too.

        Returns:
            Scores of the test pairs, which `report.json` has too.

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
        with locked(directory):
            pairs = self.pairs
            begin = resumed(directory, config) if resume else begun(directory, config, overwrite=overwrite)
            with begin as saved:
                corpus = pairs.corpus
                fingerprint = pairs.train if corpus is None else corpus.fingerprint
                check_pairs(directory, train=fingerprint, validation=pairs.validation)
                _LOGGER.info("training pairs, for example:")
                for source, target in pairs.train[:5]:
                    _LOGGER.info("  %s  →  %s", source.strip(), target)
                num_pairs = len(pairs.train) if corpus is None else corpus.num_pairs
                tokenizers = _run_tokenizers(config, directory, pairs.train, num_pairs)
                data = _RunData(config.completed(saved.chosen), pairs, tokenizers, progress)
                self.config = config.completed(data.sizes._asdict())
                checkpoint = _train_model(
                    data, saved, pairs.validation, devices, callbacks=callbacks, verbose=verbose
                )
            self.translator = _finished_translator(data, directory)
            self.translator.save(directory)
            report, self.outputs = self._scored(pairs.test, progress=progress)
            # Real sources for the check of an export and its warm-up, when the pairs are elsewhere.
            examples = [source for source, _ in pairs.test[:_NUM_EXAMPLES]]
            seconds = round(time.monotonic() - start)
            results = {**report.to_dict(), "seconds": seconds, "examples": examples}
            write_file(directory / REPORT_FILE, _as_json(results))
            _write_report(
                _Results(data, pairs, checkpoint, self.translator, report, self.outputs, seconds), directory
            )
        return report

    def evaluate(
        self, pairs: Sequence[Pair] | None = None, *, unique: bool = False, progress: Progress | None = None
    ) -> EvaluationReport:
        """Score the translator.

        Args:
            pairs: sources and targets; the test pairs of the run if None.
            unique: as for `score`.
            progress: as for `score`.

        Returns:
            Exact match and error rates, and BLEU and chrF where targets have words.

        Raises:
            InputError: if there is no trained model, or the pairs cannot be read.
        """
        return self._scored(self.pairs.test if pairs is None else pairs, unique=unique, progress=progress)[0]

    def export(
        self,
        directory: str | PathLike[str] | None = None,
        examples: Sequence[str] | None = None,
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
            ExportError: if the SavedModel does not answer as the translator does.
        """
        configured = Path(self.config.export_directory, self.config.name)
        place = configured if directory is None else as_path(directory)
        given = self.examples(self.directory) if examples is None else examples
        return export_saved_model(self.translator, place, given, optimize, threads)

    def _scored(
        self, pairs: Sequence[Pair], *, unique: bool = False, progress: Progress | None
    ) -> tuple[EvaluationReport, list[Translation]]:
        size, tokenize = self.config.decoding.batch_size, self.config.decoding.bleu_tokenize
        return _scored(self.translator, pairs, size, tokenize, unique=unique, progress=progress)


def score(
    translator: TextTask,
    pairs: Sequence[Pair],
    *,
    batch_size: int = 64,
    tokenize: str = "13a",
    unique: bool = False,
    progress: Progress | None = None,
) -> EvaluationReport:
    """Translate sources, and compare the outputs with the targets.

    Args:
        translator: a `Translator` or an `export.ServedModel`.
        pairs: sources and targets.
        batch_size: how many are decoded together.
        tokenize: tokenization of sacreBLEU.
        unique: whether a source that occurs several times counts once, with all its targets as references.
        progress: makes a context manager from the number of sources and a label; what it gives is called with
            the number of sources after each batch.

    Returns:
        Error rates, and BLEU and chrF where targets have words or are compared by character.
    """
    return _scored(translator, pairs, batch_size, tokenize, unique=unique, progress=progress)[0]


def _scored(
    translator: TextTask,
    pairs: Sequence[Pair],
    batch_size: int,
    tokenize: str,
    *,
    unique: bool,
    progress: Progress | None,
) -> tuple[EvaluationReport, list[Translation]]:
    if isinstance(translator, type) or not hasattr(translator, "translate_with_scores"):
        raise TypeError(f"`translator` must translate. Received: translator={translator!r:.200}.")
    check_kind(Callable, None, progress=progress)
    check_flags(unique=unique)
    pairs = as_pairs(pairs=pairs)
    # Sources that are equal share a key, and so their references, only where each is to count once.
    references: dict[tuple[int, str], list[str]] = {}
    for number, (source, target) in enumerate(pairs):
        references.setdefault((0 if unique else number, source), []).append(target)
    sources = [source for _, source in references]
    with progress(len(sources), "scoring") if progress else nullcontext() as advance:
        outputs = translator.translate_with_scores(sources, batch_size=batch_size, progress=advance)
    targets = [target for _, target in pairs]
    if isinstance(translator, Translator):
        _warn_of_unwritable(targets, translator)
    has_words = tokenize == "char" or any(" " in target.strip() for target in targets)
    metrics = None if has_words else _METRICS_WITHOUT_WORDS
    texts = [output.text for output in outputs]
    return evaluate(texts, list(references.values()), metrics, tokenize=tokenize), outputs


def _warn_of_unwritable(targets: list[str], translator: Translator) -> None:
    # No output can equal such a reference, whatever the model has learned.
    written = translator.target_tokenizer.round_trip(targets)
    others = [pair for pair in zip(targets, written, strict=True) if pair[0] != pair[1]]
    if others:
        target, nearest = others[0]
        _LOGGER.warning(
            "%d of %d references cannot be written with the target vocabulary, so that no output equals "
            "them: %r would be %r.",
            *(len(others), len(targets), target, nearest),
        )
