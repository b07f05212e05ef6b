"""Sampling: answers drawn by chance, as likely as the model finds them."""

from keras import ops

from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.contract import Request, SpecialIds
from keras_transformer.decoding.row_search import RowSearch, RowState
from keras_transformer.decoding.sampling import Sampler
from keras_transformer.decoding.uniforms import draw_uniforms
from keras_transformer.layers.validation import check_positive
from keras_transformer.types import Tensor


class SampleSearch(RowSearch):
    """Draws answers, `num_samples` for each source.

    Each token is drawn from the model's distribution after the constraints and the sampler have
    reshaped it. The score is the model's own all the same: the log-probability that it gives to the
    answer, at temperature 1 and over the whole vocabulary, divided by the length penalty. So scores
    of different options, and of other searches, can be compared.

    One seed gives the same answers eagerly and compiled, to a source of the same number: its row in the
    batch, or for a `Translator` its place among all texts of a call, however many are decoded together.

    Args:
        temperature: of the distribution; see `Sampler`.
        top_k: only so many of the most likely tokens; see `Sampler`.
        top_p: only the most likely tokens of this probability; see `Sampler`.
        num_samples: hypotheses for each source, `n`; the best score comes first.
        seed: of the chance; None for other answers at each call, see `draw_uniforms`.
        length_penalty: of the scores.
        constraints: what may not be generated; None for no rules.
        special_ids: which tokens are special.

    Raises:
        TypeError: an option that is no number.
        ValueError: an option out of its range.

    Example:
        >>> SampleSearch(temperature=0.8, top_p=0.95, num_samples=3, seed=7).beam_size
        3
    """

    def __init__(
        self,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        *,
        num_samples: int = 1,
        seed: int | None = None,
        length_penalty: float = 0.0,
        constraints: Constraints | None = None,
        special_ids: SpecialIds | None = None,
    ) -> None:
        super().__init__(length_penalty=length_penalty, constraints=constraints, special_ids=special_ids)
        Sampler(temperature, top_k, top_p)  # checks them
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise TypeError(f"`seed` must be an integer or None. Received: seed={seed!r}.")
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self.num_samples = num_samples
        self.seed = seed

    @property
    def num_samples(self) -> int:
        """Hypotheses for each source, `n`."""
        return self.beam_size

    @num_samples.setter
    def num_samples(self, value: int) -> None:
        """Ask for another number of them."""
        check_positive(num_samples=value)
        self.beam_size = self.num_hypotheses = value

    def _chance(self, request: Request) -> Tensor:
        seed = request.seed if self.seed is None else self.seed
        numbers = request.source_numbers
        if numbers is None:
            numbers = ops.arange(request.batch_size, dtype="int32")
        samples = ops.arange(self.beam_size, dtype="int32")
        rows = ops.reshape(ops.cast(numbers, "int32")[:, None] * self.beam_size + samples, (-1,))
        uniforms = ops.transpose(draw_uniforms(seed, request.max_length, rows))  # (b * n, T)
        return ops.reshape(uniforms, (-1, self.beam_size, request.max_length))

    def _choose(self, logits: Tensor, state: RowState, max_length: int) -> tuple[Tensor, Tensor]:
        scores, allowed = self._allowed(logits, state.token_ids, state.position, state.limits, max_length)
        uniform = ops.reshape(ops.take(state.chance, state.position, axis=2), (-1,))
        chosen = Sampler(self.temperature, self.top_k, self.top_p).choose(allowed, uniform)
        # Not what the sampler saw: the score is that of the model.
        return chosen, ops.take_along_axis(scores, chosen[:, None], axis=1)[:, 0]
