"""What layers have in common that hand out attention scores when asked."""

from typing import Any

import keras

from keras_transformer.types import Tensor


class ScoredLayer(keras.layers.Layer):
    """The base of layers whose `return_attention_scores` changes what a call returns.

    `compute_output_shape` knows only the output. Where scores are wanted from
    symbolic inputs, Keras has to follow the call itself.
    """

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Give shapes and dtypes of what a call would return.

        Args:
            *args: the call's positional arguments.
            **kwargs: the call's keyword arguments.

        Returns:
            A `KerasTensor`, or with `return_attention_scores` a structure of them.
        """
        if kwargs.get("return_attention_scores"):
            return keras.Operation.compute_output_spec(self, *args, **kwargs)
        return super().compute_output_spec(*args, **kwargs)

    @staticmethod
    def _attend(layer: Any, *inputs: Tensor, need_scores: bool, **options: Any) -> tuple[Tensor, Any]:
        """Call a layer, and give None for the scores that nobody needs, so that none are computed."""
        outputs = layer(*inputs, return_attention_scores=need_scores, **options)
        return outputs if need_scores else (outputs, None)
