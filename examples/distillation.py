"""Sequence-level distillation (Kim & Rush 2016, section 3.3): train on targets that other models wrote.

One or several models translate each training source. Their output with the highest sentence BLEU against the
reference becomes a second target for that source. The new model learns from both targets; no data is added.

keras-transformer translate --model runs/en_de --n-best 5 --input examples/data/train.en > answers.tsv
python examples/distillation.py examples/data/train.en examples/data/train.de answers.tsv --output distilled

It writes distilled.source.gz and distilled.target.gz: the original pairs, then those with an output of a
model. Train on them with validation pairs from separate files: pairs that `train` holds out would include
outputs of the models, and sources that the first model was trained on.
"""

import argparse
import collections
import gzip
from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics import BLEU

from keras_transformer._files import write_file
from keras_transformer.data import read_lines
from keras_transformer.errors import InputError
from keras_transformer.evaluation import evaluate


def read_answers(path: str, num_sources: int) -> dict[int, list[str]]:
    """Read the output of `translate --n-best`: lines of a source number, a tab and an output."""
    answers = collections.defaultdict(list)
    for place, line in enumerate(read_lines(path), start=1):
        number, tab, answer = line.partition("\t")
        if not tab or not number.isdecimal() or not 1 <= int(number) <= num_sources:
            raise InputError(
                f"{path}:{place}: wanted the number of one of {num_sources} sources, a tab and an answer, "
                f"as `translate --n-best` prints them. Received: {line!r}."
            )
        if answer:
            answers[int(number) - 1].append(answer)
    return answers


def nearest(answers: Sequence[str], reference: str, metric: BLEU) -> str:
    """Return the output with the highest BLEU against the reference, the first of equals."""
    return max(answers, key=lambda answer: metric.sentence_score(answer, [reference]).score)


def write_lines(path: str, lines: Sequence[str]) -> None:
    """Write a gzip file with one text on each line; equal lines make equal bytes."""
    text = "".join(f"{line}\n" for line in lines)
    write_file(Path(path), gzip.compress(text.encode("utf-8"), mtime=0))


def choose(
    references: Sequence[str], of_models: Sequence[dict[int, list[str]]], metric: BLEU
) -> dict[int, str]:
    """Choose one output for each source that has any."""
    chosen = {}
    for number, reference in enumerate(references):
        if answers := [answer for model in of_models for answer in model.get(number, [])]:
            chosen[number] = nearest(answers, reference, metric)
    return chosen


def distill(arguments: argparse.Namespace) -> None:
    """Read the pairs and the outputs of the models, and write the new pairs."""
    # `translate` also numbers empty lines, so they are read too.
    sources, references = read_lines(arguments.source), read_lines(arguments.target)
    if len(sources) != len(references):
        raise InputError(f"Wanted as many targets as sources. Received: {len(references)}, {len(sources)}.")
    of_models = [read_answers(path, len(sources)) for path in arguments.answers]
    metric = BLEU(tokenize=arguments.tokenize, effective_order=True, force=True)
    chosen = choose(references, of_models, metric)
    if not chosen:
        raise InputError(f"Wanted an answer to any source in {', '.join(arguments.answers)}. Received: none.")
    write_lines(f"{arguments.output}.source.gz", [*sources, *(sources[number] for number in chosen)])
    write_lines(f"{arguments.output}.target.gz", [*references, *chosen.values()])
    right = [references[number] for number in chosen]
    near = evaluate(list(chosen.values()), right, ["bleu"], tokenize=arguments.tokenize).scores["bleu"]
    print(f"{len(sources):,} pairs, and answers to {len(chosen):,} sources, against their references {near}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source", help="file with one training source a line, plain or .gz")
    parser.add_argument("target", help="file with the reference of each")
    parser.add_argument("answers", nargs="+", help="what `translate --n-best` printed for the sources")
    parser.add_argument("--output", required=True, help="beginning of the names of the two files")
    parser.add_argument(
        "--tokenize",
        default="none",
        help="tokenizer of sacreBLEU; none if the text is tokenized",
    )
    arguments = parser.parse_args()
    try:
        distill(arguments)
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
