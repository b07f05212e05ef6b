"""The streamed dataset holds the same pairs as the one in memory, in batches of the same kind."""

import gzip
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.data import EncodedPairs, ParallelText, source_noise, translation_dataset
from keras_transformer.errors import InputError
from keras_transformer.text import CharacterTokenizer, WhitespaceTokenizer
from keras_transformer.types import Pair

Batches = list[tuple[np.ndarray, np.ndarray]]
OPTIONS: dict[str, Any] = {"tokens_per_batch": 100, "max_source_length": 25, "max_target_length": 25}


def stream(
    pairs: Any, tokenizer: CharacterTokenizer, chunk_size: int | None = 1000, **options: Any
) -> tf.data.Dataset:
    return translation_dataset(pairs, tokenizer, tokenizer, chunk_size=chunk_size, **options)


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


@pytest.mark.parametrize("chunk_size", [10, 50, 1000])
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_pair_is_there_once(
    pairs: list[Pair], tokenizer: CharacterTokenizer, chunk_size: int, shuffle: bool
) -> None:
    options = {**OPTIONS, "shuffle": shuffle}
    streamed = batches_of(stream(lambda: iter(pairs), tokenizer, chunk_size=chunk_size, **options))
    assert rows_of(streamed) == rows_of(
        batches_of(translation_dataset(pairs, tokenizer, tokenizer, **options))
    )
    assert max(max(source.size, labels.size) for source, labels in streamed) <= 100


def test_one_chunk_in_order_is_what_the_dataset_in_memory_is(
    pairs: list[Pair], tokenizer: CharacterTokenizer
) -> None:
    options = {**OPTIONS, "shuffle": False, "bucket_boundaries": [5, 9, 14, 19, 25]}
    streamed = batches_of(stream(pairs, tokenizer, **options))
    assert same(streamed, batches_of(translation_dataset(pairs, tokenizer, tokenizer, **options)))


def test_epochs_differ_and_a_resumed_run_sees_the_same(
    pairs: list[Pair], tokenizer: CharacterTokenizer
) -> None:
    def epochs(first: int, number: int, **options: Any) -> list[Batches]:
        dataset = stream(
            lambda: iter(pairs),
            tokenizer,
            chunk_size=60,
            first_epoch=first,
            noise=[source_noise(0.3)],
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
    wanted = stream(lambda: iter(pairs), tokenizer, **OPTIONS)
    assert same(batches_of(stream(given, tokenizer, **OPTIONS)), batches_of(wanted))


def test_an_iterator_is_refused(tokenizer: CharacterTokenizer) -> None:
    with pytest.raises(TypeError, match=r"again for each epoch.*an iterator of class generator"):
        stream((pair for pair in [("a", "b")]), tokenizer)


def test_a_generator_fills_the_dataset_in_memory(pairs: list[Pair], tokenizer: CharacterTokenizer) -> None:
    dataset = translation_dataset((pair for pair in pairs), tokenizer, tokenizer, **OPTIONS)
    assert same(batches_of(dataset), batches_of(translation_dataset(pairs, tokenizer, tokenizer, **OPTIONS)))


def test_long_pairs_are_counted_in_the_first_epoch(
    tokenizer: CharacterTokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    pairs = [("a", "b"), ("a" * 9, "b"), ("a", "b" * 9), (" ", "b")] * 2
    options = {"max_source_length": 5, "max_target_length": 5, "chunk_size": 3}
    dataset = stream(lambda: iter(pairs), tokenizer, **options)
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
    dataset = stream(lambda: iter(pairs), tokenizer, **OPTIONS)
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
        stream([("a", "b")], tokenizer, **{**OPTIONS, **options})


@pytest.mark.parametrize("cached", [False, True])
def test_a_model_learns_from_a_stream(tokenizer: CharacterTokenizer, tmp_path: Path, cached: bool) -> None:
    def pairs() -> Iterator[Pair]:
        return (("ab"[number % 2], "cd"[number % 2]) for number in range(64))

    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16}
    size = tokenizer.vocabulary_size
    model = kt.Transformer(size, size, **sizes)
    kt.training.compile_model(model, 1e-2)
    options = {"chunk_size": None, "cache": tmp_path / "ids"} if cached else {}
    dataset = stream(pairs, tokenizer, tokens_per_batch=256, **options)
    # Keras warns of each end that it could not foresee.
    with nullcontext() if cached else pytest.warns(UserWarning, match="ran out of data"):
        losses = model.fit(dataset, epochs=10, verbose=0, shuffle=False).history["loss"]
    assert len(losses) == 10
    assert losses[-1] < 0.8 * losses[0]


def test_pairs_in_chunks_without_those_that_do_not_fit(tokenizer: CharacterTokenizer) -> None:
    pairs = [("abc", "de"), ("a", "bcd"), ("e" * 9, "g"), ("h", ""), ("ab", "cd")]
    options = {**OPTIONS, "max_source_length": 5, "max_target_length": 5, "shuffle": False}
    dataset = stream(lambda: iter(pairs), tokenizer, chunk_size=2, **options)
    # The empty pair is no pair; the long one counts in its chunk and is left out.
    for _ in range(2):
        assert [source.tolist() for source, _ in batches_of(dataset)] == [
            [[4, 5, 6, 3], [4, 3, 0, 0]],
            [[4, 5, 3]],
        ]
    one = stream([("a", "b"), ("a" * 9, "b"), ("b", "a")], tokenizer, chunk_size=1, **options)
    assert [source.tolist() for source, _ in batches_of(one)] == [[[4, 3]], [[5, 3]]]


def test_blank_texts_are_left_out_whatever_they_come_in(tokenizer: CharacterTokenizer) -> None:
    pairs = [("\u00a0", "b"), ("ab", "cd"), ("\u3000", "a")]
    dataset = tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*pairs, strict=True))))
    for source in (pairs, dataset):
        assert rows_of(batches_of(stream(source, tokenizer))) == [((4, 5, 3), (6, 7, 3))]


# --- the cache

CACHED = [("abc", "de"), ("a", "bcd"), ("ef", "g"), ("h", "h"), ("abcdefgh", "abcdefgh")]


class Corpus:
    """Pairs that count how often they are read, and may break off."""

    def __init__(self, num_pairs: int = len(CACHED)) -> None:
        self.num_readings = 0
        self.num_pairs = num_pairs

    def __call__(self) -> Iterator[Pair]:
        self.num_readings += 1
        for number, pair in enumerate(CACHED):
            if number == self.num_pairs:
                raise InputError("the disk is gone")
            yield pair


def labels_of(pairs: Any, tokenizer: CharacterTokenizer, cache: Path | None, **options: Any) -> Any:
    dataset = translation_dataset(pairs, tokenizer, tokenizer, cache=cache, **options)
    return [[labels.tolist() for _, labels in dataset.as_numpy_iterator()] for _ in range(3)]


@pytest.mark.parametrize(
    "options",
    [
        {"noise": [source_noise(0.3)], "first_epoch": 2},
        {"seed": 1},
        {"shuffle": False, "max_source_length": 9, "pad_to_bucket_boundary": True},
    ],
)
def test_batches_are_those_of_pairs_in_memory(
    pairs: list[Pair], tokenizer: CharacterTokenizer, tmp_path: Path, options: dict[str, Any]
) -> None:
    options = {"tokens_per_batch": 100, **options}
    wanted = labels_of(pairs, tokenizer, None, **options)
    for _ in range(2):  # made, and found
        assert labels_of(pairs, tokenizer, tmp_path / "ids", **options) == wanted


def test_ids_are_in_order_whatever_thread_makes_them(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    pairs = [("abcdefgh"[: 1 + n % 8], "abcdefg"[: 1 + n % 7]) for n in range(30_000)] + [("a" * 99, "b")]
    done: list[int] = []
    options = {"max_source_length": 20, "max_target_length": 20}
    encoded = EncodedPairs.encode(pairs, tokenizer, tokenizer, **options)
    cached = EncodedPairs.cached(
        pairs, tokenizer, tokenizer, tmp_path / "ids", progress=done.append, **options
    )
    assert sum(done) == len(pairs)
    assert cached.counts() == encoded.counts()
    assert cached.lengths().tolist() == encoded.lengths().tolist()
    indices = tf.constant([29_999, 0, 8191, 8192, 0], tf.int64)
    for ours, wanted in zip(cached._rows(indices), encoded._rows(indices), strict=True):
        assert ours.to_list() == wanted.to_list()


@pytest.mark.parametrize("size", [2**16, 2**16 + 1])
def test_ids_of_large_vocabularies(tmp_path: Path, size: int) -> None:
    tokenizer = WhitespaceTokenizer([f"w{number}" for number in range(size - 4)])
    pairs = [(f"w0 w{size - 5}", f"w{size - 5}")]
    [labels] = labels_of(pairs, tokenizer, tmp_path / "ids")[0]
    assert labels == [[size - 1, 3]]


def test_texts_are_read_once(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    corpus, cache = Corpus(), tmp_path / "deep" / "ids"
    wanted = labels_of(CACHED, tokenizer, None)
    assert labels_of(corpus, tokenizer, cache) == wanted
    assert labels_of(corpus, tokenizer, cache) == wanted
    assert corpus.num_readings == 1
    assert sorted(path.name for path in cache.parent.iterdir()) == ["ids"]


def test_an_empty_directory_is_no_cache_yet(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    cache = tmp_path / "ids"
    cache.mkdir()
    assert labels_of(Corpus(), tokenizer, cache) == labels_of(CACHED, tokenizer, None)
    assert [path.name for path in tmp_path.iterdir()] == ["ids"]


def test_the_number_of_batches_is_known(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    options = {"chunk_size": None, "tokens_per_batch": 10, "max_source_length": 9, "max_target_length": 9}
    dataset = stream(Corpus(), tokenizer, cache=tmp_path / "ids", **options)
    assert len(dataset) == len(list(dataset)) == 3


def test_an_interruption_leaves_no_cache(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    cache = tmp_path / "ids"
    with pytest.raises(InputError, match="the disk is gone"):
        labels_of(Corpus(3), tokenizer, cache)
    assert not cache.exists()
    assert labels_of(Corpus(), tokenizer, cache) == labels_of(CACHED, tokenizer, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ids"]


def test_several_processes_may_make_one_cache(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    cache = tmp_path / "ids"

    def pairs_of_the_slower() -> Iterator[Pair]:
        """Let another one make all of the cache while this one reads."""
        yield CACHED[0]
        if not cache.exists():
            labels_of(CACHED, tokenizer, cache)
        yield from CACHED[1:]

    assert labels_of(pairs_of_the_slower, tokenizer, cache) == labels_of(CACHED, tokenizer, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ids"]


def test_what_a_killed_process_left_is_removed_later(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    old, new = (tmp_path / f".partial-{name}-ids" for name in ("old", "new"))
    for path in (old, new):
        path.mkdir()
    os.utime(old, (0, 0))
    labels_of(CACHED, tokenizer, tmp_path / "ids")
    assert sorted(path.name for path in tmp_path.iterdir()) == [new.name, "ids"]


def test_an_error_of_the_texts_is_not_one_of_the_cache(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    def pairs() -> Iterator[Pair]:
        with (tmp_path / "missing").open(encoding="utf-8") as file:
            yield from zip(file, file, strict=True)

    with pytest.raises(FileNotFoundError, match="missing"):
        labels_of(pairs, tokenizer, tmp_path / "ids")
    assert not list(tmp_path.iterdir())


def test_another_vocabulary_or_limit_is_refused(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    cache = tmp_path / "ids"
    labels_of(CACHED, tokenizer, cache)
    with pytest.raises(InputError, match="another source_tokenizer, target_tokenizer"):
        labels_of(CACHED, CharacterTokenizer(["a", "b"]), cache)
    with pytest.raises(InputError, match="another max_target_length"):
        labels_of(CACHED, tokenizer, cache, max_target_length=99)
    with pytest.raises(ValueError, match=r"give one\. Received: chunk_size=3, cache='ids'"):
        stream(CACHED, tokenizer, chunk_size=3, cache="ids")
    assert labels_of(CACHED[:1], tokenizer, cache) == labels_of(
        CACHED, tokenizer, cache
    )  # texts are not compared


@pytest.mark.parametrize("name", ["source.ids", "target.lengths", "cache.json", "SHA256SUMS"])
def test_damage_is_named(tokenizer: CharacterTokenizer, tmp_path: Path, name: str) -> None:
    cache = tmp_path / "ids"
    labels_of(CACHED, tokenizer, cache)
    content = (cache / name).read_bytes()
    for damaged in (content[: len(content) // 2], b""):
        (cache / name).write_bytes(damaged)
        with pytest.raises(InputError, match=rf"{name}.* Remove the directory to make it again"):
            labels_of(CACHED, tokenizer, cache)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is full")
def test_a_full_disk_is_named(
    tokenizer: CharacterTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Path.open
    monkeypatch.setattr(
        Path,
        "open",
        lambda path, *mode: usual(Path("/dev/full") if path.suffix == ".ids" else path, *mode),
    )
    with pytest.raises(InputError, match=r"Cannot write .*ids: No space left on device"):
        labels_of(CACHED, tokenizer, tmp_path / "ids")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_is_said(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(InputError, match=r"Cannot write .*file/ids"):
        labels_of(CACHED, tokenizer, tmp_path / "file" / "ids")
