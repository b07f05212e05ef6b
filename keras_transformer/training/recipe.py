"""The usual way to compile a Transformer; every part can also be used alone."""

import math
from numbers import Real
from typing import Any

import keras

from keras_transformer.arguments import check_positive
from keras_transformer.models import CausalLM, EncoderModel, Transformer
from keras_transformer.training.adam import Adam
from keras_transformer.training.losses import MaskedCrossentropy
from keras_transformer.training.metrics import MaskedAccuracy, Perplexity
from keras_transformer.training.r_drop import RDropCrossentropy
from keras_transformer.training.schedules import InverseSquareRootSchedule, NoamSchedule


def compile_model(
    model: keras.Model,
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
    *,
    label_smoothing: float = 0.1,
    clip_norm: float | None = None,
    ema_momentum: float | None = None,
    gradient_accumulation_steps: int | None = None,
    r_drop: float = 0.0,
    z_loss: float | None = None,
    pad_id: int = 0,
) -> None:
    """Compile with the optimizer, loss and metrics of "Attention Is All You Need", section 5.

    Adam with the paper's betas (0.9, 0.98) and epsilon 1e-9, cross-entropy over
    real tokens with label smoothing, accuracy and perplexity over real tokens.
    Where layers compute in float16, as with the policy `mixed_float16`, the loss is
    scaled, so that small gradients are not lost.

    Args:
        model: a `Transformer`, or another model with logits `(b, t, v)`.
        learning_rate: a number or a schedule.
        label_smoothing: the probability that is spread over the vocabulary.
        clip_norm: the highest norm of all gradients together; None for no limit.
        ema_momentum: how much of the moving average of the weights stays at each update, such as
            0.999; None for no average. See `EvaluateMovingAverage` and `apply_moving_average`.
        gradient_accumulation_steps: batches of one update; the dataset must be weighed with
            `data.weigh_for_accumulation`. In float16 a batch whose gradients overflow is left out, and
            the updates after it are of batches one further on.
        r_drop: how much two passes with other dropout must agree; 0 for one pass. See
            `RDropCrossentropy`.
        z_loss: how much the logarithm of the softmax's denominator is drawn to 0; see `MaskedCrossentropy`.
            None for 1e-4 where layers compute in half precision, and 0 else.
        pad_id: the label that does not count; -100, for example, where 0 is a tag.

    Raises:
        TypeError: `gradient_accumulation_steps` is no integer.
        ValueError: a number out of its range, or R-Drop of a model that is not of this package.
    """
    if r_drop and not isinstance(model, CausalLM | EncoderModel | Transformer):
        raise ValueError(
            "R-Drop needs a model of this package. "
            f"Received: r_drop={r_drop}, a model of class {type(model).__name__}."
        )
    check_above_zero(learning_rate=learning_rate, clip_norm=clip_norm)
    if gradient_accumulation_steps is not None:
        check_positive(gradient_accumulation_steps=gradient_accumulation_steps)
    optimizer = Adam(
        learning_rate if callable(learning_rate) else float(learning_rate),
        beta_1=0.9,
        beta_2=0.98,
        epsilon=1e-9,
        global_clipnorm=clip_norm,
        use_ema=ema_momentum is not None,
        ema_momentum=0.99 if ema_momentum is None else ema_momentum,
        gradient_accumulation_steps=None if gradient_accumulation_steps == 1 else gradient_accumulation_steps,
    )
    options: dict[str, Any] = {
        "label_smoothing": label_smoothing,
        "pad_id": pad_id,
        "normalize": gradient_accumulation_steps in (None, 1),
        "z_loss": _default_z_loss(model) if z_loss is None else z_loss,
    }
    model.compile(
        optimizer=_scaled(model, optimizer),
        loss=RDropCrossentropy(r_drop, **options) if r_drop else MaskedCrossentropy(**options),
        metrics=[MaskedAccuracy(pad_id), Perplexity(pad_id)],
        jit_compile=jit_compiles(),
    )


def check_above_zero(**numbers: object) -> None:
    """Refuse numbers that are not finite or not above zero.

    Args:
        **numbers: each argument's name and the value received; what is no number, such as a schedule or
            None, passes.

    Raises:
        ValueError: one is not.
    """
    for name, value in numbers.items():
        if isinstance(value, Real) and not 0 < float(value) < math.inf:
            raise ValueError(f"`{name}` must be above zero and finite. Received: {name}={value}.")


def jit_compiles() -> bool:
    """Say whether steps are compiled: on JAX alone, since XLA compiles anew for each shape of a batch.

    Returns:
        What `compile` takes as `jit_compile`.
    """
    return keras.backend.backend() == "jax"


def _default_z_loss(model: keras.Model) -> float:
    """Keep logits small where large ones lose their digits."""
    is_half = any(layer.compute_dtype in ("float16", "bfloat16") for layer in model.layers)
    return 1e-4 if is_half else 0.0


def _scaled(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Scale the loss where it has to be: Keras does if the model itself has the policy, not its layers."""
    if any(layer.compute_dtype == "float16" for layer in model.layers):
        return keras.optimizers.LossScaleOptimizer(optimizer)
    return optimizer


def make_schedule(
    name: str, *, peak_learning_rate: float, warmup_steps: int, num_steps: int, hidden_dim: int
) -> float | keras.optimizers.schedules.LearningRateSchedule:
    """Make a learning-rate schedule by its name.

    Args:
        name: `constant` (the peak from the first step on), `cosine` (to zero at the last step),
            `inverse_square_root` or `noam` (whose peak follows from the width, not from
            `peak_learning_rate`).
        peak_learning_rate: the highest rate.
        warmup_steps: the step at which it is reached; for `cosine` at most a fifth of all.
        num_steps: updates in all.
        hidden_dim: the model width.

    Returns:
        A number for `constant`, else a schedule.

    Raises:
        ValueError: an unknown name.
    """
    if name == "constant":
        return peak_learning_rate
    if name == "cosine":
        # A short run must not be all warm-up.
        warmup_steps = min(warmup_steps, num_steps // 5)
        return keras.optimizers.schedules.CosineDecay(
            0.0, max(num_steps - warmup_steps, 1), warmup_target=peak_learning_rate, warmup_steps=warmup_steps
        )
    if name == "inverse_square_root":
        return InverseSquareRootSchedule(peak_learning_rate, warmup_steps)
    if name == "noam":
        return NoamSchedule(hidden_dim, warmup_steps)
    raise ValueError(
        f"`name` must be one of constant, cosine, inverse_square_root, noam. Received: name={name!r}."
    )
