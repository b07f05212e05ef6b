"""Translators go out to `transformers`, where they answer the same, and come back equal."""

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from helpers import array
from keras_transformer.decoding import BeamSearch, Constraints, GreedySearch, SampleSearch
from keras_transformer.errors import InputError
from keras_transformer.pretrained import from_hugging_face, save_hugging_face
from keras_transformer.text import CharacterTokenizer, SubwordTokenizer, WhitespaceTokenizer
from pretrained_models import CORPUS, LANGUAGES, save_translator

pytestmark = [
    pytest.mark.backend,
    # Of transformers' Marian tokenizer, which does not normalize punctuation by itself in any case.
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
]
BEAM = BeamSearch(3, length_normalization="length", early_stopping=False, cut_off_competes=True)
SIZES = {"num_layers": 2, "hidden_dim": 16, "num_heads": 4, "intermediate_dim": 24}
LEARNED = {"positions": "learned", "max_length": 30, "normalize_embeddings": True, "layer_norm_epsilon": 1e-5}
T5 = {"normalization": "rms", "positions": "relative", "norm_first": True, "use_bias": False}
GATED = {**T5, "gated": True, "activation": "gelu_tanh", "head_dim": 9}
# By name: the class there, both sizes of vocabularies, and what differs from our defaults.
CASES: dict[str, tuple[str, tuple[int, int], dict[str, Any]]] = {
    "paper": ("MarianMTModel", (37, 41), {}),
    "paper-small-target": ("MarianMTModel", (41, 37), {"output_bias": True}),
    "paper-shared": ("MarianMTModel", (41, 41), {"share_embeddings": True, "activation": "silu"}),
    "paper-shared-layers": ("MarianMTModel", (41, 41), {"share_layers": True}),
    "paper-untied": ("MarianMTModel", (37, 41), {"tie_output": False}),
    "paper-shared-untied": ("MarianMTModel", (41, 41), {"share_embeddings": True, "tie_output": False}),
    "concatenated": ("MarianMTModel", (41, 41), {"positions": "sinusoidal_concatenated"}),
    "pre-norm": ("PegasusForConditionalGeneration", (41, 41), {"norm_first": True, "share_embeddings": True}),
    "pre-norm-small-source": ("PegasusForConditionalGeneration", (37, 41), {"norm_first": True}),
    "pre-norm-small-target": (
        "PegasusForConditionalGeneration",
        (41, 37),
        {"norm_first": True, "tie_output": False},
    ),
    "bart": ("BartForConditionalGeneration", (41, 41), {**LEARNED, "share_positions": False}),
    "bart-one-table": (
        "BartForConditionalGeneration",
        (41, 41),
        {**LEARNED, "scale_embeddings": False, "share_embeddings": True, "activation": "gelu"},
    ),
    "mbart": (
        "MBartForConditionalGeneration",
        (41, 41),
        {**LEARNED, "norm_first": True, "share_positions": False},
    ),
    "t5": ("UMT5ForConditionalGeneration", (41, 41), {**T5, "share_embeddings": True}),
    "t5-unscaled": ("UMT5ForConditionalGeneration", (41, 41), {**GATED, "scale_embeddings": False}),
    "t5-untied": ("UMT5ForConditionalGeneration", (41, 41), {**GATED, "tie_output": False}),
}
CLASSES = {name: kind for name, (kind, *_) in CASES.items()}


def alphabet(size: int) -> CharacterTokenizer:
    """Return a tokenizer of so many ids."""
    return CharacterTokenizer([chr(0x4E00 + number) for number in range(size - 4)])


def randomized(model: Any, scale: float = 0.3) -> Any:
    draw = np.random.default_rng(1)
    for weight in model.weights:
        is_scale = weight.path.endswith(("gamma", "scale"))
        weight.assign(scale * draw.normal(size=weight.shape) + is_scale)
    return model


def make(name: str, search: Any = BEAM) -> kt.Translator:
    _, sizes, options = CASES[name]
    source, target = map(alphabet, sizes)
    model = randomized(kt.Transformer(*sizes, **{**SIZES, **options}))
    return kt.Translator(model, source, target, search=search, max_source_length=30, max_target_length=12)


def their_model(directory: Path) -> Any:
    return pytest.importorskip("transformers").AutoModelForSeq2SeqLM.from_pretrained(directory).eval()


def their_tokenizer(directory: Path) -> Any:
    return pytest.importorskip("transformers").AutoTokenizer.from_pretrained(directory)


def their_texts(directory: Path, texts: list[str]) -> list[str]:
    source = target = their_tokenizer(directory)
    if (directory / "target_tokenizer").exists():
        target = their_tokenizer(directory / "target_tokenizer")
    outputs = their_model(directory).generate(**source(texts, return_tensors="pt", padding=True))
    return target.batch_decode(outputs, skip_special_tokens=True)


def their_ids(directory: Path, texts: list[str]) -> list[list[int]]:
    return their_tokenizer(directory)(texts)["input_ids"]


def our_ids(translator: kt.Translator, texts: list[str]) -> list[list[int]]:
    """Return the ids of the directory."""
    ids = translator.token_ids(texts)
    return [translator.source_tokenizer.original_ids[row[row != 0]].tolist() for row in ids]


def batch(translator: kt.Translator) -> dict[str, np.ndarray]:
    sizes = translator.source_tokenizer.vocabulary_size, translator.target_tokenizer.vocabulary_size
    draw = np.random.default_rng(2)
    source, target = (draw.integers(4, size, (3, length)) for size, length in zip(sizes, (9, 7), strict=True))
    for row, length in enumerate((9, 4, 6)):
        source[row, length - 1] = 3
        source[row, length:] = 0
        target[row, length:] = 0
    target[:, 0] = 2
    return {"encoder_token_ids": source, "decoder_token_ids": target}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "t5" else pytest.mark.slow) for name in CASES]
)
def test_logits_are_the_same_there_and_back(name: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    translator = make(name)
    save_hugging_face(translator, tmp_path / "hub")
    model = their_model(tmp_path / "hub")
    assert type(model).__name__ == CLASSES[name]
    inputs = batch(translator)
    source, target = (torch.tensor(each) for each in inputs.values())
    with torch.no_grad():
        wanted = model(input_ids=source, attention_mask=source != 0, decoder_input_ids=target).logits.numpy()
    is_token, logits = inputs["decoder_token_ids"] != 0, array(translator.model(inputs))
    size = logits.shape[-1]
    np.testing.assert_allclose(logits[is_token], wanted[is_token][:, :size], rtol=0, atol=1e-4)
    # Rows that are no token are never written.
    assert (wanted[..., size:] < -900).all()
    again = from_hugging_face(tmp_path / "hub")
    np.testing.assert_allclose(array(again.model(inputs))[is_token], logits[is_token], rtol=0, atol=1e-4)
    if name in ("concatenated", "bart", "mbart", "t5"):
        for weight, each in zip(again.model.weights, translator.model.weights, strict=True):
            np.testing.assert_array_equal(array(weight), array(each))
    assert again.search == translator.search
    for side in ("source_tokenizer", "target_tokenizer"):
        assert getattr(again, side).fingerprint() == getattr(translator, side).fingerprint()
    max_source_length = 512 if name.startswith("t5") else 30
    assert (again.max_source_length, again.max_target_length) == (max_source_length, 12)
    # What is read is what is written: bit for bit, except where factors are no powers of two.
    save_hugging_face(again, tmp_path / "again")
    files = [(tmp_path / each / "model.safetensors").read_bytes() for each in ("hub", "again")]
    assert files[0] == files[1] or name in ("t5-unscaled", "t5-untied")


SOURCES = ["一丁丂", "七丄丅丆万丈三", "上下", "丌不与丏丐丑丒专且丕世", "字"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "search"),
    [
        ("paper", GreedySearch()),
        ("pre-norm-small-target", BEAM),
        ("t5", BEAM),
    ],
)
def test_texts_are_the_same(name: str, search: Any, tmp_path: Path) -> None:
    rules = Constraints(
        min_length=3, no_repeat_ngram_size=2, banned_token_ids=(7,), banned_sequences=((5, 6),)
    )
    translator = make(name, dataclasses.replace(search, constraints=rules))
    save_hugging_face(translator, tmp_path / "hub")
    wanted = translator.translate(SOURCES)
    assert len(set(wanted)) > 2  # else nothing is compared
    assert their_texts(tmp_path / "hub", SOURCES) == wanted
    again = from_hugging_face(tmp_path / "hub")
    assert again.translate(SOURCES) == wanted
    assert again.search.constraints == rules


TEXTS = [*CORPUS[:6], "two men , sitting", "Ä", "a  b\u2028c\td\n", " ﬁ x² 😀 Ǆ", "ΑΣ ΣΑ İstanbul", "e\u0301"]


@pytest.fixture(scope="module")
def english() -> SubwordTokenizer:
    return SubwordTokenizer.train(CORPUS, vocabulary_size=120)


def tokenizers(kind: str, english: SubwordTokenizer) -> tuple[Any, Any]:
    lower = CharacterTokenizer.train(TEXTS, lowercase=True, normalize_spaces=True)
    words = WhitespaceTokenizer.train(TEXTS)
    return {
        "one-of-subwords": (english, english),
        "two-of-subwords": (english, SubwordTokenizer.train(CORPUS[2:4], 36, "unigram")),
        "characters": (CharacterTokenizer.train(TEXTS),) * 2,
        "words-in-lower-case": (WhitespaceTokenizer.train(TEXTS, lowercase=True),) * 2,
        "characters-and-words": (lower, words),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "norm_first"),
    [
        pytest.param("one-of-subwords", False, marks=pytest.mark.slow),
        pytest.param("two-of-subwords", False, marks=pytest.mark.slow),
        pytest.param("two-of-subwords", True, marks=pytest.mark.slow),
        pytest.param("characters", True, marks=pytest.mark.slow),
        pytest.param("words-in-lower-case", False, marks=pytest.mark.slow),
        ("characters-and-words", True),
    ],
)
def test_strings_have_the_same_ids_and_outputs(
    kind: str, norm_first: bool, english: SubwordTokenizer, tmp_path: Path
) -> None:
    source, target = tokenizers(kind, english)
    sizes = source.vocabulary_size, target.vocabulary_size
    model = randomized(kt.Transformer(*sizes, **{**SIZES, "num_layers": 1}, norm_first=norm_first), 0.5)
    # Else random weights repeat one token.
    search = dataclasses.replace(BEAM, constraints=Constraints(no_repeat_ngram_size=1))
    translator = kt.Translator(model, source, target, search=search, max_target_length=12)
    save_hugging_face(translator, tmp_path / "hub")
    assert their_ids(tmp_path / "hub", TEXTS) == our_ids(translator, TEXTS)
    wanted = translator.translate(TEXTS)
    assert len(set(wanted)) > 2
    # Marian's leaves out spaces at the ends.
    outputs = [text.strip() for text in wanted] if "subwords" in kind else wanted
    assert their_texts(tmp_path / "hub", TEXTS) == outputs
    again = from_hugging_face(tmp_path / "hub")
    assert again.translate(TEXTS) == wanted
    for side in ("source_tokenizer", "target_tokenizer"):
        assert getattr(again, side).fingerprint() == getattr(translator, side).fingerprint()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["one-of-subwords", "characters"])
def test_what_they_save_is_read(kind: str, english: SubwordTokenizer, tmp_path: Path) -> None:
    source, target = tokenizers(kind, english)
    model = randomized(kt.Transformer(source.vocabulary_size, target.vocabulary_size, **SIZES))
    translator = kt.Translator(model, source, target, search=BEAM, max_target_length=12)
    save_hugging_face(translator, tmp_path / "hub")
    for load in (their_model, their_tokenizer):
        load(tmp_path / "hub").save_pretrained(tmp_path / "theirs")
    again = from_hugging_face(tmp_path / "theirs")
    assert again.translate(TEXTS) == translator.translate(TEXTS)


def test_words_of_another_kind_are_refused(tmp_path: Path) -> None:
    save_hugging_face(make("paper-shared"), tmp_path / "hub")
    path = tmp_path / "hub" / "tokenizer.json"
    table = json.loads(path.read_text())
    vocabulary = {"type": "WordLevel", "vocab": {"[PAD]": 0, "a": 2}, "unk_token": "[UNK]"}
    for changed, message in (
        ({**table, "pre_tokenizer": {"type": "Whitespace"}}, "as this package. Received: .*'Whitespace'"),
        ({**table, "model": vocabulary}, "must start with .'.PAD.', "),
    ):
        path.write_text(json.dumps(changed))
        with pytest.raises(InputError, match=message):
            from_hugging_face(tmp_path / "hub")


@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    ["marian", "t5", "byt5", "bart", "m2m100", "nllb", "mbart50"],
)
def test_an_import_goes_out_again(family: str, tmp_path: Path) -> None:
    save_translator(family, tmp_path / "original", num_beams=3)
    translator = from_hugging_face(tmp_path / "original", *LANGUAGES.get(family, ()))
    for step in ("hub", "trained"):
        save_hugging_face(translator, tmp_path / step)
        assert their_ids(tmp_path / step, CORPUS[:6]) == our_ids(translator, CORPUS[:6])
        wanted = translator.translate(CORPUS[:6])
        assert their_texts(tmp_path / step, CORPUS[:6]) == wanted
        assert from_hugging_face(tmp_path / step).translate(CORPUS[:6]) == wanted
        original, written = (
            json.loads((tmp_path / name / "config.json").read_text()) for name in ("original", step)
        )
        assert original["model_type"] == written["model_type"]
        # As training does. A start that has been trained is no other token any more.
        for weight in translator.model.trainable_weights:
            weight.assign(array(weight) + 0.1 * np.random.default_rng(3).normal(size=weight.shape))


def test_what_a_family_does_not_have_is_not_trained(tmp_path: Path) -> None:
    save_translator("t5", tmp_path / "t5")
    model = from_hugging_face(tmp_path / "t5").model
    names = {weight.path.split("/")[-1] for weight in model.weights if not weight.trainable}
    assert {"bias", "biases"} <= names
    save_translator("m2m100", tmp_path / "m2m100")
    model = from_hugging_face(tmp_path / "m2m100", "en", "de").model
    again = type(model).from_config(model.get_config())
    for each in (model, again):
        assert not each.position_encoding.embeddings.trainable
        assert each.source_embedding.embeddings.trainable


@pytest.mark.slow
def test_a_global_policy_of_half_precision(tmp_path: Path) -> None:
    save_translator("marian", tmp_path / "original", num_beams=3)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        save_hugging_face(from_hugging_face(tmp_path / "original"), tmp_path / "hub")
    finally:
        keras.config.set_dtype_policy("float32")
    texts = from_hugging_face(tmp_path / "original").translate(CORPUS[:6])
    assert from_hugging_face(tmp_path / "hub").translate(CORPUS[:6]) == texts


def test_t5_keeps_its_family(tmp_path: Path) -> None:
    save_translator("t5", tmp_path / "original")
    translator = from_hugging_face(tmp_path / "original")
    save_hugging_face(translator, tmp_path / "hub")
    assert type(their_model(tmp_path / "hub")).__name__ == "T5ForConditionalGeneration"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "rotary": (
        {"positions": "rotary"},
        r"MarianMTModel, has positions='sinusoidal_concatenated'. .*='rotary'",
    ),
    "learned": ({"positions": "learned", "max_length": 30}, "has normalize_embeddings=True. .*=False"),
    "rms": ({"normalization": "rms"}, "has normalization='layer'. Received: normalization='rms'"),
    "gate": ({"gated": True}, "Received: gated=True"),
    "biases": ({"use_bias": False}, "Received: use_bias=False"),
    "heads": ({"num_key_value_heads": 2}, "has num_key_value_heads=4. Received: num_key_value_heads=2"),
    "widths": ({"head_dim": 6}, "has head_dim=4. Received: head_dim=6"),
    "end": ({"final_norm": True}, "has norm_first=True. Received: norm_first=False"),
    "epsilon": ({"layer_norm_epsilon": 1e-3}, "has layer_norm_epsilon=1e-05. .*=0.001"),
    "exact": ({**GATED, "activation": "gelu"}, "has activation='gelu_tanh'. Received: activation='gelu'"),
    "activation": ({"activation": "tanh"}, "activation must be one of relu, .* Received: 'tanh'"),
    "bias": ({**T5, "output_bias": True}, "has output_bias=False. Received: output_bias=True"),
    "tiny": (
        {**LEARNED, "layer_norm_epsilon": 1e-9, "tie_output": False},
        "a difference of .*=1e-05 in place of 1e-09",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_model_that_does_not_fit_is_refused_by_name(case: str, tmp_path: Path) -> None:
    options, message = REFUSED[case]
    model = randomized(kt.Transformer(41, 41, **{**SIZES, **options}))
    if case == "tiny":  # so that the epsilon counts
        for weight in model.weights:
            if weight.path.endswith("embeddings"):
                weight.assign(weight * 0.001)
    translator = kt.Translator(model, alphabet(41), alphabet(41), search=BEAM, max_target_length=12)
    with pytest.raises((ValueError, InputError), match=message):
        save_hugging_face(translator, tmp_path / "hub")
    assert not [*tmp_path.iterdir()]


def refused(model: Any, place: Path) -> None:
    save_hugging_face(kt.Translator(model, alphabet(41), alphabet(41), search=BEAM), place / "hub")


def test_other_models_are_refused(tmp_path: Path) -> None:
    models = [randomized(kt.Transformer(41, 41, **SIZES)) for _ in range(2)]
    ensemble = kt.models.Ensemble(models)
    with pytest.raises(ValueError, match=r"must be a single `Transformer`\. Received: a Ensemble"):
        refused(ensemble, tmp_path)
    models[0].quantize("int8")
    with pytest.raises(ValueError, match="weights of floats"):
        refused(models[0], tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (
            BeamSearch(4),
            "`length_normalization` .* must be 'length', .* Received: length_normalization='gnmt'",
        ),
        (dataclasses.replace(BEAM, cut_off_competes=False), "`cut_off_competes` .* must be True"),
        (dataclasses.replace(BEAM, num_hypotheses=1), "Received: num_hypotheses=1"),
        (dataclasses.replace(BEAM, constraints=Constraints(max_length_ratio=2.0)), "max_length_ratio=2.0"),
        (
            dataclasses.replace(BEAM, constraints=Constraints(repetition_penalty=1.5)),
            "repetition_penalty=1.5",
        ),
        (dataclasses.replace(BEAM, constraints=Constraints(first_token_ids=(5, 6))), r"Received: \(5, 6\)"),
        (SampleSearch(), "must be a BeamSearch or a GreedySearch. Received: a SampleSearch"),
    ],
)
def test_a_search_that_they_do_not_have_is_refused(search: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        save_hugging_face(make("paper", search), tmp_path / "hub")
    assert not [*tmp_path.iterdir()]


def test_a_tokenizer_that_they_do_not_have_is_refused(english: SubwordTokenizer, tmp_path: Path) -> None:
    lower = SubwordTokenizer(english.proto, lowercase=True)
    characters = CharacterTokenizer.train(CORPUS)
    layer = keras.layers.TextVectorization(vocabulary=["a", "dog", "runs"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        words = kt.text.as_tokenizer(layer)
    for source, target, message in (
        (lower, lower, "must keep the case.* Received: lowercase=True"),
        (english, characters, "of one kind. Received: kinds=.'subword', 'character'."),
        (characters, english, "of words or characters.* Received: kinds=.'character', 'subword'."),
        (words, words, "must be of subwords.* Received: kinds=.'words', 'words'."),
    ):
        model = kt.Transformer(source.vocabulary_size, target.vocabulary_size, **SIZES)
        with pytest.raises(ValueError, match=message):
            save_hugging_face(kt.Translator(model, source, target, search=BEAM), tmp_path / "hub")
        assert not [*tmp_path.iterdir()]


def test_a_directory_that_holds_something_is_kept(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="Cannot write"):
        save_hugging_face(make("paper"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.slow
def test_a_model_of_mixed_precision_goes_out_whole(tmp_path: Path) -> None:
    model = randomized(kt.Transformer(41, 41, **SIZES, dtype="mixed_bfloat16"))
    translator = kt.Translator(model, alphabet(41), alphabet(41), search=BEAM, max_target_length=12)
    save_hugging_face(translator, tmp_path / "hub")
    translator.model = model.with_dtype("float32")
    assert their_texts(tmp_path / "hub", SOURCES) == translator.translate(SOURCES)


@pytest.mark.slow
def test_factors_of_lora_go_out_in_the_kernels(tmp_path: Path) -> None:
    model = randomized(kt.Transformer(41, 41, **SIZES))
    model.enable_lora(2)
    randomized(model)
    translator = kt.Translator(model, alphabet(41), alphabet(41), search=BEAM, max_target_length=12)
    save_hugging_face(translator, tmp_path / "hub")
    assert their_texts(tmp_path / "hub", SOURCES) == translator.translate(SOURCES)
