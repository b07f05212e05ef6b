"""From source ids to target ids: a model and a search, joined."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np
from keras import ops

from keras_transformer.arguments import check_token_ids
from keras_transformer.backend import compile_step, fixed_weights, fresh_seed
from keras_transformer.decoding.sampling import GreedySearch, RowSearch
from keras_transformer.decoding.search import Cache, Request, Search, SearchResult, first_length
from keras_transformer.decoding.validation import check_model, check_positions
from keras_transformer.models.causal_lm import CausalLM
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
        >>> from keras_transformer.decoding.sampling import GreedySearch
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


class TokenStreamer:
    """Generates tokens one step at a time, and compiles that step once for all its streams.

    Args:
        model: a `Transformer` with weights.
        search: `GreedySearch()` if None; `SampleSearch` of one sample will do.
        max_length: the most tokens, the end token included, `T`.

    Raises:
        ValueError: a beam, or several samples, which do not know their answer before the end; more tokens
            than the model has positions.

    Example:
        >>> from keras_transformer.models import Transformer
        >>> model = Transformer(9, 8, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
        >>> streamer = TokenStreamer(model, max_length=3)
        >>> [token_ids.shape for token_ids in streamer(np.array([[4, 5, 3], [6, 3, 0]]))][0]
        (2,)
    """

    def __init__(self, model: StepwiseModel, search: RowSearch | None = None, max_length: int = 256) -> None:
        self.model = model
        self.search = search or GreedySearch()
        self.max_length = max_length
        check_positions(model, max_length)
        # A beam of one hypothesis goes on with the next best token when the end is the best.
        if not isinstance(self.search, RowSearch) or self.search.beam_size != 1:
            raise ValueError(
                "`search` must decide on each token at once: greedy, or one sample. "
                f"Received: {type(self.search).__name__}, beam_size={self.search.beam_size}."
            )
        variables = getattr(model, "variables", ())
        self._create_cache = compile_step(self._cache_of, variables)
        self._advance = compile_step(self._next, variables)

    def __call__(
        self, encoder_inputs: Any, padding_mask: Tensor | None = None
    ) -> Iterator[np.ndarray[Any, Any]]:
        """Yield the tokens of each step, until every row has ended.

        Args:
            encoder_inputs: integers `(b, s)`, padded with 0; or features `(b, s, w)` where the model
                takes them.
            padding_mask: `(b, s)`, True (1) where the source has a token; None leaves it to the model.

        Yields:
            int32 `(b,)`: the next token of each row, padding for rows that have ended.
        """
        encoder_inputs = ops.convert_to_tensor(encoder_inputs)
        cache = self._create_cache(encoder_inputs, padding_mask)
        # Not compiled: so chance without a seed is new each time on JAX too.
        lengths = source_lengths(encoder_inputs, padding_mask)
        request = Request(encoder_inputs.shape[0], self.max_length, lengths)
        state: Any = self.search.initialize(cache, request, self.max_length)
        while int(state.position) < self.max_length and self._is_running(state):
            state, token_ids = self._advance(state)
            yield np.array(ops.convert_to_numpy(token_ids))

    def _cache_of(self, encoder_inputs: Tensor, padding_mask: Tensor | None) -> Cache:
        masks: dict[str, Any] = {} if padding_mask is None else {"padding_mask": padding_mask}
        return self.model.create_cache(encoder_inputs, self.max_length, 1, **masks)

    def _next(self, state: Any) -> tuple[NamedTuple, Tensor]:
        state = self.search.advance(state, self.model.decode_step, self.max_length)
        return state, state.last_ids[:, 0]

    def _is_running(self, state: Any) -> bool:
        return bool(ops.any(self.search.is_running(state, self.max_length)))


def stream(
    model: StepwiseModel,
    encoder_inputs: Any,
    search: RowSearch | None = None,
    max_length: int = 256,
    padding_mask: Tensor | None = None,
) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the tokens of one batch as they are generated; the same as `generate` finds.

    For more than one batch a `TokenStreamer` is faster, since it compiles its step only once.

    Args:
        model: a `Transformer` with weights.
        encoder_inputs: as for `TokenStreamer`.
        search: `GreedySearch()` if None; `SampleSearch` of one sample will do.
        max_length: the most tokens, the end token included, `T`.
        padding_mask: as for `TokenStreamer`.

    Returns:
        An iterator over int32 `(b,)`, one for each step.

    Raises:
        ValueError: a search of several hypotheses.
    """
    return TokenStreamer(model, search, max_length)(encoder_inputs, padding_mask)
