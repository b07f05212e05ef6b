"""The streamed dataset holds the same pairs as the one in memory, in batches of the same kind."""

import gzip
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.data import Pair, ParallelText, drop_tokens, streamed_dataset, translation_dataset
from keras_transformer.errors import InputError
from keras_transformer.text import CharacterTokenizer

Batches = list[tuple[np.ndarray, np.ndarray]]
OPTIONS: dict[str, Any] = {"tokens_per_batch": 100, "max_source_length": 25, "max_target_length": 25}


def batches_of(dataset: tf.data.Dataset) -> Batches:
    return [(inputs["encoder_token_ids"], labels) for inputs, labels in dataset.as_numpy_iterator()]


def rows_of(batches: Batches) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All pairs without their padding, sorted."""
    pairs = [pair for batch in batches for pair in zip(*batch, strict=True)]
    return sorted((tuple(source[source > 0]), tuple(target[target > 0])) for source, target in pairs)


def same(first: Batches, second: Batches) -> bool:
    return [[array.tolist() for array in batch] for batch in first] == [
        [array.tolist() for array in batch] for batch in second
    ]


@pytest.mark.parametrize("chunk_size", [1, 50, 1000])
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_pair_is_there_once(
    pairs: list[Pair], tokenizer: CharacterTokenizer, chunk_size: int, shuffle: bool
) -> None:
    options = {**OPTIONS, "shuffle": shuffle}
    streamed = batches_of(
        streamed_dataset(lambda: iter(pairs), tokenizer, tokenizer, chunk_size=chunk_size, **options)
    )
    assert rows_of(streamed) == rows_of(
        batches_of(translation_dataset(pairs, tokenizer, tokenizer, **options))
    )
    assert max(max(source.size, labels.size) for source, labels in streamed) <= 100


def test_one_chunk_in_order_is_what_the_dataset_in_memory_is(
    pairs: list[Pair], tokenizer: CharacterTokenizer
) -> None:
    options = {**OPTIONS, "shuffle": False, "bucket_boundaries": [5, 9, 14, 19, 25]}
    streamed = batches_of(streamed_dataset(pairs, tokenizer, tokenizer, **options))
    assert same(streamed, batches_of(translation_dataset(pairs, tokenizer, tokenizer, **options)))


def test_epochs_differ_and_a_resumed_run_sees_the_same(
    pairs: list[Pair], tokenizer: CharacterTokenizer
) -> None:
    def epochs(first: int, number: int, **options: Any) -> list[Batches]:
        dataset = streamed_dataset(
            lambda: iter(pairs),
            tokenizer,
            tokenizer,
            chunk_size=60,
            first_epoch=first,
            noise=[drop_tokens(0.3)],
            **OPTIONS,
            **options,
        )
        return [batches_of(dataset) for _ in range(number)]

    uninterrupted = epochs(0, 3)
    assert not same(uninterrupted[0], uninterrupted[1])
    assert all(map(same, epochs(1, 2), uninterrupted[1:]))
    assert not same(epochs(0, 1, seed=1)[0], uninterrupted[0])


@pytest.mark.parametrize("kind", ["dataset", "list", "files"])
def test_what_gives_pairs(
    pairs: list[Pair], tokenizer: CharacterTokenizer, tmp_path: Path, kind: str
) -> None:
    given: Any = pairs
    if kind == "dataset":
        given = tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*pairs, strict=True))))
    if kind == "files":
        (tmp_path / "a.txt").write_text("\n".join(source for source, _ in pairs), encoding="utf-8")
        with gzip.open(tmp_path / "b.txt.gz", "wt", encoding="utf-8", newline="\r\n") as file:
            file.write("\ufeff" + "".join(f"{target}\n" for _, target in pairs))
        given = ParallelText(tmp_path / "a.txt", tmp_path / "b.txt.gz")
        assert list(given) == pairs
    wanted = streamed_dataset(lambda: iter(pairs), tokenizer, tokenizer, **OPTIONS)
    assert same(batches_of(streamed_dataset(given, tokenizer, tokenizer, **OPTIONS)), batches_of(wanted))


def test_an_iterator_is_refused(tokenizer: CharacterTokenizer) -> None:
    with pytest.raises(TypeError, match=r"anew for each epoch.*an iterator of class generator"):
        streamed_dataset((pair for pair in [("a", "b")]), tokenizer, tokenizer)


def test_a_generator_fills_the_dataset_in_memory(pairs: list[Pair], tokenizer: CharacterTokenizer) -> None:
    dataset = translation_dataset((pair for pair in pairs), tokenizer, tokenizer, **OPTIONS)
    assert same(batches_of(dataset), batches_of(translation_dataset(pairs, tokenizer, tokenizer, **OPTIONS)))


def test_long_pairs_are_counted_in_the_first_epoch(
    tokenizer: CharacterTokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    pairs = [("a", "b"), ("a" * 9, "b"), ("a", "b" * 9), (" ", "b")] * 2
    options = {"max_source_length": 5, "max_target_length": 5, "chunk_size": 3}
    dataset = streamed_dataset(lambda: iter(pairs), tokenizer, tokenizer, **options)
    for _ in range(2):
        assert len(rows_of(batches_of(dataset))) == 2
    empty, message = caplog.messages
    assert empty.startswith("Dropped 2 of 8 pairs (25.0 %) of the stream: empty. That is more than 5 %")
    assert "Dropped 4 of 6 pairs (66.7 %) as too long: 2 sources over 5 tokens, 2 targets" in message
    assert "more than 5 %" in message


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "at least one pair with text on both sides"),
        ([("a" * 99, "b")], "Every pair is too long"),
        ([("a", "b", "c")], r"Each element must be a pair of texts.*\('a', 'b', 'c'\)"),
        ([("a", 5)], r"Each element must be a pair of texts.*\('a', 5\)"),
        ([{"en": "a", "de": "b"}], r"Each element must be a pair of texts.*\{'en': 'a', 'de': 'b'\}"),
    ],
)
def test_wrong_pairs(pairs: Any, message: str, tokenizer: CharacterTokenizer) -> None:
    dataset = streamed_dataset(lambda: iter(pairs), tokenizer, tokenizer, **OPTIONS)
    with pytest.raises(tf.errors.OpError, match=f"InputError: .*{message}"):
        batches_of(dataset)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunk_size": 0}, "chunk_size=0"),
        ({"max_target_length": 1}, "max_target_length=1"),
        ({"tokens_per_batch": 24}, "tokens_per_batch=24, longest=25"),
    ],
)
def test_wrong_options(options: dict[str, int], message: str, tokenizer: CharacterTokenizer) -> None:
    with pytest.raises(ValueError, match=message):
        streamed_dataset([("a", "b")], tokenizer, tokenizer, **{**OPTIONS, **options})


def test_files_of_different_lengths(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\ny\n", encoding="utf-8")
    (tmp_path / "b").write_text("x\n", encoding="utf-8")
    for names, numbers in ((("a", "b"), "1 in .*b, more in .*a"), (("b", "a"), "1 in .*b, more in .*a")):
        with pytest.raises(InputError, match=numbers):
            list(ParallelText(*(tmp_path / name for name in names)))


def test_damaged_files(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"no gzip")
    (tmp_path / "b").write_bytes(b"good\nbad \xff\n")
    with pytest.raises(InputError, match=r"a\.gz"):
        list(ParallelText(tmp_path / "a.gz", tmp_path / "a.gz"))
    with pytest.raises(InputError, match="b:2:5: not valid UTF-8"):
        list(ParallelText(tmp_path / "b", tmp_path / "b"))
    with pytest.raises(InputError, match="no such file"):
        ParallelText(tmp_path / "b", tmp_path / "c")
    with pytest.raises(InputError, match="no regular file"):
        ParallelText(tmp_path / "b", tmp_path)


@pytest.mark.parametrize("cached", [False, True])
def test_a_model_learns_from_a_stream(tokenizer: CharacterTokenizer, tmp_path: Path, cached: bool) -> None:
    def pairs() -> Iterator[Pair]:
        return (("ab"[number % 2], "cd"[number % 2]) for number in range(64))

    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16}
    size = tokenizer.vocabulary_size
    model = kt.Transformer(size, size, **sizes)
    kt.training.compile_model(model, 1e-2)
    cache = tmp_path / "ids" if cached else None
    dataset = streamed_dataset(pairs, tokenizer, tokenizer, tokens_per_batch=256, cache=cache)
    # Keras warns of each end that it could not foresee.
    with nullcontext() if cached else pytest.warns(UserWarning, match="ran out of data"):
        losses = model.fit(dataset, epochs=10, verbose=0, shuffle=False).history["loss"]
    assert len(losses) == 10
    assert losses[-1] < 0.8 * losses[0]
