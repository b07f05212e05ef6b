"""The layers give the numbers of `torch.nn` with the same weights."""

from typing import Any

import numpy as np
import pytest

from helpers import array, draw, named_weights
from keras_transformer.layers import Decoder, DecoderLayer, Encoder, EncoderLayer, MultiHeadAttention

torch = pytest.importorskip("torch", reason="needs the torch extra")
pytestmark = pytest.mark.backend

B, T, S, D, H, F = 2, 5, 7, 12, 3, 11


def tensor(values: Any) -> Any:
    return torch.tensor(np.array(values))


def numbers(values: Any) -> Any:
    return values.detach().cpu().numpy()


def randomize(layer: Any) -> Any:
    layer.set_weights([0.4 * draw(*weight.shape, seed=number) for number, weight in enumerate(layer.weights)])
    return layer


def attention_weights(layer: Any) -> dict[str, Any]:
    """Torch multiplies with transposed matrices, and keeps query, key and value in one."""
    w = named_weights(layer.weights)
    rows = {name: w[f"{name}_kernel"].reshape(w[f"{name}_kernel"].shape[0], D).T for name in PROJECTIONS}
    biases = [w[f"{name}_bias"].ravel() for name in PROJECTIONS]
    names = {f"{name[0]}_proj_weight": tensor(row) for name, row in rows.items()}
    if all(row.shape == (D, D) for row in rows.values()):
        names = {"in_proj_weight": tensor(np.concatenate(list(rows.values())))}
    return {
        **names,
        "in_proj_bias": tensor(np.concatenate(biases)),
        "out_proj.weight": tensor(w["output_kernel"].reshape(D, D).T),
        "out_proj.bias": tensor(w["output_bias"]),
    }


PROJECTIONS = ("query", "key", "value")


def block_weights(layer: Any, attentions: dict[str, str], residuals: list[Any]) -> dict[str, Any]:
    """The state of a `torch.nn` encoder or decoder layer."""
    state = {}
    for ours, theirs in attentions.items():
        weights = attention_weights(getattr(layer, ours))
        state.update({f"{theirs}.{name}": weight for name, weight in weights.items()})
    for number, dense in enumerate((layer.feed_forward.inner, layer.feed_forward.outer), 1):
        state[f"linear{number}.weight"] = tensor(array(dense.kernel).T)
        state[f"linear{number}.bias"] = tensor(array(dense.bias))
    for number, residual in enumerate(residuals, 1):
        state[f"norm{number}.weight"] = tensor(array(residual.norm.gamma))
        state[f"norm{number}.bias"] = tensor(array(residual.norm.beta))
    return state


def encoder_layer_weights(layer: Any) -> dict[str, Any]:
    residuals = [layer.self_attention_residual, layer.feed_forward_residual]
    return block_weights(layer, {"self_attention": "self_attn"}, residuals)


def decoder_layer_weights(layer: Any) -> dict[str, Any]:
    attentions = {"self_attention": "self_attn", "cross_attention": "multihead_attn"}
    residuals = [layer.self_attention_residual, layer.cross_attention_residual, layer.feed_forward_residual]
    return block_weights(layer, attentions, residuals)


PADDING = np.array([[1] * S, [1, 1, 1, 0, 0, 0, 0]], bool)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("widths", [(D, D), (11, 13)])
def test_multi_head_attention(widths: tuple[int, int], padded: bool, close: Any) -> None:
    key_width, value_width = widths
    query, key, value = draw(B, T, D), draw(B, S, key_width, seed=1), draw(B, S, value_width, seed=2)
    layer = MultiHeadAttention(H, D // H)
    layer(query, value, key)
    randomize(layer)
    theirs = torch.nn.MultiheadAttention(D, H, batch_first=True, kdim=key_width, vdim=value_width)
    theirs.load_state_dict(attention_weights(layer))
    ignored = tensor(~PADDING) if padded else None
    expected, expected_scores = theirs(
        tensor(query), tensor(key), tensor(value), key_padding_mask=ignored, average_attn_weights=False
    )
    mask = PADDING if padded else None
    output, scores = layer(query, value, key, padding_mask=mask, return_attention_scores=True)
    close(array(output), numbers(expected), 1e-5)
    close(array(scores), numbers(expected_scores), 1e-5)


def options(norm_first: bool) -> dict[str, Any]:
    return {
        "d_model": D,
        "nhead": H,
        "dim_feedforward": F,
        "dropout": 0.0,
        "layer_norm_eps": 1e-6,
        "batch_first": True,
        "norm_first": norm_first,
    }


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer(norm_first: bool, training: bool, close: Any) -> None:
    x, layer = draw(B, S, D), EncoderLayer(H, F, norm_first=norm_first)
    layer.build(x.shape)
    randomize(layer)
    theirs = torch.nn.TransformerEncoderLayer(**options(norm_first))  # in training mode, without dropout
    theirs.load_state_dict(encoder_layer_weights(layer))
    expected = numbers(theirs(tensor(x), src_key_padding_mask=tensor(~PADDING)))
    output = array(layer(x, padding_mask=PADDING, training=training))
    close(output[PADDING], expected[PADDING], 1e-5)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_layer(norm_first: bool, training: bool, close: Any) -> None:
    x, memory, layer = draw(B, T, D), draw(B, S, D, seed=1), DecoderLayer(H, F, norm_first=norm_first)
    layer.build(x.shape, memory.shape)
    randomize(layer)
    theirs = torch.nn.TransformerDecoderLayer(**options(norm_first))
    theirs.load_state_dict(decoder_layer_weights(layer))
    future = tensor(np.triu(np.ones((T, T), bool), 1))
    expected = theirs(tensor(x), tensor(memory), tgt_mask=future, memory_key_padding_mask=tensor(~PADDING))
    output = array(layer(x, memory, encoder_padding_mask=PADDING, training=training))
    close(output, numbers(expected), 1e-5)


def stack_weights(stack: Any, name: str, layer_weights: Any) -> dict[str, Any]:
    """The state of one side of a `torch.nn.Transformer`."""
    state = {
        f"{name}.layers.{number}.{key}": value
        for number, layer in enumerate(stack.layers)
        for key, value in layer_weights(layer).items()
    }
    if stack.final_normalization.weights:
        state[f"{name}.norm.weight"] = tensor(array(stack.final_normalization.gamma))
        state[f"{name}.norm.bias"] = tensor(array(stack.final_normalization.beta))
    return state


@pytest.mark.parametrize(
    ("norm_first", "final_norm"), [(False, None), (False, True), (True, None), (True, False)]
)
def test_transformer(norm_first: bool, final_norm: bool | None, close: Any) -> None:
    """Both stacks of two layers, against `torch.nn.Transformer`."""
    source, target = draw(B, S, D), draw(B, T, D, seed=1)
    norms = {"norm_first": norm_first, "final_norm": final_norm}
    encoder, decoder = Encoder(2, H, F, **norms), Decoder(2, H, F, **norms)
    encoder.build(source.shape)
    decoder.build(target.shape, source.shape)
    randomize(encoder)
    randomize(decoder)
    # Made by hand, since torch warns of the fast path that these sizes do not have.
    theirs_encoder = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(**options(norm_first)),
        2,
        norm=torch.nn.LayerNorm(D, 1e-6),
        enable_nested_tensor=False,
    )
    theirs = torch.nn.Transformer(num_decoder_layers=2, custom_encoder=theirs_encoder, **options(norm_first))
    # Torch normalises once more after its stacks by default, the paper does not.
    if not (norm_first if final_norm is None else final_norm):
        theirs.encoder.norm = theirs.decoder.norm = None
    theirs.load_state_dict(
        {
            **stack_weights(encoder, "encoder", encoder_layer_weights),
            **stack_weights(decoder, "decoder", decoder_layer_weights),
        }
    )
    ignored, future = tensor(~PADDING), tensor(np.triu(np.ones((T, T), bool), 1))
    expected = theirs(
        tensor(source),
        tensor(target),
        tgt_mask=future,
        src_key_padding_mask=ignored,
        memory_key_padding_mask=ignored,
    )
    memory = encoder(source, padding_mask=PADDING)
    output = decoder(target, memory, encoder_padding_mask=PADDING)
    close(array(output), numbers(expected), 1e-5)
