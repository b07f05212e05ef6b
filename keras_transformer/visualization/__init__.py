"""Pictures of a model: where it looks, where it may look, how it tells positions, how it learned.

Every function returns a `matplotlib` figure and writes it to a file where a path is given, except
`plot_attention_maps`, which writes many and returns their paths. None of them opens a window or touches the
state of `pyplot`.
"""

from keras_transformer.visualization.attention import plot_attention, plot_attention_maps
from keras_transformer.visualization.mask import plot_mask
from keras_transformer.visualization.position_encoding import plot_position_encoding
from keras_transformer.visualization.training_curves import plot_training

__all__ = [
    "plot_attention",
    "plot_attention_maps",
    "plot_mask",
    "plot_position_encoding",
    "plot_training",
]
