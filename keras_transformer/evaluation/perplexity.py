"""Evaluation of language models: perplexity and bits per character."""

import logging
import math
from collections.abc import Iterable

import numpy as np
from keras import ops

from keras_transformer._arguments import as_strings, check_flags, check_kind
from keras_transformer.data import EncodedTexts, text_dataset
from keras_transformer.errors import InputError
from keras_transformer.evaluation.report import EvaluationReport, Score
from keras_transformer.tasks import TextGenerator
from keras_transformer.types import SPECIAL_IDS

_TOKENS_PER_BATCH = 4096

_LOGGER = logging.getLogger(__name__)


def evaluate_texts(
    generator: TextGenerator, texts: Iterable[str], *, packed: bool = False
) -> EvaluationReport:
    """Compute the perplexity of a text generator on held-out texts.

    Args:
        generator: The generator.
        texts: Texts that were not used for training. Those of more than `generator.max_length` tokens,
            including the end token, are skipped, with a warning in the log.
        packed: Whether to join the texts and cut them into pieces, like `packed` of `data.text_dataset`.
            Then no text is skipped. Defaults to False.

    Returns:
        A report with the `perplexity` per token and the `bits_per_character`, which is comparable between
        tokenizers.

    Raises:
        InputError: If there are no texts, or all are too long.
        TypeError: If `generator` is not a `TextGenerator`, or a text is not a string.

    Example:
        ```python
        print(kt.evaluation.evaluate_texts(generator, held_out))
        ```
    """
    check_kind(TextGenerator, generator=generator)
    check_flags(packed=packed)
    tokenizer, limit, several = generator.tokenizer, generator.max_length, as_strings(texts=texts)
    if not packed and several:
        fits = np.asarray(tokenizer.tokenize(several).row_lengths()) + 1 <= limit
        several = [text for text, is_short in zip(several, fits, strict=True) if is_short]
        if not several:
            raise InputError(f"Every text is too long. Received: {len(fits)} texts over {limit} tokens.")
        if num_long := len(fits) - len(several):
            message = "%d of %d texts are longer than %d tokens, and left out"
            _LOGGER.warning(message, num_long, len(fits), limit)
    encoded = EncodedTexts.encode(several, tokenizer, max_length=limit, packed=packed)
    batches = text_dataset(encoded, tokens_per_batch=max(_TOKENS_PER_BATCH, limit), shuffle=False)
    total, num_tokens = 0.0, 0
    for inputs, labels in batches.as_numpy_iterator():
        scores = ops.log_softmax(ops.cast(generator.model(inputs), "float32"))
        scores = ops.take_along_axis(scores, ops.expand_dims(labels, -1), axis=-1)[..., 0]  # (b, t)
        is_token = labels != SPECIAL_IDS.pad
        total -= float(ops.convert_to_numpy(scores)[is_token].sum(dtype="float64"))
        num_tokens += int(is_token.sum())
    # The end token of each text is predicted, too.
    num_characters = sum(len(text) + 1 for text in several)
    # Limited, since the exponential would overflow for an untrained model.
    perplexity = math.exp(min(total / num_tokens, 700.0))
    scores_by_name = {
        "perplexity": Score(name="perplexity", value=perplexity, details=f"of {num_tokens:,} tokens"),
        "bits_per_character": Score(
            name="bits per character",
            value=total / math.log(2) / num_characters,
            details=f"of {num_characters:,} characters, an end for each text included",
        ),
    }
    return EvaluationReport(num_items=len(several), scores=scores_by_name)
