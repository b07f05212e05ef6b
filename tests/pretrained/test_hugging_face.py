"""Pretrained models give the logits of `transformers`; what is not whole or not known is refused."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer.errors import InputError
from keras_transformer.pretrained import from_hugging_face
from keras_transformer.text import CharacterTokenizer, Tokenizer
from pretrained_models import FAMILIES, save_model

pytestmark = pytest.mark.backend


def original_ids(size: int, pad: int, end: int, unknown: int = 3) -> np.ndarray:
    """Return what a tokenizer says of a vocabulary: its special tokens first, and all others in order."""
    special = [pad, unknown, -1, end]
    return np.array([*special, *(number for number in range(size) if number not in special)])


def numbered(ids: np.ndarray) -> Tokenizer:
    """Return a tokenizer whose ids are these in the checkpoint."""
    tokenizer = CharacterTokenizer([chr(0x4E00 + number) for number in range(len(ids) - 4)])
    tokenizer.original_ids = ids
    return tokenizer


def load(directory: Path, config: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return our model, and the original ids of both vocabularies."""
    sizes = config.vocab_size, getattr(config, "decoder_vocab_size", config.vocab_size)
    source, target = (original_ids(size, config.pad_token_id, config.eos_token_id) for size in sizes)
    tokenizers = {"source_tokenizer": numbered(source), "target_tokenizer": numbered(target)}
    return from_hugging_face(directory, **tokenizers).model, source, target


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    theirs = save_model(family, tmp_path)
    model, source_ids, target_ids = load(tmp_path, theirs.config)
    draw = np.random.default_rng(2)
    source, target = draw.integers(3, len(source_ids), (3, 9)), draw.integers(3, len(target_ids), (3, 7))
    for row, length in enumerate((9, 4, 6)):
        source[row, length - 1] = 3
        source[row, length:] = 0
        target[row, length:] = 0
    target[:, 0] = 2
    logits = array(model({"encoder_token_ids": source, "decoder_token_ids": target}))
    start_id = theirs.config.decoder_start_token_id
    with torch.no_grad():
        wanted = theirs(
            input_ids=torch.tensor(source_ids[source]),
            attention_mask=torch.tensor(source != 0),
            decoder_input_ids=torch.tensor(np.where(target == 2, start_id, target_ids[target])),
        ).logits.numpy()
    regular = target_ids >= 0
    is_token = target != 0
    np.testing.assert_allclose(
        logits[is_token][:, regular], wanted[is_token][:, target_ids[regular]], rtol=0, atol=1e-4
    )
    # So the probabilities are the same too: the start token has none.
    assert (logits[is_token][:, ~regular] < -900).all()


def test_an_output_kernel_of_its_own(tmp_path: Path) -> None:
    # As in the files of T5 1.1 and mT5.
    torch, safetensors = pytest.importorskip("torch"), pytest.importorskip("safetensors.torch")
    transformers = pytest.importorskip("transformers")
    theirs = save_model("t5-1.1", tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = safetensors.load_file(path)
    tensors["lm_head.weight"] = torch.randn(tensors["shared.weight"].shape)
    safetensors.save_file(tensors, path, metadata={"format": "pt"})
    model, source_ids, target_ids = load(tmp_path, theirs.config)
    assert not model.config.tie_output
    source, target = np.array([[7, 9, 4, 3]]), np.array([[2, 8, 5]])
    logits = array(model({"encoder_token_ids": source, "decoder_token_ids": target}))
    theirs = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        ids = {"input_ids": source_ids[source], "decoder_input_ids": np.array([[0, *target_ids[[8, 5]]]])}
        wanted = theirs(**{name: torch.tensor(each) for name, each in ids.items()}).logits.numpy()
    regular = target_ids >= 0
    np.testing.assert_allclose(logits[..., regular], wanted[..., target_ids[regular]], rtol=0, atol=1e-4)


def weights(model: Any) -> list[np.ndarray]:
    return [array(weight) for weight in model.weights]


@pytest.mark.slow
def test_shards_halves_and_pickles_are_read(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    theirs = save_model("marian", tmp_path / "whole")
    model, *_ = load(tmp_path / "whole", theirs.config)
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="4KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    theirs.config.save_pretrained(tmp_path / "pickle")
    torch.save(theirs.state_dict(), tmp_path / "pickle" / "pytorch_model.bin")
    for form in ("shards", "pickle"):
        again, *_ = load(tmp_path / form, theirs.config)
        for weight, wanted in zip(weights(again), weights(model), strict=True):
            np.testing.assert_array_equal(weight, wanted)
    theirs.to(torch.bfloat16).save_pretrained(tmp_path / "halves")
    again, *_ = load(tmp_path / "halves", theirs.config)
    for weight, wanted in zip(weights(again), weights(model), strict=True):
        np.testing.assert_allclose(weight, wanted, rtol=2**-7, atol=1e-6)


def test_damaged_or_other_weights_are_refused(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    config = save_model("pegasus", tmp_path).config
    path = tmp_path / "model.safetensors"
    content, tensors = path.read_bytes(), numpy.load_file(path)
    name, other = "model.decoder.layers.0.fc1.weight", "model.decoder.layers.0.fc2.weight"
    others = {
        "missing": {key: value for key, value in tensors.items() if key != name},
        "unknown": {**tensors, "model.adapter.weight": tensors[name]},
        "shape": {**tensors, name: tensors[name][:, :-1].copy()},
        "width": {**tensors, other: tensors[other][:, :-1].copy()},
        "integers": {**tensors, name: tensors[name].astype("int32")},
        "infinite": {**tensors, name: tensors[name] * np.float32("inf")},
        "positions": {**tensors, "model.encoder.embed_positions.weight": np.ones((30, 16), "float32")},
    }
    messages = {
        "missing": f"no tensor '{name}'",
        "unknown": "no others. Received: 'model.adapter.weight'",
        "shape": r"config\.json: `d_model` must be 15, as in the weights, by .*fc1\.weight'. Received: 16",
        "width": r"shape \(16, 24\), by the configuration. Received: F32 of shape \(16, 23\)",
        "integers": "Received: I32",
        "infinite": "finite weights",
        "positions": "must have sinusoids",
    }
    for form, table in others.items():
        numpy.save_file(table, path)
        with pytest.raises(InputError, match=messages[form]):
            load(tmp_path, config)
    for damaged in (content[:-100], content[:40], b"", content[:9] + b"\xff" + content[10:], b"\xff" * 100):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="damaged"):
            load(tmp_path, config)
    path.unlink()
    with pytest.raises(InputError, match="has no weights"):
        load(tmp_path, config)
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(InputError, match="more than tensors"):
        load(tmp_path, config)


def test_a_vocabulary_of_another_size_is_refused(tmp_path: Path) -> None:
    save_model("bart", tmp_path)
    for size in (40, 42):
        tokenizer = numbered(original_ids(size, 1, 2))
        with pytest.raises(InputError, match=f"41 ids. Received: {size} ids"):
            from_hugging_face(tmp_path, source_tokenizer=tokenizer, target_tokenizer=tokenizer)


# Prints by how many tables the peak exceeds the model.
PEAK = """
import sys
import numpy as np
import keras_transformer as kt
tokenizer = kt.text.CharacterTokenizer([chr(0x10000 + number) for number in range(131069)])
tokenizer.original_ids = np.r_[0, 3, -1, 1, 2, np.arange(4, 131072)]
kt.Transformer(8, 8, hidden_dim=8, num_layers=1, num_heads=1, intermediate_dim=8)  # what the backend loads

def peak():  # `ru_maxrss` would begin with that of the process that starts this one
    with open("/proc/self/status") as file:
        return 1024 * int(file.read().split("VmHWM:")[1].split()[0])

before = peak()
translator = kt.from_hugging_face(sys.argv[1], source_tokenizer=tokenizer, target_tokenizer=tokenizer)
sizes = [4 * np.prod(weight.shape) for weight in translator.model.weights]
print((peak() - before - sum(sizes)) / max(sizes))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system counts memory otherwise")
@pytest.mark.skipif(keras.backend.backend() == "jax", reason="draws the first values with three tables")
def test_the_memory_is_that_of_the_model_and_of_two_tables(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 131072, "d_model": 512, "d_kv": 8, "d_ff": 8, "num_heads": 1, "num_layers": 1}
    config = transformers.T5Config(**sizes, decoder_start_token_id=0)
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    environment = {**os.environ, "KERAS_BACKEND": keras.backend.backend()}
    command = [sys.executable, "-c", PEAK, str(tmp_path)]
    run = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    # The slice of rows that is copied, and the code that is loaded.
    assert float(run.stdout) < 2.3
