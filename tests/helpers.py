"""What tests of all rooms share: arrays, and random numbers that are the same on every machine."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer import decoding
from keras_transformer.training import Checkpoint
from keras_transformer.types import SPECIAL_IDS

array = keras.ops.convert_to_numpy

# Of models without tokenizers, whose ids are those of the package.
GreedySearch, SampleSearch, BeamSearch = (
    partial(kind, special_ids=SPECIAL_IDS)
    for kind in (decoding.GreedySearch, decoding.SampleSearch, decoding.BeamSearch)
)
score_tokens = partial(decoding.score_tokens, special_ids=SPECIAL_IDS)
target_attention = partial(decoding.target_attention, special_ids=SPECIAL_IDS)


def score_targets(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Return the log-probabilities of targets `(b,)`, and the numbers of their scored tokens."""
    found = score_tokens(*args, num_alternatives=0, **kwargs)
    return keras.ops.sum(found.log_probabilities, 1), keras.ops.sum(
        keras.ops.cast(found.is_scored, "int32"), 1
    )


def draw(*shape: int, seed: int = 0) -> Any:
    """Draw standard normal float32 numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def talkative(model: Any, seed: int) -> Any:
    """Give a model random weights so large that different sources have different answers."""
    rng = np.random.default_rng(seed)
    for weight in model.trainable_variables:
        if len(weight.shape) > 1:
            weight.assign(rng.normal(size=weight.shape))
    return model


def named_weights(weights: list[Any]) -> dict[str, Any]:
    """Name the weights of an attention: `query_kernel`, `query_bias`, ..., `output_kernel`, `output_bias`."""
    names = ["_".join(weight.path.split("/")[-2:]) for weight in weights]
    return {
        name.removeprefix("attention_"): array(weight) for name, weight in zip(names, weights, strict=True)
    }


def save_epochs(directory: Path, num: int = 1) -> None:
    """Leave the checkpoints of a run that has trained so many epochs."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    checkpoint = Checkpoint(directory)
    checkpoint.set_model(model)
    for epoch in range(num):
        checkpoint.on_epoch_end(epoch, {"val_loss": 1.0})


def input_gradient(function: Callable[[Any], Any], at: Any) -> Any:
    """Differentiate the sum of a function's result by its input, on whatever backend Keras uses."""
    backend = keras.backend.backend()
    if backend == "jax":
        jax = pytest.importorskip("jax")
        return array(jax.grad(lambda inputs: keras.ops.sum(function(inputs)))(at))
    if backend == "torch":
        inputs = pytest.importorskip("torch").tensor(at, requires_grad=True)
        keras.ops.sum(function(inputs)).backward()
        return array(inputs.grad)
    tf = pytest.importorskip("tensorflow")
    inputs = tf.constant(at)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        total = keras.ops.sum(function(inputs))
    return array(tape.gradient(total, inputs))


def refused_in_one_way_only(apply: Callable[[dict[str, Any]], Any], given: dict[str, Any]) -> list[str]:
    """Call a layer on inputs of other shapes, eagerly and symbolically: what differs, in words."""

    def outcome(arrays: dict[str, Any], convert: Callable[[Any], Any]) -> Any:
        # Each backend has errors of its own, where ours are not raised.
        with contextlib.suppress(Exception):
            outputs = apply({name: convert(array) for name, array in arrays.items()})
            return [tuple(output.shape) for output in keras.tree.flatten(outputs)]
        return "an error"

    found = []
    for changed, array in given.items():
        for words, other in _reshaped(array).items():
            arrays = {**given, changed: other}
            eager = outcome(arrays, keras.ops.convert_to_tensor)
            symbolic = outcome(arrays, lambda array: keras.KerasTensor(array.shape, str(array.dtype)))
            if symbolic != eager:
                found.append(f"{changed} {words}: {symbolic}, eagerly {eager}")
    return found


def _reshaped(array: Any) -> dict[str, Any]:
    """Return arrays of the same numbers in shapes that another layer may have wanted."""
    changed = {
        "without the first axis": array[0],
        "with one axis more": array[None],
        "of another batch": np.concatenate([array, array[:1]]),
        "without the last position": array[:, :-1],
        "of twice the length": np.concatenate([array, array], axis=1),
    }
    return changed | ({"of another width": array[..., :-1]} if array.ndim > 2 else {})


_CLIENT = """
import json, sys
import tensorflow as tf
import tensorflow_text
directory, sizes = sys.argv[1], [int(size) for size in sys.argv[2:]]
serve = tf.saved_model.load(directory).signatures["serving_default"]
texts = json.load(sys.stdin)
assert not [name for name in sys.modules if name.startswith("keras_transformer")]
answers = []
for size in sizes:
    rows = []
    for start in range(0, len(texts), size):
        answer = serve(text=tf.constant(texts[start : start + size]))
        answer = {name: value.numpy().tolist() for name, value in answer.items()}
        rows += [dict(zip(answer, row)) for row in zip(*answer.values())]
    answers.append(rows)
print(json.dumps(answers, default=lambda value: value.decode()))
"""


def asked_without_keras(
    directory: Path, texts: Sequence[str], sizes: Sequence[int]
) -> list[list[dict[str, Any]]]:
    """Ask an export in a process without this package, in batches of each size; return its outputs."""
    finished = subprocess.run(
        [sys.executable, "-P", "-c", _CLIENT, str(directory), *map(str, sizes)],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
    )
    answers: list[list[dict[str, Any]]] = json.loads(finished.stdout)
    return answers
