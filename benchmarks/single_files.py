"""Compares the single files of a run, LiteRT and ONNX, in float32 and in int8: size, speed and quality.

python benchmarks/single_files.py runs/en_de test.en.gz test.de.gz --source-length 32 --max-length 32

Each file translates all sources, one at a time, in a thread of its own engine; rounds alternate between the
files, and the median counts. Quality is BLEU (`--tokenize`) and exact match with the references, and how many
outputs are those of the float32 file.
"""

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import tensorflow as tf
from machine import machine

import keras_transformer as kt

PACKAGES = ("keras", "tensorflow", "onnxruntime", "tf2onnx")
EXPORTS = {"LiteRT": kt.export.export_litert, "ONNX": kt.export.export_onnx}
Ask = Callable[[np.ndarray], np.ndarray]


def engine(name: str, path: Path) -> Ask:
    """Load a file.

    Args:
        name: of its engine.
        path: of the file.

    Returns:
        a function from source ids `(1, s)` to token ids `(1, T)`, in one thread.
    """
    if name == "ONNX":
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return lambda source_ids: session.run(["token_ids"], {"source_ids": source_ids})[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        run = tf.lite.Interpreter(str(path), num_threads=1).get_signature_runner("serving_default")
    return lambda source_ids: run(source_ids=source_ids)["token_ids"]


def answer(ask: Ask, token_ids: np.ndarray) -> tuple[list[np.ndarray], float]:
    """Translate sources one by one.

    Args:
        ask: of `engine`.
        token_ids: `(sources, s)`.

    Returns:
        the outputs `(1, T)`, and the milliseconds of a source.
    """
    start = time.perf_counter()
    outputs = [ask(row[None]) for row in token_ids]
    return outputs, (time.perf_counter() - start) / len(token_ids) * 1e3


def quality(texts: list[str], plain: list[str], references: list[str], tokenize: str) -> str:
    """Make the cells of BLEU, exact match and equal outputs.

    Args:
        texts: the outputs.
        plain: those of the float32 file.
        references: a text for each.
        tokenize: of BLEU.

    Returns:
        the cells of a Markdown table.
    """
    scores = kt.evaluation.evaluate(texts, references, ["bleu", "exact_match"], tokenize=tokenize).scores
    bleu, exact = scores["bleu"].value, 100 * scores["exact_match"].value
    return f"{bleu:.2f} | {exact:.2f} % | {sum(map(str.__eq__, texts, plain))} of {len(texts)}"


def main() -> None:
    """Write the files, ask them, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="directory of a run")
    parser.add_argument("source", type=Path, help="sources, a line each")
    parser.add_argument("target", type=Path, help="their references")
    parser.add_argument("--source-length", type=int, default=32)
    parser.add_argument("--max-length", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokenize", default="13a", help="of BLEU")
    options = parser.parse_args()
    translator = kt.Translator.load(options.run)
    sources, references = (kt.data.read_lines(path) for path in (options.source, options.target))
    token_ids = np.zeros((len(sources), options.source_length), "int32")
    found = np.asarray(translator.source_tokenizer.padded_ids(sources, options.source_length))
    token_ids[:, : found.shape[1]] = found
    lengths = {"source_length": options.source_length, "max_length": options.max_length}
    with tempfile.TemporaryDirectory() as directory:
        paths = {
            (name, kind): write(translator, Path(directory, f"{name}.{kind}"), optimize=kind, **lengths)
            for name, write in EXPORTS.items()
            for kind in ("float32", "int8")
        }
        asks = {key: engine(key[0], path) for key, path in paths.items()}
        answers: dict[tuple[str, str], list[tuple[list[np.ndarray], float]]] = {key: [] for key in asks}
        for _ in range(options.rounds):
            for key, ask in asks.items():
                answers[key].append(answer(ask, token_ids))
        texts = {
            key: translator.target_tokenizer.detokenize(np.concatenate(rounds[0][0])).numpy()
            for key, rounds in answers.items()
        }
        decoded = {key: [text.decode() for text in each] for key, each in texts.items()}
        print("| file | size | ms a source | BLEU | exact match | outputs of float32 |")
        print("|---|---:|---:|---:|---:|---:|")
        for key, path in paths.items():
            milliseconds = statistics.median(each for _, each in answers[key])
            cells = quality(decoded[key], decoded[key[0], "float32"], references, options.tokenize)
            size = path.stat().st_size / 1e6
            print(f"| {' '.join(key)} | {size:.2f} MB | {milliseconds:.1f} | {cells} |")
    print()
    print(machine(PACKAGES))


if __name__ == "__main__":
    main()
