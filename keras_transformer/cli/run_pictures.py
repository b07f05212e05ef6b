"""The pictures of a run."""

from pathlib import Path

import numpy as np
from keras import ops

from keras_transformer.data import Pair
from keras_transformer.decoding import Translator
from keras_transformer.text import END_ID, START_ID, Tokenizer
from keras_transformer.text.source_ids import source_token_ids
from keras_transformer.visualization import plot_attention, plot_training


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
    source_ids = source_token_ids([text], translator.source_tokenizer, translator.max_source_length).numpy()
    answer = ops.convert_to_numpy(translator.generate(ops.convert_to_tensor(source_ids)).token_ids)[0, 0]
    length = int(np.argmax(answer == END_ID)) + 1 if END_ID in answer else len(answer)
    answer = answer[:length]
    decoder_ids = np.concatenate([[START_ID], answer[:-1]])[None].astype("int32")
    scores = translator.model.attention_scores(
        {"encoder_token_ids": source_ids, "decoder_token_ids": decoder_ids}
    )
    last = [name for name in scores if name.endswith("cross_attention")][-1]
    average = ops.convert_to_numpy(ops.mean(scores[last], axis=1))[0]  # (t, s)
    return (
        average,
        _tokens(translator.source_tokenizer, source_ids),
        _tokens(translator.target_tokenizer, answer[None]),
    )


def _tokens(tokenizer: Tokenizer, token_ids: np.ndarray) -> list[str]:
    return [token.decode() for token in tokenizer.tokens(token_ids).numpy()[0]]
