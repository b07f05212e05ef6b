"""Trains a published result from its recipe, and prints its row of docs/results.md.

    python examples/recipes/reproduce.py sigmorphon2021 --data medium --seeds 1 --record docs/results.jsonl

`--data` is the directory of the data set as its authors publish it, plain or `.gz`; `addition` needs none.
Files go to `--directory`.
A run that was stopped is resumed, and one that is finished is scored again but not trained again.
`--ensemble` also scores the ensemble of all seeds, which averages their predictions.
"""

import argparse
import gzip
import json
import os
import platform
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import keras

import keras_transformer as kt

HERE = Path(__file__).resolve().parent
LANGUAGES = ("arm_e", "bul", "dut", "fre", "geo", "hbs_latn", "hun", "jpn_hira", "kor", "vie_hanoi")
Pair = tuple[str, str]


def lines(path: Path) -> list[str]:
    """Return the lines of a file, plain or `.gz`."""
    if path.exists():
        return path.read_text(encoding="utf-8").splitlines()
    with gzip.open(f"{path}.gz", "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def write_pairs(split: str, pairs: Iterable[Pair]) -> None:
    """Write the files `SPLIT.source` and `SPLIT.target`."""
    sources, targets = zip(*pairs, strict=True)
    Path(f"{split}.source").write_text("".join(f"{text}\n" for text in sources), encoding="utf-8")
    Path(f"{split}.target").write_text("".join(f"{text}\n" for text in targets), encoding="utf-8")


def as_source(language: str, word: str, languages: Sequence[str]) -> str:
    """Return a word as the model reads it: decomposed, and behind its language if there are several."""
    word = unicodedata.normalize("NFD", word)
    return f"{language.split('_')[0]} {word}" if len(languages) > 1 else word


def prepare_sigmorphon(data: Path, languages: Sequence[str] = LANGUAGES) -> None:
    """Write the words of the languages (github.com/sigmorphon/2021-task1, `data/medium`)."""
    for part, split in (("train", "train"), ("test", "dev")):
        pairs = []
        for language in languages:
            rows = (line.split("\t") for line in lines(data / f"{language}_{split}.tsv"))
            pairs += [(as_source(language, word, languages), phones) for word, phones in rows]
        write_pairs(part, pairs)


def word_error_rate(pairs: Sequence[Pair], outputs: list[Any]) -> float:
    """Return the part of wrong words, in percent."""
    return 100 * mean(output.text != target for (_, target), output in zip(pairs, outputs, strict=True))


def macro_word_error_rate(pairs: Sequence[Pair], outputs: list[Any]) -> float:
    """Return the mean over the languages of the part of wrong words, in percent."""
    wrong: dict[str, list[bool]] = {}
    for (source, target), output in zip(pairs, outputs, strict=True):
        wrong.setdefault(source.split()[0], []).append(output.text != target)
    return 100 * mean(map(mean, wrong.values()))


def write_sigmorphon(
    translator: kt.Translator, data: Path, directory: Path, languages: Sequence[str] = LANGUAGES
) -> None:
    """Write the phones for the test words of each language."""
    directory.mkdir(exist_ok=True)
    for language in languages:
        words = lines(data / f"{language}_test.words")
        phones = translator.translate([as_source(language, word, languages) for word in words])
        text = "".join(f"{word}\t{output}\n" for word, output in zip(words, phones, strict=True))
        (directory / f"{language}.tsv").write_text(text, encoding="utf-8")


def prepare_scan(data: Path, longest: int) -> None:
    """Write the commands of SCAN (github.com/brendenlake/SCAN); those of more actions than `longest` test."""
    rows = (line.removeprefix("IN: ").split(" OUT: ") for line in lines(data / "tasks.txt"))
    pairs = [(command, actions) for command, actions in rows]
    write_pairs("train", [pair for pair in pairs if len(pair[1].split()) <= longest])
    write_pairs("test", [pair for pair in pairs if len(pair[1].split()) > longest])


def exact_match(pairs: Sequence[Pair], outputs: list[Any]) -> float:
    """Return the part of right outputs, in percent."""
    return 100 - word_error_rate(pairs, outputs)


def write_nothing(_translator: kt.Translator, _data: Path, _directory: Path) -> None:
    """Write no further files."""


class Recipe(NamedTuple):
    """How a TOML file is trained and scored, in the working directory."""

    file: Path
    prepare: Callable[[Path], None]
    """Writes the files that the recipe reads, from the directory of the data set."""
    score: Callable[[Sequence[Pair], list[Any]], float]
    """Scores outputs for the test pairs."""
    write: Callable[[kt.Translator, Path, Path], None]
    """Writes what else a result has, from the directory of the data set into another directory."""

    def train(self, name: str, data: Path, seed: int) -> tuple[float, keras.Model, float]:
        """Train a run, or continue a stopped one; return the score, the model and the seconds."""
        if not Path("test.source").exists():
            self.prepare(data)
        run = kt.Run.from_toml(self.file, name=f"{name}_{seed}", seed=seed)
        if not (run.directory / "report.json").exists():
            run.train(resume=run.num_epochs > 0)
        # What was just trained has its outputs.
        outputs = run.outputs or run.kind.score(run.task, run.data.test)[1]
        self.write(run.translator, data, Path(f"outputs_{seed}"))
        report = json.loads((run.directory / "report.json").read_text(encoding="utf-8"))
        return self.score(run.data.test, outputs), run.task.model, report["seconds"]

    def join(self, name: str, data: Path, seeds: Sequence[int]) -> tuple[float, keras.Model]:
        """Return the score and the model of the ensemble of trained seeds."""
        sys.path.append(str(HERE.parent))
        from ensemble import join

        translator = join([f"runs/{name}_{seed}" for seed in seeds])
        pairs = kt.Run.open(f"runs/{name}_{seeds[0]}").data.test
        outputs = translator.translate_with_scores([source for source, _ in pairs])
        self.write(translator, data, Path("outputs_ensemble"))
        return self.score(pairs, outputs), translator.model


def train_addition(_name: str, _data: Path, seed: int) -> tuple[float, keras.Model, float]:
    """Train `addition.py`; return the exact sums of 15 digits in percent, the model and the seconds."""
    from addition import exact_sums, train

    start = time.monotonic()
    model = train(seed)
    seconds = time.monotonic() - start
    return 100 * exact_sums(model, num_digits=15), model, seconds


class Result(NamedTuple):
    """A result of docs/results.md."""

    measure: str
    published: str
    """What to compare with, and where it was published."""
    train: Callable[[str, Path, int], tuple[float, keras.Model, float]]
    """Trains and scores in the working directory, from the name, the data and the seed; returns the score,
    the model and the seconds."""
    join: Callable[[str, Path, Sequence[int]], tuple[float, keras.Model]] | None = None
    """Scores the ensemble of several seeds; returns the score and the model."""


def sigmorphon(languages: Sequence[str]) -> Recipe:
    """Return the recipe of one model for these languages."""
    is_one = len(languages) == 1
    return Recipe(
        HERE / ("sigmorphon2021_one.toml" if is_one else "sigmorphon2021.toml"),
        partial(prepare_sigmorphon, languages=languages),
        word_error_rate if is_one else macro_word_error_rate,
        partial(write_sigmorphon, languages=languages),
    )


def recipe_result(measure: str, published: str, recipe: Recipe) -> Result:
    """Return the result of a recipe."""
    return Result(measure, published, recipe.train, recipe.join)


RESULTS = {
    "addition": Result(
        measure="exact sums of 15 digits after training on at most 5, %",
        published="15 digits (Jelassi et al. 2023)",
        train=train_addition,
    ),
    "sigmorphon2021": recipe_result(
        "wrong words of the development set, mean of ten languages, %",
        "10.64 (Ashby et al. 2021, test set, an ensemble for each language)",
        sigmorphon(LANGUAGES),
    ),
    # The split of the published result; the length split of the data's authors trains on at most 22 actions.
    "scan_26": recipe_result(
        "exact outputs of more than 26 actions, %",
        "100 at 26 (Csordás et al. 2021: relative positions, shared layers)",
        Recipe(HERE / "scan.toml", partial(prepare_scan, longest=26), exact_match, write_nothing),
    ),
    # A model for a single language.
    **{
        f"sigmorphon2021_{language}": recipe_result(
            "wrong words of the development set, %",
            "10.64 on average over the languages",
            sigmorphon([language]),
        )
        for language in LANGUAGES
    },
}


def conditions() -> dict[str, str]:
    """Return on what a result was computed."""
    git = ("git", "-C", str(HERE), "log", "-1", "--format=%h")
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    packages = ", ".join(f"{name} {version(name)}" for name in ("keras", "tensorflow"))
    return {
        "commit": commit,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "versions": packages,
    }


def record(
    name: str, seeds: Sequence[int], score: float, model: keras.Model, minutes: float
) -> dict[str, object]:
    """Return the record of one seed, or of the ensemble of several."""
    return {
        "result": name if len(seeds) == 1 else f"{name}_ensemble",
        "seed": seeds[0] if len(seeds) == 1 else ", ".join(map(str, seeds)),
        "measure": RESULTS[name].measure,
        "score": round(score, 2),
        "published": RESULTS[name].published,
        "parameters": model.count_params(),
        "minutes": round(minutes, 1),
        **conditions(),
    }


def reproduce(
    name: str, data: Path, seeds: Sequence[int], *, ensemble: bool = False
) -> Iterator[dict[str, object]]:
    """Train and score seeds in the working directory; yield the record of each, and of their ensemble."""
    result, minutes = RESULTS[name], 0.0
    for seed in seeds:
        score, model, seconds = result.train(name, data, seed)
        minutes += seconds / 60
        yield record(name, [seed], score, model, seconds / 60)
    if ensemble and result.join is not None:
        yield record(name, seeds, *result.join(name, data, seeds), minutes)


def main() -> None:
    """Print the record of each seed, and add it to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", choices=RESULTS)
    parser.add_argument("--data", type=Path, default=Path(), help="directory of the data set")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--directory", type=Path, default=Path("build/recipes"), help="where to work")
    parser.add_argument("--record", type=Path, help="file to add the records to, a line of JSON each")
    parser.add_argument("--ensemble", action="store_true", help="also score the ensemble of the seeds")
    options = parser.parse_args()
    if options.ensemble and (len(options.seeds) < 2 or RESULTS[options.name].join is None):
        parser.error("--ensemble is for several seeds of a recipe")
    data, records = options.data.resolve(), options.record and options.record.resolve()
    directory = options.directory / options.name
    directory.mkdir(parents=True, exist_ok=True)
    os.chdir(directory)
    for result in reproduce(options.name, data, options.seeds, ensemble=options.ensemble):
        line = json.dumps(result, ensure_ascii=False)
        print(line)
        if records:
            with records.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
