"""Checks of training and speed: compared steps, half precision, compilations, memory, devices."""

import contextlib
import time
from typing import Any

import keras
import numpy as np

import keras_transformer as kt
from benchmarks.accelerator import models
from benchmarks.accelerator.checks import CannotError, Outcome, Setting, check
from benchmarks.accelerator.engines import difference, seconds_of

_PEERS = {"jax": "hand-written JAX", "torch": "torch.nn.Transformer"}
# Target tokens a second of a step of `big`, on an accelerator.
_LEAST_OF_BIG = 82_000


class _Batches(keras.utils.PyDataset):
    """A Keras dataset that repeats the same batches."""

    def __init__(self, batches: list[tuple[Any, Any]], length: int) -> None:
        super().__init__()
        self._batches, self._length = batches, length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._batches[index % len(self._batches)]


class _Clock(keras.callbacks.Callback):
    """Measures each epoch, until the last step is done."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self._setting, self.seconds, self.losses = setting, [], []
        self._start = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.losses.append(float(logs["loss"]))  # waits for the last step
        self._setting.engine.wait(None)
        self.seconds.append(time.perf_counter() - self._start)


def _ours(setting: Setting, size: str, precision: str, sizes: tuple[int, int, int]) -> float:
    """Return the seconds of a step of `fit`."""
    vocabulary, batch_size, length = sizes
    dtype = "mixed_bfloat16" if precision == "bfloat16" else "float32"
    model = models.preset(size, dtype, vocabulary_size=vocabulary)
    # Without metrics, as in the other libraries: accuracy would read all logits again.
    loss = kt.training.MaskedCrossentropy(label_smoothing=0.1)
    model.compile(kt.training.Adam(1e-4, 0.9, 0.98, 1e-9), loss, jit_compile=setting.engine.name == "jax")
    steps, clock = setting.size(30, 2), _Clock(setting)
    data = _Batches([models.batch(vocabulary, batch_size, length)], steps)
    model.fit(data, epochs=3, verbose=0, callbacks=[clock])
    return min(clock.seconds[1:]) / steps


def _hand_written(setting: Setting, size: str, precision: str, sizes: tuple[int, int, int]) -> float:
    """Return the seconds of a step in plain JAX."""
    import functools

    import jax

    from benchmarks.accelerator import plain_jax

    vocabulary, batch_size, length = sizes
    model = models.preset(size, "float32", vocabulary_size=vocabulary)
    weights = {weight.path: weight.value for weight in model.weights}
    dtype = "bfloat16" if precision == "bfloat16" else "float32"
    options = {"layers": model.config.num_layers, "rate": model.config.dropout, "dtype": dtype}
    step = jax.jit(functools.partial(plain_jax.step, **options), donate_argnums=0)
    zeros = jax.tree.map(jax.numpy.zeros_like, weights)
    state: Any = (
        jax.tree.map(jax.numpy.copy, weights),
        zeros,
        jax.tree.map(jax.numpy.copy, zeros),
        jax.numpy.zeros(()),
    )
    inputs, labels = models.batch(vocabulary, batch_size, length)
    arrays = tuple(map(jax.numpy.asarray, (inputs["encoder_token_ids"], inputs["decoder_token_ids"], labels)))

    def train() -> Any:
        nonlocal state
        state, loss = step(state, arrays)
        return loss

    return seconds_of(setting.engine, train, setting.size(30, 2))


def _torch_transformer(setting: Setting, size: str, precision: str, sizes: tuple[int, int, int]) -> float:
    """Return the seconds of a step of `torch.nn.Transformer` in a plain loop with the fused Adam."""
    import torch
    from torch.nn import functional

    vocabulary, batch_size, length = sizes
    config = models.preset("tiny", "float32").config if size == "tiny" else kt.models.PRESETS[size]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rate, width = config.dropout, config.hidden_dim
    table = torch.nn.Embedding(vocabulary, width).to(device)
    torch.nn.init.normal_(table.weight, std=width**-0.5)
    net = torch.nn.Transformer(
        width,
        config.num_heads,
        config.num_layers,
        config.num_layers,
        config.intermediate_dim,
        rate,
        batch_first=True,
    )
    net = net.to(device).train()
    positions = torch.zeros(length, width, device=device)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(length, device=torch.device(device))
    parameters = [*table.parameters(), *net.parameters()]
    optimizer = torch.optim.Adam(parameters, 1e-4, (0.9, 0.98), 1e-9, fused=True)
    inputs, labels = models.batch(vocabulary, batch_size, length)
    arrays = (inputs["encoder_token_ids"], inputs["decoder_token_ids"], labels)
    source, target, wanted = (torch.as_tensor(each, device=device).long() for each in arrays)

    def train() -> Any:
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16"):
            embedded = [
                functional.dropout(table(ids) * width**0.5 + positions, rate) for ids in (source, target)
            ]
            states = net(
                *embedded, tgt_mask=causal, tgt_is_causal=True, src_key_padding_mask=source == 0,
                memory_key_padding_mask=source == 0,
            )  # fmt: skip
            logits = functional.linear(states, table.weight)
            loss = functional.cross_entropy(
                logits.flatten(0, 1).float(), wanted.flatten(), ignore_index=0, label_smoothing=0.1
            )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss

    return seconds_of(setting.engine, train, setting.size(30, 2))


def _product_flops(setting: Setting, dtype: str) -> float:
    """Return the operations a second of a large matrix product."""
    size = setting.size(8192, 256)
    rng = np.random.default_rng(0)
    left, right = (
        setting.engine.array(rng.normal(size=(size, size)).astype("float32"), dtype) for _ in range(2)
    )
    seconds = seconds_of(setting.engine, lambda: left @ right, setting.size(20, 2))
    return 2 * size**3 / seconds


def _step(setting: Setting, size: str, precision: str) -> Outcome:
    if precision == "tf32" and setting.engine.platform() != "gpu":
        raise CannotError("A processor has no TF32.")
    sizes = setting.size((32000, 128, 64), (100, 4, 8))
    peer = {"jax": _hand_written, "torch": _torch_transformer}[setting.engine.name]
    preset = setting.size(size, "tiny")
    with setting.engine.precision(precision):
        ours = _ours(setting, preset, precision, sizes)
        theirs = peer(setting, preset, precision, sizes)
        peak = _product_flops(setting, "bfloat16" if precision == "bfloat16" else "float32")
    config, (vocabulary, batch_size, length) = kt.models.PRESETS[preset], sizes
    d, f, n = config.hidden_dim, config.intermediate_dim, config.num_layers
    # Matrix products for a source and a target token: attention has 4 and 8 matrices, feed-forward 2 and 2.
    per_pair = n * (12 * d * d + 4 * d * f) + vocabulary * d
    tokens = batch_size * length
    numbers = {
        "tokens_per_second": round(tokens / ours),
        f"{_PEERS[setting.engine.name]}, tokens_per_second": round(tokens / theirs),
        "share_of_peer": round(theirs / ours, 3),
        "share_of_product": round(6 * per_pair * tokens / ours / peak, 3),
        "product_tflops": round(peak / 1e12, 2),
    }
    fast = theirs / ours >= 0.9 and (
        size != "big" or precision != "bfloat16" or tokens / ours >= _LEAST_OF_BIG
    )
    return setting.on_card(fast, numbers, "A tiny model on a processor has no meaningful speed.")


for _size, _precision, _seconds in (
    ("big", "bfloat16", 90),
    ("base", "bfloat16", 70),
    ("base", "tf32", 70),
    ("base", "float32", 70),
    ("big", "tf32", 100),
):
    check(
        f"training step of {_size}, {_precision}",
        "0.9 of the peer's tokens a second"
        + (f"; {_LEAST_OF_BIG:,}" if (_size, _precision) == ("big", "bfloat16") else ""),
        seconds=_seconds,
    )(lambda setting, size=_size, precision=_precision: _step(setting, size, precision))


@check("the plain JAX code computes the same model", "its loss within 1e-5", seconds=60, backends=("jax",))
def same_model(setting: Setting) -> Outcome:
    """Compare the losses of both without dropout, with padding."""
    import jax

    from benchmarks.accelerator import plain_jax

    with setting.engine.precision("float32"):
        sizes = {**models.SIZES, "share_embeddings": True}
        model = models.with_weights(kt.Transformer(models.V, models.V, **sizes), scale=0.2)
        inputs = models.inputs_of(model)
        labels = inputs["decoder_token_ids"]
        logits = setting.engine.call(model, inputs)
        ours = kt.training.MaskedCrossentropy(label_smoothing=0.1)(labels, logits)
        theirs = plain_jax.loss(
            {weight.path: weight.value for weight in model.weights},
            *map(jax.numpy.asarray, (inputs["encoder_token_ids"], labels, labels)),
            jax.random.key(0), layers=2, rate=0.0, dtype="float32",
        )  # fmt: skip
    error = difference(ours, theirs)
    return Outcome(error <= 1e-5, {"difference": error})


@check("mixed_float16 with a forced overflow", "the step is skipped, the scale halved, no NaN", seconds=60)
def overflow(_: Setting) -> Outcome:
    """Set the scale of the loss so high that gradients overflow."""
    model = kt.Transformer(20, 20, dtype="mixed_float16", **models.SIZES)
    kt.training.compile_model(model, 1e-3)
    batch = models.batch(20, 16, 8)
    model.train_on_batch(*batch)
    scale = model.optimizer.dynamic_scale
    scale.assign(2.0**40)
    before = model.get_weights()
    model.train_on_batch(*batch)
    unchanged = all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    halved = float(keras.ops.convert_to_numpy(scale)) == 2.0**39
    scale.assign(2.0**15)
    losses = [float(model.train_on_batch(*batch)[0]) for _ in range(3)]
    changed = any(not np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    finite = all(np.isfinite(weight).all() for weight in model.get_weights()) and np.isfinite(losses).all()
    numbers = {"step skipped": unchanged, "scale halved": halved, "goes on": changed, "losses": losses}
    return Outcome(bool(unchanged and halved and changed and finite), numbers)


@check("mixed_bfloat16 learns to copy", "99 % of the tokens", seconds=60)
def copying(setting: Setting) -> Outcome:
    """Train on random sequences that are their own targets."""
    vocabulary, length = setting.size((30, 10), (8, 3))
    model = kt.Transformer(
        vocabulary,
        vocabulary,
        dtype="mixed_bfloat16",
        **{**models.SIZES, **setting.size({"hidden_dim": 64}, {"num_layers": 1})},
    )
    rng, shape, epochs = np.random.default_rng(0), (setting.size(20000, 4000), length), setting.size(6, 5)
    # At a constant rate the last epoch of some seeds has errors again.
    rate = keras.optimizers.schedules.CosineDecay(setting.size(2e-3, 5e-3), epochs * shape[0] // 100)
    kt.training.compile_model(model, rate, label_smoothing=0.0)
    ids = rng.integers(4, vocabulary, shape).astype("int32")
    shifted = np.concatenate([np.full((len(ids), 1), 2, "int32"), ids[:, :-1]], axis=1)
    inputs = {"encoder_token_ids": ids, "decoder_token_ids": shifted}
    history = model.fit(inputs, ids, batch_size=100, epochs=epochs, verbose=0).history
    return Outcome(
        history["accuracy"][-1] >= 0.99, {"accuracy": history["accuracy"], "loss": history["loss"]}
    )


@check("an epoch of length buckets", "one compilation for each bucket", seconds=60, backends=("jax",))
def buckets(_: Setting) -> Outcome:
    """Count how often the step is traced in two epochs of batches of four lengths."""
    model = kt.Transformer(models.V, models.V, **models.ONE_LAYER)
    kt.training.compile_model(model, 1e-3)
    shapes: list[tuple[int, ...]] = []
    train_step = model.train_step

    def counted(state: Any, data: Any) -> Any:
        shapes.append(tuple(data[1].shape))
        return train_step(state, data)

    model.train_step = counted
    lengths = (8, 16, 24, 32)
    data = _Batches([models.batch(models.V, 64 // length, length) for length in lengths], 2 * len(lengths))
    model.fit(data, epochs=2, verbose=0, shuffle=False)
    return Outcome(len(shapes) == len(lengths), {"buckets": len(lengths), "compilations": len(shapes)})


@check(
    "torch with jit_compile=True", "no graph breaks, not slower than eager", seconds=110, backends=("torch",)
)
def compiled(setting: Setting) -> Outcome:
    """Look for graph breaks in the forward pass; on an accelerator train compiled and eagerly."""
    import torch

    if setting.dry:
        raise CannotError("The compiler of torch takes minutes on a processor.")
    model = models.make("base")
    inputs = {
        name: torch.as_tensor(ids, device=model.weights[0].value.device)
        for name, ids in models.inputs_of(model).items()
    }
    model(inputs)
    explained = torch._dynamo.explain(model)(inputs)
    numbers: dict[str, Any] = {
        "graph_breaks": explained.graph_break_count,
        "reasons": [str(each.reason)[:200] for each in explained.break_reasons][:5],
    }
    sizes, seconds = (32000, 128, 64), {}
    for jit in (False, True):
        each = models.preset("base", "mixed_bfloat16")
        loss = kt.training.MaskedCrossentropy(label_smoothing=0.1)
        each.compile(kt.training.Adam(1e-4), loss, jit_compile=jit)
        clock = _Clock(setting)
        each.fit(_Batches([models.batch(*sizes)], 10), epochs=3, verbose=0, callbacks=[clock])
        seconds[jit] = clock.seconds[-1] / 10
    numbers |= {"eager": seconds[False], "compiled": seconds[True]}
    return Outcome(explained.graph_break_count == 0 and seconds[True] <= seconds[False], numbers)


@check(
    "decoding compared with transformers",
    "the same tokens in 98 % of the sentences; faster everywhere",
    seconds=120,
    backends=("torch",),
)
def peers(setting: Setting) -> Outcome:
    """Decode with the same weights as a Marian model, with greedy search and a beam of 4."""
    try:
        from benchmarks.accelerator import marian
    except ImportError as error:
        raise CannotError(f"transformers is not installed: {error}.") from error
    numbers, speeds, same = {}, [], []
    with setting.engine.precision("float32"):
        theirs, ours = marian.make_pair(setting.size("base", "tiny"), setting.size(8000, 60))
        for size in setting.size((1, 32, 256), (1, 4)):
            source = np.random.default_rng(0).integers(4, setting.size(8000, 60), (size, 24)).astype("int32")
            for num_beams in (1, 4):
                found = marian.compare(setting.engine, theirs, ours, source, num_beams, setting.size(64, 8))
                numbers[f"batch of {size}, {num_beams} hypotheses"] = found
                speeds.append(found["times_faster"])
                same.append(found["same"])
    if min(same) < 0.98:
        return Outcome(False, numbers)
    return setting.on_card(min(speeds) > 1, numbers, "The tokens are the same; the speed is a card's.")


@check("memory of a step, with and without rematerialisation", "it saves 30 %", seconds=100)
def memory(setting: Setting) -> Outcome:
    """Measure the memory of a step besides weights and optimizer, without and with `rematerialize`."""
    vocabulary, batch_size, length = setting.size((32000, 64, 64), (50, 8, 32))
    found = {}
    for name in ("plain", "rematerialised"):
        model = models.preset(
            setting.size("base", "tiny"),
            "float32",
            vocabulary_size=vocabulary,
            rematerialize=name != "plain",
        )
        found[name] = _bytes_of_gradients(setting, model, *models.batch(vocabulary, batch_size, length))
    if found["plain"] is None:
        raise CannotError("torch reports memory only for a GPU.")
    found["saved"] = 1 - found["rematerialised"] / found["plain"]
    reason = "On a processor XLA orders operations for speed, and computes early what could wait."
    return setting.on_card(found["saved"] >= 0.3, found, reason)


def _bytes_of_gradients(setting: Setting, model: Any, inputs: Any, labels: Any) -> int | None:
    loss = kt.training.MaskedCrossentropy(label_smoothing=0.1)
    if setting.engine.name == "torch":

        def train() -> Any:
            loss(labels, model(inputs, training=True)).backward()

        return setting.engine.working_bytes(train)
    import jax

    trainable, others = (
        [v.value for v in group] for group in (model.trainable_variables, model.non_trainable_variables)
    )

    def total(trainable: Any) -> Any:
        return loss(labels, model.stateless_call(trainable, others, inputs, training=True)[0])

    return setting.engine.working_bytes(jax.grad(total), trainable)


@check("300 steps", "memory does not grow", seconds=60)
def leaks(setting: Setting) -> Outcome:
    """Compare the memory after the first steps with that after the last."""
    model = kt.Transformer(20, 20, **models.SIZES)
    kt.training.compile_model(model, 1e-4)
    data = models.batch(20, 8, 8)
    counts = []
    for steps in (20, setting.size(280, 60)):
        model.fit(_Batches([data], steps), epochs=1, verbose=0)
        counts.append(_living(setting))
    return Outcome(
        counts[1] <= counts[0],
        {"before": counts[0], "after": counts[1], "unit": "arrays, or bytes on a card"},
    )


def _living(setting: Setting) -> int:
    import gc

    gc.collect()
    if setting.engine.name == "jax":
        import jax

        return len(jax.live_arrays())
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.memory_allocated())
    return sum(isinstance(each, torch.Tensor) for each in gc.get_objects())


@check(
    "data and model parallel on a mesh of one",
    "the losses of one device, an uneven last batch too",
    seconds=90,
    backends=("jax",),
)
def parallel(_: Setting) -> Outcome:
    """Train on 20 rows in batches of 8, with and without a distribution."""
    inputs, labels = models.batch(20, 20, 8)
    losses = {}
    for engine in ("", "data_parallel", "model_parallel"):
        scope = kt.training.distributed(engine, model_shards=1) if engine else contextlib.nullcontext()
        with scope:
            keras.utils.set_random_seed(0)
            model = models.with_weights(kt.Transformer(20, 20, **models.ONE_LAYER), scale=0.1)
            kt.training.compile_model(model, 1e-3)
            losses[engine or "one device"] = model.fit(
                inputs, labels, batch_size=8, epochs=2, verbose=0, shuffle=False
            ).history["loss"]
    worst = max(difference(each, losses["one device"]) for each in losses.values())
    return Outcome(worst <= 1e-5, {**losses, "difference": worst})


@check(
    "lengths of 4,096 and 16,384 with a window",
    "four times the length takes at most five times the memory",
    seconds=90,
)
def windows(setting: Setting) -> Outcome:
    """Measure the memory of attention and its gradient with a window of 256."""
    dtype, found = "mixed_bfloat16", {}
    for length in setting.size((4096, 16384), (64, 256)):
        layer = kt.layers.MultiHeadAttention(
            setting.size(8, 2), 64, sliding_window=setting.size(256, 8), dtype=dtype
        )
        x = setting.engine.array(
            np.random.default_rng(0).normal(size=(1, length, 512)).astype("float32"), "bfloat16"
        )
        layer(x[:, :16], x[:, :16])
        found[str(length)] = _bytes_of_attention(setting, layer, x)
    numbers = list(found.values())
    if numbers[0] is None:
        raise CannotError("torch reports memory only for a GPU.")
    found["times"] = numbers[1] / numbers[0]
    return setting.on_card(found["times"] <= 5, found, "XLA on a processor holds all scores.")


def _bytes_of_attention(setting: Setting, layer: Any, x: Any) -> int | None:
    def total(x: Any) -> Any:
        return keras.ops.sum(keras.ops.cast(layer(x, x, training=True), "float32"))

    if setting.engine.name == "torch":
        leaf = x.detach().requires_grad_()
        return setting.engine.working_bytes(lambda: total(leaf).backward())
    import jax

    return setting.engine.working_bytes(jax.grad(total), x)
