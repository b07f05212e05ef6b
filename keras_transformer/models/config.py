"""Options of the models: a field with its meaning, its range and its default, and the presets."""

import dataclasses
from typing import Any, Literal, Self

import keras

from keras_transformer._arguments import check_divides, check_memory
from keras_transformer._backend.shapes import makes_values
from keras_transformer.layers.config import LayerConfig
from keras_transformer.types import Config

_DEPTHS = ("num_encoder_layers", "num_decoder_layers")
_TABLES = ("vocabulary_size", "source_vocabulary_size", "target_vocabulary_size", "max_length")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ModelConfig(LayerConfig):
    """Options that all models have; the defaults are those of the paper's base model.

    A model makes its configuration from its constructor's arguments, and keeps it as `model.config`.
    """

    num_layers: int = 6
    """Layers of each stack."""
    hidden_dim: int = 512
    """Width `d` of the embeddings and of each layer's output."""
    num_heads: int = 8
    intermediate_dim: int = 2048
    dropout: float = 0.1
    final_norm: bool | None = None
    """Whether each stack ends with a normalization. Defaults to `norm_first`."""
    positions: Literal["sinusoidal", "learned", "rotary", "relative", "sinusoidal_concatenated"] = (
        "sinusoidal"
    )
    """How the order of tokens is known: `sinusoidal` as in the paper, `sinusoidal_concatenated` with sines
    before cosines, `learned`, `rotary` (Su et al. 2021) or `relative` (Raffel et al. 2020)."""
    max_length: int | None = None
    """Number of learned positions; None for the other kinds."""
    scale_embeddings: bool = True
    """Whether embeddings are multiplied by the square root of `hidden_dim`."""
    normalize_embeddings: bool = False
    """Whether embeddings with their positions are normalized, on each side by a layer of its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_dim is None:
            check_divides(num_heads=self.num_heads, hidden_dim=self.hidden_dim)
        if (self.positions == "learned") != (self.max_length is not None):
            raise ValueError(
                "`max_length` must be given for positions='learned', and for no others. "
                f"Received: positions={self.positions!r}, max_length={self.max_length}."
            )
        # Rotary positions turn pairs of features.
        if self.positions == "rotary" and (self.head_dim or self.hidden_dim // self.num_heads) % 2:
            raise ValueError(
                "`head_dim`, or `hidden_dim / num_heads`, must be even for positions='rotary'. Received: "
                f"hidden_dim={self.hidden_dim}, num_heads={self.num_heads}, head_dim={self.head_dim}."
            )

    @classmethod
    def split(cls, owner: type, options: Config, **others: Any) -> tuple[Self, Config]:
        """Do what `LayerConfig.split` does, and raise InputError if there is no memory for the weights."""
        config, rest = super().split(owner, options, **others)
        config.check_memory(2 if "float16" in str(rest.get("dtype") or keras.config.dtype_policy()) else 4)
        return config, rest

    def check_memory(self, bytes_per_weight: int = 4) -> None:
        """Raise InputError for weights that the machine has no memory for, unless they get no values."""
        if not makes_values():
            return
        d, f, options = self.hidden_dim, self.intermediate_dim, self.options()
        all_heads = self.num_heads * self.head_dim if self.head_dim else d
        depth = max(options.get(name) or self.num_layers for name in _DEPTHS)
        rows = max(options.get(name) or 0 for name in _TABLES)
        # The least that there is: queries and outputs, two matrices of feed-forward networks, one table.
        num_bytes = bytes_per_weight * (depth * (2 * d * all_heads + 2 * d * f) + rows * d)
        sizes = {"hidden_dim": d, "head_dim": self.head_dim} if self.head_dim else {"hidden_dim": d}
        check_memory(num_bytes, **sizes, intermediate_dim=f, num_layers=depth, vocabulary_size=rows)

    def check_decoding(
        self, batch_size: int, beam_size: int, source_length: int, max_length: int, cache_length: int
    ) -> None:
        """Raise InputError for hypotheses that the machine has no memory for."""
        options = self.options()
        key_dim = self.head_dim or self.hidden_dim // self.num_heads
        num_logits = options.get("target_vocabulary_size") or options.get("vocabulary_size") or 1
        # The least that there is: logits and ids of each hypothesis, a head's keys and values, the sources.
        of_each = num_logits + max_length + 2 * self.num_layers * key_dim * cache_length
        numbers = batch_size * (beam_size * of_each + source_length * self.hidden_dim)
        check_memory(4 * numbers, beam_size=beam_size, source_length=source_length, max_length=max_length)

    def stack_options(self) -> Config:
        """Return the arguments of `layers.Encoder` and `layers.Decoder`, apart from their depth."""
        return {
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(LayerConfig)},
            "final_norm": self.final_norm,
            # The other kinds are added to the embeddings.
            "positions": self.positions if self.positions in ("rotary", "relative") else None,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig(_ModelConfig):
    """Options of a `Transformer`, and of the model that a run trains.

    The vocabulary sizes may be None as long as the vocabularies are not known. Make the same configuration
    with other values by `dataclasses.replace`.

    Raises:
        TypeError: if a size is not an integer or a rate is not a number.
        ValueError: if a value is out of its range, or two values do not fit together.

    Example:
        >>> TransformerConfig(**{**PRESETS["big"].options(), "num_encoder_layers": 12}).hidden_dim
        1024
    """

    source_vocabulary_size: int | None = None
    """Number of source token ids; None for frames."""
    target_vocabulary_size: int | None = None
    """Number of target token ids `v`."""
    encoder_feature_dim: int | None = None
    """Width `w` of a source frame; None for token ids."""
    source_convolutions: bool = False
    """Whether two convolutions of width 3 with GELU take the place of the projection of frames, the second of
    which halves their number, as in Whisper (Radford et al. 2022)."""
    num_encoder_layers: int | None = None
    """Layers of the encoder; `num_layers` if None."""
    num_decoder_layers: int | None = None
    """Layers of the decoder; `num_layers` if None."""
    share_embeddings: bool = False
    """Whether source and target use one embedding; their vocabularies must be the same."""
    share_positions: bool = True
    """Whether source and target use one table of learned positions."""
    max_source_positions: int | None = None
    """Number of learned positions of the source, where it has a table of its own; `max_length` if None."""
    tie_output: bool = True
    """Whether the logits use the target embedding's table."""
    output_bias: bool = False
    """Whether each target token has a bias that is added to its logit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.share_positions and self.positions != "learned":
            raise ValueError(
                "`share_positions` may be False for positions='learned' alone. Received: "
                f"share_positions={self.share_positions}, positions={self.positions!r}."
            )
        if self.share_positions and self.max_source_positions is not None:
            raise ValueError(
                "`max_source_positions` needs share_positions=False. Received: "
                f"max_source_positions={self.max_source_positions}, share_positions={self.share_positions}."
            )
        if self.source_convolutions and self.encoder_feature_dim is None:
            raise ValueError(
                "`source_convolutions` needs frames as a source. Received: "
                f"source_convolutions={self.source_convolutions}, encoder_feature_dim=None."
            )
        if self.share_embeddings and self.source_vocabulary_size != self.target_vocabulary_size:
            raise ValueError(
                "`share_embeddings` needs vocabularies of the same size. Received: "
                f"source_vocabulary_size={self.source_vocabulary_size}, "
                f"target_vocabulary_size={self.target_vocabulary_size}, "
                f"encoder_feature_dim={self.encoder_feature_dim}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _CausalConfig(_ModelConfig):
    """Options of a `CausalLM`."""

    vocabulary_size: int
    """Number of token ids `v`."""
    tie_output: bool = True
    """Whether the logits use the embedding's table."""
    output_bias: bool = False
    """Whether each token has a bias that is added to its logit."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _EncoderConfig(_ModelConfig):
    """Options of an `EncoderModel`."""

    vocabulary_size: int | None = None
    """Number of token ids `v`; None for frames."""
    num_outputs: int | None = None
    """Logits of each position or example; None for vectors."""
    feature_dim: int | None = None
    """Width `w` of a frame; None for token ids."""
    pooling: str | None = None
    """`mean` or `max` over what is no padding, or `first`, for one output an example; None for one at each
    position."""
    tie_output: bool = False
    """Whether the logits use the embedding's table; then there are as many of them as ids."""
    output_bias: bool = False
    """Whether each token has a bias that is added to its logit; for `tie_output`. Other logits have one."""
    head_activation: str | None = None
    """Activation of a dense layer of width `d` before the logits, as BERT has: `tanh` for classes, `gelu` for
    hidden tokens. Defaults to no such layer."""
    head_norm: bool = False
    """Whether that layer is followed by a normalization, as for hidden tokens; else dropout follows it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_exactly_one(vocabulary_size=self.vocabulary_size, feature_dim=self.feature_dim)
        if self.tie_output and (self.num_outputs is None or self.num_outputs != self.vocabulary_size):
            raise ValueError(
                "`tie_output` needs `num_outputs` to be `vocabulary_size`. Received: "
                f"num_outputs={self.num_outputs}, vocabulary_size={self.vocabulary_size}."
            )
        if self.output_bias and not self.tie_output:
            raise ValueError(
                "`output_bias` needs `tie_output`. Received: output_bias=True, tie_output=False."
            )
        if self.head_norm and self.head_activation is None:
            raise ValueError(
                "`head_norm` needs `head_activation`. Received: head_norm=True, head_activation=None."
            )


def _check_exactly_one(**options: int | None) -> None:
    """Raise unless exactly one of two ways to say the same thing is given."""
    if sum(value is not None for value in options.values()) != 1:
        names = " and ".join(f"`{name}`" for name in options)
        received = ", ".join(f"{name}={value}" for name, value in options.items())
        raise ValueError(f"Exactly one of {names} must be given. Received: {received}.")


PRESETS = {
    # Wu et al., "Good for Misconceived Reasons", ACL 2021: Transformer-Tiny.
    "tiny": _ModelConfig(num_layers=4, hidden_dim=128, num_heads=4, intermediate_dim=256, dropout=0.3),
    "small": _ModelConfig(num_layers=3, hidden_dim=256, num_heads=8, intermediate_dim=1024),
    # "Attention Is All You Need", Table 3.
    "base": _ModelConfig(),
    "big": _ModelConfig(hidden_dim=1024, num_heads=16, intermediate_dim=4096, dropout=0.3),
}
"""The options of known sizes, by the names that `from_preset` takes."""
