"""Options of encoder and decoder layers: meaning, range and default of each field."""

import dataclasses
import difflib
from collections.abc import Callable
from typing import Any, Literal, Self, TypeAlias, get_args, get_origin

from keras_transformer._arguments import (
    check_choice,
    check_divides,
    check_flags,
    check_number,
    check_positive,
    check_rates,
)
from keras_transformer.layers.feed_forward import get_activation, serialize_activation
from keras_transformer.types import Config, Tensor

Activation: TypeAlias = str | Callable[[Tensor], Tensor] | None

_KERAS_ARGUMENTS = ("name", "dtype", "trainable", "autocast", "activity_regularizer", "input_shape")
# Names of our options in the paper and in other libraries, used to suggest ours.
_SYNONYMS = {
    "hidden_dim": "d_model embed_dim embedding_dim model_dim hidden_size",
    "num_heads": "n_heads n_head nhead heads num_attention_heads",
    "intermediate_dim": "d_ff dff ff_dim ffn_dim d_inner dim_feedforward intermediate_size hidden_dim",
    "num_layers": "n_layers num_blocks num_hidden_layers depth",
    "num_outputs": "num_classes n_classes num_labels units",
    "vocabulary_size": "vocab_size input_vocab_size num_tokens",
    "max_length": "maxlen max_len sequence_length max_position_embeddings",
    "dropout": "rate dropout_rate",
    "layer_norm_epsilon": "epsilon eps layernorm_eps layer_norm_eps",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """Options of `EncoderLayer`, `DecoderLayer`, `Encoder`, `Decoder` and all models.

    A layer builds it from its constructor's arguments and stores it as `layer.config`.

    Raises:
        TypeError: If a size is not an integer, or a rate is not a number.
        ValueError: If a value is out of its range, or `num_key_value_heads` does not divide `num_heads`.
    """

    num_heads: int
    """Number of attention heads, `h`. Must divide the model width unless `head_dim` is given."""
    head_dim: int | None = None
    """Width of each attention head, `k`. Defaults to the model width divided by `num_heads`."""
    intermediate_dim: int
    """Inner width of the feed-forward networks, `f`."""
    dropout: float = 0.0
    """Dropout rate on sub-layer outputs and on the embeddings, in [0, 1)."""
    attention_dropout: float = 0.0
    """Dropout rate on the attention scores, in [0, 1)."""
    intermediate_dropout: float = 0.0
    """Dropout rate inside the feed-forward networks, in [0, 1)."""
    activation: Activation = "relu"
    """Activation of the feed-forward networks: a Keras activation name, or `gelu_tanh` (GELU approximated by
    tanh). In Python, a function is allowed, too."""
    gated: bool = False
    """Whether to use a gated feed-forward network (GLU, Shazeer 2020)."""
    use_bias: bool = True
    """Whether attention and feed-forward networks have biases."""
    norm_first: bool = False
    """Whether to normalize before each sub-layer (pre-norm) instead of after it (post-norm, as in the
    paper)."""
    normalization: Literal["layer", "rms"] = "layer"
    """Kind of normalization: `layer` (layer normalization) or `rms` (RMS normalization)."""
    layer_norm_epsilon: float = 1e-6
    """Constant added to the variance in the normalization, for numerical stability."""
    num_key_value_heads: int | None = None
    """Number of key/value heads (grouped-query attention). Must divide `num_heads`. Defaults to
    `num_heads`."""
    rematerialize: bool = False
    """Whether to recompute each layer's activations in the backward pass instead of storing them: less
    memory, more time (Chen et al. 2016)."""

    def __post_init__(self) -> None:
        # Checked here, before any weight exists, so that Python arguments, files and flags get the same
        # messages.
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            _check_value(field, value)
            if field.type in (int, int | None) and value is not None:
                object.__setattr__(self, field.name, int(value))  # Keras refuses NumPy's integers
        if self.num_heads > self.intermediate_dim:
            raise ValueError(
                "`intermediate_dim` must be at least `num_heads`; the order is (num_heads, "
                "intermediate_dim), in KerasHub the opposite. "
                f"Received: num_heads={self.num_heads}, intermediate_dim={self.intermediate_dim}."
            )
        check_divides(num_key_value_heads=self.num_key_value_heads, num_heads=self.num_heads)

    @classmethod
    def split(cls, owner: type, options: Config, **others: Any) -> tuple[Self, Config]:
        """Build the configuration from a constructor's options, and return it with the options for Keras.

        Args:
            owner: Class of the constructor, named in errors.
            options: Keyword arguments of the constructor.
            **others: Fields that the constructor takes by position.

        Returns:
            The configuration, and the options that are arguments of `keras.layers.Layer`.

        Raises:
            TypeError: If an option is neither a field nor an argument of Keras's layers.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        rest = {name: value for name, value in options.items() if name not in names}
        if unknown := sorted(rest.keys() - {*_KERAS_ARGUMENTS}):
            meant = [
                ours for ours, theirs in _SYNONYMS.items() if unknown[0] in theirs.split() and ours in names
            ]
            is_known = any(unknown[0] in theirs.split() for theirs in _SYNONYMS.values())
            meant = meant or difflib.get_close_matches(unknown[0], [] if is_known else names, 1)
            hint = f" Did you mean `{meant[0]}`?" if meant else ""
            received = {name: rest[name] for name in unknown}
            raise TypeError(f"{owner.__name__} has no such argument.{hint} Received: {received}.")
        return cls(**{name: options[name] for name in names if name in options}, **others), rest

    def options(self) -> Config:
        """Return the fields as a dict."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def get_config(self) -> Config:
        """Return the fields as a dict, ready for JSON."""
        return {**self.options(), "activation": serialize_activation(self.activation)}


def _check_value(field: dataclasses.Field[Any], value: Any) -> None:
    named = {field.name: value}
    if value is None and type(None) in get_args(field.type):
        return
    if field.type in (int, int | None):
        check_positive(**named)
    # Every rate is a dropout rate and is named so.
    elif field.name.endswith("dropout"):
        check_rates(**named)
    elif get_origin(field.type) is Literal:
        check_choice(get_args(field.type), **named)
    elif field.type in (bool, bool | None):
        check_flags(**named)
    elif field.type is float:
        check_number(above=0, below=1, **named)
    elif field.name.endswith("activation"):
        get_activation(value, field.name)
