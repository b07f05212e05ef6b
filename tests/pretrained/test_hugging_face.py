"""Pretrained models give the logits of `transformers`; what is not whole or not known is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import array
from keras_transformer.pretrained import HuggingFaceCheckpoint
from pretrained_models import FAMILIES, save_model

pytestmark = pytest.mark.backend


def original_ids(size: int, pad: int, end: int, unknown: int = 3) -> np.ndarray:
    """Return what a tokenizer says of a vocabulary: its special tokens first, and all others in order."""
    special = [pad, unknown, -1, end]
    return np.array([*special, *(number for number in range(size) if number not in special)])


def load(directory: Path, config: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return our model, and the original ids of both vocabularies."""
    sizes = config.vocab_size, getattr(config, "decoder_vocab_size", config.vocab_size)
    ids = [original_ids(size, config.pad_token_id, config.eos_token_id) for size in sizes]
    return HuggingFaceCheckpoint(directory).load(*ids), *ids


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
    start_id = HuggingFaceCheckpoint(tmp_path).generation.decoder_start_token_id
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
