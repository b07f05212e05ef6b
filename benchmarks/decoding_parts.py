"""What `decoding.py` asks of its workers, part by part."""

import sys
from collections.abc import Sequence
from pathlib import Path

from decoding_cells import Cell
from decoding_processes import Reply, Worker, workers

WARMUP_REQUESTS = 2
Rates = dict[str, dict[str, list[float]]]
"""Tokens a second of each round, by cell and system."""


def take_turns(
    started: list[Worker], cells: Sequence[Cell], rounds: int
) -> dict[str, dict[str, list[Reply]]]:
    """Ask every worker every cell, once in each round, after a warm-up.

    Args:
        started: the workers.
        cells: what is asked.
        rounds: how often.

    Returns:
        the replies of the rounds by cell and system; none where a system cannot.
    """
    replies: dict[str, dict[str, list[Reply]]] = {
        cell.name: {worker.system: [] for worker in started} for cell in cells
    }
    able = []
    for cell in cells:
        for worker in started:
            warm = [worker.ask(cell, seed) for seed in range(WARMUP_REQUESTS)]
            able += [] if "error" in warm[-1] else [(cell, worker)]
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        # In each round another system is the first.
        for cell, worker in able[number % len(able) :] + able[: number % len(able)] if able else []:
            replies[cell.name][worker.system].append(checked(worker.ask(cell, number), cell, worker.system))
    return replies


def checked(reply: Reply, cell: Cell, system: str) -> Reply:
    """Refuse an answer of another length than the wanted one: its time would compare to nothing.

    Args:
        reply: of a worker.
        cell: what was asked.
        system: who answered.

    Returns:
        the reply.

    Raises:
        RuntimeError: an error, or another number of tokens from random weights.
    """
    wanted = cell.batch * cell.length
    if "error" in reply or (cell.shape != "trained" and reply["tokens"] != wanted):
        raise RuntimeError(f"{system} must answer {cell.name} with {wanted} tokens. Received: {reply}.")
    return reply


def rates(replies: dict[str, list[Reply]]) -> dict[str, list[float]]:
    """Turn the replies of a cell into tokens a second.

    Args:
        replies: of each system, round by round.

    Returns:
        tokens a second; a system that sees only strings gets the tokens of another one.
    """
    tokens = [
        max((answers[number]["tokens"] for answers in replies.values() if answers), default=0)
        for number in range(max(map(len, replies.values()), default=0))
    ]
    return {
        system: [(reply["tokens"] or tokens[n]) / reply["seconds"] for n, reply in enumerate(answers)]
        for system, answers in replies.items()
    }


def grid(systems: Sequence[str], directory: Path, cells: Sequence[Cell], rounds: int) -> dict:
    """Measure the cells of a shape, and the peak memory of each system over all of them.

    Args:
        systems: their names.
        directory: what was prepared.
        cells: of one shape.
        rounds: how often.

    Returns:
        `rates` by cell and system, and `peak`, megabytes by system: with its libraries, after loading
        (`loaded`) and after all cells.
    """
    with workers(systems, directory, cells[0].shape) as started:
        loaded = {worker.system: worker.started.get("peak", 0.0) for worker in started}
        replies = take_turns(started, cells, rounds)
    peak = {
        system: max((reply["peak"] for answers in replies.values() for reply in answers[system]), default=0.0)
        for system in systems
    }
    return {
        "rates": {name: rates(answers) for name, answers in replies.items()},
        "peak": peak,
        "loaded": loaded,
    }


def lengths(systems: Sequence[str], directory: Path, shape: str, tokens: Sequence[int], rounds: int) -> dict:
    """Measure one sentence, greedily, at several lengths.

    Args:
        systems: their names.
        directory: what was prepared.
        shape: of the model.
        tokens: how many are generated.
        rounds: how often.

    Returns:
        tokens a second by length and system.
    """
    cells = [Cell(shape, 1, "greedy", length) for length in tokens]
    with workers(systems, directory, shape) as started:
        replies = take_turns(started, cells, rounds)
    return {str(cell.length): rates(replies[cell.name]) for cell in cells}


def latencies(systems: Sequence[str], directory: Path, cell: Cell, requests: int) -> dict:
    """Time single sentences, each another one.

    Args:
        systems: their names.
        directory: what was prepared.
        cell: of batch 1.
        requests: how many.

    Returns:
        seconds by system.
    """
    with workers(systems, directory, cell.shape) as started:
        # Sentences of another length are other shapes, which engines may compile for.
        able = [
            worker
            for worker in started
            if not any("error" in worker.ask(cell, number, single=True) for number in range(20))
        ]
        times: dict[str, list[float]] = {system: [] for system in systems}
        for number in range(requests):
            for worker in able:
                times[worker.system].append(worker.ask(cell, 100 + number, single=True)["seconds"])
    return times


def first_requests(systems: Sequence[str], directory: Path, cell: Cell, starts: int) -> dict:
    """Time the first request of a fresh process, and the one after it, which a warm-up has prepared.

    Args:
        systems: their names.
        directory: what was prepared.
        cell: of batch 1.
        starts: processes for each system.

    Returns:
        `load`, `cold` and `warm` seconds by system.
    """
    times: dict = {system: {"load": [], "cold": [], "warm": []} for system in systems}
    for number in range(starts):
        for system in systems:
            with workers([system], directory, cell.shape) as [worker]:
                replies = [worker.ask(cell, seed, single=True) for seed in (number, 100 + number)]
            if "load" in worker.started and not any("error" in reply for reply in replies):
                for name, value in zip(("cold", "warm"), replies, strict=True):
                    times[system][name].append(value["seconds"])
                times[system]["load"].append(worker.started["load"])
    return times
