"""What a run takes from an earlier one: its vocabularies and its weights."""

from collections.abc import Mapping

import click
import keras

from keras_transformer.config import RunConfig
from keras_transformer.decoding import Translator
from keras_transformer.errors import InputError
from keras_transformer.models import Transformer
from keras_transformer.text import Tokenizer

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
