"""What `keras-transformer train` does, step by step."""

import dataclasses
import logging
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import click
import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_transformer.cli.progress import EpochProgress, progress_bar
from keras_transformer.data import EncodedPairs, accumulation_weights
from keras_transformer.decoding import BeamSearch, GreedySearch, Translator
from keras_transformer.errors import InputError
from keras_transformer.evaluation import METRICS, DecodeAndScore, EvaluationReport, evaluate
from keras_transformer.export import export_saved_model
from keras_transformer.models import Transformer
from keras_transformer.runs.config import RunConfig
from keras_transformer.runs.data import (
    RunPairs,
    batches,
    encode,
    initial_transformer,
    jit_compiles,
    load_pairs,
    noise,
)
from keras_transformer.runs.directory import (
    begin_run,
    continue_run,
    locked,
    note_pairs,
    resumed_run,
    run_tokenizers,
    saved_run,
    settle,
    write_report,
)
from keras_transformer.text import SPECIAL_IDS, Tokenizer
from keras_transformer.training import Checkpoint, compile_model, distributed, load_model, make_schedule
from keras_transformer.training import fit as fit_model
from keras_transformer.types import Pair
from keras_transformer.visualization import plot_attention, plot_training


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerAttention:
    """Where a model looked while it gave its best answer to one text."""

    scores: dict[str, np.ndarray]
    """`(h, t, s)` by the names that `model.attention_scores` gives."""
    source_tokens: list[str]
    """What the encoder read, with the end token."""
    target_tokens: list[str]
    """What the decoder read: the start token, and the answer without its last token."""
    output_tokens: list[str]
    """What the decoder wrote: the answer, with its end token where it has one."""


def draw_pictures(
    translator: Translator, pair: Pair, history: dict[str, list[float]], directory: Path
) -> list[Path]:
    """Draw `training.png`, and the cross-attention of one answer as `attention.png`.

    Args:
        translator: with a trained model.
        pair: the source that is answered.
        history: each metric's value after each epoch.
        directory: where the files go.

    Returns:
        Both paths.
    """
    paths = [directory / "training.png", directory / "attention.png"]
    plot_training(history, path=paths[0])
    scores, source_tokens, target_tokens = cross_attention(translator, pair[0])
    plot_attention(
        scores, source_tokens, target_tokens, path=paths[1], title="Cross-attention, last decoder layer"
    )
    return paths


def cross_attention(translator: Translator, text: str) -> tuple[np.ndarray, list[str], list[str]]:
    """Look at which source tokens each token of the answer was made from.

    Args:
        translator: with a trained model.
        text: a source.

    Returns:
        Scores of the last decoder layer, averaged over its heads, `(t, s)`, and the
        tokens of source and answer, each with its end token.
    """
    attention = answer_attention(translator, text)
    last = [name for name in attention.scores if name.endswith("cross_attention")][-1]
    return attention.scores[last].mean(axis=0), attention.source_tokens, attention.output_tokens


def answer_attention(translator: Translator, text: str) -> AnswerAttention:
    """Answer a text, and take every attention map of the answer.

    Args:
        translator: with a trained model.
        text: a source; what is beyond the translator's limit is cut off.

    Returns:
        The maps and the tokens of their rows and columns.
    """
    # A lone surrogate is no UTF-8, which the tokenizer takes for an unknown token.
    source_ids = translator.source_tokenizer.padded_ids([text], translator.max_source_length).numpy()
    answer = ops.convert_to_numpy(translator.generate(ops.convert_to_tensor(source_ids)).token_ids)[0, 0]
    length = int(np.argmax(answer == SPECIAL_IDS.end)) + 1 if SPECIAL_IDS.end in answer else len(answer)
    answer = answer[:length]
    decoder_ids = np.concatenate([[SPECIAL_IDS.start], answer[:-1]])[None].astype("int32")
    scores = translator.model.attention_scores(
        {"encoder_token_ids": source_ids, "decoder_token_ids": decoder_ids}
    )
    return AnswerAttention(
        scores={name: ops.convert_to_numpy(values)[0] for name, values in scores.items()},
        source_tokens=_tokens(translator.source_tokenizer, source_ids),
        target_tokens=_tokens(translator.target_tokenizer, decoder_ids),
        output_tokens=_tokens(translator.target_tokenizer, answer[None]),
    )


def _tokens(tokenizer: Tokenizer, token_ids: np.ndarray) -> list[str]:
    return [token.decode() for token in tokenizer.tokens(token_ids).numpy()[0]]


Tokenizers = tuple[Tokenizer, Tokenizer]


def fit(
    run: RunConfig,
    directory: Path,
    tokenizers: Tokenizers,
    training: EncodedPairs,
    validation: EncodedPairs,
    validation_pairs: Sequence[Pair],
    devices: AbstractContextManager[object] | None = None,
) -> dict[str, list[float]]:
    """Train the model of a run, from its last checkpoint if there is one.

    Args:
        run: all that decides the outcome.
        directory: of the run.
        tokenizers: of source and target.
        training: pairs to learn from.
        validation: pairs that choose the best epoch.
        validation_pairs: the same as texts, to be decoded where a score chooses.
        devices: from `devices_of`; None to choose them now.

    Returns:
        Each metric's value after each epoch.

    Raises:
        InputError: no checkpoint is whole, a loss is not finite, the run was interrupted, or it wants the
            devices of another backend.
    """
    keras.utils.set_random_seed(run.training.seed)
    if run.training.deterministic:
        tf.config.experimental.enable_op_determinism()
    with devices or devices_of(run):
        return _fit(run, directory, tokenizers, training, validation, validation_pairs).history


def devices_of(run: RunConfig) -> AbstractContextManager[object]:
    """Choose the devices of a run; TensorFlow takes cores only before it has computed anything."""
    return distributed(run.training.distribute) if run.training.distribute else nullcontext()


def _fit(
    run: RunConfig,
    directory: Path,
    tokenizers: Tokenizers,
    training: EncodedPairs,
    validation: EncodedPairs,
    validation_pairs: Sequence[Pair],
) -> Checkpoint:
    """Train on the devices that are chosen."""
    checkpoint = Checkpoint(directory)
    changes = noise(run, tokenizers)
    train_batches = batches(run, training, shuffle=True, first_epoch=checkpoint.epoch, noise=changes)
    train_batches = _weighed(train_batches, run.training.gradient_accumulation_steps)
    if checkpoint.epoch:
        model = checkpoint.load_model()
        model.jit_compile = jit_compiles()  # it may have begun on another backend
    else:
        model = _new_model(run, tokenizers, len(train_batches))
    click.echo(
        f"{len(training):,} training pairs, {len(validation):,} validation pairs, "
        f"{len(train_batches):,} batches an epoch, {model.count_params():,} parameters"
    )
    try:
        return fit_model(
            model,
            train_batches,
            batches(run, validation, shuffle=False),
            directory=directory,
            epochs=run.training.epochs,
            scoring=_scoring(run, tokenizers, validation_pairs),
            patience=run.training.patience,
            average_last=run.training.average_last,
            tensorboard=True,
            callbacks=[EpochProgress()],
            verbose=0,
        )
    except KeyboardInterrupt as interrupt:
        raise InputError(_interrupted(Checkpoint(directory), run)) from interrupt


def finish(run: RunConfig, directory: Path, tokenizers: Tokenizers) -> Translator:
    """Make the translator of the best epoch, or of the mean of the last, and save it.

    It answers in float32, also where the training was in mixed precision.

    Args:
        run: its decoding section decides how to search.
        directory: of the run; the translator's files go there.
        tokenizers: of source and target.

    Returns:
        The translator.
    """
    average_last = run.training.average_last
    if average_last is not None:
        click.echo(f"the mean of the last {average_last} epochs", err=True)
    else:
        click.echo(f"best epoch: {Checkpoint(directory).best_epoch}", err=True)
    model = load_model(directory, average_last=average_last).with_dtype("float32")
    translator = _translator(run, tokenizers, model)
    translator.save(directory)
    return translator


def _weighed(dataset: tf.data.Dataset, num_batches: int) -> tf.data.Dataset:
    """Weigh the batches of an update, if it has several."""
    if num_batches == 1:
        return dataset
    if len(dataset) < num_batches:
        raise InputError(
            "`gradient_accumulation_steps` must not be above the number of batches. Received: "
            f"gradient_accumulation_steps={num_batches}, {len(dataset)} batches an epoch."
        )
    return dataset.apply(accumulation_weights(num_batches))


def _translator(run: RunConfig, tokenizers: Tokenizers, model: keras.Model) -> Translator:
    size, penalty = run.decoding.beam_size, run.decoding.length_penalty
    return Translator(
        model,
        *tokenizers,
        search=GreedySearch(length_penalty=penalty)
        if size == 1
        else BeamSearch(size, length_penalty=penalty),
        max_source_length=run.data.max_source_length,
        max_target_length=run.decoding.max_target_length,
    )


def _scoring(run: RunConfig, tokenizers: Tokenizers, pairs: Sequence[Pair]) -> DecodeAndScore | None:
    if run.training.monitor == "loss":
        return None
    return DecodeAndScore(
        lambda model: _translator(run, tokenizers, model),
        pairs,
        run.training.monitor,
        limit=run.training.monitored_pairs,
        batch_size=run.decoding.batch_size,
        tokenize=run.decoding.bleu_tokenize,
    )


def _new_model(run: RunConfig, tokenizers: Tokenizers, num_batches: int) -> Transformer:
    initial = run.model.initial_model
    model = _untrained_model(run, tokenizers) if initial is None else initial_transformer(initial, run)
    schedule = make_schedule(
        run.training.schedule,
        peak_learning_rate=run.training.peak_learning_rate,
        warmup_steps=run.training.warmup_steps,
        num_steps=run.training.epochs * num_batches // run.training.gradient_accumulation_steps,
        hidden_dim=model.config.hidden_dim,
    )
    compile_model(
        model,
        schedule,
        label_smoothing=run.training.label_smoothing,
        clip_norm=run.training.clip_norm,
        ema_momentum=run.training.ema_momentum,
        gradient_accumulation_steps=run.training.gradient_accumulation_steps,
        r_drop=run.training.r_drop,
        z_loss=run.training.z_loss,
    )
    return model


def _untrained_model(run: RunConfig, tokenizers: Tokenizers) -> Transformer:
    sizes = [tokenizer.vocabulary_size for tokenizer in tokenizers]
    options: dict[str, Any] = {"share_embeddings": run.vocabulary.shared, **run.model.overrides()}
    options["packed"] = run.data.packed_length is not None
    if options["share_embeddings"] and tokenizers[0].fingerprint() != tokenizers[1].fingerprint():
        raise InputError(
            "`share_embeddings` needs one vocabulary for both sides. Received: share_embeddings=True, and "
            f"vocabularies of {sizes[0]:,} and {sizes[1]:,} entries."
        )
    try:
        return Transformer.from_preset(
            run.model.preset, *sizes, **options, dtype=keras.DTypePolicy(run.training.precision)
        )
    except ValueError as error:
        raise InputError(str(error)) from error


def _interrupted(checkpoint: Checkpoint, run: RunConfig) -> str:
    if not checkpoint.epoch:
        return (
            "Interrupted before the first epoch was saved: nothing to resume, the same command begins anew."
        )
    flags = "" if run.name == "dates" else f" --name {shlex.quote(run.name)}"
    if run.run_directory != RunConfig().run_directory:
        flags += f" --run-directory {shlex.quote(run.run_directory)}"
    return (
        f"Interrupted. Epoch {checkpoint.epoch} of {run.training.epochs} is saved; "
        f"go on with: keras-transformer train{flags} --resume"
    )


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
    written = tokenizer.round_trip(targets)
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


NUM_SAMPLES = 8


def train_run(
    run: RunConfig, *, resume: bool, overwrite: bool, flags: Mapping[str, Any] | None = None
) -> None:
    """Train, score, draw and export.

    Args:
        run: all that decides the outcome.
        resume: go on after the last epoch that was saved.
        overwrite: remove an earlier run of the same name.
        flags: what changes in the configuration of a resumed run; None where `run` has to be it.

    Raises:
        InputError: the data, the configuration or the directory cannot be used.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    directory = Path(run.run_directory, run.name)
    with locked(directory):
        saved = saved_run(directory) if resume else None
        if saved is not None:
            run = resumed_run(saved, run if flags is None else saved.override(flags))
        _train_run(run, directory, saved, overwrite=overwrite)


def _train_run(run: RunConfig, directory: Path, saved: RunConfig | None, *, overwrite: bool) -> None:
    """Do it in a directory that no other process uses."""
    start = time.monotonic()
    devices = devices_of(run)
    pairs = load_pairs(run.data)
    _show_samples(pairs)
    if saved is None:
        begin_run(run, directory, overwrite=overwrite)
    else:
        note_pairs(pairs, directory)
        continue_run(run, directory, saved)
    try:
        if saved is None:
            note_pairs(pairs, directory)
        tokenizers = run_tokenizers(run, directory, pairs.train)
        training = encode(run, pairs.train, tokenizers)
        validation = encode(run, pairs.validation, tokenizers, part="validation")
        history = fit(run, directory, tokenizers, training, validation, pairs.validation, devices)
    finally:
        settle(directory)
    translator = finish(run, directory, tokenizers)
    decoding = run.decoding
    report = score(translator, pairs.test, batch_size=decoding.batch_size, tokenize=decoding.bleu_tokenize)
    _show_answers(translator, pairs.test)
    pictures = draw_pictures(translator, pairs.test[0], history, directory)
    examples = [source for source, _ in pairs.test[:NUM_SAMPLES]]
    version = _export(translator, run, directory, examples)
    seconds = time.monotonic() - start
    saved_model = None if version is None else str(version)
    results = {**report.to_dict(), "seconds": round(seconds), "saved_model": saved_model}
    write_report(directory, results, examples)
    written = [*pictures, *([] if version is None else [version])]
    click.echo(f"wrote {', '.join(map(str, written))} in {seconds:.0f} s")
    if version is not None:
        _show_next_commands(version, examples[0])


def _export(translator: Translator, run: RunConfig, directory: Path, examples: list[str]) -> Path | None:
    """Export on TensorFlow; on another backend say how it is done."""
    target = Path(run.export_directory, run.name)
    if keras.backend.backend() != "tensorflow":
        click.echo(
            "not exported, which TensorFlow alone can: "
            f"KERAS_BACKEND=tensorflow keras-transformer export {directory} {target}",
            err=True,
        )
        return None
    click.echo("exporting, and asking the export in a process of its own", err=True)
    return export_saved_model(translator, target, examples)


def _show_samples(pairs: RunPairs) -> None:
    click.echo("training pairs, for example:")
    for source, target in pairs.train[:5]:
        click.echo(f"  {source.strip()}  →  {target}")


def _show_answers(translator: Translator, pairs: list[Pair]) -> None:
    click.echo("answers (score, source, answer, and the reference where it differs):")
    pairs = pairs[:NUM_SAMPLES]
    answers = translator.translate_with_scores([source for source, _ in pairs])
    for (source, target), answer in zip(pairs, answers, strict=True):
        wanted = "" if answer.text == target else f"  ({target})"
        click.echo(f"  {answer.score:7.3f}  {source.strip()}  →  {answer.text}{wanted}")


def _show_next_commands(version: Path, example: str) -> None:
    place = shlex.quote(str(version))
    click.echo("next:")
    click.echo(f"  echo {_quoted(example.strip())} | keras-transformer translate --saved-model {place}")
    click.echo(f"  saved_model_cli show --dir {place} --tag_set serve --signature_def serving_default")


def _quoted(text: str) -> str:
    quote = "'" if os.name == "posix" else '"'
    return f"{quote}{text.replace(quote, '')}{quote}"
