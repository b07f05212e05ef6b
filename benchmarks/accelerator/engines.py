"""JAX and torch for the checks: device, gradients, precisions, memory, the kernel that ran."""

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

PRECISIONS = ("float32", "tf32", "bfloat16", "float16")


class Engine(Protocol):
    """The calls of a backend that Keras does not have."""

    name: str

    def device(self) -> str:
        """Return the name of the device."""

    def platform(self) -> str:
        """Return `gpu`, `cpu` or `tpu`."""

    def array(self, values: Any, dtype: str | None = None) -> Any:
        """Move an array to the device."""

    def outputs_and_gradients(
        self, function: Callable[..., Any], weights: Any, *inputs: Any
    ) -> tuple[Any, ...]:
        """Return a function's result, and the gradients of its weighted sum by each input."""

    def wait(self, result: Any) -> None:
        """Wait until a result is computed."""

    def precision(self, name: str) -> contextlib.AbstractContextManager[object]:
        """Multiply float32 in full precision, or as TF32."""

    def on_cpu(self) -> contextlib.AbstractContextManager[object]:
        """Make models and compute on the processor."""

    def call(self, model: Any, inputs: Any) -> Any:
        """Call a model as a whole, compiled where the backend compiles."""

    def kernel(self, function: Callable[..., Any], *inputs: Any) -> str:
        """Name the kernel of attention that a function runs."""

    def working_bytes(self, function: Callable[..., Any], *inputs: Any) -> int | None:
        """Return the bytes that a function needs besides its inputs; None if they are not reported."""


class JaxEngine:
    """JAX: the kernels are read from the compiled module."""

    name = "jax"

    def __init__(self) -> None:
        import jax

        self._jax = jax

    def device(self) -> str:
        return str(self._jax.devices()[0].device_kind)

    def platform(self) -> str:
        return str(self._jax.default_backend())

    def array(self, values: Any, dtype: str | None = None) -> Any:
        return self._jax.numpy.asarray(values, dtype)

    def outputs_and_gradients(
        self, function: Callable[..., Any], weights: Any, *inputs: Any
    ) -> tuple[Any, ...]:
        def total(*inputs: Any) -> tuple[Any, Any]:
            outputs = function(*inputs)
            return self._jax.numpy.sum(outputs * weights), outputs

        numbers = tuple(range(len(inputs)))
        differentiated = self._jax.jit(self._jax.value_and_grad(total, argnums=numbers, has_aux=True))
        (_, outputs), gradients = differentiated(*inputs)
        return outputs, *gradients

    def wait(self, result: Any) -> None:
        self._jax.block_until_ready(result)

    @contextlib.contextmanager
    def precision(self, name: str) -> Iterator[None]:
        # Set for all threads, since Keras compiles in the thread of the loop.
        before = self._jax.config.jax_default_matmul_precision
        chosen = {"tf32": "tensorfloat32", "float32": "highest"}.get(name)
        self._jax.config.update("jax_default_matmul_precision", chosen)
        try:
            yield
        finally:
            self._jax.config.update("jax_default_matmul_precision", before)

    def on_cpu(self) -> contextlib.AbstractContextManager[object]:
        return self._jax.default_device(self._jax.devices("cpu")[0])

    def call(self, model: Any, inputs: Any) -> Any:
        def answer(values: Any, inputs: Any) -> Any:
            import keras

            with keras.StatelessScope(zip(model.variables, values, strict=True)):
                return model(inputs)

        return self._jax.jit(answer)([variable.value for variable in model.variables], inputs)

    def kernel(self, function: Callable[..., Any], *inputs: Any) -> str:
        text = self._jax.jit(function).lower(*inputs).compile().as_text()
        calls = sorted(set(re.findall(r'custom_call_target="([^"]*(?:fmha|cudnn|flash)[^"]*)"', text)))
        return ", ".join(calls) or "math, compiled by XLA"

    def working_bytes(self, function: Callable[..., Any], *inputs: Any) -> int | None:
        analysis = self._jax.jit(function).lower(*inputs).compile().memory_analysis()
        return None if analysis is None else int(analysis.temp_size_in_bytes)


class TorchEngine:
    """Torch: the kernels are read from its profiler."""

    name = "torch"

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._device = "cuda" if torch.cuda.is_available() else "cpu"

    def device(self) -> str:
        return str(self._torch.cuda.get_device_name()) if self._device == "cuda" else "cpu"

    def platform(self) -> str:
        return "gpu" if self._device == "cuda" else "cpu"

    def array(self, values: Any, dtype: str | None = None) -> Any:
        tensor = self._torch.as_tensor(np.asarray(values), device=self._device)
        return tensor if dtype is None else tensor.to(getattr(self._torch, dtype))

    def outputs_and_gradients(
        self, function: Callable[..., Any], weights: Any, *inputs: Any
    ) -> tuple[Any, ...]:
        leaves = [each.detach().clone().requires_grad_() for each in inputs]
        outputs = function(*leaves)
        (outputs * weights).sum().backward()
        return outputs.detach(), *(each.grad for each in leaves)

    def wait(self, result: Any) -> None:
        if self._device == "cuda":
            self._torch.cuda.synchronize()

    @contextlib.contextmanager
    def precision(self, name: str) -> Iterator[None]:
        backends = self._torch.backends
        before = backends.cuda.matmul.allow_tf32, backends.cudnn.allow_tf32
        backends.cuda.matmul.allow_tf32 = backends.cudnn.allow_tf32 = name == "tf32"
        try:
            yield
        finally:
            backends.cuda.matmul.allow_tf32, backends.cudnn.allow_tf32 = before

    def on_cpu(self) -> contextlib.AbstractContextManager[object]:
        import keras

        return keras.device("cpu")

    def call(self, model: Any, inputs: Any) -> Any:
        with self._torch.no_grad():
            return model(inputs)

    def kernel(self, function: Callable[..., Any], *inputs: Any) -> str:
        with self._torch.profiler.profile() as profile:
            function(*inputs)
            self.wait(None)
        names = [event.key for event in profile.key_averages()]
        # `aten::_scaled_dot_product_flash_attention` and so on; `_attention_math` is the formula.
        found = {
            re.sub(r"^aten::_scaled_dot_product_", "", name)
            for name in names
            if "_scaled_dot_product" in name
        }
        return ", ".join(sorted(found)) or "none"

    def working_bytes(self, function: Callable[..., Any], *inputs: Any) -> int | None:
        if self._device != "cuda":
            return None
        cuda = self._torch.cuda
        self.wait(None)
        cuda.empty_cache()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        function(*inputs)
        self.wait(None)
        return int(cuda.max_memory_allocated() - before)


def make_engine(name: str) -> Engine:
    """Return the engine of a backend."""
    return {"jax": JaxEngine, "torch": TorchEngine}[name]()


def seconds_of(engine: Engine, function: Callable[[], Any], repeats: int, warm_ups: int = 2) -> float:
    """Return the mean seconds of a call."""
    for _ in range(warm_ups):
        engine.wait(function())
    start = time.perf_counter()
    for _ in range(repeats):
        result = function()
    engine.wait(result)
    return (time.perf_counter() - start) / repeats


def difference(actual: Any, expected: Any) -> float:
    """Return the largest difference, relative to the largest expected number; infinity if one is NaN."""
    import keras

    actual, expected = (
        np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(x, "float32")), "float64")
        for x in (actual, expected)
    )
    if not (np.isfinite(actual).all() and np.isfinite(expected).all()):
        return float("inf")
    return float(np.abs(actual - expected).max() / max(np.abs(expected).max(), 1e-12))
