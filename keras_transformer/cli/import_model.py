"""`keras-transformer import`."""

from pathlib import Path

import click

from keras_transformer.cli.terminal import Verb, _show, loading
from keras_transformer.errors import InputError


@click.command("import", cls=Verb)
@click.argument("source")
@click.argument("directory", type=click.Path())
@click.option("--source-language", help="Of a model of many languages, as it names it: de, de_DE, deu_Latn.")
@click.option("--target-language", help="Likewise, of the output.")
@click.option("--revision", help="Branch, tag or commit on the hub. Defaults to the main branch.")
@click.option(
    "--beam-size",
    type=click.IntRange(1, 1000),
    help="Number of hypotheses of the search. Defaults to the search of the model's generation_config.json.",
)
def import_model(
    source: str,
    directory: str,
    source_language: str | None,
    target_language: str | None,
    revision: str | None,
    beam_size: int | None,
) -> None:
    """Make DIRECTORY of a pretrained model: a directory of Hugging Face, or a name on its hub.

    Marian (OPUS-MT), BART, mBART, Pegasus, M2M100, NLLB, T5, mT5, UMT5, ByT5. All other commands
    read DIRECTORY: translate and evaluate with --model, train with --initial-model, export, plot. Whisper,
    which reads audio, and classifiers and taggers of BERT, DistilBERT and RoBERTa are supported only by
    export and in Python. To download a model needs the extra hugging_face.

    \b
      keras-transformer import Helsinki-NLP/opus-mt-de-en runs/de_en
      keras-transformer import downloads/opus-mt-de-en runs/de_en
      keras-transformer import facebook/nllb-200-distilled-600M runs/nllb \\
        --source-language deu_Latn --target-language eng_Latn
    """
    path = Path(directory)
    # A run's weights belong to its configuration and checkpoints.
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"Cannot write {directory}: it is there already.")
    with loading(source):
        from keras_transformer.decoding import BeamSearch
        from keras_transformer.pretrained import from_hugging_face
    options = {} if beam_size is None else {"search": BeamSearch(beam_size)}
    translator = from_hugging_face(source, source_language, target_language, revision=revision, **options)
    translator.save(directory)
    _show(directory)
