"""A translator as a directory that TensorFlow Serving loads as it is."""

import contextlib
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import keras
import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from keras_transformer.arguments import as_strings
from keras_transformer.decoding import SampleSearch, Translator, TruncationWarning
from keras_transformer.errors import InputError
from keras_transformer.export.directory_readme import directory_readme
from keras_transformer.export.graph_size import shrink_graph
from keras_transformer.export.serving_module import OPTIMIZATIONS, SIGNATURES, ServingModule, utf8
from keras_transformer.export.stored_weights import rounded
from keras_transformer.export.verification import Expected, verify_saved_model
from keras_transformer.files import atomic_directory, errors_named, write_file

WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")


def write_warmup_requests(directory: Path, name: str, texts: Sequence[str], outputs: Sequence[str]) -> None:
    """Writes requests for every signature, each of a single text and one of all.

    So a server is warm for both batch sizes, and an XLA export has compiled the lengths of the texts.

    Args:
        directory: of the SavedModel.
        name: of the model on the server.
        texts: real examples.
        outputs: an answer to each, to be scored.
    """
    path = directory / WARMUP_FILE
    path.parent.mkdir(exist_ok=True)
    batches = [slice(row, row + 1) for row in range(len(texts))]
    if len(texts) > 1:
        batches.append(slice(None))
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature in SIGNATURES:
            for rows in batches:
                columns = {"text": texts[rows], "output": outputs[rows]}
                writer.write(_request(name, signature, columns).SerializeToString())


def _request(
    name: str, signature: str, columns: dict[str, Sequence[str]]
) -> prediction_log_pb2.PredictionLog:
    inputs = {column: columns[column] for column in SIGNATURES[signature].inputs}
    request = predict_pb2.PredictRequest(
        model_spec=model_pb2.ModelSpec(name=name, signature_name=signature),
        inputs={column: tf.make_tensor_proto(utf8(rows), tf.string) for column, rows in inputs.items()},
    )
    return prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))


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
        num_hypotheses=translator.search.num_outputs,
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


# Beside the versions: a server takes directories named by numbers for versions, and nothing else.
MODELS_CONFIG_FILE = "models.config"

_TEMPLATE = """\
# For tensorflow_model_server --model_config_file=/models/{name}/models.config
# To serve several models, put their `config` blocks into one list.
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
    # The newest version alone is served. To keep two and give them names, add for example
    #   model_version_policy {{ specific {{ versions: 1 versions: 2 }} }}
    #   version_labels {{ key: "stable" value: 1 }}
    # A label needs a version that is loaded already, or --allow_version_labels_for_unavailable_models.
  }}
}}
"""


def models_config(name: str) -> str:
    """Writes a `ModelServerConfig` in protobuf's text format.

    Args:
        name: of the model.

    Returns:
        the text, for a server that sees the model's directory as `/models/<name>`.
    """
    # What a quoted string of protobuf cannot hold as it is.
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return _TEMPLATE.format(name=escaped)


def model_name(directory: Path) -> str:
    """Names a model by its directory.

    Args:
        directory: of the model; a link keeps its own name.

    Returns:
        its last part, or that of the directory which `..` stands for.
    """
    name = directory.absolute().name
    return directory.resolve().name if name == ".." else name


def write_models_config(directory: Path) -> None:
    """Writes the file into the directory of a model, unless there is one, which somebody may have edited.

    Args:
        directory: of the model; its last part is the model's name.

    Raises:
        InputError: the file cannot be written.
    """
    path = directory / MODELS_CONFIG_FILE
    if not path.exists():
        write_file(path, models_config(model_name(directory)).encode())


MAX_EXAMPLES = 8

# Answers that the writer compares: besides the examples, what users send by mistake.
HARD_TEXTS = ("", "  ", "\U0001f600 \u05e9\u05dc\u05d5\u05dd")


def export_saved_model(
    translator: Translator,
    directory: str | Path,
    examples: Sequence[str] = (),
    optimize: str = "float32",
) -> Path:
    """Writes the next version of a model, and checks it before it appears.

    The version is written beside, moved, loaded in a fresh process without Keras and without this
    package, and every signature is compared with the translator. Only then is it renamed to its number,
    so a server that watches the directory never sees half a model.

    Args:
        translator: on the TensorFlow backend.
        directory: of the model; its last part is the model's name, the versions are numbers in it.
        examples: real sources, of which the first 8 are used for the comparison and for the warm-up
            requests; for `xla` of the lengths that are usual.
        optimize: `float32`; `bfloat16` for weights of half the size, which changes answers where two
            are nearly as likely; or `xla` for a search compiled for a few lengths, of the same answers.

    Returns:
        the directory of the new version. Beside it is `models.config`, written if there was none.

    Raises:
        InputError: the directory cannot be written, or is that of a version, or Keras runs on another
            backend.
        ExportError: the SavedModel is not what it must be; nothing is left of it.
        ValueError: an unknown `optimize`, or a search that draws by chance, whose answers nothing could
            be compared with.
    """
    check_backend()
    if isinstance(translator.search, SampleSearch):
        raise ValueError(
            "`translator.search` must give the same answer each time to be exported. "
            f"Received: {type(translator.search).__name__}."
        )
    if optimize not in OPTIMIZATIONS:
        raise ValueError(f"`optimize` must be one of {OPTIMIZATIONS}. Received: optimize={optimize!r}.")
    directory = Path(directory)
    if (directory / "saved_model.pb").exists():
        raise InputError(
            f"`directory` must be that of a model, with its versions in it. Received: {directory}, a version."
        )
    is_new, name, version = not directory.exists(), model_name(directory), next_version(directory)
    examples = as_strings(examples=examples)[:MAX_EXAMPLES]
    try:
        with errors_named("write", directory), atomic_directory(directory / str(version)) as partial:
            written = partial / "written"
            written.mkdir()
            write_version(translator, written, examples, optimize=optimize, name=name, version=version)
            # What is checked has another path than what was written, as it has when it is deployed.
            for entry in list(written.iterdir()):
                entry.rename(partial / entry.name)
            written.rmdir()
            _verify(translator, partial, examples, optimize)
            write_models_config(directory)
        return directory / str(version)
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it holds the version
                directory.rmdir()


def check_backend() -> None:
    """Refuse to export where Keras does not run on TensorFlow.

    Raises:
        InputError: it runs on another backend.
    """
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "Export needs the TensorFlow backend: set KERAS_BACKEND=tensorflow and load the model again. "
            f"Received: KERAS_BACKEND={keras.backend.backend()}."
        )


def next_version(directory: Path) -> int:
    """Finds the number of the next version.

    Args:
        directory: of the model, which need not exist.

    Returns:
        1, or one more than the highest version there.
    """
    return max(versions(directory), default=0) + 1


def versions(directory: Path) -> list[int]:
    """Lists the versions of a model.

    Args:
        directory: of the model.

    Returns:
        the numbers, ascending; empty where the directory does not exist.
    """
    if not directory.is_dir():
        return []
    return sorted(int(path.name) for path in directory.iterdir() if path.name.isdecimal())


def _verify(translator: Translator, directory: Path, examples: list[str], optimize: str) -> None:
    """Compare with the answers of the translator; for rounded weights, of one with such weights."""
    texts = [*examples, *HARD_TEXTS]
    model = rounded(translator) if optimize == "bfloat16" else translator
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        translations = model.translate_with_scores(texts)
        outputs = [translation.text for translation in translations]
        expected: Expected = {
            "serving_default": translations,
            "n_best": model.n_best(texts),
            "align": model.align(texts),
            "score": model.score(texts, outputs),
        }
    needs_text = needs_tensorflow_text(translator)
    verify_saved_model(directory, texts, outputs, expected, needs_tensorflow_text=needs_text)
