"""The engines of the decoding benchmarks, each with the best options of its documentation.

Only the worker of an engine imports it. `inputs` builds the inputs of the engine and is not timed; `answer`
is timed until the output is on the host, and returns its number of tokens.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import SHAPES, THREADS, serve
from benchmarks.decoding.cells import LENGTH, SEARCHES, VOCABULARY, Sources

NUM_SPECIAL, START, END = 4, 2, 3


def padded(rows: list[list[int]]) -> np.ndarray:
    """Pad rows of ids with 0: int32 (b, longest)."""
    width = max(map(len, rows))
    return np.array([row + [0] * (width - len(row)) for row in rows], "int32")


class SavedModel:
    """Ours: `serving_default` of an export, strings in and out, loaded without Keras."""

    def __init__(self, system: str, directory: Path, shape: str) -> None:
        import tensorflow as tf
        import tensorflow_text  # noqa: F401

        tf.config.threading.set_intra_op_parallelism_threads(THREADS)
        tf.config.threading.set_inter_op_parallelism_threads(THREADS)
        self._sources, self._constant = Sources(directory), tf.constant
        paths = {search: directory / f"{system}_{search}" / "1" for search in SEARCHES}
        self._models = {
            search: tf.saved_model.load(str(path)) for search, path in paths.items() if path.exists()
        }

    def inputs(self, rows: list[int]) -> Any:
        """Return a tensor of strings `(b,)`."""
        return self._constant([self._sources.texts[row] for row in rows])

    def answer(self, inputs: Any, search: str) -> int:
        """Translate and count the words."""
        outputs = self._models[search].signatures["serving_default"](text=inputs)["output"].numpy()
        return sum(len(text.split()) for text in outputs)


class LiteRT:
    """Ours as a `.tflite` file: one source at a time, greedily, ids in and out."""

    def __init__(self, system: str, directory: Path, shape: str) -> None:
        import tensorflow as tf

        interpreter = tf.lite.Interpreter(str(directory / f"{system}.tflite"), num_threads=THREADS)
        self._run = interpreter.get_signature_runner("serving_default")
        [details] = self._run.get_input_details().values()
        self._length, self._sources = details["shape"][1], Sources(directory)

    def inputs(self, rows: list[int]) -> Any:
        """Return a matrix `(1, s)` of the file's length."""
        [row] = [self._sources.ids[row] for row in rows]
        return np.array([row + [0] * (self._length - len(row))], "int32")

    def answer(self, inputs: Any, search: str) -> int:
        """Generate."""
        if search != "greedy":
            raise ValueError(f"A LiteRT file decodes greedily. Received: {search}.")
        return int(np.count_nonzero(self._run(source_ids=inputs)["token_ids"]))


class CTranslate2:
    """CTranslate2: one translator with two threads, without scores, tokens in and out."""

    def __init__(self, system: str, directory: Path, shape: str) -> None:
        import ctranslate2

        path, self._sources = directory / system, Sources(directory)
        compute_type = "int8" if "int8" in system else "float32"
        self._translator = ctranslate2.Translator(
            str(path), compute_type=compute_type, inter_threads=1, intra_threads=THREADS
        )
        names = [path / f"{side}_vocabulary.json" for side in ("source", "shared")]
        found = next(name for name in names if name.exists())
        self._names = json.loads(found.read_text(encoding="utf-8"))

    def inputs(self, rows: list[int]) -> Any:
        """Return lists of tokens; CTranslate2 adds the end token itself."""
        return [[self._names[token] for token in self._sources.ids[row][:-1]] for row in rows]

    def answer(self, inputs: Any, search: str) -> int:
        """Generate."""
        results = self._translator.translate_batch(
            inputs,
            beam_size=SEARCHES[search],
            length_penalty=0,
            min_decoding_length=0,
            max_decoding_length=self._sources.max_length,
            return_scores=False,
            return_end_token=True,
        )
        return sum(len(result.hypotheses[0]) for result in results)


class Marian:
    """`MarianMTModel.generate` of `transformers`, random weights: inference mode, SDPA, caches, ids."""

    def __init__(self, system: str, directory: Path, shape: str) -> None:
        import torch
        from transformers import MarianConfig, MarianMTModel

        torch.set_num_threads(THREADS)
        torch.manual_seed(0)
        sizes = SHAPES[shape]
        sides = ("encoder", "decoder")
        config = MarianConfig(
            vocab_size=VOCABULARY[shape],
            d_model=sizes.hidden_dim,
            **{f"{side}_layers": sizes.num_layers for side in sides},
            **{f"{side}_attention_heads": sizes.num_heads for side in sides},
            **{f"{side}_ffn_dim": sizes.intermediate_dim for side in sides},
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=512,
            pad_token_id=0,
            eos_token_id=END,
            decoder_start_token_id=START,
            forced_eos_token_id=None,
        )
        self._torch, self._model = torch, MarianMTModel(config).eval()
        self._sources = Sources(directory)
        # Outputs never end, without a logits processor that would cost time.
        self._model.final_logits_bias[:, :NUM_SPECIAL] = -1e9

    def inputs(self, rows: list[int]) -> Any:
        """Return a tensor `(b, s)` and its mask."""
        ids = padded([self._sources.ids[row] for row in rows])
        tensor = self._torch.tensor(ids, dtype=self._torch.int64)
        return {"input_ids": tensor, "attention_mask": self._torch.ones_like(tensor)}

    def answer(self, inputs: Any, search: str) -> int:
        """Generate."""
        with self._torch.inference_mode():
            ids = self._model.generate(
                **inputs, num_beams=SEARCHES[search], do_sample=False, max_new_tokens=LENGTH
            )
        return int(ids[:, 1:].numel())


SYSTEMS: dict[str, Callable[[str, Path, str], Any]] = {
    "ours": SavedModel,
    "ours-threads": SavedModel,
    "ours-xla": SavedModel,
    "ours-xla-threads": SavedModel,
    "ours-bfloat16": SavedModel,
    "ours-litert": LiteRT,
    "ours-litert-int8": LiteRT,
    "ctranslate2": CTranslate2,
    "ctranslate2-int8": CTranslate2,
    "marian": Marian,
}


def load(system: str, directory: str, shape: str) -> Callable[..., dict[str, float]]:
    """Load a system; return a function that answers batches of sources and measures the seconds."""
    loaded = SYSTEMS[system](system, Path(directory), shape)

    def answer(batches: list[list[int]], search: str) -> dict[str, float]:
        seconds, tokens = 0.0, 0
        for rows in batches:
            inputs = loaded.inputs(rows)
            start = time.perf_counter()
            tokens += loaded.answer(inputs, search)
            seconds += time.perf_counter() - start
        return {"seconds": seconds, "tokens": tokens}

    return answer


if __name__ == "__main__":
    serve(load)
