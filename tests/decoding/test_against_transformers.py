"""Searches give the tokens and scores of `generate` in transformers, for the same model."""

import dataclasses
import itertools
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
from keras import ops

from helpers import array
from keras_transformer.decoding import BeamSearch, Constraints, GreedySearch, generate, score_tokens
from keras_transformer.types import SpecialIds

torch = pytest.importorskip("torch", reason="needs the torch extra")
transformers = pytest.importorskip("transformers", reason="needs the interop extra")
pytestmark = [
    pytest.mark.backend,
    pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX traces a step, which torch cannot"),
]


SIZE, LENGTH = 24, 12  # the vocabulary, and the most tokens of an output, without the start token
SIZES = {"vocab_size": SIZE, "d_model": 16, "max_position_embeddings": 32}
SIZES |= {f"{side}_{size}": 1 for side in ("encoder", "decoder") for size in ("layers", "attention_heads")}
SIZES |= {f"{side}_ffn_dim": 32 for side in ("encoder", "decoder")}
# Bart starts from the end token, Marian from padding, and may generate its unknown token, 1.
KINDS = {
    "Bart": ("BartForConditionalGeneration", SpecialIds(pad=1, unknown=1, start=2, end=2), 0.3, 2.0),
    "Marian": ("MarianMTModel", SpecialIds(pad=23, unknown=23, start=23, end=0), 0.5, 3.0),
}


class PrefixCache(NamedTuple):
    """The sources and all tokens so far of each hypothesis, `(b, n, any)`."""

    sources: Any
    token_ids: Any

    def reorder(self, rows: Any) -> "PrefixCache":
        flat = ops.reshape(self.token_ids, (-1, self.token_ids.shape[-1]))
        return self._replace(token_ids=ops.reshape(ops.take(flat, rows, axis=0), self.token_ids.shape))

    def grow(self, num_positions: Any) -> "PrefixCache":
        return self


class PlainModel:
    """Reads the whole prefix at each step, without a cache of transformers."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def start_decoding(self, inputs: Any, max_length: Any, beam_size: int = 1, **options: Any) -> Any:
        sources = ops.repeat(inputs[:, None], beam_size, axis=1)
        return self.step, PrefixCache(sources, ops.zeros((*sources.shape[:2], LENGTH), "int32"))

    def step(self, token_ids: Any, position: Any, cache: PrefixCache) -> tuple[Any, PrefixCache]:
        prefix, position = np.array(array(cache.token_ids)), int(position)
        prefix[:, :, position] = array(token_ids).reshape(prefix.shape[:2])
        sources = torch.tensor(np.array(array(cache.sources))).flatten(0, 1).long()
        logits = self.model(
            input_ids=sources,
            attention_mask=sources != self.model.config.pad_token_id,
            decoder_input_ids=torch.tensor(prefix[..., : position + 1]).flatten(0, 1).long(),
            use_cache=False,
        ).logits[:, -1]
        return ops.convert_to_tensor(logits.numpy()), cache._replace(token_ids=ops.convert_to_tensor(prefix))


@pytest.fixture(scope="module", params=KINDS)
def model(request: Any) -> Any:
    """Random weights so large that outputs differ, and a bias with which they end."""
    name, (kind, ids, deviation, bias) = request.param, KINDS[request.param]
    numbers = {"pad_token_id": ids.pad, "eos_token_id": ids.end, "decoder_start_token_id": ids.start}
    torch.manual_seed(3)
    config = getattr(transformers, f"{name}Config")(**SIZES, init_std=deviation, **numbers)
    model = getattr(transformers, kind)(config).eval()
    model.final_logits_bias[0, ids.end] = bias
    # Of its own, a configuration has a length and forced tokens.
    model.generation_config = transformers.GenerationConfig(**numbers)
    with torch.no_grad():
        model.model.decoder.embed_positions.weight *= 3
        yield model


def sources_of(model: Any, number: int) -> Any:
    """Draw sources `(b, s)` of different lengths, ended and padded."""
    rng = np.random.default_rng(number)
    token_ids = rng.integers(3, SIZE - 1, size=(number, 9))
    ends = rng.integers(1, 9, size=(number, 1))
    token_ids = np.where(np.arange(9) == ends, model.config.eos_token_id, token_ids)
    return np.where(np.arange(9) > ends, model.config.pad_token_id, token_ids).astype("int32")


def theirs(search: Any, ids: SpecialIds) -> dict[str, Any]:
    """Return the options of `generate` for a search."""
    rules = search.constraints
    options = {
        "max_length": LENGTH + 1,  # with the start token
        "num_beams": search.beam_size,
        "num_return_sequences": search.num_outputs,
        "no_repeat_ngram_size": rules.no_repeat_ngram_size,
        "min_length": rules.min_length,  # with the start token, but without the end token
        "repetition_penalty": rules.repetition_penalty,
        # Ours never generates padding.
        "bad_words_ids": [
            *([each] for each in (ids.pad, *rules.banned_token_ids)),
            *map(list, rules.banned_sequences),
        ],
        "forced_bos_token_id": rules.first_token_ids[0] if rules.first_token_ids else None,
        "forced_eos_token_id": ids.end if rules.force_end else None,
        "begin_suppress_tokens": list(rules.banned_first_token_ids) or None,
    }
    if search.beam_size > 1:
        options |= {"length_penalty": search.length_penalty, "early_stopping": search.early_stopping}
    return options


def check(model: Any, search: Any, number: int) -> tuple[int, int]:
    """Raise for other tokens or scores than those of transformers, ties excepted.

    Returns the numbers of different outputs, and of different lengths.
    """
    [ids] = (ids for kind, ids, *_ in KINDS.values() if kind == type(model).__name__)
    sources = sources_of(model, number)
    # transformers counts the start as generated; it can be generated again only where it is the end.
    seen = (ids.end,) if ids.start == ids.end else ()
    rules = dataclasses.replace(search.constraints, seen_token_ids=seen)
    search = dataclasses.replace(search, special_ids=ids, constraints=rules)
    inputs = torch.tensor(sources).long()
    outputs = model.generate(
        inputs,
        attention_mask=(inputs != ids.pad).long(),
        return_dict_in_generate=True,
        output_scores=True,
        **theirs(search, ids),
    )
    wanted = outputs.sequences[:, 1:].numpy()
    wanted = np.pad(wanted, [(0, 0), (0, LENGTH - wanted.shape[1])])
    is_after_end = np.cumsum(wanted == ids.end, axis=1) - (wanted == ids.end) > 0
    wanted = np.where(is_after_end, ids.pad, wanted).reshape(number, search.num_outputs, LENGTH)
    token_ids, scores = map(array, generate(PlainModel(model), sources, search, LENGTH))
    if search.beam_size > 1:
        # Where two hypotheses tie, the order of additions decides; their scores are the same.
        wanted_scores = outputs.sequences_scores.numpy().reshape(scores.shape)
        np.testing.assert_allclose(scores, wanted_scores, rtol=1e-4, atol=1e-4)
    is_same = (token_ids == wanted).all(axis=(1, 2))
    assert (~is_same).mean() <= 0.01
    lengths = (wanted[:, 0] != ids.pad).sum(axis=1)
    return len(set(map(tuple, wanted[:, 0]))), len(set(lengths))


def beam(beam_size: int = 4, early_stopping: Any = False, length_penalty: float = 1.0, **options: Any) -> Any:
    """Return the search that is that of transformers."""
    return BeamSearch(
        beam_size,
        early_stopping=early_stopping,
        length_penalty=length_penalty,
        length_normalization="length",
        cut_off_competes=True,
        num_hypotheses=options.pop("num_hypotheses", None),
        constraints=Constraints(**options),
    )


RULES: list[dict[str, Any]] = [
    {"min_length": 6},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 3, "force_end": True},
    {"first_token_ids": (7,)},
    {"first_token_ids": (7,), "force_end": True, "min_length": 4},
    {"banned_token_ids": (5, 9)},
    {"banned_sequences": ((4, 5), (6, 7, 8), (10, 10))},
    {"banned_first_token_ids": (5, 9)},
]
STOPPING = list(itertools.product([4, 5], [True, False, "never"], [0.0, 0.6, 1.0, 2.0]))
SEARCHES = [
    *(GreedySearch(constraints=Constraints(**rules)) for rules in [{}, *RULES]),
    *(beam(*options) for options in STOPPING),
    *(beam(4, stopping, num_hypotheses=1) for stopping in (True, False, "never")),
    *(beam(5, **rules) for rules in [*RULES, {"repetition_penalty": 1.3}]),
    beam(5, "never", 2.0, **RULES[4]),
]


def test_outputs_differ_and_end(model: Any) -> None:
    num_outputs, num_lengths = check(model, beam(), 48)
    assert num_outputs > 16
    assert num_lengths > 5


@pytest.mark.parametrize("search", [SEARCHES[5], *SEARCHES[9:21:5], SEARCHES[-5], SEARCHES[-1]])
def test_tokens_and_scores_are_those_of_transformers(model: Any, search: Any) -> None:
    check(model, search, 24)


def test_scores_of_tokens_are_the_transition_scores_of_transformers(model: Any) -> None:
    [ids] = (ids for kind, ids, *_ in KINDS.values() if kind == type(model).__name__)
    sources = sources_of(model, 16)
    inputs = torch.tensor(sources).long()
    mask = (inputs != ids.pad).long()
    options = {"return_dict_in_generate": True, "output_scores": True, "max_length": LENGTH + 1}
    outputs = model.generate(inputs, attention_mask=mask, **options)
    wanted = model.compute_transition_scores(outputs.sequences, outputs.scores, normalize_logits=True)
    targets = outputs.sequences[:, 1:].numpy()

    def logits(inputs: dict[str, Any]) -> Any:
        token_ids = {name: torch.tensor(np.array(array(each))).long() for name, each in inputs.items()}
        found = model(token_ids["encoder_token_ids"], mask, token_ids["decoder_token_ids"], use_cache=False)
        return ops.convert_to_tensor(found.logits.numpy())

    found = score_tokens(logits, sources, targets, special_ids=ids, num_alternatives=1)
    is_token = array(found.is_scored)
    assert is_token.sum() > 40
    scores = np.where(is_token, wanted.numpy(), 0)
    np.testing.assert_allclose(array(found.log_probabilities), scores, atol=1e-5)
    np.testing.assert_array_equal(array(found.alternative_ids)[..., 0], np.where(is_token, targets, ids.pad))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "search"), [*zip(itertools.cycle(KINDS), SEARCHES, strict=False)], indirect=["model"]
)
def test_tokens_and_scores_of_many_sources_are_those_of_transformers(model: Any, search: Any) -> None:
    check(model, search, 200)
