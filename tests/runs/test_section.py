"""Types, ranges and choices, each with its message; every field carries a docstring."""

import ast
import dataclasses
import inspect
import itertools
import math
import textwrap

import pytest

from keras_transformer import runs as config
from keras_transformer.runs.config import (
    Section,
    field_names,
    is_of_type,
    require_at_least,
    require_choice,
    require_fraction,
    require_together,
    type_name,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample(Section):
    """One field of each type."""

    count: int = 1
    rate: float = 0.5
    limit: int | None = None
    word: str = "a"
    other: str | None = None
    switch: bool = False


@pytest.mark.parametrize(
    ("value", "wanted", "expected"),
    [
        (3, int, True),
        (True, int, False),
        (True, bool, True),
        (3, float, True),
        (True, float, False),
        (3.0, int, False),
        (None, int | None, True),
        (None, int, False),
        (False, int | None, False),
        (4, float | None, True),
        ("3", int, False),
    ],
)
def test_is_of_type(value: object, wanted: object, expected: bool) -> None:
    assert is_of_type(value, wanted) is expected


def test_type_name_reads_a_union() -> None:
    assert type_name(int | None) == "int or None"
    assert type_name(str) == "str"


def test_a_wrong_type_names_field_type_and_value() -> None:
    with pytest.raises(TypeError, match=r"^`count` must be int\. Received: count='7'\.$"):
        Sample(count="7")
    with pytest.raises(TypeError, match=r"^`limit` must be int or None\. Received: limit=2\.5\.$"):
        Sample(limit=2.5)


def test_field_names_keep_their_order() -> None:
    assert field_names(Sample) == ["count", "rate", "limit", "word", "other", "switch"]


def test_at_least() -> None:
    require_at_least(Sample(count=3, limit=None), 3, "count", "limit")
    with pytest.raises(ValueError, match=r"^`count` must be at least 4\. Received: count=3\.$"):
        require_at_least(Sample(count=3), 4, "count")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_at_least_refuses_what_is_not_finite(value: float) -> None:
    with pytest.raises(ValueError, match=rf"`rate` must be at least 0\. Received: rate={value}\."):
        require_at_least(Sample(rate=value), 0, "rate")


def test_fraction() -> None:
    require_fraction(Sample(rate=0), "rate")
    for value in (1.0, -0.1, math.nan):
        with pytest.raises(
            ValueError, match=rf"^`rate` must be at least 0 and below 1\. Received: rate={value}\.$"
        ):
            require_fraction(Sample(rate=value), "rate")


def test_choice() -> None:
    require_choice(Sample(word="b", other=None), "word", ("a", "b"))
    require_choice(Sample(other=None), "other", ("a", "b"))
    with pytest.raises(ValueError, match=r"^`word` must be one of a, b\. Received: word='c'\.$"):
        require_choice(Sample(word="c"), "word", ("a", "b"))


def test_together() -> None:
    require_together(Sample(limit=1, other="x"), "limit", "other")
    require_together(Sample(), "limit", "other")
    message = r"^`limit` and `other` must be given together\. Received: limit=1, other=None\.$"
    with pytest.raises(ValueError, match=message):
        require_together(Sample(limit=1), "limit", "other")


CONFIGURATIONS = [
    config.DataConfig,
    config.DecodingConfig,
    config.ModelConfig,
    config.RunConfig,
    config.TrainingConfig,
    config.TransformerConfig,
    config.VocabularyConfig,
]


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_every_field_has_a_docstring_under_it(kind: type[Section]) -> None:
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    body = tree.body[0].body
    for statement, following in itertools.pairwise(body):
        if isinstance(statement, ast.AnnAssign):
            name = ast.unparse(statement.target)
            assert isinstance(following, ast.Expr), f"{kind.__name__}.{name} has no docstring"
            assert isinstance(following.value, ast.Constant), f"{kind.__name__}.{name} has no docstring"


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_a_configuration_is_frozen_and_keyword_only(kind: type[Section]) -> None:
    with pytest.raises(TypeError, match="positional"):
        kind("first")
    values = (
        {"source_vocabulary_size": 7, "target_vocabulary_size": 7} if kind is config.TransformerConfig else {}
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        kind(**values).name = "other"
