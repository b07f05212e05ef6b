"""Text generation run: texts, one tokenizer, a `CausalLM`, a `TextGenerator`."""

import logging
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import keras

from keras_transformer.data import EncodedTexts, read_texts, text_dataset
from keras_transformer.decoding import GreedySearch, SampleSearch, Search
from keras_transformer.evaluation import EvaluationReport, evaluate_texts
from keras_transformer.models import CausalLM
from keras_transformer.runs.config import (
    Files,
    Fraction,
    RunConfig,
    Seed,
    Weight,
    _DataSection,
    _ModelSection,
    _Section,
    _TrainingSection,
)
from keras_transformer.runs.kind import ProgressBar, Readers, RunData, RunKind, RunResults
from keras_transformer.runs.recipe import choose_kind
from keras_transformer.runs.report import text_side
from keras_transformer.tasks import TextGenerator, Translation
from keras_transformer.types import Count, Length, Progress

_PROMPT_WORDS, _PROMPT_PART = 3, 4
_MAX_COUNTED = 500_000  # rows

_LOGGER = logging.getLogger(__name__)


class _TextsSection(_DataSection):
    """Training, validation and test texts, and the length limit."""

    texts: Files | None = None
    """Training texts: one per line (plain or `.gz`), a table (`.tsv`, `.csv`, `.jsonl`) with a column `text`,
    `FILE#COLUMN`, or `tfds:NAME`. For several files, repeat the flag (TOML: a list) or give a pattern."""
    validation_texts: Files | None = None
    """Validation texts, to select the best epoch. Defaults to a held-out part of the training data."""
    test_texts: Files | None = None
    """Test texts, to score after training."""
    packed: bool = False
    """Concatenate texts and train on pieces of `max_length` tokens, for running text."""
    max_length: Length = 256
    """Maximum text length in tokens, including the end token. Longer texts are dropped, unless packed."""


class _CausalModelSection(_ModelSection):
    """A preset, and any fields of a `CausalLM` that override it."""

    decided_elsewhere: ClassVar[tuple[str, ...]] = _ModelSection.decided_elsewhere_of_one_stack


class _GenerationTraining(_TrainingSection):
    """Training options of text generation."""

    label_smoothing: Fraction = 0.0
    """Probability mass to spread over the vocabulary. It raises the perplexity, so `generate` defaults to
    0."""
    monitor: Literal["loss"] = "loss"
    """Validation metric that selects the best epoch. Other metrics than `loss` need task `translate` or
    `frames`."""


class _SamplingSection(_Section):
    """Sampling options of text generation."""

    temperature: Weight = 0.8
    """Sampling temperature. 0 always takes the most likely token."""
    top_k: Count | None = None
    """Sample only from the K most likely tokens. Defaults to all tokens."""
    top_p: Fraction | None = 0.95
    """Sample only from the most likely tokens whose cumulative probability reaches this value (nucleus).
    0 for all tokens."""
    num_samples: Count = 1
    """Continuations per prompt."""
    batch_size: Count = 64
    """Number of texts to decode or score together."""
    seed: Seed = 0
    """Random seed of the samples. The flag also sets `seed` in `[data]` and `[training]`."""

    def search(self) -> Search:
        if not self.temperature:
            return GreedySearch()
        return SampleSearch(
            self.temperature,
            top_k=self.top_k,
            top_p=self.top_p or None,
            num_samples=self.num_samples,
            seed=self.seed,
        )


class GenerationConfig(RunConfig):
    """Configuration of a run that trains a `TextGenerator` on texts."""

    task: Literal["generate"] = "generate"
    """Task to train for."""
    data: _TextsSection = _TextsSection()
    model: _CausalModelSection = _CausalModelSection()
    training: _GenerationTraining = _GenerationTraining()
    decoding: _SamplingSection = _SamplingSection()


class GenerationRun(RunKind):
    """Run on texts; an example is a text."""

    config_class = GenerationConfig
    task_class = TextGenerator
    model_class = CausalLM
    scored_class = TextGenerator
    dataset = staticmethod(text_dataset)
    noun = "texts"
    needs = "texts: --texts FILE"
    verb = "generate"
    files = "texts"
    template = "generation.html"
    max_decoded = 12
    config: GenerationConfig

    def read_from(self, origin: Any, split: str = "train", *, unique: bool = False) -> list[Any]:
        """Read texts."""
        return read_texts(origin, split)

    def key(self, example: str) -> str:
        """Return the text."""
        return example

    def describe(self, example: str) -> str:
        """Return the beginning of a text."""
        return example.strip()[:200]

    def make_readers(self, data: RunData) -> Readers:
        """Train the tokenizer, from training texts only."""
        texts = [*data.train]
        return (self.new_tokenizer(texts, choose_kind(self.config.vocabulary.kind, texts, texts)),)

    def encode(self, examples: Sequence[str], readers: Readers, progress: ProgressBar | None) -> EncodedTexts:
        """Tokenize texts."""
        [tokenizer], data = readers, self.config.data
        return EncodedTexts.encode(examples, tokenizer, max_length=data.max_length, packed=data.packed)

    def new_model(self, readers: Readers, dtype: keras.DTypePolicy) -> CausalLM:
        """Build a model for the vocabulary size."""
        [tokenizer] = readers
        options = self.config.model.of_one_stack(self.model_config(readers, self.longest))
        return CausalLM(tokenizer.vocabulary_size, **options, dtype=dtype)

    def check_model(self, model: CausalLM, longest: Sequence[int]) -> None:
        """Raise InputError if texts exceed the positions, or sampling the memory."""
        super().check_model(model, longest)
        model.config.check_decoding(1, self.config.decoding.num_samples, 1, self.longest, 1)

    def make_task(self, model: CausalLM, readers: Readers) -> TextGenerator:
        """Make a generator with the configured sampling."""
        [tokenizer] = readers
        return TextGenerator(model, tokenizer, search=self.config.decoding.search(), max_length=self.longest)

    def outputs(
        self, task: TextGenerator, examples: Sequence[str], batch_size: int, advance: Progress | None
    ) -> list[Translation]:
        """Continue the prompts of texts."""
        prompts = [self.source(text) for text in examples]
        return task.translate_with_scores(prompts, batch_size=batch_size, progress=advance)

    def report(
        self, task: TextGenerator, examples: Sequence[str], outputs: Sequence[Translation]
    ) -> EvaluationReport:
        """Compute the perplexity of all texts."""
        return evaluate_texts(task, examples, packed=self.config.data.packed)

    def source(self, example: str) -> str:
        """Return the beginning of a text as a prompt: three words, or a quarter of a short text."""
        words = example.split()
        if len(words) >= 2 * _PROMPT_WORDS:
            return " ".join(words[:_PROMPT_WORDS])
        return example.strip()[: -(-len(example.strip()) // _PROMPT_PART)]

    def lines(self, examples: Sequence[str], outputs: Sequence[Translation]) -> list[str]:
        """Return a header and one line per continuation."""
        lines = ["continued (score, prompt, text):"]
        for text, output in zip(examples, outputs, strict=False):
            lines.append(f"  {output.score:7.3f}  {self.source(text)}  →  {' '.join(output.text.split())}")
        return lines

    def page(self, results: RunResults) -> dict[str, Any]:
        """Return continuations and the vocabulary."""
        training: Any = results.training
        [tokenizer], texts = results.readers, [*results.data.test]
        token_ids = training.labels[:_MAX_COUNTED].flat_values.numpy()
        lengths = training.lengths()[:, 0]
        return {
            "continued": [
                (self.source(text), output, text)
                for text, output in zip(texts, results.outputs, strict=False)
            ],
            "sides": [text_side("text", tokenizer, lengths, self.longest, token_ids, texts)],
        }
