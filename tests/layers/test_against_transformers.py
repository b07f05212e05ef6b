"""The options of pretrained models give the numbers of `transformers`, with the same random weights."""

from typing import Any

import numpy as np
import pytest

from helpers import BeamSearch, GreedySearch, array, score_targets
from keras_transformer import Transformer
from keras_transformer.decoding import generate
from keras_transformer.layers.relative_position_bias import RelativePositionBias

torch = pytest.importorskip("torch", reason="needs the torch extra")
transformers = pytest.importorskip("transformers", reason="needs the extra `interop`")
pytestmark = pytest.mark.backend

SOURCE = np.array([[5, 3, 9, 2, 7], [4, 8, 6, 0, 0]])
TARGET = np.array([[2, 5, 11, 4], [2, 12, 7, 9]])


def numbers(values: Any) -> Any:
    return values.detach().cpu().numpy()


def randomize(model: Any) -> dict[str, Any]:
    """Draw all weights but sinusoids, biases and scales too, and return the state."""
    generator = np.random.default_rng(0)
    for name, weight in model.named_parameters():
        if "Sinusoidal" in type(model.get_submodule(name.rpartition(".")[0])).__name__:
            continue
        is_scale = weight.ndim == 1 and name.endswith("weight")
        drawn = generator.normal(scale=0.2, size=tuple(weight.shape)) + is_scale
        weight.data = torch.tensor(drawn, dtype=torch.float32)
    model.eval()
    return {name: numbers(value) for name, value in model.state_dict().items()}


def fill(model: Any, state: dict[str, Any], sublayers: dict[str, str], norms: tuple[str, str]) -> None:
    """Give the stacks of a model the weights of theirs; a sub-layer of ours has a name in their layers."""
    for stack, theirs in ((model.encoder, "encoder"), (model.decoder, "decoder")):
        for number, layer in enumerate(stack.layers):
            for path, name in sublayers.items():
                fill_part(layer, path, state, name.format(side=theirs, layer=number))
        if stack.final_normalization.weights:
            fill_norm(stack.final_normalization, state, norms[0].format(side=theirs))
    for side, theirs in (("source", "encoder"), ("target", "decoder")):
        if hasattr(model, f"{side}_normalization"):
            fill_norm(getattr(model, f"{side}_normalization"), state, norms[1].format(side=theirs))


def fill_part(layer: Any, path: str, state: dict[str, Any], name: str) -> None:
    part = layer
    for attribute in path.split("."):
        part = getattr(part, attribute, None)
    if part is None or f"{name}.weight" not in state:
        return
    if path.endswith("norm"):
        fill_norm(part, state, name)
        return
    # Theirs are transposed matrices.
    part.kernel.assign(state[f"{name}.weight"].T.reshape(part.kernel.shape))
    if part.bias is not None:
        part.bias.assign(state[f"{name}.bias"].reshape(part.bias.shape))


def fill_norm(norm: Any, state: dict[str, Any], name: str) -> None:
    norm.set_weights([state[key] for key in (f"{name}.weight", f"{name}.bias") if key in state])


def check(ours: Any, theirs: Any) -> None:
    """Compare logits in one pass and step by step, and hypotheses of both searches with their scores."""
    mask, inputs = torch.tensor(SOURCE > 0), {"encoder_token_ids": SOURCE, "decoder_token_ids": TARGET}
    ids = {"input_ids": torch.tensor(SOURCE), "decoder_input_ids": torch.tensor(TARGET)}
    expected = numbers(theirs(**ids, attention_mask=mask.long()).logits)
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(array(ours(inputs)), expected, atol=1e-4)
    step, cache = ours.start_decoding(SOURCE, 4)
    for position in range(4):
        logits, cache = step(TARGET[:, position], position, cache)
        np.testing.assert_allclose(array(logits), expected[:, position], atol=1e-4)
    for search in (GreedySearch(length_penalty=0.0), BeamSearch(3, length_penalty=0.0)):
        result = generate(ours, SOURCE, search, 6)
        best = array(result.token_ids)[:, 0]
        scores = array(score_targets(ours, SOURCE, best)[0])
        np.testing.assert_allclose(scores, array(result.scores)[:, 0], atol=1e-3)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_of_relative_positions(bidirectional: bool) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    layer = RelativePositionBias(1, bidirectional=bidirectional)
    layer.build((None, None, 1, 7))
    layer.biases.assign(np.arange(32)[:, None])
    distances = torch.arange(300)[None, :] - torch.arange(150, 153)[:, None]
    expected = T5Attention._relative_position_bucket(distances, bidirectional, 32, 128)
    np.testing.assert_array_equal(
        array(layer.logits(np.zeros((1, 3, 1, 7)), 300, start=150))[0, 0], numbers(expected)
    )


@pytest.mark.parametrize("kind", ["relu", pytest.param("gated-gelu", marks=pytest.mark.slow)])
def test_t5(kind: str) -> None:
    config = transformers.T5Config(
        vocab_size=13,
        d_model=10,
        d_kv=4,
        d_ff=11,
        num_layers=2,
        num_heads=3,
        feed_forward_proj=kind,
        tie_word_embeddings=False,
        decoder_start_token_id=2,
    )
    theirs = transformers.T5ForConditionalGeneration(config)
    state = randomize(theirs)
    ours = Transformer(
        13,
        13,
        num_layers=2,
        hidden_dim=10,
        num_heads=3,
        head_dim=4,
        intermediate_dim=11,
        dropout=0.0,
        activation="relu" if kind == "relu" else "gelu_tanh",
        gated=kind != "relu",
        use_bias=False,
        norm_first=True,
        normalization="rms",
        positions="relative",
        scale_embeddings=False,
        share_embeddings=True,
        tie_output=False,
    )
    block = "{side}.block.{layer}.layer"
    attention = zip(("query", "key", "value", "output"), "qkvo", strict=True)
    sublayers = {
        f"{ours}_attention.{name}_dense": f"{block}.{theirs}.{letter}"
        for name, letter in attention
        for ours, theirs in (("self", "0.SelfAttention"), ("cross", "1.EncDecAttention"))
    }
    sublayers |= {
        "self_attention_residual.norm": f"{block}.0.layer_norm",
        "cross_attention_residual.norm": f"{block}.1.layer_norm",
    }
    # The feed-forward network is their last sub-layer: the second of the encoder, the third of the decoder.
    for name in [name for name in state if "DenseReluDense" in name or name.endswith(".layer_norm.weight")]:
        parts = name.split(".")
        if "layer" in parts and parts[4] == ("1" if parts[0] == "encoder" else "2"):
            state[".".join([*parts[:4], "ff", *parts[5:]])] = state[name]
    sublayers |= {
        "feed_forward.inner": f"{block}.ff.DenseReluDense.wi" + ("" if kind == "relu" else "_0"),
        "feed_forward.gate": f"{block}.ff.DenseReluDense.wi_1",
        "feed_forward.outer": f"{block}.ff.DenseReluDense.wo",
        "feed_forward_residual.norm": f"{block}.ff.layer_norm",
    }
    fill(ours, state, sublayers, ("{side}.final_layer_norm", ""))
    for stack, side in ((ours.encoder, "encoder"), (ours.decoder, "decoder")):
        table = state[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
        for layer in stack.layers:
            layer.self_attention.position_bias.biases.assign(table)
            attentions = [layer.self_attention, *([layer.cross_attention] if side == "decoder" else [])]
            for attention in attentions:  # their scores are not scaled
                kernel = attention.query_dense.kernel
                kernel.assign(2.0 * kernel)
    ours.target_embedding.embeddings.assign(state["shared.weight"])
    ours.output_projection.dense.kernel.assign(state["lm_head.weight"].T)
    check(ours, theirs)


@pytest.mark.parametrize(
    "family",
    ["Bart", *(pytest.param(family, marks=pytest.mark.slow) for family in ("MBart", "Marian", "Pegasus"))],
)
def test_bart_and_its_relatives(family: str) -> None:
    sizes = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in SIZES.items()}
    config = getattr(transformers, f"{family}Config")(
        vocab_size=13,
        d_model=8,
        max_position_embeddings=9,
        pad_token_id=0,
        activation_function="gelu",
        scale_embedding=family != "Bart",
        **sizes,
    )
    name = "MarianMTModel" if family == "Marian" else f"{family}ForConditionalGeneration"
    theirs = getattr(transformers, name)(config)
    randomize(theirs)
    theirs.final_logits_bias.copy_(torch.tensor(np.random.default_rng(1).normal(size=(1, 13))))
    state = {name.removeprefix("model."): numbers(value) for name, value in theirs.state_dict().items()}
    is_learned = family in ("Bart", "MBart")
    ours = Transformer(
        13,
        13,
        num_layers=2,
        hidden_dim=8,
        num_heads=2,
        intermediate_dim=11,
        dropout=0.0,
        activation="gelu",
        layer_norm_epsilon=1e-5,
        norm_first=family in ("MBart", "Pegasus"),
        normalize_embeddings=is_learned,
        scale_embeddings=family != "Bart",
        positions="learned" if is_learned else "sinusoidal_concatenated",
        max_length=9 if is_learned else None,
        share_positions=not is_learned,
        share_embeddings=True,
        output_bias=True,
    )
    layer = "{side}.layers.{layer}"
    pairs = (("self_attention", "self_attn"), ("cross_attention", "encoder_attn"))
    names = zip(("query", "key", "value", "output"), ("q_proj", "k_proj", "v_proj", "out_proj"), strict=True)
    sublayers = {
        f"{ours}.{name}_dense": f"{layer}.{theirs}.{their_name}"
        for name, their_name in names
        for ours, theirs in pairs
    }
    sublayers |= {f"{ours}_residual.norm": f"{layer}.{theirs}_layer_norm" for ours, theirs in pairs}
    sublayers |= {
        "feed_forward.inner": f"{layer}.fc1",
        "feed_forward.outer": f"{layer}.fc2",
        "feed_forward_residual.norm": f"{layer}.final_layer_norm",
    }
    fill(ours, state, sublayers, ("{side}.layer_norm", "{side}.layernorm_embedding"))
    if is_learned:
        ours.position_encoding.embeddings.assign(state["encoder.embed_positions.weight"][2:])
        ours.target_position_encoding.embeddings.assign(state["decoder.embed_positions.weight"][2:])
    ours.target_embedding.embeddings.assign(state["shared.weight"])
    ours.output_projection.bias.assign(state["final_logits_bias"][0])
    check(ours, theirs)


SIZES = {"layers": 2, "attention_heads": 2, "ffn_dim": 11}
