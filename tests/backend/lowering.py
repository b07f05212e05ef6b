"""Lowers every jitted step for a TPU and a CUDA card, on a machine that has neither; a JSON line for each.

It is a program, since Keras has one backend in a process: `KERAS_BACKEND=jax python lowering.py [case ...]`.
"""

import json
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

import jax
import keras
import numpy as np
from jax import export

import keras_transformer as kt
from keras_transformer.types import SPECIAL_IDS

PLATFORMS = ("tpu", "cuda")
# A second layer has the operations of the first.
SIZES = {"num_layers": 1, "hidden_dim": 16, "num_heads": 4, "intermediate_dim": 32, "dropout": 0.1}
B, S, T, V = 4, 12, 9, 40
# Calls that a compiled step may make besides XLA's own operations: how arrays are spread over devices.
# A call of any other name is a library's, which the device must have.
KNOWN_CALLS = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}

source = np.random.default_rng(0).integers(4, V, (B, S)).astype("int32")
target = np.random.default_rng(1).integers(4, V, (B, T)).astype("int32")
frames = np.random.default_rng(2).normal(size=(B, S, 6)).astype("float32")
frame_mask = np.ones((B, S), bool)
PAIRS = {"encoder_token_ids": source, "decoder_token_ids": target}
FRAMES = {"encoder_features": frames, "encoder_padding_mask": frame_mask, "decoder_token_ids": target}


def transformer(**options: Any) -> kt.Transformer:
    return kt.Transformer(V, V, **{**SIZES, **options})


def frame_model(**options: Any) -> kt.Transformer:
    return kt.Transformer(None, V, encoder_feature_dim=6, **{**SIZES, **options})


def encoder(**options: Any) -> kt.EncoderModel:
    return kt.EncoderModel(vocabulary_size=V, **{**SIZES, **options})


def language_model(**options: Any) -> kt.CausalLM:
    return kt.CausalLM(V, **{**SIZES, **options})


def with_lora(model: Any) -> Any:
    model.enable_lora(2)
    return model


def quantized(model: Any, mode: str = "int8") -> Any:
    model.quantize(mode)
    return model


def lower_training(model: Any, x: Any, y: Any, **options: Any) -> export.Exported:
    """Lower the step that `fit` compiles."""
    if not model.compiled:
        kt.training.compile_model(model, 1e-3, **options)
    model.optimizer.build(model.trainable_variables)
    model._symbolic_build(data_batch=(x, y, None))  # makes the metrics, as `fit` does
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple([variable.value for variable in group] for group in groups)
    return export.export(jax.jit(model.train_step), platforms=PLATFORMS)(state, (x, y, None))


def lower_call(model: Any, x: Any) -> export.Exported:
    def call(trainable: Any, others: Any, x: Any) -> Any:
        return model.stateless_call(trainable, others, x, training=False)[0]

    values = [
        [variable.value for variable in group]
        for group in (model.trainable_variables, model.non_trainable_variables)
    ]
    return export.export(jax.jit(call), platforms=PLATFORMS)(*values, x)


def lower_decoding(
    model: Any, inputs: Any, search: kt.decoding.Search, max_length: int = 20
) -> export.Exported:
    """Lower what `Translator` compiles, for one size of batch."""

    def decode(values: Any, inputs: Any) -> Any:
        with keras.StatelessScope(zip(model.variables, values, strict=True)):
            return tuple(kt.decoding.generate(model, inputs, search, max_length))

    return export.export(jax.jit(decode), platforms=PLATFORMS)(
        [each.value for each in model.variables], inputs
    )


def muon(model: Any) -> Any:
    model.compile(kt.training.Muon(1e-3), kt.training.MaskedCrossentropy(), jit_compile=True)
    return model


GREEDY = kt.decoding.GreedySearch(special_ids=SPECIAL_IDS)
BEAM = kt.decoding.BeamSearch(beam_size=4, special_ids=SPECIAL_IDS, length_penalty=0.6)
SAMPLE = kt.decoding.SampleSearch(special_ids=SPECIAL_IDS, top_k=5, top_p=0.9, seed=1)
ALL = {
    "positions": "rotary",
    "num_key_value_heads": 2,
    "gated": True,
    "norm_first": True,
    "normalization": "rms",
    "use_bias": False,
}

CASES: dict[str, Callable[[], export.Exported]] = {
    "train Transformer": lambda: lower_training(transformer(), PAIRS, target),
    "train Transformer, clipping, average, accumulation": lambda: lower_training(
        transformer(), PAIRS, target, clip_norm=1.0, ema_momentum=0.9, gradient_accumulation_steps=2
    ),
    "train Transformer, R-Drop": lambda: lower_training(transformer(), PAIRS, target, r_drop=1.0),
    "train Transformer, Muon": lambda: lower_training(muon(transformer()), PAIRS, target),
    "train Transformer, LoRA": lambda: lower_training(with_lora(transformer()), PAIRS, target),
    "train Transformer, float8": lambda: lower_training(quantized(transformer(), "float8"), PAIRS, target),
    "train Transformer, dropouts": lambda: lower_training(
        transformer(attention_dropout=0.1, intermediate_dropout=0.1), PAIRS, target
    ),
    "train Transformer, rotary, groups, gates, RMS": lambda: lower_training(
        transformer(**ALL), PAIRS, target
    ),
    "train Transformer, rematerialization": lambda: lower_training(
        transformer(rematerialize=True, attention_dropout=0.1, intermediate_dropout=0.1), PAIRS, target
    ),
    "train Transformer, relative": lambda: lower_training(transformer(positions="relative"), PAIRS, target),
    "train Transformer, learned": lambda: lower_training(
        transformer(positions="learned", max_length=32), PAIRS, target
    ),
    "train Transformer, bfloat16": lambda: lower_training(transformer(dtype="mixed_bfloat16"), PAIRS, target),
    "train Transformer, float16": lambda: lower_training(transformer(dtype="mixed_float16"), PAIRS, target),
    "train Transformer of frames": lambda: lower_training(frame_model(), FRAMES, target),
    "train Transformer of convolved frames": lambda: lower_training(
        frame_model(source_convolutions=True), FRAMES, target
    ),
    "train CausalLM": lambda: lower_training(language_model(), target, target),
    "train CausalLM, rotary, groups, gates, RMS": lambda: lower_training(
        language_model(**ALL), target, target
    ),
    "train EncoderModel": lambda: lower_training(encoder(num_outputs=V, tie_output=True), source, source),
    **{
        f"call EncoderModel, pooling {pooling}": lambda pooling=pooling: lower_call(
            encoder(num_outputs=3, pooling=pooling), source
        )
        for pooling in (None, "mean", "max", "first")
    },
    "call Transformer, int8": lambda: lower_call(quantized(transformer()), PAIRS),
    "call Transformer, int4": lambda: lower_call(quantized(transformer(), "int4"), PAIRS),
    "greedy": lambda: lower_decoding(transformer(), source, GREEDY),
    "greedy of many sources": lambda: lower_decoding(
        transformer(), np.repeat(source, 8, axis=0), GREEDY, 100
    ),
    "greedy, rotary, groups, gates, RMS": lambda: lower_decoding(transformer(**ALL), source, GREEDY),
    "greedy, bfloat16": lambda: lower_decoding(transformer(dtype="mixed_bfloat16"), source, GREEDY),
    "greedy, int8": lambda: lower_decoding(quantized(transformer()), source, GREEDY),
    "greedy of frames": lambda: lower_decoding(frame_model(), frames, GREEDY),
    "beam": lambda: lower_decoding(transformer(), source, BEAM),
    "beam of many sources": lambda: lower_decoding(transformer(), np.repeat(source, 8, axis=0), BEAM, 100),
    "beam, constraints": lambda: lower_decoding(
        transformer(),
        source,
        kt.decoding.BeamSearch(
            beam_size=3,
            special_ids=SPECIAL_IDS,
            constraints=kt.decoding.Constraints(
                repetition_penalty=1.2, no_repeat_ngram_size=2, banned_token_ids=(5,)
            ),
        ),
    ),
    "beam, relative": lambda: lower_decoding(transformer(positions="relative"), source, BEAM),
    "beam, relative keys": lambda: lower_decoding(transformer(positions="relative_keys"), source, BEAM),
    "beam, relative sinusoids": lambda: lower_decoding(
        transformer(positions="relative_sinusoidal", share_layers=True), source, BEAM
    ),
    "beam of an ensemble": lambda: lower_decoding(
        kt.models.Ensemble([transformer(), transformer()]), source, BEAM
    ),
    "sample": lambda: lower_decoding(transformer(), source, SAMPLE),
    "continue a prompt": lambda: lower_decoding(language_model(), target[:, :3], SAMPLE),
}


def _open() -> export.Exported:
    """Lower a function of arrays of any length, which has no lowering of known sizes."""
    [size] = export.symbolic_shape("b")
    return export.export(jax.jit(lambda x: x + 1), platforms=PLATFORMS)(
        jax.ShapeDtypeStruct((size,), "float32")
    )


def _library() -> export.Exported:
    """Lower a function that calls a library of each device."""
    return export.export(jax.jit(jax.numpy.linalg.eigh), platforms=PLATFORMS)(np.eye(3, dtype="float32"))


# What the program must find, for a test of itself.
COUNTEREXAMPLES = {"a size that is not known": _open, "a library's operation": _library}


def examine(exported: export.Exported) -> dict[str, Any]:
    """Return what a device could stumble over in a lowered module."""
    text = exported.mlir_module()
    return {
        # A size that is not known stands as `?` in a tensor's type.
        "dynamic": sorted(set(re.findall(r"tensor<[^>]*\?[^>]*>", text)))[:3],
        "calls": sorted(set(re.findall(r"custom_call @(\w+)", text)) - KNOWN_CALLS),
        # A TPU has no numbers of 64 bits but integers, which take two registers.
        "wide": sorted(set(re.findall(r"[x<](f64|complex<f64>)>", text))),
        "operations": len(re.findall(r"stablehlo\.", text)),
    }


def main() -> None:
    for name in sys.argv[1:] or list(CASES):
        keras.utils.clear_session()
        try:
            line = {"case": name, **examine({**CASES, **COUNTEREXAMPLES}[name]())}
        except Exception:  # noqa: BLE001 (each case stands alone)
            line = {"case": name, "error": traceback.format_exc()}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
