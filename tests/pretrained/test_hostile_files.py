"""Files of others that are wrong in one place: a message that names the file and the value, and no memory."""

import contextlib
import json
import pickle
import resource
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.pretrained import from_hugging_face, read_tokenizers
from pretrained_models import LANGUAGES, save_translator, save_whisper

pytestmark = pytest.mark.backend
MANY = 10**9


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("families")

    def made(family: str) -> Path:
        pytest.importorskip("transformers")
        if not (root / family).exists():
            save = save_whisper if family == "whisper" else lambda path: save_translator(family, path)
            save(root / family)
        return root / family

    return made


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Let an allocation of gigabytes fail, which else the machine might survive."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def edited(directory: Path, name: str, *keys: Any, value: object) -> None:
    """Change one value of a file of JSON."""
    path = directory / name
    table = json.loads(path.read_text(encoding="utf-8"))
    place = table
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path.write_text(json.dumps(table), encoding="utf-8")


NUMBERS = [
    ("marian", "config.json", "vocab_size"),
    ("marian", "config.json", "d_model"),
    ("marian", "config.json", "encoder_layers"),
    ("marian", "config.json", "decoder_layers"),
    ("marian", "config.json", "encoder_ffn_dim"),
    ("marian", "config.json", "max_position_embeddings"),
    ("marian", "generation_config.json", "num_beams"),
    ("bart", "config.json", "max_position_embeddings"),
    ("m2m100", "config.json", "max_position_embeddings"),
    ("t5", "config.json", "num_layers"),
    ("t5", "config.json", "num_heads"),
    ("t5", "config.json", "d_kv"),
    ("t5", "config.json", "d_ff"),
    ("t5", "tokenizer_config.json", "extra_ids"),
    ("whisper", "config.json", "max_source_positions"),
    ("whisper", "config.json", "num_mel_bins"),
]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is not limited so")
@pytest.mark.parametrize(("family", "name", "key"), NUMBERS)
def test_a_large_number_takes_no_memory(
    family: str, name: str, key: str, original: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copytree(original(family), tmp_path / "hub")
    edited(tmp_path / "hub", name, key, value=MANY)
    with little_memory(), pytest.raises(InputError, match=rf"{name}.*{key}") as raised:
        from_hugging_face(tmp_path / "hub", *{**LANGUAGES, "whisper": ("de",)}.get(family, ()))
    assert "1000000000" in str(raised.value) or key == "d_kv" or key == "num_heads"


def test_rules_that_no_output_meets_cost_nothing(original: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copytree(original("marian"), tmp_path / "hub")
    wanted = from_hugging_face(tmp_path / "hub")
    edited(tmp_path / "hub", "generation_config.json", "no_repeat_ngram_size", value=MANY)
    assert from_hugging_face(tmp_path / "hub").search == wanted.search
    edited(tmp_path / "hub", "generation_config.json", "min_length", value=MANY)
    assert from_hugging_face(tmp_path / "hub").search.constraints.min_length == wanted.max_target_length


VALUES = [
    ("config.json", ("model_type",), []),
    ("config.json", ("architectures",), 5),
    ("config.json", ("vocab_size",), {}),
    ("config.json", ("vocab_size",), None),
    ("config.json", ("activation_function",), 3),
    ("config.json", ("dropout",), 1e300),
    ("config.json", ("model_type",), "\ud800"),
    ("vocab.json", ("a",), []),
    ("vocab.json", ("a",), 1.5),
    ("tokenizer_config.json", ("tokenizer_class",), []),
    ("tokenizer_config.json", ("separate_vocabs",), "yes"),
    ("tokenizer_config.json", ("added_tokens_decoder",), {"x": 3}),
    ("tokenizer_config.json", ("added_tokens_decoder",), {"7": []}),
    ("tokenizer_config.json", ("added_tokens_decoder",), {"9" * 5000: {"content": "x"}}),
    ("generation_config.json", ("bad_words_ids",), 7),
    ("generation_config.json", ("bad_words_ids",), [["a"]]),
    ("generation_config.json", ("eos_token_id",), {}),
    ("generation_config.json", ("length_penalty",), -1),
    ("generation_config.json", ("max_length",), 0),
]


@pytest.mark.parametrize(("name", "keys", "value"), VALUES)
def test_one_value_is_named(
    name: str, keys: tuple[str, ...], value: object, original: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copytree(original("marian"), tmp_path / "hub")
    edited(tmp_path / "hub", name, *keys, value=value)
    with pytest.raises(InputError) as raised:
        from_hugging_face(tmp_path / "hub")
    assert name in str(raised.value)
    assert keys[-1] in str(raised.value) or name == "vocab.json" or keys[-1] == "added_tokens_decoder"
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("model",), 5),
        (("model", "type"), "WordPiece"),
        (("model", "unk_id"), MANY),
        (("model", "vocab"), {"a": 1}),
        (("model", "vocab", 0), [1, 2]),
        (("normalizer",), {"type": "Lowercase"}),
        (("normalizer",), [5]),
        (("normalizer", "precompiled_charsmap"), "ä"),
        (("pre_tokenizer",), {"type": "Digits"}),
        (("added_tokens", 0, "id"), MANY),
        (("added_tokens", 0, "content"), None),
        (("added_tokens",), {"a": 1}),
    ],
)
def test_values_of_a_tokenizer_of_one_file(
    keys: tuple[Any, ...], value: object, original: Callable[[str], Path], tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    shutil.copytree(original("t5"), tmp_path / "hub")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hub")
    (tmp_path / "hub" / "spiece.model").unlink()
    tokenizer.save_pretrained(tmp_path / "hub")
    edited(tmp_path / "hub", "tokenizer.json", *keys, value=value)
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        read_tokenizers(tmp_path / "hub")


def test_pickles_that_say_they_are_large(original: Callable[[str], Path], tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    shutil.copytree(original("marian"), tmp_path / "hub")
    (tmp_path / "hub" / "model.safetensors").unlink()
    path = tmp_path / "hub" / "pytorch_model.bin"
    torch.save({"final_logits_bias": torch.zeros(1).expand(1, MANY)}, path)
    with pytest.raises(
        InputError, match=r"'final_logits_bias' must be whole. Received: the shape \(1, 10{9}\)"
    ):
        from_hugging_face(tmp_path / "hub")
    # Entries of a ZIP file that are packed: a thousandth of what they become.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", pickle.dumps({}))
        file.writestr("archive/data/0", bytes(2**24))
    with pytest.raises(InputError, match=r"must have entries that are not packed\. Received: 'archive/data"):
        from_hugging_face(tmp_path / "hub")


OTHERS = {
    "adapter": (
        ("adapter_config.json", "adapter_model.safetensors"),
        "an adapter of PEFT .*merge_and_unload",
    ),
    "tensorflow": (
        ("config.json", "tf_model.h5"),
        r"has no weights: .*from_tf=True.* Received: config\.json, tf",
    ),
    "flax": (
        ("config.json", "flax_model.msgpack"),
        r"has no weights: .*Flax .* Received: .*flax_model\.msgpack",
    ),
    "kerashub": (("config.json", "task.json", "model.weights.h5"), "a preset of KerasHub: load it with"),
    "fairseq": (("dict.de.txt", "dict.en.txt", "checkpoint_best.pt"), "a model of fairseq: convert it"),
    "opennmt-py": (("model_step_100.pt",), "a checkpoint of torch, as OpenNMT-py"),
    "opennmt-tf": (("checkpoint", "ckpt-100.index", "ckpt-100.data-00000-of-00001"), "OpenNMT-tf"),
    "ctranslate2": (("config.json", "model.bin", "shared_vocabulary.json"), "a model of CTranslate2"),
    "marian": (("model.npz", "decoder.yml"), "a model of Marian: convert it"),
    "ours": (("translator.json", "config.json"), r"a model of this package already: .*Translator\.load"),
}


@pytest.mark.parametrize("program", OTHERS)
def test_directories_of_other_programs_are_named(program: str, tmp_path: Path) -> None:
    names, message = OTHERS[program]
    for name in names:
        (tmp_path / name).write_text('{"model_type": "t5"}')
    with pytest.raises(InputError, match=message):
        from_hugging_face(tmp_path)


def test_a_mistyped_path_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "downloads" / "opus-mt-de-en").mkdir(parents=True)
    (tmp_path / "downloads" / "file.json").write_text("{}")
    with pytest.raises(InputError, match=r"there is downloads/opus-mt-de-en"):
        from_hugging_face("downloads/opus-mt-de-em")
    with pytest.raises(InputError, match=r"is a file; the model is its directory, downloads"):
        from_hugging_face("downloads/file.json")
    with pytest.raises(InputError, match=r"only a model on the hub has revisions\. Received: revision='v2'"):
        from_hugging_face("downloads/opus-mt-de-en", revision="v2")


@pytest.mark.parametrize("form", ["safetensors", "pickle"])
def test_weights_are_downloaded_once(
    form: str, original: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    hub, cache = tmp_path / "hub", tmp_path / "cache"
    shutil.copytree(original("marian"), hub)
    weights = pytest.importorskip("safetensors.torch").load_file(hub / "model.safetensors")
    torch.save(weights, hub / "pytorch_model.bin")
    if form == "pickle":
        (hub / "model.safetensors").unlink()
    for name in ("tf_model.h5", "flax_model.msgpack", "rust_model.ot", "model.fp16.safetensors"):
        (hub / name).write_bytes(b"large")
    calls = []

    def snapshot_download(name: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        calls.append((name, revision))
        cache.mkdir(exist_ok=True)
        for pattern in allow_patterns:
            for path in hub.glob(pattern):
                shutil.copy(path, cache / path.name)
        return str(cache)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot_download))
    translator = from_hugging_face("Helsinki-NLP/opus-mt-de-en", revision="v1.0")
    assert isinstance(translator, kt.Translator)
    assert {*calls} == {("Helsinki-NLP/opus-mt-de-en", "v1.0")}
    wanted = {"safetensors": "model.safetensors", "pickle": "pytorch_model.bin"}[form]
    assert {path.name for path in cache.iterdir()} - {path.name for path in cache.glob("*.json")} == {
        wanted,
        "source.spm",
        "target.spm",
    }
