"""Whisper: the logits, the features, the tokens and the texts of `transformers`."""

from pathlib import Path

import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.errors import InputError
from keras_transformer.pretrained import HuggingFaceCheckpoint
from pretrained_models import save_whisper

pytestmark = pytest.mark.backend


def test_logits_are_those_of_transformers(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    theirs, _ = save_whisper(tmp_path)
    end, size = theirs.config.eos_token_id, theirs.config.vocab_size
    # Padding, unknown and start are no tokens there.
    target_ids = np.array([-1, -1, -1, end, *(number for number in range(size) if number != end)])
    checkpoint = HuggingFaceCheckpoint(tmp_path)
    model = checkpoint.load(None, target_ids)
    assert (checkpoint.max_length, model.max_length) == (24, 24)
    frames, target = draw(3, 100, 10), np.random.default_rng(1).integers(3, size + 3, (3, 7))
    target[:, 0] = 2
    logits = array(model({"encoder_features": frames, "decoder_token_ids": target}))
    ids = np.where(target == 2, theirs.config.decoder_start_token_id, target_ids[target])
    with torch.no_grad():
        features = torch.tensor(frames.transpose(0, 2, 1))
        wanted = theirs(input_features=features, decoder_input_ids=torch.tensor(ids)).logits.numpy()
    np.testing.assert_allclose(logits[..., 3:], wanted[..., target_ids[3:]], rtol=0, atol=1e-4)
    assert (logits[..., :3] < -900).all()


def test_other_options_are_refused(tmp_path: Path) -> None:
    save_whisper(tmp_path, return_timestamps=True)
    with pytest.raises(InputError, match="`return_timestamps` must be False or None, since no search here"):
        HuggingFaceCheckpoint(tmp_path)
