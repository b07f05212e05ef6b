"""Training on several cores, devices and hosts, by the engine that each backend has for it."""

from contextlib import AbstractContextManager

import keras

from keras_transformer._backend.batches import share_rows
from keras_transformer._backend.cores import train_on_cores
from keras_transformer._backend.distribution import check_engine, device_scope, row_shares
from keras_transformer.models.causal_lm import CausalLM
from keras_transformer.models.encoder_model import EncoderModel
from keras_transformer.models.transformer import Transformer
from keras_transformer.training.losses import MaskedCrossentropy, _token_weights
from keras_transformer.types import Batches

_MODEL = "model"
# Of each weight, by its path: the axes of heads and of the inner width, and the width of a table.
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
    """Spread what is made and trained inside over all cores or devices of this backend.

    "cores" is for a processor: each core works on a part of each batch, with one thread for each operation.
    TensorFlow takes the call only before it has computed anything: call it before tokenizers and datasets are
    made, and enter it later. The model must be one of this package, since any other trains on one core,
    and its loss `MaskedCrossentropy` or one like it. It is not the default, since it decides on the threads
    of the whole process: searches for answers then run on one core.

    The other engines are those of the backends: `tf.distribute.MirroredStrategy` ("mirrored") and
    `TPUStrategy` ("tpu") on TensorFlow; `keras.distribution.DataParallel` ("data_parallel") and
    `ModelParallel` ("model_parallel") on JAX, over the devices of all hosts if
    `keras.distribution.initialize` was called, which reads the hosts from the environment. The loss is the
    mean over the real tokens of the whole batch, so training is that of one device with the same batches.

    Devices share the rows of a batch evenly. `training.fit` sees to that, and on JAX hands in the rows of its
    process alone; `model.fit` itself does not. Under a strategy of TensorFlow Keras begins a dataset once
    before the first epoch, so the epochs of one that shuffles itself are one further on than with one device.

    Args:
        engine: One of the five.
        model_shards: For "model_parallel", the number of parts of each large weight, which is split by heads,
            inner width and model width; it must divide these, and the number of devices.

    Returns:
        A context manager; make, compile and fit the model inside.

    Raises:
        ValueError: If the engine is unknown, or the shards do not divide the devices.
        InputError: If the engine belongs to another backend, or it is too late to claim the cores.

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
    """Let the devices share the rows of each batch evenly; raise if they cannot train the model."""
    shares = row_shares(model)
    # Keras takes the mean of the replicas' losses by their rows, where this package's are by tokens: with
    # unlike numbers of rows it showed another loss, by which the best epoch was chosen. And it begins with
    # the mean of the replicas' first batches, which fails where their shapes differ. Rows of padding count
    # nothing, except for a loss that counts label 0.
    counts_no_zeros = all(
        isinstance(loss, MaskedCrossentropy) and loss.pad_id == 0 for loss in keras.tree.flatten(model.loss)
    )
    shared = list(datasets)
    for num_shards, shard in shares if counts_no_zeros else []:
        # What is no dataset of `tf.data` stays as it is.
        shared = [
            share_rows(each, num_shards, shard) if hasattr(each, "element_spec") else each for each in shared
        ]
    return shared
