"""Writes the exports of one model, and its sources, for the workers of the decoding benchmarks.

python -m benchmarks.decoding.prepare DIRECTORY small ours:greedy ours-xla:beam ctranslate2:greedy

A random model writes exactly 32 words for each source, with any search: in its table of embeddings, which the
output shares, the rows of the special tokens are zero. So the logit of the end token is 0, and thousands of
others are larger. Its tokenizer splits at spaces.
"""

import argparse
from pathlib import Path

import keras
import numpy as np

import keras_transformer as kt
from benchmarks.common import SHAPES, THREADS
from benchmarks.decoding.cells import LENGTH, SEARCHES, VOCABULARY, Sources
from keras_transformer.export import export_ctranslate2, export_litert, export_saved_model

NUM_SPECIAL = 4
NUM_SOURCES = 64


def random_translator(shape: str) -> tuple[kt.Translator, list[str]]:
    """Return a translator whose outputs never end, and sources of 31 random words."""
    size = VOCABULARY[shape]
    words = [f"w{number}" for number in range(size - NUM_SPECIAL)]
    tokenizer = kt.text.WhitespaceTokenizer.train([" ".join(words)])
    keras.utils.set_random_seed(0)
    model = kt.Transformer(size, size, **SHAPES[shape]._asdict(), dropout=0.0, share_embeddings=True)
    for weight in model.weights:
        if tuple(weight.shape) == (size, SHAPES[shape].hidden_dim):
            table = keras.ops.convert_to_numpy(weight).copy()
            table[:NUM_SPECIAL] = 0.0
            weight.assign(table)
    limits = {"max_source_length": LENGTH, "max_target_length": LENGTH}
    draw = np.random.default_rng(0)
    texts = [" ".join(draw.choice(words, LENGTH - 1)) for _ in range(NUM_SOURCES)]
    return kt.Translator(model, tokenizer, tokenizer, **limits), texts


def searching(translator: kt.Translator, name: str) -> kt.Translator:
    """Return a translator without length penalty that returns only its best output, as CTranslate2 does."""
    beam = kt.decoding.BeamSearch(SEARCHES[name], num_hypotheses=1, length_penalty=0.0, early_stopping=True)
    return kt.Translator(
        translator.model,
        translator.source_tokenizer,
        translator.target_tokenizer,
        search=kt.decoding.GreedySearch() if name == "greedy" else beam,
        max_source_length=translator.max_source_length,
        max_target_length=translator.max_target_length,
    )


def export(system: str, translator: kt.Translator, directory: Path, search: str) -> None:
    """Write what a system loads."""
    if system.startswith("ctranslate2"):
        export_ctranslate2(translator, directory / system, quantization="int8" if "int8" in system else None)
    elif system.startswith("ours-litert"):
        optimize = "int8" if "int8" in system else "float32"
        export_litert(translator, directory / f"{system}.tflite", optimize=optimize)
    elif system.startswith("ours"):
        optimize = next((each for each in ("xla", "bfloat16") if each in system), "float32")
        threads = THREADS if "threads" in system else None
        example = Sources(directory).texts[:1]
        export_saved_model(
            translator, directory / f"{system}_{search}", example, optimize=optimize, threads=threads
        )


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("shape", help="shape of a model with random weights, or `trained` for --model")
    parser.add_argument("exports", nargs="+", help="such as ours:greedy")
    parser.add_argument("--model", type=Path, help="directory of a run")
    parser.add_argument("--sources", type=Path, help="texts of the run, one on each line, plain or .gz")
    parser.add_argument("--sentences", type=int, default=128, help="how many of them")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.shape == "trained":
        translator = kt.Translator.load(options.model)
        texts = list(kt.data.read_lines(options.sources))[: options.sentences]
    else:
        translator, texts = random_translator(options.shape)
    rows = np.asarray(translator.source_tokenizer.padded_ids(texts, translator.max_source_length))
    ids = [[token for token in row if token] for row in rows.tolist()]
    Sources.write(options.directory, texts, ids, translator.max_target_length)
    written = set()
    for each in options.exports:
        system, search = each.split(":")
        # A file for another engine contains no search.
        part = (system, search) if system.startswith("ours") and "litert" not in system else (system, "")
        if part not in written:
            export(system, searching(translator, search), options.directory, search)
        written.add(part)


if __name__ == "__main__":
    main()
