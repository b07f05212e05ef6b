"""Engines of TensorFlow that train on several cores or devices; those of JAX are `keras.distribution`."""

import os
from contextlib import AbstractContextManager, nullcontext

from keras_transformer.backend.batch_parts import _claim_cores
from keras_transformer.errors import InputError


def device_scope(engine: str) -> AbstractContextManager[object]:
    """Return the scope of "cores", "mirrored" or "tpu"; TensorFlow is told of the devices at once."""
    if engine == "cores":
        return nullcontext(_claim_cores())
    return _mirrored() if engine == "mirrored" else _tpu()


def _mirrored() -> AbstractContextManager[object]:
    import tensorflow as tf

    # All graphics cards, or else all logical CPU devices, of which there is mostly one.
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices]).scope()


def _tpu() -> AbstractContextManager[object]:
    import tensorflow as tf

    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(os.environ.get("TPU_NAME", ""))
    except (ValueError, tf.errors.OpError) as error:
        raise InputError(f"No TPU can be reached; TPU_NAME says which one. TensorFlow: {error}") from error
    return tf.distribute.TPUStrategy(resolver).scope()
