"""Detection of model directories from other programs, with a hint how to convert them."""

from pathlib import Path

_KERAS_HUB = "a preset of KerasHub: load it with `keras_hub.models`, or import the model of transformers"
# The first entry whose files all exist identifies the program.
_KINDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("adapter_config.json",),
        "an adapter of PEFT without its model: merge them, `model.merge_and_unload()`, and save the result",
    ),
    (("translator.json",), "a model of this package already: read it with `Translator.load`"),
    (("saved_model.pb",), "a SavedModel, which cannot be trained or converted: it is served as it is"),
    (("*.weights.h5",), _KERAS_HUB),
    (("metadata.json", "task.json"), _KERAS_HUB),
    (
        ("*_vocabulary.*",),
        "a model of CTranslate2, whose weights are made for its engine: import the model that it came from",
    ),
    (
        ("dict.*.txt",),
        "a model of fairseq: convert it with the scripts `convert_*_original_*checkpoint*` of transformers",
    ),
    (
        ("*.npz", "*.yml"),
        "a model of Marian: convert it with `transformers.models.marian.convert_marian_to_pytorch`",
    ),
    (
        ("checkpoint", "*.index"),
        "a checkpoint of TensorFlow, as OpenNMT-tf writes it, for which there is no reader",
    ),
    (("*.pt",), "a checkpoint of torch, as OpenNMT-py and fairseq write it, for which there is no reader"),
)


def _foreign_kind(directory: Path) -> str | None:
    """Return a message about a directory from another program; None for `transformers`."""
    # A `transformers` model may contain files of other programs, too.
    if any(any(directory.glob(name)) for name in ("model*.safetensors", "pytorch_model*.bin")):
        return None
    for patterns, kind in _KINDS:
        if all(any(directory.glob(pattern)) for pattern in patterns):
            return f"{directory} is {kind}. Received: {', '.join(patterns)}."
    return None
