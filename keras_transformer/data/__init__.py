"""Sentence pairs from files and datasets, and the batches that train a model on them.

The way of the data: a source gives a list of pairs, `encode_pairs` makes token ids of
them, `encoded_dataset` batches these; `translation_dataset` is the last two in one call.
`streamed_dataset` does the same chunk by chunk, for more pairs than memory holds.
"""

from keras_transformer.data.encoding import EncodedPairs, encode_pairs
from keras_transformer.data.masking import mask_tokens
from keras_transformer.data.noise import drop_tokens, permute_tokens, subword_dropout
from keras_transformer.data.pair_packing import pack_texts, packed_dataset
from keras_transformer.data.pairs import Pair, mix_pairs, split_pairs
from keras_transformer.data.pipeline import encoded_dataset, regroup_by_length, translation_dataset
from keras_transformer.data.registry import read_pairs, read_tfds
from keras_transformer.data.sharding import fill_rows, rows_of_process, weigh_for_accumulation
from keras_transformer.data.statistics import BatchStatistics, batch_statistics
from keras_transformer.data.streaming import streamed_dataset
from keras_transformer.data.text_files import ParallelText, read_lines, read_parallel_text, read_tsv
from keras_transformer.data.transformations import gather_pairs, pad_batches, teacher_forcing

__all__ = [
    "BatchStatistics",
    "EncodedPairs",
    "Pair",
    "ParallelText",
    "batch_statistics",
    "drop_tokens",
    "encode_pairs",
    "encoded_dataset",
    "fill_rows",
    "gather_pairs",
    "mask_tokens",
    "mix_pairs",
    "pack_texts",
    "packed_dataset",
    "pad_batches",
    "permute_tokens",
    "read_lines",
    "read_pairs",
    "read_parallel_text",
    "read_tfds",
    "read_tsv",
    "regroup_by_length",
    "rows_of_process",
    "split_pairs",
    "streamed_dataset",
    "subword_dropout",
    "teacher_forcing",
    "translation_dataset",
    "weigh_for_accumulation",
]
