"""Engines of TensorFlow that train on several cores or devices; those of JAX are `keras.distribution`."""

import os
from contextlib import AbstractContextManager, nullcontext

import keras

from keras_transformer.errors import InputError
from keras_transformer.types import Tensor


class Devices:
    """The cores, or the devices of a `tf.distribute` strategy, that share a batch."""

    _num_cores = 1

    @classmethod
    def scope(cls, engine: str) -> AbstractContextManager[object]:
        """Return the scope of "cores", "mirrored" or "tpu"; TensorFlow is told of the devices at once."""
        if engine == "cores":
            cls._num_cores = _claim_cores()
            return nullcontext(cls._num_cores)
        import tensorflow as tf

        if engine == "mirrored":
            # All graphics cards, or else all logical CPU devices, of which there is mostly one.
            devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
            return tf.distribute.MirroredStrategy([device.name for device in devices]).scope()
        name = os.environ.get("TPU_NAME", "")
        try:
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(name)
        except (ValueError, tf.errors.OpError) as error:
            raise InputError(
                f"No TPU can be reached; TPU_NAME says which one. TensorFlow: {error}"
            ) from error
        return tf.distribute.TPUStrategy(resolver).scope()

    @classmethod
    def num_cores(cls) -> int:
        """Return how many cores train on a part of each batch, 1 unless this process has claimed all."""
        return cls._num_cores

    @staticmethod
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


def _claim_cores() -> int:
    """Make TensorFlow run each operation on one core, and as many at a time as there are; return how many."""
    import tensorflow as tf

    # TensorFlow cannot take this back, so it holds for the rest of the process: models that are made from now
    # on train on as many parts of each batch. It is not the default, since searches then run on one core.
    num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threading = tf.config.threading
    if (1, num_cores) != (
        threading.get_intra_op_parallelism_threads(),
        threading.get_inter_op_parallelism_threads(),
    ):
        try:
            threading.set_intra_op_parallelism_threads(1)
            threading.set_inter_op_parallelism_threads(num_cores)
        except RuntimeError as error:
            raise InputError(
                "TensorFlow has begun to compute with other threads. Call "
                f'kt.training.distributed("cores") before anything else. TensorFlow: {error}'
            ) from error
    return num_cores
