"""`keras-transformer export`."""

import click

from keras_transformer.cli.options import choose_model
from keras_transformer.cli.terminal import Verb, _show, loading
from keras_transformer.errors import InputError
from keras_transformer.types import FIXED_OPTIMIZATIONS, OPTIMIZATIONS

_LENGTH = click.IntRange(min=2)  # with the end token
# Single files, in which every size is fixed.
_FIXED = ("litert", "onnx")


@click.command(cls=Verb)
@click.argument("model", type=click.Path())
@click.argument("directory", type=click.Path())
@click.option("--example", "examples", multiple=True, help="A real source, for the check and the warm-up.")
@click.option(
    "--optimize",
    default="float32",
    show_default=True,
    type=click.Choice([*dict.fromkeys(OPTIMIZATIONS + FIXED_OPTIMIZATIONS)]),
    help="bfloat16: weights of half the size. xla: a search compiled for lengths 16, 32, 64 and so on. int8, "
    "for litert and onnx: a file of a third of the size.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Of saved_model, for processors alone: faster, with so many threads for the sources of a request.",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["saved_model", "ctranslate2", *_FIXED]),
    default="saved_model",
    show_default=True,
    help="What to write. ctranslate2 needs the extra interop, and a DIRECTORY that is not there yet; "
    "litert and onnx write one file, greedy decoding of token ids; onnx needs the extra onnx.",
)
@click.option("--source-length", type=_LENGTH, help="Of litert and onnx: tokens of a source; else its limit.")
@click.option("--max-length", type=_LENGTH, help="Of litert and onnx: tokens of an output; else its limit.")
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
    """Write MODEL, a directory of train, as the next version of the SavedModel in DIRECTORY.

    The export is loaded in a process that has neither Keras nor this package, and must answer
    as the model does, before it gets its version number. Some examples are compared too, and a
    server warms up with them: without --example, the first that train tested MODEL on. For litert
    and onnx DIRECTORY is the file.

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
        from keras_transformer.tasks import Translator, load_task
    task = load_task(path)
    if examples and task.source.name != "text":
        raise InputError(f"--example is for models that read texts. Received: {examples[0]!r}, for {model}.")
    examples = examples or Run.examples(path)
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
