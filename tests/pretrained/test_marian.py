"""Marian's own files give the numbers of CTranslate2, which reads them too, and the model of Hugging Face."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keras_transformer as kt
from helpers import array
from keras_transformer.errors import InputError
from keras_transformer.pretrained import HuggingFaceCheckpoint
from pretrained_models import CORPUS, save_translator

pytestmark = pytest.mark.backend
OPTIONS = {
    "type": "transformer",
    "enc-depth": 2,
    "dec-depth": 1,
    "dim-emb": 16,
    "transformer-heads": 4,
    "transformer-dim-ffn": 24,
    "transformer-ffn-activation": "swish",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-no-projection": "false",
    "transformer-preprocess": '""',
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-guided-alignment-layer": "last",
    "transformer-tied-layers": "[]",
    "version": "v1.9.0 1970-01-01",
}
DECODER = """relative-paths: true
models:
  - opus.npz
vocabs:
  - opus.vocab.yml
  - opus.vocab.yml
beam-size: 4
normalize: 1
word-penalty: 0
"""


def renamed(name: str) -> str:
    """Return Marian's name of a tensor of Hugging Face."""
    if not name.startswith("model."):
        return {"final_logits_bias": "decoder_ff_logit_out_b"}[name]
    _, stack, _, number, *parts, ending = name.split(".")
    layer, kind = f"{stack}_l{int(number) + 1}", {"weight": "W", "bias": "b"}[ending]
    blocks = {"self_attn": "self", "encoder_attn": "context"}
    if parts[0].endswith("layer_norm"):
        place = {**{f"{each}_layer_norm": f"{block}_Wo" for each, block in blocks.items()}}
        place["final_layer_norm"] = "ffn_ffn"
        return f"{layer}_{place[parts[0]]}_ln_{ {'weight': 'scale', 'bias': 'bias'}[ending] }"
    if parts[0].startswith("fc"):
        return f"{layer}_ffn_{kind}{parts[0][2]}"
    return f"{layer}_{blocks[parts[0]]}_{kind}{parts[1][0]}"


def arrays(theirs: Any) -> dict[str, np.ndarray]:
    """Return the weights of a model without the row of padding, as Marian has them."""
    found = {}
    for name, tensor in theirs.state_dict().items():
        values = tensor.numpy()
        if "embed" in name or "lm_head" in name:
            continue
        if name == "model.shared.weight":
            found["Wemb"] = values[:-1]
        elif name == "final_logits_bias":
            found[renamed(name)] = values[:, :-1]
        else:
            found[renamed(name)] = values.T if values.ndim == 2 else values[None]
    return found


def save(directory: Path, found: dict[str, np.ndarray], tokens: list[str], **changes: object) -> Path:
    directory.mkdir(exist_ok=True)
    lines = "".join(f"{name}: {value}\n" for name, value in {**OPTIONS, **changes}.items())
    options = np.frombuffer(lines.encode() + b"\0", "int8")
    np.savez(directory / "opus.npz", **found, **{"special:model.yml": options})
    (directory / "decoder.yml").write_text(DECODER)
    content = "".join(f"{json.dumps(token, ensure_ascii=False)}: {at}\n" for at, token in enumerate(tokens))
    (directory / "opus.vocab.yml").write_text(content, encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str], dict[str, np.ndarray]]:
    """Return directories of Hugging Face and of Marian with one model, its tokens and arrays."""
    torch, root = pytest.importorskip("torch"), tmp_path_factory.mktemp("marian")
    theirs = save_translator("marian", root / "hub", num_beams=4)
    with torch.no_grad():  # as in files that were trained
        theirs.model.shared.weight[-1] = 0
        theirs.final_logits_bias.copy_(torch.randn(theirs.final_logits_bias.shape))
        theirs.final_logits_bias[0, -1] = -1000
    theirs.save_pretrained(root / "hub")
    tokens = list(json.loads((root / "hub" / "vocab.json").read_text(encoding="utf-8")))[:-1]
    found = arrays(theirs)
    directory = save(root / "marian", found, tokens)
    for name in ("source.spm", "target.spm"):
        (directory / name).write_bytes((root / "hub" / name).read_bytes())
    return root / "hub", directory, tokens, found


def test_it_is_the_model_of_hugging_face(files: Any) -> None:
    hub, directory, *_ = files
    wanted, found = (kt.Translator.from_hugging_face(each, max_target_length=11) for each in (hub, directory))
    assert found.model.config == wanted.model.config
    for weight, other in zip(found.model.weights, wanted.model.weights, strict=True):
        np.testing.assert_array_equal(array(weight), array(other))
    assert (found.search.beam_size, found.search.length_penalty) == (4, 1.0)
    assert found.max_source_length == 512
    found.search = wanted.search
    texts = found.translate(CORPUS[:6])
    assert texts == wanted.translate(CORPUS[:6])
    assert len(set(texts)) > 1


def test_probabilities_and_tokens_are_those_of_the_engine(files: Any, tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    converters = pytest.importorskip("ctranslate2.converters")
    directory = files[1]
    engine = converters.OpusMTConverter(str(directory)).convert(str(tmp_path / "engine"))
    engine = ctranslate2.Translator(engine)
    translator = kt.Translator.from_hugging_face(
        directory, search=kt.decoding.GreedySearch(length_penalty=0.0), max_target_length=64
    )

    def pieces(tokenizer: Any, texts: list[str]) -> list[list[str]]:
        names = tokenizer.tokens(tokenizer.tokenize(texts)).numpy()
        return [[name.decode() for name in row if name] for row in names]

    texts, targets = CORPUS[:6], CORPUS[5::-1]
    sources = pieces(translator.source_tokenizer, texts)
    theirs = engine.score_batch(sources, pieces(translator.target_tokenizer, targets))
    ours = [each.score for each in translator.score(texts, targets)]
    assert ours == pytest.approx([sum(each.log_probs) for each in theirs], rel=1e-4)
    best = np.array(translator.generate(translator.token_ids(texts)).token_ids)[:, 0]
    names = translator.target_tokenizer.tokens(best).numpy()
    results = engine.translate_batch(
        sources, beam_size=1, max_decoding_length=64, suppress_sequences=[["<unk>"]]
    )
    assert [[name.decode() for name in row if name not in (b"", b"[END]")] for row in names] == [
        result.hypotheses[0] for result in results
    ]


def test_tables_may_be_two_and_the_output_a_third(files: Any, tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    converters = pytest.importorskip("ctranslate2.converters")
    _, directory, tokens, found = files
    draw = np.random.default_rng(1)
    size = len(tokens) - 7
    found = {name: values for name, values in found.items() if name not in ("Wemb", "decoder_ff_logit_out_b")}
    found["encoder_Wemb"] = draw.normal(size=(len(tokens), 16)).astype("float32")
    found["decoder_Wemb"] = draw.normal(size=(size, 16)).astype("float32")
    found["decoder_ff_logit_out_W"] = draw.normal(size=(16, size)).astype("float32")
    found["decoder_ff_logit_out_b"] = draw.normal(size=(1, size)).astype("float32")
    other = save(tmp_path / "marian", found, tokens)
    (other / "decoder.yml").write_text(DECODER.replace("opus.vocab.yml\nbeam", "target.yml\nbeam"))
    lines = (other / "opus.vocab.yml").read_text(encoding="utf-8").splitlines(keepends=True)
    (other / "target.yml").write_text("".join(lines[:size]), encoding="utf-8")
    for name in ("source.spm", "target.spm"):
        (other / name).write_bytes((directory / name).read_bytes())
    engine = converters.OpusMTConverter(str(other)).convert(str(tmp_path / "engine"))
    ids = np.arange(len(tokens) + 1)
    source_ids = np.array([len(tokens), 1, -1, 0, *range(2, len(tokens))])
    target_ids = np.array([size, 1, -1, 0, *range(2, size)])
    model = HuggingFaceCheckpoint(other).load(source_ids, target_ids)
    assert (model.config.share_embeddings, model.config.tie_output) == (False, False)
    source, target = ids[5:12], ids[4:9]
    inputs = {"encoder_token_ids": [[*source, 3]], "decoder_token_ids": [[2, *target]]}
    logits = array(model({name: np.array(each) for name, each in inputs.items()}))[0].astype("float64")
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    rows = [tokens[source_ids[at]] for at in source], [tokens[target_ids[at]] for at in target]
    [theirs] = ctranslate2.Translator(engine).score_batch([rows[0]], [rows[1]])
    ours = log_probabilities[np.arange(6), [*target, 3]]
    np.testing.assert_allclose(ours, theirs.log_probs, rtol=1e-5, atol=2e-5)


def test_vocabularies_have_any_quotes(files: Any, tmp_path: Path) -> None:
    _, directory, tokens, _ = files
    tokens = [*tokens[:-4], '"', "it's:", "a\\b", "\x85"]
    forms = ['"\\""', "'it''s:'", "? a\\b\n", '"\\x85"']
    path = directory / "opus.vocab.yml"
    content = path.read_text(encoding="utf-8")
    lines = content.splitlines()[:-4]
    entries = [f"{form}: {len(lines) + at}" for at, form in enumerate(forms)]
    path.write_text("\n".join([*lines, *entries]) + "\n", encoding="utf-8")
    try:
        translator = kt.Translator.from_hugging_face(directory)
    finally:
        path.write_text(content, encoding="utf-8")
    [names] = translator.target_tokenizer.tokens([range(translator.target_tokenizer.vocabulary_size)]).numpy()
    ids = translator.target_tokenizer.original_ids.tolist()
    assert [names[ids.index(at)].decode() for at in range(len(tokens) - 4, len(tokens))] == tokens[-4:]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": "s2s"}, "`type` must be 'transformer'. Received: 's2s'"),
        ({"transformer-preprocess": "n"}, "`transformer-preprocess` must be ''. Received: 'n'"),
        ({"transformer-postprocess": "da"}, "`transformer-postprocess` must be 'dan'"),
        ({"transformer-ffn-activation": "gelu"}, "must be 'swish' or 'relu'. Received: 'gelu'"),
        ({"transformer-decoder-autoreg": "rnn"}, "must be 'self-attention'. Received: 'rnn'"),
        ({"transformer-tied-layers": "\n  - 1\n  - 1"}, "`transformer-tied-layers` must .* '1, 1'"),
        ({"dim-emb": "wide"}, "`dim-emb` must be a number. Received: 'wide'"),
        ({"dec-depth": 2}, "is not whole: it has no 'decoder_l2_context_Wk'"),
        ({"enc-depth": 1}, "and no others. Received: 'encoder_l2_ffn_W1'"),
        ({"transformer-heads": 5}, "must divide"),
    ],
)
def test_options_that_are_not_known_are_refused(
    files: Any, changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    save(tmp_path, files[3], files[2], **changes)
    for name in ("source.spm", "target.spm"):
        (tmp_path / name).write_bytes((files[1] / name).read_bytes())
    with pytest.raises(InputError, match=message) as raised:
        kt.Translator.from_hugging_face(tmp_path)
    assert "\n" not in str(raised.value)


def test_damaged_files_are_refused(files: Any, tmp_path: Path) -> None:
    save(tmp_path, files[3], files[2])
    for name in ("source.spm", "target.spm"):
        (tmp_path / name).write_bytes((files[1] / name).read_bytes())
    path = tmp_path / "opus.npz"
    content = path.read_bytes()
    draw = np.random.default_rng(0)
    for place in [0, 1, 40, 200, *draw.integers(0, len(content), 20), len(content) - 3]:
        path.write_bytes(content[:place])
        with pytest.raises(InputError, match=r"opus\.npz"):
            kt.Translator.from_hugging_face(tmp_path)
    # Arrays have checksums, which their descriptions in front of each and at the end do not.
    for place in draw.integers(len(content) // 3, 2 * len(content) // 3, 20):
        path.write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
        with pytest.raises(InputError) as raised:
            kt.pretrained.HuggingFaceCheckpoint(tmp_path)
        assert "\n" not in str(raised.value)
    np.savez(path, objects=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="damaged, or no model of Marian"):
        kt.Translator.from_hugging_face(tmp_path)
    path.write_bytes(content)
    for name, text, message in (
        ("decoder.yml", DECODER.replace("opus.npz", "../opus.npz"), "one file beside it"),
        ("decoder.yml", DECODER.replace("opus.vocab.yml", "opus\0vocab.yml"), "hold no NUL"),
        (
            "decoder.yml",
            DECODER.replace("beam-size: 4", "beam-size: many"),
            "must be numbers. Received: 'many'",
        ),
        ("decoder.yml", DECODER.replace("vocabs", "others"), "and `vocabs` two"),
        ("opus.vocab.yml", "a: 0\nb: 2\n", "must be 0 to 1, each once"),
        ("opus.vocab.yml", "a: 0\nb: 1\n", "must have the token '</s>'"),
        ("opus.vocab.yml", "", "is empty"),
    ):
        before = (tmp_path / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=message):
            kt.Translator.from_hugging_face(tmp_path)
        (tmp_path / name).write_text(before, encoding="utf-8")
    (tmp_path / "source.spm").unlink()
    with pytest.raises(InputError, match=r"source\.spm"):
        kt.Translator.from_hugging_face(tmp_path)


def test_nothing_stays_behind(files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kt.Translator.from_hugging_face(files[1])
    assert list(tmp_path.iterdir()) == []
