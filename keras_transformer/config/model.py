"""The sizes of a Transformer, and how a run chooses them."""

import dataclasses

from keras_transformer.config.section import (
    Section,
    Value,
    require_at_least,
    require_choice,
    require_fraction,
)

# Learned positions are not among them: their number would be one more limit of a run's lengths.
POSITIONS = ("sinusoidal", "rotary", "relative")
NORMALIZATIONS = ("layer", "rms")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig(Section):
    """The sizes and choices of a Transformer that a run may set; the defaults are the paper's base model.

    The fields have the names of the arguments of `kt.Transformer`.

    Raises:
        TypeError: if a value is not of the type its field declares.
        ValueError: if a value is out of its range or two values do not fit together.
    """

    source_vocabulary_size: int
    """Number of source token ids, special tokens included."""
    target_vocabulary_size: int
    """Number of target token ids, special tokens included."""
    num_encoder_layers: int = 6
    """Layers of the encoder."""
    num_decoder_layers: int = 6
    """Layers of the decoder."""
    hidden_dim: int = 512
    """Width `d` of the embeddings and of every layer's output."""
    num_heads: int = 8
    """Attention heads `h`; each is `hidden_dim / num_heads` wide."""
    intermediate_dim: int = 2048
    """Inner width `f` of the feed-forward layers."""
    dropout: float = 0.1
    """Rate on embeddings and on the output of each sub-layer."""
    attention_dropout: float = 0.0
    """Rate on the attention weights."""
    intermediate_dropout: float = 0.0
    """Rate inside the feed-forward layers."""
    activation: str = "relu"
    """Keras name of the activation inside the feed-forward layers."""
    gated: bool = False
    """Gate the feed-forward layers (Shazeer 2020)."""
    norm_first: bool = False
    """Normalize before each sub-layer (pre-norm) instead of after it, as the paper does."""
    normalization: str = "layer"
    """`layer` or `rms`."""
    num_key_value_heads: int | None = None
    """Heads of keys and values, a divisor of `num_heads`; as many as `num_heads` if None."""
    positions: str = "sinusoidal"
    """How the order of tokens is known: `sinusoidal`, as in the paper, `rotary` (Su et al. 2021) or
    `relative` (Raffel et al. 2020)."""
    share_embeddings: bool = False
    """Use one embedding for source and target; the two vocabularies must be the same."""
    tie_output: bool = True
    """Use the target embedding as the kernel of the output projection."""

    def __post_init__(self) -> None:
        """Check every value."""
        super().__post_init__()
        check_options(self)
        if self.hidden_dim % self.num_heads:
            raise ValueError(
                "`num_heads` must divide `hidden_dim`. "
                f"Received: num_heads={self.num_heads}, hidden_dim={self.hidden_dim}."
            )
        if self.num_key_value_heads is not None and self.num_heads % self.num_key_value_heads:
            raise ValueError(
                "`num_key_value_heads` must divide `num_heads`. "
                f"Received: num_key_value_heads={self.num_key_value_heads}, num_heads={self.num_heads}."
            )
        if self.positions == "rotary" and self.hidden_dim // self.num_heads % 2:
            raise ValueError(
                "`hidden_dim / num_heads` must be even for positions='rotary'. "
                f"Received: hidden_dim={self.hidden_dim}, num_heads={self.num_heads}."
            )
        if self.share_embeddings and self.source_vocabulary_size != self.target_vocabulary_size:
            raise ValueError(
                "`share_embeddings` needs vocabularies of one size. "
                f"Received: source_vocabulary_size={self.source_vocabulary_size}, "
                f"target_vocabulary_size={self.target_vocabulary_size}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig(Section):
    """Which model a run trains: a preset, and what differs from it.

    The vocabulary sizes are missing, since they are known only when the vocabularies are. Every field
    but `preset` means what it does in `TransformerConfig`; None leaves the value to the preset.

    Raises:
        TypeError: if a value is not of the type its field declares.
        ValueError: if a value is out of its range.

    Example:
        >>> ModelConfig(preset="base", num_heads=16).overrides()
        {'num_heads': 16}
    """

    preset: str = "tiny"
    """Name of a preset of `kt.Transformer.from_preset`."""
    initial_model: str | None = None
    """Directory of an earlier run, or another saved translator, whose vocabularies, architecture and weights
    this run begins with. Rates of dropout may differ; `preset` and the section on vocabularies, but for
    subword dropout, do not count then."""
    num_encoder_layers: int | None = None
    """Layers of the encoder."""
    num_decoder_layers: int | None = None
    """Layers of the decoder."""
    hidden_dim: int | None = None
    """Model width."""
    num_heads: int | None = None
    """Attention heads."""
    intermediate_dim: int | None = None
    """Inner width of the feed-forward layers."""
    dropout: float | None = None
    """Rate on embeddings and sub-layer outputs."""
    attention_dropout: float | None = None
    """Rate on the attention weights."""
    intermediate_dropout: float | None = None
    """Rate inside the feed-forward layers."""
    activation: str | None = None
    """Activation inside the feed-forward layers."""
    gated: bool | None = None
    """Gated feed-forward layers."""
    norm_first: bool | None = None
    """Pre-norm instead of post-norm."""
    normalization: str | None = None
    """Layer or RMS normalisation."""
    num_key_value_heads: int | None = None
    """Heads of keys and values."""
    positions: str | None = None
    """How the order of tokens is known."""
    share_embeddings: bool | None = None
    """One embedding for source and target."""
    tie_output: bool | None = None
    """Target embedding as output kernel."""

    def __post_init__(self) -> None:
        """Check every value that is set."""
        super().__post_init__()
        check_options(self)
        if self.initial_model == "":
            raise ValueError("`initial_model` must name a directory. Received: initial_model=''.")

    def overrides(self) -> dict[str, Value]:
        """Return the values that differ from the preset, by the names of `TransformerConfig`."""
        values = dataclasses.asdict(self)
        del values["preset"], values["initial_model"]
        return {name: value for name, value in values.items() if value is not None}


def check_options(config: TransformerConfig | ModelConfig) -> None:
    """Check each number and each name that both configurations have; raises ValueError."""
    sizes = [
        name for name in dataclasses.asdict(config) if name.endswith(("_size", "_layers", "_dim", "_heads"))
    ]
    require_at_least(config, 1, *sizes)
    require_fraction(config, "dropout", "attention_dropout", "intermediate_dropout")
    require_choice(config, "normalization", NORMALIZATIONS)
    require_choice(config, "positions", POSITIONS)
