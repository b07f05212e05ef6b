"""What tables count instead of measuring has the values that one computes by hand."""

import math
from collections.abc import Callable
from types import ModuleType

import pytest

from keras_transformer import Transformer

Load = Callable[[str], ModuleType]
SIZES = {"num_layers": 2, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16}


def test_multiply_adds_of_layers(load: Load) -> None:
    kinds = load("layer_kinds")
    # n = 5, d = 2: four projections of 5 * 4, queries and keys 5 * 5 * 2, scores and values the same.
    assert kinds.attention_multiply_adds(5, 2) == 4 * 20 + 50 + 50
    assert [kind.multiply_adds(5, 2) for kind in kinds.KINDS] == [180, 160, 120, 60]


def test_multiply_adds_have_as_many_factors_as_kernels(load: Load) -> None:
    for kind in load("layer_kinds").KINDS:
        layer, is_attention = kind.build(8), kind.name == "self-attention"
        layer.build(*([(1, 5, 8)] * (2 if is_attention else 1)))
        sizes = [weight.shape.num_elements() for weight in layer.weights if "kernel" in weight.name]
        assert kind.multiply_adds(5, 8) == 5 * sum(sizes) + (2 * 5 * 5 * 8 if is_attention else 0)


@pytest.mark.parametrize(("after", "exponent"), [(3.0, 0.0), (6.0, 1.0), (12.0, 2.0)])
def test_growth_is_the_exponent(load: Load, after: float, exponent: float) -> None:
    assert load("complexity").growth(7, 14, 3.0, after) == pytest.approx(exponent)


def test_products_of_a_training_step(load: Load) -> None:
    shape = load("training_shapes").Shape(
        num_layers=1, hidden_dim=2, intermediate_dim=3, num_heads=1, vocabulary=5, batch=1, length=4
    )
    attention = 4 * 4 * 2 * 2 + 2 * 4 * 4 * 2  # four projections of four tokens; two products of heads
    feed_forward = 2 * 4 * 2 * 3
    assert shape.flops == 6 * ((attention + feed_forward) + (2 * attention + feed_forward) + 4 * 2 * 5)


def test_most_of_a_step_is_six_times_weights_and_tokens(load: Load) -> None:
    shape = load("training_shapes").SHAPES["small"]
    sizes = {name: getattr(shape, name) for name in SIZES}
    model = Transformer(shape.vocabulary, shape.vocabulary, **sizes)
    weights = model.count_params() - shape.vocabulary * shape.hidden_dim  # the source's table has no product
    assert shape.flops == pytest.approx(6 * weights * shape.tokens, rel=0.05)


def test_gradients_are_those_of_the_matrices_of_a_model(load: Load) -> None:
    scaling, model = load("scaling_on_paper"), Transformer(50, 50, **SIZES, share_embeddings=True)
    kernels = [
        weight for weight in model.trainable_weights if "bias" not in weight.name and len(weight.shape) > 1
    ]
    shape = scaling.Shape(**SIZES, vocabulary=50, batch=4, length=5)
    assert scaling.gradient_bytes(shape) == 4 * sum(math.prod(weight.shape) for weight in kernels)


def test_a_step_of_many_devices(load: Load) -> None:
    scaling = load("scaling_on_paper")
    shape = scaling.Shape(**SIZES, vocabulary=50, batch=4, length=5)
    size, compute = scaling.gradient_bytes(shape), shape.flops / 1e6
    assert scaling.step_seconds(shape, 1, 1e6, 1e3, 1e2) == pytest.approx(compute)
    assert scaling.step_seconds(shape, 4, 1e6, 1e3, 1e2) == pytest.approx(compute + 1.5 * size / 1e3)
    assert scaling.step_seconds(shape, 16, 1e6, 1e3, 1e2) == pytest.approx(compute + 1.875 * size / 1e2)
