"""Base class of all models: saved configuration, presets, LoRA, quantization."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias, TypeVar

import keras

from keras_transformer._arguments import as_integers, as_tensor, check_choice, check_positive
from keras_transformer._backend.compiler import build_optimizer
from keras_transformer.models.config import PRESETS, _ModelConfig
from keras_transformer.models.fit_notes import _FitNotes
from keras_transformer.models.parts import Parts
from keras_transformer.types import Config, Inputs, Tensor

Cache = TypeVar("Cache")
Step: TypeAlias = Callable[[Tensor, Tensor, Cache], tuple[Tensor, Cache]]
"""`(token_ids (b * n,), position, cache) -> (logits (b * n, v), cache)`."""

_LINEAR = (keras.layers.Dense, keras.layers.EinsumDense)
_CHANGES = ("frozen", "frozen_weights", "lora")  # config entries of changes after construction


class ConfiguredModel(keras.Model):
    """Base class of the models: a Functional model with a saved configuration.

    `type(model).from_config(model.get_config())` builds an untrained copy. Do not use
    `keras.models.clone_model`: it copies layer by layer, so a tied output no longer shares the embedding
    table.
    """

    config: _ModelConfig

    def _store_config(self, config: _ModelConfig, parts: Parts) -> None:
        """Store the configuration, and every part as an attribute."""
        self.config = config
        self.supports_masking = True  # a model reads the Keras mask of its source
        for name, part in parts.items():
            setattr(self, name, part)
        # From the model's policy Keras decides whether to scale the loss.
        policy = self.position_encoding.dtype_policy
        self.dtype_policy = getattr(policy, "default_policy", policy)

    @property
    def max_length(self) -> int | None:
        """Number of learned positions; None without learned positions."""
        return self.config.max_length

    @property
    def max_source_length(self) -> int | None:
        """Maximum length of a source or prompt; None without learned positions."""
        return self.max_length

    @property
    def is_quantized(self) -> bool:
        """Whether the model is quantized."""
        return bool(self._quantized())

    @classmethod
    def from_preset(cls, name: str, *sizes: int | None, **overrides: object) -> "Self":
        """Build an untrained model of a standard size.

        Args:
            name: `tiny`, `small`, `base` or `big`.
            *sizes: Positional arguments of the constructor, such as vocabulary sizes.
            **overrides: Constructor arguments that replace those of the preset.

        Returns:
            The model.

        Raises:
            ValueError: If the preset is unknown.
        """
        check_choice(tuple(PRESETS), preset=name)
        return cls(*sizes, **{**PRESETS[name].options(), **overrides})

    def with_dtype(self, dtype: str) -> "Self":
        """Return a copy of the model that computes in another precision.

        Use `with_dtype("float32")` to serve or export a model trained in mixed precision; its weights are
        float32 already.

        Args:
            dtype: `float32`, `mixed_bfloat16`, or another argument of `keras.DTypePolicy`.

        Returns:
            A new model with the same weights, not compiled.

        Raises:
            ValueError: If the model is quantized.
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
        """Enable LoRA: train low-rank factors of some kernels and freeze all other weights (Hu et al. 2021).

        A kernel becomes `kernel + alpha / rank * a @ b`. `b` starts as zeros, so the outputs do not change at
        first. Saving, loading, decoding and exports support the factors. Compile the model afterwards.

        Args:
            rank: Inner size of the factors.
            targets: Names of the layers whose kernels get factors: `query`, `key`, `value`,
                `attention_output`, `inner`, `outer`, `gate`; or parts of the paths in `model.weights`, such
                as `decoder`, `cross_attention` or `cross_attention/query`, for all kernels below them.
            alpha: Scale of the factors. Defaults to `rank`.

        Raises:
            TypeError: If `rank` is not an integer.
            ValueError: If `rank` is not above zero, a target matches no kernel, or LoRA is already enabled.

        Example:
            >>> from keras_transformer import CausalLM
            >>> model = CausalLM(100, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
            >>> model.enable_lora(2)
            >>> sum(weight.shape.num_elements() for weight in model.trainable_weights)
            80
        """
        check_positive(rank=rank)
        if self._lora_layers():
            raise ValueError("LoRA is enabled already. `merge_lora` returns a model without factors.")
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
        """Return a model with the LoRA factors merged into the kernels.

        Returns:
            A new model with the same outputs, all weights trainable, not compiled.

        Raises:
            ValueError: If the model is quantized.
        """
        if self.is_quantized:
            raise ValueError("Quantized kernels cannot absorb LoRA factors. Merge before `quantize`.")
        config = {name: value for name, value in self.get_config().items() if name not in _CHANGES}
        model = type(self).from_config(config)
        factors = ("lora_kernel_a", "lora_kernel_b")
        model.set_weights([weight for weight in self.weights if weight.name not in factors])
        for layer, merged in zip(self._flatten_layers(), model._flatten_layers(), strict=True):
            if getattr(layer, "lora_enabled", False):
                merged.kernel.assign(layer.kernel)
        return model

    def fit(self, *args: object, class_weight: object = None, **kwargs: object) -> keras.callbacks.History:
        """Train the model, as `keras.Model.fit`; raise ValueError for `class_weight` with token labels."""
        self._check_class_weight(class_weight)
        given = kwargs.get("callbacks") or []
        # `callbacks` is the sixth argument.
        if len(args) <= 5 and not isinstance(given, keras.callbacks.CallbackList):
            kwargs["callbacks"] = [*keras.tree.flatten(given), _FitNotes()]
        return super().fit(*args, class_weight=class_weight, **kwargs)

    def train_on_batch(self, *args: Any, class_weight: object = None, **kwargs: Any) -> object:
        """Train on one batch, as `keras.Model.train_on_batch`; raise ValueError as `fit` does."""
        self._check_class_weight(class_weight)
        return super().train_on_batch(*args, class_weight=class_weight, **kwargs)

    def _check_class_weight(self, class_weight: object) -> None:
        # Keras takes labels (b, t) for one-hot rows and weights each example by the index of its largest id.
        if class_weight is not None and len(self.output_shape) > 2:
            raise ValueError(
                "`class_weight` weights examples, and labels (b, t) are of several classes. Weight tokens "
                "instead, by sample_weight=np.vectorize(class_weight.get)(labels), of the shape (b, t). "
                f"Received: class_weight={class_weight}."
            )

    def quantize(self, mode: str | None = None, **kwargs: object) -> None:
        """Quantize every kernel, as `keras.Model.quantize`; embedding tables and normalizations stay floats.

        A call of the model also quantizes activations; decoding does not.

        Args:
            mode: `int8`, `int4`, or `float8` (for training with float8 products; the kernels stay floats).
                Defaults to the mode of `config`.
            **kwargs: `config` and `filters` of `keras.Model.quantize`.

        Raises:
            ValueError: If the mode is unknown.
        """
        mode = mode or getattr(kwargs.get("config"), "mode", None)
        check_choice(("int8", "int4", "float8"), mode=mode)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Keras warns about every layer without a kernel.
            super().quantize(mode, **kwargs)

    def __call__(self, inputs: Inputs, *args: object, mask: Tensor | None = None, **kwargs: object) -> Tensor:
        """Call the model, with omitted masks filled in."""
        return super().__call__(self._read(inputs, mask), *args, **kwargs)

    def call(self, inputs: Inputs, training: bool | None = None, mask: Tensor | None = None) -> Tensor:
        # Keras on JAX trains through `call`; all other calls use `__call__`.
        return super().call(self._read(inputs, mask), training=training)

    def _read(self, inputs: Inputs, mask: Tensor | None) -> Inputs:
        """Return the inputs with omitted ones filled in, and whole floats as ids."""
        if isinstance(inputs, list | tuple) and len(inputs) == 1 and hasattr(inputs[0], "shape"):
            [inputs] = inputs
        inputs = self._complete(inputs, mask)
        # Keras would cut fractions to ids.
        ids = {tensor.name for tensor in self.inputs if keras.backend.is_int_dtype(tensor.dtype)}
        if isinstance(inputs, dict):
            return {
                name: as_integers(as_tensor(values), name) if name in ids else values
                for name, values in inputs.items()
            }
        return as_integers(as_tensor(inputs)) if ids and hasattr(inputs, "shape") else inputs

    def compute_mask(self, inputs: Inputs, previous_mask: object = None) -> None:
        """Return None: outputs have no Keras mask. Called by Keras."""

    def _complete(self, inputs: Inputs, mask: Tensor | None = None) -> Inputs:
        """Return the inputs with omitted ones filled in; `mask` is the source's padding mask `(b, s)`."""
        raise NotImplementedError

    def compute_loss(
        self,
        x: Inputs | None = None,
        y: Tensor | None = None,
        y_pred: Tensor | None = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
    ) -> Tensor:
        """Compute the loss; called by Keras.

        In training, a loss with a method `add_passes` runs the model once more and returns the loss of all
        passes. Evaluation and metrics use one pass.
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
        """Build the function that trains on a batch; called by Keras."""
        build_optimizer(self)
        return super().make_train_function(force)

    def get_config(self) -> Config:
        # By number: layer names depend on the layers created before, the order of layers does not.
        frozen = [number for number, layer in enumerate(self._flatten_layers()) if not layer.trainable]
        frozen_weights = [number for number, weight in enumerate(self.weights) if not weight.trainable]
        return {
            **self.config.get_config(),
            "dtype": keras.saving.serialize_keras_object(self._policy()),
            "name": self.name,
            "frozen": frozen,
            "frozen_weights": frozen_weights,
            "lora": self._lora_layers(),
        }

    def _lora_layers(self) -> list[tuple[int, int, float]]:
        """Return the number, rank and alpha of each layer with LoRA factors."""
        layers = enumerate(self._flatten_layers())
        return [
            (number, layer.lora_rank, layer.lora_alpha)
            for number, layer in layers
            if getattr(layer, "lora_enabled", False)
        ]

    def _policy(self) -> keras.DTypePolicy:
        """Return the dtype policy of the model, a `DTypePolicyMap` if layers are quantized."""
        policy = self.position_encoding.dtype_policy
        quantized = self._quantized()
        if not quantized:
            return policy
        given = dict(policy) if isinstance(policy, keras.dtype_policies.DTypePolicyMap) else {}
        default = getattr(policy, "default_policy", policy)
        return keras.dtype_policies.DTypePolicyMap(default, {**given, **quantized})

    def _quantized(self) -> dict[str, keras.DTypePolicy]:
        policies = {layer.path: layer.dtype_policy for layer in self._flatten_layers()}
        for path, policy in policies.items():  # in a loaded model every layer has the whole map
            if path and isinstance(policy, keras.dtype_policies.DTypePolicyMap):
                policies[path] = policy[path]
        return {path: policy for path, policy in policies.items() if policy.quantization_mode}

    @classmethod
    def from_config(cls, config: Config, custom_objects: Config | None = None) -> "Self":
        config = {**config, "dtype": keras.saving.deserialize_keras_object(config.get("dtype"))}
        frozen, frozen_weights, factors = (config.pop(name, []) for name in _CHANGES)
        model = cls(**config)
        layers = list(model._flatten_layers())  # every layer follows the layers that contain it
        for number, rank, alpha in factors:  # first, because the numbers of weights include the factors
            layers[number].enable_lora(rank, lora_alpha=alpha)
        frozen = {range(len(layers))[number] for number in frozen}
        for number, layer in enumerate(layers):
            if layer.trainable != (number not in frozen):
                layer.trainable = number not in frozen
        for number in frozen_weights:  # weights that were frozen separately
            if model.weights[number].trainable:
                model.weights[number].trainable = False
        return model
