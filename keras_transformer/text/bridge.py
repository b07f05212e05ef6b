"""Tokenizers that are there already, of Keras, KerasHub, SentencePiece, with our ids."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Self

import keras
import numpy as np
import tensorflow as tf

from keras_transformer._files import read_file
from keras_transformer.text.splitters import _SPLITTERS, _Splitter
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.text.written_tokenizers import _subword_files
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS, Config

# How others name what this package calls padding, unknown, start and end.
_NAMES = (
    ("[PAD]", "<pad>", "<|pad|>", ""),
    ("[UNK]", "<unk>"),
    ("[START]", "[start]", "<s>", "<bos>", "[BOS]", "[CLS]"),
    ("[END]", "[end]", "</s>", "<eos>", "[EOS]", "[SEP]", "<|endoftext|>"),
)
_ATTRIBUTES = ("pad_token", "oov_token", "start_token", "end_token")  # of tokenizers of KerasHub


def as_tokenizer(tokenizer: object) -> Tokenizer:
    """Make a tokenizer of this package from one that is there already.

    It splits and joins texts as the other does, in the graph, so that it trains, is saved, read by
    `load_tokenizer` and exported as all others here. **The ids are other ones**: `SPECIAL_IDS` come first,
    then the pieces of the other vocabulary in their order without its own special tokens, so that models,
    masks and searches need not know. Special tokens are never read from a text: `[start]` and `[end]`, which
    a script puts around its texts, are left out, and the data pipeline adds those of this package.

    Args:
        tokenizer: one of

            - `keras.layers.TextVectorization`, adapted or with a vocabulary, that splits into words or
              characters;
            - `BytePairTokenizer`, `WordPieceTokenizer` or `SentencePieceTokenizer` of KerasHub, or a class
              made of one of them, as `GPT2Tokenizer`; byte pairs are split as by GPT-2, which differs from
              KerasHub at rare digits and spaces;
            - the path of a SentencePiece model (`.model`, `.spm`), or its bytes.

    Returns:
        The tokenizer.

    Raises:
        InputError: If a file cannot be read.
        TypeError: If it is something else.
        ValueError: If it has no vocabulary, or splits in a way that has no counterpart in a graph.

    Example:
        >>> import keras
        >>> layer = keras.layers.TextVectorization(vocabulary=["a", "dog", "runs"])
        >>> tokenizer = as_tokenizer(layer)
        >>> tokenizer.tokenize(["A dog barks."]).to_list()
        [[4, 5, 1]]
        >>> tokenizer.detokenize([[5, 6, 3]]).numpy()
        array([b'dog runs'], dtype=object)
    """
    if isinstance(tokenizer, str | Path | bytes):
        proto = tokenizer if isinstance(tokenizer, bytes) else read_file(Path(tokenizer))
        return _described("sentence_piece", tokenizer, proto=base64.b64encode(proto).decode())
    classes = {base.__name__ for base in type(tokenizer).__mro__}
    for name, (kind, describe) in _DESCRIBED.items():
        if name in classes:
            return _described(kind, tokenizer, **describe(tokenizer))
    raise TypeError(
        f"`tokenizer` must be one of {sorted(_DESCRIBED)}, or the path or bytes of a SentencePiece model. "
        f"Received: a {type(tokenizer).__name__}."
    )


class _BridgedTokenizer(Tokenizer):
    """Another tokenizer, whose ids are mapped."""

    kind: ClassVar[str] = "bridged"
    vocabulary_file: ClassVar[str] = "vocabulary.json"
    option_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, description: Config) -> None:
        splitter = _SPLITTERS[description["kind"]](description)
        special = {
            piece: SPECIAL_IDS[at] for at, names in enumerate(description["special"]) for piece in names
        }
        regular = [number for number, piece in enumerate(splitter.pieces) if piece not in special]
        super().__init__([*SPECIAL_TOKENS, *(splitter.pieces[number] for number in regular)])
        ours = [special.get(piece, SPECIAL_IDS.unknown) for piece in splitter.pieces]
        for new_id, number in enumerate(regular, len(SPECIAL_TOKENS)):
            ours[number] = new_id
        self._ours = tf.constant(ours, tf.int32)
        firsts = {special.get(piece): number for number, piece in reversed([*enumerate(splitter.pieces)])}
        self.original_ids = np.array([*(firsts.get(own, -1) for own in SPECIAL_IDS), *regular])
        self._theirs = tf.constant([0] * len(SPECIAL_TOKENS) + regular, tf.int32)
        # Pieces that are never text: the language, say.
        hidden = {*description.get("hidden", ())}
        self._is_text = tf.constant([splitter.pieces[number] not in hidden for number in self.original_ids])
        self.prefix_ids = tuple(ours[splitter.pieces.index(piece)] for piece in description.get("prefix", ()))
        self.end_ids += tuple(ours[splitter.pieces.index(piece)] for piece in description.get("suffix", ()))
        if "start" in description:  # what decoding starts from, besides being a token of its own
            self.original_ids[SPECIAL_IDS.start] = splitter.pieces.index(description["start"])
        # Bytes: TensorFlow would track every entry of a list.
        self._content = json.dumps(description).encode()
        self.needs_tensorflow_text = description["kind"] != "words"
        self._use(splitter)

    def _use(self, splitter: _Splitter) -> None:
        self._resources = splitter.resources
        # Compiled, since KerasHub takes another path, in Python, where there is no graph.
        self._split = tf.function(splitter.encode, input_signature=[tf.TensorSpec([None], tf.string)])
        spec = tf.RaggedTensorSpec([None, None], tf.int32)
        self._join = tf.function(splitter.decode, input_signature=[spec])

    def _encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        self._revive()
        theirs = tf.cast(self._split(texts), tf.int32)
        known = (theirs.flat_values >= 0) & (theirs.flat_values < tf.size(self._ours))
        ours = tf.gather(self._ours, tf.where(known, theirs.flat_values, 0))
        ids = theirs.with_flat_values(tf.where(known, ours, SPECIAL_IDS.unknown))
        ids = tf.ragged.boolean_mask(ids, (ids >= len(SPECIAL_TOKENS)) | (ids == SPECIAL_IDS.unknown))
        if not self.prefix_ids:
            return ids
        prefix = tf.tile(tf.constant([self.prefix_ids], tf.int32), [ids.nrows(), 1])
        return tf.concat([tf.RaggedTensor.from_tensor(prefix), ids], axis=1)

    def _decode(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        self._revive()
        token_ids = tf.ragged.boolean_mask(
            token_ids, token_ids.with_flat_values(tf.gather(self._is_text, token_ids.flat_values))
        )
        texts = self._join(token_ids.with_flat_values(tf.gather(self._theirs, token_ids.flat_values)))
        # Tokens of bytes may join to what is no UTF-8.
        return tf.strings.unicode_transcode(
            tf.ensure_shape(texts, [None]), "UTF-8", "UTF-8", errors="replace"
        )

    def _description(self) -> Config:
        description: Config = json.loads(self._content)
        # Those of `read_hugging_face_tokenizers`, which have the special tokens of their models.
        return {"prefix": (), **description} if "hidden" in description else {}

    def _hugging_face_files(
        self, target: Tokenizer, token_ids: tuple[np.ndarray, np.ndarray], max_length: int
    ) -> dict[str, bytes]:
        return _subword_files((self, target), token_ids, max_length)

    def _revive(self) -> None:
        """Load the model again if TensorFlow has lost it, as `SubwordTokenizer` does."""
        with tf.init_scope():
            try:
                self._split(tf.constant([""]))
            except tf.errors.NotFoundError:
                description = json.loads(self._content)
                self._use(_SPLITTERS[description["kind"]](description))

    def _vocabulary_bytes(self) -> bytes:
        return self._content

    @classmethod
    def _restore(cls, vocabulary: bytes, options: dict[str, bool]) -> Self:
        try:
            return cls(json.loads(vocabulary), **options)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"It must describe a tokenizer. Received: {error!r}.") from error


def _described(kind: str, tokenizer: object, **description: object) -> Tokenizer:
    """Make a tokenizer of a description, which is what is saved."""
    own = [getattr(tokenizer, name, None) for name in _ATTRIBUTES]
    special = [
        [*names, *([name] if isinstance(name, str) else [])] for names, name in zip(_NAMES, own, strict=True)
    ]
    return _BridgedTokenizer({"kind": kind, "special": special, **description})


def _describe_words(layer: keras.layers.Layer) -> Config:
    config = layer.get_config()
    wanted = {
        "standardize": (None, "lower", "strip_punctuation", "lower_and_strip_punctuation"),
        "split": ("whitespace", "character"),
        "ngrams": (None,),
    }
    for name, values in wanted.items():
        if config[name] not in values:
            raise ValueError(
                f"`{name}` of a TextVectorization must be one of {values}. Received: {name}={config[name]!r}."
            )
    vocabulary = [str(word) for word in layer.get_vocabulary()]
    if len(vocabulary) < 3:
        raise ValueError(f"The TextVectorization must be adapted. Received: vocabulary={vocabulary}.")
    return {"vocabulary": vocabulary, **{name: config[name] for name in ("standardize", "split")}}


def _describe_byte_pair(layer: keras.layers.Layer) -> Config:
    return {
        "vocabulary": {str(piece): int(number) for piece, number in layer.vocabulary.items()},
        "merges": [str(merge) for merge in layer.merges],
        "add_prefix_space": layer.add_prefix_space,
    }


def _describe_word_piece(layer: keras.layers.Layer) -> Config:
    if not layer.split:
        raise ValueError("`split` of a WordPieceTokenizer must be True. Received: split=False.")
    names = ("lowercase", "strip_accents", "split_on_cjk", "suffix_indicator", "oov_token")
    return {"vocabulary": list(layer.vocabulary), **{name: getattr(layer, name) for name in names}}


_DESCRIBED: dict[str, tuple[str, Callable[[keras.layers.Layer], Config]]] = {
    "TextVectorization": ("words", _describe_words),
    "BytePairTokenizer": ("byte_pair", _describe_byte_pair),
    "WordPieceTokenizer": ("word_piece", _describe_word_piece),
    "SentencePieceTokenizer": (
        "sentence_piece",
        lambda layer: {"proto": base64.b64encode(layer.proto).decode()},
    ),
}
