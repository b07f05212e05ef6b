"""Pretrained encoders: logits, labels and token ids of `transformers`, from old and new directories."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from helpers import array
from keras_transformer.errors import InputError
from keras_transformer.pretrained import read_encoder, save_hugging_face
from pretrained_models import ENCODERS, WORD_PIECES, save_encoder

pytestmark = pytest.mark.backend
TASKS = ("", "MaskedLM", "SequenceClassification", "TokenClassification")
TEXTS = [
    "The dog runs",
    "a Good film!",
    "unaffable cats running fast, x",
    "漢字 É [MASK] \U0001f600" + " zz" * 30,
]
SEVERAL = {"problem_type": "multi_label_classification"}


def as_written(kind: str, texts: list[str]) -> list[str]:
    """Return texts with the special tokens of a family."""
    names = {"[MASK]": "<mask>", "[SEP]": "</s>"} if kind == "roberta" else {}
    for name, other in names.items():
        texts = [text.replace(name, other) for text in texts]
    return texts


def theirs(directory: Path, model: Any, texts: list[str], max_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids and the outputs of `transformers` for texts in one batch."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    batch = tokenizer(texts, return_tensors="pt", padding=True, truncation=True, max_length=max_length)
    with torch.no_grad():
        outputs = model(**batch)
    outputs = outputs.logits if hasattr(outputs, "logits") else outputs.last_hidden_state
    return batch["input_ids"].numpy(), outputs.numpy()


FAST = ("bert", "SequenceClassification")


@pytest.mark.parametrize(
    ("kind", "task"),
    [
        pytest.param(kind, task, marks=[] if (kind, task) == FAST else [pytest.mark.slow])
        for kind in ENCODERS
        for task in TASKS
    ],
)
def test_outputs_are_those_of_transformers(kind: str, task: str, tmp_path: Path) -> None:
    original, texts = save_encoder(kind, task, tmp_path), as_written(kind, TEXTS)
    model, tokenizer = read_encoder(tmp_path)
    assert model.max_length == (38 if kind == "roberta" else 40)
    token_ids = np.asarray(tokenizer.padded_ids(texts, model.max_length))
    wanted_ids, wanted = theirs(tmp_path, original, texts, model.max_length)
    assert (tokenizer.original_ids[token_ids] == wanted_ids).all()
    outputs = array(model(token_ids))
    if task == "MaskedLM":
        wanted = wanted[..., tokenizer.original_ids]
    if outputs.ndim == 3:
        outputs, wanted = outputs[token_ids != 0], wanted[token_ids != 0]
    np.testing.assert_allclose(outputs, wanted, atol=1e-5)


def gamma(name: str) -> str:
    """Return the name that a normalization had when it came from TensorFlow."""
    for new, old in (("weight", "gamma"), ("bias", "beta")):
        name = name.replace(f"LayerNorm.{new}", f"LayerNorm.{old}")
    return name


def old_pickle(directory: Path, tensors: dict[str, Any]) -> None:
    import torch

    tensors = {gamma(name): tensor for name, tensor in tensors.items()}
    tensors["bert.embeddings.position_ids"] = torch.arange(40)[None]
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
    tensors["cls.seq_relationship.weight"] = torch.zeros(2, 24)
    (directory / "model.safetensors").unlink()
    torch.save(tensors, directory / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def without_prefix(directory: Path, tensors: dict[str, Any]) -> None:
    from safetensors.torch import save_file

    tensors = {name: each for name, each in tensors.items() if name.startswith("bert.")}
    path = directory / "model.safetensors"
    save_file({name.removeprefix("bert."): each.clone() for name, each in tensors.items()}, path)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "rewrite"), [("MaskedLM", old_pickle), ("", without_prefix)])
def test_older_forms(task: str, rewrite: Callable[..., None], tmp_path: Path) -> None:
    original = save_encoder("bert", task, tmp_path)
    rewrite(
        tmp_path, {f"{'' if task else 'bert.'}{name}": each for name, each in original.state_dict().items()}
    )
    config = json.loads((tmp_path / "config.json").read_text())
    for name in ("dtype", "transformers_version", *([] if task else ["architectures"])):
        del config[name]
    config |= {
        "pooler_type": "first_token_transform",
        "directionality": "bidi",
        "gradient_checkpointing": False,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer_config.json").unlink()
    model, tokenizer = read_encoder(tmp_path)
    token_ids = np.asarray(tokenizer.padded_ids(TEXTS, 40))
    _, wanted = theirs(tmp_path, original, TEXTS, 40)
    wanted = wanted[..., tokenizer.original_ids] if task else wanted
    np.testing.assert_allclose(array(model(token_ids))[token_ids != 0], wanted[token_ids != 0], atol=1e-5)


HARD = [
    "",
    "  \t\n\r two  lines\u2028\u3000x\u00a0y\u200bz\ufeff",
    "é É e\u0301 Ünïcödé ẞ İI",
    "ΟΔΟΣ ΑΣ ς",
    "漢字 a漢b\uf900c",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\x01\x02 a\x7fb\x85c\u00adsoft",
    *("a" * size for size in (99, 100, 101)),
    *("é" * size for size in (100, 101)),
    *("\U0001f600" * size for size in (100, 101)),
    "[MASK] x[MASK]y [mask] [SEP][CLS] [UNK] [unused0] word   [MASK]  end[SEP]",
    "don't stop!!! (a) [b] {c} $5 ^ ` ~ _ ## ##a a##b",
    "½ ⅷ ² \ufb01 \uff21 \u2e4f \u061d",
    "the dog " * 60,
]


def random_texts(count: int) -> list[str]:
    """Return random Unicode as old as the tables of `tokenizers`, special tokens among it."""
    draw = random.Random(3)
    ranges = [
        (1, 0x7F),
        (0x80, 0x24F),
        (0x370, 0x52F),
        (0x2000, 0x206F),
        (0x3000, 0x9FFF),
        (0x1F300, 0x1F5FF),
    ]
    others = [*"aé,.# ", " ", "##a", "[MASK]", "[SEP]", " dog"]
    return [
        "".join(chr(draw.randint(*bounds)) if draw.random() < 0.4 else draw.choice(others) for _ in range(25))
        for bounds in draw.choices(ranges, k=count)
    ]


SETTINGS = [
    {"do_lower_case": True},
    {"do_lower_case": False, "tokenizer_class": "BertTokenizer"},
    {"do_lower_case": True, "strip_accents": False, "tokenizer_class": "BertTokenizerFast"},
    {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
]


def rarely(values: list[Any]) -> list[Any]:
    """Mark all values but the first as slow."""
    return [values[0], *(pytest.param(value, marks=pytest.mark.slow) for value in values[1:])]


@pytest.mark.parametrize("form", rarely(["vocab.txt", "tokenizer.json", "fast class"]))
@pytest.mark.parametrize("settings", rarely(SETTINGS))
def test_token_ids_are_those_of_transformers(settings: dict[str, Any], form: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": len(WORD_PIECES)}))
    (tmp_path / "vocab.txt").write_text("\n".join(WORD_PIECES), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    original = transformers.AutoTokenizer.from_pretrained(tmp_path)
    if form != "vocab.txt":
        (tmp_path / "vocab.txt").unlink()
        original.save_pretrained(tmp_path)
    if form == "fast class":
        (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    tokenizer, _ = kt.pretrained.read_tokenizers(tmp_path)
    texts = [*HARD, *random_texts(200)]
    rows = np.asarray(tokenizer.padded_ids(texts, 5000))
    for text, row in zip(texts, rows, strict=True):
        token_ids = tokenizer.original_ids[np.trim_zeros(row, "b")].tolist()
        assert token_ids == original(text)["input_ids"], ascii(text)


@pytest.mark.slow
def test_byte_pairs_are_those_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    save_encoder("roberta", "", tmp_path)
    original = transformers.AutoTokenizer.from_pretrained(tmp_path)
    _, tokenizer = read_encoder(tmp_path)
    texts = [
        text.replace("[MASK]", "<mask>").replace("[SEP]", "</s>") for text in [*HARD, *random_texts(200)]
    ]
    rows = np.asarray(tokenizer.padded_ids(texts, 5000))
    for text, row in zip(texts, rows, strict=True):
        assert tokenizer.original_ids[np.trim_zeros(row, "b")].tolist() == original(text)["input_ids"], ascii(
            text
        )


def many_texts(count: int) -> list[str]:
    draw = random.Random(5)
    words = [
        "the",
        "dog",
        "runs",
        "Good",
        "film!",
        "unaffable",
        "fast",
        "é",
        "漢字",
        "\U0001f600",
        "don't",
        "x,y",
        "1",
    ]
    return [" ".join(draw.choices(words, k=draw.randint(1, 4))) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ENCODERS)
def test_a_classifier_gives_their_probabilities(kind: str, tmp_path: Path) -> None:
    changes = {} if kind == "distilbert" else SEVERAL
    names = {0: "bad", 1: "good", 2: "odd"}
    original = save_encoder(kind, "SequenceClassification", tmp_path, id2label=names, **changes)
    classifier, texts = kt.from_hugging_face(tmp_path, max_length=10), many_texts(50)
    assert isinstance(classifier, kt.TextClassifier)
    assert (classifier.labels, classifier.multi_label) == (("bad", "good", "odd"), changes != {})
    with pytest.warns(kt.tasks.TruncationWarning):
        results = classifier.classify(texts)
    _, logits = theirs(tmp_path, original, texts, 10)
    exponents = np.exp(logits)
    wanted = exponents / (1 + exponents) if changes else exponents / exponents.sum(axis=1, keepdims=True)
    probabilities = np.array([[*result.probabilities.values()] for result in results])
    np.testing.assert_allclose(probabilities, wanted, atol=1e-5)
    assert [result.label for result in results] == [names[row.argmax()] for row in logits]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ENCODERS)
def test_a_server_gives_their_labels(kind: str, tmp_path: Path) -> None:
    """The export is verified in a process without Keras; it answers for 200 texts, alone and in batches."""
    original = save_encoder(kind, "SequenceClassification", tmp_path / "hub")
    classifier, texts = kt.from_hugging_face(tmp_path / "hub"), many_texts(200)
    path = kt.export.export_saved_model(classifier, tmp_path / "served")
    _, logits = theirs(tmp_path / "hub", original, texts, classifier.max_length)
    served = kt.export.ServedClassifier(path)
    for given in (served.classify(texts), [served.classify(text) for text in texts]):
        assert [each.label for each in given] == [f"LABEL_{row.argmax()}" for row in logits]
        probabilities = np.array([[*each.probabilities.values()] for each in given])
        wanted = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(probabilities, wanted, atol=1e-5)


@pytest.mark.slow
def test_a_tagger_tags_words(tmp_path: Path) -> None:
    names = {0: "O", 1: "B-LOC", 2: "I-LOC"}
    original = save_encoder("bert", "TokenClassification", tmp_path, id2label=names)
    tagger, text = kt.from_hugging_face(tmp_path), "the unaffable dog runs fast!"
    assert isinstance(tagger, kt.TextTagger)
    result = tagger.tag(text)
    token_ids, logits = theirs(tmp_path, original, [text], 40)
    is_first = [not WORD_PIECES[each].startswith(("##", "[")) for each in token_ids[0]]
    assert result.tags == tuple(names[row.argmax()] for row in logits[0][is_first])


@pytest.mark.slow
def test_new_labels_on_a_pretrained_encoder(tmp_path: Path) -> None:
    """It is fine-tuned as any model, and goes out as a directory that transformers reads."""
    save_encoder("bert", "", tmp_path / "hub")
    keras.utils.set_random_seed(1)
    classifier = kt.from_hugging_face(tmp_path / "hub", labels=["animal", "film"])
    texts = ["the dog runs", "a cat runs fast", "good film", "a bad film!"] * 8
    labels = np.array([0, 0, 1, 1] * 8)
    classifier.model.compile(
        keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    classifier.model.fit(classifier.token_ids(texts), labels, epochs=40, batch_size=16, verbose=0)
    found = [result.label for result in classifier.classify(texts)]
    assert found == [classifier.labels[label] for label in labels]
    save_hugging_face(classifier, tmp_path / "out")
    transformers = pytest.importorskip("transformers")
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    assert again.config.id2label == {0: "animal", 1: "film"}
    _, logits = theirs(tmp_path / "out", again, texts[:4], 40)
    np.testing.assert_allclose(logits, array(classifier.model(classifier.token_ids(texts[:4]))), atol=1e-5)


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("task", ["SequenceClassification", "TokenClassification"])
@pytest.mark.slow
def test_round_trips(kind: str, task: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    original = save_encoder(kind, task, tmp_path / "hub")
    read = kt.from_hugging_face(tmp_path / "hub")
    save_hugging_face(read, tmp_path / "out")
    again = kt.from_hugging_face(tmp_path / "out")
    assert again.tokenizer.fingerprint() == read.tokenizer.fingerprint()
    for ours, wanted in zip(again.model.get_weights(), read.model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, wanted)
    written = getattr(transformers, f"AutoModelFor{task}").from_pretrained(tmp_path / "out").eval()
    token_ids, wanted = theirs(tmp_path / "out", written, TEXTS, 30)
    torch = pytest.importorskip("torch")
    with torch.no_grad():
        logits = original(
            torch.tensor(token_ids), attention_mask=torch.tensor(token_ids != token_ids.min())
        ).logits
    assert logits.shape == wanted.shape


def test_what_is_written_must_be_of_the_family(tmp_path: Path) -> None:
    save_encoder("bert", "", tmp_path / "hub")
    _, tokenizer = read_encoder(tmp_path / "hub")
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8}
    model = kt.EncoderModel(tokenizer.vocabulary_size, 2, pooling="mean", **sizes)
    with pytest.raises(ValueError, match=r"The nearest, .*Received: .*pooling='mean'"):
        save_hugging_face(kt.TextClassifier(model, tokenizer, ["a", "b"]), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    words = kt.text.WhitespaceTokenizer(["a"])
    model = kt.EncoderModel(words.vocabulary_size, 2, pooling="mean", **sizes)
    with pytest.raises(
        ValueError, match=r"the tokenizer of BERT or RoBERTa.* Received: .*WhitespaceTokenizer"
    ):
        save_hugging_face(kt.TextClassifier(model, words, ["a", "b"]), tmp_path / "out")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bert")
    save_encoder("bert", "SequenceClassification", directory)
    return directory


MANY = 10**9
VALUES: list[tuple[str, tuple[str, ...], object, str]] = [
    (
        "config.json",
        ("architectures",),
        ["BertForQuestionAnswering"],
        "`architectures` must have BertModel or",
    ),
    (
        "config.json",
        ("position_embedding_type",),
        "relative_key",
        "`position_embedding_type` must be absolute",
    ),
    ("config.json", ("is_decoder",), True, "`is_decoder` must be False"),
    ("config.json", ("add_cross_attention",), True, "`add_cross_attention` must be False"),
    ("config.json", ("problem_type",), "regression", "`problem_type` must be .* Received: 'regression', 3"),
    ("config.json", ("problem_type",), [], "`problem_type` must be a valid string"),
    ("config.json", ("id2label",), {"0": "a", "1": "b"}, "`id2label` must have a label for each of the 3"),
    ("config.json", ("id2label",), {"0": "a", "1": "b", "7": "c"}, "`id2label` must have a label for each"),
    ("config.json", ("id2label",), {"0": "a", "1": "b", "2": "b"}, "`id2label` must have each label once"),
    ("config.json", ("id2label",), 7, "`id2label` must be"),
    ("config.json", ("hidden_act",), "mish", "`hidden_act`: the activation must be one of"),
    ("config.json", ("hidden_size",), 6 * 10**8, "`hidden_size` must be 24"),
    ("config.json", ("num_hidden_layers",), MANY, "`num_hidden_layers` must be 2"),
    ("config.json", ("num_attention_heads",), 5, "`num_heads` must divide .*There: .*`num_attention_heads`"),
    ("config.json", ("intermediate_size",), "x", "`intermediate_size` must be a valid integer"),
    ("config.json", ("vocab_size",), MANY, "`vocab_size`"),
    ("config.json", ("type_vocab_size",), 3, "`type_vocab_size` must be 2, as in the weights"),
    ("config.json", ("max_position_embeddings",), 41, "`max_position_embeddings` must be 40"),
    ("config.json", ("layer_norm_eps",), -1, "`layer_norm_epsilon` must be .*There: `layer_norm_eps`"),
    ("config.json", ("pad_token_id",), 1000, "`pad_token_id` must be an id below"),
    ("config.json", ("model_type",), "roberta", "`architectures` must have RobertaModel"),
    ("tokenizer_config.json", ("do_lower_case",), "yes", "`do_lower_case` must be"),
    ("tokenizer_config.json", ("do_basic_tokenize",), False, "`do_basic_tokenize` must be true"),
    ("tokenizer_config.json", ("cls_token",), "<s>", r"`cls_token` must be '\[CLS\]'. Received: '<s>'"),
    ("tokenizer_config.json", ("mask_token",), {"content": 5}, r"`mask_token` must be '\[MASK\]'"),
    ("tokenizer_config.json", ("tokenizer_class",), "AlbertTokenizer", "the tokenizer must be one of"),
    (
        "tokenizer_config.json",
        ("added_tokens_decoder",),
        {"20": {"content": "x9", "special": False}},
        "added token 'x9' must have a separate id",
    ),
]


@pytest.mark.parametrize(("name", "keys", "value", "message"), VALUES)
def test_one_value_is_named(
    name: str, keys: tuple[str, ...], value: object, message: str, bert: Path, tmp_path: Path
) -> None:
    shutil.copytree(bert, tmp_path / "hub")
    edit(tmp_path / "hub" / name, keys, value)
    with pytest.raises(InputError, match=message) as raised:
        kt.from_hugging_face(tmp_path / "hub")
    assert name in str(raised.value) or "added token" in message
    assert "\n" not in str(raised.value)


def edit(path: Path, keys: tuple[Any, ...], value: object) -> None:
    table = json.loads(path.read_text())
    place = table
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path.write_text(json.dumps(table))


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("model",), 5, "`model` must be of the type 'WordPiece'. Received: 5"),
        (("model", "type"), "Unigram", "must be of the type 'WordPiece'. Received: 'Unigram'"),
        (("model", "vocab"), [], "`vocab` must be"),
        (("model", "vocab", "dog"), MANY, "the id of 'dog' must be from 0 to 4194303. Received: 1000000000"),
        (("model", "unk_token"), "?", r"`unk_token` must be '\[UNK\]'. Received: '\?'"),
        (("model", "continuing_subword_prefix"), "@@", "`continuing_subword_prefix` must be '##'"),
        (("model", "max_input_chars_per_word"), 50, "`max_input_chars_per_word` must be 100. Received: 50"),
        (("normalizer",), {"type": "NFKC"}, "`normalizer` must be a BertNormalizer"),
        (("normalizer", "clean_text"), False, "`clean_text` must be true"),
        (("pre_tokenizer",), {"type": "WhitespaceSplit"}, "must be a BertPreTokenizer. Received: 'White"),
        (("post_processor",), None, r"must make \[CLS\] TEXT \[SEP\] of a text. Received: TEXT\."),
        (
            ("post_processor",),
            {"type": "BertProcessing", "sep": ["[CLS]", 3], "cls": ["[SEP]", 4]},
            r"of a text. Received: \[SEP\] TEXT \[CLS\]",
        ),
        (("post_processor",), {"type": "Split"}, "`post_processor` must add tokens around a text"),
        (("post_processor", "single"), [5], "`post_processor` must add tokens around a text"),
    ],
)
def test_values_of_a_tokenizer_of_one_file(
    keys: tuple[str, ...], value: object, message: str, bert: Path, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    shutil.copytree(bert, tmp_path / "hub")
    (tmp_path / "hub" / "vocab.txt").unlink()
    transformers.AutoTokenizer.from_pretrained(bert).save_pretrained(tmp_path / "hub")
    edit(tmp_path / "hub" / "tokenizer_config.json", ("tokenizer_class",), "PreTrainedTokenizerFast")
    edit(tmp_path / "hub" / "tokenizer.json", keys, value)
    with pytest.raises(InputError, match=rf"tokenizer\.json.*{message}") as raised:
        kt.from_hugging_face(tmp_path / "hub")
    assert "\n" not in str(raised.value)


def with_byte_pairs(directory: Path, **changes: Any) -> Path:
    """Save a RoBERTa whose tokenizer is `tokenizer.json` alone."""
    save_encoder("roberta", "SequenceClassification", directory)
    tokenizer = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(directory)
    tokenizer.save_pretrained(directory)
    for name in ("vocab.json", "merges.txt"):
        (directory / name).unlink(missing_ok=True)
    edit(directory / "tokenizer_config.json", ("tokenizer_class",), "PreTrainedTokenizerFast")
    for name, value in changes.items():
        edit(directory / "tokenizer.json", tuple(name.split("__")), value)
    return directory


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"post_processor": None}, "`post_processor` must make <s> TEXT </s> of a text. Received: TEXT"),
        ({"model__ignore_merges": True}, "`ignore_merges` must not be set. Received: True"),
        ({"model__end_of_word_suffix": "g"}, "`end_of_word_suffix` must not be set. Received: 'g'"),
    ],
)
def test_byte_pairs_of_one_file(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert kt.from_hugging_face(with_byte_pairs(tmp_path / "good")).labels
    with pytest.raises(InputError, match=message):
        kt.from_hugging_face(with_byte_pairs(tmp_path / "other", **changes))


def test_added_tokens_that_absorb_spaces(tmp_path: Path) -> None:
    transformers, tokenizers = map(pytest.importorskip, ("transformers", "tokenizers"))
    model = save_encoder("roberta", "SequenceClassification", tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    left = tokenizers.AddedToken("<left>", lstrip=True, special=True)
    theirs.add_special_tokens({"extra_special_tokens": [left]})
    theirs.add_tokens([tokenizers.AddedToken("newtok", lstrip=True)])
    model.resize_token_embeddings(len(theirs))
    model.save_pretrained(tmp_path)
    theirs.save_pretrained(tmp_path)
    ours = kt.from_hugging_face(tmp_path).tokenizer
    for text in ("a <left> dog", "a  newtok dog", "<left>newtok", "a<left>  <left> newtok"):
        [ids] = np.array(ours.padded_ids([text], 30))
        assert ours.original_ids[ids].tolist() == theirs(text).input_ids
    theirs.add_tokens([tokenizers.AddedToken("right", rstrip=True)])
    model.resize_token_embeddings(len(theirs))
    model.save_pretrained(tmp_path)
    theirs.save_pretrained(tmp_path)
    with pytest.raises(
        InputError, match=r"`rstrip` of added tokens must be false\. Received: true for 'right'"
    ):
        kt.from_hugging_face(tmp_path)


def test_the_length_limit_of_a_tokenizer(bert: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    shutil.copytree(bert, tmp_path / "hub")
    edit(tmp_path / "hub" / "tokenizer_config.json", ("model_max_length",), 10)
    classifier, text = kt.from_hugging_face(tmp_path / "hub"), "a dog runs fast " * 9
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hub")
    ids = classifier.token_ids([text])[0]
    assert classifier.tokenizer.original_ids[ids].tolist() == theirs(text, truncation=True).input_ids
    edit(tmp_path / "hub" / "tokenizer_config.json", ("model_max_length",), int(1e30))
    assert kt.from_hugging_face(tmp_path / "hub").max_length == kt.from_hugging_face(bert).max_length


def test_added_tokens(bert: Path, tmp_path: Path) -> None:
    """Special ones are read from a text; others would be found in lower case, and are refused there."""
    shutil.copytree(bert, tmp_path / "hub")
    path = tmp_path / "hub" / "tokenizer_config.json"
    edit(path, ("added_tokens_decoder",), {"1": {"content": "[E1]", "special": True}})
    _, tokenizer = read_encoder(tmp_path / "hub")
    names = tokenizer.tokens(tokenizer.tokenize(["a [E1]dog"])).numpy()[0].tolist()
    assert names == [b"[START]", b"a", b"[E1]", b"dog"]
    edit(path, ("added_tokens_decoder",), {"1": {"content": "[unused0]", "special": False}})
    with pytest.raises(InputError, match=r"added tokens must be special ones. Received: '\[unused0\]'"):
        read_encoder(tmp_path / "hub")


def test_what_a_directory_cannot_be(bert: Path, tmp_path: Path) -> None:
    save_encoder("bert", "", tmp_path / "plain")
    with pytest.raises(InputError, match=r"config\.json: a BertModel has no classes: give `labels` of texts"):
        kt.from_hugging_face(tmp_path / "plain")
    with pytest.raises(InputError, match="has no languages"):
        kt.from_hugging_face(bert, "de")
    with pytest.raises(
        InputError, match=r"options of a BertForSequenceClassification are .* Received: search"
    ):
        kt.from_hugging_face(bert, search=kt.decoding.BeamSearch(4))
    with pytest.raises(ValueError, match="`pooling` needs `num_outputs`"):
        read_encoder(bert, pooling="first")
    (tmp_path / "marian").mkdir()
    (tmp_path / "marian" / "config.json").write_text('{"model_type": "marian"}')
    with pytest.raises(
        InputError, match=r"`model_type` must be one of bert, distilbert, roberta. Received: 'marian'"
    ):
        read_encoder(tmp_path / "marian")
