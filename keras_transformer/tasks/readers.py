"""The reader of a task: the one for a model by default, and whether a reader fits a model."""

import keras

from keras_transformer._arguments import check_kind
from keras_transformer.data import FrameNormalizer
from keras_transformer.text import Reader, Tokenizer


def _default_reader(model: keras.Model) -> Reader | None:
    """Return a normalizer that leaves frames unchanged for a model of frames; None for other models."""
    width = _feature_dim(model)
    return None if width is None else FrameNormalizer.identity(width)


def _check_reader(argument: str, reader: Reader, model: keras.Model) -> None:
    """Raise ValueError if a model does not read what its reader returns."""
    if isinstance(reader, Reader) and not isinstance(reader, Tokenizer):
        if reader.feature_dim != (width := _feature_dim(model)):
            raise ValueError(
                f"`{argument}` must return the frames of the model. Received: a {type(reader).__name__} of "
                f"frames of {reader.feature_dim} numbers, a model with encoder_feature_dim={width}."
            )
    elif (embedding := getattr(model, "source_embedding", None)) is not None:
        _check_vocabulary(argument, reader, embedding.vocabulary_size)
    else:  # another Keras model, whose vocabulary size is not known
        check_kind(Tokenizer, **{argument: reader})


def _check_vocabulary(argument: str, tokenizer: Tokenizer, size: int) -> None:
    """Raise ValueError if a tokenizer's vocabulary does not have the model's size."""
    received = getattr(tokenizer, "vocabulary_size", None)
    if received != size:
        # `vocabulary_size` of a Keras layer is a method.
        received = received if isinstance(received, int) else f"that of a {type(tokenizer).__name__}"
        side = argument.removesuffix("tokenizer").replace("_", " ")
        raise ValueError(
            f"`{argument}` must have the vocabulary of the model and be a tokenizer of this package; "
            "`text.as_tokenizer` converts one of Keras, KerasHub or SentencePiece. "
            f"Received: {argument}.vocabulary_size={received}, model {side}vocabulary size={size}."
        )


def _feature_dim(model: keras.Model) -> int | None:
    config = getattr(model, "config", None)  # of a `Transformer` or an `EncoderModel`
    return getattr(config, "encoder_feature_dim", getattr(config, "feature_dim", None))
