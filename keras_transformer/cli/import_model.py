"""`keras-transformer import`."""

from pathlib import Path

import click

from keras_transformer.cli.terminal import Verb, _show, loading
from keras_transformer.errors import InputError


@click.command("import", cls=Verb)
@click.argument("source")
@click.argument("directory", type=click.Path())
@click.option(
    "--source-language",
    help="Source language of a multilingual model, as the model writes it: de, de_DE or deu_Latn.",
)
@click.option(
    "--target-language", help="Target language of a multilingual model, such as en, en_XX or eng_Latn."
)
@click.option("--revision", help="Branch, tag or commit on the Hub. Defaults to the main branch.")
@click.option(
    "--beam-size",
    type=click.IntRange(1, 1000),
    help="Use beam search with this beam size instead of the search in the model's generation_config.json.",
)
def import_model(
    source: str,
    directory: str,
    source_language: str | None,
    target_language: str | None,
    revision: str | None,
    beam_size: int | None,
) -> None:
    """Convert a pretrained Hugging Face model (a local directory or a name on the Hub).

    SOURCE is the pretrained model, DIRECTORY the new directory to write. Supported: Marian (OPUS-MT), BART,
    mBART, Pegasus, M2M100, NLLB, T5, mT5, UMT5, ByT5 and Whisper; classifiers and taggers of BERT,
    DistilBERT and RoBERTa. Downloads need the extra `hugging_face`.

    Use DIRECTORY like a trained model: in export, with --initial-model in train, and with --model in
    translate, classify, tag, evaluate and `plot attention`. For Whisper (audio input), use export or the
    Python API.

    \b
      keras-transformer import Helsinki-NLP/opus-mt-de-en runs/de_en
      keras-transformer import downloads/opus-mt-de-en runs/de_en
      keras-transformer import facebook/nllb-200-distilled-600M runs/nllb \\
        --source-language deu_Latn --target-language eng_Latn
    """
    path = Path(directory)
    # Writing into a run would separate its weights from its configuration and checkpoints.
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"Cannot write {directory}: it already exists.")
    with loading(source):
        from keras_transformer.decoding import BeamSearch
        from keras_transformer.pretrained import from_hugging_face
    options = {} if beam_size is None else {"search": BeamSearch(beam_size)}
    translator = from_hugging_face(source, source_language, target_language, revision=revision, **options)
    translator.save(directory)
    _show(directory)
