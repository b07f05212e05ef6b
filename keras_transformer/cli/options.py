"""The flags of `train`: each sets the field of the same name in the run's configuration."""

import dataclasses
from collections.abc import Callable
from typing import Any

import click

from keras_transformer.runs import RunConfig
from keras_transformer.runs.config import BLEU_TOKENIZATIONS, ENGINES, MONITORS, POSITIONS

Command = Callable[..., Any]

# Flag, type, help. What a field means in full, its docstring in `config` says.
_FLAGS: tuple[tuple[str, Any, str], ...] = (
    ("pairs", str, "dates, tfds:NAME or a .tsv or .tsv.gz file. The built-in dates if nothing is given."),
    ("source", str, "File with a source text on each line, plain or .gz."),
    ("target", str, "File with the answer to each line of --source."),
    ("validation_source", str, "Sources that choose the best epoch. If absent, a part of the pairs does."),
    ("validation_target", str, "The answers to --validation-source."),
    ("test_source", str, "Sources that are scored after training."),
    ("test_target", str, "The answers to --test-source."),
    ("validation_fraction", float, "Part of the pairs that is held out if no validation pairs are given."),
    ("max_source_length", int, "Longest source in tokens; longer pairs are dropped and counted."),
    ("max_target_length", int, "Longest answer in tokens; longer pairs are dropped and counted."),
    ("kind", click.Choice(["character", "subword", "whitespace"]), "What a token is."),
    ("target_kind", click.Choice(["character", "subword", "whitespace"]), "The same of the target."),
    ("size", int, "Most entries of a vocabulary."),
    ("subword_dropout", float, "Part of a subword vocabulary's merges that is left out in training."),
    ("preset", click.Choice(["tiny", "small", "base", "big"]), "Size of the model."),
    ("initial_model", str, "Begin with vocabularies and weights of this run or saved translator."),
    ("num_encoder_layers", int, "Layers of the encoder."),
    ("num_decoder_layers", int, "Layers of the decoder."),
    ("hidden_dim", int, "Width of the model."),
    ("num_heads", int, "Attention heads."),
    ("intermediate_dim", int, "Inner width of the feed-forward layers."),
    ("positions", click.Choice(POSITIONS), "How the order of tokens is known; sinusoidal if absent."),
    ("dropout", float, "Dropout rate."),
    ("epochs", int, "Passes over the training pairs."),
    ("tokens_per_batch", int, "Tokens of a batch on its longer side, padding included."),
    (
        "packed_length",
        int,
        "Put several pairs into each row of so many tokens, so that all batches have one shape.",
    ),
    ("schedule", click.Choice(["constant", "cosine", "inverse_square_root", "noam"]), "Learning rate."),
    ("peak_learning_rate", float, "Highest learning rate."),
    ("warmup_steps", int, "Updates until the learning rate is at its peak."),
    ("label_smoothing", float, "Probability that is spread over the vocabulary."),
    ("r_drop", float, "How much two passes with other dropout must agree; 0 for one pass."),
    ("z_loss", float, "How much the softmax's denominator is drawn to 1; in mixed precision 1e-4 if absent."),
    ("clip_norm", float, "Highest norm of all gradients together."),
    ("gradient_accumulation_steps", int, "Batches of one update."),
    (
        "ema_momentum",
        float,
        "Use the moving average of the weights; this part stays at each update.",
    ),
    ("average_last", int, "Use the mean of so many of the last checkpoints, not the best one."),
    ("monitor", click.Choice(MONITORS), "What chooses the best epoch: the loss, or a score of answers."),
    ("monitored_pairs", int, "Most validation pairs that are answered after an epoch for such a score."),
    ("patience", int, "Stop after so many epochs that are no better."),
    ("precision", click.Choice(["float32", "mixed_bfloat16", "mixed_float16"]), "Keras dtype policy."),
    ("distribute", click.Choice(ENGINES), "Train on all cores or devices, by this engine."),
    ("beam_size", int, "Hypotheses that the search keeps; 1 is greedy."),
    ("length_penalty", float, "Exponent of the length that scores are divided by."),
    ("bleu_tokenize", click.Choice(BLEU_TOKENIZATIONS), "sacreBLEU's; none for tokenized text."),
    ("seed", int, "Of everything random."),
    ("name", str, "Of the model: its directory in --run-directory and --export-directory."),
    ("run_directory", str, "Where checkpoints, logs and pictures go."),
    ("export_directory", str, "Where the served versions go."),
)
_SWITCHES: tuple[tuple[str, str, str], ...] = (
    ("shared", "--shared/--separate", "One vocabulary for source and target, or two."),
    ("lowercase", "--lowercase/--keep-case", "Lower-case all text first."),
    ("norm_first", "--norm-first/--norm-last", "Pre-norm or post-norm."),
    ("share_embeddings", "--share-embeddings/--separate-embeddings", "One embedding for both sides."),
    ("deterministic", "--deterministic/--nondeterministic", "The same bits from the same run, or faster."),
)


def run_options(command: Command) -> Command:
    """Add a flag for each field of a run.

    Args:
        command: takes the flags as keyword arguments; None where one was not given.

    Returns:
        The command with its flags.
    """
    for field, declaration, text in reversed(_SWITCHES):
        command = click.option(declaration, field, default=None, help=_with_default(field, text))(command)
    for field, kind, text in reversed(_FLAGS):
        flag = f"--{field.replace('_', '-')}"
        command = click.option(flag, field, type=kind, help=_with_default(field, text))(command)
    return command


def _with_default(field: str, text: str) -> str:
    """Add the value that a field has for one's own files."""
    run = RunConfig()
    sections = (run, run.data, run.vocabulary, run.model, run.training, run.decoding)
    values = [getattr(s, field) for s in sections if field in {f.name for f in dataclasses.fields(s)}]
    default = values[0]
    return text if default is None or isinstance(default, bool) else f"{text}  [{default}]"
