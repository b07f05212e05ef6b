"""Checks of numbers: forward pass, fused attention, padding, decoding, files, determinism."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import keras_transformer as kt
from benchmarks.accelerator import models
from benchmarks.accelerator.checks import CannotError, Outcome, Setting, check
from benchmarks.accelerator.engines import difference
from benchmarks.accelerator.reference import FILE
from keras_transformer._backend import compile_function, fused_attention
from keras_transformer.types import SPECIAL_IDS

_HALF = ("bfloat16", "float16")


@check("device, and fit without TensorFlow", "the platform is gpu; a loss falls", seconds=60)
def device(setting: Setting) -> Outcome:
    """Find the device, and train a few steps."""
    model = kt.Transformer(20, 20, **models.SIZES)
    kt.training.compile_model(model, 1e-3)
    inputs, labels = models.batch(20, 32, 8)
    losses = model.fit(inputs, labels, batch_size=16, epochs=4, verbose=0).history["loss"]
    platform = setting.engine.platform()
    numbers = {
        "platform": platform,
        "keras": keras.__version__,
        setting.engine.name: sys.modules[setting.engine.name].__version__,
        "tensorflow": "imported" if sys.modules.get("tensorflow") else "not imported",
        "losses": [round(loss, 3) for loss in losses],
    }
    if losses[-1] >= losses[0]:
        return Outcome(False, numbers)
    return setting.on_card(platform == "gpu", numbers, "This is a processor; the loss falls.")


@check("forward pass of every option", "at most 1e-4 from float64 on a processor", seconds=90)
def forward(setting: Setting) -> Outcome:
    """Compare the models of all options with stored outputs of TensorFlow."""
    expected, numbers = np.load(FILE), {}
    with setting.engine.precision("float32"):
        for name in setting.size(
            tuple(models.OPTIONS), ("base", "rotary positions", "gated", "convolved frames")
        ):
            model = models.make(name)
            numbers[name] = difference(setting.engine.call(model, models.inputs_of(model)), expected[name])
    return Outcome(max(numbers.values()) <= 1e-4, numbers)


def _masks(batch_size: int, num_queries: int, num_keys: int) -> dict[str, Any]:
    """Return masks that broadcast to `(b, h, t, s)`."""
    distance = np.arange(num_queries)[:, None] - np.arange(num_keys)[None, :]
    lengths = np.linspace(num_keys, 1, batch_size).astype(int)
    padding = (np.arange(num_keys) < lengths[:, None])[:, None, None, :]
    causal = (distance >= 0)[None, None]
    window = (np.abs(distance) < 5)[None, None]
    some = np.ones((batch_size, 1, num_queries, num_keys), bool)
    some[0, :, num_queries // 2] = False  # a query without a visible key
    return {
        "none": None,
        "padding": padding,
        "causal": causal,
        "causal and padding": causal & padding,
        "window": window,
        "a row without a key": some,
    }


def _compare_attention(
    setting: Setting, dtype: str, lengths: tuple[int, int], key_dim: int, flash: bool | None
) -> dict[str, float]:
    """Return the difference of fused attention from the float32 formula, by mask; outputs and gradients."""
    engine, (t, s) = setting.engine, lengths
    kernel = fused_attention(key_dim, key_dim)
    assert kernel is not None  # noqa: S101 (JAX and torch have one)
    masks = {name: None if mask is None else engine.array(mask) for name, mask in _masks(2, t, s).items()}
    rng = np.random.default_rng(0)
    shapes = [(len(masks), 2, length, 4, key_dim) for length in (t, s, s)]
    # Rounded to half precision, so that both sides get the same numbers. Each mask has different heads.
    heads = [engine.array(rng.normal(size=shape).astype("float32"), dtype) for shape in shapes]
    exact = [keras.ops.cast(each, "float32") for each in heads]
    # Weighted, since the plain sum of a softmax has a gradient of zero.
    weights = engine.array(rng.normal(size=shapes[0]).astype("float32"))

    def by_mask(attend: Callable[..., Any], *inputs: Any) -> tuple[Any, ...]:
        # One function for all masks, since JAX compiles each function.
        def outputs(*inputs: Any) -> Any:
            pairs = zip(masks.values(), zip(*inputs, strict=True), strict=True)
            return keras.ops.stack([keras.ops.cast(attend(*each, mask), "float32") for mask, each in pairs])

        return engine.outputs_and_gradients(outputs, weights, *inputs)

    fused = by_mask(lambda *inputs: kernel(*inputs, flash_attention=flash), *heads)
    plain = by_mask(lambda *inputs: kt.layers.dot_product_attention(*inputs)[0], *exact)
    return {
        name: max(difference(a[number], b[number]) for a, b in zip(fused, plain, strict=True))
        for number, name in enumerate(masks)
    }


@check(
    "fused against plain attention",
    "outputs and gradients within 1e-4 in float32, 2e-2 in half precision",
    seconds=120,
)
def attention(setting: Setting) -> Outcome:
    """Compare every length, width and mask in each precision."""
    lengths = setting.size([(7, 7), (33, 33), (128, 128), (129, 129), (33, 128), (129, 7)], [(7, 9)])
    widths = setting.size((32, 64, 128), (8,))
    worst: dict[str, float] = {}
    with setting.engine.precision("float32"):
        for dtype, pair, width in itertools.product(("float32", *_HALF), lengths, widths):
            # All widths with the lengths of one tile, and all lengths with one width.
            if width != widths[-1] and pair != (33, 33):
                continue
            for mask, error in _compare_attention(setting, dtype, pair, width, None).items():
                worst[f"{dtype}, {mask}"] = max(worst.get(f"{dtype}, {mask}", 0.0), error)
    passed = all(error <= (1e-4 if name.startswith("float32") else 2e-2) for name, error in worst.items())
    return Outcome(passed, worst)


@check(
    "flash attention of JAX by its option",
    "within 2e-2 in half precision, or refused with an error",
    seconds=60,
    backends=("jax",),
)
def flash(setting: Setting) -> Outcome:
    """Compare `flash_attention=True` with the formula; it is never the default on JAX."""
    if setting.engine.platform() != "gpu":
        raise CannotError("JAX has this kernel only on a GPU.")
    found: dict[str, Any] = {}
    for dtype in _HALF:
        try:
            found[dtype] = _compare_attention(setting, dtype, (128, 128), 64, flash=True)
        except Exception as error:  # noqa: BLE001 (cuDNN's own refusals have many classes)
            found[dtype] = f"{type(error).__name__}: {error}"[:300]
    numbers = [error for each in found.values() if isinstance(each, dict) for error in each.values()]
    return Outcome(all(error <= 2e-2 for error in numbers), found)


@check("which kernel of attention ran", "never the plain formula because of a mask", seconds=60)
def kernels(setting: Setting) -> Outcome:
    """Read the compiled module on JAX, the profiler on torch."""
    engine, (b, t, h, k) = setting.engine, setting.size((4, 128, 8, 64), (2, 16, 2, 8))
    kernel, with_dropout = fused_attention(k, k), fused_attention(k, k, dropout=0.1)
    assert kernel is not None  # noqa: S101
    table: dict[str, str] = {}
    for dtype in ("float32", *_HALF):
        heads = [
            engine.array(np.random.default_rng(i).normal(size=(b, t, h, k)).astype("float32"), dtype)
            for i in range(3)
        ]
        for name, mask in _masks(b, t, t).items():
            mask = None if mask is None else engine.array(mask)
            table[f"{dtype}, {name}"] = engine.kernel(lambda *x, mask=mask: kernel(*x, mask), *heads)
        if with_dropout is not None:  # on torch
            table[f"{dtype}, dropout"] = engine.kernel(with_dropout, *heads)
    by_mask = [
        (table[f"{dtype}, none"], kernel)
        for dtype in ("float32", *_HALF)
        for name, kernel in table.items()
        if name.startswith(dtype)
    ]
    only_a_mask = any("math" in kernel and "math" not in without for without, kernel in by_mask)
    return setting.on_card(not only_a_mask, table, "A processor has other kernels.")


@check(
    "padding, future tokens and batch change nothing", "1e-5 in float32, 2e-2 in half precision", seconds=60
)
def invariance(setting: Setting) -> Outcome:
    """Add padding, change future tokens, compute one row of a batch of 64 separately."""
    numbers = {}
    for dtype in ("float32", "mixed_bfloat16", "mixed_float16"):
        with setting.engine.precision("float32"):
            model = models.with_weights(
                kt.Transformer(models.V, models.V, dtype=dtype, **models.SIZES), scale=0.1
            )
            inputs = models.inputs_of(model, setting.size(64, 8), 33)
            logits = setting.engine.call(model, inputs)
            row = {name: values[5:6] for name, values in inputs.items()}
            numbers[f"{dtype}, a row alone"] = difference(setting.engine.call(model, row), logits[5:6])
            wider = {name: np.pad(values, ((0, 0), (0, 31))) for name, values in inputs.items()}
            is_token = inputs["decoder_token_ids"] != 0
            padded = keras.ops.convert_to_numpy(keras.ops.cast(setting.engine.call(model, wider), "float32"))[
                :, : is_token.shape[1]
            ]
            given = keras.ops.convert_to_numpy(keras.ops.cast(logits, "float32"))
            numbers[f"{dtype}, further padding"] = difference(padded[is_token], given[is_token])
            other = {**inputs, "decoder_token_ids": inputs["decoder_token_ids"].copy()}
            other["decoder_token_ids"][:, 9:] = (other["decoder_token_ids"][:, 9:] + 1) % models.V
            numbers[f"{dtype}, another future"] = difference(
                setting.engine.call(model, other)[:, :9], logits[:, :9]
            )
    passed = all(error <= (1e-5 if name.startswith("float32") else 2e-2) for name, error in numbers.items())
    return Outcome(passed, numbers)


@check("decoding against the processor", "the tokens of 98 % of the sentences", seconds=90)
def decoding(setting: Setting) -> Outcome:
    """Decode greedily and with a beam of 4 in batches of several sizes, here and on the processor."""
    engine, numbers = setting.engine, {}

    def make_model() -> Any:
        return models.with_weights(
            kt.Transformer(models.V, models.V, **{**models.SIZES, "tie_output": False}), scale=0.5
        )

    with engine.precision("float32"):
        model = make_model()
        with engine.on_cpu():
            expected_model = make_model()
        for size in setting.size((1, 32, 256), (8,)):
            source = models.inputs_of(model, size, 20)["encoder_token_ids"]
            for name, search in _searches().items():
                found = _decode(model, source, search)
                with engine.on_cpu():
                    expected = _decode(expected_model, source, search)
                pairs = [np.array(keras.ops.convert_to_numpy(each))[:, 0] for each in (found, expected)]
                numbers[f"{name}, batch of {size}"] = float((pairs[0] == pairs[1]).all(axis=1).mean())
    return Outcome(min(numbers.values()) >= 0.98, numbers)


def _decode(model: Any, source: Any, search: kt.decoding.Search) -> Any:
    """Return token ids `(b, n, t)` by a compiled search, as `Translator` does."""
    compiled = compile_function(
        lambda ids: kt.decoding.generate(model, ids, search, max_length=24).token_ids, model.variables
    )
    return compiled(keras.ops.convert_to_tensor(source))


def _searches() -> dict[str, kt.decoding.Search]:
    return {
        "greedy": kt.decoding.GreedySearch(special_ids=SPECIAL_IDS),
        "beam of 4": kt.decoding.BeamSearch(beam_size=4, special_ids=SPECIAL_IDS),
    }


@check("a file from JAX, on torch and on the processor", "logits within 1e-5", seconds=60)
def files(setting: Setting) -> Outcome:
    """Write a trained model with JAX; load it on the processor, and later in the process of torch."""
    path, answers = setting.directory / "from_jax.keras", setting.directory / "from_jax.npy"
    engine, numbers = setting.engine, {}
    with engine.precision("float32"):
        if engine.name == "jax":
            model = kt.Transformer(models.V, models.V, **models.SIZES)
            kt.training.compile_model(model, 1e-3)
            inputs = models.inputs_of(model)
            model.fit(inputs, inputs["decoder_token_ids"], epochs=2, verbose=0)
            model.save(path)
            np.save(answers, keras.ops.convert_to_numpy(engine.call(model, inputs)))
        elif not path.exists():
            raise CannotError("The process of JAX left no file.")
        expected = np.load(answers)
        loaded = keras.models.load_model(path)
        numbers[f"loaded by {engine.name}"] = difference(
            engine.call(loaded, models.inputs_of(loaded)), expected
        )
        with engine.on_cpu():
            loaded = keras.models.load_model(path)
            numbers["loaded on the processor"] = difference(
                engine.call(loaded, models.inputs_of(loaded)), expected
            )
    return Outcome(max(numbers.values()) <= 1e-5, numbers)


@check(
    "two processes, deterministic flags, cache of compilations",
    "bit for bit the same; the second process has its first step within 2 s",
    seconds=100,
    backends=("jax",),
)
def processes(setting: Setting) -> Outcome:
    """Train a few steps in two new processes, which share a cache of compiled steps."""
    flags = os.environ.get("XLA_FLAGS", "")
    if setting.engine.platform() == "gpu":
        flags += " --xla_gpu_deterministic_ops=true"
    environment = {**os.environ, "XLA_FLAGS": flags}
    command = [sys.executable, "-m", "benchmarks.accelerator.first_step", str(setting.directory / "cache")]
    command += ["--tiny"] if setting.dry else []
    runs = []
    for _ in range(2):
        finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        runs.append(json.loads(finished.stdout.splitlines()[-1]))
    numbers = {"first": runs[0], "second": runs[1]}
    if runs[0]["weights"] != runs[1]["weights"]:
        return Outcome(False, numbers)
    return setting.on_card(
        runs[1]["first_step"] <= 2, numbers, "The results are the same; the time needs an accelerator."
    )


@check("deterministic operations twice", "the same bits", seconds=60, backends=("torch",))
def deterministic(setting: Setting) -> Outcome:
    """Train twice with the same seed and torch's deterministic operations."""
    import torch

    from benchmarks.accelerator.first_step import train

    torch.use_deterministic_algorithms(True)
    try:
        runs = [train(tiny=setting.dry)["weights"] for _ in range(2)]
    finally:
        torch.use_deterministic_algorithms(False)
    return Outcome(runs[0] == runs[1], {"weights": runs})
