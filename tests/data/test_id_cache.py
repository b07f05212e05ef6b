"""Token ids on the disk make the same batches as those in memory."""

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.data import EncodedPairs, ParallelText, translation_dataset
from keras_transformer.errors import InputError
from keras_transformer.text import CharacterTokenizer, WhitespaceTokenizer
from keras_transformer.types import Pair

OPTIONS: dict[str, Any] = {"tokens_per_batch": 100, "max_source_length": 25, "max_target_length": 25}
CACHED = [("abc", "de"), ("a", "bcd"), ("ef", "g"), ("h", "h"), ("abcdefgh", "abcdefgh")]


def labels_of(pairs: Any, tokenizer: CharacterTokenizer, cache: Path | None, **options: Any) -> Any:
    dataset = translation_dataset(pairs, tokenizer, tokenizer, cache=cache, **options)
    return [[labels.tolist() for _, labels in dataset.as_numpy_iterator()] for _ in range(2)]


@pytest.fixture(scope="module")
def in_memory(pairs: list[Pair], tokenizer: CharacterTokenizer) -> Any:
    """The batches that each of several caches must give."""
    return labels_of(pairs, tokenizer, None, **OPTIONS)


@pytest.fixture(scope="module")
def of_cached(tokenizer: CharacterTokenizer) -> Any:
    """The batches of `CACHED`."""
    return labels_of(CACHED, tokenizer, None)


@pytest.mark.parametrize(
    "kind", ["dataset", pytest.param("list", marks=pytest.mark.slow), "generator", "function", "files"]
)
def test_what_gives_pairs(
    pairs: list[Pair], tokenizer: CharacterTokenizer, tmp_path: Path, kind: str, in_memory: Any
) -> None:
    given: Any = pairs
    if kind == "generator":
        given = (pair for pair in pairs)
    if kind == "function":
        given = pairs.copy
    if kind == "dataset":
        given = tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*pairs, strict=True))))
    if kind == "files":
        (tmp_path / "a.txt").write_text("\n".join(source for source, _ in pairs), encoding="utf-8")
        with gzip.open(tmp_path / "b.txt.gz", "wt", encoding="utf-8", newline="\r\n") as file:
            file.write("\ufeff" + "".join(f"{target}\n" for _, target in pairs))
        given = ParallelText(tmp_path / "a.txt", tmp_path / "b.txt.gz")
        assert list(given) == pairs
    assert labels_of(given, tokenizer, tmp_path / "ids", **OPTIONS) == in_memory


def test_a_generator_fills_the_dataset_in_memory(
    pairs: list[Pair], tokenizer: CharacterTokenizer, in_memory: Any
) -> None:
    given = (pair for pair in pairs)
    assert labels_of(given, tokenizer, None, **OPTIONS) == in_memory


def test_long_pairs_are_counted_once(
    tokenizer: CharacterTokenizer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pairs = [("a", "b"), ("a" * 9, "b"), ("a", "b" * 9), (" ", "b")] * 2
    for _ in range(2):
        [[labels], *_] = labels_of(
            pairs, tokenizer, tmp_path / "ids", max_source_length=5, max_target_length=5
        )
        assert len(labels) == 2
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
def test_wrong_pairs(pairs: Any, message: str, tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        labels_of(lambda: iter(pairs), tokenizer, tmp_path / "ids", **OPTIONS)
    assert not list(tmp_path.iterdir())


def test_a_wrong_limit(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_target_length=1"):
        labels_of(CACHED, tokenizer, tmp_path / "ids", max_target_length=1)


@pytest.mark.slow
def test_a_model_learns(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    def pairs() -> Iterator[Pair]:
        return (("ab"[number % 2], "cd"[number % 2]) for number in range(64))

    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16}
    size = tokenizer.vocabulary_size
    model = kt.Transformer(size, size, **sizes)
    kt.training.compile_model(model, 1e-2)
    dataset = translation_dataset(pairs, tokenizer, tokenizer, tokens_per_batch=256, cache=tmp_path / "ids")
    losses = model.fit(dataset, epochs=10, verbose=0, shuffle=False).history["loss"]
    assert len(losses) == 10
    assert losses[-1] < 0.8 * losses[0]


def test_blank_texts_are_left_out_whatever_they_come_in(
    tokenizer: CharacterTokenizer, tmp_path: Path
) -> None:
    pairs = [("\u00a0", "b"), ("ab", "cd"), ("\u3000", "a")]
    dataset = tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*pairs, strict=True))))
    for number, given in enumerate((pairs, dataset)):
        assert labels_of(given, tokenizer, tmp_path / f"ids-{number}")[0] == [[[6, 7, 3]]]


def reverse_sources(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Change the token ids of a batch."""
    return dataset.map(lambda source, target: (tf.reverse(source, [1]), target))


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


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"noise": [reverse_sources], "first_epoch": 2}, marks=pytest.mark.slow),
        pytest.param({"seed": 1}, marks=pytest.mark.slow),
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


def test_texts_are_read_once(tokenizer: CharacterTokenizer, tmp_path: Path, of_cached: Any) -> None:
    corpus, cache = Corpus(), tmp_path / "deep" / "ids"
    for _ in range(2):
        assert labels_of(corpus, tokenizer, cache) == of_cached
    assert corpus.num_readings == 1
    assert sorted(path.name for path in cache.parent.iterdir()) == ["ids"]


def test_an_empty_directory_is_no_cache_yet(
    tokenizer: CharacterTokenizer, tmp_path: Path, of_cached: Any
) -> None:
    cache = tmp_path / "ids"
    cache.mkdir()
    assert labels_of(Corpus(), tokenizer, cache) == of_cached
    assert [path.name for path in tmp_path.iterdir()] == ["ids"]


def test_the_number_of_batches_is_known(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    options = {"tokens_per_batch": 10, "max_source_length": 9, "max_target_length": 9}
    dataset = translation_dataset(Corpus(), tokenizer, tokenizer, cache=tmp_path / "ids", **options)
    assert len(dataset) == len(list(dataset)) == 3


def test_an_interruption_leaves_no_cache(
    tokenizer: CharacterTokenizer, tmp_path: Path, of_cached: Any
) -> None:
    cache = tmp_path / "ids"
    with pytest.raises(InputError, match="the disk is gone"):
        labels_of(Corpus(3), tokenizer, cache)
    assert not cache.exists()
    assert labels_of(Corpus(), tokenizer, cache) == of_cached
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ids"]


@pytest.mark.slow
def test_several_processes_may_make_one_cache(
    tokenizer: CharacterTokenizer, tmp_path: Path, of_cached: Any
) -> None:
    cache = tmp_path / "ids"

    def pairs_of_the_slower() -> Iterator[Pair]:
        """Let another one make all of the cache while this one reads."""
        yield CACHED[0]
        if not cache.exists():
            labels_of(CACHED, tokenizer, cache)
        yield from CACHED[1:]

    assert labels_of(pairs_of_the_slower, tokenizer, cache) == of_cached
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


def test_another_corpus_is_refused(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    cache, file = tmp_path / "ids", tmp_path / "a.tsv"
    wanted = labels_of(CACHED, tokenizer, cache)
    with pytest.raises(InputError, match=r"another corpus\. Remove the directory"):
        labels_of(CACHED[:1], tokenizer, cache)
    for same in ([[*pair] for pair in CACHED], [tuple(text.encode() for text in pair) for pair in CACHED]):
        assert labels_of(same, tokenizer, cache) == wanted
    assert labels_of(iter(CACHED[:1]), tokenizer, cache) == wanted  # the texts of a stream are not compared
    file.write_text("a\tb\n", encoding="utf-8")
    labels_of(ParallelText(file), tokenizer, tmp_path / "file")
    file.write_text("b\tb\n", encoding="utf-8")
    with pytest.raises(InputError, match="another corpus"):
        labels_of(ParallelText(file), tokenizer, tmp_path / "file")


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
