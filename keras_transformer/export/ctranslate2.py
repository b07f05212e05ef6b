"""A model as a directory that CTranslate2, the C++ engine, loads as it is."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_transformer.decoding import Translator
from keras_transformer.errors import InputError
from keras_transformer.export.directory_readme import ctranslate2_readme
from keras_transformer.files import atomic_directory, errors_named
from keras_transformer.layers.position_encoding import sinusoidal_position_encoding
from keras_transformer.text import SPECIAL_IDS, SPECIAL_TOKENS
from keras_transformer.types import Tensor

Array = npt.NDArray[np.float32]

ACTIVATIONS = {
    "relu": "RELU",
    "gelu": "GELU",
    "silu": "SWISH",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
}
"""Names of Keras, and what CTranslate2 calls the same function."""

POSITIONS = ("sinusoidal", "learned", "rotary")


def ctranslate2_specs() -> Any:
    """Import what CTranslate2 describes a model with.

    Returns:
        The module `ctranslate2.specs`.

    Raises:
        InputError: the package is not installed.
    """
    try:
        from ctranslate2 import specs
    except ImportError as error:
        raise InputError(
            'A CTranslate2 model needs the package ctranslate2; in the clone: pip install ".[interop]".'
        ) from error
    return specs


def check_supported(model: Any) -> None:
    """Refuse what CTranslate2 has no layer for.

    Args:
        model: a `Transformer`.

    Raises:
        ValueError: frames as a source, relative positions, or an activation
            that CTranslate2 does not know.
    """
    config = model.config
    if config.encoder_feature_dim is not None:
        raise ValueError(
            "CTranslate2 reads token ids, no frames. "
            f"Received: a model with encoder_feature_dim={config.encoder_feature_dim}."
        )
    _check_option(POSITIONS, positions=config.positions)
    _check_option(tuple(ACTIVATIONS), activation=_activation_name(model))


def transformer_spec(model: Any, num_positions: int) -> Any:
    """Describe a model with all its weights, in float32.

    Args:
        model: a `Transformer`.
        num_positions: how many sinusoidal positions are written; learned and
            rotary positions have no use for it.

    Returns:
        A `ctranslate2.specs.TransformerSpec`, still without vocabularies.

    Raises:
        InputError: CTranslate2 is not installed.
        ValueError: see `check_supported`.
    """
    check_supported(model)
    specs, options = ctranslate2_specs().transformer_spec, _options(model)
    encoder = specs.TransformerEncoderSpec(len(model.encoder.layers), **options)
    decoder = specs.TransformerDecoderSpec(len(model.decoder.layers), **options)
    _fill_embedding(encoder.embeddings[0], model.source_embedding)
    _fill_embedding(decoder.embeddings, model.target_embedding)
    _fill_stack(encoder, model.encoder)
    _fill_stack(decoder, model.decoder)
    if model.config.positions != "rotary":
        encoder.position_encodings.encodings = _positions(model, num_positions)
        decoder.position_encodings.encodings = encoder.position_encodings.encodings
    decoder.projection.weight = _projection(model.output_projection)
    spec = specs.TransformerSpec(encoder, decoder)
    # Otherwise CTranslate2 adds 1e-5 to the variance.
    spec.config.layer_norm_epsilon = model.config.layer_norm_epsilon
    return spec


def _options(model: Any) -> dict[str, Any]:
    """Give what both stacks are made with."""
    config = model.config
    activations = ctranslate2_specs().common_spec.Activation
    return {
        "num_heads": config.num_heads,
        "num_heads_kv": config.num_key_value_heads,
        "pre_norm": config.norm_first,
        "activation": activations[ACTIVATIONS[_activation_name(model)]],
        "ffn_glu": config.gated,
        "rms_norm": config.normalization == "rms",
        # 0 stands for every feature of a head; ours pairs feature i with i + k / 2.
        "rotary_dim": 0 if config.positions == "rotary" else None,
        "rotary_interleave": False,
    }


def _fill_stack(spec: Any, stack: Any) -> None:
    """Copy the layers of an encoder or a decoder."""
    for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
        _fill_self_attention(layer_spec.self_attention, layer.self_attention)
        _fill_norm(layer_spec.self_attention.layer_norm, layer.self_attention_residual.norm)
        if getattr(layer, "cross_attention", None) is not None:
            _fill_cross_attention(layer_spec.attention, layer.cross_attention)
            _fill_norm(layer_spec.attention.layer_norm, layer.cross_attention_residual.norm)
        _fill_feed_forward(layer_spec.ffn, layer.feed_forward)
        _fill_norm(layer_spec.ffn.layer_norm, layer.feed_forward_residual.norm)
    if stack.norm_first:
        _fill_norm(spec.layer_norm, stack.final_normalization)


def _fill_self_attention(spec: Any, attention: Any) -> None:
    """Copy queries, keys and values as one map, and the output."""
    _fill_maps(spec.linear[0], attention, ("query", "key", "value"))
    _fill_output(spec.linear[1], attention)


def _fill_cross_attention(spec: Any, attention: Any) -> None:
    """Copy the queries, keys and values as one map, and the output."""
    _fill_maps(spec.linear[0], attention, ("query",))
    _fill_maps(spec.linear[1], attention, ("key", "value"))
    _fill_output(spec.linear[2], attention)


def _fill_maps(spec: Any, attention: Any, names: tuple[str, ...]) -> None:
    """Stack maps `(d, h, k)` as rows `(h * k, d)`."""
    kernels = [_array(getattr(attention, f"{name}_kernel")) for name in names]
    spec.weight = np.concatenate([kernel.reshape(len(kernel), -1).T for kernel in kernels])
    spec.bias = np.concatenate([_array(getattr(attention, f"{name}_bias")).reshape(-1) for name in names])


def _fill_output(spec: Any, attention: Any) -> None:
    """Copy the map `(h, k, d)` as `(d, h * k)`."""
    kernel = _array(attention.output_kernel)
    spec.weight = np.ascontiguousarray(kernel.reshape(-1, kernel.shape[-1]).T)
    spec.bias = _array(attention.output_bias)


def _fill_feed_forward(spec: Any, feed_forward: Any) -> None:
    _fill_dense(spec.linear_0, feed_forward.inner)
    _fill_dense(spec.linear_1, feed_forward.outer)
    if feed_forward.gate is not None:
        _fill_dense(spec.linear_0_noact, feed_forward.gate)


def _fill_dense(spec: Any, dense: Any) -> None:
    spec.weight = np.ascontiguousarray(_array(dense.kernel).T)
    spec.bias = _array(dense.bias)


def _fill_norm(spec: Any, norm: Any) -> None:
    """Copy the scale and, where the normalisation has one, the bias."""
    is_rms = isinstance(norm, keras.layers.RMSNormalization)
    spec.gamma = _array(norm.scale if is_rms else norm.gamma)
    if not is_rms:
        spec.beta = _array(norm.beta)


def _fill_embedding(spec: Any, embedding: Any) -> None:
    spec.weight = _array(embedding.embeddings)
    # CTranslate2's own default, said here since the numbers depend on it.
    spec.multiply_by_sqrt_depth = embedding.scale


def _projection(projection: Any) -> Array:
    """Give the rows of the logits `(v, d)`."""
    if projection.embedding is not None:
        return _array(projection.embedding.embeddings)
    return np.ascontiguousarray(_array(projection.kernel).T)


def _positions(model: Any, num_positions: int) -> Array:
    """Give the vectors that are added to embeddings, `(positions, d)`."""
    if model.config.positions == "learned":
        return _array(model.position_encoding.marks)
    return _array(sinusoidal_position_encoding(num_positions, model.config.hidden_dim))


def _activation_name(model: Any) -> Any:
    return keras.activations.serialize(keras.activations.get(model.config.activation))


def _array(weight: Tensor) -> Array:
    array: Array = np.asarray(ops.convert_to_numpy(weight), "float32")
    return array


def _check_option(known: tuple[str, ...], **option: Any) -> None:
    """Refuse a value that is not among the known ones."""
    [(name, value)] = option.items()
    if value not in known:
        raise ValueError(
            f"CTranslate2 can have `{name}` {', '.join(known)}. Received: a model with {name}={value!r}."
        )


NUM_POSITIONS = 2048
"""Sinusoidal positions that are written at least; CTranslate2 cuts sources at 1,024 by default."""

DEFAULT_LENGTHS = (1024, 256)
"""What CTranslate2 reads and writes at most where nothing else is said."""

QUANTIZATIONS = (
    None,
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
    "int16",
    "float16",
    "bfloat16",
)


def export_ctranslate2(
    model: Any, directory: str | Path, *, quantization: str | None = None, num_positions: int = NUM_POSITIONS
) -> Path:
    """Write a CTranslate2 model with the weights of ours.

    The directory of a translator also gets both tokenizers, as `Tokenizer.save` writes them. The
    tokens of the vocabularies are the tokenizers' pieces; a model alone has its ids in decimal.

    Args:
        model: a `Translator`, or a `Transformer` with weights.
        directory: made by this call; written beside and renamed.
        quantization: of the weights: None for float32, or what CTranslate2 knows, such as `int8`.
        num_positions: how many sinusoidal positions are written; more if the translator's limits
            ask for more.

    Returns:
        The directory.

    Raises:
        InputError: CTranslate2 is not installed, or the directory is there already or cannot be written.
        ValueError: an option of the model that CTranslate2 has no layer for, an unknown quantization.
    """
    directory = Path(directory)
    if quantization not in QUANTIZATIONS:
        known = ", ".join(str(name) for name in QUANTIZATIONS)
        raise ValueError(f"`quantization` must be one of {known}. Received: quantization={quantization!r}.")
    if directory.exists():
        raise InputError(f"Cannot write {directory}: it is there already.")
    limits = _limits(model)
    num_positions = max(num_positions, *limits)
    spec = transformer_spec(getattr(model, "model", model), num_positions)
    _name_tokens(spec, model)
    spec.validate()
    spec.optimize(quantization)
    _write(spec, model, directory, _longest(model, num_positions))
    return directory


def vocabulary_tokens(size: int, tokenizer: Any = None) -> list[str]:
    """Name each token id for CTranslate2.

    Args:
        size: the number of ids.
        tokenizer: whose pieces are the names; None for the ids in decimal.

    Returns:
        A string for each id, the special tokens first.
    """
    names = [str(token_id) for token_id in range(size)]
    if tokenizer is not None:
        names = [piece.decode("utf-8") for piece in tokenizer.tokens([list(range(size))]).numpy()[0]]
    return [*SPECIAL_TOKENS, *names[len(SPECIAL_TOKENS) :]]


def _limits(model: Any) -> tuple[int, int]:
    """Give the most positions of source and target, 0 where nothing limits them."""
    if isinstance(model, Translator):
        return model.max_source_length, model.max_target_length
    return 0, 0


def _longest(model: Any, num_positions: int) -> tuple[int, int]:
    """Give the most tokens of source and target for the README: where nothing limits them, the defaults."""
    if isinstance(model, Translator):
        return _limits(model)
    longest = model.config.max_length or num_positions
    source_length, target_length = DEFAULT_LENGTHS
    return min(source_length, longest), min(target_length, longest)


def _name_tokens(spec: Any, model: Any) -> None:
    """Register the vocabularies, and say which tokens are special."""
    [source_size], target_size = spec.get_source_vocabulary_size(), spec.get_target_vocabulary_size()
    source_tokenizer = getattr(model, "source_tokenizer", None)
    target_tokenizer = getattr(model, "target_tokenizer", None)
    spec.register_source_vocabulary(vocabulary_tokens(source_size, source_tokenizer))
    spec.register_target_vocabulary(vocabulary_tokens(target_size, target_tokenizer))
    spec.config.unk_token = SPECIAL_TOKENS[SPECIAL_IDS.unknown]
    spec.config.bos_token = SPECIAL_TOKENS[SPECIAL_IDS.start]
    spec.config.eos_token = SPECIAL_TOKENS[SPECIAL_IDS.end]
    spec.config.decoder_start_token = SPECIAL_TOKENS[SPECIAL_IDS.start]
    spec.config.add_source_eos = True


def _write(spec: Any, model: Any, directory: Path, lengths: tuple[int, int]) -> None:
    with errors_named("write", directory), atomic_directory(directory) as partial:
        spec.save(str(partial))
        for side in ("source", "target") if isinstance(model, Translator) else ():
            getattr(model, f"{side}_tokenizer").save(partial / f"{side}_tokenizer")
        banned = [
            SPECIAL_TOKENS[token_id] for token_id in (SPECIAL_IDS.pad, SPECIAL_IDS.unknown, SPECIAL_IDS.start)
        ]
        readme = ctranslate2_readme(directory.name, banned, *lengths)
        (partial / "README.md").write_text(readme, encoding="utf-8")
