"""A decoder alone that continues strings: prompts of any lengths, scores, streams, saving."""

import math
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from helpers import array
from keras_transformer.decoding import BeamSearch, Constraints, GreedySearch, SampleSearch
from keras_transformer.errors import InputError
from keras_transformer.tasks import TruncationWarning
from keras_transformer.text import CharacterTokenizer

PROMPTS = ["abc", "", "d", "cabbed"]
SEARCHES = [
    GreedySearch(),
    GreedySearch(constraints=Constraints(repetition_penalty=1.3, min_length=7)),
    BeamSearch(3),
    SampleSearch(1.2, top_k=6, num_samples=2, seed=5),
]


@pytest.fixture(scope="module")
def model() -> keras.Model:
    """Random weights so large that other prompts have other continuations, the same on each backend."""
    model = kt.CausalLM(9, num_layers=2, hidden_dim=8, num_heads=2, intermediate_dim=16, tie_output=False)
    rng = np.random.default_rng(4)
    for weight in model.trainable_variables:
        if len(weight.shape) > 1:
            weight.assign(rng.normal(size=weight.shape))
    return model


@pytest.fixture
def generator(model: Any) -> kt.TextGenerator:
    return kt.TextGenerator(model, CharacterTokenizer("abcde"), max_length=12)


def log_probability(model: Any, prompt: str, text: str, *, ends: bool) -> float:
    """Sum the log-probabilities of what follows a prompt, from one pass of the model."""
    ids = [2, *(4 + "abcde".index(letter) for letter in text), *([3] if ends else [])]
    logits = array(model(np.array([ids], "int32")))[0].astype("float64")
    totals = np.log(np.exp(logits).sum(-1))
    first = len(prompt)
    return sum(logits[at, ids[at + 1]] - totals[at] for at in range(first, len(ids) - 1))


@pytest.mark.parametrize(
    "search",
    [
        pytest.param(search, marks=[] if isinstance(search, BeamSearch) else pytest.mark.slow)
        for search in SEARCHES
    ],
    ids=lambda search: type(search).__name__,
)
def test_each_prompt_is_continued_as_it_is_alone(generator: kt.TextGenerator, search: Any) -> None:
    generator.search = search
    together = generator.n_best(PROMPTS)
    assert len({hypotheses[0].text for hypotheses in together}) == len(PROMPTS)
    # A sample depends on the number of its text in the call, which stays the same here.
    alone = [generator.n_best(PROMPTS, batch_size=1)[number] for number in range(len(PROMPTS))]
    for prompt, hypotheses, expected in zip(PROMPTS, together, alone, strict=True):
        assert [h.text for h in hypotheses] == [h.text for h in expected]
        scores = [h.score for h in expected]
        assert [h.score for h in hypotheses] == pytest.approx(scores, rel=1e-4, abs=1e-5)
        assert all(h.text.startswith(prompt) for h in hypotheses)
    if not isinstance(search, SampleSearch):
        assert generator.generate(PROMPTS[::-1]) == [h[0].text for h in together[::-1]]


@pytest.mark.slow
def test_a_prompt_is_continued_as_generate_does(generator: kt.TextGenerator, model: Any) -> None:
    """The prompt alone, without a prefix, is another way to the same tokens."""
    for prompt in ("abc", "d"):
        ids = np.concatenate([[[2]], generator.tokenizer.tokenize([prompt]).to_tensor()], axis=1)
        result = kt.decoding.generate(model, ids, generator.search, max_length=12 - len(prompt))
        [rest] = generator.tokenizer.detokenize(array(result.token_ids)[:, 0]).numpy()
        [output] = generator.translate_with_scores([prompt])
        assert output.text == prompt + rest.decode()
        assert output.score == pytest.approx(float(result.scores[0, 0]), abs=1e-4)


@pytest.mark.slow
def test_scores_are_those_of_what_follows(generator: kt.TextGenerator, model: Any) -> None:
    for prompt, output in zip(PROMPTS, generator.translate_with_scores(PROMPTS), strict=True):
        ends = len(output.text) < 12
        wanted = log_probability(model, prompt, output.text, ends=ends)
        assert output.score == pytest.approx(wanted, abs=1e-4)
    generator.search = BeamSearch(2, length_penalty=0.6)
    texts = ["abca", "ed", "", "cab"]  # the last shares two tokens with a prompt that it does not begin with
    prompts = ["abc", "", "", "cadd"]
    given = [3, 0, 0, 2]
    for score, prompt, text, num in zip(generator.score(prompts, texts), prompts, texts, given, strict=True):
        assert score.num_tokens == len(text) + 1 - num
        wanted = log_probability(model, prompt[:num], text, ends=True)
        assert score.score == pytest.approx(wanted / ((5 + len(text) + 1) / 6) ** 0.6, abs=1e-4)
    best = generator.n_best(["abc"])[0][0]
    if len(best.text) < 12:
        assert generator.score(["abc"], [best.text])[0].score == pytest.approx(best.score, abs=1e-4)


def test_long_prompts_are_cut_off_and_others_are_not(generator: kt.TextGenerator) -> None:
    long, whole = "abcde" * 4, "abcdeabcdea"  # eleven tokens leave one
    with pytest.warns(TruncationWarning, match=r"1 of 3 were longer .*\(max_length=12\)"):
        outputs = generator.generate([long, whole, "a"])
    assert outputs[0].startswith(long[:11])
    assert outputs[1].startswith(whole)
    assert outputs[2] == generator.generate(["a"])[0]


@pytest.mark.slow
def test_a_stream_is_the_output(generator: kt.TextGenerator) -> None:
    for prompt in PROMPTS:
        assert "".join(generator.stream(prompt)) == generator.generate([prompt])[0]
    sample = SampleSearch(seed=3)
    generator.search = sample
    assert "".join(generator.stream("ab", sample)) == generator.generate(["ab"])[0]


def test_it_is_saved_and_loaded(generator: kt.TextGenerator, tmp_path: Path) -> None:
    generator.search = SampleSearch(0.7, seed=1)
    generator.save(tmp_path)
    loaded = kt.TextGenerator.load(tmp_path)
    assert (loaded.search, loaded.max_length) == (generator.search, 12)
    assert loaded.generate(PROMPTS) == generator.generate(PROMPTS)
    with pytest.raises(InputError, match=r"it has no translator\.json"):
        kt.Translator.load(tmp_path)


def test_what_it_is_not_made_for_is_refused(
    generator: kt.TextGenerator, model: Any, transformer: Any
) -> None:
    tokenizer = generator.tokenizer
    with pytest.raises(
        TypeError,
        match=r"`align` needs a task that has it among serving_default, .*\. Received: a TextGenerator",
    ):
        generator.align(["a"])
    with pytest.raises(TypeError, match=r"`model` must be a CausalLM\. Received: Transformer"):
        kt.TextGenerator(transformer, tokenizer)
    message = (
        r"`tokenizer` must .*`text\.as_tokenizer`.*tokenizer\.vocabulary_size=6, model vocabulary size=9"
    )
    with pytest.raises(ValueError, match=message):
        kt.TextGenerator(model, CharacterTokenizer("ab"))
    with pytest.raises(ValueError, match=r"`search` must be without .*: first_token_ids=\(4,\)\."):
        generator.with_changes(search=GreedySearch(constraints=Constraints(first_token_ids=(4,))))
    with pytest.raises(ValueError, match=r"Length ratios need sources"):
        kt.TextGenerator(
            model, tokenizer, search=GreedySearch(constraints=Constraints(max_length_ratio=2.0))
        ).generate(["a"])


@pytest.mark.slow
def test_learned_positions_are_the_limit() -> None:
    model = kt.CausalLM(
        9, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8, positions="learned", max_length=6
    )
    generator = kt.TextGenerator(model, CharacterTokenizer("abcde"))
    assert generator.max_length == 6
    assert generator.generate(["abcde"])[0].startswith("abcde")
    assert math.isfinite(generator.score(["a"], ["abcde"])[0].score)
