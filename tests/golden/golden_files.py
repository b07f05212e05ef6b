"""Saved models, a checkpoint, tokenizers and a translator, which every later version has to read.

`write` makes them; `answers` reads them and computes with them, and never writes.
"""

import shutil
from pathlib import Path
from typing import Any

import golden_models as models
import keras
import numpy as np

import keras_transformer as kt

FILES = Path(__file__).parent / "fixtures" / "files"
RUN, TRANSLATOR, WEIGHTS = FILES / "run", FILES / "translator", FILES / "causallm.weights.h5"

# Which cases of `golden_models` are saved: each class, and what differs most from the paper.
SAVED = (
    "Transformer/paper",
    "Transformer/modern",
    "CausalLM/paper",
    "EncoderModel/mean",
    "EncoderModel/frames",
    "Ensemble/two",
)
TEXTS = ["a cab", "bad  FEED", "face", "", "dead beef", "zebra", "cafe \u00e9clair", "b", "deaf cab fade"]
TARGETS = ["one two", "two", "nine nine one", "", "six seven eight", "ten", "four", "five", "three"]


def model_path(case: str) -> Path:
    """Name the file of a case."""
    return FILES / f"{case.replace('/', '-').lower()}.keras"


def write() -> None:
    """Write everything that `answers` reads."""
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir(parents=True)
    for case, make, _ in models.cases():
        if case in SAVED:
            make().save(model_path(case))
    models.causal_lm().save_weights(WEIGHTS)
    model = models.transformer(dropout=0.0)
    model.compile(kt.training.Adam(1e-2), kt.training.MaskedCrossentropy(0.1), jit_compile=False)
    checkpoint = kt.training.Checkpoint(RUN, monitor="loss")
    model.fit(*_batch(), epochs=1, batch_size=3, shuffle=False, verbose=0, callbacks=[checkpoint])
    for name, tokenizer in _tokenizers().items():
        tokenizer.save(FILES / "tokenizers" / name)
    translator = kt.Translator(
        models.transformer(seed=10, tie_output=False),
        kt.text.CharacterTokenizer("abcdef ", lowercase=True, normalize_spaces=True),
        kt.text.WhitespaceTokenizer(["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]),
        search=kt.decoding.BeamSearch(3, constraints=kt.decoding.Constraints(min_length=2)),
        max_source_length=17,
        max_target_length=7,
    )
    translator.save(TRANSLATOR)


def answers() -> models.Arrays:
    """Read the files, and compute with what they hold; the logits are those of `golden_models.logits`."""
    return {**_checkpoint(), **_tokenized(), **_translated()}


def saved_logits() -> models.Arrays:
    """Compute the logits of each saved model, under the names of `golden_models.logits`."""
    arrays = {
        case: models.numpy(keras.saving.load_model(model_path(case))(inputs))
        for case, _, inputs in models.cases()
        if case in SAVED
    }
    model = models.causal_lm(seed=1)
    model.load_weights(WEIGHTS)
    np.testing.assert_allclose(models.numpy(model(models.TARGET)), arrays["CausalLM/paper"], rtol=1e-6)
    return arrays


def _checkpoint() -> models.Arrays:
    """Go on with the training."""
    checkpoint = kt.training.Checkpoint(RUN)
    model = checkpoint.load_model()
    losses = [*checkpoint.history["loss"], *(model.train_on_batch(*_batch()) for _ in range(2))]
    return {
        "checkpoint/losses": np.array(losses, "float32"),
        "checkpoint/epoch": np.array(checkpoint.epoch),
        "checkpoint/iterations": models.numpy(model.optimizer.iterations),
    }


def _tokenized() -> models.Arrays:
    arrays = {}
    for directory in sorted((FILES / "tokenizers").iterdir()):
        tokenizer = kt.text.Tokenizer.load(directory)
        token_ids = tokenizer.tokenize(TEXTS)
        texts = [text.decode() for text in tokenizer.detokenize(token_ids.to_tensor()).numpy()]
        arrays |= {
            f"{directory.name}/token_ids": token_ids.flat_values.numpy(),
            f"{directory.name}/lengths": token_ids.row_lengths().numpy(),
            f"{directory.name}/texts": np.array(texts),
        }
    return arrays


def _translated() -> models.Arrays:
    translator = kt.Translator.load(TRANSLATOR)
    n_best = [answer for hypotheses in translator.n_best(TEXTS) for answer in hypotheses]
    scores = translator.score(TEXTS, TARGETS)
    alignments = translator.align(TEXTS)
    return {
        "translator/texts": np.array([answer.text for answer in n_best]),
        "translator/scores": np.array([answer.score for answer in n_best], "float32"),
        "translator/score": np.array([score.score for score in scores], "float32"),
        "translator/num_tokens": np.array([score.num_tokens for score in scores]),
        "translator/tokens": np.array(
            [" ".join((*one.source_tokens, *one.output_tokens)) for one in alignments]
        ),
        "translator/attention": np.concatenate([one.attention.ravel() for one in alignments]),
    }


def _batch() -> tuple[Any, np.ndarray]:
    labels = np.pad(models.TARGET, [(0, 0), (0, 1)])[:, 1:]
    return models.transformer_inputs({}), labels


def _tokenizers() -> dict[str, Any]:
    """Make one of each kind."""
    corpus = [*TEXTS, *TARGETS, "a dead cab faded", "feed the zebra one cafe"]
    return {
        "character": kt.text.CharacterTokenizer.train(corpus, lowercase=True),
        "whitespace": kt.text.WhitespaceTokenizer.train(corpus, lowercase=True),
        "subword": kt.text.SubwordTokenizer.train(corpus, vocabulary_size=40, lowercase=True),
    }
