"""The trained models of the tree answer the same in `transformers`, and when they come back from there."""

import dataclasses
from pathlib import Path

import golden_exports
import keras
import pytest

import keras_transformer as kt

pytestmark = [
    pytest.mark.slow,
    pytest.mark.backend,
    pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the tokenizers need TensorFlow"),
]
SOURCES = {
    "dates": ["27. jan. 2094", "17. JANÚAR 1928", "TISDAG   20 JULI 2038", "26  ก.ย.  2016", "ΣΑΣ 3"],
    "cmudict": ["KERAS", "TRANSFORMER", "WITTGENSTEIN", "QUEUE", "ABBY", "é X"],
}
# As `generate` has it, and as Wu et al. 2016 have it where there is no difference.
SEARCHES = [
    kt.decoding.BeamSearch(4, length_normalization="length", early_stopping=False, cut_off_competes=True),
    kt.decoding.BeamSearch(4, length_penalty=0.0, early_stopping=True, cut_off_competes=True),
    kt.decoding.GreedySearch(),
]


@pytest.mark.parametrize("name", SOURCES)
def test_outputs_are_the_same_there_and_back(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    translator, sources = golden_exports.rebuilt_translator(name), SOURCES[name]
    for number, search in enumerate(SEARCHES):
        translator.search, directory = search, tmp_path / str(number)
        kt.pretrained.save_hugging_face(translator, directory)
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory).eval()
        places = directory, directory / "target_tokenizer"
        source, target = (transformers.AutoTokenizer.from_pretrained(place) for place in places)
        outputs = model.generate(**source(sources, return_tensors="pt", padding=True))
        wanted = translator.translate(sources)
        assert len({*wanted}) == len(sources)
        assert target.batch_decode(outputs, skip_special_tokens=True) == wanted
        again = kt.from_hugging_face(directory)
        assert again.translate(sources) == wanted
        assert again.search == dataclasses.replace(translator.search, length_normalization="length")
