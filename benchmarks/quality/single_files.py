"""Compares the single files of a run, LiteRT and ONNX, in float32 and int8: size, speed and quality.

python -m benchmarks.quality.single_files runs/en_de test.en.gz test.de.gz --tokenize none

Each file translates all sources one at a time, in one thread; the files alternate, and the median counts.
Quality is BLEU and exact match with the references, and the number of outputs equal to the float32 file's.
"""

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import keras_transformer as kt
from benchmarks.common import conditions, in_turns, median, table

HEADS = ("file", "size", "ms a source", "BLEU", "exact match", "outputs of float32")
EXPORTS = {"LiteRT": kt.export.export_litert, "ONNX": kt.export.export_onnx}
Engine = Callable[[np.ndarray], np.ndarray]


def engine(name: str, path: Path) -> Engine:
    """Load a file; return a function from source ids `(1, s)` to token ids `(1, T)`."""
    if name == "ONNX":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return lambda source_ids: session.run(["token_ids"], {"source_ids": source_ids})[0]
    import tensorflow as tf

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        run = tf.lite.Interpreter(str(path), num_threads=1).get_signature_runner("serving_default")
    return lambda source_ids: run(source_ids=source_ids)["token_ids"]


def milliseconds(ask: Engine, token_ids: np.ndarray, outputs: list[np.ndarray], _: int) -> float:
    """Translate all sources `(b, s)` one by one into `outputs`; return the milliseconds of one."""
    start = time.perf_counter()
    outputs[:] = [ask(each[None]) for each in token_ids]
    return (time.perf_counter() - start) / len(token_ids) * 1e3


def main() -> None:
    """Write the files, run them, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path, help="directory of a run")
    parser.add_argument("source", type=Path, help="sources, one on each line")
    parser.add_argument("target", type=Path, help="their references")
    parser.add_argument("--source-length", type=int, default=32)
    parser.add_argument("--max-length", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokenize", default="13a", help="tokenization of BLEU")
    options = parser.parse_args()
    translator = kt.Translator.load(options.run)
    sources, references = (kt.data.read_lines(path) for path in (options.source, options.target))
    token_ids = np.zeros((len(sources), options.source_length), "int32")
    found = np.asarray(translator.source_tokenizer.padded_ids(sources, options.source_length))
    token_ids[:, : found.shape[1]] = found
    lengths = {"source_length": options.source_length, "max_length": options.max_length}
    asks, outputs, rows = {}, {}, []
    with tempfile.TemporaryDirectory() as directory:
        paths = {
            f"{name} {kind}": write(translator, Path(directory, f"{name}.{kind}"), optimize=kind, **lengths)
            for name, write in EXPORTS.items()
            for kind in ("float32", "int8")
        }
        for name, path in paths.items():
            outputs[name] = []
            asks[name] = partial(milliseconds, engine(name.split()[0], path), token_ids, outputs[name])
        times = in_turns(asks, options.rounds, warm_ups=1)
        sizes = {name: f"{path.stat().st_size / 1e6:.2f} MB" for name, path in paths.items()}
    texts = {
        name: [text.decode() for text in translator.target_tokenizer.detokenize(np.concatenate(ids)).numpy()]
        for name, ids in outputs.items()
    }
    for name, answers in texts.items():
        metrics = ["bleu", "exact_match"]
        scores = kt.evaluation.evaluate(answers, references, metrics, tokenize=options.tokenize).scores
        plain = texts[f"{name.split()[0]} float32"]
        same = f"{sum(map(str.__eq__, answers, plain))} of {len(answers)}"
        bleu, exact = f"{scores['bleu'].value:.2f}", f"{100 * scores['exact_match'].value:.2f} %"
        rows.append([name, sizes[name], median(times[name], "{:.1f}"), bleu, exact, same])
    print(f"{table(HEADS, rows)}\n\n{conditions('keras', 'tensorflow', 'onnxruntime', 'tf2onnx')}")


if __name__ == "__main__":
    main()
