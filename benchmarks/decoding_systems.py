"""The engines that `decoding.py` compares, each with the best options that its documentation has.

Each is imported by its own worker alone. A system takes ids as lists, makes of them what its engine
takes (`inputs`, not timed), and answers (`answer`, timed until the ids are on the host).
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from decoding_cells import END, NUM_SPECIAL, SEARCHES, SHAPES, START, Cell, padded

THREADS = 2


class SavedModelIds:
    """Ours: the signature of a SavedModel that takes and gives ids, loaded without Keras."""

    kind = "float32"
    threads = THREADS

    def __init__(self, directory: Path, shape: str) -> None:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(self.threads)
        tf.config.threading.set_inter_op_parallelism_threads(self.threads)
        self._module = tf.saved_model.load(str(directory / f"saved_model_{self.kind}"))
        self._tensor = tf.constant

    def inputs(self, rows: list[list[int]], cell: Cell) -> Any:
        """Make a tensor `(b, s)`."""
        return self._tensor(padded(rows))

    def answer(self, inputs: Any, cell: Cell) -> int:
        """Generate; gives the number of tokens."""
        batch = f"_{cell.batch}" if self.kind.startswith("xla") else ""
        serve = self._module.signatures[f"{cell.search}_{cell.length}{batch}"]
        return int(np.count_nonzero(serve(token_ids=inputs)["token_ids"].numpy()))


class SavedModelOneThread(SavedModelIds):
    """Ours, where each request has one thread, so that none waits for another."""

    threads = 1


class BareLoop:
    """The matrix products of the steps, in a loop of TensorFlow: no encoder, no attention, no search."""

    threads = THREADS

    def __init__(self, directory: Path, shape: str) -> None:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(self.threads)
        tf.config.threading.set_inter_op_parallelism_threads(self.threads)
        sizes = SHAPES[shape]
        self._width, inner = sizes["hidden_dim"], sizes["intermediate_dim"]
        shapes = [(self._width, 3 * self._width), *[(self._width, self._width)] * 3]
        shapes = [*shapes, (self._width, inner), (inner, self._width)] * sizes["num_layers"]
        shapes.append((self._width, sizes["vocabulary"]))
        self._weights = [tf.Variable(tf.random.normal(each, stddev=0.05)) for each in shapes]
        self._loop = tf.function(self._steps, autograph=False)

    def _steps(self, rows: Any, length: Any) -> Any:
        import tensorflow as tf

        matrices = [tf.identity(weight) for weight in self._weights]

        def body(count: Any, rows: Any, total: Any) -> tuple[Any, ...]:
            for matrix in matrices[:-1]:
                rows = tf.matmul(rows[:, : matrix.shape[0]], matrix)
            return count + 1, rows, total + tf.reduce_max(tf.matmul(rows, matrices[-1]))

        return tf.while_loop(lambda count, *_: count < length, body, (0, rows, 0.0))[2]

    def inputs(self, rows: list[list[int]], cell: Cell) -> Any:
        """Make a vector for each hypothesis."""
        import tensorflow as tf

        return tf.random.normal((len(rows) * SEARCHES[cell.search], self._width))

    def answer(self, inputs: Any, cell: Cell) -> int:
        """Multiply; gives the number of tokens that a search would have generated."""
        import tensorflow as tf

        self._loop(inputs, tf.constant(cell.length)).numpy()
        return inputs.shape[0] // SEARCHES[cell.search] * cell.length


class SavedModelThreads(SavedModelIds):
    """Ours, where each thread searches for a part of the sources."""

    kind = "float32_threads"


class SavedModelXla(SavedModelIds):
    """Ours, compiled by XLA for fixed shapes."""

    kind = "xla"


class SavedModelXlaThreads(SavedModelIds):
    """Ours, compiled by XLA for the part of each thread."""

    kind = "xla_threads"


class SavedModelInt8(SavedModelIds):
    """Ours, with large matrices of integers."""

    kind = "int8"


class SavedModelStrings:
    """Ours: the string signature, tokenizers included, as `keras-transformer export` writes it."""

    kind = "float32"

    def __init__(self, directory: Path, shape: str) -> None:
        import tensorflow as tf
        import tensorflow_text  # noqa: F401

        tf.config.threading.set_intra_op_parallelism_threads(THREADS)
        tf.config.threading.set_inter_op_parallelism_threads(THREADS)
        self._modules = {
            name: tf.saved_model.load(str(directory / f"{self.kind}_{name}" / "1")) for name in SEARCHES
        }
        self._tensor = tf.constant

    def inputs(self, rows: list[str], cell: Cell) -> Any:
        """Make a tensor of strings `(b,)`."""
        return self._tensor(rows)

    def answer(self, inputs: Any, cell: Cell) -> int:
        """Translate; the tokens are not seen, 0 stands for unknown."""
        self._modules[cell.search].signatures["serving_default"](text=inputs)["output"].numpy()
        return 0


class SavedModelStringsXla(SavedModelStrings):
    """Ours with strings, compiled by XLA for each length and batch of its buckets."""

    kind = "xla"


class SavedModelStringsThreads(SavedModelStrings):
    """Ours with strings, where each thread searches for a part of the sources."""

    kind = "float32_threads"


class SavedModelStringsXlaThreads(SavedModelStrings):
    """Ours with strings, compiled by XLA for the part of each thread."""

    kind = "xla_threads"


class LiteRT:
    """Ours as a `.tflite` file: one source at a time, greedily."""

    kind = "float32"

    def __init__(self, directory: Path, shape: str) -> None:
        import tensorflow as tf

        interpreter = tf.lite.Interpreter(str(directory / f"{self.kind}.tflite"), num_threads=THREADS)
        self._run = interpreter.get_signature_runner("serving_default")
        [details] = self._run.get_input_details().values()
        self._length = details["shape"][1]

    def inputs(self, rows: list[list[int]], cell: Cell) -> Any:
        """Make a matrix `(1, s)` of the file's length."""
        [row] = rows
        return np.array([row + [0] * (self._length - len(row))], "int32")

    def answer(self, inputs: Any, cell: Cell) -> int:
        """Generate; gives the number of tokens."""
        if cell.search != "greedy":
            raise ValueError(f"A file decodes greedily. Received: {cell.search}.")
        return int(np.count_nonzero(self._run(source_ids=inputs)["token_ids"]))


class LiteRTInt8(LiteRT):
    """Ours as a `.tflite` file with int8 weights."""

    kind = "int8"


class CTranslate2:
    """CTranslate2 in float32: one translator with two threads, scores left out."""

    suffix, compute_type = "", "float32"

    def __init__(self, directory: Path, shape: str) -> None:
        import ctranslate2

        path = directory / f"ctranslate2{self.suffix}"
        self._translator = ctranslate2.Translator(
            str(path), compute_type=self.compute_type, inter_threads=1, intra_threads=THREADS
        )
        names = path / "source_vocabulary.json"
        names = names if names.exists() else path / "shared_vocabulary.json"
        self._names = json.loads(names.read_text(encoding="utf-8"))

    def inputs(self, rows: list[list[int]], cell: Cell) -> Any:
        """Make lists of tokens; CTranslate2 adds the end token itself."""
        return [[self._names[token] for token in row[:-1]] for row in rows]

    def answer(self, inputs: Any, cell: Cell) -> int:
        """Generate; gives the number of tokens."""
        results = self._translator.translate_batch(
            inputs,
            beam_size=SEARCHES[cell.search],
            length_penalty=0,
            min_decoding_length=0,
            max_decoding_length=cell.length,
            return_scores=False,
            return_end_token=True,
        )
        return sum(len(result.hypotheses[0]) for result in results)


class CTranslate2Int8(CTranslate2):
    """CTranslate2 with int8 weights."""

    suffix, compute_type = "_int8", "int8"


class Marian:
    """Hugging Face `MarianMTModel.generate` with random weights: eval, inference mode, SDPA, caches."""

    def __init__(self, directory: Path, shape: str) -> None:
        import torch
        from transformers import MarianConfig, MarianMTModel

        torch.set_num_threads(THREADS)
        torch.manual_seed(0)
        sizes = SHAPES[shape]
        layers, heads, inner = sizes["num_layers"], sizes["num_heads"], sizes["intermediate_dim"]
        config = MarianConfig(
            vocab_size=sizes["vocabulary"],
            d_model=sizes["hidden_dim"],
            encoder_layers=layers,
            decoder_layers=layers,
            encoder_attention_heads=heads,
            decoder_attention_heads=heads,
            encoder_ffn_dim=inner,
            decoder_ffn_dim=inner,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=512,
            pad_token_id=0,
            eos_token_id=END,
            decoder_start_token_id=START,
            forced_eos_token_id=None,
        )
        self._torch, self._model = torch, MarianMTModel(config).eval()
        # Answers never end, without a logits processor that would cost time.
        self._model.final_logits_bias[:, :NUM_SPECIAL] = -1e9

    def inputs(self, rows: list[list[int]], cell: Cell) -> Any:
        """Make a tensor `(b, s)` and its mask."""
        ids = self._torch.tensor(padded(rows), dtype=self._torch.int64)
        return {"input_ids": ids, "attention_mask": self._torch.ones_like(ids)}

    def answer(self, inputs: Any, cell: Cell) -> int:
        """Generate; gives the number of tokens."""
        with self._torch.inference_mode():
            ids = self._model.generate(
                **inputs, num_beams=SEARCHES[cell.search], do_sample=False, max_new_tokens=cell.length
            )
        return int(ids[:, 1:].numel())


SYSTEMS: dict[str, Any] = {
    "ours": SavedModelIds,
    "ours-one-thread": SavedModelOneThread,
    "ours-threads": SavedModelThreads,
    "ours-int8": SavedModelInt8,
    "ours-xla": SavedModelXla,
    "ours-xla-threads": SavedModelXlaThreads,
    "bare-loop": BareLoop,
    "ours-strings": SavedModelStrings,
    "ours-strings-threads": SavedModelStringsThreads,
    "ours-strings-xla": SavedModelStringsXla,
    "ours-strings-xla-threads": SavedModelStringsXlaThreads,
    "ours-litert": LiteRT,
    "ours-litert-int8": LiteRTInt8,
    "ctranslate2": CTranslate2,
    "ctranslate2-int8": CTranslate2Int8,
    "marian": Marian,
}
