"""Small pretrained models of random weights, as `transformers` saves them."""

from pathlib import Path
from typing import Any

import pytest

BART = {
    "vocab_size": 41,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 30,
    "scale_embedding": True,
}
T5 = {
    "vocab_size": 41,
    "d_model": 16,
    "d_kv": 6,
    "d_ff": 24,
    "num_layers": 2,
    "num_decoder_layers": 1,
    "num_heads": 3,
}
MARIAN = {
    **BART,
    "pad_token_id": 40,
    "decoder_start_token_id": 40,
    "eos_token_id": 0,
    "forced_eos_token_id": 0,
}
SEPARATE = {"decoder_vocab_size": 33, "share_encoder_decoder_embeddings": False}
# By name: the class of the model, and what differs from the defaults of its configuration.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "marian": ("Marian", {**MARIAN, "activation_function": "swish"}),
    "marian-separate": ("Marian", {**MARIAN, **SEPARATE, "pad_token_id": 32, "decoder_start_token_id": 32}),
    "bart": ("Bart", BART),
    "mbart": ("MBart", {**BART, "decoder_start_token_id": 2}),
    "pegasus": ("Pegasus", {**BART, "activation_function": "relu"}),
    "m2m100": ("M2M100", BART),
    "t5": ("T5", {**T5, "decoder_start_token_id": 0}),
    "t5-1.1": (
        "T5",
        {**T5, "decoder_start_token_id": 0, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "mt5": ("MT5", T5),
}


def save_model(family: str, directory: Path, **changes: Any) -> Any:
    """Save a model of a family, whose weights are all random, and return it."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    name, options = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(**{**options, **changes})
    kind = "MarianMTModel" if name == "Marian" else f"{name}ForConditionalGeneration"
    torch.manual_seed(1)
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for key, weight in model.state_dict().items():
            if "embed_positions" not in key or name in ("Bart", "MBart"):
                weight.copy_(0.3 * torch.randn(weight.shape) + ("norm" in key))
    model.save_pretrained(directory)
    return model
