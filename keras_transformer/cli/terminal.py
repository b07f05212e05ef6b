"""Terminal output: results on standard output, messages and progress bars on standard error."""

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
_NO_MEMORY = re.compile(
    r"RESOURCE_EXHAUSTED|OOM when|out of memory|cannot allocate memory|bad_alloc|failed to allocate",
    re.IGNORECASE,
)
# The `TF_CPP_MIN_LOG_LEVEL` that `keras_transformer_cli` sets unless the user has set one.
_QUIET = "3"
_NOTICE = re.compile(r"^(I\d{4} |WARNING: All log messages before absl::InitializeLog).*\n", re.MULTILINE)
# Control characters could hide or color text in a terminal, or type into it.
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))}


class Verb(click.Command):
    """Command that reports a user's mistake in one line (status 2), and a wrong export with status 1."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            with _package_messages():
                return super().invoke(ctx)
        except (InputError, ExportError) as error:
            _fail(str(error), status=2 if isinstance(error, InputError) else 1)
        except BrokenPipeError:
            raise  # `| head` has read enough; click ends silently
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            _fail(f"{where}{error.strerror or error}")
        except (ValueError, TypeError) as error:
            *_, (frame, _) = traceback.walk_tb(error.__traceback__)
            # Our checks of user input say "Received: ". Any other error is a bug and keeps its traceback.
            if "Received: " not in str(error) or not frame.f_globals["__name__"].startswith(_PACKAGE):
                raise
            _fail(str(error))
        except MemoryError as error:
            _fail(f"There must be enough memory. {error}")
        except Exception as error:
            # Each backend has its own out-of-memory errors, with long texts about its allocator.
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
    """Return the line about lack of memory in an error or its causes, else None."""
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
    """Print a result, with control characters escaped in a terminal."""
    try:
        click.echo(text.translate(_ESCAPED) if sys.stdout.isatty() else text)
    except OSError as error:
        error.filename = "standard output"
        sys.stdout = io.StringIO()  # otherwise Python writes again at exit and ends with status 120
        raise


class _MessageHandler(logging.Handler):
    # Not a `StreamHandler`, which keeps the standard error of its construction; tests replace it.
    def emit(self, record: logging.LogRecord) -> None:
        click.echo(record.getMessage().translate(_ESCAPED), err=True)


@contextlib.contextmanager
def _package_messages() -> Iterator[None]:
    """Show the log messages and warnings of this package as plain lines."""
    logger, handler = logging.getLogger(_PACKAGE), _MessageHandler()
    level, usual = logger.level, warnings.formatwarning

    # Leave out the line of code, which does not help the user of a command.
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
    """Announce that TensorFlow and the given names are loaded, and hide notices while the block imports."""
    if "tensorflow" in sys.modules:
        yield
        return
    click.echo(f"loading {' and '.join(['TensorFlow', *map(str, names)])}".translate(_ESCAPED), err=True)
    with _without_notices():
        # Garbage collection would scan the objects of 4,000 modules, which are never freed, again and
        # again: a third of the time of `import tensorflow`.
        gc.disable()
        try:
            yield
        finally:
            gc.freeze()
            gc.enable()


@contextlib.contextmanager
def _without_notices() -> Iterator[None]:
    """Hold back standard error and print it without TensorFlow's notices.

    C++ code writes them before it reads `TF_CPP_MIN_LOG_LEVEL`. If the user has set that, nothing is hidden.
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
    """Show a progress bar; yield a function that adds a number of finished items."""
    with progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update
