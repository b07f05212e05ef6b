"""Versions, atomicity, and answers of the directory that is written."""

from pathlib import Path

import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.decoding import SampleSearch
from keras_transformer.errors import InputError
from keras_transformer.export import ExportError, ServedModel, export_saved_model, next_version, versions
from keras_transformer.export import saved_model as saved_model_module
from keras_transformer.export.verification import same_answer

TEXTS = ["a dog sat", "", "the cat", "\U0001f600 שלום", "x" * 100_000, "a\x00b", "the rat ran"]


def test_the_directory_is_what_a_server_wants(exported: Path) -> None:
    assert exported.name == "1"
    assert sorted(path.name for path in exported.parent.iterdir()) == ["1", "models.config"]
    names = {str(path.relative_to(exported)) for path in exported.rglob("*") if path.is_file()}
    assert names >= {
        "README.md",
        "assets/source_vocabulary.txt",
        "assets/target_vocabulary.txt",
        "assets.extra/tf_serving_warmup_requests",
        "saved_model.pb",
        "variables/variables.index",
    }


@pytest.mark.filterwarnings("ignore:.*longer than the translator's limits")
def test_answers_are_those_of_the_translator(exported: Path, translator: kt.Translator) -> None:
    served = ServedModel(exported)
    outputs = translator.translate(TEXTS)
    for answers, wanted in (
        (served.translate_with_scores(iter(TEXTS), batch_size=3), translator.translate_with_scores(TEXTS)),
        (served.n_best(TEXTS, num=2), translator.n_best(TEXTS)),
        (served.align(TEXTS), translator.align(TEXTS)),
        (served.score(TEXTS, outputs), translator.score(TEXTS, outputs)),
    ):
        assert len(answers) == len(TEXTS)
        assert all(same_answer(a, w) for a, w in zip(answers, wanted, strict=True))


def test_answers_do_not_depend_on_the_batch(exported: Path) -> None:
    served = ServedModel(exported)
    alone = [served.translate_with_scores([text])[0] for text in TEXTS]
    together = served.translate_with_scores(TEXTS)
    assert [answer.text for answer in alone] == [answer.text for answer in together]


def test_invalid_utf8_gets_an_answer_and_changes_no_neighbor(exported: Path) -> None:
    serve = tf.saved_model.load(str(exported)).signatures["serving_default"]
    rows = [b"a dog", b"\xff\xfe\xc3", b"", b"the rat"]
    outputs = serve(text=tf.constant(rows))["output"].numpy().tolist()
    alone = [serve(text=tf.constant([row]))["output"].numpy()[0] for row in rows]
    assert outputs == alone
    assert outputs[2] == b""


@pytest.mark.slow
@pytest.mark.parametrize("optimize", ["bfloat16", "xla"])
def test_other_optimizations_answer_too(
    exported: Path, translator: kt.Translator, tmp_path: Path, optimize: str
) -> None:
    # The writer has compared all signatures: bfloat16 with rounded weights, xla with those of float32.
    version = export_saved_model(translator, tmp_path / "tiny", ["a dog", "the cat ran over it"], optimize)
    sizes = [
        (path / "variables/variables.data-00000-of-00001").stat().st_size for path in (version, exported)
    ]
    assert (sizes[0] < 0.7 * sizes[1]) == (optimize == "bfloat16")  # vectors and names are not halved
    texts = ["a rat sat", "", "the dog"]
    served = ServedModel(version).translate_with_scores(texts)
    scores = [answer.score for answer in translator.translate_with_scores(texts)]
    tolerance = 0.1 if optimize == "bfloat16" else 1e-3
    assert [answer.score for answer in served] == pytest.approx(scores, abs=tolerance)


@pytest.mark.slow
def test_subwords_need_only_the_operations_of_tensorflow_text(
    subword_translator: kt.Translator, tmp_path: Path
) -> None:
    directory = export_saved_model(subword_translator, tmp_path / "tiny", ["a dog sat"])
    served = ServedModel(directory).translate_with_scores(["a cat", "a dog sat"])
    assert [answer.text for answer in served] == subword_translator.translate(["a cat", "a dog sat"])


def test_versions_count_up(tmp_path: Path) -> None:
    assert next_version(tmp_path / "none") == 1
    for name in ("2", "10", ".partial-11", "notes"):
        (tmp_path / name).mkdir()
    assert versions(tmp_path) == [2, 10]
    assert next_version(tmp_path) == 11


def test_a_wrong_export_never_appears(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise ExportError("differs")

    monkeypatch.setattr(saved_model_module, "verify_saved_model", refuse)
    with pytest.raises(ExportError, match="differs"):
        export_saved_model(translator, tmp_path / "tiny", ["a dog"])
    assert list(tmp_path.iterdir()) == []


def test_the_directory_of_a_version_is_refused(exported: Path, translator: kt.Translator) -> None:
    before = sorted(exported.rglob("*"))
    with pytest.raises(InputError, match=rf"Received: {exported}, a version\."):
        export_saved_model(translator, exported)
    assert sorted(exported.rglob("*")) == before


def test_a_search_by_chance_is_refused(translator: kt.Translator, tmp_path: Path) -> None:
    by_chance = kt.Translator(
        translator.model, translator.source_tokenizer, translator.target_tokenizer, search=SampleSearch()
    )
    with pytest.raises(ValueError, match=r"same answer each time .* Received: SampleSearch\."):
        export_saved_model(by_chance, tmp_path / "tiny")
    assert not (tmp_path / "tiny").exists()


def test_two_exports_at_once_do_not_mix(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first to end gets the number; the other one says so, and leaves nothing."""

    def write(writer: object, directory: Path, *arguments: object, **options: object) -> None:
        (directory / "graph").write_text("slow")
        if not list((tmp_path / "tiny").glob("1")):
            monkeypatch.setattr(saved_model_module, "write_version", write_fast)
            export_saved_model(translator, tmp_path / "tiny")

    def write_fast(writer: object, directory: Path, *arguments: object, **options: object) -> None:
        (directory / "graph").write_text("fast")

    monkeypatch.setattr(saved_model_module, "write_version", write)
    monkeypatch.setattr(saved_model_module, "verify_saved_model", lambda *arguments, **options: None)
    with pytest.raises(InputError, match="Cannot write"):
        export_saved_model(translator, tmp_path / "tiny")
    assert (tmp_path / "tiny/1/graph").read_text() == "fast"
    assert sorted(path.name for path in (tmp_path / "tiny").iterdir()) == ["1", "models.config"]


def test_an_unknown_optimization_is_refused(translator: kt.Translator, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`optimize` must be one of .* Received: optimize='int8'\."):
        export_saved_model(translator, tmp_path / "tiny", optimize="int8")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(translator: kt.Translator, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(InputError, match=r"Cannot write .*file/tiny/1: Not a directory"):
        export_saved_model(translator, tmp_path / "file" / "tiny")


def test_a_disk_that_is_full_is_named(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", full)
    with pytest.raises(InputError, match=r"Cannot write .*: No space left on device"):
        export_saved_model(translator, tmp_path / "tiny", ["a dog"])
    assert not (tmp_path / "tiny").exists()
