"""Translation run: pairs of texts, a tokenizer for each side, a `Transformer`, a `Translator`."""

import logging
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf

from keras_transformer._arguments import as_pairs
from keras_transformer.data.encoding import EncodedPairs
from keras_transformer.data.noise import subword_dropout
from keras_transformer.data.pipeline import translation_dataset
from keras_transformer.data.sources import read_pairs
from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.sampling import GreedySearch
from keras_transformer.decoding.search import Search
from keras_transformer.errors import InputError
from keras_transformer.evaluation.decode_and_score import DecodeAndScore
from keras_transformer.evaluation.report import EvaluationReport, evaluate
from keras_transformer.models.transformer import Transformer
from keras_transformer.runs.config import RunConfig
from keras_transformer.runs.kind import ProgressBar, Readers, RunData, RunKind, RunResults
from keras_transformer.runs.large_corpus import _large_corpus, _LargeCorpus
from keras_transformer.runs.recipe import choose_kind
from keras_transformer.runs.translation_options import TranslationConfig
from keras_transformer.runs.translation_report import _page
from keras_transformer.tasks import TextTask, Translation, Translator
from keras_transformer.text.subword import SubwordTokenizer
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import Progress

# Texts of one word, such as ISO dates, have no word n-grams, so BLEU would always be 0.
_METRICS_WITHOUT_WORDS = ("exact_match", "character_error_rate")

_LOGGER = logging.getLogger(__name__)


class TranslationRun(RunKind):
    """Run on pairs of texts; an example is a pair."""

    config_class: ClassVar[type[RunConfig]] = TranslationConfig
    task_class = Translator
    model_class = Transformer
    scored_class = TextTask
    dataset = staticmethod(translation_dataset)
    reads: ClassVar[str] = "text"
    """Name of the kind of source, as `Reader.column`."""
    sides: ClassVar[tuple[int, ...]] = (0, 1)
    """Sides of an example that have a vocabulary."""
    noun = "pairs"
    needs = "pairs: --pairs NAME"
    verb = "translate"
    template = "translation.html"
    config: Any

    def read(self) -> RunData:
        """Read all pairs; for a large corpus a sample."""
        corpus = _large_corpus(self.config)
        if corpus is None:
            return super().read()
        validation = self.read_part("validation") or corpus.held_out
        return RunData(corpus, validation, self.read_part("test") or validation)

    def fingerprint(self, examples: Sequence[Any]) -> str:
        """Return a checksum of the pairs and their order; for a large corpus, of its files."""
        return examples.fingerprint if isinstance(examples, _LargeCorpus) else super().fingerprint(examples)

    def origin(self, prefix: str) -> Any:
        """Return the files of sources and targets, or the name of the pairs (default: `dates`)."""
        data = self.config.data
        source, target = getattr(data, f"{prefix}source"), getattr(data, f"{prefix}target")
        if source is not None:
            return source, target
        return None if prefix else data.pairs or "dates"

    def read_from(self, origin: Any, split: str = "train", *, unique: bool = False) -> list[Any]:
        """Read pairs. With `unique`, columns after the second are further references."""
        seed = self.config.data.seed
        return read_pairs(origin, split, further_targets=unique, seed=seed)

    def shown(self, source: Any) -> str:
        """Return a source as one line of text."""
        return str(source).strip()

    def describe(self, example: Any) -> str:
        """Return a pair as one line of text."""
        return f"{self.shown(example[0])}  →  {example[1]}"

    def make_readers(self, data: RunData) -> Readers:
        """Train the vocabularies on training pairs only. Other pairs may have unknown tokens."""
        num_pairs = getattr(data.train, "num_examples", len(data.train))
        counts = f"{2 * len(data.train):,} of {2 * num_pairs:,} texts"
        _LOGGER.info("training the vocabularies on %s, drawn with seed %d", counts, self.config.data.seed)
        vocabulary = self.config.vocabulary
        sources, targets = [source for source, _ in data.train], [target for _, target in data.train]
        kind = choose_kind(vocabulary.asked_kind, sources, targets)
        target_kind = vocabulary.target_kind or kind
        if vocabulary.shared:
            tokenizer = self.new_tokenizer([*sources, *targets], kind)
            return tokenizer, tokenizer
        return self.new_tokenizer(sources, kind), self.new_tokenizer(targets, target_kind)

    def initial_readers(self, initial: Translator) -> Readers:
        """Return the readers of the initial translator, which must read the same kind of source."""
        if initial.reader.column != self.reads:
            raise InputError(
                f"`initial_model` must read {self.reads}, as the {self.noun} of a run are. "
                f"Received: {self.config.model.initial_model}, which reads {initial.reader.column}."
            )
        return super().initial_readers(initial)

    @property
    def longest(self) -> int:
        """Maximum length of the longer side, in tokens."""
        return max(self._limits)

    @property
    def _limits(self) -> tuple[int, int]:
        return self.config.data.max_source_length, self.config.data.max_target_length

    def encode(self, examples: Any, readers: Readers, progress: ProgressBar | None) -> EncodedPairs:
        """Tokenize pairs; a large corpus is tokenized to disk."""
        if isinstance(examples, _LargeCorpus):
            return examples.encode(readers, self._limits, progress)
        source, target = self._limits
        return EncodedPairs.encode(examples, *readers, max_source_length=source, max_target_length=target)

    def batches(
        self, encoded: Any, readers: Readers, tokens_per_batch: int, first_epoch: int | None, **options: Any
    ) -> tf.data.Dataset:
        """Return batches of pairs, with noise for training."""
        options["noise"] = () if first_epoch is None else self._noise(readers)
        return super().batches(encoded, readers, tokens_per_batch, first_epoch, **options)

    def _noise(self, readers: Readers) -> list[Callable[[tf.data.Dataset], tf.data.Dataset]]:
        vocabulary, seed = self.config.vocabulary, self.config.training.seed
        rates = [vocabulary.subword_dropout, vocabulary.target_subword_dropout]
        rates[1] = rates[0] if rates[1] is None else rates[1]
        steps = []
        for side, (tokenizer, rate) in enumerate(zip(readers, rates, strict=True)):
            if isinstance(tokenizer, SubwordTokenizer) and rate:
                source, target = (None, tokenizer) if side else (tokenizer, None)
                # The limit includes a special token, which is added after this step.
                length = self._limits[side] - 1
                steps.append(subword_dropout(source, target, rate, max_length=length, seed=seed))
        if any(rates) and not steps:  # the initial model may have other vocabularies
            kinds = " and ".join(type(tokenizer).__name__ for tokenizer in readers)
            raise InputError(
                "`subword_dropout` is for subword vocabularies. Received: "
                f"subword_dropout={rates[0]}, target_subword_dropout={rates[1]}, vocabularies of {kinds}."
            )
        return steps

    def new_model(self, readers: Readers, dtype: keras.DTypePolicy) -> Transformer:
        """Build a model for the vocabulary sizes."""
        model, (source, target) = self.config.model, readers
        sizes = source.vocabulary_size, target.vocabulary_size
        shared = model.changes.get("share_embeddings", self.config.vocabulary.shared)
        if shared and source.fingerprint() != target.fingerprint():
            raise InputError(
                "`share_embeddings` needs one vocabulary for both sides. Received: share_embeddings=True, "
                f"and vocabularies of {sizes[0]:,} and {sizes[1]:,} entries."
            )
        known = self.model_config(
            readers,
            max(self.longest, self.config.decoding.max_target_length),
            source_vocabulary_size=sizes[0],
            target_vocabulary_size=sizes[1],
            share_embeddings=self.config.vocabulary.shared,
        )
        return Transformer(**known.options(), dtype=dtype)

    def check_model(self, model: Transformer, longest: Sequence[int]) -> None:
        """Raise InputError if pairs exceed the positions, or the search the memory."""
        super().check_model(model, longest)
        self._search()  # reads the initial model, which a resumed run may have lost
        decoding = self.config.decoding
        model.config.check_decoding(1, decoding.beam_size, 1, decoding.max_target_length, 1)

    def scoring(self, readers: Readers, examples: Sequence[Any]) -> DecodeAndScore | None:
        """Return a callback that translates validation sources, unless the loss is the monitor."""
        training, decoding = self.config.training, self.config.decoding
        if training.monitor == "loss":
            return None
        search = self._search()
        return DecodeAndScore(
            lambda model: self._translator(model, readers, search),
            examples,
            training.monitor,
            limit=training.monitored_pairs,
            batch_size=decoding.batch_size,
            tokenize=decoding.bleu_tokenize,
        )

    def make_task(self, model: Transformer, readers: Readers) -> Translator:
        """Make a translator with the configured search."""
        return self._translator(model, readers, self._search())

    def _translator(self, model: Transformer, readers: Readers, search: Search) -> Translator:
        decoding = self.config.decoding
        return Translator(
            model,
            *readers,
            search=search,
            max_source_length=self.config.data.max_source_length,
            max_target_length=decoding.max_target_length,
            split_texts=decoding.split_texts,
        )

    def _search(self) -> Search:
        decoding, initial = self.config.decoding, self.config.model.initial_model
        # Keep the rules that belong to the initial weights: the language token, the length normalization.
        initial_search = GreedySearch() if initial is None else Translator.load(initial).search
        kept = ("length_normalization", "constraints", "special_ids")
        options: dict[str, Any] = {name: getattr(initial_search, name) for name in kept}
        options["length_penalty"] = decoding.length_penalty
        # A beam of one hypothesis is greedy search, which is cheaper.
        if decoding.beam_size == 1:
            return GreedySearch(**options)
        return BeamSearch(decoding.beam_size, **options)

    def checked(self, examples: Sequence[Any]) -> list[Any]:
        """Return pairs of texts; raise TypeError for others."""
        return as_pairs(examples=examples)

    def distinct(self, examples: Sequence[Any]) -> list[Any]:
        """Return each source once, with a list of all its targets."""
        several: dict[str, tuple[Any, list[str]]] = {}
        for source, target in examples:
            several.setdefault(self.key((source, target)), (source, []))[1].append(target)
        return [*several.values()]

    def outputs(
        self, task: TextTask, examples: Sequence[Any], batch_size: int, advance: Progress | None
    ) -> list[Translation]:
        """Translate the sources."""
        sources = [source for source, _ in examples]
        return task.translate_with_scores(sources, batch_size=batch_size, progress=advance)

    def report(
        self, task: TextTask, examples: Sequence[Any], outputs: Sequence[Translation]
    ) -> EvaluationReport:
        """Score the outputs: exact match and error rates, and BLEU and chrF if a target has several words."""
        references = [targets if isinstance(targets, list) else [targets] for _, targets in examples]
        targets = [target for each in references for target in each]
        if isinstance(task, Translator):
            _warn_of_unwritable(targets, task.target_tokenizer)
        tokenize = self.config.decoding.bleu_tokenize
        has_words = tokenize == "char" or any(" " in target.strip() for target in targets)
        metrics = None if has_words else _METRICS_WITHOUT_WORDS
        return evaluate([output.text for output in outputs], references, metrics, tokenize=tokenize)

    def source(self, example: Any) -> Any:
        """Return the source of a pair."""
        return example[0]

    def lines(self, examples: Sequence[Any], outputs: Sequence[Translation]) -> list[str]:
        """Return a header and one line per output."""
        lines = ["outputs (score, source, output, and the reference where it differs):"]
        for (source, target), output in zip(examples, outputs, strict=False):
            reference = "" if output.text == target else f"  ({target})"
            lines.append(f"  {output.score:7.3f}  {self.shown(source)}  →  {output.text}{reference}")
        return lines

    def page(self, results: RunResults) -> dict[str, Any]:
        """Return examples, attention maps and vocabularies; draw the attention of the first output."""
        return _page(results, self.config.data.seed, self._limits, self.shown, self.sides)


def _warn_of_unwritable(targets: list[str], tokenizer: Tokenizer) -> None:
    # No output can match such a reference, however good the model is.
    written = tokenizer.round_trip(targets)
    others = [pair for pair in zip(targets, written, strict=True) if pair[0] != pair[1]]
    if others:
        # Some differ only in how letters and accents are joined, which looks the same unless it is ASCII.
        target, nearest = map(ascii if _is_same_letters(*others[0]) else repr, others[0])
        _LOGGER.warning(
            "%d of %d references cannot be written with the target vocabulary, so that no output equals "
            "them: %s would be %s.",
            *(len(others), len(targets), target, nearest),
        )


def _is_same_letters(text: str, other: str) -> bool:
    return unicodedata.normalize("NFC", text) == unicodedata.normalize("NFC", other)
