"""What all models have in common: they are made of named parts, from a config that is saved."""

from typing import TYPE_CHECKING, Any

import keras

from keras_transformer.models.batch_parts import BatchParts
from keras_transformer.models.presets import preset
from keras_transformer.models.second_pass import SecondPass
from keras_transformer.types import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self


class ConfiguredModel(BatchParts, SecondPass, keras.Model):
    """The base of the models: a Functional model that remembers its constructor's arguments.

    `type(model).from_config(model.get_config())` is another model of the same shape.
    `keras.models.clone_model` makes none: it copies layer by layer, and so gives a tied
    output a table of its own.

    Args:
        config: each constructor argument's name and value.
        parts: each layer by the name of the attribute that it becomes.
        inputs: of the Functional model.
        outputs: of the Functional model.
        **kwargs: `name` of a Keras model.
    """

    def __init__(
        self,
        config: dict[str, Any],
        parts: dict[str, keras.layers.Layer],
        inputs: Tensor,
        outputs: Tensor,
        **kwargs: Any,
    ) -> None:
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        self.config = config
        self.part_names = tuple(parts)
        for name, part in parts.items():
            setattr(self, name, part)

    @classmethod
    def from_preset(cls, name: str, *sizes: int | None, **overrides: Any) -> "Self":
        """Make an untrained model of a known size.

        Args:
            name: `tiny`, `small`, `base` or `big`.
            *sizes: the constructor's positional arguments, such as vocabulary sizes.
            **overrides: constructor arguments that replace those of the preset.

        Returns:
            The model.

        Raises:
            ValueError: an unknown preset.
        """
        constructor: Any = cls  # which takes what its own class says
        return constructor(*sizes, **{**preset(name), **overrides})

    def with_dtype(self, dtype: str) -> "Self":
        """Make a model of the same weights that computes in another precision.

        A model that was trained in mixed precision keeps its weights in float32; the one that it
        becomes for `float32` can be served, and written in every format.

        Args:
            dtype: `float32`, `mixed_bfloat16`, or what else `keras.DTypePolicy` takes.

        Returns:
            A new model, which is not compiled.
        """
        policy = keras.saving.serialize_keras_object(keras.DTypePolicy(dtype))
        model = type(self).from_config({**self.get_config(), "dtype": policy})
        model.set_weights(self.get_weights())
        return model

    def get_config(self) -> dict[str, Any]:
        activation = keras.activations.serialize(keras.activations.get(self.config["activation"]))
        dtype = keras.saving.serialize_keras_object(self.position_encoding.dtype_policy)
        # By number, since names of layers depend on what was made before.
        frozen = [number for number, layer in enumerate(self._flatten_layers()) if not layer.trainable]
        frozen_weights = [number for number, weight in enumerate(self.weights) if not weight.trainable]
        return {
            **self.config,
            "activation": activation,
            "dtype": dtype,
            "name": self.name,
            "frozen": frozen,
            "frozen_weights": frozen_weights,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> "Self":
        config = dict(config)
        config["dtype"] = keras.saving.deserialize_keras_object(config["dtype"])
        frozen, frozen_weights = config.pop("frozen", []), config.pop("frozen_weights", [])
        constructor: Any = cls
        model = constructor(**config)
        for number, layer in enumerate(list(model._flatten_layers())):  # each after those that hold it
            if layer.trainable != (number not in frozen):
                layer.trainable = number not in frozen
        for number in frozen_weights:  # and what was frozen one by one
            if model.weights[number].trainable:
                model.weights[number].trainable = False
        return model
