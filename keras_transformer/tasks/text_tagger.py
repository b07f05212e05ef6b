"""Token classification (tagging): an encoder with one output per tag for each token, and a tokenizer."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_transformer._arguments import as_labels, check_flags, check_kind
from keras_transformer.data import tag_spans
from keras_transformer.tasks.predictions import PredictionTask
from keras_transformer.tasks.results import ServedSignature
from keras_transformer.tasks.task import Task
from keras_transformer.text import Tokenizer, encode_words, split_words
from keras_transformer.types import Progress, Signature, Value

# Tokenizers read no more of a text than this.
_MAX_BYTES = 2**18


class TextSpan(NamedTuple):
    """Labelled part of a text: `text[start:end]`."""

    label: str
    """Tag without its prefix, such as `PER`."""
    start: int
    """Index of the first character, from 0."""
    end: int
    """Index after the last character."""
    probability: float
    """Lowest probability of the tags in the span."""


@dataclasses.dataclass(frozen=True, eq=False)
class Tagging:
    """Words of a text and their predicted tags."""

    tokens: tuple[str, ...]
    """The words. Punctuation is separate from words, unless `split_punctuation` is False."""
    tags: tuple[str, ...]
    """The most probable tag of each word."""
    probabilities: np.ndarray
    """Probability of each tag in `tags`, float32."""
    offsets: tuple[tuple[int, int], ...]
    """Character offsets `(start, end)` of each word: the word is `text[start:end]`."""

    @property
    def spans(self) -> tuple[TextSpan, ...]:
        """Spans of the BIO tags, such as names; see `data.tag_spans`. Empty for tags without prefixes."""
        return tuple(
            TextSpan(
                span.label,
                self.offsets[span.start][0],
                self.offsets[span.end - 1][1],
                float(self.probabilities[span.start : span.end].min()),
            )
            for span in tag_spans(self.tags)
        )


def _tagging(
    tokens: np.ndarray, tags: np.ndarray, probabilities: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> Tagging:
    # Padding is empty strings; a word is never empty.
    size = int(np.count_nonzero(tokens != b""))
    words, names = (tuple(each.decode("utf-8") for each in side[:size]) for side in (tokens, tags))
    places = zip(starts[:size].tolist(), ends[:size].tolist(), strict=True)
    return Tagging(words, names, probabilities[:size], tuple(places))


class Tagger(Task):
    """Base class of `TextTagger` and `export.ServedTagger`."""

    signatures: ClassVar[Mapping[Signature, ServedSignature]] = {
        "serving_default": ServedSignature(
            {},
            {
                "tokens": ("string", 2),
                "tags": ("string", 2),
                "probabilities": ("float32", 2),
                "starts": ("int32", 2),
                "ends": ("int32", 2),
            },
            _tagging,
        )
    }
    noun: ClassVar[str] = "tagger"

    def tag(self, texts: Iterable[Value], batch_size: int = 64, progress: Progress | None = None) -> Any:
        """Tag the words of one text or several.

        Args:
            texts: A string, or strings in a list, an array, a TensorFlow tensor or a dataset.
            batch_size: Number of texts to compute together.
            progress: Called after each batch with the number of its texts.

        Returns:
            A `Tagging` for each text, in the same order, or one for a single string. An empty text, or one of
            white space, has no words.

        Raises:
            TypeError: If `texts` contains something else.

        Warns:
            TruncationWarning: Once, if texts were too long.
        """
        results: Tagging | list[Tagging] = self._answer(texts, batch_size, progress)
        return results


class TextTagger(PredictionTask, Tagger):
    """Word tagger, for example for named entity recognition: a trained encoder, its tokenizer and the tags.

    `text.split_words` splits a text at white space, and splits off punctuation and symbols before and after a
    word. If a language does not separate words by spaces, insert spaces first. A word gets the tag that the
    model predicts for its first token, as in `data.tagging_dataset`. A text is truncated to `max_length`
    tokens; then the call warns once with a `TruncationWarning`.

    Args:
        model: A model with weights that returns a logit for each tag at each position, `(b, s, c)`, such as
            `EncoderModel(v, c)` or another Keras model that reads token ids.
        tokenizer: Tokenizer of the training texts.
        tags: Names of the tags, in the order of the model's outputs.
        max_length: Maximum number of tokens, including the end token. A value above the model's number of
            learned positions is reduced to that number. Defaults to 256.
        split_punctuation: Whether to separate punctuation from words. Pass False for texts whose tokens are
            already separated by spaces, such as those of CoNLL files. Defaults to True.

    Raises:
        ValueError: If the vocabulary does not have the model's size, there are fewer than two tags, a tag
            occurs twice, the model does not have one output per tag, or `max_length` is below 2.
        TypeError: If the model is not a Keras model, or a tag is not a string.

    Example:
        ```python
        tagger = kt.TextTagger(model, tokenizer, tags=["O", "B-LOC", "I-LOC"])
        text = "She lives in New York."
        [text[span.start : span.end] for span in tagger.tag(text).spans]
        ```
    """

    options_file: ClassVar[str] = "tagger.json"
    option_types: ClassVar[dict[str, Any]] = {"tags": tuple[str, ...], "split_punctuation": bool}
    readme_template: ClassVar[str] = "text_tagger.md"

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        tags: Sequence[str],
        *,
        max_length: int = 256,
        split_punctuation: bool = True,
    ) -> None:
        check_kind(Tokenizer, tokenizer=tokenizer)
        check_flags(split_punctuation=split_punctuation)
        self.tags, self.split_punctuation = as_labels(tags=tags), split_punctuation
        shape = None, None, len(self.tags)
        super().__init__(model, tokenizer, max_length, shape, "tag at each position, (b, s, c)")

    def string_functions(self, tokens: Any) -> dict[Signature, Callable[..., dict[str, tf.Tensor]]]:
        """Return the function of the signature; it calls `tokens.predict`, compiled or traced, for logits."""
        names, tokenizer = tf.constant(self.tags), self.tokenizer
        split_punctuation, max_length = self.split_punctuation, self.max_length

        def tag(texts: tf.Tensor, *_: object) -> dict[str, tf.Tensor]:
            is_long = tf.strings.length(texts) > _MAX_BYTES
            found = split_words(tf.strings.substr(texts, 0, _MAX_BYTES), split_punctuation=split_punctuation)
            token_ids, first_pieces, is_cut = encode_words(tokenizer, found.words, max_length)
            logits = tf.convert_to_tensor(tokens.predict((token_ids,)))  # (b, s, c)
            is_word = tf.sequence_mask(first_pieces.row_lengths())  # (b, w)
            logits = tf.gather(logits, first_pieces.to_tensor(), batch_dims=1)  # (b, w, c)
            words, starts, ends = (each.to_tensor()[:, : tf.shape(is_word)[1]] for each in found)
            best = tf.argmax(logits, axis=-1, output_type=tf.int32)
            return {
                "tokens": tf.where(is_word, words, ""),
                "tags": tf.where(is_word, tf.gather(names, best), ""),
                "probabilities": tf.where(is_word, tf.reduce_max(tf.nn.softmax(logits), axis=-1), 0.0),
                "starts": tf.where(is_word, starts, 0),
                "ends": tf.where(is_word, ends, 0),
                "is_cut": is_cut | is_long,
            }

        return {"serving_default": tag}
