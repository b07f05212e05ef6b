"""Sources of an encoder: token ids or frames, and their padding."""

from typing import NamedTuple, TypeAlias

import keras
from keras import ops

from keras_transformer._arguments import as_boolean, as_tensor, known_sizes
from keras_transformer.layers.masks import padding_mask as padding_mask_of
from keras_transformer.types import Shape, Tensor

_Parts: TypeAlias = keras.Model | dict[str, keras.layers.Layer]


class _Source(NamedTuple):
    """The inputs of an encoder: token ids, or frames such as audio, sensors or rows of images."""

    prefix: str
    """Beginning of the inputs' names."""
    feature_dim: int | None
    """Width of a frame, `w`; None for token ids."""
    convolutions: bool = False
    """Whether frames are convolved, and half of them left."""

    @property
    def values_name(self) -> str:
        """Name of the token ids `(b, s)` or frames `(b, s, w)`."""
        return self.prefix + ("token_ids" if self.feature_dim is None else "features")

    @property
    def mask_name(self) -> str:
        """Name of the padding mask `(b, s)`, an input for frames only."""
        return f"{self.prefix}padding_mask"

    def make_inputs(self) -> dict[str, Tensor]:
        if self.feature_dim is None:
            return {self.values_name: keras.Input((None,), dtype="int32", name=self.values_name)}
        return {
            self.values_name: keras.Input((None, self.feature_dim), name=self.values_name),
            self.mask_name: keras.Input((None,), dtype="bool", name=self.mask_name),
        }

    def complete(self, inputs: Tensor, names: set[str]) -> Tensor:
        # Keras would drop a key that it does not know, without a word.
        if not isinstance(inputs, dict):
            return inputs
        if not names - {self.mask_name} <= set(inputs) <= names:
            raise ValueError(f"`inputs` must have the keys {sorted(names)}. Received: keys {sorted(inputs)}.")
        if self.mask_name not in names:
            return inputs
        # Not `keras.Input(optional=True)`, which fails for a missing key on one backend and mispairs inputs
        # on another. Keras does not take tensors next to arrays.
        given = {name: as_tensor(value) for name, value in inputs.items() if name != self.mask_name}
        frames, mask = given[self.values_name], inputs.get(self.mask_name)
        if mask is None:
            # (b, s, w) -> (b, s)
            return {**given, self.mask_name: ops.ones_like(frames[..., 0], dtype="bool")}
        # Checked here, since Keras makes booleans of any numbers.
        return {**given, self.mask_name: _check_padding_mask(mask, frames.shape)}

    def split(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values and the padding mask of a call's inputs."""
        if not isinstance(inputs, dict):
            return self.read(inputs, None)
        return self.read(inputs[self.values_name], inputs.get(self.mask_name))

    def read(self, values: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Check values and mask; without a mask 0 is padding among ids, and every frame counts."""
        values = as_tensor(values)
        self._check(values)
        if mask is not None:
            return values, _check_padding_mask(mask, values.shape)
        if self.feature_dim is None:
            return values, padding_mask_of(values)
        return values, ops.ones(ops.shape(values)[:2], "bool")

    def embedded(self, parts: "_Parts", values: Tensor, padding_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return what enters the encoder, before dropout, and its padding mask."""
        if not self.convolutions:
            return _embedded(parts, "source", values), padding_mask
        x = _embedded(parts, "source", values, padding_mask)
        # Every second frame is at the center of a stride of 2.
        return x, padding_mask[:, ::2]

    def _check(self, values: Tensor) -> None:
        shape, dtype = tuple(values.shape), keras.backend.standardize_dtype(values.dtype)
        wanted = "integer token ids of shape (b, s)"
        fits = len(shape) == 2
        if self.feature_dim is not None:
            wanted = f"features of shape (b, s, {self.feature_dim})"
            fits = len(shape) == 3 and shape[-1] == self.feature_dim
        if not fits:
            raise ValueError(f"`encoder_inputs` must be {wanted}. Received: shape={shape}.")
        if self.feature_dim is None and "int" not in dtype:
            raise TypeError(f"`encoder_inputs` must be {wanted}. Received: dtype={dtype}.")


def _check_padding_mask(mask: Tensor, source_shape: Shape) -> Tensor:
    """Return a padding mask as booleans; raise if it is not of the shape `(b, s)` of the source."""
    mask = as_boolean(mask, "padding_mask")
    shape, source_shape = known_sizes(mask.shape), known_sizes(source_shape)
    sizes = zip(shape, source_shape, strict=False)
    if len(shape) != 2 or any(None not in pair and pair[0] != pair[1] for pair in sizes):
        raise ValueError(
            "`padding_mask` must have the shape (b, s) of the source. Received: padding_mask of shape "
            f"{shape}, source of shape {source_shape}."
        )
    return mask


def _run_encoder(
    model: keras.Model, values: Tensor, padding_mask: Tensor, *, training: bool = False
) -> tuple[Tensor, Tensor]:
    """Run the layers of a model from its source to the encoder's output `(b, s, d)` and its padding mask."""
    x, mask = _embed_source(model, values, padding_mask, training)
    return model.encoder(x, padding_mask=mask, training=training), mask


def _encoder_scores(model: keras.Model, values: Tensor, padding_mask: Tensor) -> dict[str, Tensor]:
    """Return the attention scores of a model's encoder, by layer."""
    x, mask = _embed_source(model, values, padding_mask, training=False)
    return model.encoder.attention_scores(x, mask)


def _embed_source(
    model: keras.Model, values: Tensor, padding_mask: Tensor, training: bool
) -> tuple[Tensor, Tensor]:
    x, mask = model._source.embedded(model, values, padding_mask)
    return model.embedding_dropout(x, training=training), mask


def _embedded(
    parts: _Parts, side: str, values: Tensor, padding_mask: Tensor | None = None, *, start: Tensor | int = 0
) -> Tensor:
    """Return what enters a stack `(b, t, d)`, before dropout, for token ids `(b, t)` or frames."""

    def part(name: str) -> keras.layers.Layer:
        return parts.get(name) if isinstance(parts, dict) else getattr(parts, name, None)

    embed, normalize = part(f"{side}_embedding") or part(f"{side}_projection"), part(f"{side}_normalization")
    # Those of the source, where the target has a table of its own.
    encoding = part(f"{side}_position_encoding") or part("position_encoding")
    x = encoding(embed(values) if padding_mask is None else embed(values, padding_mask), start=start)
    return x if normalize is None else normalize(x)
