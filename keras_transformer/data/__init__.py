"""Read training data from files and datasets, and build the batches that train a model.

For translation: `read_pairs` returns a list of pairs, `EncodedPairs.encode` tokenizes them, and
`translation_dataset` builds batches. You can also pass texts directly to `translation_dataset`; with `cache`,
the token ids of a corpus larger than memory stay on disk. For classification, use `read_labelled` and
`classification_dataset`; for tagging, `read_tagged` and `tagging_dataset`; for language models, `read_texts`
and `text_dataset`.
"""

from keras_transformer.data.encoded_texts import EncodedTexts
from keras_transformer.data.encoding import EncodedPairs
from keras_transformer.data.frame_files import read_frame_pairs, read_frames
from keras_transformer.data.frames import FrameNormalizer, as_frames
from keras_transformer.data.labelled_texts import read_labelled
from keras_transformer.data.labels import label_names
from keras_transformer.data.masked_tokens import mask_tokens
from keras_transformer.data.noise import subword_dropout
from keras_transformer.data.pairs import mix_pairs, split_pairs
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.pipeline import translation_dataset
from keras_transformer.data.sources import read_pairs
from keras_transformer.data.tagged_texts import TagSpan, read_tagged, tag_spans
from keras_transformer.data.text_batches import classification_dataset, tagging_dataset, text_dataset
from keras_transformer.data.text_files import read_lines
from keras_transformer.data.texts import read_texts

__all__ = [
    "EncodedPairs",
    "EncodedTexts",
    "FrameNormalizer",
    "ParallelText",
    "TagSpan",
    "as_frames",
    "classification_dataset",
    "label_names",
    "mask_tokens",
    "mix_pairs",
    "read_frame_pairs",
    "read_frames",
    "read_labelled",
    "read_lines",
    "read_pairs",
    "read_tagged",
    "read_texts",
    "split_pairs",
    "subword_dropout",
    "tag_spans",
    "tagging_dataset",
    "text_dataset",
    "translation_dataset",
]
__dir__ = __all__.copy  # `dir()` shows what is public
