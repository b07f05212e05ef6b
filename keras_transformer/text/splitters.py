"""Tokenizers of others as functions of a graph: strings to their ids and back."""

import base64
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from keras_transformer.text.normalization import REPLACEMENT_CHARACTER
from keras_transformer.types import SPECIAL_IDS, Config

# What `lower_and_strip_punctuation` of Keras leaves out.
_PUNCTUATION = r'[!"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']'
# Unicode white space, which `\s` of RE2 is not, and the words of GPT-2 between the marks of `_byte_level`.
_SPACES = r"\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}"
_MARK = "\U0010ffff"
_WORDS = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+"
    rf"| ?[^{_SPACES}\p{{L}}\p{{N}}{_MARK}]+|[{_SPACES}]+|{_MARK}"
)
_NO_RANK = 2**31 - 1


class _Splitter(NamedTuple):
    """Another tokenizer as functions of a graph."""

    pieces: list[str]  # of each of its ids
    encode: Callable[[tf.Tensor], tf.RaggedTensor]  # string (b,) to its ids
    decode: Callable[[tf.RaggedTensor], tf.Tensor]  # and back
    resources: list[object]  # what a SavedModel must hold


def _words(description: Config) -> _Splitter:
    vocabulary, standardize = description["vocabulary"], description["standardize"] or ""
    entries = tf.lookup.KeyValueTensorInitializer(vocabulary[1:], tf.range(1, len(vocabulary)))
    table = tf.lookup.StaticHashTable(entries, default_value=1)
    in_words = description["split"] == "whitespace"

    def encode(texts: tf.Tensor) -> tf.RaggedTensor:
        if "lower" in standardize:
            texts = tf.strings.lower(texts)
        if "strip" in standardize:
            texts = tf.strings.regex_replace(texts, _PUNCTUATION, "")
        words = tf.strings.split(texts) if in_words else tf.strings.unicode_split(texts, "UTF-8")
        return words.with_flat_values(table.lookup(words.flat_values))

    def decode(token_ids: tf.RaggedTensor) -> tf.Tensor:
        pieces = tf.gather(tf.constant(vocabulary), token_ids)
        return tf.strings.reduce_join(pieces, axis=-1, separator=" " if in_words else "")

    return _Splitter(vocabulary, encode, decode, [table])


def _byte_pair(description: Config) -> _Splitter:
    # Not by the layer of KerasHub, which AutoGraph cannot trace on Python 3.13.
    pieces = [""] * (1 + max(description["vocabulary"].values()))
    for piece, number in description["vocabulary"].items():
        pieces[number] = piece
    return _byte_level({**description, "pieces": pieces})


def _word_piece(description: Config) -> _Splitter:
    from keras_nlp.tokenizers import WordPieceTokenizer

    options = {name: value for name, value in description.items() if name not in ("kind", "special")}
    layer = WordPieceTokenizer(**options, dtype="int32")
    return _Splitter(list(layer.vocabulary), layer.tokenize, layer.detokenize, [layer])


def _sentence_piece(description: Config) -> _Splitter:
    from keras_nlp.tokenizers import SentencePieceTokenizer

    proto = base64.b64decode(description["proto"], validate=True)
    try:
        layer = SentencePieceTokenizer(proto=proto, dtype="int32")
    except (tf.errors.OpError, RuntimeError) as error:
        received = f"{len(proto)} bytes starting with {proto[:16]!r}"
        raise ValueError(f"`tokenizer` must be a SentencePiece model. Received: {received}.") from error
    resource = getattr(layer, "_sentence_piece", None)
    return _Splitter(list(layer.get_vocabulary()), layer.tokenize, layer.detokenize, [resource])


def _named_pieces(description: Config) -> _Splitter:
    """SentencePiece whose pieces have their ids by name, from a vocabulary of its own."""
    # Not the layer of KerasHub, which joins ids only.
    from tensorflow_text import SentencepieceTokenizer

    model = SentencepieceTokenizer(base64.b64decode(description["proto"], validate=True), out_type=tf.string)
    pieces = description["pieces"]
    table = _numbers_by_name(description)

    def encode(texts: tf.Tensor) -> tf.RaggedTensor:
        if not description["code"]:
            names = model.tokenize(texts)
        else:  # `>>deu<<` at the start of a text is one token
            is_coded = tf.strings.regex_full_match(texts, "(?s)>>.*?<<.*")
            codes = tf.strings.regex_replace(texts, "(?s)^(>>.*?<<).*$", r"\1")
            codes = tf.ragged.boolean_mask(codes[:, tf.newaxis], is_coded[:, tf.newaxis])
            rest = model.tokenize(tf.strings.regex_replace(texts, "(?s)^>>.*?<<", ""))
            names = tf.concat([codes, rest], axis=1)
        return names.with_flat_values(table.lookup(names.flat_values))

    def decode(token_ids: tf.RaggedTensor) -> tf.Tensor:
        texts = model.detokenize(tf.gather(tf.constant(pieces), token_ids))
        # Pieces that this model does not know, of the other language, keep their mark.
        return tf.strings.strip(tf.strings.regex_replace(texts, "\u2581", " "))

    return _Splitter(pieces, encode, decode, [model, table])


def _numbers_by_name(description: Config) -> tf.lookup.StaticHashTable:
    """Map pieces to their ids, and what is none, or never in a text, to the unknown one."""
    pieces, hidden = description["pieces"], {*description["hidden"]}
    numbers = {piece: number for number, piece in enumerate(pieces) if piece not in hidden}
    entries = tf.lookup.KeyValueTensorInitializer(
        tf.constant(list(numbers), tf.string), tf.constant(list(numbers.values()), tf.int32)
    )
    return tf.lookup.StaticHashTable(entries, pieces.index(description["special"][SPECIAL_IDS.unknown][0]))


def _bytes(description: Config) -> _Splitter:
    pieces = description["pieces"]
    offset = pieces.index("\0")

    def encode(texts: tf.Tensor) -> tf.RaggedTensor:
        characters = tf.strings.bytes_split(texts)
        codes = tf.io.decode_raw(characters.flat_values, tf.uint8)
        return characters.with_flat_values(tf.cast(tf.reshape(codes, [-1]), tf.int32) + offset)

    def decode(token_ids: tf.RaggedTensor) -> tf.Tensor:
        characters = tf.gather(tf.constant([bytes([code]) for code in range(256)]), token_ids - offset)
        texts = tf.strings.reduce_join(characters, axis=-1)
        return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore")

    return _Splitter(pieces, encode, decode, [])


def _byte_level(description: Config) -> _Splitter:
    """Byte-pair encoding of bytes as GPT-2 and `tokenizers` have it, which KerasHub's only resembles."""
    from tensorflow_text import regex_split

    pieces, letters = description["pieces"], _byte_letters()
    numbers = {piece: number for number, piece in enumerate(pieces)}
    # Small vocabularies have no token for some bytes, and none for what others would become.
    unknown, base = len(pieces), len(pieces) + 1
    of_byte = tf.constant([numbers.get(letter, unknown) for letter in letters], tf.int32)
    pairs = [merge.split(" ") for merge in description["merges"]]
    pairs = [(left, right) for left, right in pairs if {left, right, left + right} <= numbers.keys()]
    keys = [numbers[left] * base + numbers[right] for left, right in pairs]
    # A pair that is there twice has its first rank.
    ranks = {key: rank for rank, key in reversed([*enumerate(keys)])} or {-1: 0}
    entries = tf.lookup.KeyValueTensorInitializer(
        tf.constant(list(ranks), tf.int64), tf.constant(list(ranks.values()), tf.int32)
    )
    table = tf.lookup.StaticHashTable(entries, _NO_RANK)
    merged = tf.constant([numbers[left + right] for left, right in pairs] or [0], tf.int32)
    codes = {letter: code for code, letter in enumerate(letters)}
    contents = [bytes(codes[letter] for letter in piece if letter in codes) for piece in pieces]

    def encode(texts: tf.Tensor) -> tf.RaggedTensor:
        if description["add_prefix_space"]:
            starts = tf.strings.regex_full_match(texts, "(?s)|[ ].*")
            texts = tf.where(starts, texts, tf.strings.join([" ", texts]))
        # The last space before a word is its own token, or part of the word. For want of a lookahead, a
        # character that Unicode keeps out of texts tells where.
        texts = tf.strings.regex_replace(texts, _MARK, REPLACEMENT_CHARACTER)
        ends = f"([{_SPACES}]+)([{_SPACES}])([^{_SPACES}])"
        words = regex_split(tf.strings.regex_replace(texts, ends, rf"\1{_MARK}\2\3"), _WORDS, f"[^{_MARK}]+")
        characters = tf.strings.bytes_split(words.flat_values)
        bytes_ = tf.cast(tf.reshape(tf.io.decode_raw(characters.flat_values, tf.uint8), [-1]), tf.int32)
        numbers_of_words = tf.cast(characters.value_rowids(), tf.int32)
        ids, rows = _merge_pairs(tf.gather(of_byte, bytes_), numbers_of_words, ranked, merged)
        by_word = tf.RaggedTensor.from_value_rowids(ids, tf.cast(rows, tf.int64), characters.nrows())
        return words.with_flat_values(by_word).merge_dims(1, 2)

    def ranked(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return table.lookup(tf.cast(left, tf.int64) * base + tf.cast(right, tf.int64))

    def decode(token_ids: tf.RaggedTensor) -> tf.Tensor:
        return tf.strings.reduce_join(tf.gather(tf.constant(contents), token_ids), axis=-1)

    return _Splitter(pieces, encode, decode, [table])


def _merge_pairs(
    ids: tf.Tensor, rows: tf.Tensor, ranked: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], merged: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Merge neighbours in a word, least rank first, of ids and the numbers of their words, int32 (n,)."""

    def ranks_of(ids: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        return tf.where(rows[:-1] == rows[1:], ranked(ids[:-1], ids[1:]), _NO_RANK)

    def merge(ids: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        ranks = ranks_of(ids, rows)
        least = tf.math.unsorted_segment_min(ranks, rows[:-1], tf.reduce_max(rows) + 1)
        found = (ranks == tf.gather(least, rows[:-1])) & (ranks < _NO_RANK)
        # Of pairs that overlap, as in "aaa", every second one.
        index = tf.range(tf.size(found))
        is_first = found & ~tf.concat([[False], found[:-1]], axis=0)
        firsts = tf.concat([[0], tf.boolean_mask(index, is_first)], axis=0)
        found &= (index - tf.gather(firsts, tf.cumsum(tf.cast(is_first, tf.int32)))) % 2 == 0
        pairs = tf.where(found, tf.gather(merged, tf.where(found, ranks, 0)), ids[:-1])
        is_left = ~tf.concat([[False], found], axis=0)
        return tf.boolean_mask(tf.concat([pairs, ids[-1:]], axis=0), is_left), tf.boolean_mask(rows, is_left)

    shapes = (tf.TensorShape([None]), tf.TensorShape([None]))
    found: tuple[tf.Tensor, tf.Tensor] = tf.while_loop(
        lambda ids, rows: tf.reduce_any(ranks_of(ids, rows) < _NO_RANK), merge, (ids, rows), shapes
    )
    return found


def _byte_letters() -> list[str]:
    """Return the letter that stands for each byte in the pieces of GPT-2: none is a space."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [code for code in range(256) if code not in visible]
    return [chr(code if code in visible else 256 + others.index(code)) for code in range(256)]


_SPLITTERS: dict[str, Callable[[Config], _Splitter]] = {
    "words": _words,
    "byte_pair": _byte_pair,
    "word_piece": _word_piece,
    "sentence_piece": _sentence_piece,
    "named_pieces": _named_pieces,
    "bytes": _bytes,
    "byte_level": _byte_level,
}
