import re
from pathlib import Path

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import MultiHeadAttention, OutputProjection, TokenEmbedding


def test_own_kernel() -> None:
    layer, x = OutputProjection(13), draw(2, 5, 7)
    logits = array(layer(x))
    [kernel] = layer.get_weights()
    assert kernel.shape == (7, 13)
    np.testing.assert_allclose(logits, x @ kernel, atol=1e-5)


def test_tied_to_an_embedding() -> None:
    embedding, x = TokenEmbedding(13, 7), draw(2, 5, 7)
    layer = OutputProjection(13, embedding=embedding)
    logits = array(layer(x))
    assert [id(weight) for weight in layer.weights] == [id(embedding.embeddings)]
    np.testing.assert_allclose(logits, x @ array(embedding.embeddings).T, atol=1e-5)


def test_tied_from_the_embedding_that_comes_later() -> None:
    embedding = TokenEmbedding(13, 7)
    OutputProjection(13, embedding=embedding).build((None, None, 7))
    table = embedding.embeddings
    embedding(np.array([[1, 2]]))
    assert embedding.embeddings is table


def test_a_tied_functional_model_stays_tied_after_reload(tmp_path: Path) -> None:
    embedding = TokenEmbedding(13, 7)
    inputs = keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, OutputProjection(13, embedding=embedding)(embedding(inputs)))
    model.save(tmp_path / "model.keras")
    reloaded = keras.models.load_model(tmp_path / "model.keras")
    assert len(reloaded.weights) == len(model.weights) == 1
    token_ids = np.array([[1, 2, 12]])
    np.testing.assert_array_equal(array(reloaded(token_ids)), array(model(token_ids)))


def test_a_copy_that_is_not_tied_is_told() -> None:
    embedding = TokenEmbedding(13, 7)
    inputs = keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, OutputProjection(13, embedding=embedding)(embedding(inputs)))
    with pytest.warns(UserWarning, match="does not share with an embedding") as told:
        copy = keras.models.clone_model(model)
    assert len(copy.weights) == 2
    assert [each.filename for each in told] == [__file__]


@pytest.mark.filterwarnings("ignore:This copy of an OutputProjection")
def test_from_config_leaves_the_config_alone() -> None:
    config = OutputProjection(13, embedding=TokenEmbedding(13, 7)).get_config()
    copies = [OutputProjection.from_config(config) for _ in range(2)]
    assert copies[0].get_config() == copies[1].get_config() == config


def test_an_implicit_mask_goes_on() -> None:
    embedded = keras.layers.Embedding(13, 7, mask_zero=True)(np.array([[3, 0]]))
    logits = OutputProjection(13)(embedded)
    _, scores = MultiHeadAttention(1, 2)(logits, logits, return_attention_scores=True)
    assert (array(scores)[0, 0, 0] > 0).tolist() == [True, False]


def test_errors() -> None:
    with pytest.raises(ValueError, match=re.escape("must be above zero. Received: vocabulary_size=0.")):
        OutputProjection(0)
    message = "Received: embedding.vocabulary_size=13, vocabulary_size=11."
    with pytest.raises(ValueError, match=re.escape(message)):
        OutputProjection(11, embedding=TokenEmbedding(13, 7))


@pytest.mark.parametrize("tied", [False, True])
def test_another_width_than_that_of_the_weights(tied: bool) -> None:
    layer = OutputProjection(13, embedding=TokenEmbedding(13, 7) if tied else None)
    layer(draw(2, 5, 7))
    message = (
        "The last axis of `inputs` must have the size of the layer's weights, 7. Received: shape=(2, 5, 9)."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        layer(draw(2, 5, 9))
