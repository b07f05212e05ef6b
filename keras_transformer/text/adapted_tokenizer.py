"""The base of adapters: a tokenizer of another library, renumbered to this package's special ids."""

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
    """A tokenizer of another library, renumbered to this package's special ids.

    A subclass adds the fields that it splits by to `Spec`, and implements `load`, `split` and `join`.

    Args:
        spec: What the tokenizer consists of; its fields are saved as JSON.

    Raises:
        ValueError: If a token that the specification names is not in the vocabulary.
    """

    vocabulary_file: ClassVar[str] = "vocabulary.json"
    option_names: ClassVar[tuple[str, ...]] = ()
    needs_tensorflow_text = True

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Spec:
        """The vocabulary of the other tokenizer, and what the model wants around a text."""

        pieces: tuple[str, ...]
        """The token of each id."""
        special: tuple[tuple[str, ...], ...]
        """Its names of padding, unknown, start and end."""
        hidden: tuple[str, ...] = ()
        """Tokens that are left out of a joined text."""
        prefix: tuple[str, ...] = ()
        """Tokens in front of every text, such as its language."""
        suffix: tuple[str, ...] = ()
        """Tokens after the end of every source."""
        start: str | None = None
        """What decoding starts from, if it is a token of its own too."""
        split_tokens: tuple[str, ...] = ()
        """Tokens that are added to the vocabulary: where a text has one, its parts are split one by one."""
        special_in_text: tuple[str, ...] = ()
        """Special tokens that are read from a text likewise, such as `[MASK]`; others are text there."""
        stripped: tuple[str, ...] = ()
        """Those of both kinds that take the spaces before them."""

    def __init__(self, spec: Spec) -> None:
        # A dataclass: TensorFlow would track every entry of a list.
        self.spec, pieces = spec, spec.pieces
        special = {
            piece: own for own, names in zip(SPECIAL_IDS, spec.special, strict=True) for piece in names
        }
        regular = [number for number, piece in enumerate(pieces) if piece not in special]
        super().__init__([*SPECIAL_TOKENS, *(pieces[number] for number in regular)])
        ours = [special.get(piece, SPECIAL_IDS.unknown) for piece in pieces]
        for new_id, number in enumerate(regular, len(SPECIAL_TOKENS)):
            ours[number] = new_id
        self._ours = tf.constant(ours, tf.int32)
        in_text = {SPECIAL_IDS.unknown, *(ours[pieces.index(piece)] for piece in spec.special_in_text)}
        self._is_kept = tf.constant([own in in_text for own in SPECIAL_IDS] + [True] * len(regular))
        self._theirs = tf.constant([0] * len(SPECIAL_TOKENS) + regular, tf.int32)
        first = {special.get(piece): number for number, piece in reversed([*enumerate(pieces)])}
        self.original_ids = np.array([*(first.get(own, -1) for own in SPECIAL_IDS), *regular])
        hidden = {*spec.hidden}
        self._is_text = tf.constant([pieces[number] not in hidden for number in self.original_ids])
        self.prefix_ids = tuple(ours[pieces.index(piece)] for piece in spec.prefix)
        self.end_ids += tuple(ours[pieces.index(piece)] for piece in spec.suffix)
        if spec.start is not None:
            self.original_ids[SPECIAL_IDS.start] = pieces.index(spec.start)
        self._compile()

    @abc.abstractmethod
    def load(self) -> None:
        """Make the resources of TensorFlow that `split` and `join` use, as attributes."""

    @abc.abstractmethod
    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Map strings `(b,)` to ids of the other vocabulary, integers `(b, ragged)`, in a graph."""

    @abc.abstractmethod
    def join(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        """Map ids of the other vocabulary, int32 `(b, ragged)`, to strings `(b,)`."""

    def _compile(self) -> None:
        self.load()
        has_tokens = self.spec.split_tokens or self.spec.special_in_text
        split = self._split_between if has_tokens else self.split
        # Compiled, since KerasHub takes another path, in Python, where there is no graph.
        self._split = tf.function(split, input_signature=[tf.TensorSpec([None], tf.string)])
        spec = tf.RaggedTensorSpec([None, None], tf.int32)
        self._join = tf.function(self.join, input_signature=[spec])

    def _split_between(self, texts: tf.Tensor) -> tf.RaggedTensor:
        from tensorflow_text import regex_split

        # The longest of those that begin at one place.
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
        self._revive()
        theirs = tf.cast(self._split(texts), tf.int32)
        known = (theirs.flat_values >= 0) & (theirs.flat_values < tf.size(self._ours))
        ours = tf.gather(self._ours, tf.where(known, theirs.flat_values, 0))
        ids = theirs.with_flat_values(tf.where(known, ours, SPECIAL_IDS.unknown))
        ids = tf.ragged.boolean_mask(ids, ids.with_flat_values(tf.gather(self._is_kept, ids.flat_values)))
        if not self.prefix_ids:
            return ids
        prefix = tf.tile(tf.constant([self.prefix_ids], tf.int32), [ids.nrows(), 1])
        return tf.concat([tf.RaggedTensor.from_tensor(prefix), ids], axis=1)

    def _decode(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        self._revive()
        is_text = tf.gather(self._is_text, token_ids.flat_values)
        token_ids = tf.ragged.boolean_mask(token_ids, token_ids.with_flat_values(is_text))
        texts = self._join(token_ids.with_flat_values(tf.gather(self._theirs, token_ids.flat_values)))
        # Tokens of bytes may join to what is no UTF-8.
        return tf.strings.unicode_transcode(
            tf.ensure_shape(texts, [None]), "UTF-8", "UTF-8", errors="replace"
        )

    def _revive(self) -> None:
        """Load the model again if TensorFlow has lost it, as `SubwordTokenizer` does."""
        with tf.init_scope():
            try:
                self._split(tf.constant([""]))
            except tf.errors.NotFoundError:
                self._compile()

    def _vocabulary_bytes(self) -> bytes:
        fields = dataclasses.asdict(self.spec)
        # Without them the bytes, and so the fingerprint, are those of before there were any.
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
