"""KerasHub's two ways to generate, as `decoding.py` measures them.

Its documentation (keras.io, "English-to-Spanish translation with KerasHub") joins `TransformerEncoder`
and `TransformerDecoder` to a model and samples from it: for each token the whole encoder and the whole
decoder run again over the padded target. Its best is `BartSeq2SeqLM.generate`, which has caches for
self- and cross-attention, of BART's shape: learned positions, a normalization after the embeddings.
Both are compiled as `generate` of KerasHub is, with XLA on the TensorFlow backend.
"""

from pathlib import Path
from typing import Any

import numpy as np
from decoding_cells import SEARCHES, SHAPES, SOURCE_LENGTH, START, Cell, padded
from decoding_systems import THREADS


def import_keras_hub() -> Any:
    """Import KerasHub on TensorFlow with two threads.

    Returns:
        the module.
    """
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)
    import keras
    import keras_hub

    keras.utils.set_random_seed(0)
    return keras_hub


def samplers(keras_hub: Any) -> dict[str, Any]:
    """Make a sampler for each search.

    Args:
        keras_hub: the module.

    Returns:
        samplers by the name of the search.
    """
    beam = keras_hub.samplers.BeamSampler(num_beams=SEARCHES["beam"])
    return {"greedy": keras_hub.samplers.GreedySampler(), "beam": beam}


def prompt(cell: Cell) -> np.ndarray:
    """Make the target before the first token: the start token, and room.

    Args:
        cell: whose batch and length are used.

    Returns:
        int32 (b, length + 1).
    """
    ids = np.zeros((cell.batch, cell.length + 1), "int32")
    ids[:, 0] = START
    return ids


class KerasHubExample:
    """The documentation's example: no cache, everything again for each token."""

    def __init__(self, directory: Path, shape: str) -> None:
        self._hub = import_keras_hub()
        self._shape, self._samplers = SHAPES[shape], samplers(self._hub)
        self._models: dict[int, Any] = {}
        self._functions: dict[Cell, Any] = {}

    def inputs(self, rows: list[list[int]], cell: Cell) -> Any:
        """Make a tensor `(b, s)`, and the function of the cell."""
        import tensorflow as tf

        if cell not in self._functions:
            self._functions[cell] = tf.function(lambda ids: self._sample(ids, cell), jit_compile=True)
        return tf.constant(padded(rows))

    def answer(self, inputs: Any, cell: Cell) -> int:
        """Generate; gives the number of tokens."""
        return int(self._functions[cell](inputs).numpy()[:, 1:].size)

    def _sample(self, source: Any, cell: Cell) -> Any:
        from keras import ops

        model = self._model(cell.length + 1)

        def next_token(target: Any, cache: Any, index: Any) -> Any:
            repeats = target.shape[0] // cell.batch
            logits = model([ops.repeat(source, repeats, axis=0), target])
            return ops.take(logits, index - 1, axis=1), None, cache

        return self._samplers[cell.search](
            next=next_token, prompt=ops.convert_to_tensor(prompt(cell)), index=1, stop_token_ids=None
        )

    def _model(self, target_length: int) -> Any:
        import keras

        if target_length in self._models:
            return self._models[target_length]
        layers, sizes = self._hub.layers, self._shape
        embed = (sizes["vocabulary"], sizes["hidden_dim"])
        options = {"intermediate_dim": sizes["intermediate_dim"], "num_heads": sizes["num_heads"]}
        source = keras.Input((SOURCE_LENGTH,), dtype="int32")
        target = keras.Input((target_length,), dtype="int32")
        x = layers.TokenAndPositionEmbedding(embed[0], SOURCE_LENGTH, embed[1])(source)
        for _ in range(sizes["num_layers"]):
            x = layers.TransformerEncoder(**options)(x)
        y = layers.TokenAndPositionEmbedding(embed[0], target_length, embed[1])(target)
        for _ in range(sizes["num_layers"]):
            y = layers.TransformerDecoder(**options)(y, x)
        model = keras.Model([source, target], keras.layers.Dense(embed[0])(y))
        return self._models.setdefault(target_length, model)


class KerasHubBart:
    """KerasHub's own `generate` of an encoder-decoder, with its caches."""

    def __init__(self, directory: Path, shape: str) -> None:
        hub = import_keras_hub()
        sizes = dict(SHAPES[shape])
        backbone = hub.models.BartBackbone(
            vocabulary_size=sizes.pop("vocabulary"), **sizes, dropout=0.0, max_sequence_length=512
        )
        self._model = hub.models.BartSeq2SeqLM(backbone, preprocessor=None)
        self._samplers, self._functions = samplers(hub), {}
        for name, sampler in self._samplers.items():
            self._model.compile(sampler=sampler)
            self._functions[name] = self._model.make_generate_function()

    def inputs(self, rows: list[list[int]], cell: Cell) -> Any:
        """Make the four tensors that the model takes."""
        import tensorflow as tf

        source, target = padded(rows), prompt(cell)
        arrays = {
            "encoder_token_ids": source,
            "encoder_padding_mask": source > 0,
            "decoder_token_ids": target,
            "decoder_padding_mask": target > 0,
        }
        return {name: tf.constant(array) for name, array in arrays.items()}

    def answer(self, inputs: Any, cell: Cell) -> int:
        """Generate; gives the number of tokens."""
        self._model.sampler = self._samplers[cell.search]  # read while the function is traced
        outputs = self._functions[cell.search](inputs, stop_token_ids=None)
        return int(outputs["decoder_token_ids"].numpy()[:, 1:].size)


KERASHUB = {"kerashub": KerasHubExample, "kerashub-bart": KerasHubBart}
