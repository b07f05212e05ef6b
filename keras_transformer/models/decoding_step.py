"""One step of decoding: from a token of each hypothesis to the logits of the next."""

import keras
from keras import ops

from keras_transformer.backend import product_with_table, weight_now, weights_now
from keras_transformer.layers import CachedDecoder, DecoderCache, TokenEmbedding
from keras_transformer.types import Tensor


class DecodingStep:
    """A model without its encoder, made before a loop, whose weights it reads once.

    Args:
        model: a built model with `decoder`, `position_encoding` and `output_projection`.
        embedding: of the tokens that are decoded.
        beam_size: hypotheses for each source, `n`.
        in_place: whether a step may overwrite the cache that it is given; see `CachedDecoder`.
    """

    def __init__(
        self, model: keras.Model, embedding: TokenEmbedding, beam_size: int, *, in_place: bool = False
    ) -> None:
        self.decoder = CachedDecoder(model.decoder, in_place=in_place)
        self._embedding, self._position_encoding = embedding, model.position_encoding
        self._weights = weights_now([*embedding.weights, *model.position_encoding.weights])
        projection = model.output_projection
        if projection.embedding is None:
            kernel = ops.cast(weight_now(projection.kernel), projection.compute_dtype)
            self._project = lambda rows: ops.matmul(rows, kernel)
        else:
            table = ops.cast(weight_now(projection.embedding.embeddings), projection.compute_dtype)
            self._project = product_with_table(table, beam_size)
        self._dtype = projection.compute_dtype

    def __call__(
        self, token_ids: Tensor, position: Tensor, cache: DecoderCache
    ) -> tuple[Tensor, DecoderCache]:
        """Return the logits `(b * n, v)` after the tokens `(b * n,)`, and the cache with them written."""
        with keras.StatelessScope(self._weights):
            x = self._embedding(token_ids[:, None])  # (b * n, 1, d)
            x = self._position_encoding(x, start=position)
        x, cache = self.decoder.step(x, position, cache)
        return self._project(ops.cast(x[:, 0, :], self._dtype)), cache
