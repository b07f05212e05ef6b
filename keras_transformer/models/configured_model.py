"""The base of the models: a configuration that is saved."""

import warnings
from collections.abc import Callable
from typing import Any, Self, TypeAlias, TypeVar

import keras

from keras_transformer._arguments import check_choice
from keras_transformer._backend.compiler import build_optimizer
from keras_transformer.models.config import PRESETS, _ModelConfig
from keras_transformer.models.parts import Parts
from keras_transformer.types import Config, Tensor

Cache = TypeVar("Cache")
Step: TypeAlias = Callable[[Tensor, Tensor, Cache], tuple[Tensor, Cache]]
"""`(token_ids (b * n,), position, cache) -> (logits (b * n, v), cache)`."""


class ConfiguredModel(keras.Model):
    """The base of the models: a Functional model that keeps its configuration.

    `type(model).from_config(model.get_config())` is another model of the same shape.
    `keras.models.clone_model` makes none: it copies layer by layer, and so gives a tied output a table of
    its own.
    """

    config: _ModelConfig

    def _keep(self, config: _ModelConfig, parts: Parts) -> None:
        """Keep the configuration, and each part as the attribute of its name."""
        self.config = config
        for name, part in parts.items():
            setattr(self, name, part)

    @property
    def max_length(self) -> int | None:
        """Number of positions that the model has learned; None if it has no limit."""
        return self.config.max_length

    @property
    def is_quantized(self) -> bool:
        """Whether kernels are of integers."""
        return bool(self._quantized())

    @classmethod
    def from_preset(cls, name: str, *sizes: int | None, **overrides: object) -> "Self":
        """Make an untrained model of a known size.

        Args:
            name: `tiny`, `small`, `base` or `big`.
            *sizes: the constructor's positional arguments, such as vocabulary sizes.
            **overrides: constructor arguments that replace those of the preset.

        Returns:
            The model.

        Raises:
            ValueError: if the preset is unknown.
        """
        check_choice(tuple(PRESETS), preset=name)
        return cls(*sizes, **{**PRESETS[name].options(), **overrides})

    def with_dtype(self, dtype: str) -> "Self":
        """Make a model of the same weights that computes in another precision.

        A model that was trained in mixed precision keeps its weights in float32; the one that it
        becomes for `float32` can be served, and written in every format.

        Args:
            dtype: `float32`, `mixed_bfloat16`, or what else `keras.DTypePolicy` takes.

        Returns:
            A new model, which is not compiled.

        Raises:
            ValueError: if the model is quantized.
        """
        if self.is_quantized:
            raise ValueError(f"A quantized model has one precision. Received: dtype={dtype!r}.")
        policy = keras.saving.serialize_keras_object(keras.DTypePolicy(dtype))
        model = type(self).from_config({**self.get_config(), "dtype": policy})
        model.set_weights(self.get_weights())
        return model

    def fit(self, *args: object, class_weight: object = None, **kwargs: object) -> keras.callbacks.History:
        """Train the model, as `keras.Model.fit` does; raise ValueError for a weight of each token."""
        self._check_class_weight(class_weight)
        return super().fit(*args, class_weight=class_weight, **kwargs)

    def train_on_batch(self, *args: Any, class_weight: object = None, **kwargs: Any) -> Tensor:
        """Train on one batch, as `keras.Model.train_on_batch` does; raise as `fit` does."""
        self._check_class_weight(class_weight)
        return super().train_on_batch(*args, class_weight=class_weight, **kwargs)

    def _check_class_weight(self, class_weight: object) -> None:
        # Keras takes labels (b, t) for one-hot rows: it weights each example by where its largest id stands.
        if class_weight is not None and len(self.output_shape) > 2:
            raise ValueError(
                "`class_weight` weights examples, and labels (b, t) are of several classes. Weight tokens "
                "instead, by sample_weight=np.vectorize(class_weight.get)(labels), of the shape (b, t). "
                f"Received: class_weight={class_weight}."
            )

    def quantize(self, mode: str | None = None, **kwargs: object) -> None:
        """Quantize every kernel, as `keras.Model.quantize` does; tables and normalizations stay floats.

        A call quantizes its activations too, and decoding multiplies them as they are.

        Args:
            mode: `int8`.
            **kwargs: see `keras.Model.quantize`.

        Raises:
            ValueError: another mode.
        """
        check_choice(("int8",), mode=mode)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Keras warns of each layer that has no kernel.
            super().quantize(mode, **kwargs)

    def __call__(self, inputs: Tensor, *args: object, **kwargs: object) -> Tensor:
        """Call the model on complete inputs."""
        return super().__call__(self._complete(inputs), *args, **kwargs)

    def call(self, inputs: Tensor, training: bool | None = None, mask: Tensor | None = None) -> Tensor:
        # Keras on JAX trains through `call`, everything else comes through `__call__`.
        return super().call(self._complete(inputs), training=training, mask=mask)

    def _complete(self, inputs: Tensor) -> Tensor:
        """Fill in the inputs that may be left out."""
        return inputs

    def compute_loss(
        self,
        x: Tensor = None,
        y: Tensor | None = None,
        y_pred: Tensor | None = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
    ) -> Tensor:
        """Compute the loss; Keras calls this.

        A loss with the method `add_passes` runs the model once more when it trains, and returns the loss of
        all passes. Evaluation and metrics see one pass.
        """
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if hasattr(self.loss, "add_passes"):
            return self.loss.add_passes(self, loss, x, y, y_pred, sample_weight) if training else loss
        if any(hasattr(each, "add_passes") for each in keras.tree.flatten(self.loss)):
            raise ValueError(
                "A loss of several passes must be given alone, not in a list or a dictionary. "
                f"Received: loss={self.loss!r}."
            )
        return loss

    def make_train_function(self, force: bool = False) -> object:
        """Make the function that trains on a batch; Keras calls this."""
        build_optimizer(self)
        return super().make_train_function(force)

    def get_config(self) -> Config:
        # By number: the names of layers inside a part depend on what was made before, their order does not.
        frozen = [number for number, layer in enumerate(self._flatten_layers()) if not layer.trainable]
        frozen_weights = [number for number, weight in enumerate(self.weights) if not weight.trainable]
        return {
            **self.config.get_config(),
            "dtype": keras.saving.serialize_keras_object(self._policy()),
            "name": self.name,
            "frozen": frozen,
            "frozen_weights": frozen_weights,
        }

    def _policy(self) -> keras.DTypePolicy:
        """Return the dtype policy that makes such a model: a map where some layers are quantized."""
        policy = self.position_encoding.dtype_policy
        quantized = self._quantized()
        if not quantized:
            return policy
        given = dict(policy) if isinstance(policy, keras.dtype_policies.DTypePolicyMap) else {}
        default = getattr(policy, "default_policy", policy)
        return keras.dtype_policies.DTypePolicyMap(default, {**given, **quantized})

    def _quantized(self) -> dict[str, keras.DTypePolicy]:
        policies = {layer.path: layer.dtype_policy for layer in self._flatten_layers()}
        for path, policy in policies.items():  # of a loaded model each layer has the whole map
            if path and isinstance(policy, keras.dtype_policies.DTypePolicyMap):
                policies[path] = policy[path]
        return {path: policy for path, policy in policies.items() if policy.quantization_mode}

    @classmethod
    def from_config(cls, config: Config, custom_objects: Config | None = None) -> "Self":
        config = {**config, "dtype": keras.saving.deserialize_keras_object(config["dtype"])}
        frozen, frozen_weights = config.pop("frozen", []), config.pop("frozen_weights", [])
        model = cls(**config)
        layers = list(model._flatten_layers())  # each after those that hold it
        frozen = {range(len(layers))[number] for number in frozen}
        for number, layer in enumerate(layers):
            if layer.trainable != (number not in frozen):
                layer.trainable = number not in frozen
        for number in frozen_weights:  # and what was frozen one by one
            if model.weights[number].trainable:
                model.weights[number].trainable = False
        return model
