"""Distributed training on several cores, devices and hosts."""

from contextlib import AbstractContextManager

import keras

from keras_transformer._backend.batches import share_rows
from keras_transformer._backend.cores import train_on_cores
from keras_transformer._backend.distribution import check_engine, device_scope, row_shares
from keras_transformer.errors import InputError
from keras_transformer.models.causal_lm import CausalLM
from keras_transformer.models.encoder_model import EncoderModel
from keras_transformer.models.transformer import Transformer
from keras_transformer.training.losses import _token_weights
from keras_transformer.types import Batches

_MODEL = "model"
# Axes to split, by the path of a weight: heads, inner width of the feed-forward network, embedding width.
_SPLIT_AXES = {
    r".*attention.*/(query|key|value|gate)/kernel": (None, _MODEL, None),
    r".*attention.*/(query|key|value|gate)/bias": (_MODEL, None),
    r".*attention.*/attention_output/kernel": (_MODEL, None, None),
    r".*feed_forward.*/(inner|gate)/kernel": (None, _MODEL),
    r".*feed_forward.*/(inner|gate)/bias": (_MODEL,),
    r".*feed_forward.*/outer/kernel": (_MODEL, None),
    r".*embedding.*/embeddings": (None, _MODEL),
}


def distributed(engine: str, *, model_shards: int = 2) -> AbstractContextManager[object]:
    """Distribute training over all cores or devices of the backend, as a context manager.

    - `"cores"` (TensorFlow on CPU): each core trains on a part of each batch, with one thread per operation.
      Call `distributed` before TensorFlow computes anything, so before you create tokenizers and datasets;
      enter the returned context manager later. Models of this package need `MaskedCrossentropy` or a loss
      with the same attributes `pad_id` and `normalize`; other models train on one core. `distributed` sets
      the threads of the whole process, so decoding then runs on one core.
    - `"mirrored"` and `"tpu"` (TensorFlow): `tf.distribute.MirroredStrategy` and `TPUStrategy`.
    - `"data_parallel"` and `"model_parallel"` (JAX): `keras.distribution.DataParallel` and `ModelParallel`.
      They use the devices of all hosts if you have called `keras.distribution.initialize`, which reads the
      hosts from the environment.

    The loss is the mean over the real tokens of the whole batch, so training equals training on one device
    with the same batches. Devices share the rows of a batch evenly: `training.fit` pads batches for this, and
    on JAX passes each process its own rows; `model.fit` does not. With a TensorFlow strategy, Keras creates
    an extra iterator of the dataset before the first epoch, so a dataset with a different order in each epoch
    is one epoch ahead of training on one device.

    Args:
        engine: One of the five engines.
        model_shards: Only for `"model_parallel"`: number of parts of each large weight. Heads, inner width
            and model width are split, so it must divide them and the number of devices. Defaults to 2.

    Returns:
        A context manager. Create, compile and fit the model inside.

    Raises:
        ValueError: If the engine is unknown, or `model_shards` does not divide the number of devices.
        InputError: If the engine belongs to another backend, or TensorFlow has already computed something.

    Example:
        ```python
        with kt.training.distributed("mirrored"):
            model = kt.models.Transformer(8000, 8000)
            kt.training.fit(model, dataset, directory="run", learning_rate=1e-3)
        ```
    """
    check_engine(engine)
    if engine == "cores":
        return train_on_cores((CausalLM, EncoderModel, Transformer), _token_weights)
    return device_scope(engine, model_shards, _SPLIT_AXES)


def _share_rows(model: keras.Model, *datasets: Batches) -> list[Batches]:
    """Distribute the rows of each batch evenly to the devices; raise if they cannot train the model."""
    shares = row_shares(model)
    if not shares:
        return list(datasets)
    # Keras averages the replicas' losses by rows, this package by tokens: with unequal rows the logged loss,
    # which selects the best epoch, would be wrong. Keras also averages the replicas' first batches, which
    # fails if shapes differ.
    ignored = {getattr(loss, "pad_id", None) for loss in keras.tree.flatten(model.loss)}
    ignored_label = ignored.pop() if len(ignored) == 1 else None
    if ignored_label is None and keras.backend.backend() != "jax":
        return list(datasets)  # a TensorFlow strategy accepts unequal rows, and Keras's losses count rows
    if ignored_label is None and model.get_compile_config().get("metrics"):
        raise InputError(
            "`metrics` would count the rows of padding with which the devices share a batch evenly. Compile "
            "the model with `weighted_metrics` instead. Received: metrics="
            f"{model.get_compile_config()['metrics']!r:.200}."
        )
    # Only `tf.data` datasets are changed.
    return [
        _share(each, shares, ignored_label) if hasattr(each, "element_spec") else each for each in datasets
    ]


def _share(dataset: Batches, shares: list[tuple[int, int | None]], ignored_label: int | None) -> Batches:
    for num_shards, shard in shares:
        dataset = share_rows(dataset, num_shards, shard, ignored_label)
    return dataset
