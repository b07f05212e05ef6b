"""Tagging run: texts with tagged tokens, one tokenizer, an `EncoderModel`, a `TextTagger`."""

from collections.abc import Sequence
from typing import Any, Literal

from keras_transformer.data import EncodedTexts, read_tagged, tagging_dataset
from keras_transformer.errors import InputError
from keras_transformer.evaluation import LabelReport, evaluate_tags
from keras_transformer.models import EncoderModel
from keras_transformer.runs.config import FileName, RunConfig
from keras_transformer.runs.kind import ProgressBar, Readers
from keras_transformer.runs.labels import (
    LabelRun,
    _EncoderSection,
    _LabelSection,
    _LabelTraining,
)
from keras_transformer.tasks import Tagger, Tagging, TextTagger
from keras_transformer.types import NOT_COUNTED, Progress, TaggedText

_OUTSIDE = "O"


class _TaggingSection(_LabelSection):
    """Training, validation and test texts with tags, and the length limit."""

    pairs: FileName | None = None
    """Tagged texts: CoNLL files (a token and its tag per line, an empty line between texts) or `.jsonl`
    (objects with a list `tokens` and a list `tags`), plain or `.gz`, or a pattern. `FILE#TOKENS,TAGS` selects
    `.jsonl` fields by name, or CoNLL columns by number from 1."""


class TaggingConfig(RunConfig):
    """Configuration of a run that trains a `TextTagger` on tagged texts."""

    task: Literal["tag"] = "tag"
    """Task to train for."""
    data: _TaggingSection = _TaggingSection()
    model: _EncoderSection = _EncoderSection()
    training: _LabelTraining = _LabelTraining()


class TaggingRun(LabelRun):
    """Run on tagged texts; an example is the tokens of a text and their tags."""

    config_class = TaggingConfig
    task_class = TextTagger
    scored_class = Tagger
    dataset = staticmethod(tagging_dataset)
    needs = "tagged texts: --pairs FILE"
    verb = "tag"
    template = "tagging.html"
    pad_id = NOT_COUNTED  # only the first token of each word counts
    config: TaggingConfig

    def read_from(self, origin: Any, split: str = "train", *, unique: bool = False) -> list[Any]:
        """Read tagged texts."""
        return read_tagged(origin)

    def describe(self, example: TaggedText) -> str:
        """Return the beginning of a text with its tags."""
        return _shown(*example)[:120]

    def encode(
        self, examples: Sequence[TaggedText], readers: Readers, progress: ProgressBar | None
    ) -> EncodedTexts:
        """Tokenize texts and number their tags."""
        [tokenizer] = readers
        return EncodedTexts.encode_tagged(examples, tokenizer, self.labels, max_length=self.longest)

    def make_task(self, model: EncoderModel, readers: Readers) -> TextTagger:
        """Make a tagger with the tags."""
        [tokenizer] = readers
        return TextTagger(model, tokenizer, self.labels, max_length=self.longest)

    def outputs(
        self, task: Tagger, examples: Sequence[TaggedText], batch_size: int, advance: Progress | None
    ) -> list[Tagging]:
        """Tag the texts; raise InputError if the tagger splits them into other words."""
        if isinstance(task, TextTagger):  # the file is already split into words
            task = task.with_changes(split_punctuation=False)
        texts = [self.source(example) for example in examples]
        outputs = task.tag(texts, batch_size=batch_size, progress=advance)
        for (tokens, _), output in zip(examples, outputs, strict=True):
            if output.tokens != tuple(tokens[: len(output.tokens)]):
                received = f"tokens {tokens!r:.200}, words {output.tokens!r:.200}"
                raise InputError(
                    "The words of a tagger must be the tokens of the texts: it must be exported with "
                    f"split_punctuation=False. Received: {received}."
                )
        return outputs

    def report(self, task: Tagger, examples: Sequence[TaggedText], outputs: Sequence[Tagging]) -> LabelReport:
        """Score the tags; truncated tokens count as `O`."""
        right = [[*tags] for _, tags in examples]
        given = [_fitted(output, len(tags)) for output, tags in zip(outputs, right, strict=True)]
        return evaluate_tags(given, right)

    def source(self, example: TaggedText) -> str:
        """Return the tokens, joined by spaces."""
        return " ".join(example[0])

    def lines(self, examples: Sequence[TaggedText], outputs: Sequence[Tagging]) -> list[str]:
        """Return a header and one line per text."""
        lines = ["tags (and the right ones where they differ):"]
        for (tokens, tags), output in zip(examples, outputs, strict=False):
            given = _fitted(output, len(tokens))
            right = "" if given == list(tags) else f"  ({_shown(tokens, tags)[:200]})"
            lines.append(f"  {_shown(tokens, given)[:200]}{right}")
        return lines

    def mistakes(self, examples: Sequence[TaggedText], outputs: Sequence[Tagging]) -> list[tuple[Any, ...]]:
        """Return the wrongly tagged texts: with true tags, and with predicted tags."""
        tagged = [
            (tokens, [*tags], _fitted(output, len(tokens)))
            for (tokens, tags), output in zip(examples, outputs, strict=False)
        ]
        return [
            (_shown(tokens, right), _shown(tokens, given))
            for tokens, right, given in tagged
            if right != given
        ]


def _fitted(output: Tagging, size: int) -> list[str]:
    return [*output.tags[:size], *[_OUTSIDE] * (size - len(output.tags))]


def _shown(tokens: Sequence[str], tags: Sequence[str]) -> str:
    return " ".join(
        token if tag == _OUTSIDE else f"{token}/{tag}" for token, tag in zip(tokens, tags, strict=True)
    )
