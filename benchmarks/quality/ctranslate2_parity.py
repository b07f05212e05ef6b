"""Compares the outputs of a trained model in this package and in CTranslate2, with the same weights.

python -m benchmarks.quality.ctranslate2_parity runs/en_de test_2016_flickr.lc.norm.tok.en.gz

Both decode the same token ids in float32, with greedy search and 4 beams, without length penalty. Where the
tokens differ, one teacher-forced pass of our model scores both outputs: a difference below 1e-4 is a tie,
decided by the order of additions. Without a length penalty CTranslate2 searches until its best hypothesis has
ended, as `early_stopping="never"` does; True stops when four have ended.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import keras_transformer as kt
from benchmarks.common import conditions, table
from keras_transformer.export import export_ctranslate2

TIE = 1e-4
HEADS = ("search", "sentences", "same tokens", "differ", "ties", "ours is better", "CTranslate2 is better")
BATCH_SIZE = 50
IDS = {"special_ids": kt.text.SPECIAL_IDS}
SEARCHES = {
    "greedy": kt.decoding.GreedySearch(**IDS),
    "beam 4": kt.decoding.BeamSearch(4, length_penalty=0.0, early_stopping=True, **IDS),
    "beam 4, never stops early": kt.decoding.BeamSearch(
        4, num_hypotheses=1, length_penalty=0.0, early_stopping="never", **IDS
    ),
}
Ids = list[list[int]]


def pad(rows: Ids) -> np.ndarray:
    """Pad rows of ids with 0: int32 (b, longest)."""
    width = max(map(len, rows))
    return np.array([row + [0] * (width - len(row)) for row in rows], "int32")


def unpadded(rows: np.ndarray) -> Ids:
    """Return rows of ids without padding."""
    return [[int(token) for token in row if token] for row in rows]


def outputs_of_ours(translator: kt.Translator, padded: np.ndarray, search: Any) -> Ids:
    """Decode with our search; the ends are included."""
    found = tf.function(
        lambda ids: kt.decoding.generate(translator.model, ids, search, translator.max_target_length)
    )
    batches = range(0, len(padded), BATCH_SIZE)
    results = [found(tf.constant(padded[start : start + BATCH_SIZE])) for start in batches]
    return [row for result in results for row in unpadded(result.token_ids.numpy()[:, 0])]


def outputs_of_ctranslate2(translator: kt.Translator, rows: Ids, beam_size: int) -> Ids:
    """Decode with CTranslate2; the ends are included."""
    import ctranslate2

    with tempfile.TemporaryDirectory() as directory:
        exported = export_ctranslate2(translator, Path(directory, "model"))
        names = []
        for side in ("source", "target"):
            path = exported / f"{side}_vocabulary.json"
            path = path if path.exists() else exported / "shared_vocabulary.json"
            names.append(json.loads(path.read_text(encoding="utf-8")))
        engine = ctranslate2.Translator(str(exported))
    ids = {name: token_id for token_id, name in enumerate(names[1])}
    results = engine.translate_batch(
        [[names[0][token] for token in row[:-1]] for row in rows],
        beam_size=beam_size,
        length_penalty=0,
        min_decoding_length=0,
        max_decoding_length=translator.max_target_length,
        max_batch_size=32,
        suppress_sequences=[[names[1][token]] for token in range(3)],
        return_end_token=True,
    )
    return [[ids[token] for token in result.hypotheses[0]] for result in results]


def scores(model: keras.Model, rows: Ids, outputs: Ids) -> np.ndarray:
    """Return the log-probability of each output by one teacher-forced pass, (b,)."""
    target = pad(outputs)
    decoder_input = np.concatenate([np.full((len(rows), 1), 2, "int32"), target[:, :-1]], axis=1)
    logits = model({"encoder_token_ids": pad(rows), "decoder_token_ids": decoder_input})
    log_probabilities = keras.ops.convert_to_numpy(keras.ops.log_softmax(logits))
    of_targets = np.take_along_axis(log_probabilities, target[..., None], axis=2)[..., 0]
    return (of_targets * (target > 0)).sum(axis=1)


def main() -> None:
    """Decode with both engines; print the table and each difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", help="directory of a translator, such as runs/en_de")
    parser.add_argument("sources", type=Path, help="file with a source on each line, plain or .gz")
    parser.add_argument("--limit", type=int, help="only the first sources")
    options = parser.parse_args()
    translator = kt.Translator.load(options.model)
    texts = list(kt.data.read_lines(options.sources))[: options.limit]
    padded = np.asarray(translator.source_tokenizer.padded_ids(texts, translator.max_source_length))
    rows = unpadded(padded)
    table_rows, details = [], []
    for name, search in SEARCHES.items():
        ours = outputs_of_ours(translator, padded, search)
        theirs = outputs_of_ctranslate2(translator, rows, search.beam_size)
        differing = [number for number in range(len(rows)) if ours[number] != theirs[number]]
        gaps = np.zeros(0)
        if differing:
            sides = ([side[number] for number in differing] for side in (ours, theirs))
            first, second = (
                scores(translator.model, [rows[number] for number in differing], each) for each in sides
            )
            gaps = first - second
        share = f"{100 * (1 - len(differing) / len(rows)):.2f} %"
        counts = [(np.abs(gaps) < TIE).sum(), (gaps >= TIE).sum(), (gaps <= -TIE).sum()]
        table_rows.append([name, f"{len(rows):,}", share, len(differing), *counts])
        details += [
            f"{name}, line {number + 1}: gap {gap:+.6f}" for number, gap in zip(differing, gaps, strict=True)
        ]
    print("\n".join([table(HEADS, table_rows), "", *details]))
    print(f"\n{conditions('keras', 'tensorflow', 'ctranslate2')}")


if __name__ == "__main__":
    main()
