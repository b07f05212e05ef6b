"""The encoder layer and the decoder layer of the course."""

import inspect
from typing import Any, ClassVar

import keras

from keras_transformer._arguments import check_positive, check_rates, freeze_parts
from keras_transformer.course.functions import FullyConnected, _over_keys
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.types import Shape, Tensor


class _PositionalCall(keras.layers.Layer):
    """A layer that takes every argument of `call` by position, and has its options as attributes."""

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        # Keras 3 raises for a Python bool by position ("Only input tensors may be passed as positional
        # arguments"), and the courses pass `training` so. All but the first argument are passed on by
        # keyword.
        arguments = inspect.signature(self.call).bind(*args, **kwargs).arguments
        (_, first), *others = arguments.items()
        return super().__call__(first, **dict(others))

    def options(self) -> dict[str, object]:
        """Return the constructor's arguments."""
        _, *names = inspect.signature(type(self).__init__).parameters
        given = {name: getattr(self, name) for name in names if name != "kwargs"}
        return {name: keras.saving.serialize_keras_object(value) for name, value in given.items()}

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), **self.options()}


class _CourseLayer(_PositionalCall):
    """The options and parts of both layers."""

    attention_names: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        embedding_dim: int,
        num_heads: int,
        fully_connected_dim: int,
        dropout_rate: float = 0.1,
        layernorm_eps: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(
            embedding_dim=embedding_dim, num_heads=num_heads, fully_connected_dim=fully_connected_dim
        )
        check_rates(dropout_rate=dropout_rate)
        self.embedding_dim = embedding_dim
        self.num_heads = num_heads
        self.fully_connected_dim = fully_connected_dim
        self.dropout_rate = dropout_rate
        self.layernorm_eps = layernorm_eps
        self.supports_masking = True
        # In the order of the course, so that the weights of its layers can be set here.
        policy = self.dtype_policy
        for name in self.attention_names:
            options = {"dropout": dropout_rate, "dtype": policy, "name": name}
            setattr(self, name, MultiHeadAttention(num_heads, embedding_dim, **options))
        self.ffn = FullyConnected(embedding_dim, fully_connected_dim, dtype=policy)
        for number in range(1, len(self.attention_names) + 2):
            options = {"epsilon": layernorm_eps, "dtype": policy, "name": f"layernorm{number}"}
            setattr(self, f"layernorm{number}", keras.layers.LayerNormalization(**options))
        self.dropout_ffn = keras.layers.Dropout(dropout_rate, dtype=policy)

    def _check_width(self, x_shape: Shape) -> None:
        """Raise ValueError for an input that cannot be added to what attention returns."""
        if x_shape[-1] not in (self.embedding_dim, None):
            raise ValueError(
                "The last axis of `x` must have the size of `embedding_dim`. Received: "
                f"x of shape {tuple(x_shape)}, embedding_dim={self.embedding_dim}."
            )


@keras.saving.register_keras_serializable(package="keras_transformer.course")
class EncoderLayer(_CourseLayer):
    """Self-attention, then a feed-forward network, each added and normalized.

    Args:
        embedding_dim: the width, `d`, and the width of each head too.
        num_heads: the number of heads, `h`; it need not divide the width.
        fully_connected_dim: the inner width of the feed-forward network, `f`.
        dropout_rate: of the dropout on the attention weights, and of the one after the feed-forward network.
        layernorm_eps: what normalization adds to the variance.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        x: `(b, s, embedding_dim)`.
        training: whether dropout is on.
        mask: 1 (True) where the key is a token: `(b, s)`, `(1, s)`, `(b, 1, s)`, `(b, 1, 1, s)`, or one for
            each query, `(1, s, s)`. If None, the Keras mask of `x` is read.

    Returns:
        `(b, s, embedding_dim)`.

    Raises:
        TypeError: a size that is not an integer.
        ValueError: sizes not above zero, a rate outside [0, 1), an input of another
            width, a mask of another rank or size.

    Example:
        >>> layer = EncoderLayer(embedding_dim=4, num_heads=2, fully_connected_dim=8)
        >>> mask = keras.ops.convert_to_tensor([[1, 1, 0]])
        >>> tuple(layer(keras.ops.ones((1, 3, 4)), True, mask).shape)
        (1, 3, 4)
    """

    attention_names: ClassVar[tuple[str, ...]] = ("mha",)

    def build(self, x_shape: Shape) -> None:
        self._check_width(x_shape)
        self.mha.build(x_shape, x_shape)
        for part in (self.layernorm1, self.ffn, self.layernorm2):
            part.build(x_shape)
        freeze_parts(self)

    def call(self, x: Tensor, training: bool | None = None, mask: Tensor | None = None) -> Tensor:
        self._check_width(x.shape)
        attn_output = self.mha(x, x, x, attention_mask=_over_keys(mask), training=training)
        out1 = self.layernorm1(x + attn_output)
        ffn_output = self.dropout_ffn(self.ffn(out1), training=training)
        return self.layernorm2(out1 + ffn_output)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor | None:
        # A padding mask (b, s) goes on; one for scores fits no vectors.
        is_padding_mask = len(getattr(previous_mask, "shape", ())) == 2
        return previous_mask if is_padding_mask else None


@keras.saving.register_keras_serializable(package="keras_transformer.course")
class DecoderLayer(_CourseLayer):
    """Self-attention, attention to the encoder's output, then a feed-forward network.

    It sees the future unless `look_ahead_mask` hides it. The constructor's arguments and
    errors are those of `EncoderLayer`.

    Call arguments:
        x: `(b, t, embedding_dim)`.
        enc_output: `(b, s, any width)`.
        training: whether dropout is on.
        look_ahead_mask: 1 (True) where a target position may be seen:
            `(1, t, t)`, `(t, t)`, `(b, t, t)` or `(b, 1, t, t)`. None: all.
        padding_mask: 1 (True) where the source has a token: `(b, 1, s)`,
            `(b, s)`, `(1, s)` or `(b, 1, 1, s)`. None: everywhere.

    Returns:
        The output `(b, t, embedding_dim)`, the weights of the self-attention
        `(b, h, t, t)`, and those of the attention to the encoder `(b, h, t, s)`.

    Example:
        >>> layer = DecoderLayer(embedding_dim=4, num_heads=2, fully_connected_dim=8)
        >>> output, _, weights = layer(keras.ops.ones((1, 3, 4)), keras.ops.ones((1, 5, 7)), False)
        >>> tuple(output.shape), tuple(weights.shape)
        ((1, 3, 4), (1, 2, 3, 5))
    """

    attention_names: ClassVar[tuple[str, ...]] = ("mha1", "mha2")

    def build(self, x_shape: Shape, enc_output_shape: Shape) -> None:
        self._check_width(x_shape)
        self.mha1.build(x_shape, x_shape)
        self.mha2.build(x_shape, enc_output_shape)
        for part in (self.layernorm1, self.layernorm2, self.ffn, self.layernorm3):
            part.build(x_shape)
        freeze_parts(self)

    def call(
        self,
        x: Tensor,
        enc_output: Tensor,
        training: bool | None = None,
        look_ahead_mask: Tensor | None = None,
        padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        self._check_width(x.shape)
        padding_mask = _over_keys(padding_mask)
        options = {"return_attention_scores": True, "training": training}

        # Block 1: the target attends to itself.
        attn1, weights1 = self.mha1(x, x, x, attention_mask=look_ahead_mask, **options)
        q1 = self.layernorm1(attn1 + x)
        # Block 2: queries from block 1, keys and values from the encoder.
        attn2, weights2 = self.mha2(q1, enc_output, enc_output, attention_mask=padding_mask, **options)
        out2 = self.layernorm2(attn2 + q1)
        # Block 3: the feed-forward network.
        ffn_output = self.dropout_ffn(self.ffn(out2), training=training)
        return self.layernorm3(ffn_output + out2), weights1, weights2

    def compute_mask(
        self, inputs: Tensor, previous_mask: Tensor | None = None
    ) -> tuple[Tensor | None, None, None]:
        return previous_mask, None, None
