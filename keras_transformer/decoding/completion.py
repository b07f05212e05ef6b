"""From the beginning of a text to its end: a model without an encoder and a search, joined."""

from typing import Protocol

import keras
from keras import ops

from keras_transformer.decoding.contract import Cache, Request, Search, SearchResult
from keras_transformer.decoding.fixed_weights import fixed_weights
from keras_transformer.decoding.loop import first_length
from keras_transformer.decoding.uniforms import fresh_seed
from keras_transformer.decoding.validation import check_model, check_positions
from keras_transformer.models.transformer import Transformer
from keras_transformer.types import Tensor


class CompletingModel(Protocol):
    """What a model must offer to complete texts."""

    def create_cache(self, batch_size: Tensor | int, max_length: int, beam_size: int = 1) -> Cache:
        """Make room; see `CausalLM.create_cache`."""

    def decode_step(self, token_ids: Tensor, position: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Compute the next logits; see `CausalLM.decode_step`."""


def complete(model: CompletingModel, prompt_ids: Tensor, search: Search, max_length: int) -> SearchResult:
    """Find what follows the beginnings of texts.

    The beginnings must be of one length, without padding: the cache knows no holes. Those of
    different lengths are completed one length at a time.

    Args:
        model: a `CausalLM` with weights.
        prompt_ids: the beginnings, integers `(b, p)`; the first is usually the start token,
            which alone asks for a whole text.
        search: `GreedySearch` or `BeamSearch`.
        max_length: the most tokens to add, the end token included, `T`.

    Returns:
        Continuations `(b, n, T)`, without the beginnings, and their scores `(b, n)`, best first.

    Raises:
        TypeError: beginnings that are not integers, a model with an encoder, or what is no model
            that decodes.
        ValueError: beginnings of another rank or without a token, or more tokens than the model has
            positions.

    Example:
        >>> from keras_transformer.decoding.greedy import GreedySearch
        >>> from keras_transformer.models import CausalLM
        >>> model = CausalLM(100, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
        >>> tuple(complete(model, [[2, 7, 9]], GreedySearch(), max_length=5).token_ids.shape)
        (1, 1, 5)
    """
    check_model(
        model,
        "a decoder alone, such as a `CausalLM`; `decoding.generate` decodes a model with an encoder",
        refused=Transformer,
    )
    prompt_ids = ops.convert_to_tensor(prompt_ids)
    _check_prompts(prompt_ids)
    batch_size, last = ops.shape(prompt_ids)[0], prompt_ids.shape[1] - 1
    rows = ops.repeat(prompt_ids, search.beam_size, axis=0)  # (b * n, p)
    check_positions(model, last + max_length)
    seed = fresh_seed(search)
    with fixed_weights(model):
        cache = model.create_cache(batch_size, last, search.beam_size)
        for position in range(last):
            _, cache = model.decode_step(rows[:, position], position, cache)

        def step(token_ids: Tensor, position: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
            """Continue after the beginning, whose last token is where the search starts."""
            return model.decode_step(token_ids, position + last, cache)

        cache = cache.grow(first_length(max_length, batch_size))
        return search(step, cache, Request(batch_size, max_length, first_ids=prompt_ids[:, last], seed=seed))


def _check_prompts(prompt_ids: Tensor) -> None:
    wanted = "`prompt_ids` must be integers of shape (b, p), p a known number above zero."
    if len(prompt_ids.shape) != 2 or not prompt_ids.shape[1]:
        raise ValueError(f"{wanted} Received: shape={tuple(prompt_ids.shape)}.")
    dtype = keras.backend.standardize_dtype(prompt_ids.dtype)
    if "int" not in dtype:
        raise TypeError(f"{wanted} Received: dtype={dtype}.")
