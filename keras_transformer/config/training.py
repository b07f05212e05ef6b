"""How a run trains and how it decodes."""

import dataclasses
import math

from keras_transformer.config.section import (
    Section,
    require_at_least,
    require_choice,
    require_fraction,
    require_seed,
)

SCHEDULES = ("constant", "cosine", "inverse_square_root", "noam")
BLEU_TOKENIZATIONS = ("13a", "none", "intl", "char")
MONITORS = (
    "loss",
    "bleu",
    "chrf",
    "exact_match",
    "word_error_rate",
    "token_error_rate",
    "character_error_rate",
)
ENGINES = ("cores", "mirrored", "tpu", "data_parallel", "model_parallel")
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig(Section):
    """The recipe of `fit`.

    Raises:
        TypeError: if a value is not of the type its field declares.
        ValueError: if a value is out of its range or a name is unknown.
    """

    epochs: int = 10
    """Passes over the training pairs."""
    schedule: str = "inverse_square_root"
    """Learning rate after the warm-up: "cosine", "inverse_square_root" or "noam"; "constant" has none."""
    peak_learning_rate: float = 1e-3
    """Highest learning rate, reached at the end of the warm-up; "noam" has its own, by the model's width."""
    warmup_steps: int = 1000
    """Updates in which the learning rate rises to its peak; under "cosine" at most a fifth of all."""
    label_smoothing: float = 0.1
    """Probability spread over the wrong tokens."""
    r_drop: float = 0.0
    """How much two passes with other dropout must agree (R-Drop's alpha); 0 for one pass."""
    z_loss: float | None = None
    """How much the logarithm of the softmax's denominator is drawn to 0, so that logits stay small; by
    default 1e-4 in mixed precision and 0 else."""
    clip_norm: float | None = None
    """Highest norm of all gradients together."""
    gradient_accumulation_steps: int = 1
    """Batches of one update; its tokens count alike, whichever batch they are in."""
    ema_momentum: float | None = None
    """Part of the moving average of the weights that stays at each update; the average is then used,
    but for the mean of `average_last`, which is of the weights as they were."""
    average_last: int | None = None
    """How many of the last checkpoints are averaged in the end, instead of taking the best one."""
    monitor: str = "loss"
    """What chooses the best epoch: "loss" of the validation pairs, or a metric of their decoded answers."""
    monitored_pairs: int = 500
    """Most validation pairs that are decoded after each epoch, where `monitor` is such a metric."""
    patience: int | None = None
    """Stop after so many epochs in a row that are no better."""
    precision: str = "float32"
    """Keras dtype policy: "float32", "mixed_bfloat16" or "mixed_float16"."""
    distribute: str | None = None
    """Engine that trains on several cores or devices: "cores", "mirrored" or "tpu" on TensorFlow,
    "data_parallel" or "model_parallel" on JAX; see `training.distributed`."""
    seed: int = 0
    """Seed of the initial weights and of dropout."""
    deterministic: bool = False
    """Whether TensorFlow keeps to one order of computing, so that equal runs end in equal bits; slower."""

    def __post_init__(self) -> None:
        """Check every value."""
        super().__post_init__()
        require_choice(self, "schedule", SCHEDULES)
        require_choice(self, "precision", PRECISIONS)
        require_choice(self, "monitor", MONITORS)
        require_choice(self, "distribute", ENGINES)
        require_fraction(self, "label_smoothing", "ema_momentum")
        require_at_least(self, 1, "epochs", "warmup_steps", "gradient_accumulation_steps")
        require_at_least(self, 1, "average_last", "monitored_pairs", "patience")
        require_at_least(self, 0, "r_drop", "z_loss")
        require_seed(self)
        for name in ("peak_learning_rate", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"`{name}` must be above 0 and finite. Received: {name}={value}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodingConfig(Section):
    """The search for an answer, and how answers are scored.

    Raises:
        TypeError: if a value is not of the type its field declares.
        ValueError: if a value is out of its range.
    """

    beam_size: int = 4
    """Hypotheses kept at each step; 1 is greedy search."""
    length_penalty: float = 1.0
    """Exponent of the length a score is divided by; 0 prefers short answers."""
    max_target_length: int = 256
    """Longest answer in tokens, the end token included."""
    batch_size: int = 64
    """Sentences decoded together."""
    bleu_tokenize: str = "13a"
    """sacreBLEU's tokenization: "13a", "intl", "char", or "none" for text that is tokenized already."""

    def __post_init__(self) -> None:
        """Check every value."""
        super().__post_init__()
        require_choice(self, "bleu_tokenize", BLEU_TOKENIZATIONS)
        require_at_least(self, 1, "beam_size", "batch_size")
        require_at_least(self, 0, "length_penalty")
        require_at_least(self, 2, "max_target_length")
