"""The base of the models: a configuration that is saved."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias, TypeVar

import keras

from keras_transformer._arguments import check_choice, check_positive
from keras_transformer._backend.compiler import build_optimizer
from keras_transformer.models.config import PRESETS, _ModelConfig
from keras_transformer.models.fit_notes import _FitNotes
from keras_transformer.models.parts import Parts
from keras_transformer.types import Config, Inputs, Tensor

Cache = TypeVar("Cache")
Step: TypeAlias = Callable[[Tensor, Tensor, Cache], tuple[Tensor, Cache]]
"""`(token_ids (b * n,), position, cache) -> (logits (b * n, v), cache)`."""

_LINEAR = (keras.layers.Dense, keras.layers.EinsumDense)
_STATE = ("frozen", "frozen_weights", "lora")  # of a configuration: what was done to the model since


class ConfiguredModel(keras.Model):
    """The base of the models: a Functional model that keeps its configuration.

    `type(model).from_config(model.get_config())` is another model of the same shape.
    `keras.models.clone_model` makes none: it copies layer by layer, and so gives a tied output a table of
    its own.
    """

    config: _ModelConfig

    def _store_config(self, config: _ModelConfig, parts: Parts) -> None:
        """Keep the configuration, and each part as the attribute of its name."""
        self.config = config
        self.supports_masking = True  # it reads the Keras mask of its source
        for name, part in parts.items():
            setattr(self, name, part)
        # By the policy of a model Keras decides whether to scale the loss.
        policy = self.position_encoding.dtype_policy
        self.dtype_policy = getattr(policy, "default_policy", policy)

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

    def enable_lora(
        self, rank: int, targets: Sequence[str] = ("query", "value"), *, alpha: float | None = None
    ) -> None:
        """Train small factors of some kernels in place of all weights (Hu et al. 2021, "LoRA").

        A kernel becomes `kernel + alpha / rank * a @ b`; `b` begins as zeros, so the outputs stay the same.
        Every other weight is frozen. Saving, loading, decoding and exports know the factors. Compile the
        model afterwards.

        Args:
            rank: inner size of the factors.
            targets: names of the layers whose kernels get factors, as the paths of `model.weights` have them:
                `query`, `key`, `value`, `attention_output`, `inner`, `outer`, `gate`. Part of a path chooses
                those below it: `decoder`, `cross_attention`, `cross_attention/query`.
            alpha: scale of the factors; `rank` if None.

        Raises:
            TypeError: if `rank` is not an integer.
            ValueError: if `rank` is not above zero, a target names no kernel, or the model has factors.

        Example:
            >>> from keras_transformer import CausalLM
            >>> model = CausalLM(100, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
            >>> model.enable_lora(2)
            >>> sum(weight.shape.num_elements() for weight in model.trainable_weights)
            80
        """
        check_positive(rank=rank)
        if self._factors():
            raise ValueError("LoRA is enabled already. `merge_lora` gives a model without factors.")
        kernels = [layer for layer in self._flatten_layers() if isinstance(layer, _LINEAR)]
        chosen = {}
        for target in [targets] if isinstance(targets, str) else targets:
            found = [layer for layer in kernels if f"/{target}/" in f"/{layer.path}/"]
            if not found:
                names = sorted({layer.name for layer in kernels})
                raise ValueError(f"`targets` must name layers such as {names}. Received: {target!r}.")
            chosen.update({layer.path: layer for layer in found})
        for weight in self.weights:
            weight.trainable = False
        for layer in chosen.values():
            layer.enable_lora(rank, lora_alpha=alpha)

    def merge_lora(self) -> "Self":
        """Make a model without factors that computes the same; all its weights are trainable.

        Returns:
            A new model, which is not compiled.

        Raises:
            ValueError: if the model is quantized.
        """
        if self.is_quantized:
            raise ValueError("Kernels of integers cannot take factors in. Merge before `quantize`.")
        config = {name: value for name, value in self.get_config().items() if name not in _STATE}
        model = type(self).from_config(config)
        factors = ("lora_kernel_a", "lora_kernel_b")
        model.set_weights([weight for weight in self.weights if weight.name not in factors])
        for layer, merged in zip(self._flatten_layers(), model._flatten_layers(), strict=True):
            if getattr(layer, "lora_enabled", False):
                merged.kernel.assign(layer.kernel)
        return model

    def fit(self, *args: object, class_weight: object = None, **kwargs: object) -> keras.callbacks.History:
        """Train the model, as `keras.Model.fit` does; raise ValueError for a weight of each token."""
        self._check_class_weight(class_weight)
        given = kwargs.get("callbacks") or []
        # `callbacks` is the sixth argument.
        if len(args) <= 5 and not isinstance(given, keras.callbacks.CallbackList):
            kwargs["callbacks"] = [*keras.tree.flatten(given), _FitNotes()]
        return super().fit(*args, class_weight=class_weight, **kwargs)

    def train_on_batch(self, *args: Any, class_weight: object = None, **kwargs: Any) -> object:
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
            mode: `int8`, `int4`, or `float8`, whose kernels stay floats, for a training whose products are of
                float8; None for that of the `config`.
            **kwargs: `config` and `filters`, see `keras.Model.quantize`.

        Raises:
            ValueError: another mode.
        """
        mode = mode or getattr(kwargs.get("config"), "mode", None)
        check_choice(("int8", "int4", "float8"), mode=mode)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Keras warns of each layer that has no kernel.
            super().quantize(mode, **kwargs)

    def __call__(self, inputs: Inputs, *args: object, mask: Tensor | None = None, **kwargs: object) -> Tensor:
        """Call the model on complete inputs."""
        return super().__call__(self._complete(inputs, mask), *args, **kwargs)

    def call(self, inputs: Inputs, training: bool | None = None, mask: Tensor | None = None) -> Tensor:
        # Keras on JAX trains through `call`, everything else comes through `__call__`.
        return super().call(self._complete(inputs, mask), training=training)

    def compute_mask(self, inputs: Inputs, previous_mask: object = None) -> None:
        """End the Keras mask; Keras calls this."""

    def _complete(self, inputs: Inputs, mask: Tensor | None = None) -> Inputs:
        """Fill in the inputs that may be left out; `mask` is that of the source `(b, s)`."""
        raise NotImplementedError

    def compute_loss(
        self,
        x: Inputs | None = None,
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
            "lora": self._factors(),
        }

    def _factors(self) -> list[tuple[int, int, float]]:
        """Return the number, rank and alpha of each layer with factors."""
        layers = enumerate(self._flatten_layers())
        return [
            (number, layer.lora_rank, layer.lora_alpha)
            for number, layer in layers
            if getattr(layer, "lora_enabled", False)
        ]

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
        frozen, frozen_weights, factors = (config.pop(name, []) for name in _STATE)
        model = cls(**config)
        layers = list(model._flatten_layers())  # each after those that hold it
        for number, rank, alpha in factors:  # before weights are numbered
            layers[number].enable_lora(rank, lora_alpha=alpha)
        frozen = {range(len(layers))[number] for number in frozen}
        for number, layer in enumerate(layers):
            if layer.trainable != (number not in frozen):
                layer.trainable = number not in frozen
        for number in frozen_weights:  # and what was frozen one by one
            if model.weights[number].trainable:
                model.weights[number].trainable = False
        return model
