"""The same weights give the same probabilities and tokens in CTranslate2; directories are whole or absent."""

import ast
import json
import re
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from helpers import BeamSearch, GreedySearch
from keras_transformer._files import Checksums
from keras_transformer.errors import InputError
from keras_transformer.export import export_ctranslate2

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra `interop` is not installed")
pytestmark = pytest.mark.backend

MakeModel = Callable[..., Any]

BASE = {"num_layers": 2, "hidden_dim": 12, "num_heads": 3, "intermediate_dim": 17}
BANNED = [0, 1, 2]
END = 3


def draw_weights(model: keras.Model, seed: int) -> None:
    """Draw biases and scales too, which start as zeros and ones, and larger kernels."""
    rng = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        noise = 0.2 * rng.normal(size=weight.shape)
        value = ops.convert_to_numpy(weight)
        is_kernel = any(name in weight.path for name in ("kernel", "embeddings"))
        weight.assign(1.5 * value if is_kernel else value + noise)


def steer_logits(model: keras.Model, end_logit: float) -> None:
    """Make the banned tokens impossible and the end likely: feature 0 of every state becomes 1."""
    stack = model.decoder
    norm = (
        stack.final_normalization if model.config.norm_first else stack.layers[-1].feed_forward_residual.norm
    )
    for weight, first in ((norm.gamma, 0.0), (norm.beta, 1.0)):
        values = ops.convert_to_numpy(weight).copy()
        values[0] = first
        weight.assign(values)
    tied = model.output_projection.embedding
    weight = model.output_projection.dense.kernel if tied is None else tied.embeddings
    rows = ops.convert_to_numpy(weight).copy()
    table = rows.T if tied is None else rows  # (v, d)
    table[:, 0] = 0.0
    table[BANNED, 0] = -60.0
    table[END, 0] = end_logit
    weight.assign(rows)


@pytest.fixture
def make_model() -> Callable[..., Any]:
    """Make a model from the options that differ; `end_logit` makes its search end soon."""

    def make(seed: int = 0, end_logit: float | None = None, **options: Any) -> Any:
        keras.utils.set_random_seed(seed)
        source_size = 41 if options.get("share_embeddings") else 37
        model = kt.Transformer(source_size, 41, **{**BASE, **options})
        draw_weights(model, seed)
        if end_logit is not None:
            steer_logits(model, end_logit)
        return model

    return make


OPTIONS: list[dict[str, Any]] = [
    {},
    {"norm_first": True, "activation": "gelu", "num_encoder_layers": 1, "num_decoder_layers": 3},
    {"tie_output": False, "layer_norm_epsilon": 0.1, "activation": "silu", "gated": True},
    {"share_embeddings": True, "activation": "tanh", "num_key_value_heads": 1},
    {"share_embeddings": True, "tie_output": False, "norm_first": True, "activation": "sigmoid"},
    {"normalization": "rms", "norm_first": True, "positions": "rotary"},
    {"num_heads": 6, "num_key_value_heads": 2, "positions": "learned", "max_length": 11},
    {"positions": "sinusoidal_concatenated", "output_bias": True},  # Marian
    {"share_layers": True, "num_encoder_layers": 3},
    {  # BART
        "positions": "learned",
        "max_length": 11,
        "share_positions": False,
        "normalize_embeddings": True,
        "scale_embeddings": False,
        "final_norm": True,
        "output_bias": True,
        "tie_output": False,
    },
    {  # T5
        "positions": "relative",
        "use_bias": False,
        "head_dim": 6,
        "normalization": "rms",
        "norm_first": True,
        "gated": True,
        "activation": "gelu_tanh",
        "scale_embeddings": False,
    },
    {"norm_first": True, "final_norm": False, "head_dim": 5, "num_key_value_heads": 1},
]


def target_log_probabilities(model: Any, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Give log p of each target token under our model, in one teacher-forced pass."""
    decoder_input = np.concatenate([np.full((len(target), 1), 2), target[:, :-1]], axis=1)
    logits = model({"encoder_token_ids": source, "decoder_token_ids": decoder_input.astype("int32")})
    log_probabilities = ops.convert_to_numpy(ops.log_softmax(logits))
    return np.take_along_axis(log_probabilities, target[..., None], axis=2)[..., 0]


@pytest.mark.parametrize(
    "options",
    [pytest.param(each, marks=pytest.mark.slow if n % 4 else []) for n, each in enumerate(OPTIONS)],
    ids=str,
)
def test_probabilities_are_the_same(make_model: MakeModel, options: dict[str, Any], tmp_path: Path) -> None:
    model = make_model(**options)
    rng, end = np.random.default_rng(1), np.full((3, 1), 3)
    source, target = rng.integers(4, 37, (3, 7)), rng.integers(4, 41, (3, 9))
    source[1, 4:] = 0  # a shorter neighbor: padding in ours, a ragged batch in theirs
    rows = [[token for token in row if token] for row in source.tolist()]
    padded = np.array([[*row, 3, *[0] * (7 - len(row))] for row in rows], "int32")

    ours = target_log_probabilities(model, padded, np.concatenate([target, end], axis=1))
    theirs = ctranslate2.Translator(str(export_ctranslate2(model, tmp_path / "model"))).score_batch(
        [[str(token) for token in row] for row in rows], [[str(token) for token in row] for row in target]
    )
    np.testing.assert_allclose(ours, [result.log_probs for result in theirs], rtol=1e-5, atol=2e-5)
    assert np.ptp(ours) > 1  # the probabilities differ from token to token


def test_factors_of_lora_are_added(make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model()
    model.enable_lora(2, ("query", "inner"))
    draw_weights(model, 5)
    source, target = np.array([[7, 9, 3]], "int32"), np.array([[5, 8, 11, 3]])
    theirs = ctranslate2.Translator(str(export_ctranslate2(model, tmp_path / "model"))).score_batch(
        [["7", "9"]], [["5", "8", "11"]]
    )
    ours = target_log_probabilities(model, source, target)
    np.testing.assert_allclose(ours[0], theirs[0].log_probs, rtol=1e-5, atol=2e-5)


def test_what_ctranslate2_has_no_layer_for(make_model: MakeModel, tmp_path: Path) -> None:
    message = r"can have `activation` relu, .*sigmoid\. Received: .*activation='elu'"
    with pytest.raises(ValueError, match=message):
        export_ctranslate2(make_model(activation="elu"), tmp_path / "model")


def test_frames_and_ensembles_are_refused(make_model: MakeModel, tmp_path: Path) -> None:
    sizes = {"num_layers": 1, "hidden_dim": 4, "num_heads": 2, "intermediate_dim": 4}
    model = kt.Transformer(None, 41, encoder_feature_dim=5, **sizes)
    with pytest.raises(ValueError, match=r"no frames\. Received: a model with encoder_feature_dim=5"):
        export_ctranslate2(model, tmp_path / "model")
    ensemble = kt.models.Ensemble([make_model(), make_model()])
    with pytest.raises(ValueError, match=r"a single `Transformer`\. Received: .*Ensemble"):
        export_ctranslate2(ensemble, tmp_path / "model")


def test_relative_position_keys_are_refused(make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model(positions="relative_keys")
    with pytest.raises(ValueError, match=r"depend on the query\. Received: .*='relative_keys'"):
        export_ctranslate2(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
def test_a_quantized_model_is_refused(make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model(seed=0)
    model.quantize("int8")
    with pytest.raises(ValueError, match=r"of floats itself, .*\. Received: a quantized model\."):
        export_ctranslate2(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_weights_of_another_dtype_become_float32(tmp_path: Path) -> None:
    sizes = {"num_layers": 1, "hidden_dim": 4, "num_heads": 2, "intermediate_dim": 4}
    half, full = (kt.Transformer(7, 7, **sizes, dtype=dtype) for dtype in ("bfloat16", "float32"))
    full.set_weights([ops.convert_to_numpy(ops.cast(weight, "float32")) for weight in half.weights])
    files = [
        export_ctranslate2(model, tmp_path / str(number), num_positions=5) / "model.bin"
        for number, model in enumerate((half, full))
    ]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_without_the_package(make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] == "ctranslate2":
            monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r'needs the package ctranslate2; .*pip install "\.\[interop\]"'):
        export_ctranslate2(make_model(), tmp_path / "model")


MAX_LENGTH = 13
BANNED_TOKENS = [["[PAD]"], ["[UNK]"], ["[START]"]]


def sources(num_rows: int) -> np.ndarray:
    """Draw ended sources `(b, 8)`, some shorter and padded."""
    rng = np.random.default_rng(2)
    token_ids = np.zeros((num_rows, 8), "int32")
    for row, length in zip(token_ids, rng.integers(1, 8, num_rows), strict=True):
        row[: length + 1] = [*rng.integers(4, 37, length), 3]
    return token_ids


def answers_of_ours(model: Any, search: Any, token_ids: np.ndarray) -> list[tuple[list[int], float]]:
    """Give the best hypothesis of each row, up to its end token, and its score."""

    result = kt.decoding.generate(model, token_ids, search, MAX_LENGTH)
    best, scores = (ops.convert_to_numpy(values)[:, 0] for values in result)
    return [
        ([int(token) for token in row if token], float(score))
        for row, score in zip(best, scores, strict=True)
    ]


def answers_of_theirs(
    directory: Path, token_ids: np.ndarray, **options: Any
) -> list[tuple[list[int], float]]:
    """Give the same, from CTranslate2."""
    rows = [[str(token) for token in row if token > 3] for row in token_ids]
    options = {"length_penalty": 0, "min_decoding_length": 0, "return_scores": True, **options}
    results = ctranslate2.Translator(str(directory), intra_threads=1).translate_batch(
        rows, max_decoding_length=MAX_LENGTH, return_end_token=True, **options
    )
    [*_, vocabulary] = sorted(directory.glob("*_vocabulary.json"))  # of the target, or shared
    tokens = json.loads(vocabulary.read_text(encoding="utf-8"))
    return [([tokens.index(token) for token in r.hypotheses[0]], r.scores[0]) for r in results]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"seed": 2, "end_logit": 2.0}, marks=pytest.mark.slow),
        {"seed": 1, "end_logit": 0.0, "norm_first": True, "share_embeddings": True},
    ],
    ids=str,
)
def test_tokens_and_scores_are_the_same(
    make_model: MakeModel, options: dict[str, Any], tmp_path: Path
) -> None:
    model, token_ids = make_model(**options), sources(29)
    directory = export_ctranslate2(model, tmp_path / "model")
    greedy = answers_of_ours(model, GreedySearch(), token_ids)
    beam = answers_of_ours(model, BeamSearch(4, length_penalty=0.0), token_ids)
    check_same(greedy, answers_of_theirs(directory, token_ids, beam_size=1))
    # With `patience` they too go on until no running hypothesis can win: see ours.
    check_same(beam, answers_of_theirs(directory, token_ids, beam_size=4, patience=MAX_LENGTH))
    assert any(one != other for one, other in zip(greedy, beam, strict=True))
    assert len({len(tokens) for tokens, _ in greedy}) > 2, "some answers end early, some late"


def check_same(ours: list[tuple[list[int], float]], theirs: list[tuple[list[int], float]]) -> None:
    """Fail unless tokens are equal, and scores to 1e-4."""
    assert [tokens for tokens, _ in ours] == [tokens for tokens, _ in theirs]
    assert [score for _, score in ours] == pytest.approx([score for _, score in theirs], abs=1e-4)


@pytest.mark.slow
def test_suppressed_tokens_are_the_ones_that_ours_never_generates(
    make_model: MakeModel, tmp_path: Path
) -> None:
    model, token_ids = make_model(seed=3), sources(29)
    directory = export_ctranslate2(model, tmp_path / "model")
    ours = answers_of_ours(model, GreedySearch(), token_ids)
    theirs = answers_of_theirs(directory, token_ids, beam_size=1, suppress_sequences=BANNED_TOKENS)
    assert [tokens for tokens, _ in ours] == [tokens for tokens, _ in theirs]
    free = answers_of_theirs(directory, token_ids, beam_size=1)
    assert any(set(tokens) & {0, 1, 2} for tokens, _ in free), "without it they are generated"


@pytest.fixture(scope="module")
def translator() -> kt.Translator:
    keras.utils.set_random_seed(5)
    tokenizer = kt.text.SubwordTokenizer.train(["a dog sat", "the cat ran"], vocabulary_size=20)
    size = tokenizer.vocabulary_size
    model = kt.Transformer(size, size, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8)
    return kt.Translator(model, tokenizer, tokenizer, search=kt.decoding.GreedySearch(), max_target_length=7)


def test_a_translator_is_written_with_its_tokens(translator: kt.Translator, tmp_path: Path) -> None:
    directory = export_ctranslate2(translator, tmp_path / "deep" / "mine", num_positions=300)
    tokenizer = kt.text.Tokenizer.load(directory / "source_tokenizer")
    tokens = json.loads((directory / "shared_vocabulary.json").read_text(encoding="utf-8"))
    assert tokens[:4] == ["[PAD]", "[UNK]", "[START]", "[END]"]
    assert len(set(tokens)) == tokenizer.vocabulary_size
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    assert (config["unk_token"], config["eos_token"]) == ("[UNK]", "[END]")
    Checksums.check(directory)
    listed = (directory / Checksums.file).read_text(encoding="utf-8")
    assert all(name in listed for name in ("model.bin", "config.json", "source_tokenizer/", "README.md"))
    readme = (directory / "README.md").read_text(encoding="utf-8")
    assert 'Translator("mine"' in readme
    assert "max_input_length=256,\n        max_decoding_length=7,\n" in readme
    assert [path.name for path in directory.parent.iterdir()] == ["mine"]

    texts = ["a cat sat", "the dog"]
    pieces = tokenizer.tokens(tokenizer.tokenize(texts)).numpy()
    rows = [[piece.decode() for piece in row if piece] for row in pieces]
    results = ctranslate2.Translator(str(directory)).translate_batch(
        rows, beam_size=1, max_decoding_length=7, min_decoding_length=0, suppress_sequences=BANNED_TOKENS
    )
    ids = [[tokens.index(token) for token in result.hypotheses[0]] for result in results]
    width = max(map(len, ids))
    padded = np.array([[*row, *[0] * (width - len(row))] for row in ids], "int32").reshape(2, width)
    answers = [text.decode() for text in tokenizer.detokenize(padded).numpy()]
    assert answers == translator.translate(texts)


def test_the_programs_of_the_readme_answer_as_the_translator(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = (export_ctranslate2(translator, tmp_path / "mine") / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^    .*\n|^\n)+", readme, re.MULTILINE)
    call, texts = [textwrap.dedent(block) for block in blocks if "import" in block]
    cutting = translator.with_changes(split_texts="none")
    make_tokens, make_text = texts.split("target = ")
    # What is 300 tokens long needs `max_input_length`: there are 256 positions.
    for text in ("a cat sat", "the dog", "a " * 150):
        names: dict[str, Any] = {"text": text}
        monkeypatch.chdir(tmp_path)
        exec(make_tokens, names)
        exec(call.replace("beam_size=4", "beam_size=1"), names)
        *lines, last = ("target = " + make_text).strip().splitlines()
        exec("\n".join(lines), names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", kt.tasks.TruncationWarning)
            assert eval(last, names) == cutting.translate([text])[0]


def test_a_model_alone_names_what_ctranslate2_takes(make_model: MakeModel, tmp_path: Path) -> None:
    for options, lengths in (({}, "1024 256"), ({"positions": "learned", "max_length": 99}, "99 99")):
        directory = export_ctranslate2(make_model(**options), tmp_path / lengths)
        readme = (directory / "README.md").read_text(encoding="utf-8")
        source_length, target_length = lengths.split()
        assert f"max_input_length={source_length},\n        max_decoding_length={target_length},\n" in readme


def test_positions_reach_as_far_as_the_limits_of_a_translator(
    translator: kt.Translator, tmp_path: Path
) -> None:
    directory = export_ctranslate2(translator, tmp_path / "short", num_positions=9)
    engine = ctranslate2.Translator(str(directory))
    # 255 tokens and the end are the translator's 256 positions.
    [result] = engine.translate_batch([["▁a"] * 255], beam_size=1, max_decoding_length=2)
    assert len(result.hypotheses) == 1
    with pytest.raises(RuntimeError, match="positions >= 256"):
        engine.translate_batch([["▁a"] * 256], beam_size=1, max_decoding_length=2)


def test_int8_is_a_quarter_of_the_size(make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model(hidden_dim=120, num_heads=3, intermediate_dim=240)
    sizes = [
        (export_ctranslate2(model, tmp_path / str(kind), quantization=kind, num_positions=2) / "model.bin")
        .stat()
        .st_size
        for kind in (None, "int8")
    ]
    assert sizes[1] < 0.3 * sizes[0]


def test_mistakes_are_named(translator: kt.Translator, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"one of None, 'int8', .* Received: quantization='int4'"):
        export_ctranslate2(translator, tmp_path / "model", quantization="int4")
    with pytest.raises(InputError, match=r"Cannot write .*: it already exists"):
        export_ctranslate2(translator, tmp_path)
    (tmp_path / "file").write_text("no directory", encoding="utf-8")
    with pytest.raises(InputError, match=r"Cannot write .*file/model: Not a directory"):
        export_ctranslate2(translator, tmp_path / "file" / "model")


def test_nothing_is_left_of_a_failed_export(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(type(translator.source_tokenizer), "save", refuse)
    with pytest.raises(InputError, match="disk full"):
        export_ctranslate2(translator, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_two_exports_at_once_do_not_mix(
    make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first to finish gets the name; the other one raises, and leaves nothing."""
    slow, fast, directory = make_model(seed=1), make_model(seed=2), tmp_path / "model"
    spec_class = ctranslate2.specs.TransformerSpec
    save = spec_class.save

    def save_another_first(self: Any, path: str) -> None:
        monkeypatch.setattr(spec_class, "save", save)
        export_ctranslate2(fast, directory)
        save(self, path)

    alone = (export_ctranslate2(fast, tmp_path / "alone") / "model.bin").read_bytes()
    monkeypatch.setattr(spec_class, "save", save_another_first)
    with pytest.raises(InputError, match="Cannot write"):
        export_ctranslate2(slow, directory)
    assert (directory / "model.bin").read_bytes() == alone
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "model"]


def test_the_call_in_the_readme_names_options_that_exist(make_model: MakeModel, tmp_path: Path) -> None:
    text = (export_ctranslate2(make_model(), tmp_path / "mine") / "README.md").read_text(encoding="utf-8")
    blocks = [block for block in text.split("\n\n") if block.startswith("    ")]
    tree = ast.parse(textwrap.dedent("\n".join(blocks)))
    [call] = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "translate_batch"
    ]
    options = {keyword.arg: keyword.value for keyword in call.keywords}
    documented = ctranslate2.Translator.translate_batch.__doc__
    assert all(f" {name}: " in documented for name in options)
    assert ast.literal_eval(options["suppress_sequences"]) == BANNED_TOKENS
    assert "a beam search of CTranslate2 may return an output that is cut off" in text
    assert "`[PAD]`, `[UNK]`, `[START]`" in text
