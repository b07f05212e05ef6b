"""How fast training is, and how much of it is padding."""

import time
from typing import Any

import keras
from keras import ops

from keras_transformer.training.metrics import TokenMean


class Throughput(keras.callbacks.Callback):
    """Adds the target tokens of a second, and the share of padding, to the logs of each epoch.

    `tokens_per_second` counts real tokens, so that it does not rise with padding. The clock runs while
    batches are trained: neither validation nor what other callbacks do at the end of an epoch counts. In
    the first epoch it also runs while the backend traces or compiles the step. `padding` is the share of
    target positions that hold no token, 0 to 1.

    No step is slower for it: the counts are those that `MaskedAccuracy` and `Perplexity` keep on the
    device for their means, read once an epoch. One of them must be in `metrics` of `compile`, which
    `compile_model` sees to. Put it before the callbacks that read the logs, such as
    `keras.callbacks.TensorBoard`.

    Args:
        required: whether a model that counts nothing is refused; if not, nothing is added.

    Raises:
        ValueError: the model was compiled with neither metric; at the end of the first epoch.

    Example:
        ```python
        model.fit(dataset, callbacks=[Throughput(), keras.callbacks.TensorBoard("logs")])
        ```
    """

    def __init__(self, *, required: bool = True) -> None:
        super().__init__()
        self.required = required
        self._start = 0.0
        self._values: dict[str, float] = {}

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Start the clock."""
        self._values = {}
        self._start = time.perf_counter()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Read the counts before validation counts its own."""
        self._values = self._values or self._read()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Add both numbers.

        Args:
            epoch: counted from 0.
            logs: each metric's value; both numbers are added.
        """
        self._values = self._values or self._read()
        if logs is not None:
            logs.update(self._values)

    def _read(self) -> dict[str, float]:
        metric = _token_mean(self.model)
        if metric is None:
            if self.required:
                raise ValueError(_message(self.model))
            return {}
        # First the counts, then the clock: reading them waits for the last step on the device.
        num_tokens, num_positions = (
            float(ops.convert_to_numpy(count)) for count in (metric.num_tokens, metric.num_positions)
        )
        seconds = time.perf_counter() - self._start
        return {
            "tokens_per_second": num_tokens / seconds,
            "padding": 1 - num_tokens / max(num_positions, 1.0),
        }


def _token_mean(model: keras.Model) -> TokenMean | None:
    """Find a metric that counts tokens."""
    return next((metric for metric in _metrics(model) if isinstance(metric, TokenMean)), None)


def _metrics(model: keras.Model) -> list[keras.metrics.Metric]:
    # Keras puts those of `compile` into one metric that has them as its `metrics`.
    return [each for metric in model.metrics for each in getattr(metric, "metrics", [metric])]


def _message(model: keras.Model) -> str:
    return (
        "The model must be compiled with `MaskedAccuracy` or `Perplexity` among its `metrics`, which count "
        f"tokens. Received: metrics={[metric.name for metric in _metrics(model)]}."
    )
