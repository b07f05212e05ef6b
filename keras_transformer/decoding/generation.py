"""From source ids to target ids: a model and a search, joined."""

from typing import Any, Protocol

import numpy as np
from keras import ops

from keras_transformer.decoding.contract import Cache, Request, Search, SearchResult
from keras_transformer.decoding.fixed_weights import fixed_weights
from keras_transformer.decoding.loop import first_length
from keras_transformer.decoding.uniforms import fresh_seed
from keras_transformer.decoding.validation import check_model, check_positions
from keras_transformer.layers.value_checks import check_token_ids
from keras_transformer.models.causal_lm import CausalLM
from keras_transformer.types import Tensor


class StepwiseModel(Protocol):
    """What a model must offer to be decoded."""

    def create_cache(self, encoder_inputs: Tensor, max_length: Tensor | int, beam_size: int = 1) -> Cache:
        """Run the encoder and make room; see `Transformer.create_cache`."""

    def decode_step(self, token_ids: Tensor, position: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Compute the next logits; see `Transformer.decode_step`."""


def generate(
    model: StepwiseModel,
    encoder_inputs: Tensor,
    search: Search,
    max_length: int,
    padding_mask: Tensor | None = None,
    prefix_ids: Tensor | None = None,
    source_numbers: Tensor | None = None,
) -> SearchResult:
    """Find target sequences for a batch of source sequences.

    Args:
        model: a model with an encoder, with weights.
        encoder_inputs: integers `(b, s)`, padded with 0; or features
            `(b, s, w)` where the model takes them. Lists are taken too.
        search: `GreedySearch`, `BeamSearch` or `SampleSearch`.
        max_length: the most target tokens, the end token included.
        padding_mask: `(b, s)`, True (1) where the source has a token or a
            frame; None leaves it to the model.
        prefix_ids: integers `(b, p)`, padded with 0: what each answer begins with, without the
            start token; None for nothing.
        source_numbers: integers `(b,)`, by which `SampleSearch` tells sources of several batches
            apart; None for 0 to `b - 1`.

    Returns:
        Hypotheses `(b, n, T)` and scores `(b, n)`, best first.

    Raises:
        TypeError: a decoder alone, or what is no model that decodes.
        ValueError: sources of another rank, or lists of different lengths; prefixes with an id
            outside the vocabulary, of a model that has one; more tokens than the model has positions.
    """
    check_model(
        model,
        "a model with an encoder, such as a `Transformer`; `decoding.complete` decodes a decoder alone",
        refused=CausalLM,
    )
    check_positions(model, max_length)
    encoder_inputs = _as_sources(encoder_inputs)
    if prefix_ids is not None and hasattr(model, "target_embedding"):
        vocabulary_size = model.target_embedding.vocabulary_size
        check_token_ids(ops.convert_to_tensor(prefix_ids), vocabulary_size, "prefix_ids")
    # A model whose sources need no mask of their own need not take one, and so on.
    options: dict[str, Any] = {} if padding_mask is None else {"padding_mask": padding_mask}
    if search.tracks_attention:
        options["track_attention"] = True
    batch_size = ops.shape(encoder_inputs)[0]
    lengths = source_lengths(encoder_inputs, padding_mask)
    request = Request(
        batch_size,
        max_length,
        lengths,
        prefix_ids,
        source_numbers=source_numbers,
        seed=fresh_seed(search),
    )
    with fixed_weights(model):
        cache = model.create_cache(
            encoder_inputs, first_length(max_length, batch_size), search.beam_size, **options
        )
        return search(model.decode_step, cache, request)


def _as_sources(encoder_inputs: Any) -> Tensor:
    """Make an array of lists, and refuse what is no batch of sequences."""
    try:
        sources = np.array(encoder_inputs) if isinstance(encoder_inputs, list | tuple) else encoder_inputs
    except ValueError as error:
        raise ValueError(
            "`encoder_inputs` must hold rows of one length, padded with 0. "
            "Received: lists of different lengths."
        ) from error
    if len(getattr(sources, "shape", ())) not in (2, 3):
        received = f"shape={tuple(sources.shape)}" if hasattr(sources, "shape") else type(sources).__name__
        raise ValueError(
            f"`encoder_inputs` must be token ids (b, s) or features (b, s, w). Received: {received}."
        )
    return sources


def source_lengths(encoder_inputs: Tensor, padding_mask: Tensor | None) -> Tensor:
    """Count the tokens or frames of each source.

    Args:
        encoder_inputs: integers `(b, s)`, padded with 0; or features `(b, s, w)`.
        padding_mask: `(b, s)`, True (1) where the source has a token; None to read it from the ids.

    Returns:
        int32 `(b,)`.
    """
    if padding_mask is None and len(encoder_inputs.shape) == 2:
        padding_mask = ops.not_equal(encoder_inputs, 0)
    if padding_mask is None:
        padding_mask = ops.ones(ops.shape(encoder_inputs)[:2], "bool")
    return ops.sum(ops.cast(padding_mask, "int32"), axis=1)
