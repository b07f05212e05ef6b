"""The tables say what the reports say."""

from collections.abc import Callable
from pathlib import Path

REPORT = """<testsuites><testsuite>
<testcase classname="tests.layers.test_against_keras" name="test_same_numbers[self]"><properties>
<property name="difference" value="3e-07"/><property name="tolerance" value="1e-05"/></properties></testcase>
<testcase classname="tests.layers.test_against_keras" name="test_same_numbers[cross]"><properties>
<property name="difference" value="4e-06"/><property name="tolerance" value="1e-05"/></properties></testcase>
<testcase name="test_padding_changes_nothing[Encoder, pre-norm-cache]"
classname="tests.conformance.test_masks"><properties>
<property name="difference" value="0"/><property name="tolerance" value="1e-05"/></properties></testcase>
<testcase name="test_padding_changes_nothing[Encoder, pre-norm-jit]"
classname="tests.conformance.test_masks">
<skipped/></testcase>
<testcase classname="tests.conformance.test_layers" name="test_xla[FeedForward]"/>
<testcase classname="tests.conformance.test_layers" name="test_xla[Decoder]">{failure}</testcase>
</testsuite></testsuites>"""


def test_the_worst_of_each_cell(run_program: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "tensorflow.xml").write_text(REPORT.format(failure=""), encoding="utf-8")
    output = run_program("proof_tables", "--backends", "tensorflow", "--reports", tmp_path)
    assert "| keras.layers.MultiHeadAttention | 4e-06 of 1e-05 |" in output
    assert "|  | cache | jit |" in output
    assert "| Encoder, pre-norm | 0 of 1e-05 | - |" in output
    assert "| FeedForward | passed |" in output
    assert "| Decoder | passed |" in output
    assert "keras 3" in output


def test_a_failure_is_shown(run_program: Callable[..., str], tmp_path: Path) -> None:
    failed = REPORT.format(failure="<failure/>")
    (tmp_path / "tensorflow.xml").write_text(failed, encoding="utf-8")
    assert "Some tests failed." in run_program(
        "proof_tables", "--backends", "tensorflow", "--reports", tmp_path
    )
