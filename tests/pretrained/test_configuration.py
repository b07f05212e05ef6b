"""A configuration that is not known is refused before any weight is read."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from keras_transformer.errors import InputError
from keras_transformer.pretrained import from_hugging_face
from keras_transformer.pretrained.family import _ALWAYS, _IGNORED
from keras_transformer.pretrained.generation import _GENERATION_NAMES
from keras_transformer.pretrained.hugging_face import _FAMILIES
from pretrained_models import save_translator

# As OPUS-MT has it, with the names of older versions.
MARIAN = {
    "activation_function": "swish",
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "architectures": ["MarianMTModel"],
    "bad_words_ids": [[58100]],
    "classif_dropout": 0.0,
    "d_model": 512,
    "decoder_attention_heads": 8,
    "decoder_ffn_dim": 2048,
    "decoder_layers": 6,
    "decoder_start_token_id": 58100,
    "encoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "encoder_layers": 6,
    "extra_pos_embeddings": 58101,
    "id2label": {"0": "LABEL_0"},
    "max_length": 512,
    "max_position_embeddings": 512,
    "model_type": "marian",
    "normalize_before": False,
    "normalize_embedding": False,
    "num_beams": 6,
    "scale_embedding": True,
    "static_position_embeddings": True,
    "vocab_size": 58101,
}


def write(directory: Path, table: object) -> Path:
    (directory / "config.json").write_text(table if isinstance(table, str) else json.dumps(table))
    return directory


@pytest.mark.slow
@pytest.mark.backend
def test_older_files_hold_the_search_too(tmp_path: Path) -> None:
    save_translator("marian", tmp_path, num_beams=6, max_length=20)
    path, config = tmp_path / "generation_config.json", json.loads((tmp_path / "config.json").read_text())
    write(tmp_path, {**config, "num_beams": 5, "max_length": 15, "bad_words_ids": [[7]]})
    translator = from_hugging_face(tmp_path)
    assert (translator.search.beam_size, translator.max_target_length) == (6, 19)
    path.unlink()
    translator = from_hugging_face(tmp_path)
    assert (translator.search.beam_size, translator.max_target_length) == (5, 14)
    [banned] = translator.search.constraints.banned_token_ids
    assert translator.target_tokenizer.original_ids[banned] == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2"}, "`model_type` must be one of .*marian.* Received: 'gpt2'"),
        ({"model_type": None, "architectures": None}, "Received: None"),
        ({"architectures": ["MarianForCausalLM"]}, "must have MarianMTModel.* Received: ..MarianForCausalLM"),
        ({"normalize_embedding": True}, "`normalize_embedding` must be False in a marian. Received: True"),
        ({"static_position_embeddings": False}, "`static_position_embeddings` must be True"),
        ({"add_bias_logits": True}, "`add_bias_logits` must be False"),
        ({"is_encoder_decoder": False}, "`is_encoder_decoder` must be True"),
        ({"quantization_config": {"bits": 4}}, "`quantization_config` must be None in a marian"),
        ({"d_model": "512"}, "`d_model` must be a valid integer"),
        (
            {"decoder_ffn_dim": 1024},
            "the same `intermediate_dim`. Received: encoder_ffn_dim=2048 and decoder_ffn_dim=1024",
        ),
        ({"activation_function": "mish"}, "must be one of relu, .* Received: 'mish'"),
        ({"eos_token_id": [0, 1]}, "`eos_token_id` must be"),
    ],
)
def test_what_is_not_known_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as raised:
        from_hugging_face(write(tmp_path, {**MARIAN, **change}))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"relative_attention_num_buckets": 64}, "`relative_attention_num_buckets` must be 32"),
        ({"feed_forward_proj": "gated-mish"}, "Received: 'mish'"),
        ({"feed_forward_proj": "gated-gelu", "is_gated_act": False}, "`is_gated_act` must be True in a t5"),
    ],
)
def test_t5_too(table: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        from_hugging_face(write(tmp_path, {"model_type": "t5", **table}))


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config\.json"):
        from_hugging_face(tmp_path)
    for content in ("{", "[]", "null"):
        with pytest.raises(InputError, match=r"config\.json"):
            from_hugging_face(write(tmp_path, content))
    for path in (tmp_path / "absent", "absent", "a/b/c", ""):
        with pytest.raises(InputError):
            from_hugging_face(path)


# Of how a model is run and what it returns, in every configuration of transformers.
HOW_IT_RUNS = {
    "chunk_size_feed_forward",
    "output_attentions",
    "output_hidden_states",
    "problem_type",
    "return_dict",
}


@pytest.mark.parametrize("kind", sorted(_FAMILIES))
def test_every_name_of_transformers_is_known(kind: str) -> None:
    """What a family does not know is left out: so a name that its class reads must be known."""
    transformers, family = pytest.importorskip("transformers"), _FAMILIES[kind]
    names = {name for name in transformers.AutoConfig.for_model(kind).to_dict() if not name.startswith("_")}
    known = {field.name for field in dataclasses.fields(family)} | {*family().always(), *_ALWAYS}
    assert names <= known | family.ignored | _IGNORED | _GENERATION_NAMES | HOW_IT_RUNS
