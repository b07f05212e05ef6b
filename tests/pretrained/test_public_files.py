"""Directories as they are in public, written by others from 2019 on: `transformers` is the measure.

What its `from_pretrained` reads without missing keys is read here, with equal ids, logits and tokens.
"""

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from helpers import array
from pretrained_models import LANGUAGES, save_translator

pytestmark = [
    pytest.mark.backend,
    # Of transformers' Marian tokenizer, which does not normalize punctuation by itself in any case.
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
]
if keras.backend.backend() == "tensorflow":
    # Searches run eagerly, for which tracing one takes longer than it does.
    pytestmark.append(pytest.mark.usefixtures("_without_traces"))
TEXTS = ["A dog runs.", "Ein Hund läuft über die grüne Wiese.", "two  <sum> men", "dogs {x}"]
_Form = Callable[[Path], Any]


def edit(path: Path, *leave_out: str, **values: object) -> None:
    """Change values of a file of JSON."""
    table = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    table = {name: value for name, value in {**table, **values}.items() if name not in leave_out}
    path.write_text(json.dumps(table), encoding="utf-8")


def tensors_of(directory: Path) -> dict[str, Any]:
    tensors: dict[str, Any] = pytest.importorskip("safetensors.torch").load_file(
        directory / "model.safetensors"
    )
    return tensors


def put(directory: Path, tensors: dict[str, Any]) -> None:
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save = pytest.importorskip("safetensors.torch").save_file
    save(whole, directory / "model.safetensors", metadata={"format": "pt"})


def put_pickle(directory: Path, tensors: dict[str, Any], *, is_old: bool = True) -> None:
    torch = pytest.importorskip("torch")
    (directory / "model.safetensors").unlink()
    path = directory / "pytorch_model.bin"
    torch.save(tensors, path, _use_new_zipfile_serialization=not is_old)


def opus_mt(directory: Path) -> None:
    """Write what Helsinki-NLP/opus-mt-ar-fr has: all flags, weights as torch wrote them before 1.6."""
    config = json.loads((directory / "config.json").read_text())
    pad = config["vocab_size"] - 1
    generation = {
        "bad_words_ids": [[pad]],
        "bos_token_id": 0,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "max_length": 12,
        "num_beams": 4,
        "pad_token_id": pad,
    }
    flags = {
        "_num_labels": 3,
        "add_bias_logits": False,
        "add_final_layer_norm": False,
        "classif_dropout": 0.0,
        "classifier_dropout": 0.0,
        "decoder_vocab_size": pad + 1,
        "extra_pos_embeddings": pad + 1,
        "gradient_checkpointing": False,
        "id2label": {"0": "LABEL_0"},
        "normalize_before": False,
        "normalize_embedding": False,
        "num_hidden_layers": 2,
        "share_encoder_decoder_embeddings": True,
        "static_position_embeddings": True,
    }
    edit(directory / "config.json", **flags, **generation, transformers_version="4.22.0.dev0")
    table = {**generation, "renormalize_logits": True, "transformers_version": "4.32.0.dev0"}
    (directory / "generation_config.json").write_text(json.dumps(table))
    put_pickle(directory, tensors_of(directory))


def only(name: str) -> _Form:
    """Return what keeps one of the tables that are tied, as the bot of the hub did: the first by name."""

    def keep(directory: Path) -> None:
        tensors = tensors_of(directory)
        [shared] = [each for each in tensors if each.endswith("shared.weight")]
        put(directory, {name if each == shared else each: tensor for each, tensor in tensors.items()})

    return keep


def t5_small(directory: Path) -> None:
    """Write the dead tensor of t5-small, the copies of its table, and options of its tasks."""
    torch, tensors = pytest.importorskip("torch"), tensors_of(directory)
    copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
    tensors |= dict.fromkeys(copies, tensors["shared.weight"])
    dead = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    put_pickle(directory, {**tensors, dead: torch.randn(32, 3)})
    tasks = {"translation_en_to_de": {"early_stopping": True, "prefix": "translate English to German: "}}
    edit(directory / "config.json", n_positions=512, output_past=True, task_specific_params=tasks)


def bart_large_cnn(directory: Path) -> None:
    """Leave out the row of `<mask>`, the last token, and all tables but that of the decoder."""
    names = json.loads((directory / "vocab.json").read_text())
    order = [name for name in sorted(names, key=names.get) if name != "<mask>"]
    table = {name: number for number, name in enumerate([*order, "<mask>"])}
    (directory / "vocab.json").write_text(json.dumps(table))
    tensors = tensors_of(directory)
    rows = [number for number in range(len(table)) if number != names["<mask>"]]
    tensors["model.decoder.embed_tokens.weight"] = tensors.pop("model.shared.weight")[rows]
    tensors["final_logits_bias"] = tensors["final_logits_bias"][:, rows]
    put(directory, tensors)
    edit(directory / "config.json", vocab_size=len(rows), force_bos_token_to_be_generated=True, prefix=" ")


def without_head(directory: Path) -> None:
    """Write it as `BartModel` of fairseq: no prefix, no bias, and names that nothing reads."""
    torch = pytest.importorskip("torch")
    names = {name.removeprefix("model."): tensor for name, tensor in tensors_of(directory).items()}
    names.pop("final_logits_bias")
    versions = dict.fromkeys(("encoder.version", "decoder.version"), torch.tensor([3.0]))
    put_pickle(directory, {**names, **versions})
    edit(directory / "config.json", architectures=["BartModel"])


def parameters(directory: Path) -> None:
    torch, tensors = pytest.importorskip("torch"), tensors_of(directory)
    put_pickle(directory, {name: torch.nn.Parameter(each) for name, each in tensors.items()}, is_old=False)


def alone(directory: Path) -> None:
    """Write the tokenizer as version 5 of transformers does: in one file."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    for pattern in ("*.model", "vocab.json", "merges.txt", "tokenizer_config.json"):
        for path in directory.glob(pattern):
            path.unlink()
    tokenizer.save_pretrained(directory)
    assert not [*directory.glob("*.model")]


def added_tokens(directory: Path) -> None:
    """Add tokens that texts have, as fine-tuned models do; the table has rows for them."""
    tokenizer = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(directory)
    tokenizer.add_tokens(["<sum>", "{"])
    tokenizer.save_pretrained(directory)


def older_added_tokens(directory: Path) -> None:
    size = json.loads((directory / "config.json").read_text())["vocab_size"]
    torch, tensors = pytest.importorskip("torch"), tensors_of(directory)
    tensors["model.shared.weight"] = torch.cat([tensors["model.shared.weight"], torch.randn(1, 16)])
    tensors["final_logits_bias"] = torch.cat([tensors["final_logits_bias"], torch.zeros(1, 1)], dim=1)
    put(directory, tensors)
    edit(directory / "config.json", vocab_size=size + 1, decoder_vocab_size=size + 1)
    edit(directory / "added_tokens.json", **{"<sum>": size})
    flags = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word", "special"), False)
    added = {str(size): {"content": "<sum>", **flags}}
    edit(directory / "tokenizer_config.json", added_tokens_decoder=added)


def umt5(directory: Path) -> None:
    edit(directory / "config.json", "model_type", scalable_attention=True, tokenizer_class="T5Tokenizer")


def notes(directory: Path) -> None:
    """Write names that no class of transformers reads."""
    edit(directory / "config.json", _attn_implementation_autoset=True, transformer_xl_memory=12)
    edit(directory / "generation_config.json", a_new_option=7)
    tensors = tensors_of(directory)
    put(directory, {**tensors, "model.extra.weight": tensors["final_logits_bias"].clone()})


# A family, what makes its directory like a public one, and names that a line must have.
FORMS: dict[str, tuple[str, _Form, tuple[str, ...]]] = {
    "opus-mt": ("marian", opus_mt, ("renormalize_logits=True",)),
    "notes": (
        "marian",
        notes,
        (
            "_attn_implementation_autoset=True",
            "transformer_xl_memory=12",
            "a_new_option=7",
            "'model.extra.weight'",
        ),
    ),
    "marian-encoder-table": ("marian", only("model.encoder.embed_tokens.weight"), ()),
    "bart-decoder-table": ("bart", only("model.decoder.embed_tokens.weight"), ()),
    "mbart-output-table": ("mbart", only("lm_head.weight"), ()),
    "t5-output-table": ("t5", only("lm_head.weight"), ()),
    "t5-small": ("t5", t5_small, ("EncDecAttention.relative_attention_bias.weight'",)),
    "bart-large-cnn": ("bart", bart_large_cnn, ()),
    "bart-large": ("bart", without_head, ("'model.decoder.version', 'model.encoder.version'",)),
    "parameters": ("pegasus", parameters, ()),
    "t5-alone": ("t5", alone, ()),
    "nllb-alone": ("nllb", alone, ()),
    "mbart-alone": ("mbart", alone, ()),
    "mbart50-alone": ("mbart50", alone, ()),
    "pegasus-alone": ("pegasus", alone, ()),
    "added-tokens": ("t5", added_tokens, ()),
    "older-added-tokens": ("marian", older_added_tokens, ()),
    "umt5": ("umt5", umt5, ("`model_type` is missing, and taken to be umt5", "scalable_attention=True")),
}
SLOW = ("mbart-output-table", "parameters", "mbart50-alone", "pegasus-alone", "t5-output-table")


@pytest.fixture
def _without_traces() -> Iterator[None]:
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the directory of a family as `save_pretrained` of today writes it, made once."""
    root = tmp_path_factory.mktemp("families")

    def made(family: str) -> Path:
        pytest.importorskip("transformers")
        if not (root / family).exists():
            save_translator(family, root / family, num_beams=3)
        return root / family

    return made


def theirs(directory: Path, family: str) -> tuple[Any, Any]:
    """Return the model and the tokenizer of transformers, which must find all keys."""
    transformers = pytest.importorskip("transformers")
    model_class, tokenizer_class = transformers.AutoModelForSeq2SeqLM, transformers.AutoTokenizer
    if family == "umt5":  # a name of a directory that has "umt5" tells it the family
        model_class, tokenizer_class = transformers.UMT5ForConditionalGeneration, transformers.T5Tokenizer
    model, info = model_class.from_pretrained(directory, output_loading_info=True)
    # Sinusoids, and a bias of zeros.
    derived = ("embed_positions", "final_logits_bias")
    assert not [name for name in info["missing_keys"] if not any(part in name for part in derived)]
    languages = dict(zip(("src_lang", "tgt_lang"), LANGUAGES.get(family, ()), strict=False))
    return model.eval(), tokenizer_class.from_pretrained(directory, **languages)


@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=[pytest.mark.slow] * (form in SLOW)) for form in FORMS]
)
def test_a_public_directory_is_read_as_transformers_reads_it(
    form: str, original: Callable[[str], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch = pytest.importorskip("torch")
    family, change, named = FORMS[form]
    directory = tmp_path / "hub"
    shutil.copytree(original(family), directory)
    change(directory)
    model, tokenizer = theirs(directory, family)
    with caplog.at_level(logging.WARNING, "keras_transformer"):
        translator = kt.from_hugging_face(directory, *LANGUAGES.get(family, ()))
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("keras_")]
    # One line for each file.
    assert len(messages) <= 3
    assert all(any(name in message for message in messages) for name in named)
    source, target = translator.source_tokenizer, translator.target_tokenizer
    rows = [[*row, *source.end_ids] for row in source.tokenize(TEXTS).to_list()]
    assert [source.original_ids[row].tolist() for row in rows] == [
        tokenizer(text).input_ids for text in TEXTS
    ]
    # Logits, of which the start and what has no row are none.
    ids = translator.token_ids(TEXTS)
    start = model.config.decoder_start_token_id
    start = int(target.original_ids[2]) if target.original_ids[2] >= 0 else start
    outputs = np.array([[2, 7, 9, 11]] * len(TEXTS))
    logits = array(translator.model({"encoder_token_ids": ids, "decoder_token_ids": outputs}))
    theirs_outputs = np.where(outputs == 2, start, target.original_ids[outputs])
    with torch.no_grad():
        wanted = model(
            input_ids=torch.tensor(source.original_ids[ids]),
            attention_mask=torch.tensor(ids != 0),
            decoder_input_ids=torch.tensor(theirs_outputs),
        ).logits.numpy()
    regular = np.arange(len(target.original_ids)) > 2
    np.testing.assert_allclose(
        logits[..., regular], wanted[..., target.original_ids[regular]], rtol=0, atol=1e-4
    )
    # Tokens of its search.
    first = translator.search.constraints.first_token_ids
    forced = {"forced_bos_token_id": int(target.original_ids[first[0]])} if first and family != "bart" else {}
    inputs = tokenizer(TEXTS, return_tensors="pt", padding=True)
    found = model.generate(**inputs, **forced, decoder_start_token_id=start).tolist()
    pad, end = model.config.pad_token_id, int(target.original_ids[3])
    wanted_rows = [[token for token in row[1:] if token != pad] for row in found]
    wanted_rows = [row[: row.index(end, 1) + 1] if end in row[1:] else row for row in wanted_rows]
    best = np.asarray(translator.generate(ids).token_ids)[:, 0]
    assert [target.original_ids[row[row != 0]].tolist() for row in best] == wanted_rows


@pytest.mark.parametrize("family", ["t5", "mbart"])
def test_a_tokenizer_of_one_file_splits_as_its_model(
    family: str, original: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copytree(original(family), tmp_path / "hub")
    before, _ = kt.pretrained.read_tokenizers(tmp_path / "hub", *LANGUAGES.get(family, ()))
    alone(tmp_path / "hub")
    after, _ = kt.pretrained.read_tokenizers(tmp_path / "hub", *LANGUAGES.get(family, ()))
    texts = [*TEXTS, "", "  two\u3000words\n", "ĥ ĥĥ", "▁a"]
    assert after.tokenize(texts).to_list() == before.tokenize(texts).to_list()
    np.testing.assert_array_equal(after.original_ids, before.original_ids)
    # It is saved and read again.
    after.save(tmp_path / "saved")
    assert kt.text.Tokenizer.load(tmp_path / "saved").fingerprint() == after.fingerprint()


@pytest.mark.parametrize(("code", "form"), [("gsw", "__gsw__"), ("tyv_Cyrl", "tyv_Cyrl")])
def test_an_added_language_is_one(
    code: str, form: str, original: Callable[[str], Path], tmp_path: Path
) -> None:
    family = "m2m100" if form != code else "nllb"
    directory = tmp_path / "hub"
    shutil.copytree(original(family), directory)
    settings = json.loads((directory / "tokenizer_config.json").read_text())
    rows = json.loads((directory / "config.json").read_text())["vocab_size"]
    # A row of the table that has had no token.
    number = rows - 8 if family == "m2m100" else rows - 1
    added = {**settings.get("added_tokens_decoder", {}), str(number): {"content": form, "special": True}}
    edit(directory / "tokenizer_config.json", added_tokens_decoder=added)
    known, _ = LANGUAGES[family]
    source, target = kt.pretrained.read_tokenizers(directory, known, code)
    assert target.original_ids[target.prefix_ids[0]] == number
    assert source.original_ids[source.prefix_ids[0]] != number
