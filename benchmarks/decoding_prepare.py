"""Writes the models that the workers of `decoding.py` load: SavedModels and CTranslate2 directories.

python benchmarks/decoding_prepare.py DIRECTORY small '["small:1:greedy"]' [--xla] [--model runs/en_de]

Random weights are the same in ours and in CTranslate2. They are drawn so that the special tokens, the end
token among them, have the logit -100: so every answer has exactly the wanted length, in every search, and
nobody has to be told a minimal length. The last normalization gives feature 0 of each state the value 1,
and feature 0 of the output table is -100 for these tokens and 0 for all others.
"""

import argparse
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf
from decoding_cells import NUM_SPECIAL, SEARCHES, SHAPES, SOURCE_LENGTH, Cell, parse_cell
from decoding_systems import THREADS

import keras_transformer as kt
from keras_transformer.data import read_lines
from keras_transformer.export import export_ctranslate2, export_litert, export_saved_model
from keras_transformer.export.saved_model import _rewrite_graphs
from keras_transformer.export.serving_graphs import _found_by_threads, _graph_of
from keras_transformer.export.weights import _StoredWeights


def random_model(shape: str) -> kt.Transformer:
    """Make a model whose answers never end.

    Args:
        shape: its name.

    Returns:
        the model, post-norm, with one table for source, target and logits.
    """
    keras.utils.set_random_seed(0)
    sizes = dict(SHAPES[shape])
    vocabulary = sizes.pop("vocabulary")
    model = kt.Transformer(vocabulary, vocabulary, **sizes, dropout=0.0, share_embeddings=True)
    norm = model.decoder.layers[-1].feed_forward_residual.norm
    for weight, first in ((norm.gamma, 0.0), (norm.beta, 1.0)):
        weight.assign(tf.tensor_scatter_nd_update(weight.value, [[0]], [first]))
    table = keras.ops.convert_to_numpy(model.target_embedding.embeddings).copy()
    table[:, 0] = 0.0
    table[:NUM_SPECIAL, 0] = -100.0
    model.target_embedding.embeddings.assign(table)
    return model


def search(name: str) -> Any:
    """Make a search without length penalty.

    Args:
        name: `greedy` or `beam`.

    Returns:
        the search.
    """
    if name == "greedy":
        return kt.decoding.GreedySearch(special_ids=kt.text.SPECIAL_IDS)
    # CTranslate2 is asked for the best hypothesis alone, too: both stop when nothing can overtake it.
    options = {"num_hypotheses": 1, "length_penalty": 0.0, "special_ids": kt.text.SPECIAL_IDS}
    return kt.decoding.BeamSearch(SEARCHES[name], **options)


def signature(model: kt.Transformer, cell: Cell, *, xla: bool, threads: int | None) -> Any:
    """Trace the graph that answers a cell with token ids.

    Args:
        model: ours.
        cell: whose search and length are used; for XLA its batch too.
        xla: whether shapes are fixed and the graph is compiled.
        threads: as in `export_saved_model`.

    Returns:
        a concrete function.
    """

    def found(token_ids: tf.Tensor) -> kt.decoding.SearchResult:
        return kt.decoding.generate(model, token_ids, search(cell.search), cell.length)

    shape = [-(-cell.batch // (threads or 1)), SOURCE_LENGTH] if xla else [None, None]
    part = tf.TensorSpec(shape, tf.int32)
    # As in an export: threads are given what is never compiled itself, but may call what is; without XLA it
    # calls nothing, since that would go to oneDNN, which knows no limit of threads.
    graph = _graph_of(_graph_of(found, part, jit_compile=True) if xla else found, part)
    divided = graph if threads is None else partial(_found_by_threads, graph, threads)

    def serve(token_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        result = divided(token_ids)
        return {"token_ids": result.token_ids[:, 0], "scores": result.scores[:, 0]}

    spec = tf.TensorSpec([cell.batch, SOURCE_LENGTH] if xla else shape, tf.int32, name="token_ids")
    return tf.function(serve, input_signature=[spec], autograph=False).get_concrete_function()


def save_ids_model(
    model: kt.Transformer,
    cells: list[Cell],
    directory: Path,
    optimize: str = "float32",
    threads: int | None = None,
) -> None:
    """Write a SavedModel of variables and graphs, without Keras.

    Args:
        model: ours.
        cells: a signature is written for each search and length, for XLA also for each batch.
        directory: of the SavedModel.
        optimize: as in `export_saved_model`.
        threads: as in `export_saved_model`.
    """
    xla = optimize == "xla"
    module, weights = tf.Module(), _StoredWeights(model, optimize, threads)
    signatures = {signature_name(cell, xla=xla): cell for cell in cells}
    functions = {}
    for name, cell in signatures.items():
        with weights.scope():  # as in `export_saved_model`
            functions[name] = signature(model, cell, xla=xla, threads=threads)
    module.model_variables, module.computed = weights.variables, weights.computed
    tf.saved_model.save(module, str(directory), signatures=functions)
    _rewrite_graphs(directory / "saved_model.pb", threads)


def signature_name(cell: Cell, *, xla: bool) -> str:
    """Name the signature of a cell.

    Args:
        cell: what it answers.
        xla: whether its batch is fixed.

    Returns:
        the name.
    """
    return f"{cell.search}_{cell.length}" + (f"_{cell.batch}" if xla else "")


def prepare(
    directory: Path, shape: str, cells: list[Cell], model_directory: str | None, *, xla: bool
) -> None:
    """Write everything that the workers of a shape load.

    Args:
        directory: made if absent.
        shape: its name; `trained` for the model of a run.
        cells: what will be measured.
        model_directory: of the run.
        xla: whether XLA-compiled signatures are wanted.
    """
    if shape == "trained":
        translator = kt.Translator.load(str(model_directory))
        model: Any = translator.model
        cells = [cell._replace(length=translator.max_target_length) for cell in cells]
        write_sources(translator, directory)
        save_strings_models(translator, directory, ["float32", "xla"] if xla else ["float32"])
        for kind in ("float32", "int8"):
            export_litert(translator, directory / f"{kind}.tflite", optimize=kind)
        exported: Any = translator
    else:
        model = exported = random_model(shape)
    # A trained model may have no matrix that is large enough for integers.
    others = [] if shape == "trained" else ["int8", *(["xla"] if xla else [])]
    for optimize in ("float32", *others):
        save_ids_model(model, cells, directory / f"saved_model_{optimize}", optimize)
        if optimize != "int8":
            save_ids_model(model, cells, directory / f"saved_model_{optimize}_threads", optimize, THREADS)
    export_ctranslate2(exported, directory / "ctranslate2")
    export_ctranslate2(exported, directory / "ctranslate2_int8", quantization="int8")


def save_strings_models(translator: kt.Translator, directory: Path, variants: list[str]) -> None:
    """Export a trained model with its tokenizers, once for each search.

    Args:
        translator: of the run.
        directory: where the exports go.
        variants: of `--optimize`.
    """
    for name in SEARCHES:
        searching = kt.Translator(
            translator.model,
            translator.source_tokenizer,
            translator.target_tokenizer,
            search=search(name),
            max_source_length=translator.max_source_length,
            max_target_length=translator.max_target_length,
        )
        for variant in variants:
            export_saved_model(searching, directory / f"{variant}_{name}", optimize=variant)
            divided = directory / f"{variant}_threads_{name}"
            export_saved_model(searching, divided, optimize=variant, threads=THREADS)


def write_sources(translator: kt.Translator, directory: Path) -> None:
    """Write the sources of a trained model for its workers, by length, and its limit.

    Args:
        translator: whose tokenizer is used.
        directory: where `texts.json` names the file and how many are used.
    """
    place = json.loads((directory / "texts.json").read_text(encoding="utf-8"))
    texts = read_lines(Path(place["path"]))[: place["limit"]]
    rows = translator.source_tokenizer.padded_ids(texts, translator.max_source_length).numpy()
    ids = [[token for token in row if token] for row in rows.tolist()]
    order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
    both = [[side[row] for row in order] for side in (ids, texts)]
    (directory / "sources.json").write_text(json.dumps(both), encoding="utf-8")
    (directory / "limit.json").write_text(json.dumps(translator.max_target_length), encoding="utf-8")


def main() -> None:
    """Read the command line and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("shape")
    parser.add_argument("cells", type=json.loads)
    parser.add_argument("--xla", action="store_true")
    parser.add_argument("--model")
    options = parser.parse_args()
    cells = [parse_cell(text) for text in options.cells]
    prepare(options.directory, options.shape, cells, options.model, xla=options.xla)


if __name__ == "__main__":
    main()
