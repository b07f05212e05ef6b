"""Batching with the rules of the server's own code, its gaps included.

The rules are those of `batching_session.cc` and `bundle_factory_util.cc` of TensorFlow Serving 2.20, and of
`shared_batch_scheduler.h` and `tensor_util.cc` of TensorFlow: what is refused, joined, split and padded, and
in which words. Where the server's process would end (a failed `CHECK`), the double answers INTERNAL.
"""

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format, wrappers_pb2

from model_server_double.errors import ServerError

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], Arrays]
# Of the message in `session_bundle_config.proto`, which `tensorflow-serving-api` does not carry.
FIELDS = {
    "max_batch_size": (1, "Int64Value"),
    "batch_timeout_micros": (2, "Int64Value"),
    "max_enqueued_batches": (3, "Int64Value"),
    "num_batch_threads": (4, "Int64Value"),
    "thread_pool_name": (5, "StringValue"),
    "enable_large_batch_splitting": (8, "BoolValue"),
    "max_execution_batch_size": (9, "Int64Value"),
}


def _message_class() -> Any:
    """Make the class of `BatchingParameters`."""
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="model_server_double/batching_parameters.proto",
        package="model_server_double",
        syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name],
    )
    message = file.message_type.add(name="BatchingParameters")
    for name, (number, kind) in FIELDS.items():
        message.field.add(
            name=name,
            number=number,
            type=types.TYPE_MESSAGE,
            label=types.LABEL_OPTIONAL,
            type_name=f".google.protobuf.{kind}",
        )
    message.field.add(name="allowed_batch_sizes", number=6, type=types.TYPE_INT64, label=types.LABEL_REPEATED)
    message.field.add(
        name="pad_variable_length_inputs", number=7, type=types.TYPE_BOOL, label=types.LABEL_OPTIONAL
    )
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("model_server_double.BatchingParameters")
    )


_Message = _message_class()


@dataclasses.dataclass(frozen=True)
class BatchingParameters:
    """What `--batching_parameters_file` says, with the server's defaults; it is checked as at its start."""

    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 10
    num_batch_threads: int = 2
    enable_large_batch_splitting: bool = False
    max_execution_batch_size: int | None = None
    allowed_batch_sizes: tuple[int, ...] = ()
    pad_variable_length_inputs: bool = False

    def __post_init__(self) -> None:
        sizes, limit = self.allowed_batch_sizes, self.max_batch_size
        if sizes and sizes[-1] != limit:
            raise ServerError(
                "Last entry in allowed_batch_sizes must match max_batch_size; last entry was "
                f"{sizes[-1]}; expected {limit}"
            )
        if self.num_batch_threads < 1:
            raise ServerError(f"num_batch_threads must be positive; was {self.num_batch_threads}")
        if self.enable_large_batch_splitting and limit < self.largest_execution:
            raise ServerError(
                "When enable_large_batch_splitting is true, input_batch_size_limit must be greater than or "
                "equal to max_execution_batch_size."
            )

    @classmethod
    def parse(cls, text: str) -> "BatchingParameters":
        """Read the message in text form."""
        message = text_format.Parse(text, _Message())
        values = {name: getattr(message, name).value for name in FIELDS if message.HasField(name)}
        values.pop("thread_pool_name", None)
        return cls(
            **values,
            allowed_batch_sizes=tuple(message.allowed_batch_sizes),
            pad_variable_length_inputs=message.pad_variable_length_inputs,
        )

    @property
    def largest_execution(self) -> int:
        """The most rows of a batch that reaches the graph."""
        if self.enable_large_batch_splitting and self.max_execution_batch_size is not None:
            return self.max_execution_batch_size
        return self.max_batch_size

    def padded(self, size: int) -> int:
        """Return the number of rows that a batch is filled up to."""
        return next((allowed for allowed in self.allowed_batch_sizes if allowed >= size), size)


@dataclasses.dataclass
class _Task:
    """A request, or a part of one."""

    inputs: Arrays
    size: int
    result: "Future[Arrays]" = dataclasses.field(default_factory=Future)


@dataclasses.dataclass
class _Batch:
    tasks: list[_Task] = dataclasses.field(default_factory=list)
    start: float = 0.0

    @property
    def size(self) -> int:
        return sum(task.size for task in self.tasks)


class Batcher:
    """The threads that all models share."""

    def __init__(self, parameters: BatchingParameters) -> None:
        self.parameters = parameters
        self.condition = threading.Condition()
        self._queues: list[Queue] = []
        for _ in range(parameters.num_batch_threads):
            threading.Thread(target=self._work, daemon=True).start()

    def queue(self, run: Run) -> "Queue":
        """Make the queue of a signature."""
        queue = Queue(self, run)
        with self.condition:
            self._queues.append(queue)
        return queue

    def _work(self) -> None:
        while True:
            with self.condition:
                while (found := self._next()) is None:
                    # As long as nothing waits, nothing becomes due.
                    self.condition.wait(0.001 if any(queue.waits for queue in self._queues) else None)
            queue, batch = found
            queue.process(batch)

    def _next(self) -> "tuple[Queue, _Batch] | None":
        for queue in self._queues:
            if (batch := queue.due()) is not None:
                return queue, batch
        return None


class Queue:
    """The requests to one signature of one model. The last of the batches is the open one."""

    def __init__(self, batcher: Batcher, run: Run) -> None:
        self._batcher, self._parameters, self._run = batcher, batcher.parameters, run
        self._batches = [_Batch()]

    @property
    def waits(self) -> bool:
        """Whether there are rows that no thread has taken."""
        return any(batch.size for batch in self._batches)

    def ask(self, inputs: Arrays) -> Arrays:
        """Wait for the outputs to one request."""
        task = _Task(inputs, _num_rows(inputs))
        with self._batcher.condition:
            parts = self._scheduled(task)
            self._batcher.condition.notify_all()
        results = [part.result.result() for part in parts]
        return results[0] if len(results) == 1 else _concatenated(results)

    def _scheduled(self, task: _Task) -> list[_Task]:
        """Put a request into the open batch, or its parts into that and further ones."""
        parameters, largest = self._parameters, self._parameters.largest_execution
        if task.size > parameters.max_batch_size:
            raise ServerError(
                f"Task size {task.size} is larger than maximum input batch size {parameters.max_batch_size}"
            )
        open_slots, splits = largest - self._batches[-1].size, parameters.enable_large_batch_splitting
        free = parameters.max_enqueued_batches - len(self._batches)
        if (task.size > free * largest + open_slots) if splits else (task.size > open_slots and free <= 0):
            raise ServerError(
                "The batch scheduling queue to which this task was submitted is full", "UNAVAILABLE"
            )
        parts = [task]
        if splits and task.size > open_slots:
            starts = [0, *range(open_slots or largest, task.size, largest)]
            parts = [
                _Task({name: array[start:end] for name, array in task.inputs.items()}, end - start)
                for start, end in zip(starts, [*starts[1:], task.size], strict=True)
            ]
        for part in parts:
            if self._batches[-1].size + part.size > largest:
                self._batches.append(_Batch())
            if not self._batches[-1].tasks:
                self._batches[-1].start = time.monotonic()
            self._batches[-1].tasks.append(part)
        return parts

    def due(self) -> _Batch | None:
        """Take a batch that is full, or whose first request has waited long enough, but none of 0 rows."""
        batch, parameters = self._batches[0], self._parameters
        is_old = time.monotonic() >= batch.start + parameters.batch_timeout_micros / 1e6
        if len(self._batches) == 1 and not (
            batch.size and (is_old or batch.size >= parameters.largest_execution)
        ):
            return None
        if len(self._batches) == 1:
            self._batches.append(_Batch())
        return self._batches.pop(0)

    def process(self, batch: _Batch) -> None:
        """Run a batch, and give each request its rows or the error."""
        try:
            results = self._results(batch)
        except (ServerError, ValueError, TypeError) as error:  # all requests of a batch share it
            for task in batch.tasks:
                task.result.set_exception(error)
            return
        for task, result in zip(batch.tasks, results, strict=True):
            task.result.set_result(result)

    def _results(self, batch: _Batch) -> list[Arrays]:
        size = self._parameters.padded(batch.size)
        names = batch.tasks[0].inputs
        outputs = self._run({name: self._merged(name, batch, size - batch.size) for name in names})
        if any(np.ndim(array) == 0 for array in outputs.values()):
            raise ServerError("Batched output tensor has 0 dimensions", "FAILED_PRECONDITION")
        if any(len(array) != size for array in outputs.values()):
            raise ServerError(
                "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of "
                "the input tensors",
                "FAILED_PRECONDITION",
            )
        ends = np.cumsum([task.size for task in batch.tasks])
        return [
            {name: array[end - task.size : end] for name, array in outputs.items()}
            for task, end in zip(batch.tasks, ends, strict=True)
        ]

    def _merged(self, name: str, batch: _Batch, padding: int) -> np.ndarray:
        """Join an input of all requests, and fill up with the first row of the last one."""
        arrays = [task.inputs[name] for task in batch.tasks]
        if self._parameters.pad_variable_length_inputs:
            arrays = _padded(arrays)
        elif len({array.shape[1:] for array in arrays}) > 1:
            raise ServerError(
                f"Tensors with name '{name}' from different tasks have different shapes and padding is "
                "turned off. Set pad_variable_length_inputs to true, or ensure that all tensors with the "
                "same name have equal dimensions starting with the first dim.",
                "FAILED_PRECONDITION",
            )
        if padding and not len(arrays[-1]):
            raise ServerError("Check failed: limit <= dim0_size (1 vs. 0)", "INTERNAL")
        return np.concatenate([*arrays, *[arrays[-1][:1]] * padding])


def _num_rows(inputs: Mapping[str, np.ndarray]) -> int:
    """Return the number of rows, which all inputs must have."""
    if any(np.ndim(array) == 0 for array in inputs.values()):
        raise ServerError("Batching Run() input tensors must have at least one dimension")
    sizes = {len(array) for array in inputs.values()}
    if len(sizes) > 1:
        raise ServerError("Batching Run() input tensors must have equal 0th-dimension size")
    return sizes.pop()


def _padded(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Give arrays the largest sizes, filled up with the first value of each: not with one for padding."""
    shape = np.max([array.shape[1:] for array in arrays], axis=0, initial=0)
    padded = []
    for array in arrays:
        full = np.full((len(array), *shape), array.flat[0], array.dtype)
        full[tuple(slice(size) for size in array.shape)] = array
        padded.append(full)
    return padded


def _concatenated(results: Sequence[Arrays]) -> Arrays:
    """Join the outputs to the parts of a request as the server copies them, whatever their widths."""
    joined = {}
    for name in results[0]:
        parts = [result[name] for result in results]
        whole = np.zeros((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
        values = np.concatenate([part.ravel() for part in parts])
        if values.size > whole.size:
            raise ServerError(f"Check failed: {values.size} items into {whole.size} of {name}", "INTERNAL")
        if whole.dtype == object:
            whole.fill(b"")
        whole.flat[: values.size] = values
        joined[name] = whole
    return joined
