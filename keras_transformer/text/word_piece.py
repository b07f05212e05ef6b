"""WordPiece tokenizer with BERT's rules for splitting words."""

import dataclasses
from typing import ClassVar

import tensorflow as tf

from keras_transformer.text.adapted_tokenizer import AdaptedTokenizer
from keras_transformer.text.normalization import _lower
from keras_transformer.types import SPECIAL_IDS

_SPACES = r"[\t\n\r\p{Z}]+"
# The package `tokenizers` uses the tables of Unicode 8. These characters are newer members of `\p{Cf}` and
# `\p{P}`; two other characters are punctuation only there.
_NO_CONTROL = r"\x{890}\x{891}\x{8E2}\x{110CD}\x{13430}-\x{1343F}"
_NO_PUNCTUATION = (
    r"\x{61D}\x{9FD}\x{A76}\x{C77}\x{C84}\x{1B7D}\x{1B7E}\x{2E43}-\x{2E4F}\x{2E52}-\x{2E5D}\x{10EAD}"
    r"\x{10F55}-\x{10F59}\x{10F86}-\x{10F89}\x{1144B}-\x{1144F}\x{1145A}-\x{1145D}\x{11660}-\x{1166C}\x{116B9}"
    r"\x{1183B}\x{11944}-\x{11946}\x{119E2}\x{11A3F}-\x{11A46}\x{11A9A}-\x{11A9C}\x{11A9E}-\x{11AA2}"
    r"\x{11B00}-\x{11B09}\x{11C41}-\x{11C45}\x{11C70}\x{11C71}\x{11EF7}\x{11EF8}\x{11F43}-\x{11F4F}\x{11FFF}"
    r"\x{12FF1}\x{12FF2}\x{16E97}-\x{16E9A}\x{16FE2}\x{1E95E}\x{1E95F}"
)
_CONTROL = rf"[\x00-\x08\x0B\x0C\x0E-\x1F\x7F-\x{{9F}}\x{{FFFD}}\p{{Co}}]|[^\P{{Cf}}{_NO_CONTROL}]"
_PUNCTUATION = rf"[!-/:-@\[-`{{-~\x{{166D}}\x{{111C9}}]|[^\P{{P}}{_NO_PUNCTUATION}]"
_CJK = (
    r"[\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FAFF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B81F}"
    r"\x{2B920}-\x{2CEAF}\x{2F800}-\x{2FA1F}]"
)
_MAX_CHARACTERS = 100  # longer words become the unknown token


class BertTokenizer(AdaptedTokenizer):
    """WordPiece tokenizer of BERT, compatible with the package `tokenizers`.

    For characters added to Unicode since 2016, lower-casing and accent removal may have no effect.
    """

    kind: ClassVar[str] = "bert"

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Spec(AdaptedTokenizer.Spec):
        """Vocabulary and normalization options. A piece that begins with `##` continues a word."""

        lowercase: bool = True
        strip_accents: bool = True
        split_on_cjk: bool = True
        """Whether to treat each Chinese character as a word."""

    spec: Spec

    def create_resources(self) -> None:
        """Create the table of pieces."""
        from tensorflow_text import FastWordpieceTokenizer

        unknown = self.spec.special[SPECIAL_IDS.unknown][0]
        # `split` handles longer words. A character has at most four bytes.
        self._model = FastWordpieceTokenizer(
            [*self.spec.pieces],
            unknown_token=unknown,
            max_bytes_per_word=4 * _MAX_CHARACTERS,
            token_out_type=tf.int32,
            no_pretokenization=True,
        )
        self._unknown = self.spec.pieces.index(unknown)

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Clean texts, split them into words, and split words into pieces."""
        from tensorflow_text import normalize_utf8, regex_split

        texts = tf.strings.regex_replace(texts, _CONTROL, "")
        if self.spec.split_on_cjk:
            texts = tf.strings.regex_replace(texts, _CJK, r" \0 ")
        if self.spec.strip_accents:
            texts = tf.strings.regex_replace(normalize_utf8(texts, "NFD"), r"\p{Mn}", "")
        if self.spec.lowercase:
            # BERT lower-cases letter by letter, without the special form of sigma at the end of a word.
            texts = _lower(tf.strings.regex_replace(texts, "Σ", "\N{GREEK SMALL LETTER SIGMA}"))
        words = regex_split(texts, rf"{_SPACES}|{_PUNCTUATION}", _PUNCTUATION)
        is_long = tf.strings.length(words.flat_values, unit="UTF8_CHAR") > _MAX_CHARACTERS
        pieces = self._model.tokenize(tf.where(is_long, "", words.flat_values))
        unknown = tf.ragged.boolean_mask(
            tf.fill([tf.size(is_long), 1], self._unknown), is_long[:, tf.newaxis]
        )
        return words.with_flat_values(tf.concat([pieces, unknown], axis=1)).merge_dims(1, 2)

    def join(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        """Join pieces into words, separated by spaces."""
        texts = tf.strings.reduce_join(
            tf.gather(tf.constant(self.spec.pieces), token_ids), axis=-1, separator=" "
        )
        return tf.strings.regex_replace(texts, " ##", "")
