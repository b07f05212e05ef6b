"""Tasks that run an exported SavedModel in Python."""

import importlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, Self

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from keras_transformer._arguments import check_finite
from keras_transformer._files import Checksums, as_path, read_file, version_numbers
from keras_transformer.errors import InputError
from keras_transformer.tasks import Classifier, Tagger, Task, TextTask, Translation
from keras_transformer.text import Reader, Tokenizer
from keras_transformer.types import Progress, Signature, Value

# Operations of exports with any tokenizer, search, model option and Keras activation. They do not read or
# write files, open connections or run Python.
_COMPUTING = {*Path(__file__).with_name("operations.txt").read_text(encoding="utf-8").split()}
# These take arbitrary file names. They save and restore variables for a server; Python calls none of them,
# since it reads `variables/` itself.
_SAVING = {"DisableCopyOnRead", "MergeV2Checkpoints", "RestoreV2", "SaveV2", "Select", "ShardedFilename"}
_SAVING |= {"StaticRegexFullMatch"}


class _ServedFunction(Protocol):
    """Function of a SavedModel."""

    structured_input_signature: tuple[tuple[()], dict[str, tf.TensorSpec]]
    structured_outputs: dict[str, tf.TensorSpec]
    variables: Sequence[tf.Variable]

    def __call__(self, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the outputs of a batch."""


class ServedTask(Task):
    """Base class of tasks that run a SavedModel; see `ServedModel`."""

    def __init__(self, directory: str | Path, *, trust: bool = False) -> None:
        self.directory = _saved_model_directory(as_path(directory))
        Checksums.check(self.directory)
        path = self.directory / "saved_model.pb"
        graphs = _meta_graphs(path)
        if not trust:
            _check_operations(path, graphs)
        # A SavedModel with subwords needs TensorFlow Text, which takes a second to import.
        if not all(hasattr(tf.raw_ops, name) for graph in graphs for name in _operations(graph)):
            importlib.import_module("tensorflow_text")
        try:
            self._module = tf.saved_model.load(str(self.directory))
        except Exception as error:  # for a damaged directory TensorFlow raises errors of many classes
            cause = " ".join(str(error).split())
            raise InputError(f"{self.directory} cannot be loaded as a SavedModel: {cause}") from error
        check_finite(self.directory, self._signature("serving_default").variables)

    @property
    def functions(self) -> Self:
        """Functions of the SavedModel, by signature."""
        return self

    def __getitem__(self, signature: Signature) -> Callable[..., dict[str, tf.Tensor]]:
        """Return the function of a signature, from its columns to its outputs."""
        serve, names = self._signature(signature), self.specification(signature).inputs

        def run(*columns: tf.Tensor) -> dict[str, tf.Tensor]:
            # After the columns come options of tasks in memory, which an export does not take.
            return serve(**dict(zip(names, columns, strict=False)))

        return run

    def _signature(self, name: Signature) -> _ServedFunction:
        """Return the function of a signature; raise InputError if the export differs from what we expect."""
        serve: _ServedFunction | None = self._module.signatures.get(name)
        if serve is None:
            names = ", ".join(sorted(self._module.signatures)) or "none"
            raise InputError(f"{self.directory} has no signature {name}. It has: {names}.")
        specs = serve.structured_input_signature[1]
        received = {column: (spec.dtype.name, spec.shape.rank) for column, spec in specs.items()}
        if not Reader.by_column.keys() & received.keys():
            importlib.import_module("keras_transformer.pretrained")  # registers other readers
        kinds = (Reader.by_column[column] for column in received if column in Reader.by_column)
        self.reader = next(kinds, Tokenizer)  # the class checks and batches without a vocabulary
        wanted = self.specification(name).inputs
        if received != wanted:
            raise InputError(f"{self.directory}: {name} must take {wanted}. Received: {received}.")
        outputs = {*self.signatures[name].outputs}
        if not outputs <= {*serve.structured_outputs}:
            received_outputs = sorted(serve.structured_outputs)
            raise InputError(
                f"{self.directory}: {name} must return {sorted(outputs)}. Received: {received_outputs}."
            )
        return serve


class ServedClassifier(ServedTask, Classifier):
    """Text classification with an exported SavedModel, with the methods of `TextClassifier`.

    The arguments are those of `ServedModel`.
    """


class ServedTagger(ServedTask, Tagger):
    """Tagging with an exported SavedModel, with the methods of `TextTagger`.

    The arguments are those of `ServedModel`.
    """


class ServedModel(ServedTask, TextTask):
    """An exported SavedModel that translates or generates texts.

    Args:
        directory: Directory of one version of an export, or the directory that holds the versions, of which
            the highest is used.
        trust: Whether to load a SavedModel with operations that `export_saved_model` never writes. A
            SavedModel is a program, which can read and write all your files. Defaults to False.

    Raises:
        InputError: If the SavedModel is missing, incomplete or damaged, has unknown operations, has weights
            that are not finite, or has a `serving_default` with other inputs or outputs than an export.
    """

    @property
    def num_outputs(self) -> int:
        """Number of outputs that `n_best` returns for each source."""
        [_, num_outputs] = self._signature("n_best").structured_outputs["score"].shape
        return int(num_outputs)

    @property
    def takes_seed(self) -> bool:
        """Whether requests to `search` have a seed, because the search samples."""
        serve: _ServedFunction | None = self._module.signatures.get("search")
        return serve is not None and "seed" in serve.structured_input_signature[1]

    def search(
        self,
        texts: Iterable[Value],
        num: int | None = None,
        *,
        max_length: int | None = None,
        seed: int = 0,
        batch_size: int = 64,
        progress: Progress | None = None,
    ) -> list[list[Translation]]:
        """Call the signature `search`, which takes options for each request.

        Args:
            texts: As for `translate`, but an iterable of sources, not a single one.
            num: Maximum number of outputs for each text. Defaults to the export's.
            max_length: Maximum number of tokens of an output. Defaults to the export's.
            seed: Seed of the first text, for an export that samples; the next texts have the next seeds. With
                0, the default, the outputs are those of the exported model's `n_best`.
            batch_size: Number of texts in a request. Defaults to 64.
            progress: Called after each request with the number of its texts.

        Returns:
            The outputs for each text, best first.

        Raises:
            InputError: If the export has no signature `search`.

        Warns:
            TruncationWarning: Once, if texts were too long.
        """
        given, known = {"max_length": max_length, "num_hypotheses": num}, self.options
        # -1 selects the export's default.
        chosen = {name: -1 if given.get(name) is None else given[name] for name in known}

        def options(numbers: Sequence[int]) -> tuple[tf.Tensor, ...]:
            columns = {name: [value] * len(numbers) for name, value in chosen.items()}
            if "seed" in columns:
                columns["seed"] = [seed + number for number in numbers]
            return tuple(tf.constant(columns[name], dtype) for name, (dtype, _) in known.items())

        sources = self.reader.check("texts", texts)
        return self._in_batches("search", sources, batch_size, progress, options=options)


def served_kind(directory: str | Path) -> type[ServedTask]:
    """Return the class that can load an export, without loading it.

    Args:
        directory: As for `ServedModel`.

    Returns:
        `ServedClassifier`, `ServedTagger`, or else `ServedModel`.

    Raises:
        InputError: If the SavedModel is missing, incomplete or damaged.
    """
    graphs = _meta_graphs(_saved_model_directory(as_path(directory)) / "saved_model.pb")
    outputs = {name for graph in graphs for name in graph.signature_def["serving_default"].outputs}
    kinds: tuple[type[ServedTask], ...] = (ServedClassifier, ServedTagger)
    return next((k for k in kinds if k.signatures["serving_default"].outputs.keys() <= outputs), ServedModel)


def _saved_model_directory(directory: Path) -> Path:
    """Return the directory of a version; for the directory of a model, its highest version."""
    if not (directory / "saved_model.pb").is_file():
        numbers = version_numbers(directory)
        if not numbers:
            raise InputError(f"{directory} is not the directory of a SavedModel: it has no saved_model.pb.")
        directory = directory / str(numbers[-1])
    for part in ("saved_model.pb", "variables/variables.index"):
        if not (directory / part).is_file():
            raise InputError(f"{directory} is not a whole SavedModel: it has no {part}.")
    return directory


def _operations(graph: MetaGraphDef) -> set[str]:
    """Return the operations of a graph and its functions, without function calls."""
    functions = graph.graph_def.library.function
    names = {node.op for node in graph.graph_def.node}
    names.update(node.op for function in functions for node in function.node_def)
    return names - {function.signature.name for function in functions}


def _check_operations(path: Path, meta_graphs: Sequence[MetaGraphDef]) -> None:
    """Raise InputError if a `saved_model.pb` has operations that exports do not have."""
    # When TensorFlow loads several graphs, or one without objects (version 1), it runs more operations.
    if len(meta_graphs) != 1 or not meta_graphs[0].HasField("object_graph_def"):
        raise InputError(f"{path} must hold one graph with its objects. Received: {len(meta_graphs)} graphs.")
    if foreign := _foreign_operations(meta_graphs[0]):
        raise InputError(
            f"{path} has operations that no export has, and was not loaded: {', '.join(foreign)}. "
            "A SavedModel is a program. If you trust who made it, load it with --trust, or `trust=True`."
        )


def _meta_graphs(path: Path) -> Sequence[MetaGraphDef]:
    try:
        graphs: Sequence[MetaGraphDef] = SavedModel.FromString(read_file(path)).meta_graphs
    except DecodeError as error:
        raise InputError(f"{path} is damaged: it holds no SavedModel. {error}") from error
    return graphs


def _foreign_operations(meta_graph: MetaGraphDef) -> list[str]:
    graph, saver = meta_graph.graph_def, meta_graph.saver_def
    savers = saver.save_tensor_name.partition(":")[0], saver.restore_op_name
    others = [node for node in graph.node if node.name not in savers]
    others += [node for function in graph.library.function for node in function.node_def]
    # Functions that only the saver calls. Python may call the functions of objects.
    saving = _called(node for node in graph.node if node.name in savers) - _called(others)
    saving -= {*meta_graph.object_graph_def.concrete_functions}
    foreign = {node.op for node in graph.node} - _COMPUTING
    for function in graph.library.function:
        known = _COMPUTING | _SAVING if function.signature.name in saving else _COMPUTING
        foreign |= {node.op for node in function.node_def} - known
    return sorted(foreign)


def _called(nodes: Iterable[NodeDef]) -> set[str]:
    """Return the functions that nodes may call."""
    values = [value for node in nodes for value in node.attr.values()]
    return {call.name for value in values for call in (value.func, *value.list.func)}
