"""Shared parts of the plots: arrays, titles and labels in any script, and files."""

import contextlib
import functools
import io
import math
import os
import unicodedata
from collections.abc import Sequence

import numpy as np
from keras import ops
from matplotlib import font_manager
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from keras_transformer._arguments import check_kind
from keras_transformer._files import as_path, write_file
from keras_transformer.errors import InputError
from keras_transformer.types import Tensor

_MAX_LABEL_LENGTH = 16
_MAX_NUM_LABELS = 80  # more would overlap
_INCHES_PER_CHARACTER = 0.1
_DEFAULT_FAMILY = "DejaVu Sans"  # it comes with matplotlib
_HIDDEN = ("Cc", "Cn", "Co", "Cs", "Zl", "Zp")
_HIDDEN_ALONE = (*_HIDDEN, "Cf")


def _new_figure(size: tuple[float, float], title: str) -> Figure:
    """Create a figure of a width and height in inches, with a title in any script."""
    check_kind(str, title=title)
    figure = Figure(size, layout="constrained")
    _show_any_script(figure.suptitle(title))
    return figure


def _saved_figure(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    """Write the figure to a file if a path is given, and return it. The suffix sets the format."""
    if path is None:
        return figure
    path = as_path(path)
    formats = figure.canvas.get_supported_filetypes()
    picture_format = path.suffix[1:].lower()
    if picture_format not in formats:
        raise InputError(
            f"The name of a picture must end in one of .{', .'.join(sorted(formats))}. Received: {path}."
        )
    picture = io.BytesIO()
    figure.savefig(picture, format=picture_format, dpi=150, bbox_inches="tight")
    write_file(path, picture.getvalue())
    return figure


def _finite_array(name: str, tensor: Tensor) -> np.ndarray:
    """Return a tensor as a float32 array; raise ValueError if a value is not finite."""
    values = np.asarray(ops.convert_to_numpy(tensor), dtype="float32")
    if not np.isfinite(values).all():
        raise ValueError(
            f"`{name}` must be finite. Received: {np.count_nonzero(~np.isfinite(values))} NaN or inf."
        )
    return values


def _label_axis(axis: Axis, name: str, tokens: Sequence[str] | None = None, *, rotation: float = 0) -> None:
    """Label an axis, and its ticks with tokens or, without tokens, with integers."""
    axis.set_label_text(name)
    _show_any_script(axis.label)
    if tokens is None:
        axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
        return
    step = max(1, math.ceil(len(tokens) / _MAX_NUM_LABELS))
    labels = [_token_label(token) for token in tokens[::step]]
    axis.set_ticks(range(0, len(tokens), step), labels)
    # Short labels fit without rotation.
    for text, label in zip(axis.get_ticklabels(), labels, strict=True):
        text.set_rotation(rotation if len(label) > 2 else 0)
        _show_any_script(text)


def _label_inches(tokens: Sequence[str]) -> float:
    """Return the approximate length of the longest label in inches, to size the figure."""
    return _INCHES_PER_CHARACTER * max((len(_token_label(token)) for token in tokens), default=0)


def _token_label(token: str) -> str:
    """Return a label for a token in which spaces and invisible characters are visible."""
    label = _drawable(token).replace(" ", "\N{OPEN BOX}")
    # A combining mark without a letter is shown on a dotted circle.
    if label and unicodedata.category(label[0]).startswith("M"):
        label = f"\N{DOTTED CIRCLE}{label}"
    return label if len(label) <= _MAX_LABEL_LENGTH else f"{label[:_MAX_LABEL_LENGTH]}…"


def _drawable(text: str) -> str:
    """Replace characters that are invisible or that no font has by their code points."""
    # Joiners and direction characters change their neighbors; a label of only one is invisible.
    hidden = _HIDDEN_ALONE if len(text) == 1 else _HIDDEN
    return "".join(
        f"U+{ord(character):04X}"
        if unicodedata.category(character) in hidden or _family_of(character) is None
        else character
        for character in text
    )


def _show_any_script(text: Text) -> None:
    """Select fonts that have the characters of a text."""
    # Right-to-left text and joined Arabic letters need matplotlib 3.11 or later.
    # Only the families that the text needs: with all of 19 families as fallback, matplotlib took 0.9 s
    # instead of 0.3 s for 80 labels. It also warns of characters that no family has.
    label = _drawable(text.get_text())
    families = [_family_of(character) for character in label]
    text.set_text(label)
    text.set_fontfamily(list(dict.fromkeys([_DEFAULT_FAMILY, *filter(None, families)])))
    # Otherwise, dollar signs would start a formula.
    text.set_parse_math(False)


@functools.lru_cache(maxsize=4096)
def _family_of(character: str) -> str | None:
    """Return the first font family that has a character, or None."""
    for name, path in _families().items():
        # The file may be missing, or not a drawable font.
        with contextlib.suppress(OSError, RuntimeError):
            if font_manager.get_font(path).get_char_index(ord(character)):
                return name
    return None


@functools.lru_cache(maxsize=1)
def _families() -> dict[str, str]:
    """Return the font file of each family with an upright regular face, the default family first."""
    files = {
        font.name: font.fname
        for font in sorted(font_manager.fontManager.ttflist, key=lambda font: font.name)
        if font.style == "normal" and font.weight in (400, "normal", "regular")
    }
    # "Last Resort" draws a box for every character. STIX and cm are for formulas.
    useless = ("Last Resort", "STIX", "cm", _DEFAULT_FAMILY)
    others = {name: path for name, path in files.items() if not name.startswith(useless)}
    return {_DEFAULT_FAMILY: font_manager.findfont(_DEFAULT_FAMILY), **others}
