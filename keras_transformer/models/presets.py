"""Model sizes that are known by name."""

from typing import Any

_PRESETS: dict[str, dict[str, Any]] = {
    # Wu et al., "Good for Misconceived Reasons", ACL 2021: Transformer-Tiny.
    "tiny": {
        "num_layers": 4,
        "hidden_dim": 128,
        "num_heads": 4,
        "intermediate_dim": 256,
        "dropout": 0.3,
    },
    "small": {
        "num_layers": 3,
        "hidden_dim": 256,
        "num_heads": 8,
        "intermediate_dim": 1024,
        "dropout": 0.1,
    },
    # "Attention Is All You Need", Table 3.
    "base": {
        "num_layers": 6,
        "hidden_dim": 512,
        "num_heads": 8,
        "intermediate_dim": 2048,
        "dropout": 0.1,
    },
    "big": {
        "num_layers": 6,
        "hidden_dim": 1024,
        "num_heads": 16,
        "intermediate_dim": 4096,
        "dropout": 0.3,
    },
}


def preset(name: str) -> dict[str, Any]:
    """Look up the constructor arguments of a preset.

    Args:
        name: `tiny`, `small`, `base` or `big`.

    Returns:
        A new dict of arguments for `Transformer`.

    Raises:
        ValueError: an unknown name.
    """
    if name not in _PRESETS:
        raise ValueError(f"`preset` must be one of {', '.join(_PRESETS)}. Received: preset={name!r}.")
    return dict(_PRESETS[name])
