"""Batches of labelled and of tagged texts are what a Keras loss reads."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data import EncodedTexts, classification_dataset, label_names, tagging_dataset
from keras_transformer.errors import InputError
from keras_transformer.text import CharacterTokenizer, SubwordTokenizer

EXAMPLES = [("a" * (1 + number % 17), ("x", "y", "y", "z")[number % 4]) for number in range(200)]
SENTENCES = [(("abc", "d", "ee"), ("B", "O", "I")), (("f",), ("O",)), (("gh", "abcde", "f"), ("O", "B", "O"))]


def test_each_example_comes_once_with_its_label(tokenizer: CharacterTokenizer) -> None:
    dataset = classification_dataset(EXAMPLES, tokenizer, ["x", "y", "z"], tokens_per_batch=64)
    for _ in range(2):
        batches = [*dataset.as_numpy_iterator()]
        assert len(batches) == dataset.cardinality()
        assert all(token_ids.size <= 64 for token_ids, _ in batches)
        rows = [
            ("a" * int((row == 4).sum()), "xyz"[label])
            for token_ids, labels in batches
            for row, label in zip(token_ids, labels, strict=True)
        ]
        assert sorted(rows) == sorted(EXAMPLES)


def test_the_first_epoch_continues(tokenizer: CharacterTokenizer) -> None:
    options = {"labels": ["x", "y", "z"], "tokens_per_batch": 64, "seed": 3}
    whole = classification_dataset(EXAMPLES, tokenizer, **options)
    first, second = ([ids.tolist() for ids, _ in whole.as_numpy_iterator()] for _ in range(2))
    later = classification_dataset(EXAMPLES, tokenizer, **options, first_epoch=1)
    assert [ids.tolist() for ids, _ in later.as_numpy_iterator()] == second != first


def test_balanced_weights_are_those_of_scikit_learn(tokenizer: CharacterTokenizer) -> None:
    weights = pytest.importorskip("sklearn.utils.class_weight")
    labels = [label for _, label in EXAMPLES]
    expected = weights.compute_sample_weight("balanced", labels)
    dataset = classification_dataset(
        EXAMPLES, tokenizer, ["x", "y", "z", "none has it"], class_weight="balanced", shuffle=False
    )
    [(_, numbers, counts)] = dataset.as_numpy_iterator()
    given = {"xyz"[number]: count for number, count in zip(numbers, counts, strict=True)}
    assert given == pytest.approx(dict(zip(labels, expected, strict=True)))


def test_encoded_texts_know_their_labels(tokenizer: CharacterTokenizer) -> None:
    encoded = EncodedTexts.encode_labelled(EXAMPLES[:4], tokenizer, ["z", "y", "x"])
    [(_, labels, weights)] = classification_dataset(encoded, class_weight={"z": 5.0}).as_numpy_iterator()
    assert weights.tolist() == [5.0 if label == 0 else 1.0 for label in labels]
    for texts in (encoded, EXAMPLES[:4]):
        for names in (np.array(["z", "y", "x"]), iter("zyx")):
            assert classification_dataset(texts, tokenizer, names).cardinality() == 1
    message = r"encoded texts, in their order\. Received: labels=\['x', 'y', 'z'\], and \['z', 'y', 'x'\] in"
    with pytest.raises(ValueError, match=message):
        classification_dataset(encoded, labels=["x", "y", "z"])


def test_encoded_sentences_know_their_tags(tokenizer: CharacterTokenizer) -> None:
    encoded = EncodedTexts.encode_tagged(SENTENCES, tokenizer, ["B", "I", "O"])
    assert tagging_dataset(encoded, tags=["B", "I", "O"]).cardinality() == 1
    with pytest.raises(ValueError, match=r"`tags` must be those of .* Received: tags=\['O', 'B', 'I'\], and"):
        tagging_dataset(encoded, tags=["O", "B", "I"])


def test_weights_by_name(tokenizer: CharacterTokenizer) -> None:
    dataset = classification_dataset(EXAMPLES[:4], tokenizer, ["x", "y", "z"], class_weight={"z": 5.0})
    [(_, labels, weights)] = dataset.as_numpy_iterator()
    assert weights.tolist() == [5.0 if label == 2 else 1.0 for label in labels]
    with pytest.raises(InputError, match=r"must be one of `labels`: 'x', 'y', 'z'. Received: 'w'"):
        classification_dataset(EXAMPLES[:4], tokenizer, ["x", "y", "z"], class_weight={"w": 5.0})


def test_several_labels_are_zeros_and_ones(tokenizer: CharacterTokenizer) -> None:
    examples = [("a", ("x", "z")), ("aa", ()), ("aaa", ["y"])]
    dataset = classification_dataset(examples, tokenizer, ["x", "y", "z"], multi_label=True, shuffle=False)
    [(token_ids, labels)] = dataset.as_numpy_iterator()
    assert labels.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert labels.dtype == np.float32
    assert token_ids.tolist() == [[4, 3, 0, 0], [4, 4, 3, 0], [4, 4, 4, 3]]


def test_long_texts_are_cut_and_counted(
    tokenizer: CharacterTokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = classification_dataset([("abc", "x"), ("abcdefgh", "y")], tokenizer, ["x", "y"], max_length=4)
    [(token_ids, _)] = dataset.as_numpy_iterator()
    assert sorted(token_ids.tolist()) == [[4, 5, 6, 3], [4, 5, 6, 3]]
    assert "1 of 2 texts are longer than max_length=4 tokens" in caplog.text


def test_first_pieces_have_the_tags() -> None:
    texts = [" ".join(tokens) for tokens, _ in SENTENCES]
    tokenizer = SubwordTokenizer.train(texts, vocabulary_size=16)
    dataset = tagging_dataset(SENTENCES, tokenizer, ["B", "I", "O"], shuffle=False)
    rows = [row for batch in dataset.as_numpy_iterator() for row in zip(*batch, strict=True)]
    found = []
    for token_ids, tags in rows:
        # One by one the words have the ids of the whole text.
        [text] = tokenizer.detokenize([token_ids]).numpy()
        whole = tokenizer.padded_ids([text.decode()], 99).numpy()[0]
        assert token_ids[: len(whole)].tolist() == whole.tolist()
        pieces = tokenizer.tokens([token_ids]).numpy()[0]
        assert all(piece.decode().startswith("\u2581") for piece in pieces[tags >= 0])
        found.append((tuple(text.decode().split()), tuple("BIO"[tag] for tag in tags if tag >= 0)))
    assert sorted(found) == sorted(SENTENCES)


def test_tags_of_words_that_are_cut_off_do_not_count(tokenizer: CharacterTokenizer) -> None:
    [(token_ids, tags)] = tagging_dataset(
        SENTENCES, tokenizer, ["B", "I", "O"], max_length=4, shuffle=False
    ).as_numpy_iterator()
    assert token_ids.tolist() == [[4, 5, 6, 3], [9, 3, 0, 0], [10, 11, 4, 3]]
    assert tags.tolist() == [[0, -100, -100, -100], [2, -100, -100, -100], [2, -100, 0, -100]]


def test_a_tagger_learns_with_both_losses(tokenizer: CharacterTokenizer) -> None:
    dataset = tagging_dataset(SENTENCES, tokenizer, ["B", "I", "O"])
    size = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16}
    model = kt.EncoderModel(tokenizer.vocabulary_size, 3, **size)
    kt.training.compile_model(model, 1e-2, label_smoothing=0.0, pad_id=-100)
    ours = model.evaluate(dataset, verbose=0)[0]
    keras_loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, ignore_class=-100, reduction="sum"
    )
    [(token_ids, tags)] = dataset.as_numpy_iterator()
    theirs = keras_loss(tags, model(token_ids)) / np.sum(tags != -100)
    assert ours == pytest.approx(float(theirs), abs=1e-6)


@pytest.mark.parametrize(
    ("examples", "options", "error", "message"),
    [
        ([("a", "w")], {}, InputError, r"must be one of `labels`: 'x', 'y'. Received: 'w'"),
        ([("a", float("nan"))], {}, TypeError, r"a text and its label.*Received: examples\[0\]=\('a', nan\)"),
        ([(float("nan"), "x")], {}, TypeError, r"must be strings. Received: number 0, nan"),
        ([("a", ("x",))], {}, TypeError, r"must be a string, or `multi_label`"),
        ([("a", "x")], {"multi_label": True}, TypeError, r"must be a tuple or list of strings"),
        ([], {}, InputError, r"at least one example. Received: 0"),
        ([("a", "x")], {"class_weight": "even"}, ValueError, r"must be one of 'balanced'"),
        ([("a", "x")], {"tokens_per_batch": 1}, ValueError, r"Received: tokens_per_batch=1"),
        ([("a", ["x"])], {"multi_label": True, "class_weight": {"x": 2}}, ValueError, "one label each"),
    ],
)
def test_wrong_examples(
    tokenizer: CharacterTokenizer, examples: list, options: dict, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        classification_dataset(examples, tokenizer, ["x", "y"], **options)


@pytest.mark.parametrize("labels", [["x"], ["x", "x"], ["x", " "]])
def test_wrong_names(tokenizer: CharacterTokenizer, labels: list[str]) -> None:
    with pytest.raises(ValueError, match="`labels` must hold"):
        classification_dataset([("a", "x")], tokenizer, labels)


def test_tags_without_tokens(tokenizer: CharacterTokenizer) -> None:
    with pytest.raises(InputError, match=r"a tag for each. Received: sentences\[0\]="):
        tagging_dataset([(("a",), ("B", "O"))], tokenizer, ["B", "O"])


def test_label_names() -> None:
    assert label_names([("a", "y"), ("b", "x"), ("c", "y")]) == ["x", "y"]
    assert label_names([("a", "10"), ("b", "9"), ("c", "x")]) == ["9", "10", "x"]
    assert label_names([("a", ("y", "x")), ("b", ())]) == ["x", "y"]
    assert label_names(SENTENCES) == ["B", "I", "O"]
    with pytest.raises(InputError, match=r"two different labels. Received: 2 times 'x'"):
        label_names([("a", "x"), ("b", "x")])
    with pytest.raises(InputError, match="Received: none"):
        label_names([])
