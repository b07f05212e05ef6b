"""The usual way to compile a Transformer; every part can also be used alone."""

import keras

from keras_transformer.training.losses import MaskedCrossentropy
from keras_transformer.training.metrics import MaskedAccuracy, Perplexity
from keras_transformer.training.schedules import InverseSquareRootSchedule, NoamSchedule


def compile_model(
    model: keras.Model,
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
    *,
    label_smoothing: float = 0.1,
) -> None:
    """Compile with the optimizer, loss and metrics of "Attention Is All You Need", section 5.

    Adam with the paper's betas (0.9, 0.98) and epsilon 1e-9, cross-entropy over
    real tokens with label smoothing, accuracy and perplexity over real tokens.

    Args:
        model: a `Transformer`.
        learning_rate: a number or a schedule.
        label_smoothing: the probability that is spread over the vocabulary.
    """
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9),
        loss=MaskedCrossentropy(label_smoothing),
        metrics=[MaskedAccuracy(), Perplexity()],
        # Batches differ in shape, and XLA would compile anew for each shape.
        jit_compile=keras.backend.backend() == "jax",
    )


def make_schedule(
    name: str, *, peak_learning_rate: float, warmup_steps: int, num_steps: int, hidden_dim: int
) -> float | keras.optimizers.schedules.LearningRateSchedule:
    """Make a learning-rate schedule by its name.

    Args:
        name: `constant`, `cosine` (to zero at the last step), `inverse_square_root`
            or `noam` (whose peak follows from the width, not from `peak_learning_rate`).
        peak_learning_rate: the highest rate.
        warmup_steps: the step at which it is reached.
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
