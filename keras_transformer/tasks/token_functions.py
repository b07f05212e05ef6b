"""A model and its search as functions of numbers: token ids in, token ids, scores and attention out."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_transformer._backend import compile_function
from keras_transformer.decoding import Search, SearchResult, align_targets, generate, score_targets
from keras_transformer.types import SPECIAL_IDS, Tensor

Arrays: TypeAlias = Sequence[np.ndarray | tf.Tensor]


class _TokenFunctions(NamedTuple):
    """An encoder-decoder model and its search.

    The functions are not compiled, so that a graph may hold them.
    """

    model: keras.Model
    search: Search
    max_length: int
    """Maximum number of tokens of an output, the end token included, `T`."""
    has_first: bool = False
    """Whether given targets begin with the tokens that the search generates first, which are not scored."""

    def inputs(self, source: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return what the model reads, and the tokens that each output begins with."""
        return source, None

    def find(
        self,
        source: Tensor,
        source_numbers: Tensor | None = None,
        max_lengths: Tensor | None = None,
        length_penalties: Tensor | None = None,
    ) -> SearchResult:
        """Find the outputs of a batch; the options are those of `decoding.generate`."""
        inputs, prefix_ids = self.inputs(source)
        return generate(
            self.model,
            inputs,
            self.search,
            self.max_length,
            prefix_ids=prefix_ids,
            score_prefix=False,
            source_numbers=source_numbers,
            max_lengths=max_lengths,
            length_penalties=length_penalties,
        )

    def score(self, source: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Score ended targets `(b, t)`: float32 `(b,)`, and their numbers of tokens, int32 `(b,)`."""
        batch_size, first = ops.shape(target_ids)[0], self.search.constraints.first_token_ids
        if first and not self.has_first:
            given = ops.repeat(ops.convert_to_tensor([first], "int32"), batch_size, axis=0)
            target_ids = ops.concatenate([given, ops.cast(target_ids, "int32")], axis=1)
            target_ids = target_ids[:, : self.max_length]
        num_given = ops.full((batch_size,), len(first), dtype="int32") if first else None
        log_probabilities, num_tokens = score_targets(
            self.model, source, target_ids, special_ids=SPECIAL_IDS, num_given=num_given
        )
        return self.search.score(log_probabilities, num_tokens + len(first)), num_tokens

    def attend(self, source: Tensor, target_ids: Tensor) -> Tensor:
        """Return the cross-attention of targets `(b, t)`, float32 `(b, t, s)`."""
        return align_targets(self.model, source, target_ids, special_ids=SPECIAL_IDS)


class _PromptFunctions(_TokenFunctions):
    """A causal language model and its search: an output begins with its prompt."""

    def inputs(self, source: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return start tokens, and prompts as the tokens that each output begins with."""
        source = ops.convert_to_tensor(source, "int32")
        starts = ops.full((ops.shape(source)[0], 1), SPECIAL_IDS.start, dtype="int32")
        # As prefixes, which may differ in length; of one size, so that nothing is compiled for each.
        return starts, ops.reshape(_prompt_ids(source, self.max_length), (-1, self.max_length))

    def score(self, source: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Score what follows prompts: float32 `(b,)`, and its number of tokens, int32 `(b,)`."""
        # The tokens that a text shares with its prompt: where the two are joined, subwords may be others.
        prompts = _prompt_ids(source, ops.shape(target_ids)[1])
        is_same = ops.cast(ops.logical_and(prompts == target_ids, prompts != SPECIAL_IDS.pad), "int32")
        num_given = ops.sum(ops.cumprod(is_same, axis=1), axis=1)
        log_probabilities, num_tokens = score_targets(
            lambda inputs: self.model(inputs["decoder_token_ids"]),
            source,
            target_ids,
            special_ids=SPECIAL_IDS,
            num_given=num_given,
        )
        return self.search.score(log_probabilities, num_tokens + num_given), num_tokens


def _prompt_ids(token_ids: Tensor, length: Tensor | int) -> Tensor:
    """Replace the end tokens of prompts `(b, s)` by padding, and cut or pad to a length."""
    padding = ops.zeros((ops.shape(token_ids)[0], length), "int32")
    token_ids = ops.where(token_ids == SPECIAL_IDS.end, SPECIAL_IDS.pad, token_ids)
    return ops.concatenate([token_ids, padding], axis=1)[:, :length]


class _CompiledFunctions:
    """Token functions, each compiled by the backend when it is first called; arrays in, arrays out."""

    def __init__(self, functions: _TokenFunctions) -> None:
        self._functions = functions
        self._compiled: dict[str, Callable[..., Sequence[Tensor]]] = {}

    def find(self, source: tf.Tensor, source_numbers: Sequence[int]) -> SearchResult:
        """Call `_TokenFunctions.find`; a source's number tells it from others where a search samples."""

        def find(source: Tensor, numbers: Tensor) -> SearchResult:
            return self._functions.find(source, numbers[:, 0])

        return SearchResult(
            *self._call("find", find, source, np.reshape(np.asarray(source_numbers, "int32"), (-1, 1)))
        )

    def score(self, source: tf.Tensor, target_ids: tf.Tensor) -> Arrays:
        """Call `_TokenFunctions.score`."""
        return self._call("score", self._functions.score, source, target_ids)

    def attend(self, source: tf.Tensor, target_ids: tf.Tensor) -> np.ndarray:
        """Call `_TokenFunctions.attend`."""

        def attend(source: Tensor, target_ids: Tensor) -> tuple[Tensor]:
            return (self._functions.attend(source, target_ids),)

        [attention] = self._call("attend", attend, source, target_ids)
        return np.asarray(attention)

    def _call(self, name: str, function: Callable[..., Sequence[Tensor]], *arrays: object) -> Arrays:
        given = [np.asarray(array) for array in arrays]
        if name not in self._compiled:
            # Sources that are not token ids have a rank and a dtype of their own.
            num_inputs = len(given) if given[0].ndim == 2 else None
            variables = getattr(self._functions.model, "variables", ())
            self._compiled[name] = compile_function(function, variables, num_inputs=num_inputs)
        dtypes = ("float32" if array.dtype.kind == "f" else "int32" for array in given)
        found = self._compiled[name](*map(ops.convert_to_tensor, given, dtypes))
        return [ops.convert_to_numpy(each) for each in found]
