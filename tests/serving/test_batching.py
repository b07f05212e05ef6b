"""The double's batching: the rules of the server's own code, each with the words that it refuses with."""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from model_server_double.batching import Batcher, BatchingParameters, Queue
from model_server_double.errors import ServerError

SPLITTING = {
    "max_batch_size": 1024,
    "enable_large_batch_splitting": True,
    "max_execution_batch_size": 32,
    "batch_timeout_micros": 1000,
    "max_enqueued_batches": 100,
}


class Recorded:
    """A graph that gives its inputs back, and remembers the sizes of the batches that reached it."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def __call__(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.batches.append([text.decode() for text in inputs["text"]])
        return {"output": inputs["text"]}


def texts(*values: str) -> dict[str, np.ndarray]:
    return {"text": np.array([value.encode() for value in values], object)}


def queue_of(run: Callable[..., Any], **parameters: Any) -> Queue:
    return Batcher(BatchingParameters(**parameters)).queue(run)


def answered(queue: Queue, inputs: dict[str, np.ndarray]) -> list[str]:
    return [output.decode() for output in queue.ask(inputs)["output"]]


def test_requests_of_the_same_time_are_one_batch_filled_up_with_the_first_row_of_the_last() -> None:
    run = Recorded()
    queue = queue_of(
        run,
        max_batch_size=8,
        batch_timeout_micros=200_000,
        allowed_batch_sizes=(1, 4, 8),
        num_batch_threads=1,
    )
    received: dict[str, list[str]] = {}

    def ask(name: str, *values: str) -> None:
        received[name] = answered(queue, texts(*values))

    threads = [threading.Thread(target=ask, args=("first", "a"))]
    threads += [threading.Thread(target=ask, args=("second", "b", "c", "d", "e"))]
    for thread in threads:
        thread.start()
        time.sleep(0.02)
    for thread in threads:
        thread.join(timeout=10)
    assert received == {"first": ["a"], "second": ["b", "c", "d", "e"]}
    assert run.batches == [["a", "b", "c", "d", "e", "b", "b", "b"]]


def test_a_request_of_more_rows_than_a_batch_is_refused() -> None:
    queue = queue_of(Recorded(), max_batch_size=32)
    with pytest.raises(ServerError, match="Task size 33 is larger than maximum input batch size 32"):
        queue.ask(texts(*"a" * 33))


def test_a_large_request_is_split() -> None:
    run = Recorded()
    names = [str(number) for number in range(100)]
    assert answered(queue_of(run, **SPLITTING, num_batch_threads=1), texts(*names)) == names
    assert [len(batch) for batch in run.batches] == [32, 32, 32, 4]
    with pytest.raises(ServerError, match="Task size 1025 is larger than maximum input batch size 1024"):
        queue_of(run, **SPLITTING).ask(texts(*"a" * 1025))


def test_the_parts_of_a_request_are_joined_without_a_look_at_their_widths() -> None:
    def widths(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        width = max(len(text) for text in inputs["text"])
        return {"output": np.full((len(inputs["text"]), width), width)}

    queue = queue_of(widths, **SPLITTING | {"max_execution_batch_size": 2})
    assert queue.ask(texts("abc", "a", "a"))["output"].tolist() == [[3, 3, 3], [3, 3, 3], [1, 0, 0]]
    with pytest.raises(ServerError, match=r"Check failed: 5 items into 3 of output") as caught:
        queue.ask(texts("a", "a", "abc"))
    assert caught.value.http_status == 500


def test_a_request_of_no_rows_waits_for_another() -> None:
    queue = queue_of(Recorded(), max_batch_size=8, allowed_batch_sizes=(1, 8))
    received: list[list[str]] = []
    waiting = threading.Thread(target=lambda: received.append(answered(queue, texts())))
    waiting.start()
    waiting.join(timeout=0.3)
    assert waiting.is_alive()
    assert answered(queue, texts("a")) == ["a"]
    waiting.join(timeout=10)
    assert received == [[]]


def test_all_inputs_must_have_as_many_rows() -> None:
    queue = queue_of(Recorded())
    with pytest.raises(
        ServerError, match="Batching Run\\(\\) input tensors must have equal 0th-dimension size"
    ):
        queue.ask({**texts("a", "b"), "limit": np.array([1])})
    with pytest.raises(ServerError, match="must have at least one dimension"):
        queue.ask({"limit": np.array(1)})


def test_arrays_of_other_sizes_are_joined_only_with_padding_that_is_their_first_value() -> None:
    inputs = np.array([[1.0, 2.0]]), np.array([[3.0]])
    seen: list[list[list[float]]] = []

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        seen.append(inputs["features"].tolist())
        return inputs

    for pads in (True, False):
        queue = queue_of(run, max_batch_size=2, batch_timeout_micros=10**7, pad_variable_length_inputs=pads)
        errors: list[str] = []

        def ask(array: np.ndarray, queue: Queue = queue, errors: list[str] = errors) -> None:
            try:
                queue.ask({"features": array})
            except ServerError as error:
                errors.append(error.code)

        threads = [threading.Thread(target=ask, args=(array,)) for array in inputs]
        for thread in threads:
            thread.start()
            time.sleep(0.02)
        for thread in threads:
            thread.join(timeout=10)
        assert errors == [] if pads else ["FAILED_PRECONDITION"] * 2
    assert seen == [[[1.0, 2.0], [3.0, 3.0]]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "max_batch_size { value: 8 } allowed_batch_sizes: 4",
            "must match max_batch_size; last entry was 4; expected 8",
        ),
        (
            "max_batch_size { value: 8 } allowed_batch_sizes: 4 enable_large_batch_splitting { value: true }",
            "must match max_batch_size; last entry was 4; expected 8",
        ),
        (
            "max_execution_batch_size { value: 1001 } enable_large_batch_splitting { value: true }",
            "input_batch_size_limit must be greater than or equal",
        ),
        ("num_batch_threads { value: 0 }", "num_batch_threads must be positive; was 0"),
    ],
)
def test_parameters_with_which_the_server_does_not_start(text: str, message: str) -> None:
    with pytest.raises(ServerError, match=message):
        BatchingParameters.parse(text)


def test_a_default_of_one_row_stands_beside_two_texts(batching_registry: Any) -> None:
    _, served = batching_registry.find("toy")
    assert len(served.predict("search", texts("a"))["output"]) == 1
    with pytest.raises(ServerError, match="equal 0th-dimension size"):
        served.predict("search", texts("a", "b"))
