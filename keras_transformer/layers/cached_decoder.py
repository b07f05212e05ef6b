"""The decoder while decoding: one position at a time, with a cache."""

import contextlib

from keras_transformer.backend import written_in_place
from keras_transformer.layers.decoder import Decoder, DecoderCache
from keras_transformer.types import Tensor


class CachedDecoder:
    """A `Decoder` that computes one position at a time: the same numbers as its call over the whole target.

    It is made before the loop, and reads the weights then.

    Args:
        decoder: a built decoder.
        in_place: whether a step may overwrite the cache that it is given. TensorFlow then copies nothing, but
            whoever still holds the old cache sees the new position: it is for a loop that owns its cache.
    """

    def __init__(self, decoder: Decoder, *, in_place: bool = False) -> None:
        self._decoder = decoder
        self._in_place = in_place

    def create_cache(
        self,
        encoder_output: Tensor | None,
        encoder_padding_mask: Tensor | None,
        max_length: Tensor | int,
        beam_size: int = 1,
        batch_size: Tensor | int | None = None,
        track_attention: bool = False,
    ) -> DecoderCache:
        """Project the encoder's output once for every layer, and make room for the target.

        Args:
            encoder_output: `(b, s, any width)`; None without cross-attention.
            encoder_padding_mask: `(b, s)`, True (1) where the source has a token; if None, the Keras mask of
                the output is read.
            max_length: the number of target positions there is room for, `T`.
            beam_size: hypotheses for each source, `n`.
            batch_size: examples, `b`; given exactly where `encoder_output` is None.
            track_attention: whether `attention_sums` are kept, for a coverage penalty.

        Returns:
            The cache for `step`.

        Raises:
            ValueError: an encoder's output where the decoder was built without one, or the other way round,
                or of another width; both an output and a batch size.
        """
        with self._writing():
            return self._decoder.create_cache(
                encoder_output, encoder_padding_mask, max_length, beam_size, batch_size, track_attention
            )

    def step(self, inputs: Tensor, position: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """Compute one position of each hypothesis.

        Args:
            inputs: `(b * n, 1, d)`, the hypotheses of a source next to each other.
            position: an integer scalar, below `T`.
            cache: from `create_cache` or the step before.

        Returns:
            `(b * n, 1, d)` and the cache with this position written.
        """
        with self._writing():
            return self._decoder.step(inputs, cache, position)

    def _writing(self) -> contextlib.AbstractContextManager[None]:
        return written_in_place() if self._in_place else contextlib.nullcontext()
