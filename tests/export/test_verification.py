"""An export that is not what it must be is refused."""

import ast
import copy
import pickle
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.errors import ExportError
from keras_transformer.export import verification, verify_saved_model

EXAMPLES = ["a dog", "the cat"]  # as `exported` has them
Change = Callable[[dict[str, Any]], object]
Verify = Callable[..., None]


@pytest.fixture(scope="module")
def process(exported: Path) -> subprocess.CompletedProcess:
    """The process that was asked while a good export was verified."""
    finished: subprocess.CompletedProcess = pickle.loads(
        (exported.parents[1] / "process.pickle").read_bytes()
    )
    return finished


@pytest.fixture
def verify(
    process: Any, exported: Path, translator: kt.Translator, monkeypatch: pytest.MonkeyPatch
) -> Verify:
    """Verify with a process that tells something else."""

    def run(change: Change, **options: bool) -> None:
        report = pickle.loads(process.stdout)
        change(report["signatures"])
        changed = copy.copy(process)
        changed.stdout = pickle.dumps(report)
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: changed)
        verify_saved_model(exported, translator, EXAMPLES, **options)

    return run


def replace(name: str, output: str, row: int, value: Any, *, also_alone: bool = True) -> Change:
    """Change the output of a signature for one row."""

    def change(signatures: dict[str, Any]) -> None:
        outputs = [(signatures[name]["together"], row)]
        if also_alone:
            outputs.append((signatures[name]["alone"][row], 0))
        for values, number in outputs:
            values[output] = values[output].copy()
            values[output][number] = value(values[output][number]) if callable(value) else value

    return change


def test_equal_answers_pass(verify: Verify) -> None:
    verify(lambda signatures: None)


@pytest.mark.parametrize("name", ["serving_default", "n_best", "align", "score", "search"])
@pytest.mark.parametrize(("factor", "passes"), [(1.00005, True), (1.01, False)])
def test_only_the_last_digits_of_a_score_may_differ(
    verify: Verify, name: str, factor: float, passes: bool
) -> None:
    change = replace(name, "score", 1, lambda score: score * factor)
    if passes:
        verify(change)
        return
    with pytest.raises(ExportError, match=f"(?s){name} must return .* for 'the cat'.* Received: "):
        verify(change)


@pytest.mark.parametrize(
    ("name", "output", "value"),
    [
        ("serving_default", "output", b"no"),
        ("serving_default", "score", float("nan")),
        ("n_best", "output", [b"no", b"dog"]),
        ("align", "output", b"no"),
        ("align", "source_tokens", b"x"),
        ("align", "output_tokens", b"x"),
        ("align", "attention", 0.5),
        ("score", "num_tokens", 99),
    ],
)
def test_every_other_output_is_refused(verify: Verify, name: str, output: str, value: Any) -> None:
    with pytest.raises(ExportError, match=f"(?s){name} must return .* for 'a dog'.* Received: "):
        verify(replace(name, output, 0, value))


def test_hypotheses_may_be_exchanged_only_where_they_are_tied(
    verify: Verify, translator: kt.Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [("a", -1.0), ("b", -2.0), ("c", -2.0), ("d", -3.0)]

    def answers(change: dict[int, tuple[bytes, float]]) -> Change:
        hypotheses = [(text.encode(), score) for text, score in wanted]
        for rank, hypothesis in change.items():
            hypotheses[rank] = hypothesis
        texts, scores = zip(*hypotheses, strict=True)

        def put(signatures: dict[str, Any]) -> None:
            of_both = (signatures["n_best"], signatures["search"])
            for outputs in (
                outputs for report in of_both for outputs in (report["together"], *report["alone"])
            ):
                rows = len(outputs["score"])
                outputs["output"] = np.array([texts] * rows, object)
                outputs["score"] = np.array([scores] * rows, "float32")

        return put

    four = [kt.tasks.Translation(text, score) for text, score in wanted]
    expected = verification._Expected.of(translator, EXAMPLES)
    hypotheses = {name: [four] * len(expected.sources) for name in ("n_best", "search")}
    changed = expected._replace(results={**expected.results, **hypotheses})
    monkeypatch.setattr(verification._Expected, "of", lambda *_: changed)
    verify(answers({}))
    verify(answers({1: (b"c", -2.0), 2: (b"b", -2.0)}))
    verify(answers({3: (b"x", -3.0)}))  # the last may be tied with one that was not kept
    for change in ({0: (b"x", -1.0)}, {1: (b"x", -1.5)}, {3: (b"d", -3.1)}):
        with pytest.raises(ExportError, match="n_best must return"):
            verify(answers(change))


def test_an_answer_that_depends_on_the_batch_is_refused(verify: Verify) -> None:
    # The last row is no UTF-8: nothing is known of it but that it must not depend on its neighbors.
    with pytest.raises(ExportError, match=r"return .* for b'.xff.* in a batch, .*Received: .*text='o'"):
        verify(replace("serving_default", "output", -1, b"o", also_alone=False))


def test_rows_from_nothing_are_refused(verify: Verify) -> None:
    def change(signatures: dict[str, Any]) -> None:
        signatures["score"]["of_nothing"]["score"] = np.zeros(1)

    with pytest.raises(ExportError, match=r"must return no rows for no rows\. Received: .*'score': 1"):
        verify(change)


@pytest.mark.parametrize(
    ("signature", "side", "name", "value", "message"),
    [
        ("score", "outputs", "num_tokens", ("int64", [None]), "The outputs of score must be .*int64"),
        ("n_best", "outputs", "output", ("string", [None]), "The outputs of n_best must be "),
        ("align", "inputs", "text", ("string", [1]), r"The inputs of align must take any batch size.*\[1\]"),
        ("align", "inputs", "more", ("string", [None]), "The inputs of align must be .*more"),
    ],
)
def test_other_signatures_are_refused(
    verify: Verify, signature: str, side: str, name: str, value: tuple, message: str
) -> None:
    def change(signatures: dict[str, Any]) -> None:
        signatures[signature]["specification"][side][name] = value

    with pytest.raises(ExportError, match=message):
        verify(change)


def test_a_missing_signature_is_refused(verify: Verify) -> None:
    with pytest.raises(ExportError, match=r"Signatures must be \['align', .* Received: \['n_best', "):
        verify(lambda signatures: signatures.pop("align"))


@pytest.mark.slow
def test_python_inside_the_graph_is_refused(translator: kt.Translator, tmp_path: Path) -> None:
    def shout(text: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"output": tf.numpy_function(lambda rows: rows, [text], tf.string)}

    function = tf.function(shout, input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    tf.saved_model.save(tf.Module(), str(tmp_path), {"serving_default": function.get_concrete_function()})
    with pytest.raises(ExportError, match=r"only operations of TensorFlow .* Received: PyFunc\."):
        verify_saved_model(tmp_path, translator)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Traceback (most recent call last):\n  x\nValueError: no\n", "ValueError: no"),
        (
            "I0000 started\na.b.InvalidArgumentError: Graph execution error:\n\n  at node x\nsee above\n",
            "a.b.InvalidArgumentError: Graph execution error: at node x see above",
        ),
        ("KeyError\nwhile that was handled\nMemoryError", "MemoryError"),
        ("Segmentation fault\n", "Segmentation fault"),
        ("", "exit status 9"),
        ("OSError: " + "x" * 2000, "OSError: " + "x" * 991),
    ],
)
def test_a_process_that_fails_says_why(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    failed = subprocess.CompletedProcess([], 9, b"", text.encode())
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(ExportError, match=rf"must work in a new process\. Received: {re.escape(message)}$"):
        verify_saved_model(tmp_path, translator)


def test_the_process_imports_nothing_but_tensorflow(process: Any) -> None:
    program = Path(verification.__file__).with_name("fresh_process.py").read_text(encoding="utf-8")
    assert program in process.args
    tree = ast.parse(program)
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert modules == {"gc", "importlib", "importlib.util", "pickle", "sys"}
    assert re.findall(r"import_module\(\"(\w+)", program) == ["tensorflow"] * 3
    assert all(f'"{name}": None' in program for name in ("keras", "keras_transformer"))


@pytest.mark.slow
def test_files_of_the_working_directory_are_no_modules(
    exported: Path, translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numbers.py").write_text("raise ImportError('not the module of Python')")
    monkeypatch.chdir(tmp_path)
    verify_saved_model(exported, translator)
