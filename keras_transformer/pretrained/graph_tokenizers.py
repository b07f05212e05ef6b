"""TensorFlow tokenizers of pretrained models: SentencePiece with a separate vocabulary, and bytes."""

import base64
import dataclasses
from typing import ClassVar

import tensorflow as tf

from keras_transformer.text import AdaptedTokenizer
from keras_transformer.types import SPECIAL_IDS


class _NamedPieceTokenizer(AdaptedTokenizer):
    """SentencePiece tokenizer whose ids come from a separate vocabulary."""

    kind: ClassVar[str] = "named_pieces"

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Spec(AdaptedTokenizer.Spec):
        """Vocabulary and SentencePiece model."""

        proto: str
        """SentencePiece model in Base64."""
        has_spaces: bool = False
        """Whether all white space counts as a space. Otherwise the model decides."""
        has_codes: bool = False
        """Whether a language code such as `>>deu<<` at the start of a text is one token."""

    spec: Spec

    def create_resources(self) -> None:
        # Not KerasHub's layer, which decodes only ids.
        from tensorflow_text import SentencepieceTokenizer

        pieces, hidden = self.spec.pieces, {*self.spec.hidden}
        self._model = SentencepieceTokenizer(base64.b64decode(self.spec.proto), out_type=tf.string)
        numbers = {piece: number for number, piece in enumerate(pieces) if piece not in hidden}
        entries = tf.lookup.KeyValueTensorInitializer(
            tf.constant(list(numbers), tf.string), tf.constant(list(numbers.values()), tf.int32)
        )
        # All other pieces, and hidden ones, are unknown.
        unknown = pieces.index(self.spec.special[SPECIAL_IDS.unknown][0])
        self._ids_by_piece = tf.lookup.StaticHashTable(entries, unknown)

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        if self.spec.has_spaces:
            texts = tf.strings.regex_replace(texts, r"[\t-\r\x{85}\x{2581}\p{Z}]", " ")
        if not self.spec.has_codes:
            names = self._model.tokenize(texts)
        else:
            is_coded = tf.strings.regex_full_match(texts, "(?s)>>.*?<<.*")
            codes = tf.strings.regex_replace(texts, "(?s)^(>>.*?<<).*$", r"\1")
            codes = tf.ragged.boolean_mask(codes[:, tf.newaxis], is_coded[:, tf.newaxis])
            rest = self._model.tokenize(tf.strings.regex_replace(texts, "(?s)^>>.*?<<", ""))
            names = tf.concat([codes, rest], axis=1)
        return names.with_flat_values(self._ids_by_piece.lookup(names.flat_values))

    def join(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        texts = self._model.detokenize(tf.gather(tf.constant(self.spec.pieces), token_ids))
        # Pieces that this model does not know (of the other language) keep their space symbol.
        return tf.strings.strip(tf.strings.regex_replace(texts, "\u2581", " "))


class _ByteTokenizer(AdaptedTokenizer):
    """Tokenizer of bytes with consecutive ids."""

    kind: ClassVar[str] = "bytes"
    needs_tensorflow_text = False

    def create_resources(self) -> None:
        self._offset = self.spec.pieces.index("\0")

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        characters = tf.strings.bytes_split(texts)
        codes = tf.io.decode_raw(characters.flat_values, tf.uint8)
        return characters.with_flat_values(tf.cast(tf.reshape(codes, [-1]), tf.int32) + self._offset)

    def join(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        letters = tf.constant([bytes([code]) for code in range(256)])
        texts = tf.strings.reduce_join(tf.gather(letters, token_ids - self._offset), axis=-1)
        return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore")
