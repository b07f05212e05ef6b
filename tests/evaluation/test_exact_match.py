import pytest

from keras_transformer.evaluation.error_rates import References, exact_match


@pytest.mark.parametrize(
    ("hypotheses", "references", "share"),
    [
        (["a"], ["a"], 1.0),
        (["a"], ["b"], 0.0),
        (["a", "b", "c", "d"], ["a", "b", "c", "x"], 0.75),
        (["a", "b"], [["x", "a"], ["x", "y"]], 0.5),
        (["A", " b", ""], ["a", "b", ""], 1 / 3),
    ],
)
def test_share_of_right_answers(hypotheses: list[str], references: References, share: float) -> None:
    assert exact_match(hypotheses, references) == pytest.approx(share)


def test_a_part_of_a_reference_is_not_right() -> None:
    assert exact_match(["a"], ["abc"]) == 0.0


def test_nothing_to_compare_is_an_error() -> None:
    with pytest.raises(ValueError, match="Received: 0 hypotheses"):
        exact_match([], [])
