"""Write a figure to a file, whole or not at all."""

import io
import os
from pathlib import Path

from matplotlib.figure import Figure

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
