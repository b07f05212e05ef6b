"""The libraries that `training.py` compares; each is imported by its own worker alone.

A system takes batches of token ids and trains on them with Adam, dropout and a smoothed cross-entropy; it
returns when the last step is done. KerasHub's model gets the plain cross-entropy: Keras has no smoothed
one for integer labels, and the dense labels that it would need cost more.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from training_shapes import DROPOUT, LABEL_SMOOTHING, LEARNING_RATE, Batch, Shape

THREADS = 2


def keras_on(backend: str, policy: str) -> Any:
    """Import Keras with two threads.

    Args:
        backend: of Keras.
        policy: its dtypes.

    Returns:
        the module.
    """
    os.environ["KERAS_BACKEND"] = backend
    if backend == "tensorflow":
        import tensorflow as tf

        if not tf.config.threading.get_intra_op_parallelism_threads():  # nobody has decided
            tf.config.threading.set_intra_op_parallelism_threads(THREADS)
            tf.config.threading.set_inter_op_parallelism_threads(THREADS)
    import keras

    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(policy)
    return keras


class KerasSystem:
    """A Keras model, trained by `model.fit` on a `tf.data` pipeline without metrics or progress bar.

    Args:
        shape: of the model.
        backend: of Keras.
        policy: its dtypes.
        xla: whether TensorFlow compiles the step; JAX always does.
    """

    def __init__(
        self, shape: Shape, backend: str = "tensorflow", policy: str = "float32", xla: bool = False
    ) -> None:
        keras_on(backend, policy)
        self._model = self.make_model(shape)
        self._model.compile(
            optimizer=self.make_optimizer(LEARNING_RATE, 0.9, 0.98, 1e-9),
            loss=self.make_loss(),
            jit_compile=xla or backend == "jax",
        )

    def train(self, batches: Sequence[Batch]) -> float:
        """Train one step on each batch; gives the loss as Keras logs it."""
        import tensorflow as tf

        inputs = {
            "encoder_token_ids": np.stack([batch.source for batch in batches]),
            "decoder_token_ids": np.stack([batch.target for batch in batches]),
        }
        labels = np.stack([batch.labels for batch in batches])
        # The autotuner would let the end of an iterator wait, by up to the time of the steps.
        options = tf.data.Options()
        options.autotune.enabled = False
        dataset = tf.data.Dataset.from_tensor_slices((inputs, labels)).prefetch(2).with_options(options)
        return float(self._model.fit(dataset, verbose=0, shuffle=False).history["loss"][-1])

    def make_model(self, shape: Shape) -> Any:
        """Make the model."""
        raise NotImplementedError

    def make_loss(self) -> Any:
        """Make the loss."""
        raise NotImplementedError

    def make_optimizer(self, *options: float) -> Any:
        """Make Keras's Adam."""
        import keras

        return keras.optimizers.Adam(*options)


class Ours(KerasSystem):
    """`Transformer` and `MaskedCrossentropy` of this package."""

    def make_model(self, shape: Shape) -> Any:
        """Make a `Transformer`, with dropout wherever one of the others has it; it ties its output, too."""
        import keras_transformer as kt

        sizes = shape._asdict()
        sizes = {name: sizes[name] for name in ("num_layers", "hidden_dim", "intermediate_dim", "num_heads")}
        rates = dict.fromkeys(("dropout", "attention_dropout", "intermediate_dropout"), DROPOUT)
        return kt.models.Transformer(shape.vocabulary, shape.vocabulary, **rates, **sizes)

    def make_loss(self) -> Any:
        """Make the smoothed cross-entropy over real tokens."""
        import keras_transformer as kt

        return kt.training.MaskedCrossentropy(LABEL_SMOOTHING)

    def make_optimizer(self, *options: float) -> Any:
        """Make the package's Adam."""
        import keras_transformer as kt

        return kt.training.Adam(*options)


class OursOnCores(Ours):
    """The same, each core working on a part of each batch: `--distribute cores`."""

    def __init__(self, shape: Shape, policy: str = "float32") -> None:
        os.environ["KERAS_BACKEND"] = "tensorflow"
        import keras_transformer as kt

        self._cores = kt.training.distributed("cores")
        self._cores.__enter__()  # as long as the process lives
        super().__init__(shape, policy=policy)


class KerasHub(KerasSystem):
    """`TransformerEncoder` and `TransformerDecoder` of KerasHub, joined as its documentation does it."""

    def make_model(self, shape: Shape) -> Any:
        """Make the same architecture, the output tied to the target's table."""
        import keras
        from keras_hub import layers

        options = {
            "intermediate_dim": shape.intermediate_dim,
            "num_heads": shape.num_heads,
            "dropout": DROPOUT,
        }
        source = keras.Input((shape.length,), dtype="int32", name="encoder_token_ids")
        target = keras.Input((shape.length,), dtype="int32", name="decoder_token_ids")
        sizes = (shape.vocabulary, shape.length, shape.hidden_dim)
        x = layers.TokenAndPositionEmbedding(*sizes)(source)
        for _ in range(shape.num_layers):
            x = layers.TransformerEncoder(**options)(x)
        embedding = layers.TokenAndPositionEmbedding(*sizes)
        y = embedding(target)
        for _ in range(shape.num_layers):
            y = layers.TransformerDecoder(**options)(y, x)
        logits = embedding.token_embedding(y, reverse=True)
        return keras.Model({"encoder_token_ids": source, "decoder_token_ids": target}, logits)

    def make_loss(self) -> Any:
        """Make Keras's cross-entropy of integer labels."""
        import keras

        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class Torch:
    """`torch.nn.Transformer` in a plain training loop, with the fused Adam.

    Args:
        shape: of the model.
        compiled: whether `torch.compile` takes the forward pass and the loss.
        bfloat16: whether products run under `torch.autocast`.
    """

    def __init__(self, shape: Shape, compiled: bool = False, bfloat16: bool = False) -> None:
        import torch

        torch.set_num_threads(THREADS)
        torch.manual_seed(0)
        self._torch, self._bfloat16, d = torch, bfloat16, shape.hidden_dim
        self._source = torch.nn.Embedding(shape.vocabulary, d)
        self._target = torch.nn.Embedding(shape.vocabulary, d)
        for table in (self._source, self._target):
            torch.nn.init.normal_(table.weight, std=d**-0.5)
        self._positions = torch.nn.Parameter(torch.zeros(shape.length, d))
        self._transformer = torch.nn.Transformer(
            d,
            shape.num_heads,
            shape.num_layers,
            shape.num_layers,
            shape.intermediate_dim,
            DROPOUT,
            batch_first=True,
        ).train()
        self._causal = torch.nn.Transformer.generate_square_subsequent_mask(shape.length)
        parts = (self._source, self._target, self._transformer)
        parameters = [self._positions, *(p for part in parts for p in part.parameters())]
        self._optimizer = torch.optim.Adam(parameters, LEARNING_RATE, (0.9, 0.98), 1e-9, fused=True)
        self._loss: Callable[..., Any] = torch.compile(self._forward) if compiled else self._forward

    def train(self, batches: Sequence[Batch]) -> float:
        """Train one step on each batch; gives the last loss."""
        torch = self._torch
        loss = torch.zeros(())
        for batch in batches:
            ids = [torch.from_numpy(array).long() for array in batch]
            with torch.autocast("cpu", torch.bfloat16, enabled=self._bfloat16):
                loss = self._loss(*ids)
            self._optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self._optimizer.step()
        return float(loss)

    def _forward(self, source: Any, target: Any, labels: Any) -> Any:
        functional = self._torch.nn.functional
        scale = self._source.embedding_dim**0.5
        embedded = [
            functional.dropout(table(ids) * scale + self._positions, DROPOUT)
            for table, ids in ((self._source, source), (self._target, target))
        ]
        states = self._transformer(*embedded, tgt_mask=self._causal, tgt_is_causal=True)
        logits = functional.linear(states, self._target.weight)
        return functional.cross_entropy(
            logits.flatten(0, 1).float(), labels.flatten(), ignore_index=0, label_smoothing=LABEL_SMOOTHING
        )


class Products:
    """No model: products of 2048 by 2048 matrices in TensorFlow, the rate that the machine gives."""

    size = 2048

    def __init__(self, shape: Shape) -> None:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(THREADS)
        matrix = tf.random.stateless_normal((self.size, self.size), (0, 0))

        @tf.function
        def multiply(matrix: Any) -> Any:
            for _ in range(10):
                matrix = tf.matmul(matrix, matrix) * (1 / self.size)
            return matrix

        self._multiply, self._matrix = multiply, matrix

    def train(self, batches: Sequence[Batch]) -> float:
        """Multiply ten times for each batch."""
        outputs = [self._multiply(self._matrix) for _ in batches]
        return float(outputs[-1][0, 0])


SYSTEMS: dict[str, Callable[[Shape], Any]] = {
    "ours": Ours,
    "ours-cores": OursOnCores,
    "ours-cores-bf16": lambda shape: OursOnCores(shape, policy="mixed_bfloat16"),
    "ours-xla": lambda shape: Ours(shape, xla=True),
    "ours-jax": lambda shape: Ours(shape, "jax"),
    "ours-bf16": lambda shape: Ours(shape, policy="mixed_bfloat16"),
    "kerashub": KerasHub,
    "kerashub-xla": lambda shape: KerasHub(shape, xla=True),
    "kerashub-jax": lambda shape: KerasHub(shape, "jax"),
    "kerashub-bf16": lambda shape: KerasHub(shape, policy="mixed_bfloat16"),
    "torch": Torch,
    "torch-compile": lambda shape: Torch(shape, compiled=True),
    "torch-bf16": lambda shape: Torch(shape, bfloat16=True),
    "products": Products,
}
