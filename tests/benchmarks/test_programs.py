"""What the programs do besides printing tables; small runs of them measure every case."""

import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import keras
import numpy as np
import pytest

import keras_transformer as kt

if keras.backend.backend() != "tensorflow":
    pytest.skip("the programs measure TensorFlow", allow_module_level=True)

Load = Callable[[str], ModuleType]
TEXTS = ["a dog sat", "the cat ran", "a rat"]


@pytest.mark.parametrize(("batch", "step", "share"), [(3, 1, 0.75), (0, 3, 0), (2, 0, 1)])
def test_waiting_is_the_time_without_a_batch(
    load: Load, batch: int, step: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, now, steps = load("pipeline"), [0.0], []
    monkeypatch.setattr(pipeline, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def batches() -> Iterator[tuple[int, int]]:
        for number in range(10):
            now[0] += batch
            yield number, -number

    def train(inputs: int, labels: int) -> None:
        now[0] += step
        steps.append((inputs, labels))

    assert pipeline.waiting(batches(), train, 4) == share
    assert steps == [(0, 0), (1, -1), (2, -2), (3, -3)]


def test_cells_of_decoding(load: Load) -> None:
    cells = load("decoding_cells")
    assert [cells.parse_cell(text).name for text in ("small:8:beam", "base:1:greedy:256")] == [
        "small:8:beam",
        "base:1:greedy:256",
    ]
    cell = cells.parse_cell("tiny:3:greedy")
    sources = cells.random_sources(cell, 5)
    assert sources == cells.random_sources(cell, 5) != cells.random_sources(cell, 6)
    assert [len(source) for source in sources] == [32] * 3
    assert all(source[-1] == 3 and min(source[:-1]) >= 4 and max(source) < 50 for source in sources)


def test_an_output_of_another_length_is_no_measurement(load: Load) -> None:
    cell, checked = load("decoding_cells").parse_cell("tiny:2:greedy"), load("decoding_parts").checked
    assert checked({"tokens": 64, "seconds": 1.0}, cell, "ours")["tokens"] == 64
    with pytest.raises(RuntimeError, match=r"marian must answer tiny:2:greedy with 64 tokens\. .*63"):
        checked({"tokens": 63, "seconds": 1.0}, cell, "marian")


def test_batches_of_training_are_teacher_forced(load: Load) -> None:
    shapes = load("training_shapes")
    first, second = shapes.random_batches(shapes.SHAPES["mini"], 2, seed=1)
    assert np.all(first.target[:, 0] == shapes.START)
    np.testing.assert_array_equal(first.target[:, 1:], first.labels[:, :-1])
    assert np.any(first.source != second.source)


@pytest.fixture(scope="module")
def translator() -> kt.Translator:
    keras.utils.set_random_seed(1)
    tokenizer = kt.text.CharacterTokenizer.train(TEXTS)
    size = tokenizer.vocabulary_size
    model = kt.Transformer(size, size, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8)
    return kt.Translator(model, tokenizer, tokenizer, max_source_length=20, max_target_length=7)


def test_parity_compares_the_sums_of_log_probabilities(load: Load, translator: kt.Translator) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `interop` is not installed")
    parity, model = load("decoding_parity"), translator.model
    [first, second] = parity.scores(model, [[5, 3], [6, 7, 8, 3]], [[5, 6, 3], [3]])
    assert parity.scores(model, [[6, 7, 8, 3]], [[3]]) == pytest.approx([second], abs=1e-5)
    inputs = {"encoder_token_ids": np.array([[5, 3]]), "decoder_token_ids": np.array([[2, 5, 6]])}
    probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(model(inputs)))[0]
    assert first == pytest.approx(np.log(probabilities[[0, 1, 2], [5, 6, 3]]).sum(), abs=1e-5)
    [found] = parity.differences(model, [[5, 3]] * 3, [[5, 3], [6, 3], [7, 3]], [[5, 3], [7, 3], [7, 3]])
    assert found.line == 2
    assert found.ours != found.theirs


def save_run(directory: Path, *, change: str = "", epochs: int = 1) -> Path:
    """Save what a run leaves; `change` says what differs from the other runs."""
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(3), keras.layers.Dropout(0.5, seed=7)]
    model = keras.Sequential([keras.Input((2,)), *layers])
    model.compile(optimizer=keras.optimizers.Adam(), loss="mse")
    model.optimizer.build(model.trainable_variables)
    if change == "weights":
        kernel = layers[0].kernel
        kernel.assign(np.nextafter(kernel.numpy(), np.inf, dtype="float32"))
    if change == "optimizer":
        model.optimizer.iterations.assign_add(1)
    if change == "random_state":
        model(np.ones((1, 2)), training=True)
    checkpoint = kt.training.Checkpoint(directory)
    checkpoint.set_model(model)
    for epoch in range(epochs):
        checkpoint.on_epoch_end(epoch, {"val_loss": 2.5 if change == "history" else 3.5})
    return directory / "checkpoints"


@pytest.mark.parametrize("change", ["", "weights", "optimizer", "random_state", "history"])
def test_a_fingerprint_of_a_run_differs_in_what_differs(load: Load, change: str, tmp_path: Path) -> None:
    fingerprint = load("kill_and_resume").fingerprint
    first = fingerprint(save_run(tmp_path / "first"))
    second = fingerprint(save_run(tmp_path / "second", change=change))
    assert len(first) == 5
    assert [name for name in first if first[name] != second[name]] == ([change] if change else [])


def test_one_bit_of_a_checkpoint_is_flipped(load: Load, tmp_path: Path) -> None:
    damage = load("kill_and_resume").damage
    assert damage(save_run(tmp_path / "one"), random.Random(0)) == ""
    directory = save_run(tmp_path / "two", epochs=2)
    before = (directory / "epoch-0002.keras").read_bytes()
    assert damage(directory, random.Random(0)) == "; one bit of epoch-0002.keras flipped"
    after = (directory / "epoch-0002.keras").read_bytes()
    assert sum((a ^ b).bit_count() for a, b in zip(before, after, strict=True)) == 1


@pytest.mark.slow
def test_kill_and_resume(run_program: Callable[..., str]) -> None:
    output = run_program("kill_and_resume", "--kills", 1, "--epochs", 2, "--all-options")
    assert "the same bits" in output
    assert re.search(r"^(\d+) of \1 runs, killed \d+ times in all", output, flags=re.MULTILINE), output


@pytest.mark.slow
def test_parity(run_program: Callable[..., str], translator: kt.Translator, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `interop` is not installed")
    translator.save(tmp_path / "model")
    (tmp_path / "sources.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    output = run_program("decoding_parity", tmp_path / "model", tmp_path / "sources.txt", "--patience", 9)
    assert "| greedy | 3 | 100.00 % | 0 |" in output
    assert "| beam 4 | 3 | " in output


@pytest.mark.slow
def test_decoding(run_program: Callable[..., str]) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `interop` is not installed")
    pytest.importorskip("transformers", reason="the extra `interop` is not installed")
    words = ["--cells", "tiny:2:beam", "--systems", "ours", "ctranslate2", "--rounds", 1]
    output = run_program("decoding", *words, "--lengths", 2, 4, "--requests", 2, "--starts", 1)
    assert output.count("| ours | ") == output.count("| ctranslate2 | ") == 4
    assert "(1.00x)" in output


@pytest.mark.slow
def test_training(run_program: Callable[..., str]) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    systems = ["ours", "ours-bf16", "kerashub", "torch"]
    output = run_program("training", "--shapes", "mini", "--rounds", 1, "--steps", 2, "--systems", *systems)
    assert [output.count(f"| {system} | ") for system in systems] == [1] * 4


@pytest.mark.slow
def test_small_trained_models(run_program: Callable[..., str]) -> None:
    pytest.importorskip("transformers", reason="the extra `interop` is not installed")
    data = Path(__file__).parents[2].parent / "shared" / "data" / "multi30k"
    if not data.is_dir():
        pytest.skip("Multi30k is not here")
    sizes = ["--steps", 20, "--sources", 8, "--beams", 1, 4, "--pairs", 300]
    output = run_program("pretrained_trained", data, "marian", *sizes)
    rows = re.findall(r"^\| marian \| [\w ]+ \| 8 \| (\d) \+ (\d) \| [\d.e-]+ \| (\d) \| 8 \|", output, re.M)
    assert [int(equal) + int(ties) for equal, ties, _ in rows] == [8] * 2, output
    before, first, second = map(float, re.findall(r"(?:is|,|and) (\d+\.\d{3})", output.splitlines()[-1]))
    assert before > first > second
    assert "its export gives 8 of 8 texts" in output


@pytest.mark.slow
def test_pipeline(run_program: Callable[..., str], tmp_path: Path) -> None:
    words = "cdefgh"  # lines of one length, since each further shape of a batch is traced
    for side in ("a", "b"):
        lines = [f"{side} {words[n % 6]} {words[n // 6 % 6]} {words[n // 36 % 6]}\n" for n in range(216)]
        (tmp_path / side).write_text("".join(lines), encoding="utf-8")
    sizes = ["--vocabulary", 20, "--tokens", 270, "--steps", 3, "--rounds", 1]
    output = run_program("pipeline", tmp_path / "a", tmp_path / "b", *sizes)
    rows = [line.split(" | ") for line in output.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + 4, output
    assert all(float(row[3].rstrip(" |%")) <= 100 for row in rows[2:])


@pytest.mark.slow
def test_complexity(run_program: Callable[..., str]) -> None:
    output = run_program("complexity", "--small")
    for name in ("self-attention", "LSTM", "GRU", "convolution, kernel 3"):
        rows = re.findall(rf"^\| {name} \| [\d.]+ \| [\d.]+ \| n\^-?[\d.]+ \|$", output, flags=re.MULTILINE)
        assert len(rows) == 2, output  # forward, and forward and backward


def test_scaling_on_paper_says_that_nothing_was_measured(run_program: Callable[..., str]) -> None:
    lines = run_program("scaling_on_paper", "--network", "50").splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:5]] == ["small", "base", "big"]
    assert lines[-1].startswith("Computed, not measured:")


@pytest.mark.slow
def test_the_loss_takes_less_memory_than_the_plain_formula(run_program: Callable[..., str]) -> None:
    numbers = re.findall(r"\| (ours|plain|keras) \| ([\d,]+) \|", run_program("loss_memory"))
    megabytes = {name: int(number.replace(",", "")) for name, number in numbers}
    assert megabytes["ours"] < 0.6 * megabytes["plain"]
    assert megabytes["ours"] < 0.8 * megabytes["keras"]


def test_a_process_that_failed_is_an_error(load: Load) -> None:
    process = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], {})
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    with pytest.raises(RuntimeError, match="the run failed with status 3"):
        load("kill_and_resume").has_ended(process)


def test_mutants_change_what_stands_in_the_package(load: Load) -> None:
    mutants = load("mutants")
    for mutant in mutants.MUTANTS:
        text = (mutants.ROOT / mutant.file).read_text(encoding="utf-8")
        assert mutants.mutated(text, mutant) != text
        assert all((mutants.ROOT / test).exists() for test in mutant.tests.split() if ".py" in test)
    with pytest.raises(ValueError, match=r"once in a file\. Received: twice, which occurs 2 times"):
        mutants.mutated("a a", mutants.Mutant("twice", "a file", "a", "b", ""))


@pytest.mark.slow
def test_what_is_left_over_of_the_tests_of_keras_is_what_the_proof_names(
    run_program: Callable[..., str],
) -> None:
    printed = run_program("conformance")
    counts = re.findall(r"\| (\d+) of (\d+) \| (\d+) of (\d+) \|", printed)
    assert len(counts) == 2, printed
    # Another version of Keras has other tests.
    assert all(theirs == num_theirs and num_theirs == num_ours for theirs, num_theirs, _, num_ours in counts)
    left = {name.split("[")[0] for name in re.findall(r"^- `\w+::(\w+)", printed, re.MULTILINE)}
    proof = (Path(__file__).parents[2] / "docs/proof.md").read_text(encoding="utf-8")
    assert [
        name for name in left if not any(known in name for known in re.findall(r"`(test_\w+)`", proof))
    ] == []
