"""Origins of pairs that exclude or need each other; limits; vocabularies."""

import pytest

from keras_transformer.runs import DataConfig, VocabularyConfig


def test_the_default_is_the_built_in_task() -> None:
    config = DataConfig()
    assert config.pairs is None
    assert config.source is None


def test_pairs_and_files_exclude_each_other() -> None:
    message = r"two origins; give one\. Received: pairs='dates', source='a\.en'\."
    with pytest.raises(ValueError, match=message):
        DataConfig(pairs="dates", source="a.en", target="a.de")


@pytest.mark.parametrize("part", ["", "validation_", "test_"])
def test_files_come_in_twos(part: str) -> None:
    message = rf"^`{part}source` and `{part}target` must be given together\. Received: {part}source='a', "
    with pytest.raises(ValueError, match=message):
        DataConfig(**{f"{part}source": "a"})
    DataConfig(**{f"{part}source": "a", f"{part}target": "b"})


@pytest.mark.parametrize(
    ("name", "value", "minimum"),
    [("max_source_length", 1, 2), ("max_target_length", 0, 2), ("tokens_per_batch", 0, 1), ("seed", -1, 0)],
)
def test_limits(name: str, value: int, minimum: int) -> None:
    with pytest.raises(
        ValueError, match=rf"`{name}` must be at least {minimum}\. Received: {name}={value}\."
    ):
        DataConfig(**{name: value})


def test_validation_fraction() -> None:
    files = {"validation_source": "a", "validation_target": "b"}
    assert DataConfig(validation_fraction=0, **files).validation_fraction == 0
    with pytest.raises(ValueError, match=r"`validation_fraction` must be above 0; .*fraction=0\."):
        DataConfig(validation_fraction=0)
    with pytest.raises(ValueError, match=r"`validation_fraction` .* Received: validation_fraction=1\.5\."):
        DataConfig(validation_fraction=1.5)


@pytest.mark.parametrize("name", ["kind", "target_kind"])
def test_unknown_kind(name: str) -> None:
    message = rf"`{name}` must be one of character, subword, whitespace\. Received: {name}='word'\."
    with pytest.raises(ValueError, match=message):
        VocabularyConfig(**{name: "word"})


def test_a_vocabulary_holds_more_than_the_special_tokens() -> None:
    with pytest.raises(ValueError, match=r"`size` must be at least 5\. Received: size=4\."):
        VocabularyConfig(size=4)


def test_a_shared_vocabulary_is_of_one_kind() -> None:
    message = r"set `shared` to false\. Received: kind='character', target_kind='whitespace'\."
    with pytest.raises(ValueError, match=message):
        VocabularyConfig(kind="character", target_kind="whitespace")
    assert not VocabularyConfig(kind="character", target_kind="whitespace", shared=False).shared
    assert VocabularyConfig(kind="character", target_kind="character").shared


def test_subword_dropout_is_for_subwords() -> None:
    message = r"subword vocabularies\. Received: subword_dropout=0\.1, kind='character', target_kind=None\."
    with pytest.raises(ValueError, match=message):
        VocabularyConfig(kind="character", subword_dropout=0.1)
    assert VocabularyConfig(kind="character", target_kind="subword", shared=False, subword_dropout=0.1)


@pytest.mark.parametrize("name", ["pairs", "source", "validation_target", "test_source"])
def test_an_empty_name_is_no_origin(name: str) -> None:
    other = name.replace("source", "target") if "source" in name else name.replace("target", "source")
    with pytest.raises(ValueError, match=r"`\w+` must name a file or a dataset\. Received: \w+=''\."):
        DataConfig(**{name: "", other: ""})


def test_integers_that_no_program_below_takes_are_refused() -> None:
    message = r"`tokens_per_batch` must be below 2\^31\. Received: .*=2147483648\."
    with pytest.raises(ValueError, match=message):
        DataConfig(tokens_per_batch=2**31)
