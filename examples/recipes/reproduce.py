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
import random
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import mean
from types import MappingProxyType
from typing import Any, NamedTuple

import keras

import keras_transformer as kt
from keras_transformer.data import read_lines

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))  # the examples
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


def prepare_cmudict(data: Path) -> None:
    """Write the words of CMUdict (split g014b2b), a line for each pronunciation."""
    for split in ("train", "test"):
        rows = (line.split("\t") for line in lines(data / f"{split}.tsv"))
        write_pairs(split, [(word, phones) for word, *targets in rows for phones in targets])


def word_error_rate(pairs: Sequence[Pair], outputs: list[Any]) -> float:
    """Return the part of wrong words, in percent; each target of a word is right."""
    right: dict[str, bool] = {}
    for (source, target), output in zip(pairs, outputs, strict=True):
        right[source] = right.get(source, False) or output.text == target
    return 100 * (1 - mean(right.values()))


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


def read_scan(path: Path) -> list[Pair]:
    """Return commands of SCAN (github.com/brendenlake/SCAN) and their actions."""
    rows = (line.removeprefix("IN: ").split(" OUT: ") for line in lines(path))
    return [(command, actions) for command, actions in rows]


def prepare_scan(data: Path, longest: int) -> None:
    """Write the commands of SCAN; those of more actions than `longest` are the test set."""
    pairs = read_scan(data / "tasks.txt")
    write_pairs("train", [pair for pair in pairs if len(pair[1].split()) <= longest])
    write_pairs("test", [pair for pair in pairs if len(pair[1].split()) > longest])


def prepare_scan_jump(data: Path, num_verbs: int) -> None:
    """Write SCAN's split that trains on `jump` alone, with commands of `num_verbs` invented verbs added."""
    pairs = read_scan(data / "tasks_train_addprim_jump.txt")
    write_pairs("train", with_invented_verbs(pairs, num_verbs) if num_verbs else pairs)
    write_pairs("test", read_scan(data / "tasks_test_addprim_jump.txt"))


def with_invented_verbs(pairs: Sequence[Pair], num_verbs: int) -> list[Pair]:
    """Return each command once, and again with invented verbs instead of walk, run and look.

    A model that has seen many verbs alone and in commands treats `jump` like them (Patel et al. 2022). No
    command with `jump` is made. Alone, `jump` and each invented verb are there 20 times.
    """
    alone = [("jump", "I_JUMP"), *((f"verb{number}", f"I_VERB{number}") for number in range(num_verbs))]
    rng, both = random.Random(0), dict.fromkeys([*alone, *pairs])
    for pair in pairs:
        numbers = {verb: rng.randrange(num_verbs) for verb in ("walk", "run", "look")}
        words = {verb: f"verb{number}" for verb, number in numbers.items()}
        words |= {f"I_{verb.upper()}": f"I_VERB{number}" for verb, number in numbers.items()}
        command, actions = (" ".join(words.get(word, word) for word in text.split()) for text in pair)
        both[command, actions] = None
    return [*both, *19 * alone]


def exact_match(pairs: Sequence[Pair], outputs: list[Any]) -> float:
    """Return the part of right outputs, in percent."""
    return 100 - word_error_rate(pairs, outputs)


class Trained(NamedTuple):
    """A model of a result, trained and scored."""

    seed: int
    score: float
    model: keras.Model
    seconds: float


def train(file: Path, seed: int, suffix: str = "", **options: Any) -> tuple[kt.Run, dict[str, Any]]:
    """Train a run, or continue a stopped one; return it and its report."""
    run = kt.Run.from_toml(file, name=f"{file.stem}_{seed}{suffix}", seed=seed, **options)
    report = run.directory / "report.json"
    if not report.exists():
        run.train(resume=run.num_epochs > 0)
    return run, json.loads(report.read_text(encoding="utf-8"))


class Recipe(NamedTuple):
    """How TOML files are trained and scored, in the working directory."""

    files: Sequence[str]
    """Each continues the run of the one before."""
    prepare: Callable[[Path], None]
    """Writes the files that the recipe reads, from the directory of the data set."""
    score: Callable[[Sequence[Pair], list[Any]], float]
    """Scores outputs for the test pairs."""
    write: Callable[[kt.Translator, Path, Path], None] | None = None
    """Writes what else a result has, from the directory of the data set into another directory."""
    options: Mapping[str, Any] = MappingProxyType({})
    """Options of a run that replace those of the files."""

    def train(self, data: Path, seeds: Sequence[int]) -> Iterator[Trained]:
        """Yield each seed."""
        self.prepare(data)
        for seed in seeds:
            run, report = train(HERE / self.files[0], seed, **self.options)
            seconds = report["seconds"]
            for file in self.files[1:]:
                run, report = train(HERE / file, seed, initial_model=str(run.directory), **self.options)
                seconds += report["seconds"]
            # What was just trained has its outputs.
            outputs = run.outputs or run.kind.score(run.task, run.data.test)[1]
            if self.write is not None:
                self.write(run.translator, data, Path(f"outputs_{seed}"))
            yield Trained(seed, self.score(run.data.test, outputs), run.task.model, seconds)

    def join(self, data: Path, seeds: Sequence[int]) -> tuple[float, keras.Model]:
        """Return the score and the model of the ensemble of trained seeds."""
        from ensemble import join

        runs = [f"runs/{Path(self.files[-1]).stem}_{seed}" for seed in seeds]
        translator = join(runs)
        pairs = kt.Run.open(runs[0]).data.test
        outputs = translator.translate_with_scores([source for source, _ in pairs])
        if self.write is not None:
            self.write(translator, data, Path("outputs_ensemble"))
        return self.score(pairs, outputs), translator.model


class Distillation(NamedTuple):
    """How seeds are trained on Multi30k, and each continues with what all of them translate."""

    language: str
    num_epochs: Sequence[int]
    """Epochs of each continued training. Before each, all models so far are the teachers."""
    num_first_epochs: int = 48
    first: str = "multi30k.toml"
    second: str = "multi30k_distilled.toml"

    def file(self, split: str, *, source: bool = False) -> str:
        """Return the name of a file of the data set."""
        return f"{split}.lc.norm.tok.{'en' if source else self.language}.gz"

    def answers(self, teacher: kt.Run) -> dict[int, list[str]]:
        """Return the translations of the training sources, which stay in a file."""
        from distillation import read_answers, write_lines

        file, sources = f"{teacher.config.name}.answers.gz", read_lines(self.file("train", source=True))
        if not Path(file).exists():
            found = teacher.translator.n_best(sources, batch_size=256)
            rows = (f"{number}\t{each.text}" for number, best in enumerate(found, start=1) for each in best)
            write_lines(file, [*rows])
        return read_answers(file, len(sources))

    def distill(self, teachers: Sequence[kt.Run], output: str) -> dict[str, str]:
        """Write the training pairs, then the sources with the translations nearest to the references."""
        from distillation import BLEU, choose, write_lines

        files = {side: f"{output}.{side}.gz" for side in ("source", "target")}
        if not all(Path(file).exists() for file in files.values()):
            sources, targets = read_lines(self.file("train", source=True)), read_lines(self.file("train"))
            metric = BLEU(tokenize="none", effective_order=True, force=True)
            chosen = choose(targets, [self.answers(each) for each in teachers], metric)
            write_lines(files["source"], [*sources, *(sources[number] for number in chosen)])
            write_lines(files["target"], [*targets, *chosen.values()])
        return files

    def train(self, data: Path, seeds: Sequence[int]) -> Iterator[Trained]:
        """Yield each seed."""
        from distillation import write_lines

        for split in ("train", "val", "test_2016_flickr"):
            for name in (self.file(split, source=True), self.file(split)):
                write_lines(name, lines(data / name.removesuffix(".gz")))
        files = {"validation_target": self.file("val"), "test_target": self.file("test_2016_flickr")}
        first = {"target": self.file("train"), "epochs": self.num_first_epochs, **files}
        trained = [[train(HERE / self.first, seed, **first) for seed in seeds]]
        for number, epochs in enumerate(self.num_epochs, start=1):
            teachers = [run for models in trained for run, _ in models]
            output = "_".join(("distilled", *map(str, seeds), *["again"] * (number - 1)))
            options = {"epochs": epochs, **files, **self.distill(teachers, output)}
            starts = [str(run.directory) for run, _ in trained[-1]]
            trained.append(
                [
                    train(HERE / self.second, seed, "_again" * (number - 1), initial_model=start, **options)
                    for seed, start in zip(seeds, starts, strict=True)
                ]
            )
        for seed, models in zip(seeds, zip(*trained, strict=True), strict=True):
            run, report = models[-1]
            seconds = sum(report["seconds"] for _, report in models)
            yield Trained(seed, report["scores"]["bleu"]["value"], run.task.model, seconds)


class Addition(NamedTuple):
    """How `addition.py` is trained and scored by the exact sums of 15 digits, in percent."""

    def train(self, _data: Path, seeds: Sequence[int]) -> Iterator[Trained]:
        """Yield each seed."""
        from addition import exact_sums, train

        for seed in seeds:
            start = time.monotonic()
            model = train(seed)
            seconds = time.monotonic() - start
            yield Trained(seed, 100 * exact_sums(model, num_digits=15), model, seconds)


class Result(NamedTuple):
    """A result of docs/results.md."""

    measure: str
    published: str
    """What to compare with, and where it was published."""
    recipe: Recipe | Distillation | Addition


def sigmorphon(languages: Sequence[str]) -> Recipe:
    """Return the recipe of one model for these languages."""
    is_one = len(languages) == 1
    return Recipe(
        ["sigmorphon2021_one.toml" if is_one else "sigmorphon2021.toml"],
        partial(prepare_sigmorphon, languages=languages),
        word_error_rate if is_one else macro_word_error_rate,
        partial(write_sigmorphon, languages=languages),
    )


def cmudict(*files: str) -> Result:
    """Return the result of runs that continue one another."""
    published = "22.1 (Yolchuyeva et al. 2019)"
    return Result("wrong words, %", published, Recipe(files, prepare_cmudict, word_error_rate))


RESULTS = {
    "addition": Result(
        "exact sums of 15 digits after training on at most 5, %",
        "15 digits (Jelassi et al. 2023)",
        Addition(),
    ),
    "sigmorphon2021": Result(
        "wrong words of the development set, mean of ten languages, %",
        "10.64 (Ashby et al. 2021, test set, an ensemble for each language)",
        sigmorphon(LANGUAGES),
    ),
    # The length split of the data's authors trains on at most 22 actions.
    **{
        f"scan_{longest}": Result(
            f"exact outputs of more than {longest} actions, %",
            published,
            Recipe(["scan.toml"], partial(prepare_scan, longest=longest), exact_match),
        )
        for longest, published in (
            (26, "100 (Csordás et al. 2021: relative positions, shared layers)"),
            (22, "about 20 (Csordás et al. 2021: relative positions, shared layers)"),
        )
    },
    **{
        f"scan_jump{suffix}": Result(
            "exact outputs of commands with `jump`, which is only alone in training, %",
            published,
            Recipe(
                ["scan.toml"],
                partial(prepare_scan_jump, num_verbs=num_verbs),
                exact_match,
                options={"epochs": 20},
            ),
        )
        for suffix, num_verbs, published in (
            ("", 1000, "near 100 (Patel et al. 2022: 100 more verbs)"),
            ("_plain", 0, "about 1 (Furrer et al. 2020: a plain Transformer)"),
        )
    },
    "multi30k_en_de": Result("BLEU, test_2016_flickr", "41.0 (Wu et al. 2021)", Distillation("de", [15, 18])),
    "multi30k_en_fr": Result("BLEU, test_2016_flickr", "61.8 (Wu et al. 2021)", Distillation("fr", [18])),
    "cmudict": cmudict(
        "cmudict.toml", "cmudict_r_drop.toml", "cmudict_r_drop_2.toml", "cmudict_r_drop_3.toml"
    ),
    "cmudict_rotary": cmudict("cmudict_rotary.toml", "cmudict_rotary_r_drop.toml"),
    # A model for a single language.
    **{
        f"sigmorphon2021_{language}": Result(
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
    recipe, minutes = RESULTS[name].recipe, 0.0
    for seed, score, model, seconds in recipe.train(data, seeds):
        minutes += seconds / 60
        yield record(name, [seed], score, model, seconds / 60)
    if ensemble and isinstance(recipe, Recipe):
        yield record(name, seeds, *recipe.join(data, seeds), minutes)


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
    if options.ensemble and (len(options.seeds) < 2 or not isinstance(RESULTS[options.name].recipe, Recipe)):
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
