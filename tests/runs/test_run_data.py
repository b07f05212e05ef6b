"""Where the pairs of a run come from, and its vocabularies."""

import dataclasses
from pathlib import Path

import pytest

from keras_transformer.errors import InputError
from keras_transformer.runs import DataConfig, RunConfig, TrainingConfig
from keras_transformer.runs import data as run_data
from keras_transformer.runs.data import batches, encode, load_pairs, noise, train_tokenizers


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    for name in ("source", "target", "test_source", "test_target"):
        lines = 40 if not name.startswith("test") else 3
        (tmp_path / name).write_text("".join(f"{name} {n}\n" for n in range(lines)), encoding="utf-8")
    return {name: str(tmp_path / name) for name in ("source", "target", "test_source", "test_target")}


def test_a_part_is_held_out_where_no_validation_is_given(files: dict[str, str]) -> None:
    pairs = load_pairs(DataConfig(**files, validation_fraction=0.1))
    assert len(pairs.train) == 36
    assert len(pairs.validation) == 4
    assert len(pairs.test) == 3
    assert not set(pairs.train) & set(pairs.validation)


def test_validation_pairs_are_scored_where_there_is_no_test(files: dict[str, str]) -> None:
    data = DataConfig(source=files["source"], target=files["target"])
    pairs = load_pairs(data)
    assert pairs.test == pairs.validation


def test_a_dataset_may_have_one_split(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(f"a{number}", f"b{number}") for number in range(20)]
    splits = {"train": pairs}
    monkeypatch.setattr(run_data, "read_pairs", lambda origin, split, **options: splits.get(split, []))
    read = load_pairs(DataConfig(pairs="tfds:x", validation_fraction=0.1))
    assert (len(read.train), len(read.validation)) == (18, 2)
    assert read.test == read.validation


@pytest.mark.parametrize(
    ("vocabulary", "kinds"),
    [
        ({"kind": "character", "shared": True}, ("character", "character")),
        ({"kind": "character", "target_kind": "whitespace", "shared": False}, ("character", "whitespace")),
        ({"kind": "subword", "shared": False, "size": 40}, ("subword", "subword")),
    ],
)
def test_vocabularies(vocabulary: dict[str, object], kinds: tuple[str, str]) -> None:
    run = RunConfig().override(vocabulary)
    tokenizers = train_tokenizers(run, [("a dog sat on a mat", "ein Hund sitzt"), ("the cat", "die Katze")])
    assert tuple(tokenizer.kind for tokenizer in tokenizers) == kinds
    assert (tokenizers[0] is tokenizers[1]) == run.vocabulary.shared


def test_a_batch_must_hold_the_longest_pair() -> None:
    run = RunConfig().override({"kind": "character", "tokens_per_batch": 8})
    pairs = [("abcdefghij", "a")]
    encoded = encode(run, pairs, train_tokenizers(run, pairs))
    with pytest.raises(InputError, match="tokens_per_batch=8, a pair of 11 tokens"):
        batches(run, encoded, shuffle=False)


def test_an_error_of_the_lengths_says_which_pairs() -> None:
    run = RunConfig().override({"kind": "character", "max_source_length": 4})
    tokenizers = train_tokenizers(run, [("abc", "abc")])
    with pytest.raises(InputError, match="The validation pairs: Every pair is too long"):
        encode(run, [("abcabc", "abc")], tokenizers, part="validation")


def test_subword_dropout_of_one_side() -> None:
    pairs = [("a dog sat on a mat", "ein Hund sitzt auf der Matte")] * 4
    rates = {"subword_dropout": 0.5, "target_subword_dropout": 0.0}
    run = RunConfig().override({"kind": "subword", "size": 40, **rates})
    tokenizers = train_tokenizers(run, pairs)
    encoded = encode(run, pairs, tokenizers)
    [(before, answers)] = batches(run, encoded, shuffle=False)
    [(after, same_answers)] = batches(run, encoded, shuffle=False, noise=noise(run, tokenizers))
    assert after["encoder_token_ids"].shape[1] > before["encoder_token_ids"].shape[1]
    assert answers.numpy().tolist() == same_answers.numpy().tolist()


def test_subword_dropout_changes_the_sides_that_have_subwords() -> None:
    pairs = [("a dog sat on a mat", "ein Hund sitzt auf der Matte")] * 4
    flags = {"kind": "subword", "target_kind": "character", "shared": False, "size": 32}
    plain, run = (RunConfig().override({**flags, "subword_dropout": rate}) for rate in (0.0, 0.5))
    tokenizers = train_tokenizers(run, pairs)
    assert noise(plain, tokenizers) == []
    encoded = encode(run, pairs, tokenizers)
    [(before, answers)] = batches(plain, encoded, shuffle=False)
    [(after, same_answers)] = batches(run, encoded, shuffle=False, noise=noise(run, tokenizers))
    assert after["encoder_token_ids"].shape[1] > before["encoder_token_ids"].shape[1]
    assert answers.numpy().tolist() == same_answers.numpy().tolist()


def test_each_side_has_its_own_limit_of_subword_dropout() -> None:
    pairs = [("a dog sat on a mat", "a mat")] * 4
    flags = {"kind": "subword", "size": 24, "subword_dropout": 0.9, "max_target_length": 5}
    run = RunConfig().override(flags)
    encoded = encode(run, pairs, train_tokenizers(run, pairs))
    source_lengths = encoded.source.row_lengths().numpy()
    assert source_lengths.min() >= 5  # above the limit of targets
    [(inputs, _)] = batches(run, encoded, shuffle=False, noise=noise(run, train_tokenizers(run, pairs)))
    assert inputs["encoder_token_ids"].shape[1] > source_lengths.max() + 1


def test_subword_dropout_of_other_vocabularies_is_refused() -> None:
    pairs = [("ab", "xyz"), ("b", "z")]
    characters = train_tokenizers(RunConfig().override({"kind": "character", "shared": False}), pairs)
    with pytest.raises(
        InputError, match=r"subword_dropout=0\.1, .*CharacterTokenizer and CharacterTokenizer"
    ):
        noise(RunConfig().override({"subword_dropout": 0.1}), characters)


def test_rows_are_packed_for_training_alone() -> None:
    run = RunConfig().override({"kind": "character", "packed_length": 16, "tokens_per_batch": 64})
    pairs = [("abc", "xy"), ("a", "xyz"), ("ab", "x")] * 4
    encoded = encode(run, pairs, train_tokenizers(run, pairs))
    for inputs, labels in batches(run, encoded, shuffle=True):
        assert labels.shape == (4, 16)
        assert inputs["decoder_segment_ids"].numpy().max() > 1
    for inputs, _ in batches(run, encoded, shuffle=False):
        assert set(inputs) == {"encoder_token_ids", "decoder_token_ids"}


@pytest.mark.parametrize(("compiles", "distribute"), [(True, None), (False, "tpu")])
def test_shapes_are_few_where_each_is_compiled(
    compiles: bool, distribute: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_data, "jit_compiles", lambda: False)
    run = RunConfig().override({"kind": "character", "tokens_per_batch": 64})
    pairs = [("a" * (1 + number % 29), "b" * (1 + number % 23)) for number in range(90)]
    encoded = encode(run, pairs, train_tokenizers(run, pairs))

    def shapes(run: RunConfig) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
        return {
            (tuple(inputs["encoder_token_ids"].shape), tuple(labels.shape))
            for inputs, labels in batches(run, encoded, shuffle=True)
        }

    exact = shapes(run)
    monkeypatch.setattr(run_data, "jit_compiles", lambda: compiles)
    few = shapes(dataclasses.replace(run, training=TrainingConfig(distribute=distribute)))
    assert len({shape[0][1] for shape in few}) < len({shape[0][1] for shape in exact}) / 2
    assert all(source[1] == target[1] for source, target in few)


def test_a_packed_row_must_hold_the_longest_pair() -> None:
    run = RunConfig().override({"kind": "character", "packed_length": 8})
    pairs = [("abcdefghij", "a")]
    encoded = encode(run, pairs, train_tokenizers(run, pairs))
    with pytest.raises(InputError, match=r"packed_length=8, .*a pair of 11 tokens"):
        batches(run, encoded, shuffle=True)
