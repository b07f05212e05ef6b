"""What a run takes from an earlier one: its vocabularies and its weights."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import keras
import tensorflow as tf

from keras_transformer.data import (
    EncodedPairs,
    read_pairs,
    shard_rows,
    split_pairs,
    subword_dropout,
    translation_dataset,
)
from keras_transformer.decoding import Translator
from keras_transformer.errors import InputError
from keras_transformer.models import Transformer
from keras_transformer.runs.config import DataConfig, RunConfig
from keras_transformer.text import CharacterTokenizer, SubwordTokenizer, Tokenizer, WhitespaceTokenizer
from keras_transformer.types import Pair

_Step = Callable[[tf.data.Dataset], tf.data.Dataset]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunPairs:
    """The pairs of a run, by their purpose."""

    train: list[Pair]
    """To learn from."""
    validation: list[Pair]
    """To choose the best epoch."""
    test: list[Pair]
    """To score; the validation pairs where a run has no others."""


def load_pairs(data: DataConfig) -> RunPairs:
    """Read all pairs of a run.

    Args:
        data: where they are.

    Returns:
        The pairs.

    Raises:
        InputError: a source cannot be read.
    """
    train = _origin(data, "train")
    validation = _files(data, "validation") or _named_split(data, "validation")
    if not validation:
        train, validation = split_pairs(train, validation_fraction=data.validation_fraction, seed=data.seed)
    return RunPairs(
        train=train,
        validation=validation,
        test=_files(data, "test") or _named_split(data, "test") or validation,
    )


def train_tokenizers(run: RunConfig, pairs: list[Pair]) -> tuple[Tokenizer, Tokenizer]:
    """Make the vocabularies from the training pairs.

    Args:
        run: its vocabulary section decides.
        pairs: to learn from.

    Returns:
        The tokenizers of source and target; the same one if the vocabulary is shared.

    Raises:
        InputError: there is too little text.
    """
    vocabulary = run.vocabulary
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    if vocabulary.shared:
        tokenizer = _train_tokenizer(run, vocabulary.kind, [*sources, *targets])
        return tokenizer, tokenizer
    target_kind = vocabulary.target_kind or vocabulary.kind
    return _train_tokenizer(run, vocabulary.kind, sources), _train_tokenizer(run, target_kind, targets)


def encode(
    run: RunConfig, pairs: list[Pair], tokenizers: tuple[Tokenizer, Tokenizer], *, part: str = "training"
) -> EncodedPairs:
    """Turn pairs into token ids; the ones that are too long are dropped and counted.

    Args:
        run: its data section has the limits.
        pairs: texts.
        tokenizers: of source and target.
        part: what the pairs are for, as an error names them.

    Returns:
        The pairs that fit, and the counts of the others.

    Raises:
        InputError: no pair fits.
    """
    try:
        return EncodedPairs.encode(
            pairs,
            *tokenizers,
            max_source_length=run.data.max_source_length,
            max_target_length=run.data.max_target_length,
        )
    except InputError as error:
        raise InputError(f"The {part} pairs: {error}") from error


def noise(run: RunConfig, tokenizers: tuple[Tokenizer, Tokenizer]) -> list[_Step]:
    """Make the steps that change training pairs anew in each epoch.

    Args:
        run: its vocabulary section decides.
        tokenizers: of source and target.

    Returns:
        Steps; none where the run wants no noise.

    Raises:
        InputError: it wants what its vocabularies, such as those of an earlier model, cannot do.
    """
    vocabulary, seed = run.vocabulary, run.training.seed
    limits = run.data.max_source_length - 1, run.data.max_target_length - 1
    target_rate = vocabulary.target_subword_dropout
    rates = (vocabulary.subword_dropout, vocabulary.subword_dropout if target_rate is None else target_rate)
    source, target = (
        tokenizer if isinstance(tokenizer, SubwordTokenizer) and rate else None
        for tokenizer, rate in zip(tokenizers, rates, strict=True)
    )
    if any(rates) and source is None and target is None:
        kinds = " and ".join(type(tokenizer).__name__ for tokenizer in tokenizers)
        raise InputError(
            "`subword_dropout` is for subword vocabularies. Received: "
            f"subword_dropout={rates[0]}, target_subword_dropout={target_rate}, vocabularies of {kinds}."
        )
    try:
        steps = [subword_dropout(source, None, rates[0], max_length=limits[0], seed=seed)] if source else []
        return steps + (
            [subword_dropout(None, target, rates[1], max_length=limits[1], seed=seed)] if target else []
        )
    except ValueError as error:
        raise InputError(str(error)) from error


def jit_compiles() -> bool:
    """Say whether each shape of a batch is compiled."""
    return keras.backend.backend() == "jax"


def batches(
    run: RunConfig,
    encoded: EncodedPairs,
    *,
    shuffle: bool,
    first_epoch: int = 0,
    noise: Sequence[_Step] = (),
) -> tf.data.Dataset:
    """Batch encoded pairs.

    Args:
        run: its data section has the size of a batch.
        encoded: the pairs.
        shuffle: whether each epoch has an order of its own, and rows are packed where the run wants it.
        first_epoch: the epoch that comes first.
        noise: steps that change the pairs.

    Returns:
        What `model.fit` takes.

    Raises:
        InputError: a batch or a packed row is too small for the longest pair.
    """
    longest = int(encoded.lengths().max())
    if longest > run.data.tokens_per_batch:
        raise InputError(
            "`tokens_per_batch` must hold the longest pair. Received: "
            f"tokens_per_batch={run.data.tokens_per_batch}, a pair of {longest} tokens."
        )
    options: dict[str, Any] = {"tokens_per_batch": run.data.tokens_per_batch, "seed": run.data.seed}
    options |= {"shuffle": shuffle, "first_epoch": first_epoch}
    try:
        if run.data.packed_length is not None and shuffle:
            dataset = translation_dataset(encoded, packed_length=run.data.packed_length, **options)
        else:  # XLA compiles anew for each shape, so that there they are few
            few_shapes = jit_compiles() or run.training.distribute == "tpu"
            options |= {"noise": noise, "pad_to_bucket_boundary": few_shapes}
            dataset = translation_dataset(encoded, **options)
    except ValueError as error:
        raise InputError(str(error)) from error
    if run.training.distribute in ("data_parallel", "model_parallel"):  # whose devices share rows evenly
        return dataset.apply(shard_rows(len(keras.distribution.list_devices())))
    return dataset


def _origin(data: DataConfig, split: str) -> list[Pair]:
    if data.source is not None and data.target is not None:
        return read_pairs((data.source, data.target))
    return read_pairs(data.pairs or "dates", split, seed=data.seed)


def _files(data: DataConfig, part: str) -> list[Pair]:
    source, target = getattr(data, f"{part}_source"), getattr(data, f"{part}_target")
    return read_pairs((source, target)) if source and target else []


def _named_split(data: DataConfig, split: str) -> list[Pair]:
    """Read a split, if there is one; files have none."""
    if data.source is not None:
        return []
    return read_pairs(data.pairs or "dates", split, optional=True, seed=data.seed)


def _train_tokenizer(run: RunConfig, kind: str, texts: list[str]) -> Tokenizer:
    vocabulary = run.vocabulary
    if kind == "subword":
        return SubwordTokenizer.train(texts, vocabulary.size, lowercase=vocabulary.lowercase)
    if kind == "whitespace":
        return WhitespaceTokenizer.train(
            texts, lowercase=vocabulary.lowercase, max_vocabulary_size=vocabulary.size
        )
    return CharacterTokenizer.train(
        texts,
        lowercase=vocabulary.lowercase,
        normalize_spaces=vocabulary.normalize_spaces,
        max_vocabulary_size=vocabulary.size,
    )


_RATES = ("dropout", "attention_dropout", "intermediate_dropout")


def initial_tokenizers(directory: str) -> tuple[Tokenizer, Tokenizer]:
    """Read the vocabularies that an earlier run was trained with.

    Args:
        directory: of the run, or of another saved `Translator`.

    Returns:
        The tokenizers of source and target.

    Raises:
        InputError: the directory is not that of a translator, or a part of it is damaged.
    """
    translator = Translator.load(directory)
    return translator.source_tokenizer, translator.target_tokenizer


def initial_transformer(directory: str, run: RunConfig) -> Transformer:
    """Make a model with the weights of an earlier run; rates of dropout and the precision are this run's.

    Args:
        directory: of the earlier run, or of another saved `Translator`.
        run: the one that begins.

    Returns:
        A model that is not compiled.

    Raises:
        InputError: the earlier model is of another architecture than this run wants, or cannot be read.
    """
    initial = Translator.load(directory).model
    if not isinstance(initial, Transformer):
        raise InputError(f"{directory} holds a {type(initial).__name__}, not a Transformer.")
    overrides = run.model.overrides()
    _check_architecture(directory, initial, overrides)
    config = {
        **initial.get_config(),
        **{name: rate for name, rate in overrides.items() if name in _RATES},
        "packed": run.data.packed_length is not None,
        "dtype": keras.saving.serialize_keras_object(keras.DTypePolicy(run.training.precision)),
    }
    model = Transformer.from_config(config)
    model.set_weights(initial.get_weights())
    click.echo(f"beginning with the weights of {directory}", err=True)
    return model


def _check_architecture(directory: str, initial: Transformer, overrides: Mapping[str, object]) -> None:
    """Refuse sizes and choices that the weights are not of."""
    config = initial.get_config()
    for name in ("num_encoder_layers", "num_decoder_layers"):
        config[name] = config[name] or config["num_layers"]
    config["num_key_value_heads"] = config["num_key_value_heads"] or config["num_heads"]
    differing = [
        f"{name}={value!r} where the model has {config[name]!r}"
        for name, value in overrides.items()
        if name not in _RATES and value != config[name]
    ]
    if differing:
        raise InputError(
            f"The model in {directory} has an architecture of its own; only {', '.join(_RATES)} may differ. "
            f"Received: {', '.join(differing)}."
        )
