"""Translation of long texts in pieces, in memory and in an export."""

from typing import Literal, TypeAlias

import tensorflow as tf

from keras_transformer.tasks.string_functions import Tensors, _blank_empty_sources, _StringFunctions
from keras_transformer.text import split_texts
from keras_transformer.types import SPECIAL_IDS, Batch

WhichTexts: TypeAlias = Literal["long", "all", "none"]
"""Which texts a translator splits: long ones, all, or none."""

# Number of pieces to translate together; limits the memory for a document of hundreds of pieces.
_PIECES_PER_BATCH = 64


class _SplitAll(_StringFunctions):
    """Functions of a translator that splits every text, for `translate`."""

    def best(self, source: Batch, *options: tf.Tensor) -> Tensors:
        """Translate the pieces of each source and join the best hypotheses."""
        return self._translate_in_pieces(source, tf.ones_like(source[0] == "", tf.bool), *options)

    def _translate_in_pieces(self, source: Batch, is_long: tf.Tensor, *options: tf.Tensor) -> Tensors:
        [texts] = source
        pieces = split_texts(texts, self._reader, self._task.max_source_length, is_long)
        # Batches of similar length, since the longest piece determines the cost.
        order = tf.argsort(tf.strings.length(pieces.pieces), direction="DESCENDING")
        num_pieces = tf.size(order)

        def translate(start: tf.Tensor, found: Tensors) -> tuple[tf.Tensor, Tensors]:
            numbers = order[start : start + _PIECES_PER_BATCH]
            rows = tf.gather(pieces.rows, numbers)
            part = (tf.gather(pieces.pieces, numbers),)
            outputs = self._translate_rows(part, *(tf.gather(option, rows) for option in options))
            return start + _PIECES_PER_BATCH, {
                name: tf.tensor_scatter_nd_update(found[name], numbers[:, tf.newaxis], values)
                for name, values in outputs.items()
            }

        nothing = {
            "output": tf.fill([num_pieces], ""),
            "score": tf.zeros([num_pieces]),
            "num_tokens": tf.zeros([num_pieces], tf.int32),
            "is_cut": tf.zeros([num_pieces], tf.bool),
        }
        _, found = tf.while_loop(lambda start, _: start < num_pieces, translate, (0, nothing))
        num_texts = tf.size(texts)

        def total(values: tf.Tensor) -> tf.Tensor:
            return tf.math.unsorted_segment_sum(values, pieces.rows, num_texts)

        num_tokens = tf.cast(found["num_tokens"], tf.float32)
        outputs = {
            "output": pieces.join(found["output"], num_texts),
            # The mean of the pieces' scores, weighted by their numbers of tokens.
            "score": total(found["score"] * num_tokens) / tf.maximum(total(num_tokens), 1.0),
            # A text that is not long is one piece, whose output may end at the limit as without splitting.
            "is_cut": is_long & (total(tf.cast(found["is_cut"], tf.int32)) > 0),
        }
        return _blank_empty_sources(outputs, self._task.is_empty(source))

    def _translate_rows(self, part: Batch, *options: tf.Tensor) -> Tensors:
        """Translate some pieces; a piece whose output has no end token counts as truncated, too."""
        inputs, is_cut = self._model_inputs(part)
        token_ids, scores = self.tokens.find(inputs, *options)
        best_ids = tf.convert_to_tensor(token_ids)[:, 0]  # (p, T)
        outputs = {
            "output": self._target_tokenizer.detokenize(best_ids),
            "score": tf.convert_to_tensor(scores)[:, 0],
            "num_tokens": tf.math.count_nonzero(best_ids != SPECIAL_IDS.pad, axis=1, dtype=tf.int32),
            "is_cut": is_cut | ~tf.reduce_any(best_ids == SPECIAL_IDS.end, axis=1),
        }
        return _blank_empty_sources(outputs, self._task.is_empty(part))


class _SplitLong(_SplitAll):
    """Functions of a translator that splits only texts that are too long."""

    def best(self, source: Batch, *options: tf.Tensor) -> Tensors:
        """Return the best hypothesis of each source. For a long text, join those of its pieces."""
        inputs, is_long = self._model_inputs(source)
        in_pieces = self._translate_in_pieces
        if tf.inside_function():
            # A separate function in the graph. Otherwise TensorFlow visits every operation of this branch,
            # even for a batch without long texts.
            in_pieces = tf.function(in_pieces, autograph=False, experimental_attributes={"_noinline": True})
        return tf.cond(
            tf.reduce_any(is_long),
            lambda: in_pieces(source, is_long, *options),
            lambda: self._best(source, inputs, is_long, *options),
        )


SPLITTING: dict[WhichTexts, type[_StringFunctions]] = {
    "long": _SplitLong,
    "all": _SplitAll,
    "none": _StringFunctions,
}

_SPLITTING_TEXT = """, `serving_default` splits it at the ends
of sentences and at line breaks, and a longer sentence between words. It translates the pieces and joins the
outputs with the white space of the text. The score is then the mean of the pieces' scores, weighted by their
numbers of tokens, and `is_cut` is true if a word, or the output of a piece, was longer than the limits. The
other signatures truncate a long text."""
ABOUT_SPLITTING: dict[WhichTexts, str] = {
    "long": f"If a text is longer{_SPLITTING_TEXT}",
    "all": f"If a text has several sentences{_SPLITTING_TEXT}",
    "none": "",
}
"""Description of the splitting in the README of an export."""
