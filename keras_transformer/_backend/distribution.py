"""Training on several devices: the engines of each backend."""

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
"""Backend of each engine."""


def check_engine(engine: str) -> None:
    """Raise ValueError for an unknown engine, InputError for an engine of another backend."""
    check_choice(tuple(ENGINES), engine=engine)
    if keras.backend.backend() != ENGINES[engine]:
        raise InputError(
            f"{engine} is an engine of the {ENGINES[engine]} backend. "
            f"Received: the backend {keras.backend.backend()}; set KERAS_BACKEND={ENGINES[engine]}."
        )


def device_scope(
    engine: str, model_shards: int, split_axes: Mapping[str, tuple[str | None, ...]]
) -> AbstractContextManager[object]:
    """Return the scope in which an engine distributes new variables.

    Args:
        engine: One of `ENGINES` for several devices.
        model_shards: Number of parts of a large weight, for `model_parallel`.
        split_axes: "model" or None for each axis of a weight, by the weight's path, for `model_parallel`.

    Returns:
        A context manager.
    """
    if engine == "data_parallel":
        return keras.distribution.DataParallel(auto_shard_dataset=False).scope()
    if engine == "model_parallel":
        return _model_parallel(model_shards, split_axes).scope()
    import tensorflow as tf

    if engine == "mirrored":
        # All GPUs, else all logical CPU devices, usually one.
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
    """Return how the rows of each batch are split among devices and processes.

    Returns:
        Pairs of the number of shards and the shard to keep, None for all. Empty if the
        rows are not split.

    Raises:
        InputError: If Keras cannot train the model under its strategy.
    """
    strategy = getattr(model, "distribute_strategy", None)
    if type(strategy).__name__ in ("MultiWorkerMirroredStrategy", "CollectiveAllReduceStrategy"):
        # Keras 3 accepts this strategy, but fails later with an unclear error.
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

    # Each process provides its rows of a batch that all devices share.
    filled = (len(keras.distribution.list_devices()), None)
    return [filled, (jax.process_count(), jax.process_index())] if jax.process_count() > 1 else [filled]


def sum_over_replicas(value: Tensor) -> Tensor:
    """Return the sum of a scalar over TensorFlow's replicas, such as the token count of the global batch."""
    # Keras sums the gradients of the replicas, so each replica must divide by the count of the whole batch.
    # JAX's arrays are global, and torch has one replica per process, so neither needs the sum.
    if keras.backend.backend() != "tensorflow":
        return value
    import tensorflow as tf

    strategy = tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync == 1 or tf.distribute.in_cross_replica_context():
        return value
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, value)
