"""What the reference of the site changes in what griffe reads: `Example:`, and names that are private."""

import re
from typing import Any

import griffe

_PRIVATE = re.compile(r"(?<![\w.])_[A-Za-z]\w*")


class PublicReference(griffe.Extension):
    """Reads `Example:` as code, and shows neither private types nor private constants."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the heading before the docstring is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Leave out private types, and write out private constants."""
        for parameter in func.parameters:
            if _PRIVATE.search(str(parameter.annotation or "")):
                parameter.annotation = None
            default = str(parameter.default or "")
            constant = func.module.members.get(default) if _PRIVATE.fullmatch(default) else None
            if isinstance(constant, griffe.Alias):  # imported from a module that was read before
                constant = func.modules_collection[constant.target_path]
            if isinstance(constant, griffe.Attribute):
                parameter.default = str(constant.value)
        if _PRIVATE.search(str(func.returns or "")):
            func.returns = None

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Leave out a value that is made of private classes, and a private type."""
        if _PRIVATE.search(str(attr.value or "")):
            attr.value = None
        if _PRIVATE.search(str(attr.annotation or "")):
            attr.annotation = None
