"""What a terminal shows: bars and talk on standard error, and a user's mistake as one line."""

import contextlib
import gc
import io
import logging
import os
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator

import click
from click.termui import progressbar

from keras_transformer.errors import ExportError, InputError

_PACKAGE = __package__.partition(".")[0]
# What a terminal obeys: control characters may hide or colour a text, or type one.
_NO_MEMORY = re.compile(
    r"RESOURCE_EXHAUSTED|OOM when|out of memory|cannot allocate memory|bad_alloc|failed to allocate",
    re.IGNORECASE,
)
# As `keras_transformer_cli` sets `TF_CPP_MIN_LOG_LEVEL`, unless it is set.
_QUIET = "3"
_NOTICE = re.compile(r"^(I\d{4} |WARNING: All log messages before absl::InitializeLog).*\n", re.MULTILINE)
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))}


class Verb(click.Command):
    """A command that ends with status 2 for a user's mistake, and with 1 for an export that is not right."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            with _talk():
                return super().invoke(ctx)
        except (InputError, ExportError) as error:
            _fail(str(error), status=2 if isinstance(error, InputError) else 1)
        except BrokenPipeError:
            raise  # `| head` has read enough; click ends without a word
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            _fail(f"{where}{error.strerror or error}")
        except (ValueError, TypeError) as error:
            *_, (frame, _) = traceback.walk_tb(error.__traceback__)
            # A check of ours is of what a user gave; others are faults of ours.
            if "Received: " not in str(error) or not frame.f_globals["__name__"].startswith(_PACKAGE):
                raise
            _fail(str(error))
        except MemoryError as error:
            _fail(f"There must be enough memory. {error}")
        except Exception as error:
            # Backends have errors of their own for it, with pages about their allocators.
            if (reason := _lack_of_memory(error)) is None:
                raise
            _fail(
                "There must be enough memory: a smaller --tokens-per-batch, --batch-size, --preset or --size "
                f"needs less. Received: {reason}"
            )
        except KeyboardInterrupt:
            _fail("Interrupted.")
        return None


def _lack_of_memory(error: BaseException | None) -> str | None:
    """Return what an error, or one that caused it, says of memory that could not be had; else None."""
    while error is not None:
        for line in str(error).splitlines():
            if _NO_MEMORY.search(line):
                return line.strip()[:200]
        error = error.__cause__ or error.__context__
    return None


def _fail(message: str, status: int = 2) -> None:
    click.echo(f"Error: {' '.join(message.split())}".translate(_ESCAPED), err=True)
    raise SystemExit(status)


def _show(text: str) -> None:
    """Print a result; a terminal does not obey the control characters in it."""
    try:
        click.echo(text.translate(_ESCAPED) if sys.stdout.isatty() else text)
    except OSError as error:
        error.filename = "standard output"
        sys.stdout = io.StringIO()  # else Python writes it again as it ends, which makes the status 120
        raise


class _Talk(logging.Handler):
    # Not a `StreamHandler`, which keeps the standard error of when it was made; a test replaces it.
    def emit(self, record: logging.LogRecord) -> None:
        click.echo(record.getMessage().translate(_ESCAPED), err=True)


@contextlib.contextmanager
def _talk() -> Iterator[None]:
    """Show what the package logs and warns of, in lines."""
    logger, handler = logging.getLogger(_PACKAGE), _Talk()
    level, usual = logger.level, warnings.formatwarning

    # Without the line of code that warns, which says nothing to who gave a file or a flag.
    def formatted(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        if category.__module__.partition(".")[0] != _PACKAGE:
            return usual(message, category, filename, lineno, line)
        return f"Warning: {' '.join(str(message).split())}\n"

    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    warnings.formatwarning = formatted
    try:
        yield
    finally:
        warnings.formatwarning = usual
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextlib.contextmanager
def loading(*names: object) -> Iterator[None]:
    """Say that TensorFlow is loaded, and the names; import it, for which the block is there, quietly."""
    if "tensorflow" in sys.modules:
        yield
        return
    click.echo(f"loading {' and '.join(['TensorFlow', *map(str, names)])}".translate(_ESCAPED), err=True)
    with _without_notices():
        # Modules stay as long as the process. Python's garbage collector would read the objects of 4,000
        # modules again and again, and once more at the end: a third of the time of `import tensorflow`.
        gc.disable()
        try:
            yield
        finally:
            gc.freeze()
            gc.enable()


@contextlib.contextmanager
def _without_notices() -> Iterator[None]:
    """Hold back what is written to standard error, and show it without TensorFlow's notices.

    It writes them below Python, before it has read `TF_CPP_MIN_LOG_LEVEL`; who sets that wants to see them.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") != _QUIET:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as held:
        try:
            os.dup2(held.fileno(), 2)
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            held.seek(0)
            sys.stderr.write(_NOTICE.sub("", held.read().decode(errors="backslashreplace")))


@contextlib.contextmanager
def progress_bar(length: int, label: str) -> Iterator[Callable[[int], None]]:
    """Show a bar, and yield a function that is told how many more of its items are done."""
    with progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update
