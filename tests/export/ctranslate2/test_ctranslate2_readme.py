"""The README names the directory, and its example is Python with real options."""

import ast
import textwrap

import pytest

from keras_transformer.export.directory_readme import ctranslate2_readme

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra `interop` is not installed")


def test_the_example_names_options_that_exist() -> None:
    text = ctranslate2_readme("mine", ["[PAD]", "[UNK]"], 40, 30)
    blocks = [block for block in text.split("\n\n") if block.startswith("    ")]
    tree = ast.parse(textwrap.dedent("\n".join(blocks)))
    [call] = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "translate_batch"
    ]
    options = {keyword.arg: keyword.value for keyword in call.keywords}
    documented = ctranslate2.Translator.translate_batch.__doc__
    assert all(f" {name}: " in documented for name in options)
    assert ast.literal_eval(options["suppress_sequences"]) == [["[PAD]"], ["[UNK]"]]
    assert [ast.literal_eval(options[f"max_{part}_length"]) for part in ("input", "decoding")] == [40, 30]
    assert "for answers that end before" in text
    assert 'Translator("mine"' in text
    assert "`[PAD]`, `[UNK]`" in text
