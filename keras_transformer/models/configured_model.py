"""What all models have in common: they are made of named parts, from a config that is saved."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import keras

from keras_transformer.backend import BatchParts
from keras_transformer.models.config import preset
from keras_transformer.types import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self


Step: TypeAlias = Callable[[Tensor, Tensor, Any], tuple[Tensor, Any]]
"""`(token_ids (b * n,), position, cache) -> (logits (b * n, v), cache)`."""


class SecondPass:
    """Mixed into a Keras model, this lets its loss see two passes over the same batch, with other dropout.

    All models here have it. It does nothing unless the loss has the method
    `compare_passes(y_true, y_pred, second_y_pred, sample_weight)`, as `training.RDropCrossentropy` has.
    Then each batch of `fit` runs through the model twice, and its loss is the mean of those of both
    passes and what the method returns. `evaluate`, and all metrics, see one pass.

    Example:
        >>> import keras
        >>> class MyModel(SecondPass, keras.Model):
        ...     pass
        >>> inputs = keras.Input((3,), dtype="int32")
        >>> model = MyModel(inputs, keras.layers.Dropout(0.5)(keras.layers.Embedding(7, 7)(inputs)))
    """

    def compute_loss(
        self,
        x: Any = None,
        y: Tensor | None = None,
        y_pred: Tensor | None = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
    ) -> Tensor:
        """Compute the loss, with a second pass where the loss asks for one; Keras calls this.

        Args:
            x: the inputs of the model.
            y: the labels.
            y_pred: what the first pass gave.
            sample_weight: how much each sample counts, or None.
            training: whether the step trains.

        Returns:
            A scalar.

        Raises:
            ValueError: a loss that compares two passes is in a list or dict of losses.
        """
        this: Any = self
        keras_model: Any = super()  # since this class stands before it
        loss = keras_model.compute_loss(x, y, y_pred, sample_weight, training)
        compare_passes = getattr(this.loss, "compare_passes", None)
        if compare_passes is None and any(
            hasattr(x, "compare_passes") for x in keras.tree.flatten(this.loss)
        ):
            raise ValueError(
                "A loss that compares two passes must be given alone, as `loss=RDropCrossentropy(...)`. "
                f"Received: loss={this.loss!r}."
            )
        if not training or compare_passes is None:
            return loss
        second_y_pred = this(x, training=True)
        second_loss = keras_model.compute_loss(x, y, second_y_pred, sample_weight, training)
        return (loss + second_loss) / 2 + compare_passes(y, y_pred, second_y_pred, sample_weight)


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
