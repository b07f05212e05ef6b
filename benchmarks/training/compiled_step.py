"""The training step that JAX compiles for a model, from the shapes of its variables, without weights."""

from typing import Any

import jax
import keras
import numpy as np

import keras_transformer as kt


def make_batch(model: Any, batch_size: int, source_length: int, target_length: int) -> tuple[Any, Any, None]:
    """Return inputs and labels of a model; a length of 0 is that of a stack which it does not have."""
    source, target = (np.ones((batch_size, length), "int32") for length in (source_length, target_length))
    if isinstance(model, kt.Transformer):
        return {"encoder_token_ids": source, "decoder_token_ids": target}, target, None
    return (target, target, None) if isinstance(model, kt.CausalLM) else (source, source, None)


def compile_step(model: Any, batch: tuple[Any, Any, None]) -> Any:
    """Compile the step of `fit` for a model that was made in `shapes_only`, and is compiled by Keras.

    Under a distribution of Keras each variable has the layout that Keras would give it.
    """
    distribution = keras.distribution.distribution()
    if distribution is not None:
        for variable in model.variables:
            variable._initialize_layout()  # as when it gets its value; the optimizer's variables follow it
    with kt.models.shapes_only():
        model.optimizer.build(model.trainable_variables)
        model._symbolic_build(data_batch=batch)  # makes the metrics, as `fit` does
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple([_shape(each) for each in group] for group in groups)
    if distribution is None:
        step = jax.jit(model.train_step, donate_argnums=0)
        return step.lower(state, batch).compile()
    data = jax.tree.map(
        lambda each: jax.ShapeDtypeStruct(
            each.shape, each.dtype, sharding=distribution.get_data_layout(each.shape).backend_layout
        ),
        batch,
    )
    shardings = jax.tree.map(lambda each: each.sharding, state)
    step = jax.jit(model.train_step, donate_argnums=0, out_shardings=(None, shardings))
    return step.lower(state, data).compile()


def _shape(variable: Any) -> Any:
    distribution, sharding = keras.distribution.distribution(), None
    if distribution is not None:
        sharding = distribution.get_variable_layout(variable).backend_layout
    return jax.ShapeDtypeStruct(tuple(variable.shape), variable.dtype, sharding=sharding)


def needed_bytes(compiled: Any) -> int:
    """Return what XLA needs on a device: what goes in, what comes out elsewhere, and what is in between."""
    memory = compiled.memory_analysis()
    return int(
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes
        + memory.temp_size_in_bytes
    )
