"""Whisper: the logits, the features, the tokens and the texts of `transformers`."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keras_transformer as kt
from helpers import array, draw
from keras_transformer.errors import InputError
from keras_transformer.pretrained import from_hugging_face, read_tokenizers
from keras_transformer.pretrained.languages import _spoken_code
from keras_transformer.tasks import TruncationWarning
from keras_transformer.text import Reader
from pretrained_models import save_whisper

pytestmark = pytest.mark.backend
RATE = 16_000


def audio(num: int, seed: int = 0) -> list[np.ndarray]:
    """Draw noise of different lengths and volumes."""
    generator = np.random.default_rng(seed)
    sizes, volumes = generator.integers(1, RATE, num), generator.uniform(0.01, 0.5, num)
    rows = zip(sizes, volumes, strict=True)
    return [(volume * generator.normal(size=size)).astype("float32") for size, volume in rows]


def change(path: Path, **values: object) -> None:
    """Change values of a table in a file."""
    table = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**table, **values}), encoding="utf-8")


def test_logits_are_those_of_transformers(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    theirs, _ = save_whisper(tmp_path)
    end, size = theirs.config.eos_token_id, theirs.config.vocab_size
    translator = from_hugging_face(tmp_path, "de")
    model, target_ids = translator.model, translator.target_tokenizer.original_ids
    assert target_ids.tolist() == [-1, -1, -1, end, *(number for number in range(size) if number != end)]
    assert model.max_length == 24
    frames, target = draw(3, 100, 10), np.random.default_rng(1).integers(3, size + 3, (3, 7))
    target[:, 0] = 2
    logits = array(model({"encoder_features": frames, "decoder_token_ids": target}))
    ids = np.where(target == 2, theirs.config.decoder_start_token_id, target_ids[target])
    with torch.no_grad():
        features = torch.tensor(frames.transpose(0, 2, 1))
        wanted = theirs(input_features=features, decoder_input_ids=torch.tensor(ids)).logits.numpy()
    np.testing.assert_allclose(logits[..., 3:], wanted[..., target_ids[3:]], rtol=0, atol=1e-4)
    assert (logits[..., :3] < -900).all()


@pytest.mark.parametrize("num_mels", [pytest.param(80, marks=pytest.mark.slow), 128])
def test_features_are_those_of_transformers(num_mels: int, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    save_whisper(tmp_path)
    change(tmp_path / "config.json", num_mel_bins=num_mels, max_source_positions=1500)
    theirs = transformers.WhisperFeatureExtractor(num_mels)
    theirs.save_pretrained(tmp_path)
    ours, _ = read_tokenizers(tmp_path, "de")
    times = np.arange(30 * RATE) / RATE
    samples = {
        "noise": 0.1 * draw(9 * RATE + 77),
        "silence": np.zeros(RATE, "float32"),
        "short": draw(3),
        "nothing": draw(0),
        "long": draw(31 * RATE),
        "chirp": np.sin(2 * np.pi * (100 + 80 * times) * times).astype("float32"),
    }
    for name, each in samples.items():
        # In NumPy: with torch it computes in float32.
        padded = np.pad(each[: 30 * RATE], (0, max(0, 30 * RATE - len(each))))
        [wanted] = theirs._np_extract_fbank_features(padded[None], "cpu")
        frames = ours.frames(each[None], 3000).numpy()
        np.testing.assert_allclose(frames[0], wanted.T, rtol=0, atol=1e-5, err_msg=name)
    assert ours.frames(np.zeros((0, 5), "float32"), 3000).shape == (0, 3000, num_mels)
    # What is not read is silence.
    [first] = ours.frames(samples["noise"][None], 50).numpy()
    [wanted] = ours.frames(samples["noise"][None, :8000], 3000).numpy()
    np.testing.assert_array_equal(first, wanted)
    ours.save(tmp_path / "features")
    again = Reader.load(tmp_path / "features")
    np.testing.assert_array_equal(again.frames(samples["short"][None], 3000), frames_of(ours, samples))


def frames_of(tokenizer: Any, samples: dict[str, np.ndarray]) -> np.ndarray:
    frames: np.ndarray = tokenizer.frames(samples["short"][None], 3000).numpy()
    return frames


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_multilingual", "generation"),
    [(True, {}), (False, {"min_new_tokens": 6}), (True, {"num_beams": 4}), (True, {"min_new_tokens": 6})],
)
def test_outputs_are_those_of_transformers(
    is_multilingual: bool, generation: dict[str, int], tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    theirs, processor = save_whisper(tmp_path, is_multilingual=is_multilingual, **generation)
    languages = ("de", "en") if is_multilingual else ()
    translator = from_hugging_face(tmp_path, *languages)
    sources = audio(20)
    features = processor(sources, sampling_rate=RATE, return_tensors="pt").input_features
    options = {"language": "de", "task": "translate"} if is_multilingual else {}
    with torch.no_grad():
        wanted = theirs.generate(features, return_timestamps=False, **options)
    token_ids = array(translator.generate(translator.token_ids(sources)).token_ids)[:, 0]
    num_first = len(translator.target_tokenizer.prefix_ids)
    assert num_first == (3 if is_multilingual else 1)
    theirs_ids = translator.target_tokenizer.original_ids[token_ids][:, num_first:]
    # Padding is the end there.
    theirs_ids = np.where(theirs_ids < 0, theirs.config.eos_token_id, theirs_ids)
    width = min(theirs_ids.shape[1], wanted.shape[1])
    np.testing.assert_array_equal(theirs_ids[:, :width], wanted.numpy()[:, :width])
    texts = processor.batch_decode(wanted, skip_special_tokens=True)
    assert len(set(texts)) > 1
    assert translator.translate(sources, batch_size=7) == texts
    assert [each.text for each in translator.align(sources[:2])] == texts[:2]


def test_texts_and_prefixes(tmp_path: Path) -> None:
    _, processor = save_whisper(tmp_path, forced_decoder_ids=[[1, None], [2, 331]])
    # The forms of version 5 and of those before.
    settings = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    _, new = read_tokenizers(tmp_path, "de")
    added = {token["content"]: token["id"] for token in settings["added_tokens"]}
    change(tmp_path / "added_tokens.json", **added)
    change(tmp_path / "vocab.json", **settings["model"]["vocab"])
    merges = [" ".join(merge) for merge in settings["model"]["merges"]]
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]), encoding="utf-8")
    (tmp_path / "tokenizer.json").unlink()
    _, old = read_tokenizers(tmp_path, "de")
    assert old.fingerprint() == new.fingerprint()
    for text in (" Ein Hund läuft über die Wiese.", "A dog!\n", "\N{DOG} 12", ""):
        [ids] = new.tokenize([text]).to_list()
        processor.tokenizer.set_prefix_tokens("de", "transcribe")
        wanted = processor.tokenizer(text).input_ids[1:-1]
        assert new.original_ids[ids].tolist() == wanted
        assert new.detokenize([ids]).numpy()[0].decode() == text
    # Times are no text.
    times = [number for number, piece in enumerate(new.tokens([range(new.vocabulary_size)]).numpy()[0])]
    assert new.detokenize([times[-51:]]).numpy()[0] == b""


def prefix(directory: Path, *languages: str) -> str:
    _, tokenizer = read_tokenizers(directory, *languages)
    return b" ".join(tokenizer.tokens([tokenizer.prefix_ids]).numpy()[0]).decode()


def test_languages_and_tasks(tmp_path: Path) -> None:
    save_whisper(tmp_path)
    path = tmp_path / "generation_config.json"
    transcribed = "<|de|> <|transcribe|> <|notimestamps|>"
    translated = "<|de|> <|translate|> <|notimestamps|>"
    assert prefix(tmp_path, "de") == prefix(tmp_path, "de", "de") == transcribed
    assert prefix(tmp_path, "de", "en") == translated
    message = "`source_language` must be one of de, en, zh. Received: source_language=None"
    with pytest.raises(InputError, match=message):
        read_tokenizers(tmp_path)
    with pytest.raises(InputError, match=r"must be one of de, en, zh\. Received: source_language='fr'"):
        read_tokenizers(tmp_path, "fr")
    with pytest.raises(InputError, match=r"must be one of de, en\. Received: target_language='zh'"):
        read_tokenizers(tmp_path, "de", "zh")
    forced = read_tokenizers(tmp_path, "de", "en")[1]
    ids = [int(forced.original_ids[number]) for number in forced.prefix_ids]
    change(path, forced_decoder_ids=[*enumerate(ids, 1)])
    assert prefix(tmp_path) == translated
    assert prefix(tmp_path, "de", "de") == transcribed
    change(path, language="<|en|>", task="transcribe")
    assert prefix(tmp_path) == "<|en|> <|transcribe|> <|notimestamps|>"
    change(path, is_multilingual=False)
    assert prefix(tmp_path) == "<|notimestamps|>"
    with pytest.raises(InputError, match="the model has no languages of this kind"):
        read_tokenizers(tmp_path, "de")


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    save_whisper(tmp_path)
    path = tmp_path / "preprocessor_config.json"
    for name, value, message in (
        ("sampling_rate", 8000, "sampling_rate must be 16000. Received: 8000"),
        (
            "chunk_length",
            30,
            "100 frames of 10 mels, as the model reads them. Received: chunk_length=30, feat",
        ),
        ("feature_size", 80, "Received: chunk_length=1, feature_size=80"),
    ):
        path.write_text(json.dumps({"chunk_length": 1, "feature_size": 10, name: value}), encoding="utf-8")
        with pytest.raises(InputError, match=message):
            read_tokenizers(tmp_path, "de")
    path.unlink()
    change(tmp_path / "generation_config.json", return_timestamps=True)
    with pytest.raises(InputError, match="`return_timestamps` must be False or None, since no search here"):
        from_hugging_face(tmp_path, "de")


@pytest.mark.slow
def test_a_translator_of_audio(tmp_path: Path) -> None:
    save_whisper(tmp_path / "theirs")
    translator = from_hugging_face(tmp_path / "theirs", "de", "en")
    assert (translator.max_source_length, translator.max_target_length) == (100, 23)
    sources = audio(3)
    texts = translator.translate(sources)
    assert translator.translate([]) == []
    # In the language of the translator, without its search.
    assert "".join(translator.stream(sources[0])) == texts[0]
    ensemble = kt.models.Ensemble([translator.model] * 2)
    assert translator.with_changes(model=ensemble).translate(sources) == texts
    # A score is that of the tokens after those that are forced.
    targets = [" A dog.", " Kind", ""]
    scores = translator.score(sources, targets)
    ids = [translator.target_tokenizer.padded_ids([text], 23).numpy() for text in targets]
    for source, target, score in zip(sources, ids, scores, strict=True):
        inputs = {"encoder_features": translator.token_ids([source])}
        shifted = np.concatenate([[[2]], target[:, :-1]], axis=1)
        logits = array(translator.model({**inputs, "decoder_token_ids": shifted})).astype("float64")
        logits -= logits.max(axis=-1, keepdims=True)
        chosen = np.take_along_axis(logits, target[..., None], axis=-1)[0, :, 0]
        total = (chosen - np.log(np.exp(logits).sum(axis=-1))[0])[3:].sum()
        np.testing.assert_allclose(score.score, total / (target.shape[1] - 3), rtol=1e-4)
        assert score.num_tokens == target.shape[1] - 3
    with pytest.warns(TruncationWarning, match="1 of 2 were longer .*max_source_length=100"):
        [cut, _] = translator.translate([np.tile(draw(RATE), 2), sources[0]])
    assert cut == translator.translate([draw(RATE)])[0]
    translator.save(tmp_path / "ours")
    assert kt.Translator.load(tmp_path / "ours").translate(sources) == texts
    for wrong, error, message in (
        (["Hallo"], TypeError, r"floats \(n,\). Received: texts\[0\] of <U5 and shape \(\)"),
        ("Hallo", TypeError, "`texts` must be several arrays"),
        ([np.zeros(9, "int16")], TypeError, r"Received: texts\[0\] of int16 and shape \(9,\)"),
        ([draw(3), draw(3, 2)], TypeError, r"Received: texts\[1\] of float32 and shape \(3, 2\)"),
        ([np.full(3, np.nan)], ValueError, r"NaN or infinity in texts\[0\]"),
    ):
        with pytest.raises(error, match=message):
            translator.translate(wrong)
    other = kt.Transformer(None, translator.target_tokenizer.vocabulary_size, encoder_feature_dim=7, **SIZES)
    with pytest.raises(ValueError, match="frames of 10 numbers, a model with encoder_feature_dim=7"):
        kt.Translator(other, translator.source_tokenizer, translator.target_tokenizer)


SIZES: dict[str, Any] = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}


@pytest.mark.slow
def test_an_export_of_audio(tmp_path: Path) -> None:
    save_whisper(tmp_path / "theirs")
    translator = from_hugging_face(tmp_path / "theirs", "de")
    rules = dataclasses.asdict(translator.search) | {"constraints": translator.search.constraints}
    translator.search = kt.decoding.BeamSearch(2, **rules)
    sources = audio(5)
    # It compares the answers of all signatures itself, in a process without Keras.
    directory = kt.export.export_saved_model(translator, tmp_path / "saved", sources)
    served = kt.export.ServedModel(directory)
    assert served.translate(sources) == translator.translate(sources)
    hypotheses, wanted = served.n_best(sources[:2]), translator.n_best(sources[:2])
    assert [[each.text for each in row] for row in hypotheses] == [
        [each.text for each in row] for row in wanted
    ]
    [alignment] = served.align(sources[:1])
    assert alignment.source_tokens == tuple(f"{number / 50:.2f}" for number in range(50))
    assert alignment.attention.shape == (len(alignment.output_tokens), 50)
    [score] = served.score(sources[:1], [" A dog."])
    [of_pair] = translator.score(sources[:1], [" A dog."])
    np.testing.assert_allclose(score.score, of_pair.score, rtol=1e-4)
    assert "`audio`, float32 (b, s)" in (directory / "README.md").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"for a model that reads frames.*Received: optimize='xla'\."):
        kt.export.export_saved_model(translator, tmp_path / "xla", sources, "xla")
    with pytest.raises(ValueError, match="a translator that reads 'audio'"):
        kt.export.export_litert(translator, tmp_path / "model.tflite")
    with pytest.raises(ValueError, match="no frames"):
        kt.export.export_ctranslate2(translator, tmp_path / "ctranslate2")
    with pytest.raises(TypeError, match=r"Received: texts\[0\] of <U5"):
        served.translate(["Hallo"])


@pytest.mark.parametrize("name", ["german", "German", "<|de|>", "de"])
def test_a_language_has_a_name_too(name: str, tmp_path: Path) -> None:
    save_whisper(tmp_path, language=name)
    assert prefix(tmp_path) == "<|de|> <|transcribe|> <|notimestamps|>"
    assert prefix(tmp_path, "mandarin") == "<|zh|> <|transcribe|> <|notimestamps|>"
    assert prefix(tmp_path, "german", "english") == "<|de|> <|translate|> <|notimestamps|>"


def test_languages_have_the_names_of_transformers() -> None:
    languages = pytest.importorskip("transformers.models.whisper.tokenization_whisper")
    for name, code in languages.TO_LANGUAGE_CODE.items():
        assert _spoken_code(name) == code
