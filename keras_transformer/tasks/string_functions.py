"""String functions of the signatures, which a task calls and an export serves."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.tasks.results import NOT_GIVEN
from keras_transformer.types import LOWEST_SCORE, SPECIAL_IDS, Batch, Signature

Tensors = dict[str, tf.Tensor]
# A larger length penalty could make an empty slot look like a possible hypothesis.
_LARGEST_PENALTY = 3.0
_EMPTY_OUTPUTS: dict[str, np.ndarray] = {
    "num_tokens": np.array(0, "int32"),
    "is_cut": np.array(False),
    **dict.fromkeys(
        ("output", "source_tokens", "output_tokens", "tokens", "alternatives"), np.array(b"", object)
    ),
}


class _StringFunctions:
    """A function for each signature, from columns to the outputs that `TEXT_SIGNATURES` lists.

    They consist of TensorFlow operations and of `tokens`, which is compiled in a task and traced in an
    export. `is_cut`, boolean `(b,)`, is True for texts that were longer than a limit.

    Args:
        task: A `SearchTask`, whose source, target tokenizer, limits and search options they use.
        tokens: Its `token_functions`, compiled or traced.
    """

    def __init__(self, task: Any, tokens: Any) -> None:
        self.tokens, self._task = tokens, task
        self._reader, self._target_tokenizer = task.reader, task.target_tokenizer

    def __getitem__(self, signature: Signature) -> Callable[..., Tensors]:
        """Return the function of a signature; its arguments are source columns, other inputs and options."""
        function = getattr(self, "best" if signature == "serving_default" else signature)
        size = len(self._reader.columns)
        return lambda *columns: function(columns[:size], *columns[size:])

    def best(self, source: Batch, *options: tf.Tensor) -> Tensors:
        """Return the best hypothesis of each source."""
        return self._best(source, *self._model_inputs(source), *options)

    def _model_inputs(self, source: Batch) -> tuple[Batch, tf.Tensor]:
        """Return the model's inputs, and which sources are too long."""
        return self._reader.read(source, self._task.max_source_length)

    def _best(self, source: Batch, inputs: Batch, is_cut: tf.Tensor, *options: tf.Tensor) -> Tensors:
        token_ids, scores = self.tokens.find(inputs, *options)
        output = self._target_tokenizer.detokenize(token_ids[:, 0])
        outputs = {"output": output, "score": scores[:, 0], "is_cut": is_cut}
        return _blank_empty_sources(outputs, self._task.is_empty(source))

    def n_best(self, source: Batch, *options: tf.Tensor) -> Tensors:
        """Return all hypotheses `(b, n)`, best first; empty slots have the score `LOWEST_SCORE`."""
        return self._n_best(source, *self._model_inputs(source), *options)

    def _n_best(self, source: Batch, inputs: Batch, is_cut: tf.Tensor, *options: tf.Tensor) -> Tensors:
        token_ids, scores = self.tokens.find(inputs, *options)
        rows = tf.reshape(token_ids, [-1, token_ids.shape[-1]])
        output = tf.reshape(self._target_tokenizer.detokenize(rows), tf.shape(scores))
        outputs = {"output": output, "score": scores, "is_cut": is_cut}
        return _blank_empty_sources(outputs, self._task.is_empty(source))

    def align(self, source: Batch, *options: tf.Tensor) -> Tensors:
        """Return the best hypothesis, the tokens of both sides, and the attention `(b, t, s)`."""
        inputs, is_cut = self._model_inputs(source)
        token_ids, scores = self.tokens.find(inputs, *options)
        # (b, n, T) -> (b, t), so that no attention to padding is computed
        best_ids = _trim_padding(tf.convert_to_tensor(token_ids)[:, 0])
        outputs = {
            "output": self._target_tokenizer.detokenize(best_ids),
            "score": scores[:, 0],
            "source_tokens": self._task.source_names(inputs),
            "output_tokens": self._target_tokenizer.tokens(best_ids),
            "attention": self.tokens.attend(inputs, best_ids),
            "is_cut": is_cut,
        }
        return _blank_empty_sources(outputs, self._task.is_empty(source))

    def score(self, source: Batch, output: tf.Tensor, *_: object) -> Tensors:
        """Return the score of a given output for each source."""
        same_size = "The sources and `output` must have the same number of rows."
        tf.debugging.assert_equal(tf.shape(source[0])[:1], tf.shape(output), same_size)
        inputs, is_cut = self._model_inputs(source)
        target_ids, is_target_cut = self._target_tokenizer.ended_ids(output, self._task.max_target_length)
        score, num_tokens, *of_tokens = self.tokens.score(inputs, target_ids)
        # A fixed width, so that a server can split a request and concatenate the results.
        ids, scores, other_ids, other_scores = (self._pad_to_max_length(each) for each in of_tokens)
        others = self._target_tokenizer.tokens(tf.reshape(other_ids, [-1, other_ids.shape[-1]]))
        is_empty = self._task.is_empty(source) & self._target_tokenizer.is_empty((output,))
        outputs = {
            "score": score,
            "num_tokens": num_tokens,
            "tokens": self._target_tokenizer.tokens(ids),
            "token_scores": scores,
            "alternatives": tf.reshape(others, tf.shape(other_ids)),
            "alternative_scores": other_scores,
            "is_cut": is_cut | is_target_cut,
        }
        return _blank_empty_sources(outputs, is_empty)

    def _pad_to_max_length(self, values: tf.Tensor) -> tf.Tensor:
        """Pad `(b, t)` or `(b, t, k)` to the maximum target length."""
        values = tf.convert_to_tensor(values)
        width = self._task.max_target_length - tf.shape(values)[1]
        values = tf.pad(values, [[0, 0], [0, width], *[[0, 0]] * (len(values.shape) - 2)])
        return tf.ensure_shape(values, [None, self._task.max_target_length, *values.shape[2:]])

    def search(self, source: Batch, *options: tf.Tensor) -> Tensors:
        """Return what `n_best` returns, with options for each request.

        Values outside their range are clipped: an error would also fail other requests of the batch.
        """
        defaults, rows = self._task.default_options, tf.shape(source[0])[0]
        max_length, penalty, wanted, *seeds = (
            _option_per_source(name, option, default, rows)
            for (name, default), option in zip(defaults.items(), options, strict=True)
        )
        max_length = tf.clip_by_value(max_length, 1, int(defaults["max_length"]))
        most = max(defaults["length_penalty"], _LARGEST_PENALTY)
        # Also replaces NaN.
        penalty = tf.where(penalty > 0, tf.minimum(penalty, most), 0.0)
        inputs, is_cut = self._model_inputs(source)
        if self._task.continues_source:
            inputs, is_longer = _cut_prompts(inputs, max_length)
            is_cut |= is_longer
        outputs = self._n_best(source, inputs, is_cut, max_length, penalty, *seeds)
        # Always `n` columns: a server that splits a request concatenates the results without checking their
        # widths.
        ranks = tf.range(int(defaults["num_hypotheses"]))  # (n,)
        is_wanted = ranks[None, :] < tf.maximum(wanted, 1)[:, None]  # (b, n)
        return {
            "output": tf.where(is_wanted, outputs["output"], ""),
            "score": tf.where(is_wanted, outputs["score"], LOWEST_SCORE),
            "is_cut": outputs["is_cut"],
        }


def _blank_empty_sources(outputs: Tensors, is_empty: tf.Tensor) -> Tensors:
    """Replace the outputs of empty sources by empty strings and zeros, with a single hypothesis."""
    blanked = {}
    for name, values in outputs.items():
        blank = _EMPTY_OUTPUTS.get(name, np.array(0, "float32"))
        rank = len(values.shape)
        if name == "score" and rank == 2:
            blank = np.array([0.0, *[LOWEST_SCORE] * (values.shape[1] - 1)], "float32")  # (n,)
        blanked[name] = tf.where(is_empty[(..., *[None] * (rank - 1))], blank, values)
    return blanked


def _cut_prompts(inputs: Batch, max_lengths: tf.Tensor) -> tuple[Batch, tf.Tensor]:
    """Cut prompts `(b, s)` to leave one token of each length; also return which were longer `(b,)`."""
    [token_ids] = inputs
    is_token = (token_ids != SPECIAL_IDS.pad) & (token_ids != SPECIAL_IDS.end)
    is_kept = tf.range(tf.shape(token_ids)[1])[None, :] < max_lengths[:, None] - 1
    cut = tf.where(is_kept, token_ids, SPECIAL_IDS.pad)
    return (cut,), tf.reduce_any(is_token & ~is_kept, axis=1)


def _trim_padding(token_ids: tf.Tensor) -> tf.Tensor:
    """Drop the columns of `(b, T)` that contain only padding, except for the first column."""
    lengths = tf.math.count_nonzero(token_ids != SPECIAL_IDS.pad, axis=1, dtype=tf.int32)  # (b,)
    return token_ids[:, : tf.reduce_max(tf.concat([lengths, [1]], axis=0))]


def _option_per_source(name: str, given: tf.Tensor, default: float, rows: tf.Tensor) -> tf.Tensor:
    """Return an option for each source, `(b,)`, from one row for each or one for all."""
    fits = tf.reduce_any(tf.size(given) == [1, rows])
    message = f"`{name}` must have a row for each text, or one for all. Rows and texts received:"
    with tf.control_dependencies([tf.debugging.Assert(fits, [message, tf.size(given), rows])]):
        given = tf.broadcast_to(given, [rows])
    return tf.where(given == NOT_GIVEN, tf.cast(default, given.dtype), given)
