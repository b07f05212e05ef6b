"""One step of decoding: from a token of each hypothesis to the logits of the next."""

from collections.abc import Callable
from functools import partial

import keras
from keras import ops

from keras_transformer.backend.loop import product_with_table, weight_now
from keras_transformer.layers.cached_decoder import CachedDecoder
from keras_transformer.layers.token_embedding import OutputProjection
from keras_transformer.models.source import _embedded
from keras_transformer.types import Tensor


class _DecodingStep:
    """A model without its encoder, made before a loop, whose weights it reads once.

    The model has `decoder`, `output_projection` and what stands before the decoder on its side;
    `CachedDecoder` explains `in_place`.
    """

    def __init__(self, model: keras.Model, side: str, beam_size: int, *, in_place: bool = False) -> None:
        self.decoder = CachedDecoder(model.decoder, in_place=in_place)
        self._embedded = partial(_embedded, model, side)
        names = ("embedding", "position_encoding", "normalization")
        found = [getattr(model, f"{side}_{name}", getattr(model, name, None)) for name in names]
        weights = [weight for layer in found if layer is not None for weight in layer.weights]
        self._weights = [(weight, weight_now(weight)) for weight in weights]
        self._project = _projection(model.output_projection, beam_size)

    def __call__(
        self, token_ids: Tensor, position: Tensor, cache: CachedDecoder.Cache
    ) -> tuple[Tensor, CachedDecoder.Cache]:
        """Return the logits `(b * n, v)` after the tokens `(b * n,)`, and the cache with them written."""
        with keras.StatelessScope(self._weights):
            # (b * n,) -> (b * n, 1) -> (b * n, 1, d)
            x = self._embedded(token_ids[:, None], start=position)
        x, cache = self.decoder.step(x, position, cache)
        # (b * n, 1, d) -> (b * n, d) -> (b * n, v)
        return self._project(x[:, 0, :]), cache


def _projection(layer: OutputProjection, beam_size: int) -> Callable[[Tensor], Tensor]:
    # Rows (r, d) -> logits (r, v), with the weight cast once and not in each step.
    dtype = layer.compute_dtype
    if layer.embedding is None:
        with keras.StatelessScope([(weight, weight_now(weight)) for weight in layer.weights]):
            product: Callable[[Tensor], Tensor] = partial(ops.matmul, x2=layer.matrix())
    else:
        product = product_with_table(ops.cast(weight_now(layer.embedding.embeddings), dtype), beam_size)
    if layer.bias is None:
        return lambda rows: product(ops.cast(rows, dtype))
    bias = ops.cast(weight_now(layer.bias), dtype)
    return lambda rows: ops.add(product(ops.cast(rows, dtype)), bias)
