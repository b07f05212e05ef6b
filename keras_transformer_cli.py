"""The program `keras-transformer`; beside the package, which imports Keras unless this module is there."""

import importlib
import io
import os
import signal
import sys

import click

# The first line of each verb's help, as `keras_transformer.cli` has it; a test compares.
VERBS = {
    "import": "Make DIRECTORY of a pretrained model: a directory of Hugging Face, or a name on its hub.",
    "plan": "Print the memory of a training step: weights, gradients, optimizer and activations by layer.",
    "train": "Train a model, score it and export it.",
    "translate": "Translate texts, one output on each line.",
    "classify": "Give texts labels, one line for each text.",
    "tag": "Tag the words of texts, one word and its tag on each line.",
    "generate": "Continue prompts, one text on each line.",
    "evaluate": "Score a model: BLEU, chrF, exact match and error rates, F1, or perplexity.",
    "export": "Write MODEL, a directory of train, as the next version of the SavedModel in DIRECTORY.",
    "plot": "Draw attention maps, position encodings and masks; prints the paths of the pictures.",
}


class _LazyGroup(click.Group):
    """Verbs that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def invoke(self, ctx: click.Context) -> object:
        if sys.stdout is None:
            raise click.UsageError("Standard output must be open for the results. Received: a closed one.")
        if None in (sys.stdin, sys.stderr):
            # Else the next file that is opened takes the place of a closed stream.
            while os.open(os.devnull, os.O_RDWR) < 2:
                pass
            sys.stdin, sys.stderr = sys.stdin or os.fdopen(0), sys.stderr or os.fdopen(2, "w")
        # Ends a run as Ctrl-C does: nothing stays half written, and a line says how to go on.
        usual = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            return super().invoke(ctx)
        finally:
            signal.signal(signal.SIGTERM, usual)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return super().get_command(ctx, cmd_name)
        # For the verb, which imports TensorFlow when its arguments are checked. It writes notices about the
        # machine to standard error, some of them as errors, such as that it found no GPU.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        # By itself TensorFlow multiplies by oneDNN only with AVX-512; a step took up to a quarter longer.
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
        name = {"import": "import_model"}.get(cmd_name, cmd_name)  # Python has that word
        module = importlib.import_module(f"keras_transformer.cli.{name}")
        command: click.Command = getattr(module, name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Begin with: keras-transformer train",
)
@click.version_option(package_name="keras-transformer")
def main() -> None:
    """Train a Transformer on pairs of texts, score it, serve it."""
    # Not every encoding has all letters of an output.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
