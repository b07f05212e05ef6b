"""`keras-transformer train`."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from keras_transformer._files import check_writable
from keras_transformer.cli.options import check_files
from keras_transformer.cli.run_options import RunVerb, run_options
from keras_transformer.cli.terminal import _show, loading, progress_bar
from keras_transformer.errors import InputError

if TYPE_CHECKING:
    from keras_transformer.runs import Run

_NUM_SHOWN = 8
_Value: TypeAlias = str | int | float | bool | list[str]
_LOCATING = ("name", "run_directory", "task", "pairs", "source", "target")


@click.command(cls=RunVerb)
@click.option(
    "--config",
    type=click.Path(),
    help="TOML file with these options (with _ for -), in the tables of the headings below. In it, source, "
    "target and pairs belong to [data], size to [vocabulary], preset to [model] and epochs to [training]. "
    "Flags override the values of the file.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Continue a run after its last saved epoch. Only a few options may change, such as --epochs.",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing run of this name.")
@click.option("--export/--no-export", default=True, help="Export a SavedModel after training.  [export]")
@run_options
def train(config: str | None, resume: bool, overwrite: bool, export: bool, **flags: _Value | None) -> None:
    """Train a model, score it and export it.

    Without options, it trains on the built-in task: convert dates in many languages and formats (from the
    CLDR) to ISO 8601.

    \b
      keras-transformer train
      keras-transformer train --source train.en --target train.de --name en_de
      keras-transformer train --source 'train-*.en' --target 'train-*.de' --name en_de
      keras-transformer train --pairs tfds:ted_hrlr_translate/pt_to_en --preset small
      keras-transformer train --task classify --pairs reviews.csv --name reviews
      keras-transformer train --task frames --frames windows.npz --name windows
      keras-transformer train --config run.toml --epochs 20
      keras-transformer train --name en_de --resume

    It writes two directories: runs/NAME (checkpoints, model, tokenizers, report.html, report.json, logs)
    and saved_models/NAME/VERSION for TensorFlow Serving (runs/exports/dates/VERSION for the built-in task).

    The defaults below are for your own data; some differ for the built-in task. Model options default to
    those of --preset.
    """
    start, given = time.monotonic(), {name: value for name, value in flags.items() if value is not None}
    check_files(config)
    run = _run(config, given, resume=resume)
    import keras

    from keras_transformer.cli.epoch_progress import _EpochProgress

    exports = export and keras.backend.backend() == "tensorflow"
    if exports:
        check_writable(Path(run.config.export_directory, run.config.name))
    try:
        report = run.train(
            resume=resume,
            overwrite=overwrite,
            callbacks=[_EpochProgress(run.config.training.monitor)],
            verbose=0,
            progress=progress_bar,
        )
    # Caused by the user, so it ends with status 2, like other user errors, and shows how to resume.
    except KeyboardInterrupt as error:
        raise InputError(_interrupted(run)) from error
    _show(str(report))
    for line in run.kind.lines(run.data.test[:_NUM_SHOWN], run.outputs):
        _show(line)
    written = [run.directory / "report.html"]
    try:
        if exports:
            click.echo("exporting, and checking the export in a separate process", err=True)
            written.append(run.export())
    finally:  # report the trained model even if the export fails
        _show(f"wrote {', '.join(map(str, written))} in {time.monotonic() - start:.0f} s")
        _show_next(run, written[1:])
        if report.warning:
            click.echo(f"Warning: {report.warning}", err=True)
        _suggest_more_epochs(run)


def _run(config: str | None, given: dict[str, _Value], *, resume: bool) -> "Run":
    with loading():
        from keras_transformer.runs import Run, RunConfig
    if config is not None:
        return Run.from_toml(config, **given)
    if not resume:
        return Run(RunConfig.default(**given))
    # A resumed run has its own config.json. These options decide its directory, pairs through the name.
    located = RunConfig.default(**{name: given[name] for name in _LOCATING if name in given})
    return Run.open(Path(located.run_directory, located.name), **given)


def _interrupted(run: "Run") -> str:
    if not run.num_epochs:
        return "Interrupted before an epoch was saved: nothing to resume, the same command starts again."
    return (
        f"Interrupted. Epoch {run.num_epochs} of {run.config.training.epochs} is saved; "
        f"go on with: {_resume(run)}"
    )


def _resume(run: "Run") -> str:
    config = run.config
    flags = "" if config.name == "dates" else f" --name {shlex.quote(config.name)}"
    if config.run_directory != type(config)().run_directory:
        flags += f" --run-directory {shlex.quote(config.run_directory)}"
    return f"keras-transformer train{flags} --resume"


def _suggest_more_epochs(run: "Run") -> None:
    # A cosine schedule ends at learning rate 0, so such a run cannot get more epochs.
    if run.is_improving and run.config.training.schedule != "cosine":
        monitor, epochs = run.config.training.monitor, run.num_epochs
        what = "validation loss was still falling" if monitor == "loss" else f"{monitor} was still improving"
        click.echo(
            f"The {what} in epoch {epochs}; go on with: {_resume(run)} --epochs {2 * epochs}", err=True
        )


def _show_next(run: "Run", exported: list[Path]) -> None:
    import keras

    if not exported:
        target = Path(run.config.export_directory, run.config.name)
        command, condition = f"keras-transformer export {run.directory} {target}", ""
        if keras.backend.backend() != "tensorflow":
            command, condition = f"KERAS_BACKEND=tensorflow {command}", ", with Keras on TensorFlow"
        click.echo(f"not exported; export it later{condition}: {command}", err=True)
        return
    version = shlex.quote(str(exported[0]))
    _show("next:")
    _show(f"  {run.kind.command(run.data.test[0], version)}")
    _show(f"  saved_model_cli show --dir {version} --tag_set serve --signature_def serving_default")
