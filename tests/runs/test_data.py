"""Pairs, vocabularies and batches of a run, as `model.fit` gets them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

from keras_transformer.errors import InputError
from keras_transformer.runs import Run, RunConfig, kind, translation
from keras_transformer.runs.kind import RunData, RunKind
from keras_transformer.runs.model import _run_readers
from trained_run import SMALL

Pairs = list[tuple[str, str]]
SENTENCES = [("a dog sat on a mat", "ein Hund sitzt auf der Matte")] * 4
SUBWORDS = {"kind": "subword", "shared": True, "size": 40}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    names = ("source", "target", "test_source", "test_target")
    for name in names:
        lines = 40 if not name.startswith("test") else 3
        (tmp_path / name).write_text("".join(f"{name} {n}\n" for n in range(lines)), encoding="utf-8")
    return {name: str(tmp_path / name) for name in names}


def test_a_part_is_held_out_where_no_validation_is_given(files: dict[str, str]) -> None:
    pairs = Run(RunConfig.default(**files, validation_fraction=0.1)).data
    assert (len(pairs.train), len(pairs.validation), len(pairs.test)) == (36, 4, 3)
    assert not set(pairs.train) & set(pairs.validation)


def test_validation_pairs_are_scored_where_there_is_no_test(files: dict[str, str]) -> None:
    pairs = Run(RunConfig.default(source=files["source"], target=files["target"])).data
    assert pairs.test == pairs.validation


def test_a_dataset_may_have_one_split(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(f"a{number}", f"b{number}") for number in range(20)]
    splits = {"train": pairs}
    monkeypatch.setattr(translation, "read_pairs", lambda origin, split, **options: splits.get(split, []))
    read = Run(RunConfig.default(pairs="tfds:x", validation_fraction=0.1)).data
    assert (len(read.train), len(read.validation)) == (18, 2)
    assert read.test == read.validation


Fitted = tuple[list[Any], list[Any]]


@pytest.fixture
def fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Fitted]:
    """Begin a run; return the batches of its training and of its validation, which are the same pairs."""

    def fit(pairs: Pairs, **options: object) -> Fitted:
        received: list[list[Any]] = []

        def stop(model: Any, training: Any, *, validation_data: Any, **others: object) -> None:
            received.extend([list(training), list(validation_data)])
            raise KeyboardInterrupt

        path = tmp_path / "pairs.tsv"
        path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
        run = Run(RunConfig.default(pairs=str(path), **{**SMALL, "run_directory": str(tmp_path), **options}))
        run.data = RunData(train=pairs, validation=pairs, test=pairs)
        monkeypatch.setattr(keras.Model, "fit", stop)
        with pytest.raises(KeyboardInterrupt):
            run.train(verbose=0)
        return received[0], received[1]

    return fit


def readers(config: RunConfig, directory: Path, pairs: Pairs) -> Any:
    """Make the tokenizers of a run, or read them."""
    return _run_readers(RunKind.of(config), directory, RunData(train=pairs, validation=[], test=[]))


@pytest.mark.parametrize(
    ("vocabulary", "kinds"),
    [
        ({"kind": "character", "shared": True}, ("character", "character")),
        ({"kind": "character", "target_kind": "whitespace", "shared": False}, ("character", "whitespace")),
        ({"kind": "subword", "shared": False, "size": 40}, ("subword", "subword")),
    ],
)
def test_vocabularies(vocabulary: dict[str, Any], kinds: tuple[str, str], tmp_path: Path) -> None:
    config, pairs = RunConfig().override(**vocabulary), [*SENTENCES, ("the cat", "die Katze")]
    tokenizers = readers(config, tmp_path, pairs)
    assert tuple(tokenizer.kind for tokenizer in tokenizers) == kinds
    assert (tokenizers[0] is tokenizers[1]) == config.vocabulary.shared


def test_vocabularies_are_made_once(tmp_path: Path) -> None:
    config = RunConfig().override(kind="character", shared=False)
    for pairs in ([("ab", "xyz"), ("b", "z")], [("other", "texts")]):
        tokenizers = readers(config, tmp_path, pairs)
        assert [tokenizer.vocabulary_size for tokenizer in tokenizers] == [6, 7]


def test_half_a_vocabulary_is_made_again_unless_it_was_trained_on(tmp_path: Path) -> None:
    """A process that was killed between the two files of a vocabulary leaves one."""
    config, pairs = RunConfig().override(kind="character", shared=False), [("ab", "xyz"), ("b", "z")]
    options = tmp_path / "target_tokenizer/tokenizer.json"
    readers(config, tmp_path, pairs)
    options.unlink()
    readers(config, tmp_path, pairs)
    assert options.exists()
    options.unlink()
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/state.json").write_text("{}")
    with pytest.raises(InputError, match=r"no longer both source_tokenizer and target_tokenizer"):
        readers(config, tmp_path, pairs)


@pytest.mark.parametrize(
    ("pairs", "options", "message"),
    [
        ([("abcdefghij", "a")], {"tokens_per_batch": 8}, "tokens_per_batch=8, longest=11 tokens"),
        ([("abcabc", "abc")], {"max_source_length": 4}, "The training pairs: Every pair is too long"),
        ([("ab", "c")], {"gradient_accumulation_steps": 3}, "gradient_accumulation_steps=3, 1 batches an ep"),
        ([("a b", "c d")], {"kind": "whitespace", "share_embeddings": True}, "needs one vocabulary for both"),
    ],
)
def test_data_that_do_not_fit(
    pairs: Pairs, options: dict[str, object], message: str, fitted: Callable[..., Fitted]
) -> None:
    with pytest.raises(InputError, match=message):
        fitted(pairs, **options)


@pytest.mark.slow
def test_subword_dropout_of_one_side(fitted: Callable[..., Fitted]) -> None:
    rates = {"subword_dropout": 0.5, "target_subword_dropout": 0.0}
    [(after, same_labels)], [(before, labels)] = fitted(
        SENTENCES, **{**SUBWORDS, **rates, "max_target_length": 40}
    )
    assert after["encoder_token_ids"].shape[1] > before["encoder_token_ids"].shape[1]
    assert labels.numpy().tolist() == same_labels.numpy().tolist()


def test_subword_dropout_changes_the_sides_that_have_subwords(fitted: Callable[..., Fitted]) -> None:
    options = {"kind": "subword", "target_kind": "character", "size": 32, "subword_dropout": 0.5}
    [(after, same_labels)], [(before, labels)] = fitted(SENTENCES, **options, max_target_length=40)
    assert after["encoder_token_ids"].shape[1] > before["encoder_token_ids"].shape[1]
    assert labels.numpy().tolist() == same_labels.numpy().tolist()


@pytest.mark.slow
def test_each_side_has_its_own_limit_of_subword_dropout(fitted: Callable[..., Fitted]) -> None:
    pairs = [("a dog sat on a mat", "a mat")] * 4
    options = {**SUBWORDS, "size": 24, "subword_dropout": 0.9, "max_target_length": 5}
    [(after, _)], [(before, _)] = fitted(pairs, **options)
    assert before["encoder_token_ids"].shape[1] > 5
    assert after["encoder_token_ids"].shape[1] > before["encoder_token_ids"].shape[1] + 1


@pytest.mark.slow
def test_batches_of_an_update_are_weighed(fitted: Callable[..., Fitted]) -> None:
    training, _ = fitted([("abc", "xyz")] * 20, gradient_accumulation_steps=2, tokens_per_batch=32)
    *_, weights = training[0]
    assert len(set(weights.numpy())) == 1


@pytest.mark.slow
def test_shapes_are_few_where_each_is_compiled(
    fitted: Callable[..., Fitted], monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [("a" * (1 + number % 29), "b" * (1 + number % 23)) for number in range(90)]

    def shapes(name: str) -> set[tuple[int, ...]]:
        training, _ = fitted(pairs, tokens_per_batch=64, max_target_length=40, name=name)
        return {(inputs["encoder_token_ids"].shape[1], labels.shape[1]) for inputs, labels in training}

    exact = shapes("exact")
    monkeypatch.setattr(kind, "compiles_each_shape", lambda: True)
    few = shapes("few")
    assert len({source for source, _ in few}) < len({source for source, _ in exact}) / 2
    assert all(source == target for source, target in few)
