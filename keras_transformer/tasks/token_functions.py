"""A model and its search on token ids: outputs, scores and attention."""

from collections.abc import Callable
from typing import NamedTuple

import keras
from keras import ops

from keras_transformer.decoding import Search, SearchResult, generate, score_tokens, target_attention
from keras_transformer.types import SPECIAL_IDS, Batch, Tensor

# Number of most likely tokens that are returned for each scored token.
NUM_ALTERNATIVES = 5


class _TokenFunctions(NamedTuple):
    """Encoder-decoder model and its search.

    The functions are not compiled, so that they can be traced into a graph.
    """

    model: keras.Model
    search: Search
    max_length: int
    """Maximum number of tokens of an output, including the end token, `T`."""
    targets_have_first: bool = False
    """Whether targets to score already begin with the search's first tokens, which are not scored."""

    def decoding_inputs(self, inputs: Batch) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return the model's source, its padding mask, and the prefix of each output."""
        source, *mask = inputs
        return source, mask[0] if mask else None, None

    def find(
        self,
        inputs: Batch,
        source_numbers: Tensor | None = None,
        max_lengths: Tensor | None = None,
        length_penalties: Tensor | None = None,
    ) -> SearchResult:
        """Generate the outputs of a batch; the options are those of `decoding.generate`."""
        source, padding_mask, prefix_ids = self.decoding_inputs(inputs)
        return generate(
            self.model,
            source,
            self.search,
            self.max_length,
            padding_mask=padding_mask,
            prefix_ids=prefix_ids,
            score_prefix=False,
            source_numbers=source_numbers,
            max_lengths=max_lengths,
            length_penalties=length_penalties,
        )

    def score(self, inputs: Batch, target_ids: Tensor) -> tuple[Tensor, ...]:
        """Score targets `(b, t)` with end tokens: scores float32 `(b,)`, token counts, token details."""
        batch_size, first = ops.shape(target_ids)[0], self.search.constraints.first_token_ids
        if first and not self.targets_have_first:
            given = ops.repeat(ops.convert_to_tensor([first], "int32"), batch_size, axis=0)
            target_ids = ops.concatenate([given, ops.cast(target_ids, "int32")], axis=1)
            target_ids = target_ids[:, : self.max_length]
        num_given = ops.full((batch_size,), len(first), dtype="int32") if first else None
        return self._score_with_alternatives(self.model, inputs, target_ids, num_given)

    def _score_with_alternatives(
        self, model: Callable[..., Tensor], inputs: Batch, target_ids: Tensor, num_given: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Return scores, token counts, and ids and log-probabilities of the tokens and alternatives."""
        found = score_tokens(
            model,
            inputs[0],
            target_ids,
            *inputs[1:],
            special_ids=SPECIAL_IDS,
            num_given=num_given,
            num_alternatives=NUM_ALTERNATIVES,
        )
        num_tokens = ops.sum(ops.cast(found.is_scored, "int32"), axis=1)
        length = num_tokens if num_given is None else num_tokens + num_given
        return (
            self.search.score(ops.sum(found.log_probabilities, axis=1), length),
            num_tokens,
            ops.where(found.is_scored, target_ids, SPECIAL_IDS.pad),
            found.log_probabilities,
            found.alternative_ids,
            found.alternative_log_probabilities,
        )

    def attend(self, inputs: Batch, target_ids: Tensor) -> Tensor:
        """Return the last layer's attention of targets `(b, t)`, mean over the heads, float32 `(b, t, s)`."""
        source, *mask = inputs
        scores = target_attention(self.model, source, target_ids, *mask, special_ids=SPECIAL_IDS)
        last = [each for name, each in scores.items() if name.endswith("/cross_attention")][-1]
        # (b, h, t, s) -> (b, t, s); rows of padding are 0
        attention = ops.mean(ops.cast(last, "float32"), axis=1)
        return ops.where((target_ids != SPECIAL_IDS.pad)[..., None], attention, 0.0)


class _PromptFunctions(_TokenFunctions):
    """Causal language model and its search: an output begins with its prompt."""

    def decoding_inputs(self, inputs: Batch) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return start tokens, no mask, and the prompts as prefixes of the outputs."""
        source = ops.convert_to_tensor(inputs[0], "int32")
        starts = ops.full((ops.shape(source)[0], 1), SPECIAL_IDS.start, dtype="int32")
        # As prefixes, prompts may differ in length. A fixed width avoids compiling for each length.
        return starts, None, ops.reshape(_prompt_ids(source, self.max_length), (-1, self.max_length))

    def score(self, inputs: Batch, target_ids: Tensor) -> tuple[Tensor, ...]:
        """Score the tokens after the prompts: scores float32 `(b,)`, token counts, token details."""
        [source] = inputs
        # Only the tokens shared with the prompt: at the boundary, subwords may be tokenized differently.
        prompts = _prompt_ids(source, ops.shape(target_ids)[1])
        is_same = ops.cast(ops.logical_and(prompts == target_ids, prompts != SPECIAL_IDS.pad), "int32")
        num_given = ops.sum(ops.cumprod(is_same, axis=1), axis=1)
        decoder = self.model
        return self._score_with_alternatives(
            lambda each: decoder(each["decoder_token_ids"]), inputs, target_ids, num_given
        )


def _prompt_ids(token_ids: Tensor, length: Tensor | int) -> Tensor:
    """Replace the end tokens of prompts `(b, s)` by padding, and cut or pad them to a length."""
    padding = ops.zeros((ops.shape(token_ids)[0], length), "int32")
    token_ids = ops.where(token_ids == SPECIAL_IDS.end, SPECIAL_IDS.pad, token_ids)
    return ops.concatenate([token_ids, padding], axis=1)[:, :length]
