"""Shows that a trained model answers alike in CTranslate2: the same tokens, or a tie.

python benchmarks/decoding_parity.py runs/en_de test_2016_flickr.lc.norm.tok.en.gz

The weights of a `keras-transformer train` run are written as a CTranslate2 model. Both engines decode the
same token ids in float32, greedily and with 4 beams, without length penalty. Where their tokens differ,
both answers are scored by one teacher-forced pass of our model: a gap below 1e-4 is a tie, which the order
of additions decides. CTranslate2 without a length penalty stops when its best hypothesis has ended, and with
`--patience` above 1 later. So does ours with
`early_stopping="never"`, asked for one hypothesis; otherwise it stops when 4 have ended, sooner or later.
"""

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import ctranslate2
import keras
import numpy as np
from machine import machine

import keras_transformer as kt
from keras_transformer._backend import compile_function
from keras_transformer.data import read_lines
from keras_transformer.export import export_ctranslate2

PACKAGES = ("keras", "tensorflow", "ctranslate2")
IDS = {"special_ids": kt.text.SPECIAL_IDS}
SEARCHES = {
    "greedy": kt.decoding.GreedySearch(**IDS),
    "beam 4": kt.decoding.BeamSearch(4, length_penalty=0.0, **IDS),
    "beam 4, never stops early": kt.decoding.BeamSearch(
        4, num_hypotheses=1, length_penalty=0.0, early_stopping="never", **IDS
    ),
}
TIE = 1e-4
Ids = list[list[int]]


class Difference(NamedTuple):
    """A sentence with two answers, and what our model gives each."""

    line: int
    ours: float
    theirs: float


def source_ids(translator: kt.Translator, texts: Sequence[str]) -> Ids:
    """Tokenize sources as the translator does.

    Args:
        translator: with its tokenizers.
        texts: sources.

    Returns:
        the ids of each, ended, not padded.
    """
    padded = translator.source_tokenizer.padded_ids(list(texts), translator.max_source_length)
    return [[int(token) for token in row if token] for row in padded.numpy()]


def pad(rows: Ids) -> np.ndarray:
    """Pad ids with 0.

    Args:
        rows: ids.

    Returns:
        int32 (b, longest).
    """
    width = max(map(len, rows))
    return np.array([row + [0] * (width - len(row)) for row in rows], "int32")


def batches(rows: Ids, size: int) -> list[list[int]]:
    """Choose rows of like lengths.

    Args:
        rows: ids.
        size: of a batch.

    Returns:
        numbers of rows.
    """
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    return [order[start : start + size] for start in range(0, len(order), size)]


def answers_of_ours(
    translator: kt.Translator,
    rows: Ids,
    search: kt.decoding.GreedySearch | kt.decoding.BeamSearch,
    batch_size: int,
) -> Ids:
    """Decode with our search.

    Args:
        translator: whose model and limit are used.
        rows: source ids.
        search: how.
        batch_size: rows at a time.

    Returns:
        the tokens of each answer, the end token included.
    """
    generate = compile_function(
        lambda ids: kt.decoding.generate(translator.model, ids, search, translator.max_target_length),
        translator.model.variables,
    )
    answers: Ids = [[]] * len(rows)
    for numbers in batches(rows, batch_size):
        result = generate(keras.ops.convert_to_tensor(pad([rows[number] for number in numbers])))
        for number, row in zip(numbers, keras.ops.convert_to_numpy(result.token_ids)[:, 0], strict=True):
            answers[number] = [int(token) for token in row if token]
    return answers


def vocabulary(exported: Path, side: str) -> list[str]:
    """Read the tokens of a CTranslate2 model by id.

    Args:
        exported: its directory.
        side: `source` or `target`; where both are the same, there is one file.

    Returns:
        the tokens.
    """
    path = exported / f"{side}_vocabulary.json"
    path = path if path.exists() else exported / "shared_vocabulary.json"
    return json.loads(path.read_text(encoding="utf-8"))


def answers_of_ctranslate2(
    translator: kt.Translator, rows: Ids, beam_size: int, options: argparse.Namespace
) -> Ids:
    """Decode with CTranslate2.

    Args:
        translator: whose weights, tokens and limit are used.
        rows: source ids.
        beam_size: 1 for greedy search.
        options: the batch size, and the patience of beam search.

    Returns:
        as for `answers_of_ours`.
    """
    with tempfile.TemporaryDirectory() as directory:
        exported = export_ctranslate2(translator, Path(directory, "model"))
        names = [vocabulary(exported, side) for side in ("source", "target")]
        engine = ctranslate2.Translator(str(exported))
    ids = {name: token_id for token_id, name in enumerate(names[1])}
    results = engine.translate_batch(
        [[names[0][token] for token in row[:-1]] for row in rows],
        beam_size=beam_size,
        patience=options.patience if beam_size > 1 else 1,
        length_penalty=0,
        min_decoding_length=0,
        max_decoding_length=translator.max_target_length,
        max_batch_size=options.batch_size,
        suppress_sequences=[[names[1][token]] for token in range(3)] if options.suppress else None,
        return_end_token=True,
    )
    return [[ids[token] for token in result.hypotheses[0]] for result in results]


def scores(model: keras.Model, rows: Ids, answers: Ids) -> list[float]:
    """Score answers by one teacher-forced pass.

    Args:
        model: ours.
        rows: source ids.
        answers: target ids.

    Returns:
        the log-probability of each answer.
    """
    if not rows:
        return []
    target = pad(answers)
    decoder_input = np.concatenate([np.full((len(rows), 1), 2, "int32"), target[:, :-1]], axis=1)
    logits = model({"encoder_token_ids": pad(rows), "decoder_token_ids": decoder_input})
    log_probabilities = keras.ops.convert_to_numpy(keras.ops.log_softmax(logits))
    of_targets = np.take_along_axis(log_probabilities, target[..., None], axis=2)[..., 0]
    return [float(score) for score in (of_targets * (target > 0)).sum(axis=1)]


def differences(model: keras.Model, rows: Ids, ours: Ids, theirs: Ids) -> list[Difference]:
    """Find the sentences with two answers.

    Args:
        model: ours, which scores both.
        rows: source ids.
        ours: answers.
        theirs: answers.

    Returns:
        one entry for each, in order.
    """
    numbers = [number for number in range(len(rows)) if ours[number] != theirs[number]]
    chosen = [rows[number] for number in numbers]
    both = [scores(model, chosen, [side[number] for number in numbers]) for side in (ours, theirs)]
    return [
        Difference(number + 1, *pair) for number, pair in zip(numbers, zip(*both, strict=True), strict=True)
    ]


def report(name: str, num_rows: int, found: list[Difference]) -> list[str]:
    """Make the line of a search, and one for each difference.

    Args:
        name: of the search.
        num_rows: sentences.
        found: where tokens differ.

    Returns:
        a row of the table, then a line for each difference.
    """
    gaps = [difference.ours - difference.theirs for difference in found]
    ties = sum(abs(gap) < TIE for gap in gaps)
    share = 100 * (1 - len(found) / num_rows)
    better, worse = sum(gap >= TIE for gap in gaps), sum(gap <= -TIE for gap in gaps)
    row = f"| {name} | {num_rows:,} | {share:.2f} % | {len(found)} | {ties} | {better} | {worse} |"
    return [row] + [
        f"{name}, line {one.line}: ours {one.ours:.6f}, CTranslate2 {one.theirs:.6f}, gap {gap:+.6f}"
        for one, gap in zip(found, gaps, strict=True)
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="directory of a translator, such as runs/en_de")
    parser.add_argument("sources", type=Path, help="file with a source on each line, plain or .gz")
    parser.add_argument("--limit", type=int, help="only the first sources: a trial")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--patience", type=float, default=1.0, help="of CTranslate2's beam search")
    parser.add_argument("--suppress", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args()


def main() -> None:
    """Decode with both engines, and print the table and every difference."""
    options = _options()
    translator = kt.Translator.load(options.model)
    rows = source_ids(translator, read_lines(options.sources)[: options.limit])
    table = [
        "| search | sentences | same tokens | differ | ties | ours is better | CTranslate2 is better |",
        f"|---|{'---:|' * 6}",
    ]
    lines: list[str] = []
    for name, search in SEARCHES.items():
        ours = answers_of_ours(translator, rows, search, options.batch_size)
        theirs = answers_of_ctranslate2(translator, rows, search.beam_size, options)
        row, *details = report(name, len(rows), differences(translator.model, rows, ours, theirs))
        table.append(row)
        lines += details
    print("\n".join([*table, "", *lines, *([""] if lines else []), machine(PACKAGES)]))
    print(f"`{shlex.join(['python', 'benchmarks/decoding_parity.py', *sys.argv[1:]])}`")


if __name__ == "__main__":
    main()
