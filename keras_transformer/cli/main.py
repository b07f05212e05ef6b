"""The group of all verbs, and what becomes of a user's mistake."""

import io
import sys
from typing import Any

import click

from keras_transformer.cli.evaluate import evaluate
from keras_transformer.cli.export import export
from keras_transformer.cli.plot import plot
from keras_transformer.cli.quiet import one_line_warnings
from keras_transformer.cli.train import train
from keras_transformer.cli.translate import translate
from keras_transformer.errors import ExportError, InputError


class _Group(click.Group):
    """Prints a mistake as one line and exits with status 2, or with 1 where it is an export that fails."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb."""
        try:
            with one_line_warnings():
                return super().invoke(ctx)
        except InputError as error:
            _fail(str(error))
        except ExportError as error:
            _fail(str(error), status=1)
        except BrokenPipeError:
            raise  # `| head` has read enough; click ends without a word
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            _fail(f"{where}{error.strerror or error}")
        except KeyboardInterrupt:
            _fail("Interrupted.")


def _fail(message: str, status: int = 2) -> None:
    click.echo(f"Error: {' '.join(message.split())}", err=True)
    raise SystemExit(status)


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Begin with: keras-transformer train",
)
@click.version_option(package_name="keras-transformer")
def main() -> None:
    """Train a Transformer on pairs of texts, score it, serve it."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # not all encodings have all letters of an answer
        sys.stdout.reconfigure(errors="backslashreplace")


for _verb in (train, translate, evaluate, export, plot):
    main.add_command(_verb)
