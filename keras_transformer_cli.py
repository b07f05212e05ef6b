"""The `keras-transformer` program. It is outside the package so that `--help` does not import Keras."""

import importlib
import io
import os
import signal
import sys

import click

# The first line of each command's help; a test compares it with the command in `keras_transformer.cli`.
VERBS = {
    "import": "Convert a pretrained Hugging Face model (a local directory or a name on the Hub).",
    "plan": "Estimate the memory of a training step, layer by layer.",
    "train": "Train a model, score it and export it.",
    "translate": "Translate texts.",
    "classify": "Classify texts.",
    "tag": "Tag each word of texts (token classification, such as named entities).",
    "generate": "Generate text from prompts.",
    "evaluate": "Score a model: BLEU, chrF, exact match and error rates, F1, or perplexity.",
    "export": "Export a trained model for serving (SavedModel, CTranslate2, LiteRT or ONNX).",
    "plot": "Draw attention maps, position encodings and masks as PNG pictures.",
}


class _LazyGroup(click.Group):
    """Group of commands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def invoke(self, ctx: click.Context) -> object:
        if sys.stdout is None:
            raise click.UsageError("Standard output must be open for the results. Received: a closed one.")
        if None in (sys.stdin, sys.stderr):
            # Otherwise the next opened file would get the number of the closed stream.
            while os.open(os.devnull, os.O_RDWR) < 2:
                pass
            sys.stdin, sys.stderr = sys.stdin or os.fdopen(0), sys.stderr or os.fdopen(2, "w")
        # Handle SIGTERM like Ctrl-C: no file is left half written, and a message shows how to resume.
        usual = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            return super().invoke(ctx)
        finally:
            signal.signal(signal.SIGTERM, usual)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return super().get_command(ctx, cmd_name)
        # Hide TensorFlow's notices about the machine (such as that it found no GPU) on standard error. The
        # command imports TensorFlow only after its arguments are checked.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        # TensorFlow's default uses oneDNN only with AVX-512; without it a step took up to a quarter longer.
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
        name = {"import": "import_model"}.get(cmd_name, cmd_name)  # a Python keyword
        module = importlib.import_module(f"keras_transformer.cli.{name}")
        command: click.Command = getattr(module, name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: keras-transformer train",
)
@click.version_option(package_name="keras-transformer")
def main() -> None:
    """Train, evaluate, export and run Transformer models."""
    # The terminal's encoding may lack characters of an output.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
