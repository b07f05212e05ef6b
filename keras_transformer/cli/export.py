"""`keras-transformer export`."""

import click

from keras_transformer.cli.options import choose_model
from keras_transformer.cli.terminal import Verb, _show, loading
from keras_transformer.errors import InputError
from keras_transformer.types import FIXED_OPTIMIZATIONS, OPTIMIZATIONS

_LENGTH = click.IntRange(min=2)  # includes the end token
# Formats of a single file in which all sizes are fixed.
_FIXED = ("litert", "onnx")


@click.command(cls=Verb)
@click.argument("model", type=click.Path())
@click.argument("directory", type=click.Path())
@click.option(
    "--example",
    "examples",
    multiple=True,
    help="A realistic source text for the check and the warm-up. May be repeated.",
)
@click.option(
    "--optimize",
    default="float32",
    show_default=True,
    type=click.Choice([*dict.fromkeys(OPTIMIZATIONS + FIXED_OPTIMIZATIONS)]),
    help="saved_model: bfloat16 halves the size of the weights; with xla, the server compiles the search for "
    "source lengths of 16, 32, 64 and so on. litert and onnx: int8 makes the file a third of the size.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="For a saved_model served on a CPU: split the sources of each request across this many threads.",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["saved_model", "ctranslate2", *_FIXED]),
    default="saved_model",
    show_default=True,
    help="Format to write. ctranslate2 needs the extra `interop` and a new DIRECTORY. litert and onnx write "
    "one file that maps source token ids to output token ids by greedy search; onnx needs the extra `onnx`.",
)
@click.option(
    "--source-length",
    type=_LENGTH,
    help="litert and onnx only: source length in tokens. Defaults to the model's limit.",
)
@click.option(
    "--max-length",
    type=_LENGTH,
    help="litert and onnx only: output length in tokens. Defaults to the model's limit.",
)
def export(
    model: str,
    directory: str,
    examples: tuple[str, ...],
    optimize: str,
    threads: int | None,
    file_format: str,
    source_length: int | None,
    max_length: int | None,
) -> None:
    """Export a trained model for serving (SavedModel, CTranslate2, LiteRT or ONNX).

    MODEL is a directory written by train or import. A SavedModel is written as the next numbered version in
    DIRECTORY; for litert and onnx DIRECTORY is the output file.

    Before a SavedModel gets its version number, it is loaded in a separate process without Keras and this
    package, and must return the same outputs as the model for the --example texts. The server also warms up
    with these texts. They default to the first test examples of the run.

    \b
      keras-transformer export runs/dates saved_models/dates --example "3 mars 2023"
      keras-transformer export runs/dates saved_models/dates --threads 2
      keras-transformer export runs/dates dates_ctranslate2 --format ctranslate2
      keras-transformer export runs/dates dates.tflite --format litert --source-length 32
    """
    for option, length in (("--source-length", source_length), ("--max-length", max_length)):
        if length is not None and file_format not in _FIXED:
            raise click.UsageError(f"{option} is for the formats litert and onnx. Received: {file_format}.")
    if threads is not None and file_format != "saved_model":
        raise click.UsageError(f"--threads is for the format saved_model. Received: {file_format}.")
    known = {"saved_model": OPTIMIZATIONS, "ctranslate2": ("float32",)}.get(file_format, FIXED_OPTIMIZATIONS)
    if optimize not in known:
        wanted = f"--optimize must be one of {', '.join(known)} for the format {file_format}"
        raise click.UsageError(f"{wanted}. Received: {optimize}.")
    path, _ = choose_model(model, None)
    with loading(path):
        from keras_transformer import export as exports
        from keras_transformer.runs import Run
        from keras_transformer.tasks import ModelTask, Translator
    task = ModelTask.load(path)
    if examples and task.reader.column != "text":
        raise InputError(f"--example is for models that read texts. Received: {examples[0]!r}, for {model}.")
    examples = examples or Run.examples(path)
    click.echo(f"exporting as {file_format}", err=True)
    if file_format == "saved_model":
        written = exports.export_saved_model(task, directory, examples, optimize, threads)
    elif not isinstance(task, Translator):
        wanted = f"--format {file_format} is for models that translate"
        raise InputError(f"{wanted}. Received: {model}, a {type(task).__name__}.")
    elif file_format == "ctranslate2":
        written = exports.export_ctranslate2(task, directory)
    else:
        write = exports.export_litert if file_format == "litert" else exports.export_onnx
        written = write(
            task,
            directory,
            examples,
            source_length=source_length,
            max_length=max_length,
            optimize=optimize,
        )
    _show(str(written))
