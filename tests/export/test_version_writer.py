"""The files of one version."""

from pathlib import Path

import keras_transformer as kt
from keras_transformer.export.saved_model import needs_tensorflow_text


def test_only_subwords_need_tensorflow_text(
    translator: kt.Translator, subword_translator: kt.Translator
) -> None:
    assert not needs_tensorflow_text(translator)
    assert needs_tensorflow_text(subword_translator)


def test_the_readme_names_the_version_and_the_examples(exported: Path) -> None:
    text = (exported / "README.md").read_text(encoding="utf-8")
    assert 'tf.saved_model.load("tiny/1")' in text
    assert str(exported.parent.parent) not in text
    assert '{"instances": ["a dog"]}' in text


def test_vocabularies_are_assets_of_their_own(exported: Path, translator: kt.Translator) -> None:
    for side in ("source", "target"):
        lines = (exported / f"assets/{side}_vocabulary.txt").read_text(encoding="utf-8").splitlines()
        assert len(lines) == translator.source_tokenizer.vocabulary_size
