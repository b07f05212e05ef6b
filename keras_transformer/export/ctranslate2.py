"""Export of a Transformer for CTranslate2, a C++ inference engine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_transformer._arguments import check_choice, check_positive, import_extra
from keras_transformer._files import Checksums, as_path, atomic_directory, errors_named
from keras_transformer.errors import InputError
from keras_transformer.export.readmes import _ctranslate2_readme
from keras_transformer.layers.decoder import Decoder
from keras_transformer.layers.encoder import Encoder
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.position_encoding import sinusoidal_position_encoding
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.models.transformer import Transformer
from keras_transformer.tasks import Translator
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS, Tensor

_Array: TypeAlias = npt.NDArray[np.float32]
# CTranslate2 creates the attributes of its specifications at run time, so they have no types.
_Spec: TypeAlias = Any

# Activations by their Keras names, and their CTranslate2 names.
_ACTIVATIONS = {
    "relu": "RELU",
    "gelu": "GELU",
    "gelu_tanh": "GELUTanh",
    "silu": "SWISH",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
}
_INT8 = ("int8", "int8_float32", "int8_float16", "int8_bfloat16")
_QUANTIZATIONS = (None, *_INT8, "int16", "float16", "bfloat16")
# CTranslate2's default maximum numbers of source and target tokens.
_DEFAULT_LENGTHS = (1024, 256)


def export_ctranslate2(
    model: Translator | Transformer,
    directory: str | Path,
    *,
    quantization: str | None = None,
    num_positions: int = 2048,
) -> Path:
    """Export a Transformer as a CTranslate2 model.

    The directory contains the model, a README and `SHA256SUMS`; for a `Translator` also both tokenizers. The
    tokens of CTranslate2 are the pieces of the tokenizers, or decimal ids for a `Transformer`.

    Args:
        model: A `Translator`, or a `Transformer` with weights.
        directory: Directory to create. It appears only when it is complete.
        quantization: Quantization of the weights by CTranslate2, such as `int8`. Defaults to float32.
        num_positions: Number of sinusoidal positions to write; raised to the translator's length limits if it
            is lower. CTranslate2 truncates sources to 1,024 tokens by default. Defaults to 2048.

    Returns:
        The directory.

    Raises:
        InputError: If CTranslate2 is not installed, or the directory exists or cannot be written.
        ValueError: If CTranslate2 does not support an option of the model, or `quantization` is unknown.
    """
    directory = as_path(directory)
    check_choice(_QUANTIZATIONS, quantization=quantization)
    check_positive(num_positions=num_positions)
    if directory.exists():
        raise InputError(f"Cannot write {directory}: it already exists.")
    translator: Translator | None = model if isinstance(model, Translator) else None
    transformer = _supported(model.model if isinstance(model, Translator) else model)
    if translator is not None:
        lengths = translator.max_source_length, translator.max_target_length
        num_positions = max(num_positions, *lengths)
    else:
        longest = transformer.config.max_length or num_positions
        lengths = min(_DEFAULT_LENGTHS[0], longest), min(_DEFAULT_LENGTHS[1], longest)
    spec = _transformer_spec(transformer, num_positions)
    _name_tokens(spec, translator)
    spec.validate()
    spec.optimize(quantization)
    with errors_named("write", directory), atomic_directory(directory) as partial:
        spec.save(str(partial))
        if translator is not None:
            translator.source_tokenizer.save(partial / "source_tokenizer")
            translator.target_tokenizer.save(partial / "target_tokenizer")
        readme = _ctranslate2_readme(directory.name, *lengths)
        (partial / "README.md").write_text(readme, encoding="utf-8")
        Checksums.write(partial)
    return directory


def _supported(model: keras.Model) -> Transformer:
    """Return a model; raise ValueError if CTranslate2 does not support it."""
    if not isinstance(model, Transformer):
        raise ValueError(
            f"CTranslate2 reads a single `Transformer`. Received: a model of class {type(model)}."
        )
    if model.config.encoder_feature_dim is not None:
        raise ValueError(
            "CTranslate2 reads token ids, no frames. "
            f"Received: a model with encoder_feature_dim={model.config.encoder_feature_dim}."
        )
    if model.is_quantized:
        raise ValueError(
            'CTranslate2 quantizes a model of floats itself, with `quantization="int8"`. '
            "Received: a quantized model."
        )
    if model.config.positions in ("relative_keys", "relative_sinusoidal"):
        raise ValueError(
            "CTranslate2 adds no position logits that depend on the query. "
            f"Received: a model with positions={model.config.positions!r}."
        )
    activation = _activation(model)
    if activation not in _ACTIVATIONS:
        raise ValueError(
            f"CTranslate2 can have `activation` {', '.join(_ACTIVATIONS)}. "
            f"Received: a model with activation={activation!r}."
        )
    return model


def _activation(model: Transformer) -> str:
    return str(model.config.get_config()["activation"])


def _transformer_spec(model: Transformer, num_positions: int) -> _Spec:
    """Return the specification of a model with all weights, in float32, without vocabularies."""
    specs, config = import_extra("ctranslate2", "A CTranslate2 model", "interop").specs, model.config
    options = {
        "num_heads": config.num_heads,
        "num_heads_kv": config.num_key_value_heads,
        "head_dim": config.head_dim,
        # Set below. Here it selects a final normalization, which post-norm models may have too.
        "pre_norm": bool(model.encoder.final_normalization.weights),
        "layernorm_embedding": config.normalize_embeddings,
        "activation": specs.common_spec.Activation[_ACTIVATIONS[_activation(model)]],
        "ffn_glu": config.gated,
        "rms_norm": config.normalization == "rms",
        # 0 means all features of a head; ours rotates feature i with i + k / 2.
        "rotary_dim": 0 if config.positions == "rotary" else None,
        "rotary_interleave": False,
        "relative_attention_bias": config.positions == "relative",
    }
    encoder = specs.transformer_spec.TransformerEncoderSpec(len(model.encoder.layers), **options)
    decoder = specs.transformer_spec.TransformerDecoderSpec(len(model.decoder.layers), **options)
    encoder.pre_norm = decoder.pre_norm = config.norm_first
    # CTranslate2's own default, set explicitly since the numbers depend on it.
    encoder.scale_embeddings = decoder.scale_embeddings = config.scale_embeddings
    _fill_embedding(encoder.embeddings[0], model.source_embedding)
    _fill_embedding(decoder.embeddings, model.target_embedding)
    _fill_stack(encoder, model.encoder)
    _fill_stack(decoder, model.decoder)
    if config.normalize_embeddings:
        _fill_norm(encoder.layernorm_embedding, model.source_normalization)
        _fill_norm(decoder.layernorm_embedding, model.target_normalization)
    if config.adds_positions:
        of_source: keras.layers.Layer = model.position_encoding
        of_target: keras.layers.Layer = getattr(model, "target_position_encoding", of_source)
        for side, encoding in ((encoder, of_source), (decoder, of_target)):
            if config.positions == "learned":
                values = encoding.embeddings  # (positions, d)
            else:
                width, layout = config.hidden_dim, encoding.layout
                values = sinusoidal_position_encoding(num_positions, width, layout=layout)
            side.position_encodings.encodings = _array(values)
    # (d, v) -> (v, d)
    decoder.projection.weight = np.ascontiguousarray(_array(model.output_projection.flat()[0]).T)
    _fill_bias(decoder.projection, model.output_projection.bias)
    spec = specs.transformer_spec.TransformerSpec(encoder, decoder)
    # CTranslate2 would otherwise add 1e-5 to the variance.
    spec.config.layer_norm_epsilon = config.layer_norm_epsilon
    return spec


def _fill_stack(spec: _Spec, stack: Encoder | Decoder) -> None:
    for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
        _fill_attention(layer_spec.self_attention, layer.self_attention, ("query", "key", "value"))
        if (table := layer.self_attention.position_bias) is not None:
            layer_spec.self_attention.relative_attention_bias = _array(table.biases)
            layer_spec.self_attention.relative_attention_max_distance = np.int32(table.max_distance)
        _fill_norm(layer_spec.self_attention.layer_norm, layer.self_attention_residual.norm)
        if getattr(layer, "cross_attention", None) is not None:
            _fill_attention(layer_spec.attention, layer.cross_attention, ("query",), ("key", "value"))
            _fill_norm(layer_spec.attention.layer_norm, layer.cross_attention_residual.norm)
        _fill_feed_forward(layer_spec.ffn, layer.feed_forward)
        _fill_norm(layer_spec.ffn.layer_norm, layer.feed_forward_residual.norm)
    if stack.final_normalization.weights:
        _fill_norm(spec.layer_norm, stack.final_normalization)


def _fill_attention(spec: _Spec, attention: MultiHeadAttention, *groups: Sequence[str]) -> None:
    """Copy the kernels `(d, h, k)` of each group as rows `(h * k, d)`, then the output's, `(h, k, d)`."""
    for linear, names in zip(spec.linear, groups, strict=False):
        flat = [getattr(attention, f"{name}_dense").flat() for name in names]
        linear.weight = np.concatenate([_array(matrix).T for matrix, _ in flat])
        if attention.use_bias:
            linear.bias = np.concatenate([_array(bias) for _, bias in flat])
    # (h * k, d) -> (d, h * k)
    matrix, bias = attention.output_dense.flat()
    spec.linear[-1].weight = np.ascontiguousarray(_array(matrix).T)
    _fill_bias(spec.linear[-1], bias)


def _fill_feed_forward(spec: _Spec, feed_forward: FeedForward) -> None:
    _fill_dense(spec.linear_0, feed_forward.inner)
    _fill_dense(spec.linear_1, feed_forward.outer)
    if feed_forward.gate is not None:
        _fill_dense(spec.linear_0_noact, feed_forward.gate)


def _fill_dense(spec: _Spec, dense: keras.layers.Dense) -> None:
    spec.weight = np.ascontiguousarray(_array(dense.kernel).T)
    _fill_bias(spec, dense.bias)


def _fill_bias(spec: _Spec, bias: Tensor | None) -> None:
    if bias is not None:  # optional
        spec.bias = _array(bias)


def _fill_norm(spec: _Spec, norm: keras.layers.Layer) -> None:
    """Copy the scale and, if there is one, the bias."""
    is_rms = isinstance(norm, keras.layers.RMSNormalization)
    spec.gamma = _array(norm.scale if is_rms else norm.gamma)
    if not is_rms:
        spec.beta = _array(norm.beta)


def _fill_embedding(spec: _Spec, embedding: TokenEmbedding) -> None:
    spec.weight = _array(embedding.embeddings)


def _array(weight: Tensor) -> _Array:
    array: _Array = np.asarray(ops.convert_to_numpy(weight), "float32")
    return array


def _name_tokens(spec: _Spec, translator: Translator | None) -> None:
    """Register the vocabularies and their special tokens."""
    [source_size], target_size = spec.get_source_vocabulary_size(), spec.get_target_vocabulary_size()
    source, target = (getattr(translator, f"{side}_tokenizer", None) for side in ("source", "target"))
    spec.register_source_vocabulary(_vocabulary_tokens(source_size, source))
    spec.register_target_vocabulary(_vocabulary_tokens(target_size, target))
    spec.config.unk_token = SPECIAL_TOKENS[SPECIAL_IDS.unknown]
    spec.config.bos_token = SPECIAL_TOKENS[SPECIAL_IDS.start]
    spec.config.eos_token = SPECIAL_TOKENS[SPECIAL_IDS.end]
    spec.config.decoder_start_token = SPECIAL_TOKENS[SPECIAL_IDS.start]
    # CTranslate2 adds only one end token; if a language token follows it, the caller must pass both.
    spec.config.add_source_eos = len(getattr(source, "end_ids", (SPECIAL_IDS.end,))) == 1


def _vocabulary_tokens(size: int, tokenizer: Tokenizer | None) -> list[str]:
    """Return the string of each token id, special tokens first: its piece, or the decimal id."""
    if tokenizer is None:
        names = [str(token_id) for token_id in range(size)]
    else:
        names = [piece.decode("utf-8") for piece in tokenizer.tokens([list(range(size))]).numpy()[0]]
    return [*SPECIAL_TOKENS, *names[len(SPECIAL_TOKENS) :]]
