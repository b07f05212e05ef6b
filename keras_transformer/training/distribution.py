"""Training on several cores, devices and hosts, by the engine that each backend has for it."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import keras

from keras_transformer.backend import claim_cores, num_cores
from keras_transformer.errors import InputError
from keras_transformer.models import CausalLM, EncoderModel, Transformer
from keras_transformer.training.losses import MaskedCrossentropy

ENGINES = {
    "cores": "tensorflow",
    "mirrored": "tensorflow",
    "tpu": "tensorflow",
    "data_parallel": "jax",
    "model_parallel": "jax",
}
"""The backend of each engine."""
_BATCH, _MODEL = "batch", "model"
# Of each weight, by its path: the axes of heads and of the inner width, and the width of a table.
_SPLIT_AXES = {
    r".*attention.*/(query|key|value|gate)_kernel": (None, _MODEL, None),
    r".*attention.*/(query|key|value|gate)_bias": (_MODEL, None),
    r".*attention.*/output_kernel": (_MODEL, None, None),
    r".*feed_forward.*/(inner|gate)/kernel": (None, _MODEL),
    r".*feed_forward.*/(inner|gate)/bias": (_MODEL,),
    r".*feed_forward.*/outer/kernel": (_MODEL, None),
    r".*embedding.*/embeddings": (None, _MODEL),
}


@contextmanager
def distributed(engine: str, *, model_shards: int = 2) -> Iterator[None]:
    """Spread what is made and trained inside over all cores or devices of this backend.

    "cores" is for a processor: each core works on a part of each batch, with one thread for each operation.
    TensorFlow has to be told so before it computes anything: come here, or call `claim_cores`, first. The
    model must be one of this package, and its loss `MaskedCrossentropy` or one like it.

    The other engines are those of the backends: `tf.distribute.MirroredStrategy` ("mirrored") and
    `TPUStrategy` ("tpu") on TensorFlow; `keras.distribution.DataParallel` ("data_parallel") and
    `ModelParallel` ("model_parallel") on JAX, over the devices of all hosts if
    `keras.distribution.initialize` was called, which reads the hosts from the environment. The loss is the
    mean over the real tokens of the whole batch, so training is that of one device with the same batches.

    Devices share the rows of a batch evenly. `fit` sees to that for "mirrored" and "tpu"; in a script that
    calls `model.fit` itself, and on JAX, use `data.fill_rows`. On JAX each process has its own rows, too:
    `data.rows_of_process`. Under a strategy of TensorFlow Keras begins a dataset once before the first
    epoch, so that the epochs of one that shuffles itself are one further on than with one device.

    Args:
        engine: one of the five.
        model_shards: of "model_parallel": parts that each large weight is split into, by heads, inner
            width and model width; they must divide these, and the number of devices.

    Yields:
        nothing; make, compile and fit the model inside.

    Raises:
        ValueError: an unknown engine, or shards that do not divide the devices.
        InputError: the backend in use has another engine, or it is too late to claim the cores.

    Example:
        ```python
        with kt.training.distributed("mirrored"):
            model = kt.models.Transformer(8000, 8000)
            kt.training.fit(model, dataset, directory="run", learning_rate=1e-3)
        ```
    """
    check_engine(engine)
    makers: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "cores": lambda: nullcontext(claim_cores()),
        "mirrored": lambda: _mirrored().scope(),
        "tpu": lambda: _tpu().scope(),
        "data_parallel": lambda: _data_parallel().scope(),
        "model_parallel": lambda: _model_parallel(model_shards).scope(),
    }
    with makers[engine]():
        yield


def check_engine(engine: str) -> None:
    """Refuse an engine that the backend in use does not have.

    Args:
        engine: see `distributed`.

    Raises:
        ValueError: an unknown engine.
        InputError: it is one of another backend.
    """
    if engine not in ENGINES:
        raise ValueError(f"`engine` must be one of {', '.join(ENGINES)}. Received: engine={engine!r}.")
    if keras.backend.backend() != ENGINES[engine]:
        raise InputError(
            f"{engine} is an engine of the {ENGINES[engine]} backend. "
            f"Received: the backend {keras.backend.backend()}; set KERAS_BACKEND={ENGINES[engine]}."
        )


def refuse_other_models(model: keras.Model) -> None:
    """Refuse a model that would be trained on one core, each operation having one thread.

    Args:
        model: about to be trained.

    Raises:
        InputError: it cannot be trained on parts of its batches, within `distributed("cores")`.
    """
    if num_cores() > 1 and not isinstance(model, CausalLM | EncoderModel | Transformer):
        raise InputError(f'"cores" trains models of this package. Received: {type(model).__name__}.')


def share_rows(model: keras.Model, dataset: Any) -> Any:
    """Fill batches with rows of padding, so that the replicas of a TensorFlow strategy have as many each.

    Keras takes the mean of the replicas' losses by their rows, where this package's are by tokens, and
    cannot begin with a batch whose parts have different shapes.

    Args:
        model: made under the strategy, or under none.
        dataset: of its batches, or None.

    Returns:
        The dataset with rows for all; as it was where one device trains, for a loss that rows of zeros
        would change, and where it is no `tf.data` dataset.
    """
    num_replicas = getattr(getattr(model, "distribute_strategy", None), "num_replicas_in_sync", 1)
    counts_no_zeros = all(
        isinstance(loss, MaskedCrossentropy) and loss.pad_id == 0 for loss in keras.tree.flatten(model.loss)
    )
    if num_replicas == 1 or not counts_no_zeros or not hasattr(dataset, "element_spec"):
        return dataset
    from keras_transformer.data import fill_rows  # TensorFlow's, like the strategy

    return dataset.apply(fill_rows(num_replicas))


def refuse_multi_worker(model: keras.Model) -> None:
    """Refuse the one strategy that Keras 3 takes and then fails in, with an error of its own.

    Args:
        model: about to be trained.

    Raises:
        InputError: it was made under `tf.distribute.MultiWorkerMirroredStrategy`.
    """
    strategy = getattr(model, "distribute_strategy", None)
    if type(strategy).__name__ in ("MultiWorkerMirroredStrategy", "CollectiveAllReduceStrategy"):
        raise InputError(
            "Keras 3 cannot train under tf.distribute.MultiWorkerMirroredStrategy. For several hosts use the "
            "JAX backend: KERAS_BACKEND=jax, keras.distribution.initialize() in each process, and "
            'kt.training.distributed("data_parallel").'
        )


def _mirrored() -> Any:
    import tensorflow as tf

    # All graphics cards, or else all logical CPU devices, of which there is mostly one.
    names = [device.name for device in tf.config.list_logical_devices("GPU")]
    names = names or [device.name for device in tf.config.list_logical_devices("CPU")]
    return tf.distribute.MirroredStrategy(names)


def _tpu() -> Any:
    import tensorflow as tf

    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect(os.environ.get("TPU_NAME", ""))
    except (ValueError, tf.errors.OpError) as error:
        raise InputError(f"No TPU can be reached; TPU_NAME says which one. TensorFlow: {error}") from error
    return tf.distribute.TPUStrategy(resolver)


def _data_parallel() -> Any:
    return keras.distribution.DataParallel(auto_shard_dataset=False)


def _model_parallel(model_shards: int) -> Any:
    devices = keras.distribution.list_devices()
    if model_shards < 1 or len(devices) % model_shards:
        raise ValueError(
            f"`model_shards` must be above zero and divide the {len(devices)} devices. "
            f"Received: model_shards={model_shards}."
        )
    shape = (len(devices) // model_shards, model_shards)
    mesh = keras.distribution.DeviceMesh(shape, [_BATCH, _MODEL], devices)
    layouts = keras.distribution.LayoutMap(mesh)
    for path, axes in _SPLIT_AXES.items():
        layouts[path] = axes
    return keras.distribution.ModelParallel(
        layout_map=layouts, batch_dim_name=_BATCH, auto_shard_dataset=False
    )
