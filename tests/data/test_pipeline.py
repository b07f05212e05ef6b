from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data.encoding import encode_pairs
from keras_transformer.data.pipeline import encoded_dataset, translation_dataset
from keras_transformer.data.text_files import read_parallel_text
from keras_transformer.errors import InputError
from keras_transformer.text import SPECIAL_IDS, CharacterTokenizer

MULTI30K = Path(__file__).parents[2].parent / "shared" / "data" / "multi30k"

Pairs = list[tuple[str, str]]
Batch = tuple[dict[str, np.ndarray], np.ndarray]


def batches(dataset: tf.data.Dataset) -> list[Batch]:
    return list(dataset.as_numpy_iterator())


def flat(epoch: list[Batch]) -> list[list[int]]:
    return [labels.ravel().tolist() for _, labels in epoch]


def texts(epoch: list[Batch], tokenizer: CharacterTokenizer) -> Pairs:
    """Reads the pairs back out of the batches."""
    found = []
    for inputs, labels in epoch:
        sides = [tokenizer.detokenize(ids).numpy() for ids in (inputs["encoder_token_ids"], labels)]
        found += [(source.decode(), target.decode()) for source, target in zip(*sides, strict=True)]
    return found


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("pad_to_bucket_boundary", [True, False])
def test_an_epoch_holds_every_pair_once(
    pairs: Pairs, tokenizer: CharacterTokenizer, shuffle: bool, pad_to_bucket_boundary: bool
) -> None:
    dataset = translation_dataset(
        pairs,
        tokenizer,
        tokenizer,
        tokens_per_batch=128,
        shuffle=shuffle,
        pad_to_bucket_boundary=pad_to_bucket_boundary,
    )
    for _ in range(2):
        epoch = batches(dataset)
        assert len(epoch) == int(dataset.cardinality()) == len(dataset)
        assert sorted(texts(epoch, tokenizer)) == sorted(pairs)


def test_batches_stay_within_the_budget_and_are_well_filled(
    pairs: Pairs, tokenizer: CharacterTokenizer
) -> None:
    epoch = batches(translation_dataset(pairs, tokenizer, tokenizer, tokens_per_batch=128))
    sizes = [max(array.size for array in (*inputs.values(), labels)) for inputs, labels in epoch]
    assert max(sizes) <= 128
    assert np.mean(sizes) > 100


def test_targets_of_a_bucket_share_batches_by_length(tokenizer: CharacterTokenizer) -> None:
    rng = np.random.default_rng(0)
    pairs = [("ab" * 4, "a" * length) for length in rng.permutation(np.repeat([1, 4, 7], 20))]
    epoch = batches(translation_dataset(pairs, tokenizer, tokenizer, tokens_per_batch=20 * 9))
    assert sorted(labels.shape for _, labels in epoch) == [(20, 2), (20, 5), (20, 8)]


def test_the_autotuner_is_off(pairs: Pairs, tokenizer: CharacterTokenizer) -> None:
    """It would let the end of an epoch wait, for as long as a minute."""
    assert translation_dataset(pairs, tokenizer, tokenizer).options().autotune.enabled is False


def test_decoder_inputs_and_labels(pairs: Pairs, tokenizer: CharacterTokenizer) -> None:
    for inputs, labels in batches(translation_dataset(pairs, tokenizer, tokenizer)):
        decoder_token_ids = inputs["decoder_token_ids"]
        assert (decoder_token_ids[:, 0] == SPECIAL_IDS.start).all()
        shifted = np.where(labels[:, :-1] == SPECIAL_IDS.end, SPECIAL_IDS.pad, labels[:, :-1])
        np.testing.assert_array_equal(decoder_token_ids[:, 1:], shifted)
        for token_ids in (inputs["encoder_token_ids"], labels):
            assert ((token_ids == SPECIAL_IDS.end).sum(axis=1) == 1).all()


def test_few_shapes_when_padded_to_boundaries(pairs: Pairs, tokenizer: CharacterTokenizer) -> None:
    dataset = translation_dataset(
        pairs, tokenizer, tokenizer, bucket_boundaries=[10, 17], pad_to_bucket_boundary=True
    )
    widths = {array.shape[1] for inputs, labels in batches(dataset) for array in (*inputs.values(), labels)}
    assert widths <= {10, 17, 24}


def test_same_seed_same_batches_and_each_epoch_differs(pairs: Pairs, tokenizer: CharacterTokenizer) -> None:
    first, second, other = (
        translation_dataset(pairs, tokenizer, tokenizer, tokens_per_batch=128, seed=seed)
        for seed in (4, 4, 5)
    )
    epochs = [flat(batches(first)) for _ in range(3)]
    assert epochs == [flat(batches(second)) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    assert epochs[0] != flat(batches(other))


def test_without_shuffling_all_epochs_are_the_same(pairs: Pairs, tokenizer: CharacterTokenizer) -> None:
    dataset = translation_dataset(pairs, tokenizer, tokenizer, tokens_per_batch=128, shuffle=False)
    assert flat(batches(dataset)) == flat(batches(dataset))


class RememberLabels(keras.Model):
    """A model that learns nothing and keeps the labels it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[int]] = []

    def train_step(self, data: Batch) -> dict[str, float]:
        self.seen.append(np.ravel(data[1]).tolist())
        return {"loss": 0.0}


def test_a_resumed_fit_sees_what_an_uninterrupted_one_sees(
    pairs: Pairs, tokenizer: CharacterTokenizer
) -> None:
    encoded = encode_pairs(pairs, tokenizer, tokenizer)
    seen = []
    for first_epoch, epochs in ((0, 3), (1, 2)):
        model = RememberLabels()
        model.compile(run_eagerly=True)
        dataset = encoded_dataset(encoded, tokens_per_batch=512, first_epoch=first_epoch)
        model.fit(dataset, epochs=epochs, shuffle=False, verbose=0)
        seen.append(model.seen)
    steps = len(dataset)
    assert len(seen[0]) == 3 * steps
    assert seen[0][steps:] == seen[1]


def test_too_long_pairs_are_left_out(pairs: Pairs, tokenizer: CharacterTokenizer) -> None:
    dataset = translation_dataset(pairs, tokenizer, tokenizer, max_source_length=9, max_target_length=12)
    kept = [pair for pair in pairs if len(pair[0]) < 9 and len(pair[1]) < 12]
    assert sorted(texts(batches(dataset), tokenizer)) == sorted(kept)


def test_budget_below_the_longest_pair(tokenizer: CharacterTokenizer) -> None:
    with pytest.raises(ValueError, match="Received: tokens_per_batch=4, longest=5 tokens"):
        translation_dataset([("ab", "abcd")], tokenizer, tokenizer, tokens_per_batch=4)


def test_boundaries_out_of_order(tokenizer: CharacterTokenizer) -> None:
    with pytest.raises(ValueError, match=r"Received: bucket_boundaries=\[7, 5\]"):
        translation_dataset([("ab", "abcd")], tokenizer, tokenizer, bucket_boundaries=[7, 5])


def test_no_pairs(tokenizer: CharacterTokenizer) -> None:
    with pytest.raises(InputError, match="Received: 0 pairs"):
        translation_dataset([], tokenizer, tokenizer)


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="needs ../shared/data/multi30k")
def test_multi30k() -> None:
    pairs = read_parallel_text(MULTI30K / "val.en.gz", MULTI30K / "val.de.gz")
    tokenizer = CharacterTokenizer.train(text for pair in pairs for text in pair)
    dataset = translation_dataset(pairs, tokenizer, tokenizer, max_target_length=120)
    assert sum(len(labels) for _, labels in batches(dataset)) == sum(
        len(target) < 120 and len(source) < 256 for source, target in pairs
    )
