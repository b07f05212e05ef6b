"""Plots of attention, masks, position encodings and training curves.

Every function returns a `matplotlib` figure and, if you pass `path`, writes it to a file.
`plot_attention_maps` writes one file per map and returns the paths. No function opens a window or changes
the state of `pyplot`.
"""

from keras_transformer.visualization.attention import plot_attention, plot_attention_maps
from keras_transformer.visualization.matrices import plot_mask, plot_position_encoding
from keras_transformer.visualization.training_curves import plot_training

__all__ = ["plot_attention", "plot_attention_maps", "plot_mask", "plot_position_encoding", "plot_training"]
__dir__ = __all__.copy  # `dir()` shows what is public
