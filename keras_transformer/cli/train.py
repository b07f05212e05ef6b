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
_PLACE = ("name", "run_directory", "task", "pairs", "source", "target")


@click.command(cls=RunVerb)
@click.option("--config", type=click.Path(), help="TOML file with the same fields; flags win over it.")
@click.option("--resume", is_flag=True, help="Go on after the last epoch that was saved; little may change.")
@click.option("--overwrite", is_flag=True, help="Start again where a run of this name exists.")
@click.option("--export/--no-export", default=True, help="Write a SavedModel in the end.  [export]")
@run_options
def train(config: str | None, resume: bool, overwrite: bool, export: bool, **flags: _Value | None) -> None:
    """Train a model, score it and export it.

    Without any option this is the built-in task: dates as people write them, in the languages of
    the CLDR, to ISO 8601.

    \b
      keras-transformer train
      keras-transformer train --source train.en.gz --target train.de.gz
      keras-transformer train --source 'train-*.en.gz' --target 'train-*.de.gz'
      keras-transformer train --pairs tfds:ted_hrlr_translate/pt_to_en --preset small
      keras-transformer train --task frames --frames windows.npz --targets events.txt
      keras-transformer train --task classify --pairs reviews.csv
      keras-transformer train --config run.toml --epochs 20
      keras-transformer train --resume

    It writes runs/NAME (checkpoints, model, tokenizers, report.html, report.json, training.csv, two
    pictures, tensorboard) and saved_models/NAME/VERSION, which TensorFlow Serving loads; of the built-in task
    runs/exports/dates/VERSION. A value in square brackets is the default for your own texts.
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
    # An end that a user caused, so with status 2 as others, and with the line that says how to go on.
    except KeyboardInterrupt as error:
        raise InputError(_interrupted(run)) from error
    _show(str(report))
    for line in run.kind.lines(run.data.test[:_NUM_SHOWN], run.outputs):
        _show(line)
    written = [run.directory / "report.html"]
    try:
        if exports:
            click.echo("exporting, and asking the export in a process of its own", err=True)
            written.append(run.export())
    finally:  # an export that fails takes nothing from what was trained
        _show(f"wrote {', '.join(map(str, written))} in {time.monotonic() - start:.0f} s")
        _show_next(run, written[1:])
        if report.warning:
            click.echo(f"Warning: {report.warning}", err=True)
        _show_whether_it_ended(run)


def _run(config: str | None, given: dict[str, _Value], *, resume: bool) -> "Run":
    with loading():
        from keras_transformer.runs import Run, RunConfig
    if config is not None:
        return Run.from_toml(config, **given)
    if not resume:
        return Run(RunConfig.default(**given))
    # A resumed run has a file of its own. Only its place is not known, and pairs decide on its name.
    place = {name: given[name] for name in _PLACE if name in given}
    begun = RunConfig.default(**place)
    return Run.open(Path(begun.run_directory, begun.name), **given)


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


def _show_whether_it_ended(run: "Run") -> None:
    # The end of a cosine is a fall, and a run with one may not get more epochs.
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
        command = f"keras-transformer export {run.directory} {target}"
        if keras.backend.backend() != "tensorflow":
            command = f"KERAS_BACKEND=tensorflow {command}"
        click.echo(f"not exported, which can be done later, on TensorFlow: {command}", err=True)
        return
    version = shlex.quote(str(exported[0]))
    _show("next:")
    _show(f"  {run.kind.command(run.data.test[0], version)}")
    _show(f"  saved_model_cli show --dir {version} --tag_set serve --signature_def serving_default")
