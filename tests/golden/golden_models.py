"""Every model class and option with fixed weights, and the numbers that each gives.

Weights are drawn from a seeded generator of NumPy, in the order of `model.weights`. Where that order or
a shape changes, `logits` tells it apart from a change in what is computed.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

import keras_transformer as kt

Arrays = dict[str, np.ndarray]

SOURCE_SIZE, TARGET_SIZE, FRAME_WIDTH = 11, 13, 5
SIZES: dict[str, Any] = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 7}

# The third source is padding alone, which nothing may be attended to.
SOURCE = np.array([[5, 3, 9, 2, 7, 10, 3], [4, 8, 6, 3, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]], "int32")
TARGET = np.array([[2, 5, 11, 4, 12], [2, 12, 7, 0, 0], [2, 9, 9, 6, 0]], "int32")
FRAMES = np.random.default_rng(1).normal(size=(3, 7, FRAME_WIDTH)).astype("float32")
FRAME_MASK = np.array([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0, 0]], "bool")

# The options that all three classes share.
OPTIONS: dict[str, dict[str, Any]] = {
    "paper": {},
    "norm_first": {"norm_first": True},
    "rms": {"normalization": "rms"},
    "gated": {"gated": True},
    "gelu": {"activation": "gelu"},
    "epsilon": {"layer_norm_epsilon": 1e-3},
    "key_value_heads": {"num_heads": 4, "num_key_value_heads": 2},
    "learned": {"positions": "learned", "max_length": 17},
    "rotary": {"positions": "rotary"},
    "relative": {"positions": "relative"},
    "modern": {
        "norm_first": True,
        "normalization": "rms",
        "gated": True,
        "activation": "silu",
        "positions": "rotary",
        "num_heads": 4,
        "num_key_value_heads": 1,
    },
}
TRANSFORMER_OPTIONS: dict[str, dict[str, Any]] = {
    **OPTIONS,
    "relative_norm_first": {"positions": "relative", "norm_first": True},
    "untied": {"tie_output": False},
    "shared": {"share_embeddings": True, "source_vocabulary_size": TARGET_SIZE},
    "shared_untied": {
        "share_embeddings": True,
        "source_vocabulary_size": TARGET_SIZE,
        "tie_output": False,
    },
    "depths": {"num_encoder_layers": 3, "num_decoder_layers": 2},
    "frames": {"source_vocabulary_size": None, "encoder_feature_dim": FRAME_WIDTH},
}
CAUSAL_OPTIONS: dict[str, dict[str, Any]] = {**OPTIONS, "untied": {"tie_output": False}}
ENCODER_OPTIONS: dict[str, dict[str, Any]] = {
    **OPTIONS,
    "tags": {"num_outputs": 3},
    "mean": {"num_outputs": 3, "pooling": "mean"},
    "first": {"num_outputs": 3, "pooling": "first"},
    "masked_tokens": {"num_outputs": SOURCE_SIZE, "tie_output": True},
    "frames": {"vocabulary_size": None, "feature_dim": FRAME_WIDTH, "num_outputs": 3, "pooling": "mean"},
}


def fill(model: keras.Model, seed: int = 0) -> keras.Model:
    """Give a model its fixed weights: matrices at random, vectors around the zeros or ones that they are."""
    generator = np.random.default_rng(seed)
    model.set_weights([_drawn(generator, numpy(weight)) for weight in model.weights])
    return model


def _drawn(generator: np.random.Generator, initial: np.ndarray) -> np.ndarray:
    noise = generator.normal(size=initial.shape)
    return initial + 0.2 * noise if initial.ndim == 1 else 0.7 * noise


def transformer(seed: int = 0, **options: Any) -> keras.Model:
    """Make a `Transformer` of fixed weights."""
    sizes = {"source_vocabulary_size": SOURCE_SIZE, "target_vocabulary_size": TARGET_SIZE, **SIZES}
    return fill(kt.Transformer(**{**sizes, **options}), seed)


def causal_lm(seed: int = 0, **options: Any) -> keras.Model:
    """Make a `CausalLM` of fixed weights."""
    return fill(kt.CausalLM(**{"vocabulary_size": TARGET_SIZE, **SIZES, **options}), seed)


def encoder_model(seed: int = 0, **options: Any) -> keras.Model:
    """Make an `EncoderModel` of fixed weights."""
    return fill(kt.EncoderModel(**{"vocabulary_size": SOURCE_SIZE, **SIZES, **options}), seed)


def ensemble() -> keras.Model:
    """Make an `Ensemble` of two models of other widths and positions."""
    members = [transformer(seed=1), transformer(seed=2, hidden_dim=12, positions="rotary", norm_first=True)]
    return kt.models.Ensemble(members)


def transformer_inputs(options: dict[str, Any]) -> dict[str, np.ndarray]:
    """Give the inputs that a `Transformer` of these options reads."""
    inputs = {"decoder_token_ids": TARGET}
    if "encoder_feature_dim" in options:
        return {**inputs, "encoder_features": FRAMES, "encoder_padding_mask": FRAME_MASK}
    return {**inputs, "encoder_token_ids": SOURCE}


def encoder_inputs(options: dict[str, Any]) -> Any:
    """Give the inputs that an `EncoderModel` of these options reads."""
    return {"features": FRAMES, "padding_mask": FRAME_MASK} if "feature_dim" in options else SOURCE


def cases() -> Iterator[tuple[str, Callable[[], keras.Model], Any]]:
    """Yield the name of each case, what makes its model, and its inputs."""
    for name, options in TRANSFORMER_OPTIONS.items():
        yield f"Transformer/{name}", functools.partial(transformer, **options), transformer_inputs(options)
    for name, options in CAUSAL_OPTIONS.items():
        yield f"CausalLM/{name}", functools.partial(causal_lm, **options), TARGET
    for name, options in ENCODER_OPTIONS.items():
        yield f"EncoderModel/{name}", functools.partial(encoder_model, **options), encoder_inputs(options)
    yield "Ensemble/two", ensemble, transformer_inputs({})


def numpy(tensor: Any) -> np.ndarray:
    """Turn a tensor of any backend into an array."""
    return keras.ops.convert_to_numpy(tensor)


def logits() -> Arrays:
    """Give the weights of each case, what it answers, and what some methods give."""
    arrays = {}
    for name, make, inputs in cases():
        model = make()
        arrays[f"{name}/weights"] = np.array([f"{each.path} {tuple(each.shape)}" for each in model.weights])
        arrays[name] = numpy(model(inputs))
    model = transformer()
    arrays["Transformer/paper/encode"] = numpy(model.encode(SOURCE)[0])
    maps = {"Transformer": model.attention_scores(transformer_inputs({}))}
    model = causal_lm()
    arrays["CausalLM/paper/hidden_states"] = numpy(
        model.decoder(model.position_encoding(model.token_embedding(TARGET)), padding_mask=TARGET > 0)
    )
    maps["CausalLM"] = model.attention_scores(TARGET)
    maps["EncoderModel"] = encoder_model().attention_scores(SOURCE)
    for class_name, scores in maps.items():
        arrays |= {f"{class_name}/paper/{name}": numpy(scores[name]) for name in scores}
    frames = {name: array for name, array in _frame_inputs().items() if name != "encoder_padding_mask"}
    arrays["Transformer/frames/no_mask"] = numpy(
        transformer(**TRANSFORMER_OPTIONS["frames"])(frames)  # where every frame counts
    )
    return arrays


def half_logits() -> Arrays:
    """Compute some of them in mixed bfloat16."""
    names = ("paper", "modern", "relative")
    return {
        name: numpy(transformer(**OPTIONS[name]).with_dtype("mixed_bfloat16")(transformer_inputs({}))).astype(
            "float32"
        )
        for name in names
    }


def _frame_inputs() -> dict[str, np.ndarray]:
    return transformer_inputs(TRANSFORMER_OPTIONS["frames"])
