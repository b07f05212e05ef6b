"""What a search needs of a model, and what it gives."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from keras_transformer.types import Tensor


class Cache(Protocol):
    """What a model keeps between steps: any nest of tensors that can be reordered."""

    def reorder(self, rows: Tensor) -> "Cache":
        """Take hypotheses in another order.

        Args:
            rows: integers `(b * n,)`, which old hypothesis each new one continues.

        Returns:
            The reordered cache.
        """


Step = Callable[[Tensor, Tensor, Cache], tuple[Tensor, Cache]]
"""`(token_ids (b * n,), position, cache) -> (logits (b * n, v), cache)`."""


class SearchResult(NamedTuple):
    """The hypotheses of a search, best first."""

    token_ids: Tensor
    """`(b, n, T)`: without the start token, with the end token, then padding."""
    scores: Tensor
    """float32 `(b, n)`: log-probability, divided by the length penalty."""


class Search(Protocol):
    """A search strategy."""

    beam_size: int
    """Hypotheses that are kept for each source, `n`."""

    def __call__(self, step: Step, cache: Cache, batch_size: Tensor | int, max_length: int) -> SearchResult:
        """Find likely sequences.

        Args:
            step: the model.
            cache: made for `beam_size` hypotheses and `max_length` positions.
            batch_size: the number of sources, `b`.
            max_length: the most tokens of a hypothesis, the end token included.

        Returns:
            `beam_size` hypotheses for each source.
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
