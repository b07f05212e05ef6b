"""What a search needs of a model, and what it gives."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from keras_transformer.types import Tensor


class Cache(Protocol):
    """What a model keeps between steps: any nest of tensors that can be reordered."""

    def reorder(self, rows: Tensor) -> "Cache":
        """Take hypotheses in another order.

        Args:
            rows: integers `(b * n,)`, which old hypothesis of the same source each new one continues.

        Returns:
            The reordered cache.
        """

    def select(self, rows: Tensor) -> "Cache":
        """Take some sources with all their hypotheses.

        Args:
            rows: integers `(b',)`, which of the sources.

        Returns:
            The cache of these sources.
        """

    def grow(self, num_positions: Tensor | int) -> "Cache":
        """Make room for more positions.

        Args:
            num_positions: how many more.

        Returns:
            The longer cache.
        """


Step = Callable[[Tensor, Tensor, Cache], tuple[Tensor, Cache]]
"""`(token_ids (b * n,), position, cache) -> (logits (b * n, v), cache)`."""


class SearchResult(NamedTuple):
    """The hypotheses of a search, best first."""

    token_ids: Tensor
    """`(b, n, T)`: without the start token, with the end token, then padding."""
    scores: Tensor
    """float32 `(b, n)`: log-probability, divided by the length penalty."""


class Request(NamedTuple):
    """What is asked of a search, beside the model."""

    batch_size: Tensor | int
    """The number of sources, `b`; a tensor where it is not known while a graph is traced."""
    max_length: int
    """The most tokens of a hypothesis, the end token included, `T`."""
    source_lengths: Tensor | None = None
    """Integers `(b,)`, for bounds that depend on them."""
    prefix_ids: Tensor | None = None
    """Integers `(b, p)`, padded: what the hypotheses of each source must begin with."""
    first_ids: Tensor | None = None
    """Integers `(b,)`: the token before the first; None for the start token."""
    source_numbers: Tensor | None = None
    """Integers `(b,)`, by which a search that draws tells the sources apart; None for 0 to `b - 1`."""
    seed: Tensor | None = None
    """An integer scalar, for a search that draws and has no seed of its own; None lets it draw one."""


class Search(Protocol):
    """A search strategy."""

    beam_size: int
    """Hypotheses that are kept for each source, `n`."""
    num_hypotheses: int
    """Hypotheses that are given back for each source, at most `beam_size`."""
    tracks_attention: bool
    """Whether the cache must sum up the cross-attention."""

    def __call__(self, step: Step, cache: Cache, request: Request) -> SearchResult:
        """Find likely sequences.

        Args:
            step: the model.
            cache: made for `beam_size` hypotheses and as many positions as `loop.first_length` says.
            request: sizes, and what the answers are bound to.

        Returns:
            Hypotheses for each source, best first.
        """


class SpecialIds(NamedTuple):
    """The token ids that a search must know."""

    pad: int = 0
    """Fills a finished hypothesis up to the length of the longest."""
    unknown: int = 1
    """Never generated."""
    start: int = 2
    """What decoding starts from; never generated."""
    end: int = 3
    """Ends a hypothesis."""
