"""The last batches of a dataset, to be looked at when one of them was wrong."""

from collections import deque
from typing import Any

import numpy as np

# More than a pipeline prepares before they are trained on, and no more memory than they are worth.
_NUM_KEPT, _NUM_BYTES = 64, 1 << 28


class RecentBatches:
    """Remembers what a `tf.data` dataset gives, while it is trained on.

    Example:
        ```python
        recent = RecentBatches()
        model.fit(recent.watch(dataset), callbacks=[StopOnNonFinite(recent, directory)])
        ```
    """

    def __init__(self) -> None:
        self._batches: deque[tuple[int, list[np.ndarray]]] = deque(maxlen=_NUM_KEPT)

    def watch(self, dataset: Any) -> Any:
        """Make a dataset of the same elements that are remembered.

        Args:
            dataset: of batches; anything but a `tf.data` dataset of tensors with an end, which numbers its
                batches as epochs do, is given back as it is, and not watched.

        Returns:
            The dataset to train on.
        """
        if not all(hasattr(dataset, name) for name in ("enumerate", "element_spec")):
            return dataset
        import tensorflow as tf

        has_tensors = all(isinstance(s, tf.TensorSpec) for s in tf.nest.flatten(dataset.element_spec))
        if not has_tensors or int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY:
            return dataset

        def remember(number: Any, *batch: Any) -> Any:
            """Keep the arrays of one batch, and pass it on."""
            arrays = tf.nest.flatten(batch)
            with tf.control_dependencies([tf.numpy_function(self._keep, [number, *arrays], [])]):
                kept = [tf.identity(array) for array in arrays]
            elements = tf.nest.pack_sequence_as(batch, kept)
            return elements if len(elements) > 1 else elements[0]

        single = not isinstance(dataset.element_spec, tuple)
        if single:
            return dataset.enumerate().map(remember)
        return dataset.enumerate().map(lambda number, batch: remember(number, *batch))

    def _keep(self, number: int, *arrays: np.ndarray) -> None:
        self._batches.append((int(number), [np.array(array) for array in arrays]))
        while sum(array.nbytes for _, kept in self._batches for array in kept) > _NUM_BYTES:
            self._batches.popleft()

    def arrays(self, number: int) -> list[np.ndarray] | None:
        """Give a batch.

        Args:
            number: in its epoch, from 0.

        Returns:
            Its arrays in the order of `tf.nest.flatten`: of the inputs by name, then the labels; or None
            where it is not remembered.
        """
        return next((arrays for kept, arrays in reversed(self._batches) if kept == number), None)
