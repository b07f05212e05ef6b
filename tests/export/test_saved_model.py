"""Versions, atomicity, and answers of the directory that is written."""

import shutil
from pathlib import Path

import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.export import ExportError, ServedModel, export_saved_model, next_version, versions
from keras_transformer.export import saved_model as saved_model_module
from keras_transformer.export.verification import answers_of_fresh_process

TEXTS = ["a dog sat", "", "the cat", "\U0001f600 שלום", "x" * 100_000, "a\x00b", "the rat ran"]


@pytest.fixture(scope="module")
def exported(translator: kt.Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_saved_model(translator, tmp_path_factory.mktemp("models") / "tiny", ["a dog", "a cat"])


def test_the_directory_is_what_a_server_wants(exported: Path) -> None:
    assert exported.name == "1"
    assert [path.name for path in exported.parent.iterdir()] == ["1"]
    names = {str(path.relative_to(exported)) for path in exported.rglob("*") if path.is_file()}
    assert names >= {
        "README.md",
        "assets/source_vocabulary.txt",
        "assets/target_vocabulary.txt",
        "assets.extra/tf_serving_warmup_requests",
        "saved_model.pb",
        "variables/variables.index",
    }


def test_signature_names_types_and_shapes(exported: Path) -> None:
    serve = tf.saved_model.load(str(exported)).signatures["serving_default"]
    [text] = serve.structured_input_signature[1].values()
    assert (text.name, text.dtype, text.shape.as_list()) == ("text", tf.string, [None])
    outputs = {name: (spec.dtype, spec.shape.rank) for name, spec in serve.structured_outputs.items()}
    assert outputs == {"output": (tf.string, 1), "score": (tf.float32, 1)}


def test_answers_are_those_of_the_translator(exported: Path, translator: kt.Translator) -> None:
    served = ServedModel(exported).translate_with_scores(TEXTS)
    wanted = translator.translate_with_scores(TEXTS)
    assert [answer.text for answer in served] == [answer.text for answer in wanted]
    assert [answer.score for answer in served] == pytest.approx([answer.score for answer in wanted], abs=1e-4)


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


def test_it_works_after_a_move_in_a_fresh_process(
    exported: Path, translator: kt.Translator, tmp_path: Path
) -> None:
    moved = shutil.copytree(exported, tmp_path / "elsewhere")
    answers = answers_of_fresh_process(moved, TEXTS[:3], needs_tensorflow_text=False)
    assert [answer.text for answer in answers] == translator.translate(TEXTS[:3])


def test_subwords_need_only_the_operations_of_tensorflow_text(
    subword_translator: kt.Translator, tmp_path: Path
) -> None:
    directory = subword_translator.export(tmp_path / "tiny", ["a dog sat"])
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
    assert list((tmp_path / "tiny").iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(translator: kt.Translator, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(InputError, match=r"Cannot write .*file/tiny: Not a directory"):
        export_saved_model(translator, tmp_path / "file" / "tiny")
