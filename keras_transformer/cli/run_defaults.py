"""The configuration of a run: the task's defaults, then a TOML file, then flags."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_transformer.config import (
    DataConfig,
    DecodingConfig,
    ModelConfig,
    RunConfig,
    TrainingConfig,
    VocabularyConfig,
)

DATES = RunConfig(
    name="dates",
    data=DataConfig(pairs="dates", tokens_per_batch=2048, max_source_length=64, max_target_length=16),
    vocabulary=VocabularyConfig(
        kind="character", size=1000, shared=False, lowercase=True, normalize_spaces=True
    ),
    model=ModelConfig(
        preset="tiny",
        num_encoder_layers=2,
        num_decoder_layers=2,
        hidden_dim=64,
        num_heads=4,
        intermediate_dim=256,
        dropout=0.0,
        norm_first=True,
    ),
    training=TrainingConfig(
        epochs=4, schedule="cosine", peak_learning_rate=2e-3, warmup_steps=500, label_smoothing=0.05
    ),
    decoding=DecodingConfig(max_target_length=16, beam_size=1, length_penalty=0.0, batch_size=250),
)


def run_config(config: str | None, flags: Mapping[str, Any]) -> RunConfig:
    """Decide what a run does.

    Args:
        config: path of a TOML file, or None.
        flags: values by field name; None where a flag was not given.

    Returns:
        The configuration; that of the built-in task if nothing names pairs, with the sizes of a preset if
        one is named.

    Raises:
        InputError: the file or a value is wrong.
    """
    if config is not None:
        return RunConfig.from_toml(config).override(flags)
    if flags.get("pairs") in (None, "dates") and not flags.get("source") and not flags.get("target"):
        sizes = DATES.model if flags.get("preset") is None else ModelConfig()
        return dataclasses.replace(DATES, model=sizes).override(flags)
    return RunConfig().override(flags)
