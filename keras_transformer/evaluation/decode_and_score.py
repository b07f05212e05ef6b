"""Callback that scores decoded validation pairs after each epoch, to select the best checkpoint.

It is not part of `training`, since it decodes with `tasks`, which import `training`.
"""

from collections.abc import Callable, Sequence

import keras

from keras_transformer._arguments import check_choice, check_kind, check_positive, check_several
from keras_transformer.errors import InputError
from keras_transformer.evaluation.error_rates import References
from keras_transformer.evaluation.report import METRICS, TOKENIZATIONS, evaluate
from keras_transformer.tasks import TextTask
from keras_transformer.training.averages import moving_average

# Best possible value of metrics where higher is better; the other metrics are error rates.
_PERFECT = {"bleu": 100.0, "chrf": 100.0, "exact_match": 1.0}


class DecodeAndScore(keras.callbacks.Callback):
    """Decode validation pairs after each epoch and add their score to the logs.

    The teacher-forced loss does not measure how well a model decodes. This callback adds a metric to the
    logs, such as `val_bleu`, and if higher is better also its distance from a perfect score, `val_bleu_loss`.
    Put it before `Checkpoint` and `EarlyStopping`, and pass them its `monitor`, whose lowest value is best.

    The references are first tokenized and detokenized with the target tokenizer, which may lowercase them. So
    the model can generate them. `evaluate` uses the original references.

    Args:
        make_translator: Function that returns a translator for the model, called once, such as
            `lambda model: Translator(model, source_tokenizer, target_tokenizer)`.
        pairs: Validation pairs: a source, and one target or a list of several.
        metric: Name of a metric of `evaluate`. Defaults to "bleu".
        limit: Number of pairs to decode, from the first. Defaults to all.
        batch_size: Number of sources to decode together. Defaults to 64.
        tokenize: sacreBLEU's tokenization for BLEU. Defaults to "13a".

    Raises:
        ValueError: If the metric is unknown, there are no pairs, or a number is not positive.
        InputError: If BLEU or chrF is 0 for the references themselves, as BLEU is for texts of fewer than
            four tokens.

    Example:
        ```python
        scoring = DecodeAndScore(make_translator, validation_pairs, metric="bleu", limit=500)
        callbacks = [
            scoring,
            Checkpoint(directory, monitor=scoring.monitor),
            keras.callbacks.EarlyStopping(scoring.monitor, mode="min", patience=5),
        ]
        ```
    """

    def __init__(
        self,
        make_translator: Callable[[keras.Model], TextTask],
        pairs: Sequence[tuple[str, str | Sequence[str]]],
        metric: str = "bleu",
        *,
        limit: int | None = None,
        batch_size: int = 64,
        tokenize: str = "13a",
    ) -> None:
        super().__init__()
        check_kind(Callable, make_translator=make_translator)
        check_several((tuple, list), pairs=pairs)
        check_choice(METRICS, metric=metric)
        check_choice(TOKENIZATIONS, tokenize=tokenize)
        check_positive(batch_size=batch_size, limit=1 if limit is None else limit)
        if not pairs:
            raise ValueError(f"`pairs` must hold at least one pair. Received: pairs={pairs!r}.")
        self.make_translator = make_translator
        self.sources = [source for source, _ in pairs[:limit]]
        self.references = [[right] if isinstance(right, str) else list(right) for _, right in pairs[:limit]]
        self.metric = metric
        self.batch_size = batch_size
        self.tokenize = tokenize
        right = [targets[0] for targets in self.references]
        # With such a metric the first epoch would always be the best.
        if metric in ("bleu", "chrf") and self._measure(right, self.references) == 0:
            raise InputError(
                f"The metric must be above 0 where all outputs are right. Received: {metric} with the "
                f"tokenization {tokenize!r}, and targets such as {right[0]!r}. BLEU counts four tokens "
                "in a row; exact_match and character_error_rate take any text."
            )
        self._translator: TextTask | None = None
        self._written: References = self.references

    def _measure(self, hypotheses: Sequence[str], references: References) -> float:
        return evaluate(hypotheses, references, [self.metric], tokenize=self.tokenize)[self.metric]

    @property
    def monitor(self) -> str:
        """Name in the logs whose lowest value is best."""
        return f"val_{self.metric}_loss" if self.metric in _PERFECT else f"val_{self.metric}"

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        """Discard the model of an earlier run."""
        self._translator = None

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Decode and add the score to the logs."""
        if logs is None:
            return
        logs[f"val_{self.metric}"] = value = self.score()
        if self.metric in _PERFECT:
            logs[self.monitor] = _PERFECT[self.metric] - value

    def score(self) -> float:
        """Decode all pairs with the current model and return the value of the metric."""
        if self._translator is None:
            self._translator = self.make_translator(self.model)
            tokenizer = getattr(self._translator, "target_tokenizer", None)
            self._written = self.references
            if tokenizer is not None:  # the references as the target vocabulary can express them
                texts = [right for rights in self.references for right in rights]
                written = iter(tokenizer.round_trip(texts))
                self._written = [[next(written) for _ in rights] for rights in self.references]
        # If the optimizer keeps a moving average of the weights, score the average, since `fit` leaves it in
        # the model at the end.
        with moving_average(self.model):
            hypotheses = self._translator.translate(self.sources, batch_size=self.batch_size)
        return self._measure(hypotheses, self._written)
