"""One decoding step: from the current tokens to the logits of the next."""

from functools import partial

import keras

from keras_transformer._backend.loop import snapshot_weights
from keras_transformer.layers.cached_decoder import CachedDecoder
from keras_transformer.models.parts import _add_positions
from keras_transformer.types import Tensor


class _DecodingStep:
    """Decoder side of a model with fixed weights, created before a decoding loop.

    `side` is the prefix of the model's embedding and position layers; see `CachedDecoder` for `in_place`.
    """

    def __init__(self, model: keras.Model, side: str, *, in_place: bool = False) -> None:
        self.decoder = CachedDecoder(model.decoder, in_place=in_place)
        self._embed = getattr(model, f"{side}_embedding")
        self._add_positions = partial(_add_positions, model, side)
        names = ("embedding", "position_encoding", "normalization")
        found = (getattr(model, f"{side}_{name}", getattr(model, name, None)) for name in names)
        self._weights = snapshot_weights(*found)
        self._project = model.output_projection.with_fixed_weights()

    def __call__(
        self, token_ids: Tensor, position: Tensor, cache: CachedDecoder.Cache
    ) -> tuple[Tensor, CachedDecoder.Cache]:
        """Return the logits `(b * n, v)` after the tokens `(b * n,)`, and the cache including them."""
        with keras.StatelessScope(self._weights):
            # (b * n,) -> (b * n, 1) -> (b * n, 1, d)
            x = self._add_positions(self._embed(token_ids[:, None]), None, start=position)
        x, cache = self.decoder.step(x, position, cache)
        # (b * n, 1, d) -> (b * n, d) -> (b * n, v)
        return self._project(x[:, 0, :]), cache
