"""Base class of the adapters for tokenizers of other libraries."""

import abc
import dataclasses
import json
import re
from typing import ClassVar, Self

import numpy as np
import tensorflow as tf

from keras_transformer._files import read_table
from keras_transformer.errors import InputError
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS


class AdaptedTokenizer(Tokenizer):
    """Base class for tokenizers of other libraries, renumbered to `SPECIAL_IDS`.

    A subclass adds its options as fields of `Spec` and implements `create_resources`, `split` and `join`.
    These work with the ids of the original vocabulary; this class converts them.

    Args:
        spec: Vocabulary and options of the original tokenizer. Saved as JSON.

    Raises:
        ValueError: If a token that `spec` names is not in the vocabulary.
    """

    vocabulary_file: ClassVar[str] = "vocabulary.json"
    option_names: ClassVar[tuple[str, ...]] = ()
    needs_tensorflow_text = True

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Spec:
        """Vocabulary of the original tokenizer, and the tokens that its model expects around a text."""

        pieces: tuple[str, ...]
        """Tokens of the original vocabulary, in the order of their ids."""
        special: tuple[tuple[str, ...], ...]
        """Original names of the padding, unknown, start and end tokens, in this order."""
        hidden: tuple[str, ...] = ()
        """Tokens that `detokenize` omits."""
        prefix: tuple[str, ...] = ()
        """Tokens put before every text, such as a language token."""
        suffix: tuple[str, ...] = ()
        """Tokens put after the end token of every source."""
        start: str | None = None
        """Token that decoding starts with. Defaults to the start token in `special`."""
        split_tokens: tuple[str, ...] = ()
        """Added tokens. They are recognized in a text before the text between them is split."""
        special_in_text: tuple[str, ...] = ()
        """Special tokens that are recognized in a text, such as `[MASK]`. All others are read as text."""
        stripped: tuple[str, ...] = ()
        """Tokens of `split_tokens` and `special_in_text` that absorb the white space before them."""

    def __init__(self, spec: Spec) -> None:
        # `Spec` is a dataclass of tuples: TensorFlow would track every entry of a list.
        self.spec, pieces = spec, spec.pieces
        special = {
            piece: own for own, names in zip(SPECIAL_IDS, spec.special, strict=True) for piece in names
        }
        regular = [number for number, piece in enumerate(pieces) if piece not in special]
        super().__init__([*SPECIAL_TOKENS, *(pieces[number] for number in regular)])
        new_ids = [special.get(piece, SPECIAL_IDS.unknown) for piece in pieces]
        for new_id, number in enumerate(regular, len(SPECIAL_TOKENS)):
            new_ids[number] = new_id
        self._new_ids = tf.constant(new_ids, tf.int32)
        in_text = {SPECIAL_IDS.unknown, *(new_ids[pieces.index(piece)] for piece in spec.special_in_text)}
        self._is_kept = tf.constant([own in in_text for own in SPECIAL_IDS] + [True] * len(regular))
        self._old_ids = tf.constant([0] * len(SPECIAL_TOKENS) + regular, tf.int32)
        first = {special.get(piece): number for number, piece in reversed([*enumerate(pieces)])}
        self.original_ids = np.array([*(first.get(own, -1) for own in SPECIAL_IDS), *regular])
        hidden = {*spec.hidden}
        self._is_text = tf.constant([pieces[number] not in hidden for number in self.original_ids])
        self.prefix_ids = tuple(new_ids[pieces.index(piece)] for piece in spec.prefix)
        self.end_ids += tuple(new_ids[pieces.index(piece)] for piece in spec.suffix)
        if spec.start is not None:
            self.original_ids[SPECIAL_IDS.start] = pieces.index(spec.start)
        self._compile()

    @abc.abstractmethod
    def create_resources(self) -> None:
        """Create the TensorFlow resources that `split` and `join` use, as attributes."""

    @abc.abstractmethod
    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Convert strings `(b,)` to ids of the original vocabulary, integers `(b, ragged)`, in a graph."""

    @abc.abstractmethod
    def join(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        """Convert ids of the original vocabulary, int32 `(b, ragged)`, to strings `(b,)`."""

    def _compile(self) -> None:
        self.create_resources()
        has_tokens = self.spec.split_tokens or self.spec.special_in_text
        split = self._split_between if has_tokens else self.split
        # Compiled, because eager KerasHub tokenizers run a different implementation, in Python.
        self._split = tf.function(split, input_signature=[tf.TensorSpec([None], tf.string)])
        spec = tf.RaggedTensorSpec([None, None], tf.int32)
        self._join = tf.function(self.join, input_signature=[spec])

    def _split_between(self, texts: tf.Tensor) -> tf.RaggedTensor:
        from tensorflow_text import regex_split

        # The longest first: the regular expression takes the first alternative that matches.
        names = sorted((*self.spec.split_tokens, *self.spec.special_in_text), key=len, reverse=True)
        pattern = "|".join(map(re.escape, names))
        for name in self.spec.stripped:
            texts = tf.strings.regex_replace(texts, rf"[\s\v\x{{85}}\p{{Z}}]+({re.escape(name)})", r"\1")
        parts = regex_split(texts, pattern, pattern)
        is_token = tf.strings.regex_full_match(parts.flat_values, pattern)
        numbers = tf.constant([self.spec.pieces.index(name) for name in names])
        found = tf.argmax(parts.flat_values[:, tf.newaxis] == tf.constant(names), axis=1)
        tokens = tf.ragged.boolean_mask(tf.gather(numbers, found)[:, tf.newaxis], is_token[:, tf.newaxis])
        others = tf.cast(self.split(tf.where(is_token, "", parts.flat_values)), tf.int32)
        return parts.with_flat_values(tf.concat([tokens, others], axis=1)).merge_dims(1, 2)

    def _encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        self._reload_if_lost()
        split_ids = tf.cast(self._split(texts), tf.int32)
        known = (split_ids.flat_values >= 0) & (split_ids.flat_values < tf.size(self._new_ids))
        new_ids = tf.gather(self._new_ids, tf.where(known, split_ids.flat_values, 0))
        ids = split_ids.with_flat_values(tf.where(known, new_ids, SPECIAL_IDS.unknown))
        ids = tf.ragged.boolean_mask(ids, ids.with_flat_values(tf.gather(self._is_kept, ids.flat_values)))
        if not self.prefix_ids:
            return ids
        prefix = tf.tile(tf.constant([self.prefix_ids], tf.int32), [ids.nrows(), 1])
        return tf.concat([tf.RaggedTensor.from_tensor(prefix), ids], axis=1)

    def _decode(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        self._reload_if_lost()
        is_text = tf.gather(self._is_text, token_ids.flat_values)
        token_ids = tf.ragged.boolean_mask(token_ids, token_ids.with_flat_values(is_text))
        texts = self._join(token_ids.with_flat_values(tf.gather(self._old_ids, token_ids.flat_values)))
        # Byte tokens may join to invalid UTF-8.
        return tf.strings.unicode_transcode(
            tf.ensure_shape(texts, [None]), "UTF-8", "UTF-8", errors="replace"
        )

    def _reload_if_lost(self) -> None:
        """Reload the model if TensorFlow has dropped it; see `SubwordTokenizer._reload_if_lost`."""
        with tf.init_scope():
            try:
                self._split(tf.constant([""]))
            except tf.errors.NotFoundError:
                self._compile()

    def _vocabulary_bytes(self) -> bytes:
        fields = dataclasses.asdict(self.spec)
        # Omitted if empty, so that tokenizers saved before these fields existed keep their fingerprint.
        for name in ("split_tokens", "special_in_text", "stripped", "has_spaces"):
            if not fields.get(name, True):
                del fields[name]
        return json.dumps(fields).encode()

    @classmethod
    def _restore(cls, vocabulary: bytes, options: dict[str, bool]) -> Self:
        try:
            return cls(read_table(vocabulary, "It", cls.Spec), **options)
        except InputError as error:
            raise ValueError(f"It must describe a tokenizer. {error}") from error
