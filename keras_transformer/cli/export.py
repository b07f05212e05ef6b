"""`keras-transformer export`."""

from pathlib import Path

import click

from keras_transformer.cli.quiet import start_tensorflow
from keras_transformer.cli.run_report import run_examples

# As in `export`, which is imported late: it takes seconds.
OPTIMIZATIONS = ("float32", "bfloat16", "xla")


@click.command()
@click.argument("model", type=click.Path())
@click.argument("directory", type=click.Path())
@click.option("--example", "examples", multiple=True, help="A real source, for the check and the warm-up.")
@click.option(
    "--optimize",
    default="float32",
    show_default=True,
    type=click.Choice(OPTIMIZATIONS),
    help="bfloat16: weights of half the size. xla: a search compiled for lengths 16, 32, 64 and so on.",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["saved_model", "ctranslate2"]),
    default="saved_model",
    show_default=True,
    help="What to write; ctranslate2 needs the extra interop, and a DIRECTORY that is not there yet.",
)
def export(model: str, directory: str, examples: tuple[str, ...], optimize: str, file_format: str) -> None:
    """Write MODEL, a directory of train, as the next version of the SavedModel in DIRECTORY.

    The export is loaded in a process that has neither Keras nor this package, and must answer
    as the model does, before it gets its version number. Some examples are compared too, and a
    server warms up with them: without --example, the first that train tested MODEL on.

    \b
      keras-transformer export runs/dates saved_models/dates --example "3 mars 2023"
      keras-transformer export runs/dates saved_models/dates --optimize bfloat16
      keras-transformer export runs/dates dates_ctranslate2 --format ctranslate2
    """
    start_tensorflow()
    from keras_transformer.decoding import Translator
    from keras_transformer.export import export_saved_model

    translator = Translator.load(model)
    examples = examples or run_examples(Path(model))
    if file_format == "ctranslate2":
        from keras_transformer.interop import export_ctranslate2

        click.echo(str(export_ctranslate2(translator, directory)))
        return
    click.echo(str(export_saved_model(translator, Path(directory), examples, optimize)))
