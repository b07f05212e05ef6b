"""What `mkdocstrings` changes in a docstring: `Example:` holds code, as `Examples:` does."""

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Reads the word for a single example as that for several."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the heading before the docstring is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
