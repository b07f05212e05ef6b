"""Muon takes the kernels of attention as Keras's own takes the same matrices in a dense layer."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from helpers import array, draw

SIZES = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16}


def test_kernels_are_matrices_and_nothing_else_is() -> None:
    model = kt.Transformer(20, 20, **SIZES, positions="relative", tie_output=False)
    optimizer = kt.training.Muon(1e-3)
    optimizer.build(model.trainable_variables)
    taken = {
        variable.path
        for variable, velocity in zip(model.trainable_variables, optimizer.adam_velocities, strict=True)
        if velocity is None
    }
    kernels = {variable.path for variable in model.trainable_variables if variable.name == "kernel"}
    assert taken == {path for path in kernels if "output_projection" not in path}
    assert len([path for path in taken if "attention" in path]) == 12
    excluding = kt.training.Muon(1e-3, exclude_layers=["cross_attention"])
    excluding.build(model.trainable_variables)
    assert sum(velocity is None for velocity in excluding.adam_velocities) == len(taken) - 4


@pytest.mark.parametrize("name", ["query", "value", "attention_output"])
def test_a_step_is_that_of_keras_on_the_matrix(name: str) -> None:
    layer = kt.layers.MultiHeadAttention(2, 3)
    layer(draw(1, 4, 8), draw(1, 5, 8))
    [kernel] = [each for each in layer.trainable_variables if f"/{name}/kernel" in f"/{each.path}"]
    shape = (6, 8) if name == "attention_output" else (8, 6)
    dense = keras.layers.Dense(shape[1], use_bias=False)
    dense.build((None, shape[0]))
    dense.kernel.assign(array(kernel).reshape(shape))
    ours, theirs = kt.training.Muon(0.1), keras.optimizers.Muon(0.1)
    for seed in range(3):
        gradient = draw(*shape, seed=seed)
        ours.apply([keras.ops.reshape(gradient, kernel.shape)], [kernel])
        theirs.apply([keras.ops.convert_to_tensor(gradient)], [dense.kernel])
    np.testing.assert_allclose(array(kernel).reshape(shape), array(dense.kernel), atol=1e-5)


def test_it_trains_and_is_saved(tmp_path: object) -> None:
    ids = np.random.default_rng(0).integers(4, 9, (8, 5))
    model = kt.CausalLM(9, **SIZES)
    model.compile(kt.training.Muon(0.02), kt.training.MaskedCrossentropy(), jit_compile=False)
    losses = model.fit(ids, ids, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    model.save(f"{tmp_path}/model.keras")
    loaded = keras.saving.load_model(f"{tmp_path}/model.keras")
    assert type(loaded.optimizer) is kt.training.Muon
    assert int(loaded.optimizer.iterations) == 8
