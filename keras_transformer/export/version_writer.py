"""The files of one version of an export."""

import tempfile
import warnings
from pathlib import Path

import tensorflow as tf

from keras_transformer.decoding import Translator, TruncationWarning
from keras_transformer.export.directory_readme import directory_readme
from keras_transformer.export.graph_size import shrink_graph
from keras_transformer.export.serving_module import ServingModule
from keras_transformer.export.warmup import write_warmup_requests


def write_version(
    translator: Translator, directory: Path, examples: list[str], *, optimize: str, name: str, version: int
) -> None:
    """Writes the SavedModel, its vocabularies, warm-up requests and README.

    Args:
        translator: on the TensorFlow backend.
        directory: an empty one.
        examples: real sources.
        optimize: see `ServingModule`.
        name: of the model on the server.
        version: its number.

    Raises:
        OSError: something cannot be written.
    """
    with tempfile.TemporaryDirectory() as vocabularies:
        module = ServingModule(translator, _vocabulary_files(translator, Path(vocabularies)), optimize)
        try:
            tf.saved_model.save(module, str(directory), signatures=module.signatures())
        except tf.errors.OpError as error:  # of TensorFlow's own writing: a disk that is full, for example
            raise OSError(error.message) from error
    shrink_graph(directory)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        outputs = translator.translate(examples)
    if examples:
        write_warmup_requests(directory, name, examples, outputs)
    readme = directory_readme(
        name,
        list(zip(examples, outputs, strict=True)),
        version=version,
        num_hypotheses=translator.search.num_hypotheses,
        max_target_length=translator.max_target_length,
        optimize=optimize,
        needs_tensorflow_text=needs_tensorflow_text(translator),
    )
    (directory / "README.md").write_text(readme, encoding="utf-8", errors="replace")


def needs_tensorflow_text(translator: Translator) -> bool:
    """Says whether a graph has operations of TensorFlow Text.

    Args:
        translator: whose tokenizers become part of the graph.

    Returns:
        True if one of them needs them.
    """
    tokenizers = (translator.source_tokenizer, translator.target_tokenizer)
    return any(tokenizer.needs_tensorflow_text for tokenizer in tokenizers)


def _vocabulary_files(translator: Translator, directory: Path) -> list[str]:
    """Writes both vocabularies under names of their own."""
    paths = []
    for side in ("source", "target"):
        tokenizer = getattr(translator, f"{side}_tokenizer")
        tokenizer.save(directory / side)
        files = tokenizer.asset_files(directory / side)
        paths += [str(path.rename(directory / f"{side}_{path.name}")) for path in files]
    return paths
