"""Labels that show any token of any script, with the fonts that are there."""

import functools
import io
import math
import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from matplotlib import font_manager
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text

from keras_transformer.errors import InputError
from keras_transformer.files import write_file


def save_figure(figure: Figure, path: str | os.PathLike[str], *, dpi: int = 150) -> Path:
    """Write a figure to a file; its directory is created.

    Args:
        figure: the figure.
        path: the file; its suffix names the format, for example `.png`, `.svg` or `.pdf`.
        dpi: dots per inch of formats that have dots.

    Returns:
        The path.

    Raises:
        InputError: the format is unknown or the file cannot be written.
    """
    path = Path(path)
    formats = figure.canvas.get_supported_filetypes()
    picture_format = path.suffix[1:].lower()
    if picture_format not in formats:
        raise InputError(
            f"The name of a picture must end in one of .{', .'.join(sorted(formats))}. Received: {path}."
        )
    picture = io.BytesIO()
    figure.savefig(picture, format=picture_format, dpi=dpi, bbox_inches="tight")
    write_file(path, picture.getvalue())
    return path


MAX_LABEL_LENGTH = 16
#: More labels than this overlap: every second, third, ... token is labelled then.
MAX_NUM_LABELS = 80

_INCHES_PER_CHARACTER = 0.1
_DEFAULT_FAMILY = "DejaVu Sans"  # it comes with matplotlib
_DOTTED_CIRCLE = "\N{DOTTED CIRCLE}"
_HIDDEN = ("Cc", "Cn", "Co", "Cs", "Zl", "Zp")
_HIDDEN_ALONE = (*_HIDDEN, "Cf")


def token_label(token: str) -> str:
    """Return text that shows a token.

    A space is shown as an open box, a vowel sign or accent that stands alone on a dotted circle, and
    a character that cannot be seen or that no installed font has as its code point (`U+6708`). Long
    labels are cut.

    >>> token_label("a b"), token_label(" "), token_label(chr(0x7))
    ('a␣b', '␣', 'U+0007')
    """
    label = drawable(token).replace(" ", "\N{OPEN BOX}")
    if label and unicodedata.category(label[0]).startswith("M"):
        label = f"{_DOTTED_CIRCLE}{label}"
    return label if len(label) <= MAX_LABEL_LENGTH else f"{label[:MAX_LABEL_LENGTH]}…"


def drawable(text: str) -> str:
    """Return `text` with code points for the characters that cannot be drawn or seen."""
    # Joiners and direction marks shape the letters beside them; alone they are invisible.
    hidden = _HIDDEN_ALONE if len(text) == 1 else _HIDDEN
    return "".join(
        f"U+{ord(character):04X}"
        if unicodedata.category(character) in hidden or _family_of(character) is None
        else character
        for character in text
    )


def label_inches(tokens: Sequence[str]) -> float:
    """Return about how many inches the longest label of some tokens takes, so that a figure has room."""
    return _INCHES_PER_CHARACTER * max((len(token_label(token)) for token in tokens), default=0)


def set_token_labels(axis: Axis, tokens: Sequence[str], *, rotation: float = 0) -> None:
    """Label the positions 0, 1, ... of an axis with tokens.

    Args:
        axis: `axes.xaxis` or `axes.yaxis`.
        tokens: one token for each position.
        rotation: degrees, counter-clockwise, by which labels of three and more characters are turned.
    """
    step = max(1, math.ceil(len(tokens) / MAX_NUM_LABELS))
    labels = [token_label(token) for token in tokens[::step]]
    axis.set_ticks(range(0, len(tokens), step), labels)
    for text, label in zip(axis.get_ticklabels(), labels, strict=True):
        text.set_rotation(rotation if len(label) > 2 else 0)
        show_any_script(text)


def show_any_script(text: Text) -> None:
    """Make a text of a figure draw its characters as they are, each with a font that has it.

    Words from right to left stand in that order, and Arabic letters are joined, from matplotlib 3.11 on.
    """
    text.set_text(drawable(text.get_text()))
    text.set_fontfamily(font_families(text.get_text()))
    text.set_parse_math(False)  # a dollar sign is a character like any other


def font_families(text: str) -> list[str]:
    """Return the font families that together have the characters of `text`, the default one first."""
    families = [_family_of(character) for character in text]
    return list(dict.fromkeys([_DEFAULT_FAMILY, *(name for name in families if name is not None)]))


@functools.lru_cache(maxsize=4096)
def _family_of(character: str) -> str | None:
    """Return the first font family that has a character."""
    return next((name for name, path in _families().items() if _has_glyph(path, character)), None)


@functools.lru_cache(maxsize=1)
def _families() -> dict[str, str]:
    """Return the font file of each family with an upright regular face, the default one first."""
    files = {
        font.name: font.fname
        for font in sorted(font_manager.fontManager.ttflist, key=lambda font: font.name)
        if font.style == "normal" and font.weight in (400, "normal", "regular")
    }
    # "Last Resort" draws a box for every character; STIX and cm are for formulas.
    useless = ("Last Resort", "STIX", "cm", _DEFAULT_FAMILY)
    others = {name: path for name, path in files.items() if not name.startswith(useless)}
    return {_DEFAULT_FAMILY: font_manager.findfont(_DEFAULT_FAMILY), **others}


def _has_glyph(font_file: str, character: str) -> bool:
    try:
        return bool(font_manager.get_font(font_file).get_char_index(ord(character)))
    except (OSError, RuntimeError):
        return False  # a file that is gone, or not a font that can be drawn
