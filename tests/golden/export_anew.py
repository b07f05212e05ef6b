"""Writes the exports of the tree, with short names: from the weights in the tree, or from a run.

python tests/golden/export_anew.py DIRECTORY                             # `dates` and `cmudict`
python tests/golden/export_anew.py DIRECTORY runs/en_de multi30k_en_de   # another one, from its run
"""

import sys
from pathlib import Path

import golden_exports
from short_names import examples, shorten

import keras_transformer as kt

# The limits and the search of each.
MADE = {
    "dates": ((64, 16), kt.decoding.GreedySearch()),
    "cmudict": ((256, 40), kt.decoding.BeamSearch(4, length_penalty=1.0, early_stopping=True)),
}


def rebuilt(name: str) -> tuple[kt.Translator, list[str]]:
    """Return the translator of an export, and the texts with which it was made."""
    (max_source_length, max_target_length), search = MADE[name]
    translator = golden_exports.rebuilt_translator(name).with_changes(
        search=search, max_source_length=max_source_length, max_target_length=max_target_length
    )
    return translator, examples(golden_exports.SAVED_MODELS / name / "1")


def main() -> None:
    """Read the command line, write and verify."""
    directory, *of_run = sys.argv[1:]
    if of_run:
        run, name = of_run
        made = {name: (kt.Translator.load(run), [*kt.Run.examples(run)])}
    else:
        made = {name: rebuilt(name) for name in MADE}
    for name, (translator, texts) in made.items():
        # Weights of half the size; those of `dates` are small, and show what an export is by default.
        optimize = "float32" if name == "dates" else "bfloat16"
        version = kt.export.export_saved_model(translator, Path(directory, name), texts, optimize)
        shorten(version)
        print(version)


if __name__ == "__main__":
    main()
