"""Decoding with a model: generate whole outputs, or stream token by token."""

from collections.abc import Callable, Iterator
from typing import Protocol

import keras
import numpy as np
from keras import ops

from keras_transformer._arguments import (
    check_flags,
    check_kind,
    check_positive,
    check_token_ids,
    known_sizes,
    known_values,
)
from keras_transformer._backend.compiler import compile_function
from keras_transformer.decoding.sampling import _IndependentSearch, _IndependentState
from keras_transformer.decoding.search import CHUNK, Search, SearchResult, Step, _Cache, _Request
from keras_transformer.models.causal_lm import CausalLM
from keras_transformer.types import Inputs, Tensor


class _DecodableModel(Protocol):
    """Model that predicts one token at a time: a `Transformer`, a `CausalLM` or an `Ensemble`."""

    @property
    def start_decoding(self) -> Callable[..., tuple[Step, _Cache]]:
        """Prepare a decoding loop; see `Transformer.start_decoding`."""


def generate(
    model: _DecodableModel,
    inputs: Inputs,
    search: Search,
    max_length: int,
    *,
    padding_mask: Tensor | None = None,
    prefix_ids: Tensor | None = None,
    score_prefix: bool = True,
    source_numbers: Tensor | None = None,
    max_lengths: Tensor | None = None,
    length_penalties: Tensor | None = None,
    initial_cache_length: int = CHUNK,
) -> SearchResult:
    """Generate outputs for a batch of sources, or continuations of prompts.

    A `Transformer` or an `Ensemble` reads sources, a `CausalLM` reads prompts. A prompt usually begins with
    the start token; the start token by itself asks for a whole text. Prompts must have the same length and no
    padding. If yours differ in length, pass start tokens as prompts and the rest as `prefix_ids`:

        generate(model, [[2], [2]], search, 20, prefix_ids=[[7, 9], [8, 0]])

    Pass the special token ids of the training in `search.special_ids`; other ids produce garbage. This
    package's tokenizers use `SpecialIds()`; for BERT's, pass
    `SpecialIds(pad=0, unknown=100, start=101, end=102)`. Models always treat id 0 as padding.

    Args:
        model: A `Transformer`, an `Ensemble` or a `CausalLM` with weights.
        inputs: Sources, integers `(b, s)` padded with 0, or features `(b, s, w)`; for a `CausalLM`, prompts,
            integers `(b, p)`. Lists are accepted. A `Transformer` also accepts the dictionary that `fit`
            takes; its `decoder_token_ids` are ignored.
        search: A `GreedySearch`, `BeamSearch` or `SampleSearch`.
        max_length: Maximum number of generated tokens, `T`, including the end token.
        padding_mask: `(b, s)`, True (1) for tokens or frames. By default the model computes it.
        prefix_ids: Integers `(b, p)`, padded with 0: forced first tokens of each output, without the start
            token.
        score_prefix: Whether scores include the log-probability of the prefix. The prefix always counts
            as a part of the output in `max_length` and in the length penalty. Defaults to True.
        source_numbers: Integers `(b,)` from which `SampleSearch` derives random numbers. Pass different
            ones for each batch. Defaults to 0 to `b - 1`.
        max_lengths: Maximum number of tokens for each source, int32 `(b,)`, from 1 to `max_length`. Only in
            a TensorFlow graph with a dynamic batch size, such as an export. Defaults to `max_length`.
        length_penalties: Exponent of the length penalty for each source, float32 `(b,)`. Defaults to the
            search's `length_penalty`.
        initial_cache_length: Number of positions that the caches start with; they grow as needed. If it is
            `max_length`, the caches never grow, and there is one decoding loop instead of one per cache
            length. Defaults to 32.

    Returns:
        A `SearchResult` with `n = search.num_outputs` hypotheses for each source, best first: token ids
        `(b, n, T)`, without prompts, and scores `(b, n)`.

    Raises:
        InputError: If the hypotheses do not fit in memory.
        TypeError: If the model cannot decode, or prompts are not integers.
        ValueError: If inputs have another rank or rows of different lengths, a prefix has an id outside the
            vocabulary, prompt and `max_length` need more positions than the model has learned, or the search
            has no special ids.

    Example:
        >>> from keras_transformer.decoding import GreedySearch
        >>> from keras_transformer.types import SpecialIds
        >>> model = CausalLM(100, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
        >>> search = GreedySearch(special_ids=SpecialIds(start=2, end=3))
        >>> tuple(generate(model, [[2, 7, 9]], search, max_length=5).token_ids.shape)
        (1, 1, 5)
    """
    check_kind(Search, search=search)
    check_flags(score_prefix=score_prefix)
    check_positive(max_length=max_length, initial_cache_length=initial_cache_length)
    inputs, padding_mask, prefix_ids = _prepared(model, inputs, padding_mask, prefix_ids, max_length)
    batch_size, length = (size or 1 for size in known_sizes(inputs.shape[:2]))
    for each in getattr(model, "members", (model,)):  # of an ensemble
        if hasattr(each, "config"):
            cache_length = min(CHUNK, max_length)
            each.config.check_decoding(batch_size, search.beam_size, length, max_length, cache_length)
    is_prompt = isinstance(model, CausalLM)
    request = _Request(
        ops.shape(inputs)[0],
        max_length,
        source_lengths=None if is_prompt else _source_lengths(inputs, padding_mask),
        prefix_ids=prefix_ids,
        score_prefix=score_prefix,
        first_ids=inputs[:, -1] if is_prompt else None,
        source_numbers=source_numbers,
        max_lengths=max_lengths,
        length_penalties=length_penalties,
        initial_cache_length=initial_cache_length,
    )
    step, cache = model.start_decoding(
        inputs,
        request.first_cache_length,
        search.beam_size,
        padding_mask=padding_mask,
        in_place=request.has_dynamic_sizes,  # safe, since that loop creates all buffers itself
    )
    return search(step, cache, request)


def _split_inputs(
    model: _DecodableModel, inputs: Inputs, padding_mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Return the source and its padding mask from inputs that may be a dictionary."""
    if not isinstance(inputs, dict):
        return inputs, padding_mask
    [member, *_] = getattr(model, "members", (model,))  # of an ensemble
    names = [each.name for each in getattr(member, "inputs", ()) if each.name.startswith("encoder_")]
    source, *mask = names or ["encoder_token_ids"]
    known = {source, *mask, "decoder_token_ids"}
    if not names or source not in inputs or not set(inputs) <= known:
        raise ValueError(
            f"`inputs` must be {'an array' if not names else f'an array, or have the key {source!r}'}. "
            f"Received: keys {sorted(inputs)}."
        )
    given = inputs.get(mask[0]) if mask else None
    if given is not None and padding_mask is not None:
        raise ValueError(
            f"`padding_mask` must be given once. Received: padding_mask, and {mask[0]} in `inputs`."
        )
    return inputs[source], padding_mask if given is None else given


def _prepared(
    model: _DecodableModel,
    inputs: Tensor,
    padding_mask: Tensor | None,
    prefix_ids: Tensor | None,
    max_length: int,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return the checked source, its padding mask and the prefixes."""
    inputs, padding_mask = _split_inputs(model, inputs, padding_mask)
    inputs = _checked_inputs(model, inputs, max_length)
    embedding = getattr(model, "target_embedding", getattr(model, "token_embedding", None))
    if prefix_ids is not None:
        prefix_ids = _as_tensor(prefix_ids, "`prefix_ids` must hold rows of one length, padded with 0.")
        if embedding is not None:
            check_token_ids(prefix_ids, embedding.vocabulary_size, "prefix_ids")
    return inputs, padding_mask, prefix_ids


def _checked_inputs(model: _DecodableModel, inputs: Tensor, max_length: int) -> Tensor:
    """Validate model and inputs, and return sources or prompts as a tensor."""
    if not hasattr(model, "start_decoding"):
        raise TypeError(
            "`model` must decode, as a `Transformer`, an `Ensemble` or a `CausalLM` does. "
            f"Received: {type(model).__name__}."
        )
    wanted = "`inputs` must hold rows of one length: pad sources with 0; prompts may differ in `prefix_ids`."
    inputs = _as_tensor(inputs, wanted)
    shape = tuple(inputs.shape)
    num_positions = max_length
    if isinstance(model, CausalLM):
        wanted = "Prompts must be integers of shape (b, p), p a known number above zero."
        if len(shape) != 2 or not shape[1]:
            raise ValueError(f"{wanted} Received: shape={shape}.")
        if not keras.backend.is_int_dtype(inputs.dtype):
            raise TypeError(f"{wanted} Received: dtype={keras.backend.standardize_dtype(inputs.dtype)}.")
        values = known_values(inputs)
        if values is not None and not values.all():
            raise ValueError(
                "Prompts must be without padding; of different lengths they are `prefix_ids`. "
                f"Received: id 0 in prompt {int(np.argwhere(values == 0)[0][0])}."
            )
        num_positions += shape[1] - 1
    elif len(shape) < 2:  # the model checks the exact rank of its sources
        raise ValueError(f"Sources must be a batch, such as token ids (b, s). Received: shape={shape}.")
    limit = getattr(model, "max_length", None)  # the number of learned positions
    if limit is not None and num_positions > limit:
        raise ValueError(
            "`max_length`, with the prompt, must be at most the positions that the model has learned. "
            f"Received: {num_positions} tokens, a model with max_length={limit}."
        )
    return inputs


def _as_tensor(rows: Tensor, wanted: str) -> Tensor:
    try:
        return ops.convert_to_tensor(np.array(rows) if isinstance(rows, list | tuple) else rows)
    except ValueError as error:
        raise ValueError(f"{wanted} Received: lists of different lengths.") from error


def _source_lengths(inputs: Tensor, padding_mask: Tensor | None) -> Tensor:
    """Count the tokens or frames of each source, int32 `(b,)`; without a mask, id 0 is padding."""
    if padding_mask is None:
        is_ids = len(inputs.shape) == 2
        padding_mask = ops.not_equal(inputs, 0) if is_ids else ops.ones(ops.shape(inputs)[:2], "bool")
    return ops.sum(ops.cast(padding_mask, "int32"), axis=1)


def stream_tokens(
    model: _DecodableModel, search: Search, max_length: int
) -> Callable[..., Iterator[np.ndarray]]:
    """Build a function that streams the tokens of a search as they are generated.

    Args:
        model: A `Transformer`, an `Ensemble` or a `CausalLM`.
        search: A `GreedySearch`, or a `SampleSearch` with one sample. A beam search knows its output only at
            the end.
        max_length: Maximum number of tokens, including the end token.

    Returns:
        A function with the arguments `inputs`, `prefix_ids` and `padding_mask` of `generate`. It returns an
        iterator over int32 arrays `(b,)`: the next token of each row, and padding for rows that have ended.
        It stops when all rows have ended, or after `max_length` tokens.

    Raises:
        ValueError: If the search is a beam search, or has more than one hypothesis.
    """
    check_kind(Search, search=search)
    check_positive(max_length=max_length)
    # Even with one hypothesis a beam search goes on with the second best token if the end token is best.
    if not isinstance(search, _IndependentSearch) or search.beam_size != 1:
        raise ValueError(
            "`search` must decide on each token at once: greedy, or one sample. "
            f"Received: {type(search).__name__}, beam_size={search.beam_size}."
        )

    # A graph cannot return `step`, which is a function. So each step prepares the model again, and the
    # compiler removes what only the cache needs.
    def prepare(inputs: Tensor, padding_mask: Tensor | None) -> tuple[Step, _Cache]:
        return model.start_decoding(inputs, max_length, padding_mask=padding_mask)

    def advance(inputs: Tensor, padding_mask: Tensor | None, state: _IndependentState) -> _IndependentState:
        return search.advance(state, prepare(inputs, padding_mask)[0], max_length)

    variables = getattr(model, "variables", ())
    first_cache = compile_function(lambda *x: prepare(*x)[1], variables, inputs=None)
    next_state = compile_function(advance, variables, inputs=None)

    def stream(
        inputs: Tensor, prefix_ids: Tensor | None = None, padding_mask: Tensor | None = None
    ) -> Iterator[np.ndarray]:
        """Yield the next token of each row until every row has ended."""
        inputs, padding_mask, prefix_ids = _prepared(model, inputs, padding_mask, prefix_ids, max_length)
        if next_state is advance:  # not compiled, so the step can be kept
            step, cache = prepare(inputs, padding_mask)
        else:
            step, cache = None, first_cache(inputs, padding_mask)
        # Length ratios need a source, and a prompt is not one.
        lengths = None if isinstance(model, CausalLM) else _source_lengths(inputs, padding_mask)
        request = _Request(inputs.shape[0], max_length, lengths, prefix_ids)
        # Not compiled, so that without a seed JAX draws different random numbers in each call.
        state = search.initialize(cache, request, max_length)
        while int(state.position) < max_length and bool(ops.any(search.is_running(state, max_length))):
            state = (
                search.advance(state, step, max_length) if step else next_state(inputs, padding_mask, state)
            )
            yield np.array(ops.convert_to_numpy(state.last_ids[:, 0]))

    return stream
