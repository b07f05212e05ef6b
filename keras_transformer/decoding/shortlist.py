"""Shortlists: the only tokens that a source may become, so that a step computes the logits of few."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from keras import ops

from keras_transformer._arguments import check_positive
from keras_transformer._backend.gather import shape_of, take
from keras_transformer.decoding.constraints import NO_CONSTRAINTS
from keras_transformer.decoding.log_probabilities import LOWEST_SCORE
from keras_transformer.decoding.sampling import SampleSearch
from keras_transformer.decoding.search import Search, SearchResult, Step, _Cache, _Request
from keras_transformer.types import SPECIAL_IDS, Pair, SpecialIds, Tensor

if TYPE_CHECKING:
    from keras_transformer.text.tokenizer import Tokenizer

_NUM_ROUNDS = 5  # of expectation and maximization
_MAX_CELLS = 30_000_000  # pairs of tokens, of 24 bytes

Shortlist = npt.NDArray[np.int32]
_Start = Callable[..., tuple[Step, _Cache]]


def lexical_shortlist(
    pairs: Sequence[Pair],
    source_tokenizer: "Tokenizer",
    target_tokenizer: "Tokenizer",
    *,
    size: int = 100,
    max_length: int = 256,
) -> Shortlist:
    """Find the tokens that each source token is translated by, for `Translator.shortlist`.

    Pairs are aligned by model 1 of Brown et al. 1993, section 4.2; a source may then become the best
    translations of its tokens, and the most frequent tokens (Jean et al. 2015, section 3).

    Args:
        pairs: of texts, as for the training. Of many, as of a million short ones, a part is aligned.
        source_tokenizer: that of the translator.
        target_tokenizer: likewise.
        size: of the tokens for each source token, and of the most frequent ones, `k`.
        max_length: the tokens of a text that are read.

    Returns:
        int32 `(v, k)`: a row for each source token. That of the end token, which every source has, are the
        most frequent tokens.

    Raises:
        ValueError: If there is no pair, or the size is not above zero.

    Example:
        ```python
        translator.shortlist = lexical_shortlist(
            pairs, translator.source_tokenizer, translator.target_tokenizer
        )
        export_saved_model(translator, "saved_models/de_en")
        ```
    """
    check_positive(size=size)
    if not pairs:
        raise ValueError("`pairs` must have at least one pair. Received: none.")
    sides = zip(zip(*pairs, strict=True), (source_tokenizer, target_tokenizer), strict=True)
    ids = [tokenizer.padded_ids(texts, max_length).numpy() for texts, tokenizer in sides]
    rows = [(source[source > 0], target[target > 0]) for source, target in zip(*ids, strict=True)]
    rows = rows[:: -(-sum(len(source) * len(target) for source, target in rows) // _MAX_CELLS)]
    num_sources, num_targets = source_tokenizer.vocabulary_size, target_tokenizer.vocabulary_size
    size = min(size, num_targets)
    counts = np.bincount(np.concatenate([target for _, target in rows]), minlength=num_targets)
    frequent = np.argsort(-counts, kind="stable")[:size].astype("int32")
    cells = [source[:, None].astype("int64") * num_targets + target for source, target in rows]  # (s, t)
    known, numbers = np.unique(np.concatenate([each.ravel() for each in cells]), return_inverse=True)
    ends = np.cumsum([each.size for each in cells])[:-1]
    parts = [part.reshape(each.shape) for part, each in zip(np.split(numbers, ends), cells, strict=True)]
    of_source, of_target = known // num_targets, known % num_targets
    probabilities = _probabilities(parts, of_source)
    best_first = np.lexsort((-probabilities, of_source))
    of_source, of_target = of_source[best_first], of_target[best_first]
    ranks = np.arange(len(known)) - np.searchsorted(of_source, of_source)
    table = np.tile(frequent, (num_sources, 1))  # (v, k)
    is_best = (ranks < size) & (of_source != SPECIAL_IDS.end)
    table[of_source[is_best], ranks[is_best]] = of_target[is_best]
    return table


def _check_shortlist(shortlist: Shortlist, num_sources: object, num_targets: int) -> None:
    shortlist = np.asarray(shortlist)
    is_table = shortlist.ndim == 2 and shortlist.size and np.issubdtype(shortlist.dtype, np.integer)
    if not (
        is_table and len(shortlist) == num_sources and 0 <= shortlist.min() <= shortlist.max() < num_targets
    ):
        raise ValueError(
            f"`shortlist` must be integers ({num_sources}, k), target tokens below {num_targets}. "
            f"Received: shape={shortlist.shape}, dtype={shortlist.dtype}."
        )


def _probabilities(
    parts: list[npt.NDArray[np.int64]], of_source: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Estimate how likely pairs of tokens are; `parts` number those of each pair of texts, `(s, t)`."""
    probabilities = np.ones(len(of_source))
    for _ in range(_NUM_ROUNDS):
        counts = np.zeros(len(of_source))
        for part in parts:
            shares = probabilities[part]
            np.add.at(counts, part, shares / shares.sum(axis=0))
        probabilities = counts / np.bincount(of_source, counts)[of_source]
    return probabilities


class _ListedCache(NamedTuple):
    """The cache of a model, and which logits count for each source."""

    cache: _Cache
    penalties: Tensor  # float32 `(b, 1, m)`: 0 for what is listed, else `LOWEST_SCORE`

    @property
    def attention_sums(self) -> Tensor:
        return self.cache.attention_sums

    @property
    def encoder_padding_mask(self) -> Tensor:
        return self.cache.encoder_padding_mask

    def reorder(self, rows: Tensor) -> "_ListedCache":
        return self._replace(cache=self.cache.reorder(rows))

    def grow(self, num_positions: Tensor | int) -> "_ListedCache":
        return self._replace(cache=self.cache.grow(num_positions))


def _search_listed(
    search: Search, start: _Start, request: _Request, is_listed: Tensor, *, selects: bool
) -> SearchResult:
    """Search among the tokens of each source, `(b, v)`; `start` takes the only tokens that have logits."""
    ids = search._ids
    is_end = ops.equal(ops.arange(is_listed.shape[1]), ids.end)
    penalties = ops.where(ops.logical_or(is_listed, is_end), 0.0, LOWEST_SCORE)[:, None]  # (b, 1, v)
    # Rules name tokens, and a compiler knows no sizes that depend on values: there all logits are computed.
    has_rules = search.constraints != NO_CONSTRAINTS or isinstance(search, SampleSearch)
    if has_rules or not (selects and request.sizes_change):
        step, cache = start()
        return search(_listed_step(step), _ListedCache(cache, penalties), request)
    # The tokens of all sources get numbers of their own, the special ones first, and as many as a beam needs.
    first = [*dict.fromkeys((*ids, *range(min(2 * search.beam_size + len(ids), is_listed.shape[1]))))]
    others = np.delete(np.arange(is_listed.shape[1], dtype="int32"), first)
    is_used = ops.any(take(ops.transpose(is_listed), others), axis=1)
    used = take(others, ops.cast(ops.nonzero(is_used)[0], "int32"))
    token_ids = ops.concatenate([np.array(first, "int32"), used], axis=0)  # (m,)
    step, cache = start(token_ids=token_ids)
    step = _listed_step(step)

    def renamed(numbers: Tensor, position: Tensor, cache: _Cache) -> tuple[Tensor, _Cache]:
        return step(take(token_ids, numbers), position, cache)

    search = dataclasses.replace(search, special_ids=SpecialIds(*map(first.index, ids)))
    result = search(renamed, _ListedCache(cache, ops.take(penalties, token_ids, axis=2)), request)
    return result._replace(token_ids=take(token_ids, result.token_ids))


def _listed_step(step: Step) -> Step:
    """Let a step give tokens that are not listed no probability."""

    def listed(token_ids: Tensor, position: Tensor, cache: Any) -> tuple[Tensor, _Cache]:
        logits, inner = step(token_ids, position, cache.cache)
        batch_size, _, num_tokens = shape_of(cache.penalties)
        # (b * n, m) -> (b, n, m) -> (b * n, m)
        of_each = ops.reshape(ops.cast(logits, "float32"), (batch_size, -1, num_tokens)) + cache.penalties
        return ops.reshape(of_each, shape_of(logits)), cache._replace(cache=inner)

    return listed


def _is_listed(source_ids: Tensor, shortlist: Shortlist, num_tokens: int) -> Tensor:
    """Return which tokens each source `(b, s)` may become, bool `(b, v)`."""
    batch_size = shape_of(source_ids)[0]
    # Padding allows nothing of its own: it is only there for the neighbors.
    source_ids = ops.where(ops.equal(source_ids, 0), source_ids[:, :1], source_ids)
    # (b, s) -> (b, s, k) -> (b, s * k)
    listed = ops.reshape(take(ops.cast(shortlist, "int32"), source_ids), (batch_size, -1))
    rows = ops.arange(batch_size, dtype="int32")[:, None] * num_tokens
    places = ops.reshape(listed + rows, (-1, 1))
    found = ops.scatter(places, ops.ones_like(places[:, 0]), (batch_size * num_tokens,))
    return ops.reshape(found, (batch_size, num_tokens)) > 0
