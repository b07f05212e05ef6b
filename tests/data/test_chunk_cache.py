"""Token ids that are kept on the disk."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keras_transformer.data import Pair, streamed_dataset
from keras_transformer.errors import InputError
from keras_transformer.text import CharacterTokenizer

PAIRS = [("abc", "de"), ("a", "bcd"), ("ef", "g"), ("h", "h"), ("abcdefgh", "abcdefgh")]


class Corpus:
    """Pairs that count how often they are read, and may break off."""

    def __init__(self, num_pairs: int = len(PAIRS)) -> None:
        self.num_readings = 0
        self.num_pairs = num_pairs

    def __call__(self) -> Iterator[Pair]:
        self.num_readings += 1
        for number, pair in enumerate(PAIRS):
            if number == self.num_pairs:
                raise InputError("the disk is gone")
            yield pair


def labels_of(pairs: Any, tokenizer: CharacterTokenizer, cache: Path | None, **options: Any) -> Any:
    dataset = streamed_dataset(pairs, tokenizer, tokenizer, chunk_size=2, cache=cache, **options)
    return [[labels.tolist() for _, labels in dataset.as_numpy_iterator()] for _ in range(3)]


def test_texts_are_read_once(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    corpus, cache = Corpus(), tmp_path / "deep" / "ids"
    wanted = labels_of(PAIRS, tokenizer, None)
    assert labels_of(corpus, tokenizer, cache) == wanted
    assert labels_of(corpus, tokenizer, cache) == wanted
    assert corpus.num_readings == 1
    assert sorted(path.name for path in cache.parent.iterdir()) == ["ids"]


def test_an_empty_directory_is_no_cache_yet(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    cache = tmp_path / "ids"
    cache.mkdir()
    assert labels_of(Corpus(), tokenizer, cache) == labels_of(PAIRS, tokenizer, None)
    assert [path.name for path in tmp_path.iterdir()] == ["ids"]


def test_the_number_of_batches_is_known(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    options = {"chunk_size": 2, "tokens_per_batch": 256}
    dataset = streamed_dataset(Corpus(), tokenizer, tokenizer, cache=tmp_path / "ids", **options)
    assert len(dataset) == len(list(dataset)) == 3


def test_an_interruption_leaves_no_cache(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    cache = tmp_path / "ids"
    with pytest.raises(InputError, match="the disk is gone"):
        labels_of(Corpus(3), tokenizer, cache)
    assert not cache.exists()
    assert labels_of(Corpus(), tokenizer, cache) == labels_of(PAIRS, tokenizer, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ids"]


def test_several_processes_may_make_one_cache(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    cache = tmp_path / "ids"

    def pairs_of_the_slower() -> Iterator[Pair]:
        """Let another one make all of the cache while this one reads."""
        yield PAIRS[0]
        if not cache.exists():
            labels_of(PAIRS, tokenizer, cache)
        yield from PAIRS[1:]

    assert labels_of(pairs_of_the_slower, tokenizer, cache) == labels_of(PAIRS, tokenizer, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ids"]


def test_what_a_killed_process_left_is_removed_later(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    old, new = (tmp_path / f".partial-{name}-ids" for name in ("old", "new"))
    for path in (old, new):
        path.mkdir()
    os.utime(old, (0, 0))
    labels_of(PAIRS, tokenizer, tmp_path / "ids")
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
    labels_of(PAIRS, tokenizer, cache)
    with pytest.raises(InputError, match="another source_tokenizer, target_tokenizer"):
        labels_of(PAIRS, CharacterTokenizer(["a", "b"]), cache)
    with pytest.raises(InputError, match="another max_target_length"):
        labels_of(PAIRS, tokenizer, cache, max_target_length=99)


def test_damage_is_named(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    cache = tmp_path / "ids"
    labels_of(PAIRS, tokenizer, cache)
    content = (cache / "chunk-000001.npz").read_bytes()
    (cache / "chunk-000001.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"chunk-000001\.npz is damaged"):
        labels_of(PAIRS, tokenizer, cache)
    (cache / "chunk-000001.npz").write_bytes(b"")
    with pytest.raises(InputError, match=r"chunk-000001\.npz is damaged"):
        labels_of(PAIRS, tokenizer, cache)
    (cache / "cache.json").write_text(json.dumps([]), encoding="utf-8")
    with pytest.raises(InputError, match=r"cache\.json is damaged"):
        labels_of(PAIRS, tokenizer, cache)


def test_what_cannot_be_written_is_said(tokenizer: CharacterTokenizer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(InputError, match=r"Cannot write .*file/ids"):
        labels_of(PAIRS, tokenizer, tmp_path / "file" / "ids")


def test_a_fingerprint_is_of_vocabulary_and_options() -> None:
    tokenizers = [
        CharacterTokenizer(["a", "b"]),
        CharacterTokenizer(["a", "b"]),
        CharacterTokenizer(["a", "c"]),
        CharacterTokenizer(["a", "b"], lowercase=True),
    ]
    first, *others = (tokenizer.fingerprint() for tokenizer in tokenizers)
    assert [first == other for other in others] == [True, False, False]
