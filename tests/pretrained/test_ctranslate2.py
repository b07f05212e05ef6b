"""CTranslate2 directories come back: ours as they were, those of its converters with the engine's numbers."""

import json
import struct
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from helpers import array
from keras_transformer.errors import InputError
from keras_transformer.export import export_ctranslate2
from keras_transformer.pretrained import HuggingFaceCheckpoint
from pretrained_models import CORPUS, FAMILIES, save_model, save_translator

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra `interop` is not installed")

BASE = {"num_layers": 2, "hidden_dim": 12, "num_heads": 3, "intermediate_dim": 17}
SIZES = 37, 41
OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_layers": 6, "num_encoder_layers": 1, "num_decoder_layers": 3, "norm_first": True},
    {"share_embeddings": True, "tie_output": False, "layer_norm_epsilon": 0.1},
    {"activation": "silu", "gated": True, "use_bias": False, "output_bias": True},
    {"activation": "tanh", "normalization": "rms"},
    {
        "num_heads": 6,
        "num_key_value_heads": 2,
        "activation": "sigmoid",
        "norm_first": True,
        "final_norm": False,
    },
    {"positions": "learned", "max_length": 11, "activation": "gelu"},
    {"positions": "rotary", "head_dim": 6, "scale_embeddings": False},
    {"positions": "relative", "activation": "gelu_tanh", "final_norm": True},
    {"positions": "sinusoidal_concatenated", "num_key_value_heads": 1, "head_dim": 5},
    {"positions": "learned", "max_length": 11, "share_positions": False, "normalize_embeddings": True},
]


def make_model(seed: int = 0, **options: Any) -> Any:
    """Make a model whose weights are all random."""
    keras.utils.set_random_seed(seed)
    sizes = (SIZES[1], SIZES[1]) if options.get("share_embeddings") else SIZES
    model = kt.Transformer(*sizes, **{**BASE, **options})
    for weight in model.trainable_weights:
        weight.assign(weight + 0.2 * keras.random.normal(weight.shape))
    return model


def read(directory: Path) -> Any:
    """Return the model of a directory whose vocabularies are our ids."""
    checkpoint = HuggingFaceCheckpoint(directory)
    return checkpoint.load(*(np.arange(len(tokens)) for tokens in checkpoint.tokens.values()))


def draw_inputs(sizes: tuple[int, int] = SIZES) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(1)
    source, target = draw.integers(4, sizes[0], (3, 9)), draw.integers(4, sizes[1], (3, 7))
    for row, length in enumerate((9, 4, 6)):
        source[row, length - 1] = 3
        source[row, length:] = 0
    target[:, 0] = 2
    return {"encoder_token_ids": source, "decoder_token_ids": target}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_what_is_written_comes_back(options: dict[str, Any], tmp_path: Path) -> None:
    model = make_model(**options)
    again = read(export_ctranslate2(model, tmp_path / "model", num_positions=30))
    assert {**again.config.options(), "dropout": 0.1} == model.config.options() | _depths(options)
    for weight, wanted in zip(again.weights, model.weights, strict=True):
        assert weight.path.partition("/")[2] == wanted.path.partition("/")[2]
        np.testing.assert_array_equal(array(weight), array(wanted))
    inputs = draw_inputs()
    np.testing.assert_array_equal(array(again(inputs)), array(model(inputs)))


def _depths(options: dict[str, Any]) -> dict[str, Any]:
    # Two depths stand in place of the one.
    return {"num_layers": 6} if "num_encoder_layers" in options else {"num_encoder_layers": None}


@pytest.mark.parametrize("kind", ["int8", "int16", "float16", "bfloat16", "int8_float16", "int8_bfloat16"])
def test_quantized_weights_are_numbers_again(kind: str, tmp_path: Path) -> None:
    options = {
        "positions": "learned",
        "max_length": 11,
        "share_embeddings": True,
        "normalize_embeddings": True,
    }
    model = make_model(**options)
    again = read(export_ctranslate2(model, tmp_path / "model", quantization=kind))
    assert (again.config.share_embeddings, again.config.tie_output) == (True, True)
    steps = {"int8": 1 / 254, "int16": 2**-10, "float16": 2**-11, "bfloat16": 2**-8}
    step = max(steps[part] for part in kind.split("_"))
    changed = 0
    for weight, wanted in zip(map(array, again.weights), map(array, model.weights), strict=True):
        np.testing.assert_allclose(weight, wanted, rtol=0, atol=1.01 * step * np.abs(wanted).max())
        changed += not np.array_equal(weight, wanted)
    assert changed > 10
    inputs = draw_inputs((SIZES[1], SIZES[1]))
    differences = np.abs(array(again(inputs)) - array(model(inputs)))
    assert 0 < differences.max() < 40 * step


class Draw:
    """Random weights of width 12."""

    def __init__(self) -> None:
        self._draw = np.random.default_rng(3)

    def numbers(self, *shape: int, around: float = 0.0) -> np.ndarray:
        return (around + 0.3 * self._draw.normal(size=shape)).astype("float32")

    def linear(self, owner: Any, *shape: int) -> None:
        owner.weight, owner.bias = self.numbers(*shape), self.numbers(shape[0])

    def norm(self, owner: Any) -> None:
        owner.gamma, owner.beta = self.numbers(12, around=1.0), self.numbers(12)

    def layer(self, layer: Any, keys: int) -> None:
        shapes = {
            "self_attention": [(12 + keys, 12), (12, 12)],
            "attention": [(12, 12), (keys, 12), (12, 12)],
        }
        for name, each in shapes.items():
            if attention := getattr(layer, name, None):
                for linear, shape in zip(attention.linear, each, strict=True):
                    self.linear(linear, *shape)
                self.norm(attention.layer_norm)
        self.linear(layer.ffn.linear_0, 17, 12)
        self.linear(layer.ffn.linear_1, 12, 17)
        self.norm(layer.ffn.layer_norm)


def draw_spec(**options: Any) -> Any:
    """Make a description as the converters do, with 3 heads."""
    spec, draw = ctranslate2.specs.TransformerSpec.from_config((2, 1), 3, **options), Draw()
    for stack, size in ((spec.encoder, SIZES[0]), (spec.decoder, SIZES[1])):
        embeddings = stack.embeddings[0] if isinstance(stack.embeddings, list) else stack.embeddings
        embeddings.weight = draw.numbers(size, 12)
        for name in ("layer_norm", "layernorm_embedding"):
            if hasattr(stack, name):
                draw.norm(getattr(stack, name))
        for layer in stack.layer:
            draw.layer(layer, keys=8 if options.get("multi_query_attention") else 24)
    draw.linear(spec.decoder.projection, SIZES[1], 12)
    return spec


def save_spec(spec: Any, directory: Path, start: int = 2, quantization: str | None = None) -> Path:
    for side, size in zip(("source", "target"), SIZES, strict=True):
        getattr(spec, f"register_{side}_vocabulary")([f"<{number}>" for number in range(size)])
    spec.config.unk_token, spec.config.eos_token, spec.config.decoder_start_token = "<1>", "<3>", f"<{start}>"
    spec.validate()
    spec.optimize(quantization)
    directory.mkdir()
    spec.save(str(directory))
    return directory


def fairseq(spec: Any) -> Any:
    """Set what its converter does: a factor for the flag, and the sinusoids of fairseq."""
    waves = 10000.0 ** (-np.arange(6) / 5)
    angles = np.arange(2, 32)[:, None] * waves
    encodings = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype("float32")
    for stack in (spec.encoder, spec.decoder):
        stack.scale_embeddings, stack.position_encodings.encodings = 12.0**0.5, encodings
    return spec


def opennmt(spec: Any) -> Any:
    """Set what the converter of OpenNMT-py does; that of OpenNMT-tf leaves positions out."""
    encodings = array(kt.layers.sinusoidal_position_encoding(30, 12))
    for stack in (spec.encoder, spec.decoder):
        stack.position_encodings.encodings = encodings
    return spec


def marian(spec: Any) -> Any:
    encodings = array(kt.layers.sinusoidal_position_encoding(30, 12, layout="concatenated"))
    for stack in (spec.encoder, spec.decoder):
        stack.position_encodings.encodings = encodings
    spec.decoder.start_from_zero_embedding = True
    spec.decoder.projection.weight = spec.decoder.embeddings.weight
    return spec


def their_scores(directory: Path, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Return log p of each target token from the engine."""
    rows = [[f"<{token}>" for token in row if token] for row in inputs["encoder_token_ids"].tolist()]
    targets = [[f"<{token}>" for token in row] for row in inputs["decoder_token_ids"][:, 1:].tolist()]
    results = ctranslate2.Translator(str(directory)).score_batch(rows, targets)
    return np.array([result.log_probs for result in results])


def our_scores(model: Any, inputs: dict[str, np.ndarray]) -> np.ndarray:
    labels = np.concatenate([inputs["decoder_token_ids"][:, 1:], np.full((3, 1), 3)], axis=1)
    log_probabilities = array(ops.log_softmax(model(inputs)))
    return np.take_along_axis(log_probabilities, labels[..., None], axis=2)[..., 0]


@pytest.mark.parametrize(
    ("library", "options", "start"),
    [
        (fairseq, {"pre_norm": False, "layernorm_embedding": True}, 3),
        (fairseq, {"pre_norm": True, "activation": 3}, 3),
        (fairseq, {"pre_norm": True, "no_final_norm": True}, 3),
        (opennmt, {"pre_norm": True, "activation": 1}, 2),
        (opennmt, {"pre_norm": True, "multi_query_attention": True}, 2),
        (lambda spec: spec, {"pre_norm": True}, 2),
        (marian, {"pre_norm": False, "activation": 2}, 3),
    ],
)
@pytest.mark.parametrize("quantization", [None, "float16"])
def test_converted_models_have_the_probabilities_of_the_engine(
    library: Any, options: dict[str, Any], start: int, quantization: str | None, tmp_path: Path
) -> None:
    options = {
        **options,
        "activation": ctranslate2.specs.common_spec.Activation(options.get("activation", 0)),
    }
    directory = save_spec(library(draw_spec(**options)), tmp_path / "model", start, quantization)
    ids = [np.arange(size) for size in SIZES]
    # As tokenizers say: their start token has no row of its own, unless decoding starts from it.
    if start == 3:
        ids = [np.append([0, 1, -1, 3, 2], np.arange(4, size)) for size in SIZES]
    model, inputs = HuggingFaceCheckpoint(directory).load(*ids), draw_inputs()
    theirs = dict(inputs)
    if start == 3:  # our ids above the start token are one above theirs
        inputs = {name: np.where(each > 3, each + 1, each) for name, each in inputs.items()}
    np.testing.assert_allclose(
        our_scores(model, inputs),
        their_scores(directory, theirs),
        rtol=1e-5,
        atol=2e-5 if quantization is None else 2e-3,
    )


@pytest.mark.backend
@pytest.mark.parametrize(
    "family", [name for name in FAMILIES if name not in ("t5-1.1", "mt5", "byt5", "plbart")]
)
def test_what_its_converter_makes_of_hugging_face_is_the_same_model(family: str, tmp_path: Path) -> None:
    # Of T5 1.1, transformers 5 has another configuration than its converter reads; it has no PLBart.
    torch = pytest.importorskip("torch")
    theirs = save_model(family, tmp_path / "hub")
    config = theirs.config
    if family.startswith("marian"):  # whose decoding starts from 0 in files that were trained
        with torch.no_grad():
            for stack in (theirs.model.encoder, theirs.model.decoder):
                stack.embed_tokens.weight[config.pad_token_id] = 0
        theirs.save_pretrained(tmp_path / "hub")
    config.normalize_before = family in ("mbart", "pegasus", "m2m100")
    config.normalize_embedding = family in ("bart", "mbart")
    loaders = pytest.importorskip("ctranslate2.converters.transformers")._MODEL_LOADERS
    with torch.no_grad():
        spec = loaders[type(config).__name__].get_model_spec(theirs)
    sizes = spec.get_source_vocabulary_size()[0], spec.get_target_vocabulary_size()
    spec.register_source_vocabulary([f"<{number}>" for number in range(sizes[0])])
    spec.register_target_vocabulary([f"<{number}>" for number in range(sizes[1])])
    # Marian's has no row for padding, which stands for the start.
    start = config.eos_token_id if family.startswith("marian") else config.decoder_start_token_id
    spec.config.decoder_start_token = f"<{start}>"
    spec.validate()
    spec.optimize()
    (tmp_path / "engine").mkdir()
    spec.save(str(tmp_path / "engine"))

    special = [config.pad_token_id, 3, -1, config.eos_token_id]
    both = config.vocab_size, getattr(config, "decoder_vocab_size", config.vocab_size)
    ids = [np.array([*special, *(at for at in range(size) if at not in special)]) for size in both]
    wanted = HuggingFaceCheckpoint(tmp_path / "hub").load(*ids)
    rows = [np.where(each < size, each, -1) for each, size in zip(ids, sizes, strict=True)]
    model, inputs = HuggingFaceCheckpoint(tmp_path / "engine").load(*rows), draw_inputs(both)
    first = 1 if family == "marian" else 0  # of the logits, which there has none for padding
    np.testing.assert_allclose(
        array(model(inputs))[..., first:], array(wanted(inputs))[..., first:], rtol=0, atol=1e-5
    )


@pytest.fixture(scope="module")
def translator() -> kt.Translator:
    keras.utils.set_random_seed(5)
    tokenizers = [kt.text.CharacterTokenizer.train([text]) for text in ("a dog sat", "the cat ran")]
    sizes = [each.vocabulary_size for each in tokenizers]
    model = kt.Transformer(*sizes, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8)
    return kt.Translator(model, *tokenizers, max_target_length=7)


def test_a_translator_comes_back_with_its_tokenizers(translator: kt.Translator, tmp_path: Path) -> None:
    texts = ["a dog", "sat at a dog"]
    export_ctranslate2(translator, tmp_path / "engine")
    again = kt.Translator.from_hugging_face(tmp_path / "engine", max_target_length=7)
    assert again.max_source_length == 1024
    assert again.translate(texts) == translator.translate(texts)
    again.save(tmp_path / "saved")
    assert kt.Translator.load(tmp_path / "saved").translate(texts) == translator.translate(texts)


def test_tokenizers_are_given_where_there_are_none(translator: kt.Translator, tmp_path: Path) -> None:
    directory = export_ctranslate2(translator.model, tmp_path / "engine")
    names = ("source_tokenizer", "target_tokenizer")
    given = {name: getattr(translator, name) for name in names}
    again = kt.Translator.from_hugging_face(directory, **given, max_target_length=7)
    assert again.translate(["a dog"]) == translator.translate(["a dog"])
    with pytest.raises(InputError, match=r"must have its tokenizers.* Received: none"):
        kt.Translator.from_hugging_face(directory)


def test_tokens_of_another_tokenizer_are_named(translator: kt.Translator, tmp_path: Path) -> None:
    directory = export_ctranslate2(translator, tmp_path / "engine")
    other = kt.text.CharacterTokenizer.train(["a cow sat"])
    with pytest.raises(InputError, match=r"token \d+ of the source tokenizer must be '.', .* Received: '.'"):
        kt.Translator.from_hugging_face(
            directory, source_tokenizer=other, target_tokenizer=translator.target_tokenizer
        )
    larger = kt.text.CharacterTokenizer.train(["a dog sat", "xyz"])
    with pytest.raises(InputError, match="the source tokenizer must"):
        kt.Translator.from_hugging_face(
            directory, source_tokenizer=larger, target_tokenizer=translator.target_tokenizer
        )


@pytest.mark.backend
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("family", ["marian", "t5"])
def test_sentencepiece_models_beside_it_are_its_tokenizers(family: str, tmp_path: Path) -> None:
    save_translator(family, tmp_path / "hub", max_length=20)
    files = {"marian": ["source.spm", "target.spm"], "t5": ["spiece.model"]}[family]
    converters = pytest.importorskip("ctranslate2.converters")
    converter = converters.TransformersConverter(str(tmp_path / "hub"), copy_files=files)
    directory = Path(converter.convert(str(tmp_path / "engine")))
    texts, greedy = CORPUS[:6], kt.decoding.GreedySearch()
    translator = kt.Translator.from_hugging_face(directory, search=greedy, max_target_length=64)
    # Those of the whole directory, which has names for all rows, do too.
    given = dict(
        zip(
            ("source_tokenizer", "target_tokenizer"),
            kt.text.read_hugging_face_tokenizers(tmp_path / "hub"),
            strict=True,
        )
    )
    same = kt.Translator.from_hugging_face(directory, **given, search=greedy, max_target_length=64)
    assert same.translate(texts) == translator.translate(texts)
    source_ids = translator.token_ids(texts)
    sources = [
        [*(name.decode() for name in row if name not in (b"", b"[END]")), "</s>"]
        for row in translator.source_tokenizer.tokens(source_ids).numpy()
    ]
    never = [[token] for token in ("<unk>", "<pad>")[: 2 if family == "t5" else 1]]  # Marian's has no padding
    results = ctranslate2.Translator(str(directory)).translate_batch(
        sources, beam_size=1, max_decoding_length=64, suppress_sequences=never
    )
    best = np.array(translator.generate(source_ids).token_ids)[:, 0]
    names = translator.target_tokenizer.tokens(best).numpy()
    ours = [[name.decode() for name in row if name not in (b"", b"[END]")] for row in names]
    assert ours == [result.hypotheses[0] for result in results]
    target_ids = translator.target_tokenizer.tokenize(texts[::-1])
    targets = [
        [name.decode() for name in row] for row in translator.target_tokenizer.tokens(target_ids).numpy()
    ]
    targets = [[name for name in row if name] for row in targets]
    theirs = ctranslate2.Translator(str(directory)).score_batch(sources, targets)
    translator.search = kt.decoding.GreedySearch(length_penalty=0.0)
    scores = [each.score for each in translator.score(texts, texts[::-1])]
    assert scores == pytest.approx([sum(each.log_probs) for each in theirs], rel=1e-4)


@pytest.mark.backend
def test_languages_are_tokens_of_the_vocabulary(tmp_path: Path) -> None:
    theirs = save_translator("m2m100", tmp_path / "hub", num_beams=4)
    hub = kt.Translator.from_hugging_face(tmp_path / "hub", "de", "en")
    theirs.config.normalize_before, theirs.config.normalize_embedding = True, False
    loaders = pytest.importorskip("ctranslate2.converters.transformers")._MODEL_LOADERS
    torch = pytest.importorskip("torch")
    with torch.no_grad():
        spec = loaders["M2M100Config"].get_model_spec(theirs)
    tokens = json.loads((tmp_path / "hub" / "vocab.json").read_text(encoding="utf-8"))
    original = dict(zip(hub.source_tokenizer.original_ids.tolist(), range(10**6), strict=False))
    names = hub.source_tokenizer.tokens([[original[at] for at in range(theirs.config.vocab_size)]]).numpy()[0]
    names = [*tokens, *(name.decode() for name in names[len(tokens) :])]
    for side in ("source", "target"):
        getattr(spec, f"register_{side}_vocabulary")(names)
    spec.config.decoder_start_token = "</s>"
    spec.validate()
    (tmp_path / "engine").mkdir()
    spec.save(str(tmp_path / "engine"))
    (tmp_path / "hub" / "sentencepiece.bpe.model").rename(tmp_path / "engine" / "any.model")
    translator = kt.Translator.from_hugging_face(tmp_path / "engine", "de", "en", max_target_length=11)
    hub.search = translator.search
    assert translator.token_ids(CORPUS)[:, 0].tolist() == hub.token_ids(CORPUS)[:, 0].tolist()
    assert translator.search.constraints.first_token_ids == tuple(hub.target_tokenizer.prefix_ids)
    assert translator.translate(CORPUS[:6]) == hub.translate(CORPUS[:6])
    with pytest.raises(InputError, match=r"`target_language` must be a token .* Received: 'xx'"):
        kt.Translator.from_hugging_face(tmp_path / "engine", "de", "xx")


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    directory = export_ctranslate2(make_model(num_layers=1), tmp_path / "engine", num_positions=5)
    path = directory / "model.bin"
    content = path.read_bytes()
    draw = np.random.default_rng(0)
    # Inside names, sizes and numbers: where the first variables are described, and where aliases stand.
    places = [*range(60), *draw.integers(60, len(content), 60), *range(len(content) - 80, len(content))]
    for place in places:
        path.write_bytes(content[:place])
        with pytest.raises(InputError) as raised:
            read(directory)
        assert "\n" not in str(raised.value)
    for place in [*range(60), *range(len(content) - 80, len(content))]:
        for bit in (1, 128):
            path.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
            with pytest.raises(InputError) as raised:
                read(directory)
            assert "\n" not in str(raised.value)
    without_layers = content.replace(b"decoder/layer_0", b"decoder/layer_9")
    for other in (content + b"\0", b"", b"\xff" * 1000, b"PK\x03\x04" * 100, without_layers):
        path.write_bytes(other)
        with pytest.raises(InputError):
            read(directory)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"activation": np.int8(4)}, "`activation` must be one of 0, .* Received: 4"),
        ({"alibi": True}, "'decoder/alibi' must be 0. Received: 1"),
        ({"scale_outputs": 0.5}, "`scale_embeddings` must be 1 or .* Received: 1 and 0.5"),
        ({"final_logit_softcapping": 30.0}, "and no others. Received: 'decoder/final_logit_softcapping'"),
        ({"pre_norm": True}, "`pre_norm` must be the same in all layers. Received: 0 and 1"),
        ({"num_heads": np.int16(2)}, "`num_heads` must be the same in all layers. Received: 3 and 2"),
        ({"scale_embeddings": 2.0}, "`scale_embeddings` must be the same in all layers. Received: 1 and 2.0"),
    ],
)
def test_options_that_are_not_known_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    spec = opennmt(draw_spec(pre_norm=False))
    for name, value in change.items():
        setattr(spec.decoder, name, value)
    if "activation" in change:
        spec.encoder.activation = change["activation"]
    with pytest.raises(InputError, match=message):
        HuggingFaceCheckpoint(save_spec(spec, tmp_path / "model"))


def test_layers_that_are_not_known_are_refused(tmp_path: Path) -> None:
    spec = draw_spec(with_relative_position=True)
    for layer in [*spec.encoder.layer, *spec.decoder.layer]:
        for name in ("relative_position_keys", "relative_position_values"):
            setattr(layer.self_attention, name, np.zeros((9, 4), "float32"))
    directory = save_spec(spec, tmp_path / "relative")
    with pytest.raises(InputError, match=r"no others. Received: '.*/relative_position_keys' and 5 others"):
        read(directory)


def test_other_models_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    for name in ("TransformerDecoderSpec", "TransformerEncoderSpec", "WhisperSpec", "Wav2Vec2Spec"):
        header = struct.pack("<IH", 6, len(name) + 1) + name.encode() + struct.pack("<BII", 0, 8, 0)
        (tmp_path / "model.bin").write_bytes(header)
        wanted = f"must be of a TransformerSpec of revision 7. Received: '{name} of revision 8'"
        with pytest.raises(InputError, match=wanted):
            HuggingFaceCheckpoint(tmp_path)


def test_vocabularies_fit_the_model(tmp_path: Path) -> None:
    directory = export_ctranslate2(make_model(num_layers=1), tmp_path / "engine", num_positions=5)
    path = directory / "target_vocabulary.json"
    tokens = json.loads(path.read_text())
    wanted = read(directory)
    path.unlink()
    (directory / "target_vocabulary.txt").write_text("\n".join(tokens) + "\n")  # as in older directories
    for weight, other in zip(read(directory).weights, wanted.weights, strict=True):
        np.testing.assert_array_equal(array(weight), array(other))
    for content, message in (
        (json.dumps(tokens[:-1]), "the target vocabulary must have 41 tokens.* Received: 40"),
        (json.dumps([*tokens[:2], *map(str, range(39))]), "must be a token of the target .*'.START.'"),
        (json.dumps({"a": 1}), "must be a valid array"),
        ("[1, 2", "is not valid JSON"),
        ("", "is empty"),
    ):
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            HuggingFaceCheckpoint(directory)
    path.unlink()
    (directory / "target_vocabulary.txt").unlink()
    with pytest.raises(InputError, match=r"no shared_vocabulary\.json and no target_vocabulary\.json"):
        HuggingFaceCheckpoint(directory)
    (directory / "source_vocabulary.json").rename(path)
    with pytest.raises(InputError, match="and no source_vocabulary"):
        HuggingFaceCheckpoint(directory)


def test_sources_without_an_end_token_are_refused(translator: kt.Translator, tmp_path: Path) -> None:
    # OpenNMT-py trains so; every other number of the model would be right.
    directory = save_spec(opennmt(draw_spec()), tmp_path / "model")
    for name in ("config.json", "source_vocabulary.json", "target_vocabulary.json"):
        text = (directory / name).read_text()
        (directory / name).write_text(text.replace('"<2>"', '"<s>"'))
    given = {f"{side}_tokenizer": translator.source_tokenizer for side in ("source", "target")}
    with pytest.raises(InputError, match=r"must have an end token.* `add_source_eos` is false"):
        kt.Translator.from_hugging_face(directory, **given)
