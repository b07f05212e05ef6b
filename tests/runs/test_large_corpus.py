"""More training pairs than a run keeps in memory: shards, what is held out, the sample, and the cache."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer.errors import InputError
from keras_transformer.runs import Run, RunConfig, large_corpus
from keras_transformer.training import Checkpoint
from trained_run import SMALL

NUM_PAIRS = 90
Batches = list[list[list[list[int]]]]


@pytest.fixture
def shards(tmp_path: Path) -> dict[str, Any]:
    """Options of a run: three shards of each side, every source twice, and two pairs for validation."""
    for shard in range(3):
        numbers = range(30 * shard, 30 * (shard + 1))
        with gzip.open(tmp_path / f"train-{shard}.en.gz", "wt") as file:
            file.writelines(f"w{number // 2} ab\n" for number in numbers)
        (tmp_path / f"train-{shard}.de").write_text("".join(f"W{number}\n" for number in numbers))
        with gzip.open(tmp_path / f"train-{shard}.tsv.gz", "wt") as file:
            file.writelines(f"w{number // 2} ab\tW{number}\n" for number in numbers)
    (tmp_path / "val").write_text("x\ny\n")
    return {
        "source": str(tmp_path / "train-*.en.gz"),
        "target": [str(tmp_path / "train-0.de"), str(tmp_path / "train-[12].de")],
        "validation_source": str(tmp_path / "val"),
        "validation_target": str(tmp_path / "val"),
        "run_directory": str(tmp_path / "runs"),
        "cache_directory": str(tmp_path / "cache"),
        "tokens_per_batch": 64,
        "max_pairs_in_memory": NUM_PAIRS - 1,
        **SMALL,
    }


Fitted = Callable[..., tuple[Run, Batches]]


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> Fitted:
    """Begin a run; return it and the batches of its first two epochs."""

    def fit(options: dict[str, Any], **changes: Any) -> tuple[Run, Batches]:
        epochs: list[list[list[list[int]]]] = []

        def stop(model: Any, training: Any, **others: object) -> None:
            epochs.extend([labels.tolist() for _, labels in training.as_numpy_iterator()] for _ in range(2))
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(keras.Model, "fit", stop)
            run = Run(RunConfig.default(**{**options, **changes}))
            with pytest.raises(KeyboardInterrupt):
                run.train(verbose=0)
        return run, epochs

    return fit


def without(options: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in options.items() if not name.startswith(names)}


@pytest.mark.slow
def test_batches_are_those_of_a_run_in_memory(shards: dict[str, Any], fitted: Fitted) -> None:
    subwords = {"kind": "subword", "size": 40, "shared": True, "subword_dropout": 0.3}
    run, wanted = fitted(shards, max_pairs_in_memory=NUM_PAIRS, **subwords)
    assert (len(run.data.train), type(run.data.train)) == (NUM_PAIRS, list)
    cache = Path(shards["cache_directory"])
    assert not cache.exists()

    def files() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()}

    run, made = fitted(shards, **subwords)
    assert isinstance(run.data.train, large_corpus._LargeCorpus)
    before = files()
    _, found = fitted(shards, name="other", **subwords)
    assert files() == before
    assert made == found == wanted
    assert wanted[0] != wanted[1]


def pairs_of(options: dict[str, Any], **changes: Any) -> Any:
    return Run(RunConfig.default(**{**options, **changes})).data


def test_a_directory_of_shards(shards: dict[str, Any], tmp_path: Path) -> None:
    options = {**without(shards, "source", "target", "validation"), "pairs": str(tmp_path)}
    in_memory = pairs_of(options, max_pairs_in_memory=NUM_PAIRS)
    streamed = pairs_of(options)
    for pairs, train in ((in_memory, in_memory.train), (streamed, list(streamed.train.pairs()))):
        assert sorted([*train, *pairs.validation]) == sorted((f"w{n // 2} ab", f"W{n}") for n in range(90))


@pytest.mark.slow
def test_what_is_held_out_and_the_sample(
    shards: dict[str, Any], fitted: Fitted, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(large_corpus, "_MAX_SAMPLE", 20)
    caplog.set_level("INFO", "keras_transformer")
    options = {**without(shards, "validation"), "validation_fraction": 0.1}
    run, batches = fitted(options)
    pairs = run.data
    assert isinstance(pairs.train, large_corpus._LargeCorpus)
    # Nine are wanted; every source has two pairs, which are on one side.
    assert (len(pairs.validation), pairs.train.num_examples, len(pairs.train)) == (8, 82, 20)
    assert pairs.test == pairs.validation
    assert not {source for source, _ in pairs.train.pairs()} & {source for source, _ in pairs.validation}
    assert sum(map(len, batches[0])) == 82
    assert "training the vocabularies on 40 of 164 texts, drawn with seed 0" in caplog.messages
    assert set(pairs_of(options, seed=1).validation) != set(pairs.validation)
    # Where one source has more pairs than are wanted, or is all there is.
    monkeypatch.setattr(large_corpus, "_MAX_HELD_OUT", 1)
    assert len(pairs_of(options, seed=2).validation) == 2
    for path in Path(shards["run_directory"]).parent.glob("*.en.gz"):
        path.write_bytes(gzip.compress(b"same\n" * 30))
    with pytest.raises(InputError, match=r"No pair is left to train on\. Received: 21 pairs of one source"):
        pairs_of(options)


def test_damage_is_named(shards: dict[str, Any]) -> None:
    assert [*pairs_of(shards).train] == [*pairs_of(shards).train]
    [corpus] = Path(shards["cache_directory"]).glob("*/corpus.json")
    corpus.write_bytes(corpus.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"corpus\.json is not valid JSON.* Remove .* to make it again"):
        pairs_of(shards)


def test_as_many_sources_as_targets(shards: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"as many files of sources as of targets\. Received: 3 of .*, 1 of"):
        pairs_of(shards, target=shards["target"][:1])
    with pytest.raises(InputError, match=r"A pattern must match .*\. Received: '.*none-\*', which"):
        pairs_of(shards, target=shards["target"][0].replace("train-0.de", "none-*"))


@pytest.mark.slow
def test_a_resumed_run_ends_in_the_same_bits(shards: dict[str, Any]) -> None:
    def train(name: str, *epochs: int) -> list[np.ndarray]:
        # The warm-up of a run follows its epochs if it is not given.
        options = {"name": name, "deterministic": True, "warmup_steps": 3}
        for number, total in enumerate(epochs):
            run = Run(RunConfig.default(**{**shards, **options, "epochs": total}))
            run.train(resume=number > 0, verbose=0)
        weights: list[np.ndarray] = Checkpoint(run.directory).load_model().get_weights()
        return weights

    # Batches are those of a run in memory: see above.
    assert all(map(np.array_equal, train("resumed", 1, 3), train("whole", 3)))
    (Path(shards["run_directory"]).parent / "train-0.de").write_text("W\n" * 30)
    run = Run(RunConfig.default(**{**shards, "name": "resumed", "deterministic": True, "epochs": 4}))
    with pytest.raises(InputError, match="other train pairs than those of"):
        run.train(resume=True)
