"""Whether a run that goes on has the pairs that it began with."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.cli.run_data import RunPairs
from keras_transformer.data import Pair
from keras_transformer.errors import InputError
from keras_transformer.files import write_file

PAIRS_FILE = "pairs.json"


def note_pairs(pairs: RunPairs, directory: Path) -> None:
    """Write down which pairs a run has, or compare them with those that it began with.

    With others, held-out pairs may be among those that were trained on, the place in the data is lost, and
    losses of epochs cannot be compared.

    Args:
        pairs: of the run.
        directory: of the run.

    Raises:
        InputError: the run began with other pairs.
    """
    path = directory / PAIRS_FILE
    received = {"train": _fingerprint(pairs.train), "validation": _fingerprint(pairs.validation)}
    if not path.exists():
        write_file(path, (json.dumps(received, indent=2) + "\n").encode())
        return
    wanted = _read(path)
    changed = [name for name in received if received[name] != wanted.get(name)]
    if changed:
        raise InputError(
            "A run that goes on must have the pairs that it began with. Received: other "
            f"{' and '.join(changed)} pairs than those of {path}. Train on others under another --name, with "
            "--initial-model."
        )


def _read(path: Path) -> dict[str, str]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{path} is damaged: {error}. Remove it if the pairs are the same as before."
        ) from error


def _fingerprint(pairs: Sequence[Pair]) -> str:
    """Compute the SHA-256 of the texts, in their order."""
    digest = hashlib.sha256()
    for pair in pairs:
        digest.update(json.dumps(pair).encode() + b"\n")
    return digest.hexdigest()
