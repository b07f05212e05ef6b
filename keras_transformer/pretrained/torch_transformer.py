"""The weights of a `torch.nn.Transformer`, as stacks of ours or as a whole model."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from keras_transformer._arguments import check_choice, check_finite
from keras_transformer._files import as_path
from keras_transformer.errors import InputError
from keras_transformer.layers import Decoder, Encoder
from keras_transformer.models import Transformer
from keras_transformer.pretrained.checkpoint_files import _loaders, _Tensors
from keras_transformer.pretrained.family import _attention, _fill, _part, _same
from keras_transformer.types import Config, Tensor

_Ids: TypeAlias = npt.NDArray[np.int64]
_STACKS = ("encoder", "decoder")
# The projections that torch joins.
_JOINED = ("q_proj", "k_proj", "v_proj")


class TorchTransformer:
    """Weights of a `torch.nn.Transformer`, alone or within a model of your own.

    Numbers of layers, widths, biases and final normalizations are those of the tensors. What no tensor tells
    is an argument, with torch's default.

    Args:
        state: `model.state_dict()`, tensors or arrays by name; or a file of one, of safetensors or of
            `torch.save`, of which only tensors are read.
        num_heads: `nhead`.
        name: of the `nn.Transformer` in the model, as `"transformer"`; empty if the model is one.
        activation: of the feed-forward networks: `relu`, or `gelu`.
        norm_first: True for pre-norm.
        layer_norm_epsilon: `layer_norm_eps`.
        dropout: the rate on the outputs of sub-layers, on attention scores and inside feed-forward networks.

    Raises:
        InputError: if a file cannot be read, or there is no `nn.Transformer` of this name.
        ValueError: if the activation is another one.

    Example:
        ```python
        checkpoint = kt.pretrained.TorchTransformer(torch_model.state_dict(), num_heads=8)
        encoder, decoder = checkpoint.stacks()
        ```
    """

    def __init__(
        self,
        state: Mapping[str, Tensor] | str | Path,
        num_heads: int,
        *,
        name: str = "",
        activation: str = "relu",
        norm_first: bool = False,
        layer_norm_epsilon: float = 1e-5,
        dropout: float = 0.1,
    ) -> None:
        check_choice(("relu", "gelu"), activation=activation)
        self._name = f"{name}." if name else ""
        self._origin, self._state = _read_state(state, self._name)
        self._width, inner = self._shape(f"{self._name}encoder.layers.0.linear2.weight")
        has_norm = [f"{self._name}{stack}.norm.weight" in self._state for stack in _STACKS]
        _same(final_norm=(has_norm[0], has_norm[1]))
        self._depths = [self._depth(f"{self._name}{stack}.layers.") for stack in _STACKS]
        self._options: Config = {
            "num_heads": num_heads,
            "intermediate_dim": inner,
            **dict.fromkeys(("dropout", "attention_dropout", "intermediate_dropout"), dropout),
            "activation": activation,
            "use_bias": f"{self._name}encoder.layers.0.linear1.bias" in self._state,
            "norm_first": norm_first,
            "final_norm": has_norm[0],
            "layer_norm_epsilon": layer_norm_epsilon,
        }

    def _depth(self, prefix: str) -> int:
        return len({key[len(prefix) :].split(".")[0] for key in self._state if key.startswith(prefix)})

    def _shape(self, name: str) -> tuple[int, int]:
        """Return the sizes of a matrix."""
        shape: tuple[int, ...] = self._state[name].shape if name in self._state else ()
        if len(shape) != 2:
            raise InputError(f"{self._origin} must have the matrix {name!r}. Received: one of shape {shape}.")
        return shape[0], shape[1]

    def stacks(self) -> tuple[Encoder, Decoder]:
        """Make both stacks with the weights, which take and give vectors `(b, s, d)` and `(b, t, d)`.

        Returns:
            The encoder, and the decoder, which is causal by itself.

        Raises:
            InputError: if a tensor of the `nn.Transformer` is missing, unknown, of another shape or not
                finite.
        """
        shape = (None, None, self._width)
        encoder = Encoder(self._depths[0], **self._options, name="encoder")
        encoder.build(shape)
        decoder = Decoder(self._depths[1], **self._options, name="decoder")
        decoder.build(shape, shape)
        tensors = self._tensors(self._name)
        self._fill_stacks(tensors, encoder, decoder)
        tensors.check_all_read()
        check_finite(self._origin, [*encoder.weights, *decoder.weights])
        return encoder, decoder

    def load(
        self,
        source_embedding: str,
        target_embedding: str,
        output: str | None = None,
        *,
        positions: str | None = None,
        scale_embeddings: bool = True,
        source_ids: _Ids | None = None,
        target_ids: _Ids | None = None,
    ) -> Transformer:
        """Make a whole model with the weights, of token ids to logits.

        Args:
            source_embedding: the name of the `nn.Embedding` of the source, as `"src_tok_emb.embedding"`.
            target_embedding: that of the target; the same name if it is the same table.
            output: the name of the `nn.Linear` that gives the logits; None if they are products with the
                vectors of the target.
            positions: the name of the tensor that is added to the embeddings of both sides, `(l, d)` or with
                an axis of size 1 more; None for the sinusoids of the paper, which are computed.
            scale_embeddings: whether the vectors of tokens are multiplied with the root of their width.
            source_ids: for each id here that in the state, `(v,)`. Here 0 is padding, 1 unknown, 2 start and
                3 end; None if that is so there.
            target_ids: likewise of the target.

        Returns:
            A `Transformer`, which is not compiled.

        Raises:
            InputError: if a tensor is missing, of another shape or not finite, or no argument names it.
            ValueError: if ids are not those of the table, each once.
        """
        tensors = self._tensors("")
        names = {"source": source_embedding, "target": target_embedding}
        given = {"source": source_ids, "target": target_ids}
        sizes = {side: self._shape(f"{name}.weight")[0] for side, name in names.items()}
        rows = {side: _rows(f"{side}_ids", ids, sizes[side]) for side, ids in given.items()}
        marks = None
        if positions is not None:
            shape = self._state[positions].shape if positions in self._state else ()
            marks = tensors.read(positions, (*shape[:-1], self._width)).reshape(-1, self._width)
        model = Transformer(
            len(rows["source"]),
            len(rows["target"]),
            **self._options,
            num_encoder_layers=self._depths[0],
            num_decoder_layers=self._depths[1],
            hidden_dim=self._width,
            positions="sinusoidal" if marks is None else "learned",
            max_length=None if marks is None else len(marks),
            scale_embeddings=scale_embeddings,
            share_embeddings=source_embedding == target_embedding
            and np.array_equal(rows["source"], rows["target"]),
            tie_output=output is None,
            output_bias=f"{output}.bias" in tensors,
        )
        self._fill_stacks(tensors, model.encoder, model.decoder)
        for side, layer in (("source", model.source_embedding), ("target", model.target_embedding)):
            table = tensors.read(f"{names[side]}.weight", (sizes[side], self._width))
            layer.embeddings.assign(table[rows[side]])
        if marks is not None:
            model.position_encoding.marks.assign(marks)
        if output is not None:
            kernel = tensors.read(f"{output}.weight", (sizes["target"], self._width))
            # (v, d) -> (d, v)
            model.output_projection.dense.kernel.assign(kernel[rows["target"]].T)
        if model.config.output_bias:
            bias = tensors.read(f"{output}.bias", (sizes["target"],))
            model.output_projection.bias.assign(bias[rows["target"]])
        tensors.check_all_read()
        check_finite(self._origin, model.weights)
        return model

    def _tensors(self, prefix: str) -> _Tensors:
        loaders = {
            name: (self._origin, partial(np.asarray, tensor))
            for name, tensor in self._state.items()
            if name.startswith(prefix)
        }
        return _Tensors(self._origin, loaders)

    def _fill_stacks(self, tensors: _Tensors, *stacks: Encoder | Decoder) -> None:
        for stack in stacks:
            name = f"{self._name}{stack.name}"
            for number, layer in enumerate(stack.layers):
                for path, their_path in _layer_names(stack.name).items():
                    part = _part(layer, path)
                    if part is not None:
                        _fill(part, tensors, f"{name}.layers.{number}.{their_path}", 1.0)
            _fill(stack.final_normalization, tensors, f"{name}.norm", 1.0)


def _read_state(
    source: Mapping[str, Tensor] | str | Path, prefix: str
) -> tuple[Path | str, dict[str, Tensor]]:
    """Return where tensors are from, and the tensors as arrays, each projection of an attention apart."""
    if isinstance(source, Mapping):
        origin: Path | str = "The state"
        given = {key: _as_array(tensor) for key, tensor in source.items()}
    else:
        origin = as_path(source)
        given = {key: load() for key, (_, load) in _loaders(origin).items()}
    stacks = tuple(f"{prefix}{stack}." for stack in _STACKS)
    for key in [key for key in given if key.startswith(stacks)]:
        start, joined, ending = key.rpartition("in_proj_")
        if joined:  # (3 * d, d), or (3 * d,) of the biases
            parts = np.array_split(given.pop(key), 3)
            given.update(zip((f"{start}{each}.{ending}" for each in _JOINED), parts, strict=True))
        owner, _, ending = key.rpartition(".")
        # Without biases, torch's normalizations have none either; ours do.
        if ending == "weight" and "norm" in owner.rpartition(".")[2]:
            given.setdefault(f"{owner}.bias", np.zeros_like(given[key]))
    return origin, given


def _as_array(tensor: Tensor) -> Tensor:
    # NumPy has no bfloat16 of torch.
    return tensor.detach().cpu().float().numpy() if hasattr(tensor, "detach") else np.asarray(tensor)


def _layer_names(stack: str) -> dict[str, str]:
    """Return torch's names by the path of the part in a layer."""
    projections = " ".join((*_JOINED, "out_proj"))
    return {
        **_attention("self_attention", "self_attn", projections),
        "self_attention_residual.norm": "norm1",
        **_attention("cross_attention", "multihead_attn", projections),
        "cross_attention_residual.norm": "norm2",
        "feed_forward.inner": "linear1",
        "feed_forward.outer": "linear2",
        "feed_forward_residual.norm": "norm2" if stack == "encoder" else "norm3",
    }


def _rows(argument: str, ids: _Ids | None, size: int) -> _Ids:
    """Return the row of each id; raise ValueError for what is not each row once."""
    rows = np.arange(size) if ids is None else np.asarray(ids)
    if not np.array_equal(np.sort(rows, axis=None), np.arange(size)):
        raise ValueError(f"`{argument}` must be the ids 0 to {size - 1}, each once. Received: {rows!r:.80}.")
    return rows
