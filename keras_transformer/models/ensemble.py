"""Ensemble of Transformers that decode together."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import keras
from keras import ops

from keras_transformer._arguments import check_kind
from keras_transformer.layers.cached_decoder import CachedDecoder
from keras_transformer.models.config import TransformerConfig
from keras_transformer.models.configured_model import Step
from keras_transformer.models.transformer import Transformer
from keras_transformer.types import Config, Tensor

_SAME = ("source_vocabulary_size", "encoder_feature_dim", "target_vocabulary_size")


class _EnsembleCache(NamedTuple):
    """Caches of the models of an ensemble, with the interface of `CachedDecoder.Cache`."""

    members: tuple[CachedDecoder.Cache, ...]
    """One cache per model."""

    def reorder(self, rows: Tensor) -> "_EnsembleCache":
        return _EnsembleCache(tuple(cache.reorder(rows) for cache in self.members))

    def grow(self, num_positions: Tensor | int) -> "_EnsembleCache":
        return _EnsembleCache(tuple(cache.grow(num_positions) for cache in self.members))


@keras.saving.register_keras_serializable(package="keras_transformer")
class Ensemble(keras.Model):
    """Ensemble of Transformers: the mean of their probabilities (Sutskever et al. 2014, section 3.6).

    Models trained from different random weights make different errors, so their mean is better than each, at
    the cost of running all. Decode, score, save and export an ensemble like a `Transformer`; train its models
    separately.

    Args:
        models: Two or more `Transformer`s with the same vocabularies. Other sizes may differ.
        **kwargs: `name` of a Keras model.

    Call arguments:
        inputs: As for each of the models.
        training: Whether to apply dropout.

    Returns:
        float32 `(b, t, v)`: the logarithm of the mean probability of each token.

    Raises:
        TypeError: If a model is not a `Transformer`.
        ValueError: If there are fewer than two models, or their vocabularies differ.

    Example:
        >>> sizes = {"num_layers": 1, "num_heads": 2, "intermediate_dim": 16}
        >>> ensemble = Ensemble([Transformer(9, 11, hidden_dim=width, **sizes) for width in (8, 12)])
        >>> inputs = {"encoder_token_ids": ops.ones((1, 3)), "decoder_token_ids": ops.ones((1, 2))}
        >>> tuple(ensemble(inputs).shape)
        (1, 2, 11)
    """

    def __init__(self, models: Sequence[Transformer], **kwargs: object) -> None:
        super().__init__(**kwargs)
        _check_members(models)
        self.members = tuple(models)  # `tf.train.Checkpoint` does not see the models in a list
        # The models are built, and the ensemble adds no weights.
        self.built = True

    @property
    def config(self) -> TransformerConfig:
        """Configuration of the first model; all models read and write the same."""
        return self.members[0].config

    @property
    def max_length(self) -> int | None:
        """Smallest number of learned positions of the models; None without learned positions."""
        return min((model.max_length for model in self.members if model.max_length is not None), default=None)

    @property
    def max_source_length(self) -> int | None:
        """Maximum length of a source that all models read; None without learned positions."""
        limits = (model.max_source_length for model in self.members)
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def source_stride(self) -> int:
        """Number of tokens or frames for each vector of the first model's encoder."""
        return self.members[0].source_stride

    @property
    def source_embedding(self) -> keras.layers.Layer:
        """Source embedding of the first model; all models have the same vocabulary."""
        return self.members[0].source_embedding

    @property
    def target_embedding(self) -> keras.layers.Layer:
        """Target embedding of the first model; all models have the same vocabulary."""
        return self.members[0].target_embedding

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        return _mean_log_probabilities([model(inputs, training=training) for model in self.members])

    def start_decoding(
        self,
        inputs: Tensor,
        max_length: Tensor | int,
        beam_size: int = 1,
        *,
        padding_mask: Tensor | None = None,
        in_place: bool = False,
    ) -> tuple[Step[_EnsembleCache], _EnsembleCache]:
        """Run the encoders and return the function that decodes step by step.

        As `Transformer.start_decoding`, but `step` returns log-probabilities instead of logits.
        """
        starts = [
            model.start_decoding(
                inputs,
                max_length,
                beam_size,
                padding_mask=padding_mask,
                in_place=in_place,
            )
            for model in self.members
        ]

        def step(token_ids: Tensor, position: Tensor, cache: _EnsembleCache) -> tuple[Tensor, _EnsembleCache]:
            pairs = zip(starts, cache.members, strict=True)
            steps = [step(token_ids, position, member) for (step, _), member in pairs]
            logits, caches = zip(*steps, strict=True)
            return _mean_log_probabilities(logits), _EnsembleCache(caches)

        return step, _EnsembleCache(tuple(cache for _, cache in starts))

    def attention_scores(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the attention scores of the first model; see `Transformer.attention_scores`."""
        # Heads of different models do not correspond, so a mean would have no meaning.
        return self.members[0].attention_scores(inputs)

    def get_config(self) -> Config:
        models = [keras.saving.serialize_keras_object(model) for model in self.members]
        return {"models": models, "name": self.name}

    @classmethod
    def from_config(cls, config: Config, custom_objects: Config | None = None) -> "Ensemble":
        models = [keras.saving.deserialize_keras_object(model, custom_objects) for model in config["models"]]
        return cls(models, name=config["name"])


def _check_members(models: Sequence[Transformer]) -> None:
    check_kind(Sequence, models=models)
    if others := [type(model).__name__ for model in models if not isinstance(model, Transformer)]:
        raise TypeError(f"`models` must be Transformers. Received: {', '.join(others)}.")
    if len(models) < 2:
        raise ValueError(f"`models` must be two or more. Received: {len(models)}.")
    for name in _SAME:
        values = [getattr(model.config, name) for model in models]
        if len(set(values)) > 1:
            raise ValueError(f"`models` must have the same vocabularies. Received: {name} of {values}.")


def _mean_log_probabilities(logits: Sequence[Tensor]) -> Tensor:
    # The mean of the probabilities, computed from their logarithms: exp(-200) is 0 in float32.
    logarithms = ops.stack([ops.log_softmax(ops.cast(each, "float32"), axis=-1) for each in logits])
    return ops.logsumexp(logarithms, axis=0) - math.log(len(logits))
