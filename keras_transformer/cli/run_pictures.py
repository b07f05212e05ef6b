"""The pictures of a run."""

import dataclasses
from pathlib import Path

import numpy as np
from keras import ops

from keras_transformer.data import Pair
from keras_transformer.decoding import Translator
from keras_transformer.text import END_ID, START_ID, Tokenizer
from keras_transformer.text.source_ids import source_token_ids
from keras_transformer.visualization import plot_attention, plot_training


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerAttention:
    """Where a model looked while it gave its best answer to one text."""

    scores: dict[str, np.ndarray]
    """`(h, t, s)` by the names that `model.attention_scores` gives."""
    source_tokens: list[str]
    """What the encoder read, with the end token."""
    target_tokens: list[str]
    """What the decoder read: the start token, and the answer without its last token."""
    output_tokens: list[str]
    """What the decoder wrote: the answer, with its end token where it has one."""


def draw_pictures(
    translator: Translator, pair: Pair, history: dict[str, list[float]], directory: Path
) -> list[Path]:
    """Draw `training.png`, and the cross-attention of one answer as `attention.png`.

    Args:
        translator: with a trained model.
        pair: the source that is answered.
        history: each metric's value after each epoch.
        directory: where the files go.

    Returns:
        Both paths.
    """
    paths = [directory / "training.png", directory / "attention.png"]
    plot_training(history, path=paths[0])
    scores, source_tokens, target_tokens = cross_attention(translator, pair[0])
    plot_attention(
        scores, source_tokens, target_tokens, path=paths[1], title="Cross-attention, last decoder layer"
    )
    return paths


def cross_attention(translator: Translator, text: str) -> tuple[np.ndarray, list[str], list[str]]:
    """Look at which source tokens each token of the answer was made from.

    Args:
        translator: with a trained model.
        text: a source.

    Returns:
        Scores of the last decoder layer, averaged over its heads, `(t, s)`, and the
        tokens of source and answer, each with its end token.
    """
    attention = answer_attention(translator, text)
    last = [name for name in attention.scores if name.endswith("cross_attention")][-1]
    return attention.scores[last].mean(axis=0), attention.source_tokens, attention.output_tokens


def answer_attention(translator: Translator, text: str) -> AnswerAttention:
    """Answer a text, and take every attention map of the answer.

    Args:
        translator: with a trained model.
        text: a source; what is beyond the translator's limit is cut off.

    Returns:
        The maps and the tokens of their rows and columns.
    """
    # A lone surrogate is no UTF-8, which the tokenizer takes for an unknown token.
    encoded = [text.encode("utf-8", "surrogatepass")]
    source_ids = source_token_ids(encoded, translator.source_tokenizer, translator.max_source_length).numpy()
    answer = ops.convert_to_numpy(translator.generate(ops.convert_to_tensor(source_ids)).token_ids)[0, 0]
    length = int(np.argmax(answer == END_ID)) + 1 if END_ID in answer else len(answer)
    answer = answer[:length]
    decoder_ids = np.concatenate([[START_ID], answer[:-1]])[None].astype("int32")
    scores = translator.model.attention_scores(
        {"encoder_token_ids": source_ids, "decoder_token_ids": decoder_ids}
    )
    return AnswerAttention(
        scores={name: ops.convert_to_numpy(values)[0] for name, values in scores.items()},
        source_tokens=_tokens(translator.source_tokenizer, source_ids),
        target_tokens=_tokens(translator.target_tokenizer, decoder_ids),
        output_tokens=_tokens(translator.target_tokenizer, answer[None]),
    )


def _tokens(tokenizer: Tokenizer, token_ids: np.ndarray) -> list[str]:
    return [token.decode() for token in tokenizer.tokens(token_ids).numpy()[0]]
