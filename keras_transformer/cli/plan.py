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
_TASKS = ("translate", "generate")
# The fields that decide on the bytes: those of the model, but for what only other tasks have, and some more.
_NAMES = {name for name, field in run_fields().items() if field["section"] == "model"}
_NAMES -= {"initial_model", "pooling"}
_NAMES |= {"task", "shared", "precision", "r_drop", "ema_momentum", "gradient_accumulation_steps"}


@click.command(cls=RunVerb)
@click.option("--model", type=click.Path(), help="Directory that train wrote, in place of all sizes.")
@click.option("--config", type=click.Path(), help="TOML file of train; flags win over it.")
@click.option("--vocabulary-size", type=_SIZE, default=8000, show_default=True, help="Tokens of a side.")
@click.option("--batch-size", type=_SIZE, default=64, show_default=True, help="Rows of a batch.")
@click.option("--source-length", type=_SIZE, default=64, show_default=True, help="Tokens of a source.")
@click.option("--target-length", type=_SIZE, default=64, show_default=True, help="Tokens of a target.")
@functools.partial(run_options, names=_NAMES)
def plan(
    model: str | None,
    config: str | None,
    vocabulary_size: int,
    batch_size: int,
    source_length: int,
    target_length: int,
    **flags: _Value | None,
) -> None:
    """Print the memory of a training step: weights, gradients, optimizer and activations by layer.

    Nothing is computed and no weight is made, so a model may be larger than this machine.

    \b
      keras-transformer plan --preset big --vocabulary-size 32000 --batch-size 128
      keras-transformer plan --preset base --precision mixed_bfloat16 --source-length 512
      keras-transformer plan --task generate --preset big --target-length 1024
      keras-transformer plan --model runs/de_en --batch-size 256
    """
    given = {name: value for name, value in flags.items() if value is not None}
    if model is not None and (given or config is not None):
        received = ", ".join([*given, *([] if config is None else ["config"])])
        raise InputError(f"A trained model has its sizes: give --model or others. Received: {received}.")
    check_files(config)
    with loading(model):
        from keras_transformer.models import CausalLM, EncoderModel
        from keras_transformer.tasks import load_task
        from keras_transformer.training import memory_plan
    planned = _new_model(config, given, vocabulary_size) if model is None else load_task(model).model
    lengths = {
        "source_length": None if isinstance(planned, CausalLM) else source_length,
        "target_length": None if isinstance(planned, EncoderModel) else target_length,
    }
    _show(str(memory_plan(planned, batch_size, **lengths)))


def _new_model(config: str | None, given: dict[str, _Value], vocabulary_size: int) -> "keras.Model":
    """Make the model that a run would train, without values, and compile it."""
    import keras

    from keras_transformer.models import shapes_only
    from keras_transformer.runs import Run, RunConfig

    run: Any = RunConfig() if config is None else RunConfig.from_toml(config)
    kind = Run(run.override(**given)).kind
    if kind.config.task not in _TASKS:
        raise InputError(f"`task` must be one of {', '.join(_TASKS)}. Received: task={kind.config.task!r}.")
    # In place of the tokenizers, which are not trained yet, what a model is told of them.
    reader = SimpleNamespace(vocabulary_size=vocabulary_size, kind="subword", fingerprint=lambda: "")
    readers = (reader,) * len(kind.task_class.tokenizer_names)
    with shapes_only():
        model = kind.new_model(readers, keras.DTypePolicy(kind.config.training.precision))
    kind.compile_model(model, 1e-3)
    return model
