"""What the signatures of an export take, and how the clients here print what they give.

| signature | in | printed for each text |
|---|---|---|
| serving_default | text | score, output |
| n_best | text | a line for each answer: rank, score, output |
| align | text | a line for each token of the answer: it, the source token it looked at most, the weight |
| score | text, output | score, number of tokens |
| search | text, max_length, length_penalty, num_hypotheses | as for n_best |

Columns are separated by tabs; n_best, search and align have an empty line between two texts. An export that
samples also takes a seed in search. Every signature answers is_cut, too: whether a text was longer than the
model reads.

Texts are sent in parts: a server that batches refuses more rows than its largest batch, and holds a request
of none until another one comes. Where it splits a request, it joins the parts of align wrongly, since their
padding differs: align is asked for one text at a time.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

# For a search option that is not given: the export uses its own value.
NOT_GIVEN = -1
Inputs = Mapping[str, Sequence[bytes] | Sequence[float]]
Outputs = Mapping[str, Any]
SIGNATURES = ("serving_default", "n_best", "align", "score", "search")
# An empty line stands between the answers to two texts.
SEPARATED = ("n_best", "search", "align")
# Below it an answer is none: there were fewer than the signature has room for.
NO_ANSWER = -1e29
# Attention maps of many texts are large; what is larger than this is no answer of a model server.
MAX_ANSWER_BYTES = 256 * 2**20
# A terminal obeys control characters, which an answer may hold: they may hide, colour or type something.
CONTROL_CHARACTERS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


class Target(NamedTuple):
    """Which model is asked, where, and how the two know each other."""

    server: str
    model: str
    version: int | None
    label: str | None
    timeout: float
    tls: bool
    ca_certificate: str | None
    certificate: str | None
    key: str | None
    token: str | None

    def headers(self) -> dict[str, str]:
        """Give the header that a proxy in front of the server reads, or nothing."""
        return {} if self.token is None else {"authorization": f"Bearer {self.token}"}


class Seconds(click.ParamType):
    """A time that a clock reaches: neither infinite nor NaN, which no comparison finds."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a number, or refuse it."""
        seconds: float = click.FLOAT.convert(value, param, ctx)
        if not 0 < seconds <= 86_400:
            self.fail(f"must be above 0 and at most 86400. Received: {value}.", param, ctx)
        return seconds


def client_command(server: str, ask: Callable[[Target, str, Inputs], Outputs]) -> click.Command:
    """Make the command of a client.

    Args:
        server: the default of `--server`.
        ask: asks a signature with its inputs, a list of bytes for each name; gives a list for each output.
    """

    def main(
        texts: tuple[str, ...],
        signature: str | None,
        n_best: int | None,
        outputs: tuple[str, ...],
        max_length: int | None,
        length_penalty: float | None,
        seed: int | None,
        batch_size: int,
        **target: Any,
    ) -> None:
        signature = choose_signature(
            signature, n_best, max_length=max_length, length_penalty=length_penalty, seed=seed
        )
        inputs = signature_inputs(signature, texts, outputs)
        if signature == "search":
            inputs |= search_options(len(inputs["text"]), max_length, length_penalty, n_best, seed)
        num_cut, known = 0, choose_target(**target)
        for start, part in request_parts(inputs, 1 if signature == "align" else batch_size):
            try:
                answer = ask(known, signature, part)
                lines = [*answer_lines(signature, answer, n_best)]
            except click.ClickException as error:
                # The words of a server, too.
                error.message = error.message.translate(CONTROL_CHARACTERS)
                raise
            for line in ([""] if start and signature in SEPARATED else []) + lines:
                click.echo(line)
            num_cut += sum(map(bool, answer.get("is_cut", ())))
        if num_cut:
            click.echo(f"{num_cut} of {len(inputs['text'])} texts were cut off.", err=True)

    return click.Command(
        None,
        context_settings={"help_option_names": ["-h", "--help"]},
        callback=main,
        params=client_parameters(server),
        help="Ask for TEXTS, or for each line of standard input.",
    )


def client_parameters(server: str) -> list[click.Parameter]:
    """List the arguments that both clients have.

    Args:
        server: the default of `--server`.
    """
    return [
        click.Argument(["texts"], nargs=-1),
        click.Option(["--server"], default=server, show_default=True, help="Where the model server listens."),
        click.Option(
            ["--model"], default="dates", show_default=True, help="Name of the model on the server."
        ),
        click.Option(["--version"], type=int, help="Version of the model. The server chooses if absent."),
        click.Option(["--label"], help="Label of a version, such as stable."),
        click.Option(
            ["--signature"], type=click.Choice(SIGNATURES), help="What is asked.  [serving_default]"
        ),
        click.Option(["--n-best"], type=click.IntRange(min=1), help="Number of outputs; calls n_best."),
        click.Option(["--max-length"], type=int, help="Maximum output length in tokens; calls search."),
        click.Option(["--length-penalty"], type=float, help="Above 0 for longer answers; asks search."),
        click.Option(
            ["--seed"],
            type=click.IntRange(min=0, max=2**31 - 1),
            help="For an export that samples: that of the first text, 1 more for each that follows.",
        ),
        click.Option(
            ["--batch-size"],
            default=32,
            show_default=True,
            type=click.IntRange(min=1),
            help="Texts of a request, at most what the server takes. align is asked for one.",
        ),
        click.Option(
            ["--output", "outputs"], multiple=True, help="For score: the answer to a text, in order."
        ),
        click.Option(
            ["--timeout"],
            default=30.0,
            show_default=True,
            type=Seconds(),
            help="Seconds until the whole answer has to be there, at most a day.",
        ),
        *secure_parameters(),
    ]


def secure_parameters() -> list[click.Parameter]:
    """List the arguments of a connection that is encrypted and known."""
    readable = click.Path(exists=True, dir_okay=False)
    return [
        click.Option(["--tls"], is_flag=True, help="Speak TLS; an address with https:// does, too."),
        click.Option(
            ["--ca-certificate"],
            type=readable,
            help="PEM file of who signs for the server, else the system's.",
        ),
        click.Option(["--certificate"], type=readable, help="PEM file that says who asks (mutual TLS)."),
        click.Option(["--key"], type=readable, help="PEM file of its private key."),
        click.Option(
            ["--token"],
            envvar="SERVING_TOKEN",
            help="Sent as `Authorization: Bearer TOKEN`, over TLS alone. "
            "Better: set SERVING_TOKEN, since other users see the arguments of a program.",
        ),
    ]


def choose_target(*, version: int | None, label: str | None, **target: Any) -> Target:
    """Take what was named.

    Raises:
        click.UsageError: a version and a label are given, or half of what TLS needs.
    """
    if version is not None and label is not None:
        raise click.UsageError(f"--version and --label exclude each other. Received: {version} and {label}.")
    chosen = Target(version=version, label=label, **target)
    if (chosen.certificate is None) != (chosen.key is None):
        raise click.UsageError("--certificate and --key belong together. Received: one of them.")
    chosen = chosen._replace(tls=chosen.tls or chosen.server.startswith("https://"))
    secrets = {"--ca-certificate": chosen.ca_certificate, "--key": chosen.key, "--token": chosen.token}
    if not chosen.tls and any(secrets.values()):
        names = ", ".join(name for name, value in secrets.items() if value)
        raise click.UsageError(f"{names} would be of no use, or seen by all, without --tls or https://.")
    return chosen


def read_pem(path: str | None) -> bytes | None:
    """Read a PEM file, if one is named."""
    return None if path is None else Path(path).read_bytes()


def choose_signature(signature: str | None, n_best: int | None, **options: float | None) -> str:
    """Take what was asked for; `--n-best` alone asks for `n_best`, an option of the search for `search`.

    Raises:
        click.UsageError: both were given and do not fit.
    """
    if any(value is not None for value in options.values()):
        if signature not in (None, "search"):
            names = ", ".join(f"--{name.replace('_', '-')}" for name in options)
            raise click.UsageError(f"{names} need the signature search. Received: --signature {signature}.")
        return "search"
    if n_best is not None and signature not in (None, "n_best", "search"):
        raise click.UsageError(f"--n-best needs the signature n_best. Received: --signature {signature}.")
    return signature or ("serving_default" if n_best is None else "n_best")


def signature_inputs(signature: str, texts: Sequence[str], outputs: Sequence[str]) -> dict[str, list[Any]]:
    """Name the inputs of a signature.

    Args:
        signature: one of `SIGNATURES`.
        texts: the sources, from the command line; the lines of standard input if there are none.
        outputs: for `score`, the answer to each source.

    Raises:
        click.UsageError: there are outputs where none belong, or not one for each text.
    """
    sources = [argument_bytes(text) for text in texts] or sys.stdin.buffer.read().splitlines()
    if signature != "score":
        if outputs:
            raise click.UsageError(
                f"--output belongs to --signature score. Received: --signature {signature}."
            )
        return {"text": sources}
    if len(outputs) != len(sources):
        raise click.UsageError(
            f"score needs an --output for each of {len(sources)} texts. Received: {len(outputs)}."
        )
    return {"text": sources, "output": [argument_bytes(output) for output in outputs]}


def search_options(
    rows: int, max_length: int | None, length_penalty: float | None, n_best: int | None, seed: int | None
) -> dict[str, list[Any]]:
    """Give each text its options: a server that joins requests wants a row for each, and none left out."""
    options = {"max_length": max_length, "length_penalty": length_penalty, "num_hypotheses": n_best}
    columns = {name: [NOT_GIVEN if value is None else value] * rows for name, value in options.items()}
    columns["length_penalty"] = [float(value) for value in columns["length_penalty"]]
    return columns if seed is None else {**columns, "seed": [(seed + row) % 2**31 for row in range(rows)]}


def request_parts(inputs: Inputs, size: int) -> Iterator[tuple[int, Inputs]]:
    """Yield the inputs of each request, with the number of its first text; none for no texts."""
    for start in range(0, len(inputs["text"]), size):
        yield start, {name: values[start : start + size] for name, values in inputs.items()}


def argument_bytes(argument: str) -> bytes:
    """Return the bytes of an argument; Python keeps invalid UTF-8 as lone surrogates."""
    return argument.encode("utf-8", "surrogateescape")


def answer_lines(signature: str, answer: Outputs, n_best: int | None = None) -> Iterator[str]:
    """Write an answer as lines.

    Args:
        signature: the one that answered.
        answer: a list for each output; texts are `str`.
        n_best: Maximum number of outputs for each text.

    Raises:
        click.ClickException: an output is missing.
    """
    try:
        rows = [dict(zip(answer, row, strict=True)) for row in zip(*answer.values(), strict=True)]
        blocks = [list(_ROW_LINES[signature](row)) for row in rows]
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise click.ClickException(f"The outputs are not those of {signature}: {sorted(answer)}.") from error
    for index, block in enumerate(blocks):
        if index and signature in SEPARATED:
            yield ""
        yield from block[:n_best]


def cell(text: str) -> str:
    """Write a text as one cell of a line, and on a terminal its control characters as escapes."""
    line = " ".join(text.splitlines())
    return line.translate(CONTROL_CHARACTERS) if sys.stdout.isatty() else line


def _serving_default_lines(row: Outputs) -> Iterator[str]:
    yield f"{row['score']:.3f}\t{cell(row['output'])}"


def _n_best_lines(row: Outputs) -> Iterator[str]:
    for rank, (score, output) in enumerate(zip(row["score"], row["output"], strict=True), start=1):
        if score > NO_ANSWER:
            yield f"{rank}\t{score:.3f}\t{cell(output)}"


def _align_lines(row: Outputs) -> Iterator[str]:
    for token, weights in zip(row["output_tokens"], row["attention"], strict=True):
        if token:  # The empty string pads the shorter rows of a batch.
            best = max(range(len(weights)), key=weights.__getitem__)
            yield f"{cell(token)}\t{cell(row['source_tokens'][best])}\t{weights[best]:.2f}"


def _score_lines(row: Outputs) -> Iterator[str]:
    yield f"{row['score']:.3f}\t{row['num_tokens']:d}"


_ROW_LINES: dict[str, Callable[[Outputs], Iterator[str]]] = {
    "serving_default": _serving_default_lines,
    "n_best": _n_best_lines,
    "align": _align_lines,
    "score": _score_lines,
    "search": _n_best_lines,
}
