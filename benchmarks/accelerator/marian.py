"""A Marian model of transformers with random weights, and the same weights in a `kt.Transformer`."""

from typing import Any

import keras
import numpy as np
import torch
from transformers import MarianConfig, MarianMTModel

import keras_transformer as kt
from benchmarks.accelerator.engines import Engine, seconds_of
from keras_transformer.types import SPECIAL_IDS


def make_pair(preset: str, vocabulary_size: int) -> tuple[Any, Any]:
    """Return the model of transformers and ours."""
    sizes = kt.models.PRESETS[preset]
    n, h, f = sizes.num_layers, sizes.num_heads, sizes.intermediate_dim
    config = MarianConfig(
        vocab_size=vocabulary_size, d_model=sizes.hidden_dim, encoder_layers=n, decoder_layers=n,
        encoder_attention_heads=h, decoder_attention_heads=h, encoder_ffn_dim=f, decoder_ffn_dim=f,
        activation_function="relu", scale_embedding=True, max_position_embeddings=128, init_std=0.2,
        pad_token_id=0, bos_token_id=2, eos_token_id=3, decoder_start_token_id=2, forced_eos_token_id=None,
        dropout=0.0, attention_dropout=0.0, activation_dropout=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = MarianMTModel(config).eval()
    ours = kt.Transformer(
        vocabulary_size, vocabulary_size, num_layers=n, hidden_dim=sizes.hidden_dim, num_heads=h,
        intermediate_dim=f,
        dropout=0.0, share_embeddings=True, positions="sinusoidal_concatenated", layer_norm_epsilon=1e-5,
    )  # fmt: skip
    weights = {name: value.detach().cpu().numpy() for name, value in theirs.state_dict().items()}
    for weight in ours.weights:
        weight.assign(_theirs(weights, weight.path).reshape(weight.shape))
    return theirs.to("cuda" if torch.cuda.is_available() else "cpu"), ours


_PARTS = {
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "attention_output": "out_proj",
    "inner": "fc1",
    "outer": "fc2",
    "self_attention_residual": "self_attn_layer_norm",
    "cross_attention_residual": "encoder_attn_layer_norm",
    "feed_forward_residual": "final_layer_norm",
    "gamma": "weight",
    "beta": "bias",
    "kernel": "weight",
    "bias": "bias",
}


def _theirs(weights: dict[str, np.ndarray], path: str) -> np.ndarray:
    """Return the transformers weight for our path, such as `encoder/layer_1/self_attention/query/kernel`."""
    if path.endswith("embeddings"):
        return weights["model.shared.weight"]
    stack, layer, *rest = path.split("/")
    names = [_PARTS[part] for part in rest if part not in ("feed_forward", "norm")]
    name = ".".join(["model", stack, "layers", str(int(layer.removeprefix("layer_")) - 1), *names])
    return weights[name].T if path.endswith("kernel") else weights[name]


def compare(
    engine: Engine, theirs: Any, ours: Any, source: np.ndarray, num_beams: int, length: int
) -> dict[str, float]:
    """Decode with both to the same length; return how many outputs agree, and how much faster ours is."""
    options = {"special_ids": SPECIAL_IDS, "length_penalty": 1.0, "length_normalization": "length"}
    # The unknown token is never generated here; `min_length` makes both decode to the end.
    constraints = kt.decoding.Constraints(min_length=length, banned_token_ids=(0, 2))
    if num_beams == 1:
        search: Any = kt.decoding.GreedySearch(constraints=constraints, **options)
    else:
        search = kt.decoding.BeamSearch(
            beam_size=num_beams, constraints=constraints, num_hypotheses=1, **options
        )
    device = next(theirs.parameters()).device
    ids = torch.as_tensor(source, device=device).long()

    def their_tokens() -> Any:
        with torch.no_grad():
            return theirs.generate(
                ids, attention_mask=ids != 0, num_beams=num_beams, do_sample=False, min_new_tokens=length,
                max_new_tokens=length, bad_words_ids=[[0], [1], [2], [3]], length_penalty=1.0,
            )[:, 1:]  # fmt: skip

    def our_tokens() -> Any:
        return kt.decoding.generate(ours, source, search, length).token_ids[:, 0]

    a, b = (keras.ops.convert_to_numpy(tokens()) for tokens in (our_tokens, their_tokens))
    same = float((a[:, : length - 1] == b[:, : length - 1]).all(axis=1).mean())
    mine, other = (seconds_of(engine, tokens, 3, warm_ups=1) for tokens in (our_tokens, their_tokens))
    return {"same": same, "seconds": mine, "seconds_of_transformers": other, "times_faster": other / mine}
