"""A translator as a directory that TensorFlow Serving loads as it is."""

import itertools
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from keras_transformer._arguments import check_choice, check_positive
from keras_transformer._files import Checksums, as_path, errors_named, numbered_directory, write_file
from keras_transformer.decoding.sampling import SampleSearch
from keras_transformer.decoding.text_generator import TextGenerator
from keras_transformer.decoding.text_translator import TruncationWarning
from keras_transformer.decoding.translator import Translator
from keras_transformer.errors import InputError
from keras_transformer.export.readmes import _saved_model_readme, _template
from keras_transformer.export.serving_graphs import _columns, _rows, _ServingGraphs, _signatures_of, _utf8
from keras_transformer.export.verification import verify_saved_model
from keras_transformer.export.weights import _rounded
from keras_transformer.types import AUDIO, OPTIMIZATIONS, SPECIAL_TOKENS, Signature, Source

_MAX_WARMUP_TEXTS = 8
_WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")
# Next to the versions: a server takes directories named by numbers for versions, and nothing else.
_MODELS_CONFIG = "models.config"


def export_saved_model(
    translator: Translator | TextGenerator,
    directory: str | Path,
    examples: Iterable[Source] = (),
    optimize: str = "float32",
    threads: int | None = None,
) -> Path:
    """Write the next version of a model, and check it before it appears.

    The version is written next to its place, moved, and verified by `verify_saved_model`. Only then is it
    renamed to its number, so that a server which watches the directory never sees half a model.

    Args:
        translator: on the TensorFlow backend. A `TextGenerator` has no signature `align`. One of audio takes
            `audio`, float32 `(b, n)` at 16 kHz, in place of `text`.
        directory: of the model; its last part is the model's name, the versions are numbers in it.
        examples: real sources, prompts or audio, of which the first 8 are used for the comparison and for the
            warm-up requests; for `xla` of the lengths that are usual. Without any a few tokens of the
            vocabulary, or silence.
        optimize: `float32`; `bfloat16` for weights of half the size, which changes outputs where two are
            nearly as likely; or `xla` for a search compiled for a few lengths, with the same outputs.
        threads: for processors alone, and mostly faster there: the number of threads among which the sources
            of a request are divided, such as the cores of a server by the requests that it answers at once.
            None lets TensorFlow share each operation among its threads. The outputs are the same.

    Returns:
        The directory of the new version. Next to it is `models.config`, written if there was none.

    Raises:
        InputError: the directory cannot be written, or is that of a version, or Keras runs on another
            backend.
        ExportError: the SavedModel is not what it must be; nothing is left of it.
        ValueError: an unknown `optimize`, or a search that samples, whose outputs nothing could be compared
            with.
    """
    _check_exportable(translator, (Translator, TextGenerator))
    if isinstance(translator.search, SampleSearch):
        raise ValueError(
            "`translator.search` must give the same answer each time to be exported. "
            f"Received: {type(translator.search).__name__}."
        )
    check_choice(OPTIMIZATIONS, optimize=optimize)
    if threads is not None:
        check_positive(threads=threads)
    directory = as_path(directory)
    if (directory / "saved_model.pb").exists():
        raise InputError(
            f"`directory` must be that of a model, with its versions in it. Received: {directory}, a version."
        )
    if translator.reads == AUDIO and optimize == "xla":
        raise ValueError(
            "`optimize` must not be 'xla' for a model of audio: XLA's sizes are those of token ids. "
            f"Received: optimize={optimize!r}."
        )
    texts = translator.sources(examples=examples)[:_MAX_WARMUP_TEXTS] or [_first_tokens(translator)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        outputs = translator.translate(texts)
    name = _model_name(directory)
    with errors_named("write", directory), numbered_directory(directory) as (version, partial):
        written = partial / "written"
        written.mkdir()
        _write_graphs(translator, written, optimize, threads)
        # What is verified has another path than what was written, as it has when it is deployed.
        for entry in list(written.iterdir()):
            entry.rename(partial / entry.name)
        written.rmdir()
        signatures = [each for each in translator.signatures if (each, optimize) != ("search", "xla")]
        columns = _columns(translator, _rows(translator.reads, texts), _utf8(outputs))
        inputs = {each: _signatures_of(translator.reads)[each].inputs for each in signatures}
        _write_warmup_requests(partial, name, inputs, columns)
        readme = _saved_model_readme(
            translator, name, version, optimize, threads, list(zip(texts, outputs, strict=True))
        )
        (partial / "README.md").write_text(readme, encoding="utf-8", errors="replace")
        verified = _rounded(translator) if optimize == "bfloat16" else translator
        verify_saved_model(partial, verified, texts)
        Checksums.write(partial)
        _write_models_config(directory / _MODELS_CONFIG, name)
    return directory / str(version)


def _first_tokens(translator: Translator | TextGenerator) -> Source:
    """Make a text for the warm-up of what the vocabulary begins with, or a second of silence."""
    if translator.reads == AUDIO:
        return np.zeros(16_000, "float32")
    first = len(SPECIAL_TOKENS)
    token_ids = tf.range(first, min(first + 8, translator.source_tokenizer.vocabulary_size))
    [text] = translator.source_tokenizer.detokenize(token_ids[tf.newaxis]).numpy().tolist()
    return text.decode("utf-8", "replace")


def _check_exportable(translator: object, kinds: tuple[type, ...] = (Translator,)) -> None:
    """Raise InputError unless Keras runs on TensorFlow, TypeError for a model alone."""
    if not isinstance(translator, kinds):
        kind, wanted = type(translator).__name__, " or a ".join(wanted.__name__ for wanted in kinds)
        raise TypeError(f"`translator` must be a {wanted}, of a model and tokenizers. Received: a {kind}.")
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "Export needs the TensorFlow backend: set KERAS_BACKEND=tensorflow and load the model again. "
            f"Received: KERAS_BACKEND={keras.backend.backend()}."
        )


def _model_name(directory: Path) -> str:
    """Return the last part of a path; a link keeps its own name, `..` has that of the directory."""
    name = directory.absolute().name
    return directory.resolve().name if name == ".." else name


def _write_graphs(
    translator: Translator | TextGenerator, directory: Path, optimize: str, threads: int | None
) -> None:
    """Write the SavedModel itself, with the vocabularies among its assets."""
    graphs = _ServingGraphs(translator, optimize, threads)
    signatures = graphs.signatures()
    with tempfile.TemporaryDirectory() as vocabularies:
        module = graphs.module(_vocabulary_files(translator, Path(vocabularies)))
        # A server computes no gradients.
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        try:
            tf.saved_model.save(module, str(directory), signatures=signatures, options=options)
        except tf.errors.OpError as error:  # from TensorFlow's own writing: a full disk, for example
            raise OSError(error.message) from error
    if threads is not None:
        _keep_on_one_thread(directory / "saved_model.pb")


def _keep_on_one_thread(path: Path) -> None:
    """Let TensorFlow's single-threaded executor run loops that have neither loops nor conditions in them."""
    # A step is hundreds of small operations, which the other executor hands from thread to thread.
    saved_model = SavedModel.FromString(path.read_bytes())
    for graph in saved_model.meta_graphs:
        nodes = {each.signature.name: each.node_def for each in graph.graph_def.library.function}
        lowered = {name for name in nodes for each in nodes[name] if "_lower_using_switch_merge" in each.attr}
        for loop in (each for body in nodes.values() for each in body if each.op.endswith("While")):
            parts = [loop.attr[part].func for part in ("cond", "body")]
            for part in parts if lowered.isdisjoint(part.name for part in parts) else ():
                part.attr["_executor"].s = b"SINGLE_THREADED_EXECUTOR"
    path.write_bytes(saved_model.SerializeToString(deterministic=True))
    path.with_name("fingerprint.pb").unlink(missing_ok=True)  # of the file as it was


def _vocabulary_files(translator: Translator | TextGenerator, directory: Path) -> list[str]:
    """Write each vocabulary under another name, since assets are one directory."""
    paths = []
    for name, tokenizer in translator.arguments.items():
        if name.endswith("tokenizer"):
            tokenizer.save(directory / name)
            files, side = tokenizer.asset_files(directory / name), name.removesuffix("tokenizer")
            paths += [str(path.rename(directory / f"{side}{path.name}")) for path in files]
    return paths


def _write_warmup_requests(
    directory: Path,
    name: str,
    inputs: Mapping[Signature, dict[str, tuple[str, int]]],
    columns: dict[str, list[Any]],
) -> None:
    """Write requests for signatures, each of a single text and one of all."""
    # So a server is warm for both batch sizes, and an XLA export has compiled the lengths of the texts.
    path = directory / _WARMUP_FILE
    path.parent.mkdir(exist_ok=True)
    num_texts = len(columns["output"])
    batches = [slice(row, row + 1) for row in range(num_texts)]
    if num_texts > 1:
        batches.append(slice(None))
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, rows in itertools.product(inputs, batches):
            # All inputs: an older server fills in no defaults.
            given = inputs[signature].items()
            request = predict_pb2.PredictRequest(
                model_spec=model_pb2.ModelSpec(name=name, signature_name=signature),
                inputs={key: tf.make_tensor_proto(columns[key][rows], dtype) for key, (dtype, _) in given},
            )
            log = prediction_log_pb2.PredictLog(request=request)
            writer.write(prediction_log_pb2.PredictionLog(predict_log=log).SerializeToString())


def _write_models_config(path: Path, name: str) -> None:
    """Write a `ModelServerConfig`, unless there is one, which somebody may have edited."""
    if not path.exists():
        # What a quoted string of protobuf cannot hold as it is.
        escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        write_file(path, _template("models.config", name=escaped).encode())
