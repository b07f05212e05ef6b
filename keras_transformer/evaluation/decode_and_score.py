"""A score of decoded validation pairs after each epoch, to choose the best checkpoint by.

It needs searches and metrics, so it stands in a later room than training: `training.fit` takes it as any
callback with a `monitor`.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import keras

from keras_transformer._arguments import check_choice, check_kind, check_positive, check_several
from keras_transformer.errors import InputError
from keras_transformer.evaluation.error_rates import References
from keras_transformer.evaluation.report import METRICS, TOKENIZATIONS, evaluate
from keras_transformer.tasks import TextTask
from keras_transformer.training.averages import moving_average

# The best value, where higher is better; the other metrics are error rates.
_PERFECT = {"bleu": 100.0, "chrf": 100.0, "exact_match": 1.0}


class DecodeAndScore(keras.callbacks.Callback):
    """Decodes validation pairs after an epoch, and adds the score to the epoch's logs.

    Teacher-forced loss does not say how well a model translates on its own. This adds `val_bleu`, or another
    metric's name after `val_`, and where higher is better also `val_bleu_loss`, what is missing to the
    perfect value. `monitor` is the name of the one whose lowest value is best, as `Checkpoint` wants it. Put
    it before the callbacks that read the logs.

    References are compared as the vocabulary of the translator can write them, in lower case for example:
    otherwise no hypothesis would be right, and the first epoch the best. `evaluate` compares with the texts
    themselves.

    The first and the last epoch of a run are always decoded. `training.fit` tells it of the epochs before a
    stop; a script that resumes by itself calls `continue_from`.

    Args:
        make_translator: makes the translator of the model, once for all epochs; for example
            `lambda model: Translator(model, source_tokenizer, target_tokenizer)`.
        pairs: sources, and for each a target or several.
        metric: a name that `evaluate` knows.
        every: decode after every so many epochs.
        limit: decode only so many pairs, the first; None for all.
        batch_size: how many are decoded together.
        tokenize: sacreBLEU's tokenization, for BLEU.

    Raises:
        ValueError: an unknown metric, no pairs, or a number not above zero.
        InputError: the metric is 0 for the references themselves, as BLEU is for texts below four tokens.

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
        every: int = 1,
        limit: int | None = None,
        batch_size: int = 64,
        tokenize: str = "13a",
    ) -> None:
        super().__init__()
        check_kind(Callable, make_translator=make_translator)
        check_several((tuple, list), pairs=pairs)
        check_choice(METRICS, metric=metric)
        check_choice(TOKENIZATIONS, tokenize=tokenize)
        check_positive(every=every, batch_size=batch_size, limit=1 if limit is None else limit)
        if not pairs:
            raise ValueError(f"`pairs` must hold at least one pair. Received: pairs={pairs!r}.")
        self.make_translator = make_translator
        self.sources = [source for source, _ in pairs[:limit]]
        self.references = [[right] if isinstance(right, str) else list(right) for _, right in pairs[:limit]]
        self.metric = metric
        self.every = every
        self.batch_size = batch_size
        self.tokenize = tokenize
        right = [targets[0] for targets in self.references]
        # Such a metric would call the first epoch the best, whatever the others give.
        if metric in ("bleu", "chrf") and self._measure(right, self.references) == 0:
            raise InputError(
                f"The metric must be above 0 where all answers are right. Received: {metric} with the "
                f"tokenization {tokenize!r}, and targets such as {right[0]!r}. BLEU counts four tokens "
                "in a row; exact_match and character_error_rate take any text."
            )
        self._translator: TextTask | None = None
        self._written: References = self.references
        self._values: dict[str, float] = {}
        self._earlier: dict[str, float] = {}

    def _measure(self, hypotheses: Sequence[str], references: References) -> float:
        return evaluate(hypotheses, references, [self.metric], tokenize=self.tokenize)[self.metric]

    @property
    def monitor(self) -> str:
        """The name in the logs whose lowest value is the best."""
        return f"val_{self.metric}_loss" if self.metric in _PERFECT else f"val_{self.metric}"

    def continue_from(self, history: Mapping[str, Sequence[float]]) -> None:
        """Let the next training go on as if it had not been stopped, and score when it would have.

        Args:
            history: each metric's value after each epoch so far; empty for a new run.
        """
        names = (f"val_{self.metric}", self.monitor)
        last = {name: history[name][-1] for name in names if history.get(name)}
        self._earlier = last if not any(map(math.isnan, last.values())) else {}

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        """Forget the model of an earlier run."""
        self._translator = None
        self._values, self._earlier = self._earlier, {}

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Decode if it is time, and add the score to the logs."""
        # Between two decodings the last value is repeated, which is no improvement to any callback.
        is_last = epoch + 1 == self.params.get("epochs")
        if not self._values or is_last or (epoch + 1) % self.every == 0:
            value = self.score()
            self._values = {f"val_{self.metric}": value}
            if self.metric in _PERFECT:
                self._values[self.monitor] = _PERFECT[self.metric] - value
        if logs is not None:
            logs.update(self._values)

    def score(self) -> float:
        """Decode all pairs with the model as it is, and return the metric's value."""
        if self._translator is None:
            self._translator = self.make_translator(self.model)
            tokenizer = getattr(self._translator, "target_tokenizer", None)
            self._written = self.references
            if tokenizer is not None:  # as a translator with this target vocabulary would write them
                texts = [right for rights in self.references for right in rights]
                written = iter(tokenizer.round_trip(texts))
                self._written = [[next(written) for _ in rights] for rights in self.references]
        # If the optimizer keeps an average of the weights, that is scored: `fit` leaves it in the model at
        # its end.
        with moving_average(self.model):
            hypotheses = self._translator.translate(self.sources, batch_size=self.batch_size)
        return self._measure(hypotheses, self._written)
