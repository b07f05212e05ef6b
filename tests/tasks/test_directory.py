"""A translator's directory: what is read back, and what is refused."""

import dataclasses
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer._files import Checksums
from keras_transformer.decoding import (
    BeamSearch,
    Constraints,
    GreedySearch,
    SampleSearch,
    Search,
)
from keras_transformer.errors import InputError
from keras_transformer.text import CharacterTokenizer
from keras_transformer.types import SpecialIds


@pytest.fixture(scope="module")
def translator(transformer: keras.Model) -> kt.Translator:
    return kt.Translator(
        transformer,
        CharacterTokenizer("abcde"),
        CharacterTokenizer("wxyz"),
        search=BeamSearch(3, length_penalty=0.5),
        max_source_length=40,
        max_target_length=6,
    )


@pytest.fixture(scope="module")
def saved(translator: kt.Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("saved") / "translator"
    translator.save(directory)
    return directory


@pytest.fixture
def directory(saved: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(saved, tmp_path / "translator"))


def test_a_task_replaces_a_task_of_another_kind(directory: Path) -> None:
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16}
    model = kt.EncoderModel(9, 2, pooling="mean", **sizes)
    kt.TextClassifier(model, CharacterTokenizer("abcde"), ["x", "y"]).save(directory)
    loaded = kt.tasks.ModelTask.load(directory)
    assert type(loaded) is kt.TextClassifier
    assert kt.tasks.ModelTask.kind_of(directory) is kt.TextClassifier
    with pytest.raises(InputError, match=r"is not the directory of a model: it has no translator\.json"):
        kt.Translator.load(directory)


def change_options(directory: Path, **options: Any) -> None:
    path = directory / "translator.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **options}))
    # As somebody who edits it by hand must.
    (directory / Checksums.file).unlink()


def test_the_directory_holds_nothing_else(directory: Path) -> None:
    names = sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*"))
    assert names == [
        "SHA256SUMS",
        "model.keras",
        "source_tokenizer",
        "source_tokenizer/tokenizer.json",
        "source_tokenizer/vocabulary.txt",
        "target_tokenizer",
        "target_tokenizer/tokenizer.json",
        "target_tokenizer/vocabulary.txt",
        "translator.json",
    ]


def test_everything_is_read_back(directory: Path) -> None:
    translator = kt.Translator.load(str(directory))
    assert type(translator) is kt.Translator
    assert isinstance(translator.search, BeamSearch)
    assert (translator.search.beam_size, translator.search.length_penalty) == (3, 0.5)
    assert (translator.max_source_length, translator.max_target_length) == (40, 6)
    assert translator.source_tokenizer.vocabulary == tuple("abcde")
    assert translator.target_tokenizer.vocabulary == tuple("wxyz")


@pytest.mark.parametrize("part", ["model.keras", "source_tokenizer", "target_tokenizer"])
def test_parts_of_two_models_are_refused(
    transformer: keras.Model, directory: Path, tmp_path: Path, part: str
) -> None:
    """As a kill leaves them between two renames: vocabularies of one size would fit, and answer nonsense."""
    model = type(transformer).from_config(transformer.get_config())
    other = kt.Translator(model, CharacterTokenizer("edcba"), CharacterTokenizer("zyxw"))
    other.save(tmp_path / "other")
    shutil.move(directory / part, tmp_path / "old")
    shutil.move(tmp_path / "other" / part, directory / part)
    with pytest.raises(
        InputError, match=rf"translator/{part}.* is damaged, half copied or of another model: "
    ):
        kt.Translator.load(directory)


@pytest.mark.parametrize(
    "search",
    [
        GreedySearch(length_penalty=0.3),
        BeamSearch(3, length_penalty=0.5, special_ids=SpecialIds(end=7)),
        BeamSearch(1, early_stopping="never", constraints=Constraints(min_length=2, banned_token_ids=(5,))),
        BeamSearch(
            2,
            length_normalization="length",
            early_stopping=False,
            cut_off_competes=True,
            constraints=Constraints(
                first_token_ids=(5,),
                force_end=True,
                banned_first_token_ids=(4, 6),
                banned_sequences=((4, 5), (6, 5, 4)),
            ),
        ),
        SampleSearch(0.7, top_p=0.9, num_samples=3, seed=5),
    ],
)
def test_every_search_is_read_back(
    transformer: keras.Model, translator: kt.Translator, tmp_path: Path, search: Any
) -> None:
    sides = translator.source_tokenizer, translator.target_tokenizer
    changed = kt.Translator(transformer, *sides, search=search)
    changed.save(tmp_path / "changed")
    # A translator gives the ids of its tokenizers to a search that has none.
    expected = dataclasses.replace(search, special_ids=search.special_ids or SpecialIds())
    assert kt.Translator.load(tmp_path / "changed").search == changed.search == expected


def test_a_search_with_a_kind_of_its_own_is_saved(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Search, "kinds", dict(Search.kinds))

    class OwnSearch(GreedySearch):
        kind = "own"

    own = OwnSearch(special_ids=SpecialIds(), length_penalty=0.3)
    translator.with_changes(search=own).save(tmp_path / "own")
    assert kt.Translator.load(tmp_path / "own").search == own
    assert type(kt.Translator.load(tmp_path / "own").search) is OwnSearch


def test_a_search_that_cannot_be_read_back_is_not_written(directory: Path) -> None:
    class OtherSearch(BeamSearch):
        pass

    translator = kt.Translator.load(directory)
    translator.search = OtherSearch(2)
    message = r"BeamSearch, GreedySearch, SampleSearch.* to be saved\. Received: OtherSearch\."
    with pytest.raises(ValueError, match=message):
        translator.save(directory)


def test_numbers_of_numpy_are_numbers(directory: Path, tmp_path: Path) -> None:
    translator = kt.Translator.load(directory)
    banned = np.array([5], "int32")
    translator.search = BeamSearch(
        np.int64(2), length_penalty=np.float32(0.5), constraints=Constraints(banned_token_ids=banned)
    )
    translator.save(tmp_path / "other")
    search = kt.Translator.load(tmp_path / "other").search
    assert (search.beam_size, search.length_penalty) == (2, 0.5)
    assert search.constraints.banned_token_ids == (5,)


def test_a_subclass_loads_itself(directory: Path) -> None:
    class LoudTranslator(kt.Translator):
        pass

    assert type(LoudTranslator.load(directory)) is LoudTranslator


def test_saving_again_replaces(directory: Path) -> None:
    translator = kt.Translator.load(directory)
    translator.search = GreedySearch(length_penalty=0.25)
    translator.save(directory)
    search = kt.Translator.load(directory).search
    assert isinstance(search, GreedySearch)
    assert search.length_penalty == 0.25


@pytest.mark.parametrize("name", ["model.keras", "translator.json"])
def test_a_directory_of_something_else_is_refused(directory: Path, name: str) -> None:
    (directory / name).unlink()
    with pytest.raises(InputError, match=rf"translator is not the directory of a model: it has no {name}\."):
        kt.Translator.load(directory)


def test_an_absent_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent is not the directory of a model"):
        kt.Translator.load(tmp_path / "absent")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garble(path: Path) -> None:
    path.write_bytes(b"\xff\x00 garbage")


@pytest.mark.parametrize("damage", [cut, empty, garble, Path.unlink])
@pytest.mark.parametrize("name", ["model.keras", "translator.json", "source_tokenizer/tokenizer.json"])
def test_a_damaged_file_is_named(directory: Path, name: str, damage: Callable[[Path], None]) -> None:
    damage(directory / name)
    with pytest.raises(InputError, match=str(directory)) as caught:
        kt.Translator.load(directory)
    assert Path(name).name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "received"),
    [
        ({"search": {"kind": "beam", "beam_size": 0}}, "beam_size=0"),
        ({"search": {"kind": "beam", "length_penalty": -1.0}}, "length_penalty=-1.0"),
        ({"search": {"kind": "greedy", "beam_size": 2}}, "beam_size"),
        ({"search": {"kind": "magic"}}, "Received: 'magic'"),
        ({"search": {"beam_size": 2}}, "Received: None"),
        ({"search": 4}, "search=4"),
        ({"parts": None}, "parts=None"),
        ({"max_target_length": 1}, "max_target_length=1"),
        ({"max_target_length": "long"}, "max_target_length='long'"),
        ({"unknown": 3}, "unknown"),
    ],
)
def test_wrong_options_are_refused(directory: Path, options: dict[str, Any], received: str) -> None:
    change_options(directory, **options)
    with pytest.raises(InputError, match=str(directory)) as caught:
        kt.Translator.load(directory)
    assert received in str(caught.value)


def test_another_keras_model_is_refused(directory: Path) -> None:
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).save(directory / "model.keras")
    (directory / Checksums.file).unlink()
    with pytest.raises(InputError, match=str(directory)):
        kt.Translator.load(directory)


def test_a_save_that_fails_leaves_the_old_translator(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = kt.Translator.load(directory)
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}

    def no_space(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keras.Model, "save", no_space)
    translator.search = GreedySearch()
    with pytest.raises(InputError, match=r"Cannot write .*: No space left"):
        translator.save(directory)
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before
    assert list(directory.parent.iterdir()) == [directory]


@pytest.mark.slow
def test_a_task_that_has_answered_can_be_given_to_another_process(translator: kt.Translator) -> None:
    answer = translator.translate(["ab"])
    list(translator.stream("ab"))
    assert pickle.loads(pickle.dumps(translator)).translate(["ab"]) == answer


def test_a_link_to_nothing_and_a_pipe_are_refused(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    with pytest.raises(InputError, match=r"Cannot write .*link: it is a link to .*disk, which is not there"):
        kt.Translator.load(directory).save(tmp_path / "link")
    (directory / "model.keras").unlink()
    os.mkfifo(directory / "model.keras")
    with pytest.raises(InputError, match=r"has no model\.keras"):
        kt.Translator.load(directory)
    with pytest.raises(InputError, match=r"model\.keras cannot be read .*: it is no regular file"):
        kt.training.load_model(directory / "model.keras")
