"""Combine trained models into an ensemble that averages their predictions and is used as one model.

keras-transformer train --config cmudict.toml
keras-transformer train --config cmudict.toml --name cmudict_2 --seed 2
python ensemble.py runs/cmudict runs/cmudict_2 --output runs/both

The output is the directory of a model, for `keras-transformer translate --model runs/both`, `evaluate` and
`export`. Everything else, such as the search, is that of the first model. The models must have the same
vocabularies: train them on the same pairs with the same options, or begin one run with the other
(`--initial-model`).
"""

import argparse

from keras_transformer.errors import InputError
from keras_transformer.models import Ensemble
from keras_transformer.tasks import Translator


def join(directories: list[str]) -> Translator:
    """Load translators and join them into one."""
    translators = [Translator.load(directory) for directory in directories]
    first = translators[0]
    for directory, other in zip(directories, translators, strict=True):
        for side in ("source_tokenizer", "target_tokenizer"):
            if getattr(other, side).fingerprint() != getattr(first, side).fingerprint():
                raise InputError(f"{directory} has another {side} than {directories[0]}.")
    models = [translator.model.with_dtype("float32") for translator in translators]
    return first.with_changes(model=Ensemble(models))


def main() -> None:
    """Read the command line, join the models and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", help="directories of trained models, two or more")
    parser.add_argument("--output", required=True, help="directory to write")
    arguments = parser.parse_args()
    try:
        translator = join(arguments.models)
    except (InputError, ValueError, TypeError) as error:
        parser.error(str(error))
    translator.save(arguments.output)
    print(f"wrote {arguments.output}: {translator.model.count_params():,} parameters")


if __name__ == "__main__":
    main()
