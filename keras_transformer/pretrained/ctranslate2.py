"""CTranslate2: the architecture follows from the variables of the model."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from keras import ops

from keras_transformer._files import read_tokens
from keras_transformer.errors import InputError
from keras_transformer.layers import sinusoidal_position_encoding
from keras_transformer.pretrained.bart import _fairseq_waves
from keras_transformer.pretrained.ctranslate2_file import _Variables
from keras_transformer.pretrained.family import _Family, _same, _Scales
from keras_transformer.types import Config, Tensor

# By their numbers there. 4, a GELU approximated by a sigmoid, has no counterpart.
_ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu", 5: "tanh", 6: "sigmoid"}
_STACKS = ("encoder", "decoder")
_ENCODINGS = "position_encodings/encodings.weight"
# Which layer an alignment is read from, and what others say too.
_UNUSED = ("alignment_heads", "alignment_layer", "embeddings_merge", "multi_query_attention", "scale_alibi")
# Options with the only value that a model here can have.
_ALWAYS = {
    "alibi": 0,
    "alibi_use_positive_positions": 0,
    "relative_attention_max_distance": 128,
    "rotary_base": 10000,
    "rotary_interleave": 0,
}
# What the engine computes where there are no encodings has no end; this is as far as our exports reach.
_NUM_POSITIONS = 2048


@dataclasses.dataclass(frozen=True, kw_only=True)
class _CTranslate2(_Family):
    """What the variables say; there is no configuration."""

    found: Config
    factors: _Scales
    sizes: Mapping[str, int]
    values: Tensor | None
    """Position encodings that are known, not learned."""

    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "source": ("encoder/embeddings_0.weight",),
        "target": ("decoder/embeddings.weight",),
        "output": ("decoder/projection.weight",),
    }

    @property
    def max_length(self) -> int | None:
        limit: int | None = self.found.get("max_length")
        return limit

    def scales(self) -> _Scales:
        return self.factors

    def table_sizes(self) -> dict[str, int]:
        return {**self.sizes}

    def options(self) -> Config:
        return self.found

    def always(self) -> Config:
        return {}

    def layer_names(self, stack: str) -> dict[str, str]:
        layer, width = (
            f"{stack}/layer_{{i}}",
            self.found["head_dim"] or self.d_model // self.found["num_heads"],
        )
        queries, keys = (
            width * (self.found[name] or self.found["num_heads"])
            for name in ("num_heads", "num_key_value_heads")
        )
        names = {
            "self_attention.position_bias": f"{layer}/self_attention/relative_attention_bias",
            "feed_forward.inner": f"{layer}/ffn/linear_0",
            "feed_forward.gate": f"{layer}/ffn/linear_0_noact",
            "feed_forward.outer": f"{layer}/ffn/linear_1",
            "feed_forward_residual.norm": f"{layer}/ffn/layer_norm",
        }
        for ours, theirs, maps in (
            ("self_attention", "self_attention", ("linear_0", "linear_0", "linear_0", "linear_1")),
            ("cross_attention", "attention", ("linear_0", "linear_1", "linear_1", "linear_2")),
        ):
            # Queries, keys and values follow each other in the rows of one variable, or of two.
            first = queries if maps[0] == maps[1] else 0
            rows = (f"[0:{queries}]", f"[{first}:{first + keys}]", f"[{first + keys}:{first + 2 * keys}]", "")
            for part, name, each in zip(("query", "key", "value", "output"), maps, rows, strict=True):
                names[f"{ours}.{part}_dense"] = f"{layer}/{theirs}/{name}{each}"
            names[f"{ours}_residual.norm"] = f"{layer}/{theirs}/layer_norm"
        return names

    def stack_names(self, stack: str) -> dict[str, str]:
        side = "source" if stack == "encoder" else "target"
        return {
            f"{stack}.final_normalization": f"{stack}/layer_norm",
            f"{side}_normalization": f"{stack}/layernorm_embedding",
        }

    def positions(self, stack: str) -> tuple[str, Tensor | None, int]:
        is_added = self.found["positions"] not in ("rotary", "relative")
        return f"{stack}/{_ENCODINGS}" * is_added, self.values, 0


class _Architecture:
    """What the variables of a model say."""

    def __init__(self, variables: _Variables, epsilon: object) -> None:
        self._variables, self._epsilon = variables, epsilon
        self._attributes = dict(variables.attributes)
        self._depths = {stack: self._depth(stack) for stack in _STACKS}
        layers = [f"{stack}/layer_{i}" for stack in _STACKS for i in range(self._depths[stack])]
        self._selves = [f"{layer}/self_attention" for layer in layers]
        crosses = [f"{layer}/attention" for layer in layers if layer.startswith("decoder")]
        self._attentions = [*self._selves, *crosses]

    def family(self) -> _CTranslate2:
        """Return all of it; raise InputError for what cannot be made here."""
        sizes = {role: self._variables.sizes(name)[0] for role, [name] in _CTranslate2.tables.items()}
        width = self._variables.sizes("decoder/embeddings.weight")[1]
        attention = self._attention(width)
        positions, values = self._positions(width, attention["head_dim"] or width // attention["num_heads"])
        found = {**self._stacks(), "hidden_dim": width, **attention, **positions}
        family = _CTranslate2(
            vocab_size=sizes["target"],
            d_model=width,
            pad_token_id=0,
            eos_token_id=0,
            decoder_start_token_id=None,
            found=found,
            factors=self._scales(width, attention["head_dim"] or width // attention["num_heads"]),
            sizes=sizes,
            values=values,
        )
        for name, value in self._attributes.items():
            short = name.rpartition("/")[2]
            if short in _ALWAYS and value != _ALWAYS[short]:
                wanted = f"{name!r} must be {_ALWAYS[short]}"
                raise InputError(f"{self._variables.path}: {wanted}. Received: {value}.")
        known = (*_UNUSED, *_ALWAYS)
        self._variables.check_none(name for name in self._attributes if name.rpartition("/")[2] not in known)
        return family

    def _depth(self, stack: str) -> int:
        count = 0
        while f"{stack}/layer_{count}/ffn/linear_0.weight" in self._variables:
            count += 1
        return count

    def _one(self, name: str, owners: Sequence[str], default: Any = None) -> Any:
        """Return the value of an attribute, which all of its owners must have in common."""
        given = [self._attributes.pop(f"{owner}/{name}", default) for owner in owners]
        # 1 as a flag is another value than 1.0 as a factor.
        others = [each for each in given if (type(each), each) != (type(given[0]), given[0])]
        if others:
            raise InputError(
                f"{self._variables.path}: `{name}` must be the same in all layers. "
                f"Received: {given[0]} and {others[0]}."
            )
        return given[0]

    def _has(self, name: str) -> bool:
        found = [f"{stack}/{name}" in self._variables for stack in _STACKS]
        _same(**{name: (found[0], found[1])})
        return found[0]

    def _stacks(self) -> Config:
        number = self._one("activation", _STACKS, 0)
        if number not in _ACTIVATIONS:
            wanted = f"`activation` must be one of {', '.join(map(str, _ACTIVATIONS))}"
            raise InputError(f"{self._variables.path}: {wanted}. Received: {number}.")
        norm_first, final_norm = bool(self._one("pre_norm", _STACKS, 1)), self._has("layer_norm.weight")
        is_rms = not self._has("layer_0/ffn/layer_norm.bias")
        # Where nothing is said, CTranslate2 adds these to the variance.
        epsilon = (1e-6 if is_rms else 1e-5) if self._epsilon is None else self._epsilon
        depths = self._depths["encoder"], self._depths["decoder"]
        each = {"num_encoder_layers": depths[0], "num_decoder_layers": depths[1]}
        return {
            **({"num_layers": depths[0]} if depths[0] == depths[1] else each),
            "intermediate_dim": self._variables.sizes("encoder/layer_0/ffn/linear_0.weight")[0],
            "activation": _ACTIVATIONS[number],
            "gated": self._has("layer_0/ffn/linear_0_noact.weight"),
            "use_bias": self._variables.has_biases,
            "norm_first": norm_first,
            "final_norm": None if final_norm == norm_first else final_norm,
            "normalization": "rms" if is_rms else "layer",
            "layer_norm_epsilon": epsilon,
            "normalize_embeddings": self._has("layernorm_embedding.weight"),
        }

    def _attention(self, width: int) -> Config:
        num_heads = self._one("num_heads", _STACKS)
        if not isinstance(num_heads, int) or num_heads < 1:
            raise InputError(f"{self._variables.path}: `num_heads` must be positive. Received: {num_heads}.")
        # Where nothing is said, the heads are the columns of the output.
        all_heads = self._variables.sizes("encoder/layer_0/self_attention/linear_1.weight")[1]
        head_dim = self._one("head_dim", self._attentions, all_heads // num_heads)
        num_groups = self._one("num_heads_kv", self._attentions, num_heads)
        return {
            "num_heads": num_heads,
            "head_dim": None if head_dim * num_heads == width else head_dim,
            "num_key_value_heads": None if num_groups == num_heads else num_groups,
        }

    def _scales(self, width: int, head_dim: int) -> _Scales:
        queries = self._one("queries_scale", self._attentions)
        embeddings = self._one("scale_embeddings", _STACKS, 1)
        logits = self._one("scale_outputs", ["decoder"], 1.0)
        root = width**0.5
        # A flag, or the factor itself.
        is_scaled = bool(embeddings) if isinstance(embeddings, int) else np.isclose(embeddings, root)
        is_divided = bool(np.isclose(logits * root, 1.0)) and width > 1
        known = isinstance(embeddings, int) or is_scaled or embeddings == 1
        if not known or not (is_divided or logits == 1) or (is_divided and is_scaled):
            raise InputError(
                f"{self._variables.path}: `scale_embeddings` must be 1 or {root:g}, or `scale_outputs` "
                f"{1 / root:g}. Received: {embeddings:g} and {logits:g}."
            )
        return _Scales(
            embeddings=root if is_scaled else 1.0,
            logits=1 / root if is_divided else 1.0,
            # Our attention divides its scores by the root of the width of a head.
            queries=1.0 if queries is None else queries * head_dim**0.5,
            start=0.0 if self._one("start_from_zero_embedding", ["decoder"], 0) else 1.0,
        )

    def _positions(self, width: int, head_dim: int) -> tuple[Config, Tensor | None]:
        """Return the options of positions, and encodings that are known."""
        rotary_dim = self._one("rotary_dim", self._selves)
        if rotary_dim is not None:
            if rotary_dim not in (0, head_dim):
                wanted = f"`rotary_dim` must be 0 or {head_dim}"
                raise InputError(f"{self._variables.path}: {wanted}. Received: {rotary_dim}.")
            return {"positions": "rotary"}, None
        if self._has("layer_0/self_attention/relative_attention_bias.weight"):
            return {"positions": "relative"}, None
        if not self._has(_ENCODINGS):
            return {"positions": "learned", "max_length": _NUM_POSITIONS}, _fairseq_waves(
                _NUM_POSITIONS, width, 1
            )
        names = [f"{stack}/{_ENCODINGS}" for stack in _STACKS]
        sizes = [self._variables.sizes(name) for name in names]
        _same(positions=(sizes[0], sizes[1]))
        encodings = [self._variables.read(name, size) for name, size in zip(names, sizes, strict=True)]
        for kind, layout in (("sinusoidal", "interleaved"), ("sinusoidal_concatenated", "concatenated")):
            waves = ops.convert_to_numpy(sinusoidal_position_encoding(*sizes[0], layout=layout))
            # Half precision has 3 digits.
            if all(np.allclose(each, waves, rtol=0, atol=2e-3) for each in encodings):
                return {"positions": kind}, waves
        is_shared = np.array_equal(encodings[0], encodings[1])
        return {"positions": "learned", "max_length": sizes[0][0], "share_positions": is_shared}, None


def _read_ctranslate2(directory: Path, config: Config) -> tuple[_CTranslate2, dict[str, list[str]]]:
    """Return the architecture of a model and the tokens of each side."""
    family = _Architecture(_Variables(directory), config.get("layer_norm_epsilon")).family()
    tokens = {side: read_tokens(directory, side) for side in ("source", "target")}
    for side, each in tokens.items():
        if len(each) != family.sizes[side]:
            wanted = f"the {side} vocabulary must have {family.sizes[side]} tokens, as the model"
            raise InputError(f"{directory}: {wanted}. Received: {len(each)}.")
    start = config.get("decoder_start_token", "<s>")
    if start not in tokens["target"]:
        wanted = "`decoder_start_token` must be a token of the target vocabulary"
        raise InputError(f"{directory / 'config.json'}: {wanted}. Received: {start!r}.")
    start_id = tokens["target"].index(start)
    return dataclasses.replace(family, decoder_start_token_id=start_id), tokens
