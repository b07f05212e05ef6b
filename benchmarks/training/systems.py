"""The libraries of `benchmarks.training.peers`; only the worker of a library imports it.

A system trains on batches of token ids with Adam, dropout and a smoothed cross-entropy, and returns when
the last step is done. KerasHub's model gets the plain cross-entropy: Keras has no smoothed one for integer
labels, and dense labels would cost more.
"""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.common import SHAPES, THREADS, serve
from benchmarks.training.batches import SIZES, VOCABULARY, Batch, random_batches

DROPOUT, LABEL_SMOOTHING, LEARNING_RATE = 0.1, 0.1, 1e-4


class KerasSystem:
    """A Keras model, trained by `model.fit` on a `tf.data` pipeline without metrics or progress bar."""

    def __init__(
        self, shape: str, backend: str = "tensorflow", policy: str = "float32", xla: bool = False
    ) -> None:
        os.environ["KERAS_BACKEND"] = backend
        if backend == "tensorflow":
            import tensorflow as tf

            if not tf.config.threading.get_intra_op_parallelism_threads():  # `distributed` may have set them
                tf.config.threading.set_intra_op_parallelism_threads(THREADS)
                tf.config.threading.set_inter_op_parallelism_threads(THREADS)
        import keras

        keras.utils.set_random_seed(0)
        keras.config.set_dtype_policy(policy)
        self._model = self.make_model(shape)
        self._model.compile(
            optimizer=self.make_optimizer(LEARNING_RATE, 0.9, 0.98, 1e-9),
            loss=self.make_loss(),
            jit_compile=xla or backend == "jax",
        )

    def train(self, batches: Sequence[Batch]) -> float:
        """Train one step on each batch and return the loss as Keras logs it."""
        import tensorflow as tf

        inputs = {
            "encoder_token_ids": np.stack([batch.source for batch in batches]),
            "decoder_token_ids": np.stack([batch.target for batch in batches]),
        }
        labels = np.stack([batch.labels for batch in batches])
        # The autotuner delays the end of an iterator by up to the time of the steps.
        options = tf.data.Options()
        options.autotune.enabled = False
        dataset = tf.data.Dataset.from_tensor_slices((inputs, labels)).prefetch(2).with_options(options)
        return float(self._model.fit(dataset, verbose=0, shuffle=False).history["loss"][-1])

    def make_model(self, shape: str) -> Any:
        """Return the model."""
        raise NotImplementedError

    def make_loss(self) -> Any:
        """Return the loss."""
        raise NotImplementedError

    def make_optimizer(self, *options: float) -> Any:
        """Return Keras's Adam."""
        import keras

        return keras.optimizers.Adam(*options)


class Ours(KerasSystem):
    """`Transformer`, `MaskedCrossentropy` and `Adam` of this package."""

    def make_model(self, shape: str) -> Any:
        """Return a `Transformer` with dropout wherever one of the other libraries has it."""
        import keras_transformer as kt

        rates = dict.fromkeys(("dropout", "attention_dropout", "intermediate_dropout"), DROPOUT)
        return kt.Transformer(VOCABULARY[shape], VOCABULARY[shape], **rates, **SHAPES[shape]._asdict())

    def make_loss(self) -> Any:
        """Return the smoothed cross-entropy over real tokens."""
        import keras_transformer as kt

        return kt.training.MaskedCrossentropy(LABEL_SMOOTHING)

    def make_optimizer(self, *options: float) -> Any:
        """Return the package's Adam."""
        import keras_transformer as kt

        return kt.training.Adam(*options)


class OursOnCores(Ours):
    """The same with `--distribute cores`: each core works on a part of each batch."""

    def __init__(self, shape: str, policy: str = "float32") -> None:
        os.environ["KERAS_BACKEND"] = "tensorflow"
        import keras_transformer as kt

        self._cores = kt.training.distributed("cores")
        self._cores.__enter__()  # as long as the process lives
        super().__init__(shape, policy=policy)


class KerasHub(KerasSystem):
    """`TransformerEncoder` and `TransformerDecoder` of KerasHub, joined as in its documentation."""

    def make_model(self, shape: str) -> Any:
        """Return the same architecture, the output tied to the target's table."""
        import keras
        from keras_hub import layers

        sizes, length = SHAPES[shape], SIZES[shape][1]
        options = {
            "intermediate_dim": sizes.intermediate_dim,
            "num_heads": sizes.num_heads,
            "dropout": DROPOUT,
        }
        source = keras.Input((length,), dtype="int32", name="encoder_token_ids")
        target = keras.Input((length,), dtype="int32", name="decoder_token_ids")
        x = layers.TokenAndPositionEmbedding(VOCABULARY[shape], length, sizes.hidden_dim)(source)
        for _ in range(sizes.num_layers):
            x = layers.TransformerEncoder(**options)(x)
        embedding = layers.TokenAndPositionEmbedding(VOCABULARY[shape], length, sizes.hidden_dim)
        y = embedding(target)
        for _ in range(sizes.num_layers):
            y = layers.TransformerDecoder(**options)(y, x)
        logits = embedding.token_embedding(y, reverse=True)
        return keras.Model({"encoder_token_ids": source, "decoder_token_ids": target}, logits)

    def make_loss(self) -> Any:
        """Return Keras's cross-entropy of integer labels."""
        import keras

        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class Torch:
    """`torch.nn.Transformer` in a plain training loop with the fused Adam."""

    def __init__(self, shape: str, compiled: bool = False, bfloat16: bool = False) -> None:
        import torch

        torch.set_num_threads(THREADS)
        torch.manual_seed(0)
        self._torch, self._bfloat16 = torch, bfloat16
        num_layers, width, inner, num_heads = SHAPES[shape]
        self._source = torch.nn.Embedding(VOCABULARY[shape], width)
        self._target = torch.nn.Embedding(VOCABULARY[shape], width)
        for table in (self._source, self._target):
            torch.nn.init.normal_(table.weight, std=width**-0.5)
        self._positions = torch.nn.Parameter(torch.zeros(SIZES[shape][1], width))
        self._transformer = torch.nn.Transformer(
            width, num_heads, num_layers, num_layers, inner, DROPOUT, batch_first=True
        ).train()
        self._causal = torch.nn.Transformer.generate_square_subsequent_mask(SIZES[shape][1])
        parts = (self._source, self._target, self._transformer)
        parameters = [self._positions, *(p for part in parts for p in part.parameters())]
        self._optimizer = torch.optim.Adam(parameters, LEARNING_RATE, (0.9, 0.98), 1e-9, fused=True)
        self._loss: Callable[..., Any] = torch.compile(self._forward) if compiled else self._forward

    def train(self, batches: Sequence[Batch]) -> float:
        """Train one step on each batch and return the last loss."""
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


SYSTEMS: dict[str, Callable[[str], Any]] = {
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
}


def load(system: str, shape: str) -> Callable[..., dict[str, float]]:
    """Make a model; return a function that trains for some steps and measures their seconds."""
    trained = SYSTEMS[system](shape)

    def answer(steps: int, seed: int) -> dict[str, float]:
        batches = random_batches(shape, steps, seed)
        start = time.perf_counter()
        loss = trained.train(batches)
        return {"seconds": time.perf_counter() - start, "loss": loss}

    return answer


if __name__ == "__main__":
    serve(load)
