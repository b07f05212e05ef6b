"""Scores of translations against their references."""

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from keras_transformer._arguments import as_pairs, as_strings, check_flags, check_kind
from keras_transformer.evaluation.report import EvaluationReport, evaluate
from keras_transformer.runs.kind import Progress
from keras_transformer.tasks import TextSource, TextTask, Translation, Translator
from keras_transformer.types import Pair

_LOGGER = logging.getLogger(__name__)
# Texts of one word, such as ISO dates, have no word n-grams, so BLEU would always be 0.
_METRICS_WITHOUT_WORDS = ("exact_match", "character_error_rate")


def _scored(
    translator: TextTask,
    pairs: Sequence[Pair] | Sequence[tuple[np.ndarray, str]],
    batch_size: int,
    tokenize: str,
    *,
    unique: bool,
    progress: Progress | None,
) -> tuple[EvaluationReport, list[Translation]]:
    """Translate sources and score the outputs against the targets.

    The scores are exact match and error rates, and also BLEU and chrF if a target has several words or
    `tokenize` is `"char"`. With `unique`, each distinct source has all its targets as references.
    """
    if isinstance(translator, type) or not hasattr(translator, "translate_with_scores"):
        raise TypeError(f"`translator` must translate. Received: translator={translator!r:.200}.")
    check_kind(Callable, None, progress=progress)
    check_flags(unique=unique)
    reads_texts = getattr(translator, "source", TextSource).name == "text"
    several: list[Any] = [*as_pairs(pairs=pairs)] if reads_texts else [*pairs]
    # With `unique`, equal sources share a key and their references.
    references: dict[object, list[str]] = {}
    sources = []
    for number, (source, target) in enumerate(several):
        key = _key(source) if unique else number
        if key not in references:
            sources.append(source)
        references.setdefault(key, []).append(target)
    with progress(len(sources), "scoring") if progress else nullcontext() as advance:
        outputs = translator.translate_with_scores(sources, batch_size=batch_size, progress=advance)
    targets = as_strings(targets=[target for _, target in several])
    if isinstance(translator, Translator):
        _warn_of_unwritable(targets, translator)
    has_words = tokenize == "char" or any(" " in target.strip() for target in targets)
    metrics = None if has_words else _METRICS_WITHOUT_WORDS
    texts = [output.text for output in outputs]
    return evaluate(texts, list(references.values()), metrics, tokenize=tokenize), outputs


def _key(source: Any) -> object:
    """Return a key that equal sources share."""
    return source if isinstance(source, str) else (np.shape(source), np.asarray(source).tobytes())


def _warn_of_unwritable(targets: list[str], translator: Translator) -> None:
    # No output can match such a reference, however good the model is.
    written = translator.target_tokenizer.round_trip(targets)
    others = [pair for pair in zip(targets, written, strict=True) if pair[0] != pair[1]]
    if others:
        target, nearest = others[0]
        _LOGGER.warning(
            "%d of %d references cannot be written with the target vocabulary, so that no output equals "
            "them: %r would be %r.",
            *(len(others), len(targets), target, nearest),
        )
