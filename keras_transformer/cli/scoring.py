"""Answers to pairs with known targets, and how good they are."""

from collections.abc import Sequence
from typing import Any

import click

from keras_transformer.cli.progress import progress_bar
from keras_transformer.data import Pair
from keras_transformer.decoding.respelling import respelled
from keras_transformer.evaluation import METRICS, EvaluationReport, evaluate

# Of texts without words to count n-grams of, such as ISO dates, BLEU would always be 0.
METRICS_WITHOUT_WORDS = ("exact_match", "character_error_rate")


def score(
    translator: Any, pairs: list[Pair], *, batch_size: int, tokenize: str = "13a", unique: bool = False
) -> EvaluationReport:
    """Translate the sources and compare with the targets; prints the table.

    Args:
        translator: a `Translator` or a `ServedModel`.
        pairs: sources and targets.
        batch_size: how many are decoded together.
        tokenize: sacreBLEU's tokenization.
        unique: whether a source that occurs several times counts once, with all its targets as
            references, as is usual for pronunciations.

    Returns:
        Error rates, and BLEU and chrF where targets have words or are compared by character.
    """
    sources, references = _merged(pairs) if unique else _as_they_are(pairs)
    with progress_bar(len(sources), "scoring") as progress:
        answers = translator.translate_with_scores(sources, batch_size=batch_size, progress=progress)
    has_words = any(" " in target.strip() for _, target in pairs)
    report = evaluate(
        [answer.text for answer in answers],
        references,
        METRICS if has_words or tokenize == "char" else METRICS_WITHOUT_WORDS,
        tokenize=tokenize,
    )
    click.echo(str(report))
    _warn_of_what_cannot_be_written(translator, [target for targets in references for target in targets])
    return report


def _warn_of_what_cannot_be_written(translator: Any, targets: list[str]) -> None:
    """Say how many references no answer can equal, whatever the model has learned."""
    tokenizer = getattr(translator, "target_tokenizer", None)
    if tokenizer is None:
        return
    written = respelled(targets, tokenizer)
    others = [pair for pair in zip(targets, written, strict=True) if pair[0] != pair[1]]
    if others:
        target, nearest = others[0]
        click.echo(
            f"{len(others):,} of {len(targets):,} references cannot be written with the target vocabulary, "
            f"so that no answer equals them: {target!r} would be {nearest!r}.",
            err=True,
        )


def _as_they_are(pairs: list[Pair]) -> tuple[list[str], list[Sequence[str]]]:
    return [source for source, _ in pairs], [[target] for _, target in pairs]


def _merged(pairs: list[Pair]) -> tuple[list[str], list[Sequence[str]]]:
    references: dict[str, list[str]] = {}
    for source, target in pairs:
        references.setdefault(source, []).append(target)
    return list(references), list(references.values())
