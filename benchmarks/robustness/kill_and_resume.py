"""Kills training runs with SIGKILL, resumes them, and compares them with an uninterrupted run.

python -m benchmarks.robustness.kill_and_resume
python -m benchmarks.robustness.kill_and_resume --kills 30 --epochs 5 --seed 0 --all-options

For Linux and macOS. A small model with dropout trains once in deterministic mode without interruption. Then
further runs are killed and resumed until they end. Every other kill comes while a checkpoint is being
written, the others at a random moment. Some kills also damage one byte of the newest checkpoint. A line for
each kill lists the files that it left. A line for each run says whether weights, optimizer, random state and
history are bit for bit identical; if not, the exit status is 1. All processes are forked from this one, after
its imports. `--all-options` adds every option of the recipe that has a state or draws random numbers.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py

import keras_transformer as kt
from keras_transformer.runs import RunConfig
from keras_transformer.training import Checkpoint

SECONDS_BETWEEN_LOOKS = 0.0005

OPTIONS: dict[str, Any] = {
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "hidden_dim": 16,
    "num_heads": 2,
    "intermediate_dim": 32,
    "dropout": 0.1,
    "tokens_per_batch": 256,
    "warmup_steps": 50,
    "deterministic": True,
}
PLAIN = {"kind": "character", "shared": False}
ALL_OPTIONS: dict[str, Any] = {
    "kind": "subword",
    "size": 60,
    "subword_dropout": 0.3,
    "r_drop": 1.0,
    "clip_norm": 1.0,
    "gradient_accumulation_steps": 2,
    "ema_momentum": 0.9,
    "average_last": 3,
}


def make_run(directory: Path, epochs: int, *, all_options: bool = False) -> RunConfig:
    """Write pairs, and return the configuration of a run on them."""
    draw = random.Random(0)
    sources = ["".join(draw.choices("abcdefgh", k=draw.randint(3, 12))) for _ in range(400)]
    pairs = directory / "pairs.tsv"
    pairs.write_text("".join(f"{source}\t{source.upper()}\n" for source in sources), encoding="utf-8")
    options = {**OPTIONS, **(ALL_OPTIONS if all_options else PLAIN)}
    return RunConfig.default(pairs=str(pairs), epochs=epochs, **options)


def train(run: RunConfig, directory: Path) -> None:
    """Train as `keras-transformer train` does, with `--resume` if the run has begun."""
    place = {"run_directory": str(directory.parent), "name": directory.name}
    begun = (directory / "config.json").exists()
    kt.Run(run.override(**place)).train(resume=begun, overwrite=not begun, verbose=0)


def start(run: RunConfig, directory: Path) -> int:
    """Fork a process that trains; return its id. Its output goes to a `.txt` next to the run."""
    if process := os.fork():
        return process
    output = os.open(directory.with_suffix(".txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    status = 1
    try:
        train(run, directory)
        status = 0
    finally:
        # The forked process must not continue with the code of the caller.
        if status:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)


def has_ended(process: int) -> bool:
    """Return whether a process has ended; raise RuntimeError if it failed."""
    ended, status = os.waitpid(process, os.WNOHANG)
    if ended and status:
        raise RuntimeError(f"the run failed with status {os.waitstatus_to_exitcode(status)}; see its output")
    return bool(ended)


def kill(
    process: int, checkpoints: Path, draw: random.Random, *, seconds: float, writing: bool
) -> str | None:
    """Kill a process at a random moment; return the files it left, None if it ended before."""
    latest = time.monotonic() + (1000 * seconds if writing else draw.uniform(0, seconds))
    epochs_to_skip = draw.choice((0, 0, 1, 1, 2))
    # Files that an earlier kill left are not being written.
    stale = set(partial_files(checkpoints).items())
    seen: set[str] = set()
    while time.monotonic() < latest:
        if has_ended(process):
            return None
        seen |= {name for name, _ in partial_files(checkpoints).items() - stale}
        if writing and len(seen) > epochs_to_skip:
            # From the first byte until the state is written and older files are removed.
            time.sleep(draw.uniform(0, 0.2))
            break
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if not os.WIFSIGNALED(status):
        return None
    left = [*partial_files(checkpoints), *(path.name for path in checkpoints.glob(".partial-*.json"))]
    epoch = max(saved_epochs(checkpoints), default=0)
    newest = max((path.name for path in checkpoints.glob("epoch-*.keras")), default="")
    unknown = "; newest file not in the state yet" if newest > epoch_file(epoch) else ""
    return f"epochs saved: {epoch}; half-written: {', '.join(left) or '-'}{unknown}"


def epoch_file(epoch: int) -> str:
    """Return the file name of a checkpoint."""
    return f"epoch-{epoch:04d}.keras"


def saved_epochs(checkpoints: Path) -> list[int]:
    """List the epochs in the state of a run, the newest last."""
    path = checkpoints / "state.json"
    return [saved["epoch"] for saved in json.loads(path.read_text())["saved"]] if path.exists() else []


def partial_files(checkpoints: Path) -> dict[str, int]:
    """List checkpoints that are or were being written, and when each changed last."""
    found = {}
    for path in checkpoints.glob(".partial-*.keras"):
        # It may get its name meanwhile.
        with contextlib.suppress(FileNotFoundError):
            found[path.name] = path.stat().st_mtime_ns
    return found


def damage(checkpoints: Path, draw: random.Random) -> str:
    """Change one byte of the newest checkpoint, if there is one before it."""
    # Among complete checkpoints; one that was damaged before is newer.
    newest = Checkpoint(checkpoints.parent).epoch
    if sum(epoch <= newest for epoch in saved_epochs(checkpoints)) < 2:
        return ""
    path = checkpoints / epoch_file(newest)
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1
    path.write_bytes(content)
    return f"; one bit of {path.name} flipped"


def fingerprint(checkpoints: Path) -> dict[str, str]:
    """Return SHA-256 digests of weights, optimizer, random state and history, read without Keras."""
    state = json.loads((checkpoints / "state.json").read_text())
    digests = {name: hashlib.sha256() for name in ("weights", "optimizer")}
    for epoch in saved_epochs(checkpoints):  # the last, the best, and those that are averaged
        with zipfile.ZipFile(checkpoints / epoch_file(epoch)) as archive:
            file = h5py.File(io.BytesIO(archive.read("model.weights.h5")))
        for name, values in datasets(file):
            digests["optimizer" if name.startswith("optimizer/") else "weights"].update(
                name.encode() + values
            )
    state["history"].pop("tokens_per_second", None)  # depends on the machine
    values = {
        "random_state": [saved["seeds"] for saved in state["saved"]],
        "history": state["history"],
        "saved": saved_epochs(checkpoints),
    }
    texts = {name: json.dumps(value).encode() for name, value in values.items()}
    return {name: digest.hexdigest() for name, digest in digests.items()} | {
        name: hashlib.sha256(text).hexdigest() for name, text in texts.items()
    }


def datasets(file: h5py.File) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of each array of a file, in the order of their names."""
    names: list[str] = []
    file.visit(names.append)
    for name in sorted(names):
        if isinstance(file[name], h5py.Dataset):
            yield name, file[name][()].tobytes()


def killed_run(run: RunConfig, directory: Path, draw: random.Random, *, seconds: float, kills: int) -> int:
    """Train with kills until the run ends; return the number of all kills so far."""
    checkpoints = directory / "checkpoints"
    while True:
        process = start(run, directory)
        left = kill(process, checkpoints, draw, seconds=seconds, writing=kills % 2 == 0)
        if left is None:
            return kills
        kills += 1
        damaged = damage(checkpoints, draw) if draw.random() < 0.15 else ""
        print(f"kill {kills} of {directory.name}: {left}{damaged}", flush=True)


def main() -> int:
    """Compare, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=30, help="minimum number of kills")
    parser.add_argument("--epochs", type=int, default=5, help="epochs of each run")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    parser.add_argument(
        "--all-options", action="store_true", help="subword dropout, R-Drop, averages, and more"
    )
    options = parser.parse_args()
    draw, kills, runs, equal = random.Random(options.seed), 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        run = make_run(directory, options.epochs, all_options=options.all_options)
        begin = time.monotonic()
        uninterrupted = start(run, directory / "uninterrupted")
        while not has_ended(uninterrupted):
            time.sleep(SECONDS_BETWEEN_LOOKS)
        seconds = time.monotonic() - begin
        wanted = fingerprint(directory / "uninterrupted" / "checkpoints")
        print(f"uninterrupted: {seconds:.1f} s, weights {wanted['weights'][:16]}", flush=True)
        while kills < options.kills:
            runs += 1
            place = directory / f"run-{runs}"
            kills = killed_run(run, place, draw, seconds=seconds, kills=kills)
            received = fingerprint(place / "checkpoints")
            different = [name for name in wanted if received[name] != wanted[name]]
            equal += not different
            verdict = f"DIFFERS in {', '.join(different)}" if different else "the same bits"
            fallbacks = place.with_suffix(".txt").read_text().count("is used instead")
            print(f"{place.name}: {verdict} ({fallbacks} times an older checkpoint was used)", flush=True)
    print(
        f"{equal} of {runs} runs, killed {kills} times in all, ended with the bits of the uninterrupted one."
    )
    return 0 if equal == runs else 1


if __name__ == "__main__":
    raise SystemExit(main())
