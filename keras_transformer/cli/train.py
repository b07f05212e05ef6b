"""`keras-transformer train`."""

from typing import Any

import click

from keras_transformer.cli.options import run_options
from keras_transformer.cli.quiet import start_tensorflow
from keras_transformer.runs.config import run_config


@click.command()
@click.option("--config", type=click.Path(), help="TOML file with the same fields; flags win over it.")
@click.option("--resume", is_flag=True, help="Go on after the last epoch that was saved; little may change.")
@click.option("--overwrite", is_flag=True, help="Begin anew where a run of this name exists.")
@run_options
def train(config: str | None, resume: bool, overwrite: bool, **flags: Any) -> None:
    """Train a model, score it and export it.

    Without any option this is the built-in task: dates as people write them, in the languages of
    the CLDR, to ISO 8601.

    \b
      keras-transformer train
      keras-transformer train --source train.en.gz --target train.de.gz
      keras-transformer train --pairs tfds:ted_hrlr_translate/pt_to_en --preset small
      keras-transformer train --config run.toml --epochs 20
      keras-transformer train --resume

    It writes runs/NAME (checkpoints, model, tokenizers, training.png, attention.png, report.json,
    tensorboard) and saved_models/NAME/VERSION, which TensorFlow Serving loads. A value in square
    brackets is the default for your own texts.
    """
    # A resumed run has a configuration, of which only the place is not known; pairs decide on its name.
    place = {name: flags[name] for name in ("name", "run_directory", "pairs", "source", "target")}
    run = run_config(config, place if resume and config is None else flags)

    start_tensorflow()
    from keras_transformer.runs.train import train_run

    train_run(run, resume=resume, overwrite=overwrite, flags=None if config else flags)
