"""The batches of a dataset: which pairs share one, in which order, and how they are padded."""

import itertools
from collections.abc import Sequence
from gc import collect
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.data import (
    EncodedPairs,
    EncodedTexts,
    classification_dataset,
    read_pairs,
    tagging_dataset,
    text_dataset,
    translation_dataset,
)
from keras_transformer.data.batching import _shuffle
from keras_transformer.errors import InputError
from keras_transformer.text import CharacterTokenizer
from keras_transformer.types import SPECIAL_IDS

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


@pytest.mark.parametrize(("shuffle", "pad_to_bucket_boundary"), [(True, True), (False, False)])
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


@pytest.mark.parametrize("form", ["memory", "cache"])
def test_sources_end_with_what_their_tokenizer_says(form: str, tmp_path: Path) -> None:
    source, target = CharacterTokenizer(["a", "b"]), CharacterTokenizer(["a", "b"])
    source.end_ids = (3, 5)  # the end, and a language, say
    options = {"cache": tmp_path / "cache"} if form == "cache" else {}
    # A source of three tokens is too long with its end.
    pairs, limits = [("ab", "b"), ("aba", "b")], {"max_source_length": 4, "max_target_length": 4}
    [(inputs, labels)] = translation_dataset(pairs, source, target, **limits, **options).as_numpy_iterator()
    assert inputs["encoder_token_ids"][0, :4].tolist() == [4, 5, 3, 5]
    assert inputs["decoder_token_ids"][0, :2].tolist() == [2, 5]
    assert labels[0, :2].tolist() == [5, 3]


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


@pytest.mark.slow
def test_a_resumed_fit_sees_what_an_uninterrupted_one_sees(
    pairs: Pairs, tokenizer: CharacterTokenizer
) -> None:
    encoded = EncodedPairs.encode(pairs, tokenizer, tokenizer)
    seen = []
    for first_epoch, epochs in ((0, 3), (1, 2)):
        model = RememberLabels()
        model.compile(run_eagerly=True)
        dataset = translation_dataset(encoded, tokens_per_batch=512, first_epoch=first_epoch)
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


def test_no_pairs(tokenizer: CharacterTokenizer) -> None:
    with pytest.raises(InputError, match="Received: 0 pairs"):
        translation_dataset([], tokenizer, tokenizer)


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="needs ../shared/data/multi30k")
def test_multi30k() -> None:
    pairs = read_pairs((MULTI30K / "val.en.gz", MULTI30K / "val.de.gz"))
    tokenizer = CharacterTokenizer.train(text for pair in pairs for text in pair)
    dataset = translation_dataset(pairs, tokenizer, tokenizer, max_target_length=120)
    assert sum(len(labels) for _, labels in batches(dataset)) == sum(
        len(target) < 120 and len(source) < 256 for source, target in pairs
    )


def encoded_of_lengths(lengths: Sequence[int]) -> EncodedPairs:
    """Make pairs of so many tokens on both sides, special token included; all tokens of pair i are 10 + i."""
    ids = tf.ragged.constant([[10 + i] * (length - 1) for i, length in enumerate(lengths)], tf.int32)
    return EncodedPairs(source=ids, target=ids)


def numbers_of(dataset: tf.data.Dataset) -> list[list[int]]:
    """Return the numbers of the pairs in each batch of one epoch."""
    return [(labels[:, 0] - 10).tolist() for _, labels in dataset.as_numpy_iterator()]


@pytest.mark.parametrize(
    ("lengths", "boundaries", "sizes"),
    [
        ([3, 3, 3, 3, 3], [3], [4, 1]),
        ([12], [12], [1]),
        ([4, 3, 2, 4, 6, 5, 6], [4, 6], [3, 2, 2]),  # the fourth pair goes with those of 6
        ([2, 12, 12], [2, 12], [1, 1, 1]),
        ([2, 3, 4, 5, 9], [4, 6], [3, 1, 1]),  # a bucket of 9 is added
    ],
)
def test_batches_of_12_tokens(lengths: list[int], boundaries: list[int], sizes: list[int]) -> None:
    options = {"tokens_per_batch": 12, "bucket_boundaries": boundaries, "shuffle": False}
    dataset = translation_dataset(encoded_of_lengths(lengths), **options)
    assert [len(labels) for _, labels in dataset.as_numpy_iterator()] == sizes


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(st.lists(st.integers(2, 30), min_size=1, max_size=60), st.integers(30, 120))
def test_batches_are_full_and_within_the_budget(lengths: list[int], tokens_per_batch: int) -> None:
    options = {"tokens_per_batch": tokens_per_batch, "bucket_boundaries": [30], "shuffle": False}
    batches = numbers_of(translation_dataset(encoded_of_lengths(lengths), **options))
    assert sorted(itertools.chain(*batches)) == list(range(len(lengths)))
    most = tokens_per_batch // 30
    assert [len(batch) for batch in batches[:-1]] == [most] * (len(batches) - 1)
    assert len(batches[-1]) <= most


@pytest.mark.parametrize(("longest", "widths"), [(19, {8, 10, 13, 17, 19}), (10, {8, 10}), (3, {3})])
def test_default_boundaries_to_pad_to(longest: int, widths: set[int]) -> None:
    encoded = encoded_of_lengths(range(2, longest + 1))
    dataset = translation_dataset(encoded, tokens_per_batch=longest, pad_to_bucket_boundary=True)
    assert {labels.shape[1] for _, labels in dataset.as_numpy_iterator()} == widths


@pytest.mark.parametrize("tokens_per_batch", [60, 333])
@pytest.mark.parametrize("kind", ["pairs", "texts", "labels", "tags"])
def test_an_epoch_has_the_shapes_that_are_counted(kind: str, tokens_per_batch: int) -> None:
    """Each is compiled once, so that their number is what a run says before it trains."""
    lengths = np.random.default_rng(0).integers(2, 50, 300)
    rows = tf.ragged.range(4, lengths + 4, dtype="int32")
    options = {"tokens_per_batch": tokens_per_batch, "pad_to_bucket_boundary": True}
    if kind == "pairs":
        encoded = encoded_of_lengths(lengths)
        dataset = translation_dataset(encoded, **options)
    elif kind == "texts":
        encoded = EncodedTexts(inputs=rows, labels=rows)
        dataset = text_dataset(encoded, **options)
    elif kind == "labels":
        encoded = EncodedTexts(inputs=rows, labels=np.zeros(300, "int32"), kind="labels")
        dataset = classification_dataset(encoded, **options)
    else:
        encoded = EncodedTexts(inputs=rows, labels=rows, kind="tags")
        dataset = tagging_dataset(encoded, **options)
    found: set[tuple[int, ...]] = set()
    for _ in range(2):
        for inputs, _ in dataset.as_numpy_iterator():
            matrices = inputs.values() if isinstance(inputs, dict) else [inputs]
            assert all(matrix.size <= tokens_per_batch for matrix in matrices)
            found |= {matrix.shape for matrix in matrices}
    # One for each bucket, and the last batch.
    assert 1 < len(found) <= len({width for _, width in found}) + 1


def test_texts_encoded_for_another_dataset() -> None:
    rows = tf.ragged.constant([[4, 5]], "int32")
    message = "must be encoded for tags. Received: kind='texts'"
    with pytest.raises(TypeError, match=message):
        tagging_dataset(EncodedTexts(inputs=rows, labels=rows))


@pytest.mark.parametrize("boundaries", [[], [0, 4], [4, 4], [5, 3]])
def test_boundaries_out_of_order(boundaries: list[int]) -> None:
    message = f"positive and increasing. Received: bucket_boundaries={boundaries}".replace("[", r"\[")
    with pytest.raises(ValueError, match=message):
        translation_dataset(encoded_of_lengths([9]), bucket_boundaries=boundaries)


LENGTHS = [5, 3, 5, 3, 3, 8, 5, 3, 3, 5, 8]
SHUFFLED = {"tokens_per_batch": 16, "bucket_boundaries": [3, 5, 8]}
BATCH_SHAPES = [(1, [8]), (2, [5, 8]), (3, [5]), (5, [3])]


def shuffled(lengths: Sequence[int] = LENGTHS, **options: int) -> tf.data.Dataset:
    return translation_dataset(encoded_of_lengths(lengths), **SHUFFLED, **options)


def shapes(batches: list[list[int]]) -> list[tuple[int, list[int]]]:
    return sorted((len(batch), sorted({LENGTHS[number] for number in batch})) for batch in batches)


@pytest.mark.parametrize("epoch", [0, 4])
def test_shuffled_batches_hold_each_pair_once_in_its_bucket(epoch: int) -> None:
    batches = numbers_of(shuffled(seed=3, first_epoch=epoch))
    assert sorted(itertools.chain.from_iterable(batches)) == list(range(len(LENGTHS)))
    assert shapes(batches) == BATCH_SHAPES


@pytest.mark.slow
def test_epochs_differ_in_batches_and_in_their_order() -> None:
    dataset = shuffled()
    epochs = [numbers_of(dataset) for _ in range(20)]
    assert len({str(epoch) for epoch in epochs}) == 20
    assert len({str([len(batch) for batch in epoch]) for epoch in epochs}) > 5
    assert len({str(sorted(sorted(batch) for batch in epoch)) for epoch in epochs}) > 5


@pytest.mark.slow
def test_the_rows_of_a_single_batch_are_shuffled_too() -> None:
    encoded = encoded_of_lengths(range(2, 8))
    dataset = translation_dataset(encoded)
    epochs = [numbers_of(dataset) for _ in range(20)]
    assert all(sorted(batch) == list(range(6)) for [batch] in epochs)
    assert len({str(epoch) for epoch in epochs}) > 15
    assert len({batch[0] for [batch] in epochs}) > 3


@pytest.mark.slow
def test_the_global_seed_and_the_interleaving_do_not_matter() -> None:
    expected = [numbers_of(shuffled(seed=1, first_epoch=epoch)) for epoch in range(2)]
    tf.random.set_seed(99)
    dataset = shuffled(seed=1)
    iterators = [iter(dataset), iter(dataset)]
    epochs: list[list[list[int]]] = [[], []]
    for _ in range(len(dataset)):
        for epoch, iterator in zip(epochs, iterators, strict=True):
            epoch.append((next(iterator)[1].numpy()[:, 0] - 10).tolist())
    assert epochs == expected


def test_goes_on_at_a_later_epoch() -> None:
    dataset = shuffled(seed=5)
    epochs = [numbers_of(dataset) for _ in range(4)]
    resumed = shuffled(seed=5, first_epoch=2)
    assert [numbers_of(resumed), numbers_of(resumed)] == epochs[2:]


@pytest.mark.slow
def test_an_epoch_that_was_left_early_counts() -> None:
    dataset = shuffled(seed=5)
    next(iter(dataset))
    assert numbers_of(dataset) == numbers_of(shuffled(seed=5, first_epoch=1))


@pytest.mark.slow
def test_the_counter_lives_as_long_as_the_dataset() -> None:
    dataset = shuffled(seed=5).map(lambda inputs, labels: (inputs, labels)).prefetch(1)
    collect()
    assert numbers_of(dataset) != numbers_of(dataset)


def test_shuffles_uniformly() -> None:
    keys, splits = tf.ones(3, tf.int64), tf.constant([0, 1, 3], tf.int64)
    draw = tf.function(lambda seed: _shuffle(keys, splits, tf.stack([seed, seed])).flat_values)
    drawn = [tuple(draw(tf.constant(seed, tf.int64)).numpy().tolist()) for seed in range(600)]
    counts = [drawn.count(order) for order in set(drawn)]
    assert len(counts) == 6
    assert min(counts) > 65  # 100 expected, standard deviation 9


def one_batch(source: list[list[int]], target: list[list[int]], **options: object) -> Batch:
    encoded = EncodedPairs(
        source=tf.ragged.constant(source, tf.int32), target=tf.ragged.constant(target, tf.int32)
    )
    [batch] = translation_dataset(encoded, shuffle=False, **options).as_numpy_iterator()
    return batch


def test_a_batch_by_hand() -> None:
    inputs, labels = one_batch([[12, 12, 12], [10]], [[13], [11, 11]])
    np.testing.assert_array_equal(inputs["encoder_token_ids"], [[12, 12, 12, 3], [10, 3, 0, 0]])
    np.testing.assert_array_equal(inputs["decoder_token_ids"], [[2, 13, 0], [2, 11, 11]])
    np.testing.assert_array_equal(labels, [[13, 3, 0], [11, 11, 3]])


@pytest.mark.parametrize(("boundaries", "width"), [([4, 7], 4), ([3, 7], 7), ([9], 9)])
def test_pads_both_sides_to_a_boundary(boundaries: list[int], width: int) -> None:
    options = {"bucket_boundaries": boundaries, "pad_to_bucket_boundary": True}
    inputs, labels = one_batch([[12, 12, 12]], [[13]], **options)
    assert {array.shape[1] for array in (*inputs.values(), labels)} == {width}


@pytest.mark.parametrize("pad_to_bucket_boundary", [False, True])
def test_element_spec_has_rank_two(pad_to_bucket_boundary: bool) -> None:
    dataset = translation_dataset(encoded_of_lengths([3]), pad_to_bucket_boundary=pad_to_bucket_boundary)
    matrix = tf.TensorSpec([None, None], tf.int32)
    assert dataset.element_spec == ({"encoder_token_ids": matrix, "decoder_token_ids": matrix}, matrix)


def repeat_rows(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Lengthen each row one to three times, as noise may."""

    def repeat(source: tf.RaggedTensor, target: tf.RaggedTensor) -> tuple[tf.RaggedTensor, ...]:
        times = 1 + tf.range(source.nrows()) % 3
        longer = tf.gather(source, tf.repeat(tf.range(source.nrows()), times))
        return (tf.RaggedTensor.from_row_lengths(longer, times).merge_dims(1, 2),) * 2

    return dataset.map(repeat)


@pytest.mark.slow
def test_noise_that_lengthens_rows_costs_little_padding(tokenizer: CharacterTokenizer) -> None:
    lengths = np.random.default_rng(1).integers(1, 30, 500)
    pairs = [("a" * length, "a" * length) for length in lengths]

    def padded_share(**options: bool) -> float:
        options = {"tokens_per_batch": 200, "noise": [repeat_rows], **options}
        dataset = translation_dataset(pairs, tokenizer, tokenizer, **options)
        labels = [labels for _, labels in dataset.as_numpy_iterator()]
        return sum(np.sum(batch == 0) for batch in labels) / sum(batch.size for batch in labels)

    assert padded_share() < 0.1
    assert padded_share(shuffle=False) > 0.2  # which stay in their order


@pytest.mark.slow
def test_rows_after_noise_are_grouped_by_length_and_stay_pairs() -> None:
    ids = tf.ragged.constant([[i] * (i % 9) + [99] for i in range(10, 60)], tf.int32)
    encoded = EncodedPairs(source=ids, target=ids + 100)

    def grouped(seed: int) -> list[Batch]:
        options = {"tokens_per_batch": 60, "noise": [lambda dataset: dataset], "seed": seed}
        return batches(translation_dataset(encoded, **options))

    first = grouped(1)
    rows = [row for inputs, labels in first for row in zip(inputs["encoder_token_ids"], labels, strict=True)]
    assert all(np.array_equal(np.where(source > 3, source + 100, source), label) for source, label in rows)
    assert sorted(source[source > 3].tolist() for source, _ in rows) == sorted(ids.to_list())
    by_size = sorted((labels for _, labels in first), key=lambda labels: -len(labels))
    lengths = [np.count_nonzero(row) for labels in by_size for row in labels]
    assert lengths == sorted(lengths)  # batches with many rows get the short ones
    orders = [[len(labels) for _, labels in grouped(seed)] for seed in (1, 2, 3, 4)]
    assert orders[0] == [len(labels) for _, labels in first]
    assert len({tuple(order) for order in orders}) > 2


def test_a_cache_is_for_texts() -> None:
    with pytest.raises(ValueError, match=r"is for texts\. Received: 1 EncodedPairs\."):
        translation_dataset(encoded_of_lengths([3]), cache="x")


def test_texts_need_tokenizers(tokenizer: CharacterTokenizer) -> None:
    with pytest.raises(TypeError, match=r"need a tokenizer of each side\. .*target_tokenizer=None\."):
        translation_dataset([("a", "b")], tokenizer)
