"""What the committed exports answer, as SavedModels and as models of the package with their weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import keras_transformer as kt

SOURCES = Path(__file__).parent / "sources"
SAVED_MODELS = Path(__file__).parents[2] / "saved_models"

Arrays = dict[str, np.ndarray]

# How each was made; the weights are in the directory.
SIZES: dict[str, dict[str, Any]] = {
    "dates": {"num_layers": 2, "hidden_dim": 64, "num_heads": 4, "intermediate_dim": 256},
    "cmudict": {"num_layers": 4, "hidden_dim": 128, "num_heads": 4, "intermediate_dim": 512},
}
MAX_TARGET_LENGTH = 40
NUM_SPECIAL_TOKENS = 4  # the first lines of a vocabulary
NUM_ALIGNED = 20
SEARCHES = {"greedy": kt.decoding.GreedySearch(), "beam": kt.decoding.BeamSearch(4, early_stopping=True)}


def served(name: str) -> Arrays:
    """Ask each signature of an export, of which this package only reads the outputs."""
    model, texts = kt.export.ServedModel(_directory(name)), _sources(name)
    best = model.translate_with_scores(texts, batch_size=len(texts))
    arrays = {"best": _texts(best), "best/score": _scores(best)}
    arrays |= _n_best(model.n_best(texts, batch_size=len(texts)))
    return {**arrays, **_given(model, texts, [answer.text for answer in best])}


def rebuilt(name: str) -> Arrays:
    """Translate with a model of the package that has the weights of an export."""
    translator, texts, arrays = rebuilt_translator(name), _sources(name), {}
    for kind, search in SEARCHES.items():
        translator.search = search
        answers = translator.n_best(texts, batch_size=len(texts))
        arrays |= {f"{kind}/{key}": array for key, array in _n_best(answers).items()}
    return {**arrays, **_given(translator, texts, [hypotheses[0].text for hypotheses in answers])}


def rebuilt_translator(name: str) -> kt.Translator:
    """Rebuild what was exported."""
    directory = _directory(name)
    source, target = (
        _vocabulary(directory / "assets" / f"{side}_vocabulary.txt") for side in ("source", "target")
    )
    if name == "dates":
        source_tokenizer = kt.text.CharacterTokenizer(source, lowercase=True, normalize_spaces=True)
        target_tokenizer = kt.text.CharacterTokenizer(target)
    else:
        source_tokenizer = kt.text.CharacterTokenizer(source)
        target_tokenizer = kt.text.WhitespaceTokenizer(target)
    sizes = source_tokenizer.vocabulary_size, target_tokenizer.vocabulary_size
    model = kt.Transformer(*sizes, norm_first=True, **SIZES[name])
    weights = tf.train.load_checkpoint(str(directory / "variables" / "variables"))
    model.set_weights(
        [
            weights.get_tensor(f"model_variables/{number}/.ATTRIBUTES/VARIABLE_VALUE").astype("float32")
            for number in range(len(model.weights))
        ]
    )
    return kt.Translator(model, source_tokenizer, target_tokenizer, max_target_length=MAX_TARGET_LENGTH)


def _directory(name: str) -> Path:
    return SAVED_MODELS / name / "1"


def _sources(name: str) -> list[str]:
    return (SOURCES / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")


def _vocabulary(path: Path) -> list[str]:
    """Read the entries after the special tokens."""
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return [json.loads(line) for line in lines][NUM_SPECIAL_TOKENS:]


def _texts(answers: list[Any]) -> np.ndarray:
    return np.array([answer.text for answer in answers])


def _scores(answers: list[Any]) -> np.ndarray:
    return np.array([answer.score for answer in answers], "float32")


def _n_best(answers: list[list[Any]]) -> Arrays:
    """Flatten hypotheses; there may be fewer of some sources."""
    flat = [answer for hypotheses in answers for answer in hypotheses]
    counts = np.array([len(hypotheses) for hypotheses in answers])
    return {"n_best": _texts(flat), "n_best/score": _scores(flat), "n_best/count": counts}


def _given(model: Any, texts: list[str], targets: list[str]) -> Arrays:
    """Score targets, and align the first sources."""
    # Each target also of another source, so that scores of bad ones are among them.
    scores = model.score([*texts, *texts], [*targets, *targets[1:], targets[0]], batch_size=2 * len(texts))
    alignments = model.align(texts[:NUM_ALIGNED], batch_size=NUM_ALIGNED)
    return {
        "score": _scores(scores),
        "score/num_tokens": np.array([score.num_tokens for score in scores]),
        "align": _texts(alignments),
        "align/score": _scores(alignments),
        "align/tokens": np.array([" ".join((*one.source_tokens, *one.output_tokens)) for one in alignments]),
        "align/attention": np.concatenate([one.attention.ravel() for one in alignments]),
    }
