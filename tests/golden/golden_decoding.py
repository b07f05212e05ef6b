"""Tokens and scores of every search, on small models of fixed weights."""

from collections.abc import Iterator
from typing import Any

import golden_models as models
import numpy as np

from helpers import BeamSearch, GreedySearch, SampleSearch, score_targets, target_attention
from keras_transformer.decoding import Constraints, generate, stream_tokens

MAX_LENGTH, SEED = 7, 10
SOURCE = np.array(
    [[5, 3, 9, 2, 7], [4, 8, 6, 3, 0], [10, 3, 0, 0, 0], [7, 7, 4, 9, 3], [1, 6, 10, 3, 0]], "int32"
)
PREFIX = np.array([[5, 11], [7, 0], [0, 0], [4, 4], [12, 0]], "int32")
PROMPT = np.array([[2, 5, 11], [2, 7, 7], [2, 9, 4]], "int32")
TARGET = np.array(
    [[2, 5, 11, 4, 3], [2, 12, 3, 0, 0], [2, 3, 0, 0, 0], [2, 1, 7, 7, 8], [2, 9, 3, 0, 0]], "int32"
)

RULES = {
    "min_length": Constraints(min_length=5),
    "min_length_ratio": Constraints(min_length_ratio=1.2),
    "max_length_ratio": Constraints(max_length_ratio=0.5, max_length_offset=1),
    "banned": Constraints(banned_token_ids=(5, 8)),
    "no_repeat": Constraints(no_repeat_ngram_size=2),
    "repetition": Constraints(repetition_penalty=1.5),
    "together": Constraints(
        min_length=3, max_length_ratio=2.0, banned_token_ids=(6,), no_repeat_ngram_size=1
    ),
}
SEARCHES: dict[str, Any] = {
    "greedy": GreedySearch(length_penalty=0.5),
    "beam": BeamSearch(4, early_stopping=True),
    "beam_1": BeamSearch(1),
    "beam_no_length_penalty": BeamSearch(4, length_penalty=0.0, early_stopping=True),
    "beam_best_two": BeamSearch(5, num_hypotheses=2, length_penalty=0.6, early_stopping=True),
    "beam_exhaustive": BeamSearch(3, early_stopping="never"),
    **{f"greedy_{name}": GreedySearch(constraints=rules) for name, rules in RULES.items()},
    **{
        f"beam_{name}": BeamSearch(3, constraints=RULES[name], early_stopping=True)
        for name in ("max_length_ratio", "repetition", "together")
    },
}
SAMPLES: dict[str, Any] = {
    "plain": SampleSearch(num_samples=3, seed=7),
    "temperature": SampleSearch(temperature=0.6, num_samples=3, seed=7),
    "top_k": SampleSearch(top_k=4, num_samples=3, seed=7),
    "top_p": SampleSearch(top_p=0.7, num_samples=3, seed=7),
    "together": SampleSearch(
        0.8, 6, 0.9, num_samples=4, seed=11, length_penalty=1.0, constraints=Constraints(min_length=4)
    ),
}
# Models whose steps differ from those of the paper's.
MODELS: dict[str, dict[str, Any]] = {
    **{name: models.TRANSFORMER_OPTIONS[name] for name in ("norm_first", "learned", "relative", "modern")},
    "tied": {"tie_output": True},
}


def decoding() -> models.Arrays:
    """Decode with every search, and other models with a beam; score and align."""
    arrays = {}
    for name, result in _results():
        arrays[f"{name}/tokens"] = models.numpy(result.token_ids)
        arrays[f"{name}/scores"] = models.numpy(result.scores)
    model = _model()
    arrays["stream/tokens"] = np.stack(list(stream_tokens(model, GreedySearch(), MAX_LENGTH)(SOURCE)), axis=1)
    for name, each in (("Transformer", model), ("Ensemble", models.ensemble())):
        log_probabilities, num_tokens = score_targets(each, SOURCE, TARGET[:, 1:])
        arrays[f"score_targets/{name}"] = models.numpy(log_probabilities)
        arrays[f"score_targets/{name}/num_tokens"] = models.numpy(num_tokens)
        arrays[f"align_targets/{name}"] = _alignment(each, -1)
    arrays["align_targets/first_layer"] = _alignment(model, 0)
    return arrays


def _alignment(model: Any, layer: int) -> np.ndarray:
    """Return the mean attention of a decoder layer's heads; the rows of padding are 0."""
    scores = target_attention(model, SOURCE, TARGET[:, 1:])
    heads = models.numpy(scores[[name for name in scores if name.endswith("/cross_attention")][layer]])
    return np.where((TARGET[:, 1:] != 0)[..., None], heads.mean(1), 0.0)


def sampling() -> models.Arrays:
    """Draw answers with seeds."""
    arrays = {}
    model, causal_lm = _model(), models.causal_lm(seed=SEED, tie_output=False)
    for name, search in SAMPLES.items():
        results = {
            "generate": generate(model, SOURCE, search, MAX_LENGTH),
            "complete": generate(causal_lm, PROMPT, search, MAX_LENGTH),
        }
        for kind, result in results.items():
            arrays[f"{kind}/{name}/tokens"] = models.numpy(result.token_ids)
            arrays[f"{kind}/{name}/scores"] = models.numpy(result.scores)
    return arrays


def _results() -> Iterator[tuple[str, Any]]:
    """Yield what each search finds."""
    model = _model()
    for name, search in SEARCHES.items():
        yield f"generate/{name}", generate(model, SOURCE, search, MAX_LENGTH)
    greedy, beam = GreedySearch(), BeamSearch(3, early_stopping=True)
    for name, search in (("greedy", greedy), ("beam", beam)):
        yield f"prefix/{name}", generate(model, SOURCE, search, MAX_LENGTH, prefix_ids=PREFIX)
        yield (
            f"complete/{name}",
            generate(models.causal_lm(seed=SEED, tie_output=False), PROMPT, search, MAX_LENGTH),
        )
    for name, options in MODELS.items():
        yield f"Transformer/{name}", generate(_model(**options), SOURCE, beam, MAX_LENGTH)
    of_frames = _model(**models.TRANSFORMER_OPTIONS["frames"])
    yield "frames", generate(of_frames, models.FRAMES, beam, MAX_LENGTH, padding_mask=models.FRAME_MASK)
    yield "Ensemble", generate(models.ensemble(), SOURCE, beam, MAX_LENGTH)
    for name in ("learned", "relative", "modern"):
        causal_lm = models.causal_lm(seed=SEED, tie_output=False, **models.CAUSAL_OPTIONS[name])
        yield f"CausalLM/{name}", generate(causal_lm, PROMPT, beam, MAX_LENGTH)


def _model(**options: Any) -> Any:
    # An output of its own, since one that is tied prefers to repeat a token.
    return models.transformer(**{"seed": SEED, "tie_output": False, **options})
