"""Model of a run: new or with the weights of an earlier one, its training, and the translator made of it."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import keras
import tensorflow as tf

from keras_transformer._backend.compiler import compiles_each_shape
from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.sampling import GreedySearch
from keras_transformer.errors import InputError
from keras_transformer.evaluation.decode_and_score import DecodeAndScore
from keras_transformer.models.config import PRESETS
from keras_transformer.models.transformer import Transformer
from keras_transformer.runs.config import RunConfig, _ModelSection
from keras_transformer.runs.data import _RunData
from keras_transformer.runs.directory import write_config
from keras_transformer.runs.recipe import choose_dropout
from keras_transformer.tasks import Translator
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.training.checkpoint import Checkpoint, load_model
from keras_transformer.training.fit import fit
from keras_transformer.training.recipe import compile_model
from keras_transformer.types import Pair

_LOGGER = logging.getLogger(__name__)
_RATES = ("dropout", "attention_dropout", "intermediate_dropout")


def _train_model(
    data: _RunData,
    saved: RunConfig,
    validation_pairs: Sequence[Pair],
    devices: AbstractContextManager[object],
    *,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: str | int = "auto",
) -> Checkpoint:
    config, recipe = data.config, data.config.training
    directory = Path(config.run_directory, config.name)
    keras.utils.set_random_seed(recipe.seed)
    if recipe.deterministic:
        tf.config.experimental.enable_op_determinism()
    with devices:
        checkpoint = Checkpoint(directory)
        batches = data.training_batches(checkpoint.epoch)
        if checkpoint.epoch:
            model = checkpoint.load_model()
            model.jit_compile = compiles_each_shape()  # it may have begun on another backend
        else:
            model = _new_model(data, num_batches=len(batches))
        counts = len(data.training), len(data.validation), len(batches), model.count_params()
        # What could be refused after the training is refused now.
        model.config.check_decoding(1, config.decoding.beam_size, 1, config.decoding.max_target_length, 1)
        write_config(directory, saved.completed(data.sizes._asdict()), is_complete=True)
        _LOGGER.info(
            "%s training pairs, %s validation pairs, %s batches an epoch, %s parameters",
            *(f"{count:,}" for count in counts),
        )
        return fit(
            model,
            batches,
            data.validation_batches(),
            directory=directory,
            epochs=data.sizes.epochs,
            scoring=_scoring(data, validation_pairs),
            patience=recipe.patience,
            average_last=recipe.average_last,
            tensorboard=True,
            callbacks=callbacks,
            verbose=verbose,
        )


def _finished_translator(data: _RunData, directory: Path) -> Translator:
    average_last, checkpoint = data.config.training.average_last, Checkpoint(directory)
    if average_last is not None:
        # Those of a short run's first epochs are far from its last: 8 of 8 epochs of Multi30k had 24.6 BLEU.
        wanted, average_last = average_last, min(average_last, (checkpoint.epoch + 1) // 2)
        note = "" if wanted == average_last else f"; average_last={wanted} is more than half of them"
        _LOGGER.info("the mean of the last %d of %d epochs%s", average_last, checkpoint.epoch, note)
    else:
        _LOGGER.info("best epoch: %d", checkpoint.best_epoch)
    # Mixed precision is a way of training: the weights are float32, every export takes such a model, and its
    # outputs do not depend on how it was trained.
    model = load_model(directory, average_last=average_last).with_dtype("float32")
    return _translator(data, model)


def _translator(data: _RunData, model: keras.Model) -> Translator:
    decoding, names = data.config.decoding, ("length_normalization", "constraints", "special_ids")
    options = {name: getattr(data.search, name) for name in names}
    options["length_penalty"] = decoding.length_penalty
    return Translator(
        model,
        *data.tokenizers,
        # A beam of one hypothesis is greedy search, which costs less.
        search=GreedySearch(**options)
        if decoding.beam_size == 1
        else BeamSearch(decoding.beam_size, **options),
        max_source_length=data.config.data.max_source_length,
        max_target_length=decoding.max_target_length,
    )


def _scoring(data: _RunData, pairs: Sequence[Pair]) -> DecodeAndScore | None:
    # Decoding takes longer than the loss, so only where answers choose the best epoch.
    config = data.config
    if config.training.monitor == "loss":
        return None
    return DecodeAndScore(
        lambda model: _translator(data, model),
        pairs,
        config.training.monitor,
        limit=config.training.monitored_pairs,
        batch_size=config.decoding.batch_size,
        tokenize=config.decoding.bleu_tokenize,
    )


def _new_model(data: _RunData, num_batches: int) -> Transformer:
    config, recipe = data.config, data.config.training
    dtype = keras.DTypePolicy(recipe.precision)
    if config.model.initial_model is not None:
        model = _initial_model(config.model, dtype)
    else:
        model = _untrained_model(config, data.tokenizers, dtype)
    # An update is a whole group of batches, and what is left of an epoch is left out.
    num_steps = data.sizes.epochs * (num_batches // recipe.gradient_accumulation_steps)
    schedule = recipe.learning_rate(num_steps, data.sizes.warmup_steps, model.config.hidden_dim)
    compile_model(
        model,
        schedule,
        label_smoothing=recipe.label_smoothing,
        clip_norm=recipe.clip_norm,
        ema_momentum=recipe.ema_momentum,
        gradient_accumulation_steps=recipe.gradient_accumulation_steps,
        r_drop=recipe.r_drop,
        z_loss=recipe.z_loss,
    )
    return model


def _untrained_model(
    config: RunConfig, tokenizers: tuple[Tokenizer, Tokenizer], dtype: keras.DTypePolicy
) -> Transformer:
    source, target = tokenizers
    sizes = source.vocabulary_size, target.vocabulary_size
    shared = config.model.changes.get("share_embeddings", config.vocabulary.shared)
    if shared and source.fingerprint() != target.fingerprint():
        raise InputError(
            "`share_embeddings` needs one vocabulary for both sides. Received: share_embeddings=True, and "
            f"vocabularies of {sizes[0]:,} and {sizes[1]:,} entries."
        )
    limits = config.data.max_source_length, config.data.max_target_length, config.decoding.max_target_length
    asked, preset = config.model.changes.get("dropout"), PRESETS[config.model.preset].dropout
    options = config.model.transformer(
        longest=max(limits),
        source_vocabulary_size=sizes[0],
        target_vocabulary_size=sizes[1],
        share_embeddings=config.vocabulary.shared,
        dropout=choose_dropout(preset, tokenizers) if asked is None else asked,
    )
    options.check_memory(bytes_per_weight=12)  # with Adam's two means of the gradients
    return Transformer(**options.options(), dtype=dtype)


def _initial_model(section: _ModelSection, dtype: keras.DTypePolicy) -> Transformer:
    directory = section.initial_model
    initial = Translator.load(str(directory)).model
    if not isinstance(initial, Transformer):
        raise InputError(f"{directory} holds a {type(initial).__name__}, not a Transformer.")
    _check_architecture(section, initial.get_config())
    rates = {name: rate for name, rate in section.changes.items() if name in _RATES}
    serialized = keras.saving.serialize_keras_object(dtype)
    model = Transformer.from_config({**initial.get_config(), **rates, "dtype": serialized})
    model.set_weights(initial.get_weights())
    _LOGGER.info("beginning with the weights of %s", directory)
    return model


def _check_architecture(section: _ModelSection, config: Mapping[str, object]) -> None:
    # Weights that do not fit would be left out, or begin at random.
    # What is None there is as large as something else.
    same = dict.fromkeys(("num_encoder_layers", "num_decoder_layers"), "num_layers")
    same |= {"num_key_value_heads": "num_heads", "final_norm": "norm_first"}
    differing = [
        f"{name}={value!r} where the model has {received!r}"
        for name, value in section.changes.items()
        if name not in _RATES
        and value != (received := config[name] if config[name] is not None else config[same.get(name, name)])
    ]
    if differing:
        raise InputError(
            f"The model in {section.initial_model} has another architecture; only {', '.join(_RATES)} may "
            f"differ. Received: {', '.join(differing)}."
        )
