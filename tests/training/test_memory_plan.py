"""The plan of a step's memory: its sizes, its table, and XLA's own number."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import pytest

import keras_transformer as kt
from keras_transformer.models import shapes_only
from keras_transformer.training import MemoryPlan, PartMemory, memory_plan

ROOT = Path(__file__).parents[2]
SIZES: dict[str, Any] = {"num_layers": 2, "hidden_dim": 16, "num_heads": 4, "intermediate_dim": 32}


def bytes_of(variables: list[keras.Variable]) -> int:
    return 4 * sum(math.prod(variable.shape) for variable in variables)


@pytest.fixture(scope="module")
def model() -> kt.Transformer:
    return kt.Transformer(30, 40, tie_output=False, **SIZES)


def plan_of(model: keras.Model, batch_size: int = 3) -> MemoryPlan:
    lengths = {"source_length": 7, "target_length": 5}
    if isinstance(model, kt.CausalLM):
        lengths.pop("source_length")
    if isinstance(model, kt.EncoderModel):
        lengths.pop("target_length")
    return memory_plan(model, batch_size, **lengths)


@pytest.mark.backend
def test_weights_and_adams_state_are_those_of_the_model(model: kt.Transformer) -> None:
    total = plan_of(model).total
    assert total.num_weights == model.count_params()
    assert total.weights == bytes_of(model.weights)
    assert total.gradients == bytes_of(model.trainable_weights)
    optimizer = kt.training.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    assert total.optimizer == bytes_of([each for each in optimizer.variables if len(each.shape)])


@pytest.mark.backend
def test_a_model_of_shapes_alone_has_the_same_plan(model: kt.Transformer) -> None:
    with shapes_only():
        alike = kt.Transformer(30, 40, tie_output=False, **SIZES)
    assert plan_of(alike) == plan_of(model)


@pytest.mark.backend
def test_parts_come_in_the_order_of_the_forward_pass(model: kt.Transformer) -> None:
    names = [part.name for part in plan_of(model).parts]
    layers = [f"{stack}/layer_{number}" for stack in ("encoder", "decoder") for number in (1, 2)]
    assert names == ["embeddings", *layers, "output"]
    first, *_, last = plan_of(model).parts
    assert (first.num_weights, last.num_weights) == ((30 + 40) * 16, 40 * 16)


def test_a_shared_table_belongs_to_the_output_and_counts_once() -> None:
    with shapes_only():
        model = kt.Transformer(30, 30, share_embeddings=True, norm_first=True, **SIZES)
    parts = {part.name: part for part in plan_of(model).parts}
    assert (parts["embeddings"].num_weights, parts["output"].num_weights) == (0, 30 * 16)
    assert parts["encoder/final_normalization"].num_weights == 2 * 16
    assert sum(part.num_weights for part in parts.values()) == model.count_params()


def test_what_is_larger_than_the_machine_is_planned() -> None:
    with shapes_only():
        model = kt.CausalLM(256_000, num_layers=8, hidden_dim=2**16, num_heads=64, intermediate_dim=2**18)
    assert memory_plan(model, 1, target_length=8).total.weights > 2**40
    with keras.StatelessScope():
        pass  # does not give it values


def test_activations_grow_with_rows_and_lengths() -> None:
    with shapes_only():
        model = kt.CausalLM(40, dropout=0.0, **SIZES)

    def activations(batch_size: int, length: int) -> int:
        return memory_plan(model, batch_size, target_length=length).total.activations

    assert activations(6, 5) == 2 * activations(3, 5)
    # Scores (b, h, t, t) of two layers grow with the square, three float32 each; all else with the length.
    scores = 3 * 4 * 2 * 3 * 4 * 5**2
    assert activations(3, 10) == 2 * activations(3, 5) + 2 * scores
    # Logits (b, t, v), twice.
    assert memory_plan(model, 3, target_length=5).parts[-1].activations == 2 * 4 * 3 * 5 * 40


def test_a_peak_is_between_what_is_there_at_each_end() -> None:
    def part(number: int, gradients: int, activations: int) -> PartMemory:
        return PartMemory(f"layer_{number}", 1, 10, gradients, 20, activations)

    # Forward: 100, 105 and 112 are kept. Backward: 7, 7 + 50, 7 + 50 + 1 of gradients are there.
    plan = MemoryPlan((part(1, 1, 100), part(2, 50, 5), part(3, 7, 7)))
    assert plan.peak == 3 * 30 + max(100 + 58, 105 + 57, 112 + 7)
    assert plan.total == PartMemory("sum", 3, 30, 58, 60, 112)


@pytest.mark.backend
def test_other_optimizers_frozen_weights_and_two_passes() -> None:
    model = kt.CausalLM(40, **SIZES)
    adam = memory_plan(model, 3, target_length=5)
    kt.training.compile_model(model, 1e-3, ema_momentum=0.9, gradient_accumulation_steps=2, r_drop=1.0)
    plan = memory_plan(model, 3, target_length=5)
    assert plan.total.optimizer == 2 * adam.total.optimizer
    assert plan.total.activations == 2 * adam.total.activations
    model.compile("sgd", kt.training.MaskedCrossentropy())
    model.token_embedding.trainable = False
    plan = memory_plan(model, 3, target_length=5)
    assert plan.total.optimizer == 0
    assert adam.total.gradients - plan.total.gradients == 4 * 40 * 16


def test_half_precision_has_half_of_most_and_copies_of_the_weights() -> None:
    plans = {}
    for dtype in ("float32", "mixed_bfloat16"):
        with shapes_only():
            model = kt.Transformer(30, 40, dtype=dtype, **SIZES)
        plans[dtype] = plan_of(model, batch_size=300)
    single, half = plans["float32"].total, plans["mixed_bfloat16"].total
    assert half.weights == single.weights
    assert half.optimizer == single.optimizer
    assert 0.5 < (half.activations - 2 * half.num_weights) / single.activations < 0.8


def test_a_window_of_options() -> None:
    """Each option that makes a layer larger makes its plan larger."""

    def activations(**options: Any) -> int:
        with shapes_only():
            model = kt.Transformer(30, 40, **{**SIZES, "dropout": 0.0, **options})
        return plan_of(model).total.activations

    plain = activations()
    for options in (
        {"dropout": 0.1},
        {"attention_dropout": 0.1},
        {"intermediate_dropout": 0.1},
        {"gated": True},
        {"activation": "gelu"},
        {"normalize_embeddings": True},
        {"head_dim": 8},
        {"norm_first": True},  # a normalization more for each stack
    ):
        assert activations(**options) > plain, options
    assert activations(normalization="rms") < plain
    assert activations(positions="rotary") < plain


def test_the_table(model: kt.Transformer) -> None:
    lines = str(plan_of(model, batch_size=1000)).splitlines()
    assert lines[0].split() == ["weights", "gradients", "optimizer", "activations"]
    assert [line.split("  ")[0] for line in lines[1:6]] == [
        "embeddings",
        "encoder/layer_1 and 1 more, each",
        "decoder/layer_1 and 1 more, each",
        "output",
        "sum",
    ]
    assert len({len(line) for line in lines[:6]}) == 1
    assert lines[6].startswith(f"{model.count_params():,} weights; a step needs ")


def test_frames_and_convolutions() -> None:
    with shapes_only():
        frames = kt.Transformer(None, 40, encoder_feature_dim=6, **SIZES)
        convolved = kt.Transformer(None, 40, encoder_feature_dim=6, source_convolutions=True, **SIZES)
    layers = [
        {part.name: part.activations for part in memory_plan(each, 2, source_length=s, target_length=5).parts}
        for each, s in ((frames, 4), (convolved, 7))
    ]
    assert layers[0]["encoder/layer_1"] == layers[1]["encoder/layer_1"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"source_length": 7},
            ValueError,
            "`target_length` must be given for a model with decoder. Received: target_length=None.",
        ),
        ({"source_length": 7, "target_length": 0}, ValueError, "`target_length` must be above zero"),
        ({"source_length": 7.5, "target_length": 1}, TypeError, "`source_length` must be an integer"),
    ],
)
def test_lengths_that_do_not_fit(
    model: kt.Transformer, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        memory_plan(model, 3, **arguments)


def test_a_stack_that_is_not_there_and_another_model() -> None:
    with shapes_only():
        model = kt.CausalLM(40, **SIZES)
    with pytest.raises(ValueError, match="`source_length` must be None for a model without encoder"):
        memory_plan(model, 3, source_length=4, target_length=5)
    with shapes_only(), pytest.raises(ValueError, match="Plan after `shapes_only` has ended"):
        memory_plan(model, 3, target_length=5)
    with pytest.raises(TypeError, match="`model` must be"):
        memory_plan(keras.Sequential([keras.layers.Dense(1)]), 3, target_length=5)


# XLA on a processor; the table of the guide to memory has more.
BOUND = 0.1
CASES = (
    "small",
    "small, attention dropout",
    "small, no dropout",
    "small, pre-norm, RMS, SwiGLU, rotary, 2 key heads",
    "small, GELU, relative, inner dropout",
    "causal, 4 layers of 256",
    "encoder, 4 layers of 256",
)


@pytest.mark.slow
@pytest.mark.backend
def test_the_plan_is_close_to_what_xla_reports() -> None:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.training.memory_plan", "--json", *CASES],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    assert len(lines) == len(CASES)
    for line in lines:
        assert line["plan_state"] == pytest.approx(line["xla_state"], rel=0.01), line
        assert line["plan_rest"] == pytest.approx(line["xla_rest"], rel=BOUND), line
