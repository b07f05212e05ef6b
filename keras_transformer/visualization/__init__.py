"""Pictures of a model: where it looks, and how it learned.

Every function returns a `matplotlib` figure and writes it to a file where a path is given. None of them
opens a window or touches the state of `pyplot`.
"""

from keras_transformer.visualization.attention import plot_attention
from keras_transformer.visualization.training_curves import plot_training

__all__ = ["plot_attention", "plot_training"]
