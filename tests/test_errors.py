"""A user's mistake is a `ValueError` of its own class."""

from keras_transformer.errors import InputError


def test_an_input_error_is_a_value_error_with_its_line() -> None:
    error = InputError("pairs.tsv:3: no tab")
    assert isinstance(error, ValueError)
    assert str(error) == "pairs.tsv:3: no tab"
