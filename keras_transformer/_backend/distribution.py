"""Engines that train on several devices, by the backend that has each."""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager

import keras

from keras_transformer._arguments import check_choice
from keras_transformer.errors import InputError
from keras_transformer.types import Tensor

ENGINES = {
    "cores": "tensorflow",
    "mirrored": "tensorflow",
    "tpu": "tensorflow",
    "data_parallel": "jax",
    "model_parallel": "jax",
}
"""The backend of each engine."""


def check_engine(engine: str) -> None:
    """Raise ValueError for an unknown engine, and InputError for one of another backend."""
    check_choice(tuple(ENGINES), engine=engine)
    if keras.backend.backend() != ENGINES[engine]:
        raise InputError(
            f"{engine} is an engine of the {ENGINES[engine]} backend. "
            f"Received: the backend {keras.backend.backend()}; set KERAS_BACKEND={ENGINES[engine]}."
        )


def device_scope(
    engine: str, model_shards: int, split_axes: Mapping[str, tuple[str | None, ...]]
) -> AbstractContextManager[object]:
    """Return the scope in which a backend's engine spreads what is made.

    Args:
        engine: one of those of several devices.
        model_shards: for "model_parallel", the number of parts of a large weight.
        split_axes: for "model_parallel", "model" or None for each axis of a weight, by its path.

    Returns:
        A context manager.
    """
    if engine == "data_parallel":
        return keras.distribution.DataParallel(auto_shard_dataset=False).scope()
    if engine == "model_parallel":
        return _model_parallel(model_shards, split_axes).scope()
    import tensorflow as tf

    if engine == "mirrored":
        # All graphics cards, or else all logical CPU devices, of which there is mostly one.
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        return tf.distribute.MirroredStrategy([device.name for device in devices]).scope()
    name = os.environ.get("TPU_NAME", "")
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(name)
    except (ValueError, tf.errors.OpError) as error:
        raise InputError(f"No TPU can be reached; TPU_NAME says which one. TensorFlow: {error}") from error
    return tf.distribute.TPUStrategy(resolver).scope()


def _model_parallel(
    num_shards: int, split_axes: Mapping[str, tuple[str | None, ...]]
) -> keras.distribution.ModelParallel:
    devices = keras.distribution.list_devices()
    if num_shards < 1 or len(devices) % num_shards:
        raise ValueError(
            f"`model_shards` must be above zero and divide the {len(devices)} devices. "
            f"Received: model_shards={num_shards}."
        )
    shape = (len(devices) // num_shards, num_shards)
    layouts = keras.distribution.LayoutMap(keras.distribution.DeviceMesh(shape, ["batch", "model"], devices))
    for path, axes in split_axes.items():
        layouts[path] = axes
    return keras.distribution.ModelParallel(
        layout_map=layouts, batch_dim_name="batch", auto_shard_dataset=False
    )


def row_shares(model: keras.Model) -> list[tuple[int, int | None]]:
    """Return how the rows of each batch are shared: a number of shares, and which is kept, or None for all.

    Raises:
        InputError: if Keras cannot train the model under its strategy.
    """
    strategy = getattr(model, "distribute_strategy", None)
    if type(strategy).__name__ in ("MultiWorkerMirroredStrategy", "CollectiveAllReduceStrategy"):
        # Keras 3 takes it, and then fails with an error of its own.
        raise InputError(
            "Keras 3 cannot train under tf.distribute.MultiWorkerMirroredStrategy. For several hosts use the "
            "JAX backend: KERAS_BACKEND=jax, keras.distribution.initialize() in each process, and "
            f'kt.training.distributed("data_parallel"). Received: {type(strategy).__name__}.'
        )
    if keras.backend.backend() != "jax":
        num_replicas = getattr(strategy, "num_replicas_in_sync", 1)
        return [(num_replicas, None)] if num_replicas > 1 else []
    if keras.distribution.distribution() is None:
        return []
    import jax

    # Each process hands in its rows of a batch that all devices share.
    filled = (len(keras.distribution.list_devices()), None)
    return [filled, (jax.process_count(), jax.process_index())] if jax.process_count() > 1 else [filled]


def sum_over_replicas(value: Tensor) -> Tensor:
    """Add up a scalar that each replica has of its own part of the batch; one replica keeps its own."""
    # A mean over a global batch is each replica's sum divided by the count of all: Keras adds up the
    # gradients of the replicas. JAX needs none of this, since its arrays are global, and torch has one
    # replica in a process.
    if keras.backend.backend() != "tensorflow":
        return value
    import tensorflow as tf

    strategy = tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync == 1 or tf.distribute.in_cross_replica_context():
        return value
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, value)
