"""Measures how far one has to walk through the package to follow a concept.

python benchmarks/paths.py

The lines of the table are measured while the package works, on models small enough to train in seconds, by
the files of the package in which calls are made. A *return* is a call in a file that a walk has left before.
"""

import ast
import contextlib
import dataclasses
import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from click.testing import CliRunner

import keras_transformer as kt

PACKAGE = Path(kt.__file__).parent
# The program stands next to the package; an earlier commit has it inside.
HAS_PROGRAM = (PACKAGE.parent / "keras_transformer_cli.py").exists()
main = importlib.import_module("keras_transformer_cli" if HAS_PROGRAM else "keras_transformer.cli").main
SMALL = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8}
TRAIN = """train --pairs pairs.tsv --kind character --hidden-dim 8 --num-heads 2 --intermediate-dim 8
--num-encoder-layers 1 --num-decoder-layers 1 --epochs 1 --beam-size 2 --max-target-length 12 --separate"""


@contextlib.contextmanager
def profiled(note: Callable[[Any], None]) -> Iterator[None]:
    """Hand over the frame of each call of a function of the package."""

    def profile(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            note(frame)

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def file_of(frame: Any) -> str:
    """Return the file that a call is made in."""
    return str(frame.f_code.co_filename)


def arguments(frame: Any) -> list[Any]:
    """Return what a call was given, other than the object that a method belongs to."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [frame.f_locals[name] for name in names if name in frame.f_locals and name != "self"]


@contextlib.contextmanager
def walked(is_met: Callable[[Any], bool]) -> Iterator[list[str]]:
    """Collect the file of each call of which an argument meets a condition, repetitions left out."""
    files: list[str] = []

    def note(frame: Any) -> None:
        if files[-1:] != [file_of(frame)] and any(map(is_met, arguments(frame))):
            files.append(file_of(frame))

    with profiled(note):
        yield files


def returns(files: list[str]) -> int:
    """Count how often a walk comes back to a file."""
    return len(files) - len(set(files))


def through_translate() -> int:
    """Count the files of the calls between `Translator.translate` and the first step of the search."""
    tokenizer = kt.text.CharacterTokenizer.train(["ab"])
    model = kt.Transformer(tokenizer.vocabulary_size, tokenizer.vocabulary_size, **SMALL)
    translator = kt.Translator(model, tokenizer, tokenizer)
    chains: list[set[str]] = []

    def note(frame: Any) -> None:
        if frame.f_code.co_name == "advance":
            chain = set()
            while frame is not None:
                chain.add(file_of(frame))
                frame = frame.f_back
            chains.append({file for file in chain if file.startswith(str(PACKAGE))})

    with profiled(note):
        translator.translate(["ab"])
    return len(chains[0])


def through_step() -> int:
    """Count the files of one step of decoding."""
    model = kt.Transformer(7, 7, **SMALL)
    sources, ids = np.ones((1, 3), "int32"), np.full(1, 2, "int32")
    if hasattr(model, "start_decoding"):
        step, cache = model.start_decoding(sources, 5)
    else:
        step, cache = model.decode_step, model.create_cache(sources, 5)
    files: set[str] = set()
    with profiled(lambda frame: files.add(file_of(frame))):
        step(ids, 0, cache)
    return len(files)


def to_read_attention() -> int:
    """Count the files that `MultiHeadAttention` imports, and those that these import."""
    found: set[Path] = set()
    waiting = [PACKAGE / "layers" / "multi_head_attention.py"]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(PACKAGE.name):
                waiting += _files_of(node)
    return len([path for path in found if path.name != "__init__.py"])


def _files_of(node: ast.ImportFrom) -> list[Path]:
    """Find where the names of an import stand; a room hands them on."""
    path = PACKAGE.parent / str(node.module).replace(".", "/")
    if not path.is_dir():
        return [path.with_suffix(".py")]
    names = {alias.name for alias in node.names}
    room = ast.parse((path / "__init__.py").read_text(encoding="utf-8"))
    return [
        file
        for inner in room.body
        if isinstance(inner, ast.ImportFrom) and names & {alias.name for alias in inner.names}
        for file in _files_of(inner)
    ]


def naming(option: str) -> int:
    """Count the files that name an option."""
    return sum(option in path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))


def config_through_train() -> int:
    """Count the returns of the configuration, or a section of it, through `keras-transformer train`."""
    room = getattr(kt, "runs" if hasattr(kt, "runs") else "config").RunConfig.__module__.rsplit(".", 1)[0]
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        Path("pairs.tsv").write_text("".join(f"w{n}ab\tW{n}AB\n" for n in range(40)), encoding="utf-8")
        with walked(lambda value: is_config(value, room)) as files:
            result = CliRunner().invoke(main, TRAIN.split())
    if result.exit_code:
        raise SystemExit(result.output)
    return returns(files)


def is_config(value: Any, room: str) -> bool:
    """Return whether an object is the configuration of a run or one of its sections."""
    kind = value if isinstance(value, type) else type(value)
    # Sections were dataclasses whose names end with `Config`; now they are models of pydantic.
    is_section = hasattr(kind, "model_fields") and kind.__name__.endswith("Section")
    is_settings = hasattr(kind, "model_fields") or dataclasses.is_dataclass(kind)
    return kind.__module__.startswith(room) and (
        is_section or (is_settings and kind.__name__.endswith("Config"))
    )


def model_through_fit() -> int:
    """Count the returns of a model through `training.fit`."""
    model = kt.Transformer(7, 7, **SMALL)
    model.compile(kt.training.Adam(1e-3), kt.training.MaskedCrossentropy())
    ids = np.ones((4, 3), "int32")
    inputs = {"encoder_token_ids": ids, "decoder_token_ids": ids}
    data = tf.data.Dataset.from_tensor_slices((inputs, ids)).batch(2)
    with tempfile.TemporaryDirectory() as directory, walked(lambda value: value is model) as files:
        kt.training.fit(model, data, epochs=1, directory=directory, verbose=0)
    return returns(files)


if __name__ == "__main__":
    print("| measure | |\n|---|---:|")
    print(f"| files from `Translator.translate` to the first step of the search | {through_translate()} |")
    print(f"| files of one step of decoding | {through_step()} |")
    print(f"| files to read `MultiHeadAttention` | {to_read_attention()} |")
    print(f"| files that name `num_key_value_heads` | {naming('num_key_value_heads')} |")
    print(f"| returns of the configuration through `keras-transformer train` | {config_through_train()} |")
    print(f"| returns of a model through `training.fit` | {model_through_fit()} |")
