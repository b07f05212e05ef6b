"""Pretrained translators: the tokens and texts of `transformers`, in memory, saved and exported."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.decoding import BeamSearch, GreedySearch, SampleSearch
from keras_transformer.errors import InputError
from keras_transformer.export import ServedModel, export_saved_model
from keras_transformer.pretrained import from_hugging_face
from keras_transformer.tasks import TruncationWarning
from pretrained_models import CORPUS, LANGUAGES, TRANSLATORS, save_translator

pytestmark = [
    pytest.mark.backend,
    # Of transformers' Marian tokenizer, which does not normalize punctuation by itself in any case.
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
]
SOURCES = [*CORPUS[:5], "the", "dog Männer green"]
END = 3


def their_tokens(theirs: Any, translator: Translator, **options: Any) -> list[list[int]]:
    """Return what `generate` gives for our ids of the sources, in our ids, without start and padding."""
    torch = pytest.importorskip("torch")
    source = translator.token_ids(SOURCES)
    inputs = torch.tensor(translator.source_tokenizer.original_ids[source])
    outputs = theirs.generate(inputs, attention_mask=torch.tensor(source != 0), **options).numpy()
    ours = {theirs: number for number, theirs in enumerate(translator.target_tokenizer.original_ids)}
    rows = [[ours[token] for token in row[1:] if ours[token]] for row in outputs]
    # Beams there fill up with the end token where padding is 0.
    return [row[: row.index(END) + 1] if END in row else row for row in rows]


def our_tokens(translator: Translator) -> list[list[int]]:
    best = np.asarray(translator.generate(translator.token_ids(SOURCES)).token_ids)[:, 0]
    return [[int(token) for token in row if token] for row in best]


@pytest.fixture
def _without_traces() -> Iterator[None]:
    """Search eagerly, for which tracing three searches takes longer than they do."""
    if keras.backend.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.slow
@pytest.mark.usefixtures("_without_traces")
@pytest.mark.parametrize("family", TRANSLATORS)
def test_tokens_are_those_of_generate(family: str, tmp_path: Path) -> None:
    rules = {"length_penalty": 0.8, "no_repeat_ngram_size": 3, "min_length": 4}
    theirs = save_translator(family, tmp_path, num_beams=4, **rules)
    translator = from_hugging_face(tmp_path, *LANGUAGES.get(family, ()))
    ids, first = translator.target_tokenizer.original_ids, {}
    search = translator.search
    if search.constraints.first_token_ids:
        first["forced_bos_token_id"] = int(ids[search.constraints.first_token_ids[0]])
    if ids[2] >= 0:
        first["decoder_start_token_id"] = int(ids[2])
    assert isinstance(search, BeamSearch)
    assert search.beam_size == 4
    assert len(first) == (family in ("m2m100", "mbart", "mbart50"))
    [end] = translator.source_tokenizer.tokens([translator.source_tokenizer.end_ids]).numpy().tolist()
    assert end == [b"[END]", *([b"de_DE"] if family == "mbart" else [])]
    assert our_tokens(translator) == their_tokens(theirs, translator, **first)
    translator.search = dataclasses.replace(search, beam_size=5)
    assert our_tokens(translator) == their_tokens(theirs, translator, num_beams=5, **first)
    translator.search = GreedySearch(constraints=search.constraints, special_ids=search.special_ids)
    assert our_tokens(translator) == their_tokens(theirs, translator, num_beams=1, **first)


@pytest.mark.slow
@pytest.mark.usefixtures("_without_traces")
@pytest.mark.parametrize(
    ("family", "rules"),
    [
        # These start from the end token, which counts as generated.
        ("bart", {"num_beams": 3, "repetition_penalty": 1.5}),
        ("bart", {"no_repeat_ngram_size": 1}),
        ("mbart50", {"num_beams": 2, "renormalize_logits": True, "no_repeat_ngram_size": 2}),
        ("marian", {"num_beams": 3, "renormalize_logits": True, "repetition_penalty": 1.3}),
    ],
)
def test_rules_change_scores_as_there(family: str, rules: dict[str, Any], tmp_path: Path) -> None:
    theirs = save_translator(family, tmp_path, forced_eos_token_id=None, **rules)
    for bias in (0.0, 3.0, 4.0):
        theirs.final_logits_bias[0, theirs.config.eos_token_id] = bias
        theirs.save_pretrained(tmp_path)
        translator = from_hugging_face(tmp_path, *LANGUAGES.get(family, ()))
        first = translator.search.constraints.first_token_ids
        forced = [int(translator.target_tokenizer.original_ids[token]) for token in first]
        options = {"forced_bos_token_id": forced[0]} if forced else {}
        assert our_tokens(translator) == their_tokens(theirs, translator, **options)


def test_the_end_among_banned_tokens(tmp_path: Path) -> None:
    theirs = save_translator("marian", tmp_path, bad_words_ids=[[0]], forced_eos_token_id=None)
    translator = from_hugging_face(tmp_path)
    assert our_tokens(translator) == their_tokens(theirs, translator)  # it bans nothing there
    save_translator("marian", tmp_path, suppress_tokens=[5, 0], forced_eos_token_id=None)
    with pytest.raises(InputError, match=r"`suppress_tokens` must leave 0, the end\. Received: \(5, 0\)\."):
        from_hugging_face(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="an export")
def test_a_language_after_the_end_is_kept(tmp_path: Path) -> None:
    save_translator("mbart", tmp_path, num_beams=2)
    translator = from_hugging_face(tmp_path, "de_DE", "en_XX", max_source_length=6)
    ids = translator.token_ids(SOURCES)
    ends = list(translator.source_tokenizer.end_ids)
    assert [row[row > 0][-2:].tolist() for row in ids] == [ends] * len(SOURCES)
    assert translator.model.config.share_embeddings
    with pytest.warns(TruncationWarning):
        outputs = translator.translate(SOURCES)
    translator.save(tmp_path / "saved")
    loaded = Translator.load(tmp_path / "saved")
    with pytest.warns(TruncationWarning):
        assert loaded.translate(SOURCES) == outputs
    export_saved_model(loaded, tmp_path / "exported", SOURCES[:1])
    with pytest.warns(TruncationWarning):
        assert ServedModel(tmp_path / "exported").translate(SOURCES) == outputs


def test_texts_are_those_of_transformers(tmp_path: Path) -> None:
    theirs = save_translator("marian", tmp_path, num_beams=2)
    tokenizer = pytest.importorskip("transformers").MarianTokenizer.from_pretrained(tmp_path)
    outputs = theirs.generate(**tokenizer(SOURCES, return_tensors="pt", padding=True))
    wanted = tokenizer.batch_decode(outputs, skip_special_tokens=True)
    translator = from_hugging_face(tmp_path)
    assert translator.translate(SOURCES) == wanted
    translator.save(tmp_path / "saved")
    assert Translator.load(tmp_path / "saved").translate(SOURCES) == wanted


def test_options_replace_those_of_the_directory(tmp_path: Path) -> None:
    save_translator("marian", tmp_path)
    translator = from_hugging_face(tmp_path, search=BeamSearch(2), max_target_length=5)
    assert (translator.max_source_length, translator.max_target_length) == (64, 5)
    assert translator.search.beam_size == 2
    assert from_hugging_face(tmp_path).max_target_length == 11  # of 12 with the start token


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            {"do_sample": True, "num_beams": 2},
            "`do_sample` must be False with num_beams=2, .*`search=BeamSearch",
        ),
        ({"do_sample": True, "typical_p": 0.9}, "`typical_p` must be 1.0"),
        ({"repetition_penalty": 1.2}, "`repetition_penalty` must be 1.0"),
        ({"num_beams": 10**9}, "`num_beams` must be from 1 to 1000"),
        ({"penalty_alpha": 0.6}, "`penalty_alpha` must be 0.0"),
        ({"num_beam_groups": 2}, "`num_beam_groups` must be 1"),
        ({"num_beams": "four"}, "num_beams='four'"),
        ({"bad_words_ids": [[5000]]}, "must be in the vocabulary .* Received: 5000"),
        ({"forced_eos_token_id": 7}, "must be 0, the end"),
        ({"eos_token_id": [0, 5]}, "`eos_token_id` must be 0"),
    ],
)
def test_a_search_that_is_not_known_is_refused(option: dict[str, Any], message: str, tmp_path: Path) -> None:
    save_translator("marian", tmp_path)
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **option}))
    with pytest.raises(InputError, match=message):
        from_hugging_face(tmp_path)


@pytest.mark.parametrize("option", [{"num_beam_groups": 2}, {"do_sample": True, "num_beams": 3}])
def test_a_search_that_is_given_needs_no_other(option: dict[str, Any], tmp_path: Path) -> None:
    save_translator("marian", tmp_path)
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **option}))
    assert from_hugging_face(tmp_path, search=BeamSearch(7)).search.beam_size == 7


def test_sampling_options_make_a_sampling_search(tmp_path: Path) -> None:
    save_translator("marian", tmp_path, do_sample=True, temperature=0.7, top_k=20, top_p=0.9)
    search = from_hugging_face(tmp_path).search
    assert isinstance(search, SampleSearch)
    assert (search.temperature, search.top_k, search.top_p) == (0.7, 20, 0.9)
    path = tmp_path / "generation_config.json"
    table = json.loads(path.read_text())
    path.write_text(json.dumps({**table, "temperature": None, "top_k": None, "top_p": None}))
    search = from_hugging_face(tmp_path).search
    assert isinstance(search, SampleSearch)
    assert (search.temperature, search.top_k, search.top_p) == (1.0, 50, None)  # its defaults
