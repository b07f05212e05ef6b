"""`keras-transformer plan`."""

import functools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from keras_transformer.cli.options import check_files
from keras_transformer.cli.run_options import RunVerb, run_fields, run_options
from keras_transformer.cli.terminal import _show, loading
from keras_transformer.errors import InputError

if TYPE_CHECKING:
    import keras

_Value: TypeAlias = str | int | float | bool
_SIZE = click.IntRange(min=1)
_VOCABULARY_SIZE = 8000
_TASKS = ("translate", "generate")
# The fields that change the memory: those of the model, except for an initial model and for other tasks, and
# some others.
_NAMES = {name for name, field in run_fields().items() if field["section"] == "model"}
_NAMES -= {"initial_model", "pooling", "source_convolutions"}
_NAMES |= {"shared", "precision", "r_drop", "ema_momentum", "gradient_accumulation_steps"}


@click.command(cls=RunVerb)
@click.option(
    "--task",
    type=click.Choice(_TASKS),
    help="Task of the model: translate (encoder-decoder) or generate (decoder-only).  [translate]",
)
@click.option(
    "--model",
    type=click.Path(),
    help="Directory of a trained model of any task, such as runs/en_de. With it, only the batch size and the "
    "lengths can be set.",
)
@click.option("--config", type=click.Path(), help="TOML file of a run. Flags override its values.")
@click.option(
    "--vocabulary-size", type=_SIZE, help=f"Size of each vocabulary.  [default: {_VOCABULARY_SIZE}]"
)
@click.option(
    "--batch-size",
    type=_SIZE,
    default=64,
    show_default=True,
    help="Number of examples in a training batch (train takes --tokens-per-batch instead).",
)
@click.option(
    "--source-length",
    type=_SIZE,
    default=64,
    show_default=True,
    help="Source length in tokens or frames, with padding. Ignored for a decoder-only model.",
)
@click.option(
    "--target-length",
    type=_SIZE,
    default=64,
    show_default=True,
    help="Target length in tokens, with padding. Ignored for an encoder-only model.",
)
@functools.partial(run_options, names=_NAMES)
def plan(
    model: str | None,
    config: str | None,
    vocabulary_size: int | None,
    batch_size: int,
    source_length: int,
    target_length: int,
    **flags: _Value | None,
) -> None:
    """Estimate the memory of a training step, layer by layer.

    The table shows the megabytes of weights, gradients, optimizer state and activations. Without --model,
    no weights are allocated, so you can plan a model that is too large for this
    machine.

    \b
      keras-transformer plan --preset big --vocabulary-size 32000 --batch-size 128
      keras-transformer plan --preset base --precision mixed_bfloat16 --source-length 512
      keras-transformer plan --task generate --preset big --target-length 1024
      keras-transformer plan --model runs/en_de --batch-size 256
    """
    given = {name: value for name, value in flags.items() if value is not None}
    others = {"config": config, "vocabulary_size": vocabulary_size}
    refused = [*given, *(name for name, value in others.items() if value is not None)]
    if model is not None and refused:
        received = ", ".join(refused)
        raise InputError(f"A trained model has its sizes: give --model or others. Received: {received}.")
    check_files(config)
    with loading(*filter(None, [model])):
        from keras_transformer.models import CausalLM, EncoderModel
        from keras_transformer.tasks import ModelTask
        from keras_transformer.training import memory_plan
    planned = (
        _new_model(config, given, vocabulary_size or _VOCABULARY_SIZE)
        if model is None
        else ModelTask.load(model).model
    )
    lengths = {
        "source_length": None if isinstance(planned, CausalLM) else source_length,
        "target_length": None if isinstance(planned, EncoderModel) else target_length,
    }
    _show(str(memory_plan(planned, batch_size, **lengths)))


def _new_model(config: str | None, given: dict[str, _Value], vocabulary_size: int) -> "keras.Model":
    """Build and compile the model that a run would train, from shapes only."""
    import keras

    from keras_transformer.models import shapes_only
    from keras_transformer.runs import Run, RunConfig

    run: Any = RunConfig() if config is None else RunConfig.from_toml(config)
    kind = Run(run.override(**given)).kind
    if kind.config.task not in _TASKS:
        raise InputError(f"`task` must be one of {', '.join(_TASKS)}. Received: task={kind.config.task!r}.")
    # Stand-in for the tokenizers, which are not trained yet: all that a model needs of them.
    reader = SimpleNamespace(vocabulary_size=vocabulary_size, kind="subword", fingerprint=lambda: "")
    readers = (reader,) * len(kind.task_class.tokenizer_names)
    with shapes_only():
        model = kind.new_model(readers, keras.DTypePolicy(kind.config.training.precision))
    kind.compile_model(model, 1e-3)
    return model
