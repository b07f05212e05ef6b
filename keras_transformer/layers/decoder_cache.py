"""What a decoder keeps between the steps of decoding."""

from typing import NamedTuple

from keras_transformer.layers.attention_cache import AttentionCache
from keras_transformer.types import Tensor


class DecoderLayerCache(NamedTuple):
    """What a decoder layer keeps between the steps of decoding."""

    self_attention: AttentionCache
    """Keys and values of the target positions so far, a row for each hypothesis."""
    encoder_keys: Tensor
    """`(b, s, h, k)`: keys of the encoder's output, a row for each source; `()` without an encoder,
    since the state of a loop has no place for None."""
    encoder_values: Tensor
    """`(b, s, h, k)`: values of the encoder's output; `()` without an encoder."""

    def reorder(self, rows: Tensor) -> "DecoderLayerCache":
        """Take hypotheses in another order; what belongs to the source stays.

        Args:
            rows: integers, which old hypothesis each new one continues; from
                the same source as before.

        Returns:
            The reordered cache.
        """
        return self._replace(self_attention=self.self_attention.reorder(rows))


class DecoderCache(NamedTuple):
    """What the decoder keeps between the steps of decoding."""

    layers: tuple[DecoderLayerCache, ...]
    """A cache for each layer."""
    encoder_padding_mask: Tensor
    """`(b, s)`, True where the source has a token; `()` where everything is one, or nothing is there."""

    def reorder(self, rows: Tensor) -> "DecoderCache":
        """Take hypotheses in another order; what belongs to the source stays.

        Args:
            rows: integers `(b * n,)`, which old hypothesis each new one continues.

        Returns:
            The reordered cache.
        """
        return self._replace(layers=tuple(layer.reorder(rows) for layer in self.layers))
