r"""Tokenizers of words and characters as a `tokenizer.json`, which the library `tokenizers` reads."""

import itertools
import json
from collections.abc import Iterator, Sequence

from keras_transformer.files import read_file
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS, Config

# Where source and target have different ones, which a file cannot.
_TARGET_DIRECTORY = "target_tokenizer"
# As `_single_spaces` has them.
_SPACES = r"[\t-\r\x1C-\x20\x{85}\p{Z}]+"
