"""The stack of encoder layers."""

from typing import Any

import keras

from keras_transformer.layers.block import Block
from keras_transformer.layers.encoder_layer import EncoderLayer
from keras_transformer.layers.validation import check_positive, freeze_parts
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Encoder(Block):
    """`num_layers` encoder layers, one after the other.

    It takes vectors, not token ids, so anything of shape `(b, s, d)` may enter.
    A pre-norm stack ends with a normalisation.

    Args:
        num_layers: the number of layers.
        num_heads: see `Block`, as for the other arguments.
        intermediate_dim: see `Block`.
        **kwargs: the options of `Block`.

    Call arguments:
        inputs: `(b, s, d)`.
        padding_mask: `(b, s)`, True (1) where there is a token.
        attention_mask: of every layer; see `EncoderLayer`.
        return_attention_scores: whether the scores are returned too.
        training: whether dropout is on.
        mask: the Keras mask, by which Keras's wrappers hand over what `padding_mask` says.

    Returns:
        `(b, s, d)`; with `return_attention_scores` a pair of that and a dict
        of `layer_{i}/self_attention`, from 1, to scores `(b, h, s, s)`.
    """

    def __init__(self, num_layers: int, num_heads: int, intermediate_dim: int, **kwargs: Any) -> None:
        super().__init__(num_heads, intermediate_dim, **kwargs)
        check_positive(num_layers=num_layers)
        self.num_layers = num_layers

    def build(self, inputs_shape: Shape) -> None:
        self.layers = []
        for number in range(1, self.num_layers + 1):
            layer = EncoderLayer(**self.block_options(), dtype=self.dtype_policy, name=f"layer_{number}")
            layer.build(inputs_shape)
            self.layers.append(layer)
        self.final_normalization = self._final_normalization(inputs_shape)
        freeze_parts(self)

    def call(
        self,
        inputs: Tensor,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, dict[str, Tensor]]:
        padding_mask = mask if padding_mask is None else padding_mask
        x, all_scores = inputs, {}
        for layer in self.layers:
            x, scores = self._attend(
                layer,
                x,
                padding_mask=padding_mask,
                attention_mask=attention_mask,
                need_scores=return_attention_scores,
                training=training,
            )
            all_scores.update({f"{layer.name}/{name}": s for name, s in (scores or {}).items()})
        x = self.final_normalization(x)
        return (x, all_scores) if return_attention_scores else x

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return tuple(inputs_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_layers": self.num_layers}
