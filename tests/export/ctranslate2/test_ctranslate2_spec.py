"""Every option that CTranslate2 can have gives the same probabilities; the others are refused."""

import builtins
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.export import export_ctranslate2
from keras_transformer.export.ctranslate2 import (
    check_supported,
    ctranslate2_specs,
    transformer_spec,
)

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra `interop` is not installed")

MakeModel = Callable[..., Any]

OPTIONS: list[dict[str, Any]] = [
    {},
    {"norm_first": True},
    {"num_encoder_layers": 1, "num_decoder_layers": 3},
    {"tie_output": False},
    {"share_embeddings": True},
    {"share_embeddings": True, "tie_output": False, "norm_first": True},
    {"layer_norm_epsilon": 0.1},
    {"activation": "gelu"},
    {"activation": "silu", "gated": True},
    {"activation": "tanh"},
    {"activation": "sigmoid"},
    {"normalization": "rms", "norm_first": True},
    {"num_key_value_heads": 1},
    {"num_heads": 6, "num_key_value_heads": 2},
    {"positions": "learned", "max_length": 11},
    {"positions": "rotary"},
]


def target_log_probabilities(model: Any, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Give log p of each target token under our model, in one teacher-forced pass."""
    decoder_input = np.concatenate([np.full((len(target), 1), 2), target[:, :-1]], axis=1)
    logits = model({"encoder_token_ids": source, "decoder_token_ids": decoder_input.astype("int32")})
    log_probabilities = ops.convert_to_numpy(ops.log_softmax(logits))
    return np.take_along_axis(log_probabilities, target[..., None], axis=2)[..., 0]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_probabilities_are_the_same(make_model: MakeModel, options: dict[str, Any], tmp_path: Path) -> None:
    model = make_model(**options)
    rng, end = np.random.default_rng(1), np.full((3, 1), 3)
    source, target = rng.integers(4, 37, (3, 7)), rng.integers(4, 41, (3, 9))
    source[1, 4:] = 0  # a shorter neighbor: padding in ours, a ragged batch in theirs
    rows = [[token for token in row if token] for row in source.tolist()]
    padded = np.array([[*row, 3, *[0] * (7 - len(row))] for row in rows], "int32")

    ours = target_log_probabilities(model, padded, np.concatenate([target, end], axis=1))
    theirs = ctranslate2.Translator(str(export_ctranslate2(model, tmp_path / "model"))).score_batch(
        [[str(token) for token in row] for row in rows], [[str(token) for token in row] for row in target]
    )
    np.testing.assert_allclose(ours, [result.log_probs for result in theirs], atol=2e-5)
    assert np.ptp(ours) > 1  # the probabilities differ from token to token


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"positions": "relative"},
            r"can have `positions` sinusoidal, learned, rotary\. Received: a model with positions='relative'",
        ),
        ({"activation": "elu"}, r"can have `activation` relu, .*sigmoid\. Received: .*activation='elu'"),
    ],
)
def test_what_ctranslate2_has_no_layer_for(
    make_model: MakeModel, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check_supported(make_model(**options))


def test_frames_are_refused() -> None:
    model = kt.Transformer(
        None, 41, encoder_feature_dim=5, num_layers=1, hidden_dim=4, num_heads=2, intermediate_dim=4
    )
    with pytest.raises(ValueError, match=r"no frames\. Received: a model with encoder_feature_dim=5"):
        transformer_spec(model, 11)


def test_names_and_shapes_of_a_layer(make_model: MakeModel) -> None:
    spec = transformer_spec(make_model(num_layers=1), 11)
    layer = spec.decoder.layer[0]
    assert [linear.weight.shape for linear in layer.self_attention.linear] == [(36, 12), (12, 12)]
    assert [linear.weight.shape for linear in layer.attention.linear] == [(12, 12), (24, 12), (12, 12)]
    assert layer.ffn.linear_0.weight.shape == (17, 12)
    assert spec.encoder.position_encodings.encodings.shape == (11, 12)
    assert spec.config.layer_norm_epsilon == 1e-6


def test_weights_of_another_dtype_become_float32() -> None:
    sizes = {"num_layers": 1, "hidden_dim": 4, "num_heads": 2, "intermediate_dim": 4}
    model = kt.Transformer(7, 7, **sizes, dtype="bfloat16")
    assert transformer_spec(model, 5).decoder.projection.weight.dtype == np.float32


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("ctranslate2"):
            raise ImportError(name)
        return real_import(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InputError, match=r'needs the package ctranslate2; .*pip install "\.\[interop\]"'):
        ctranslate2_specs()
