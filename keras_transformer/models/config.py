"""Model options, with the meaning, range and default of each field, and the presets."""

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
    """Options of all models. Defaults are those of the paper's base model.

    A model builds it from its constructor's arguments and stores it as `model.config`.
    """

    num_layers: int = 6
    """Number of layers."""
    hidden_dim: int = 512
    """Model width, `d`: the size of the embeddings and of every layer's output."""
    num_heads: int = 8
    intermediate_dim: int = 2048
    dropout: float = 0.1
    final_norm: bool | None = None
    """Whether each stack ends with a normalization. Defaults to `norm_first`."""
    positions: Literal[
        "sinusoidal",
        "learned",
        "rotary",
        "relative",
        "relative_keys",
        "relative_sinusoidal",
        "sinusoidal_concatenated",
    ] = "sinusoidal"
    """Position encoding: `sinusoidal` (as in the paper, sines and cosines interleaved),
    `sinusoidal_concatenated` (all sines, then all cosines), `learned`, `rotary` (Su et al. 2021), `relative`
    (a bias per distance, Raffel et al. 2020), `relative_keys` (a key vector per distance, Shaw et al. 2018)
    or `relative_sinusoidal` (projected sines and cosines of the distance, Dai et al. 2019)."""
    share_layers: bool = False
    """Whether all layers of a stack share their weights, as in the Universal Transformer (Dehghani et al.
    2019), but without its halting."""
    max_length: int | None = None
    """Number of learned positions, the longest possible sequence. Required for `positions="learned"`, else
    must be None."""
    scale_embeddings: bool = True
    """Whether to multiply token embeddings by the square root of `hidden_dim`."""
    normalize_embeddings: bool = False
    """Whether to normalize the embeddings after the positions are added; source and target have separate
    normalization layers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_dim is None:
            check_divides(num_heads=self.num_heads, hidden_dim=self.hidden_dim)
        if (self.positions == "learned") != (self.max_length is not None):
            raise ValueError(
                "`max_length` must be given for positions='learned', and for no others. "
                f"Received: positions={self.positions!r}, max_length={self.max_length}."
            )
        # Rotary positions rotate pairs of features.
        if self.positions == "rotary" and (self.head_dim or self.hidden_dim // self.num_heads) % 2:
            raise ValueError(
                "`head_dim`, or `hidden_dim / num_heads`, must be even for positions='rotary'. Received: "
                f"hidden_dim={self.hidden_dim}, num_heads={self.num_heads}, head_dim={self.head_dim}."
            )

    @classmethod
    def split(cls, owner: type, options: Config, **others: Any) -> tuple[Self, Config]:
        """Split as `LayerConfig.split` does; raise InputError if the weights do not fit in memory."""
        config, rest = super().split(owner, options, **others)
        config.check_memory(2 if "float16" in str(rest.get("dtype") or keras.config.dtype_policy()) else 4)
        return config, rest

    def check_memory(self, bytes_per_weight: int = 4) -> None:
        """Raise InputError if the weights do not fit in memory; skipped inside `shapes_only`."""
        if not makes_values():
            return
        d, f, options = self.hidden_dim, self.intermediate_dim, self.options()
        all_heads = self.num_heads * self.head_dim if self.head_dim else d
        depth = 1 if self.share_layers else max(options.get(name) or self.num_layers for name in _DEPTHS)
        rows = max(options.get(name) or 0 for name in _TABLES)
        # A lower bound: query and output kernels, two feed-forward kernels, one embedding table.
        num_bytes = bytes_per_weight * (depth * (2 * d * all_heads + 2 * d * f) + rows * d)
        sizes = {"hidden_dim": d, "head_dim": self.head_dim} if self.head_dim else {"hidden_dim": d}
        check_memory(num_bytes, **sizes, intermediate_dim=f, num_layers=depth, vocabulary_size=rows)

    def check_decoding(
        self, batch_size: int, beam_size: int, source_length: int, max_length: int, cache_length: int
    ) -> None:
        """Raise InputError if the hypotheses do not fit in memory."""
        options = self.options()
        key_dim = self.head_dim or self.hidden_dim // self.num_heads
        num_logits = options.get("target_vocabulary_size") or options.get("vocabulary_size") or 1
        # A lower bound: logits and ids of each hypothesis, keys and values of one head, the sources.
        depth = options.get("num_decoder_layers") or self.num_layers
        per_hypothesis = num_logits + max_length + 2 * depth * key_dim * cache_length
        numbers = batch_size * (beam_size * per_hypothesis + source_length * self.hidden_dim)
        check_memory(4 * numbers, beam_size=beam_size, source_length=source_length, max_length=max_length)

    @property
    def adds_positions(self) -> bool:
        """Whether positions are added to the embeddings, and not used inside the self-attention."""
        return self.positions not in ("rotary", "relative", "relative_keys", "relative_sinusoidal")

    def stack_options(self) -> Config:
        """Return the arguments of `layers.Encoder` and `layers.Decoder`, except `num_layers`."""
        return {
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(LayerConfig)},
            "final_norm": self.final_norm,
            "share_layers": self.share_layers,
            "positions": None if self.adds_positions else self.positions,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig(_ModelConfig):
    """Options of a `Transformer`; most of them are also in the `[model]` table of a run's TOML file.

    Vocabulary sizes may be None until the vocabularies are known. To change options, use
    `dataclasses.replace`; to change a preset, see the example.

    Raises:
        TypeError: If a size is not an integer, or a rate is not a number.
        ValueError: If a value is out of its range, or two values contradict each other.

    Example:
        >>> TransformerConfig(**{**PRESETS["big"].options(), "num_encoder_layers": 12}).hidden_dim
        1024
    """

    source_vocabulary_size: int | None = None
    """Number of source token ids; None for frames."""
    target_vocabulary_size: int | None = None
    """Number of target token ids, `v`."""
    encoder_feature_dim: int | None = None
    """Number of features in each source frame, `w`; None for token ids."""
    source_convolutions: bool = False
    """Whether to read frames through two convolutions of width 3 with GELU, the second with stride 2, instead
    of a linear projection. This halves the source length, as in Whisper (Radford et al. 2022)."""
    num_encoder_layers: int | None = None
    """Number of encoder layers. Defaults to `num_layers`, which a preset sets."""
    num_decoder_layers: int | None = None
    """Number of decoder layers. Defaults to `num_layers`, which a preset sets."""
    share_embeddings: bool = False
    """Whether source and target share one embedding table. Requires vocabularies of the same size."""
    share_positions: bool = True
    """Whether source and target share one table of learned positions."""
    max_source_positions: int | None = None
    """Number of learned source positions if `share_positions` is False. Defaults to `max_length`."""
    tie_output: bool = True
    """Whether to use the target embedding table as the output kernel (weight tying)."""
    output_bias: bool = False
    """Whether the output projection has a bias, one number per target vocabulary entry."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.share_positions and self.positions != "learned":
            raise ValueError(
                "`share_positions` may be False only for positions='learned'. Received: "
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
    """Number of token ids, `v`."""
    tie_output: bool = True
    """Whether to use the embedding table as the output kernel (weight tying)."""
    output_bias: bool = False
    """Whether the output projection has a bias, one number per vocabulary entry."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _EncoderConfig(_ModelConfig):
    """Options of an `EncoderModel`."""

    vocabulary_size: int | None = None
    """Number of token ids, `v`; None for frames."""
    num_outputs: int | None = None
    """Number of logits per position or example. Defaults to None: the model returns vectors."""
    feature_dim: int | None = None
    """Number of features in each frame, `w`; None for token ids."""
    pooling: str | None = None
    """One output per example from the non-padding positions: their `mean`, their `max`, or the `first`.
    Defaults to None, one output per position."""
    tie_output: bool = False
    """Whether to use the embedding table as the output kernel. Requires `num_outputs` equal to
    `vocabulary_size`."""
    output_bias: bool = False
    """Whether a tied output has a bias per vocabulary entry. Untied outputs always have a bias."""
    head_activation: str | None = None
    """Activation of a dense layer of width `d` before the logits, as in BERT: `tanh` for classification,
    `gelu` for masked tokens. Defaults to None, no such layer."""
    head_norm: bool = False
    """Whether a normalization instead of dropout follows the `head_activation` layer. BERT has one for masked
    tokens."""

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
    """Raise ValueError unless exactly one of two alternative options is given."""
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
"""Options of the standard model sizes, by the names that `from_preset` takes."""
