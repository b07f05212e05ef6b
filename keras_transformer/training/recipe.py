"""Standard optimizer, loss and metrics of a Transformer."""

from numbers import Integral

import keras

from keras_transformer._arguments import check_kind, check_number, check_positive, check_rates
from keras_transformer._backend.compiler import compiles_each_shape
from keras_transformer.models.causal_lm import CausalLM
from keras_transformer.models.encoder_model import EncoderModel
from keras_transformer.models.transformer import Transformer
from keras_transformer.training.adam import Adam
from keras_transformer.training.losses import MaskedCrossentropy
from keras_transformer.training.metrics import MaskedAccuracy, Perplexity
from keras_transformer.training.r_drop import RDropCrossentropy


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
    """Compile a model with the optimizer, loss and metrics of "Attention Is All You Need", section 5.

    The optimizer is `Adam` with the paper's betas (0.9, 0.98) and epsilon 1e-9. Cross-entropy, accuracy and
    perplexity ignore padding. If layers compute in float16 (policy `mixed_float16`), the loss is scaled so
    that small gradients do not vanish.

    Args:
        model: A `Transformer`, or another model with logits `(b, t, v)`.
        learning_rate: Number or schedule.
        label_smoothing: Probability mass to spread over the vocabulary. Defaults to 0.1.
        clip_norm: Maximum global norm of the gradients. Defaults to no clipping.
        ema_momentum: Decay of a moving average of the weights, such as 0.999. Defaults to no average.
        gradient_accumulation_steps: Number of batches per update. With `training.fit`, every token of
            these batches has the same weight, as in one large batch; with `model.fit`, every batch has the
            same weight. In float16, a batch whose gradients overflow is replaced by the next one.
        r_drop: Weight of the R-Drop consistency loss; see `RDropCrossentropy`. Defaults to 0 (off).
        z_loss: Weight of the z-loss; see `MaskedCrossentropy`. Defaults to 1e-4 if layers compute in half
            precision, else 0.
        pad_id: Label to ignore. Defaults to 0. If label 0 is a tag, pass another number, such as -100.

    Raises:
        TypeError: If `gradient_accumulation_steps` is not an integer.
        ValueError: If a number is out of range, or `r_drop` is used with a model of another package.
    """
    check_kind(keras.Model, model=model)
    check_kind(Integral, pad_id=pad_id)
    if ema_momentum is not None:
        check_rates(ema_momentum=ema_momentum)
    check_number(r_drop=r_drop)
    if r_drop and not isinstance(model, CausalLM | EncoderModel | Transformer):
        raise ValueError(
            f"R-Drop needs a model of this package. Received: r_drop={r_drop}, a model of class "
            f"{type(model).__name__}."
        )
    if not isinstance(learning_rate, keras.optimizers.schedules.LearningRateSchedule):
        check_number(above=0, learning_rate=learning_rate)
    check_number(above=0, clip_norm=1 if clip_norm is None else clip_norm)
    steps = 1 if gradient_accumulation_steps is None else gradient_accumulation_steps
    check_positive(gradient_accumulation_steps=steps)
    dtypes = {layer.compute_dtype for layer in model.layers}
    # Above 128, bfloat16 has only whole numbers, so logits must stay small. Rejected: float32 logits (a
    # quarter of the arithmetic of `small`, about twice as slow), and kernels without their mean over the
    # vocabulary (which would change the logits that users see).
    if z_loss is None:
        z_loss = 1e-4 if dtypes & {"float16", "bfloat16"} else 0.0
    optimizer = Adam(
        learning_rate if callable(learning_rate) else float(learning_rate),
        beta_1=0.9,
        beta_2=0.98,
        epsilon=1e-9,
        global_clipnorm=clip_norm,
        use_ema=ema_momentum is not None,
        ema_momentum=0.99 if ema_momentum is None else ema_momentum,
        gradient_accumulation_steps=None if steps == 1 else steps,
    )
    if r_drop:
        loss = RDropCrossentropy(r_drop, label_smoothing, pad_id, z_loss=z_loss)
    else:
        loss = MaskedCrossentropy(label_smoothing, pad_id, z_loss=z_loss)
    model.compile(
        # Keras scales the loss only if the model itself has the policy, not if its layers have it.
        optimizer=keras.optimizers.LossScaleOptimizer(optimizer) if "float16" in dtypes else optimizer,
        loss=loss,
        metrics=[MaskedAccuracy(pad_id), Perplexity(pad_id)],
        # XLA compiles for each batch shape, so use it only where the backend needs it.
        jit_compile=compiles_each_shape(),
    )
