"""The README inside an exported directory: how to serve it and how to ask it."""

import json
import shlex
import urllib.parse
from collections.abc import Sequence

_TEMPLATE = """# {name}

A CTranslate2 model: lists of tokens in, lists of tokens out. The end token of a source is added
by CTranslate2. In Python:

    import ctranslate2

    translator = ctranslate2.Translator("{name}", intra_threads=2)
    results = translator.translate_batch(
        [tokens],
        beam_size=4,
        length_penalty=0,
        max_input_length={max_source_length},
        max_decoding_length={max_target_length},
        min_decoding_length=0,
        suppress_sequences={banned},
        return_scores=True,
    )
    results[0].hypotheses[0], results[0].scores[0]

So, or with `beam_size=1`, it gives the tokens that `keras_transformer` gives with
`BeamSearch(4, length_penalty=0, exhaustive=True)` or `GreedySearch()`, for answers that end before
`max_decoding_length`. At that length a beam of CTranslate2 may return an answer that is cut off,
where `keras_transformer` returns the best that has ended. Without `exhaustive=True`
`keras_transformer` ends the search a little earlier. Another length penalty is not the same number
in both: CTranslate2 divides by `length ** alpha`, `keras_transformer` by
`((5 + length) / 6) ** alpha`.

Both lengths count the end token. Without them CTranslate2 reads 1024 tokens and writes 256, whatever
the model was trained on.

`keras_transformer` never generates the tokens {tokens}, hence `suppress_sequences`. CTranslate2 gives
their probability to the other tokens, `keras_transformer` to none: scores differ by as much.

Where there are `source_tokenizer` and `target_tokenizer`, they make tokens of texts, and texts of
tokens:

    import keras_transformer as kt

    source = kt.text.load_tokenizer("{name}/source_tokenizer")
    tokens = source.tokens(source.tokenize([text])).numpy()[0]

    target = kt.text.load_tokenizer("{name}/target_tokenizer")
    pieces = target.tokens([range(target.vocabulary_size)]).numpy()[0]
    ids = {{piece.decode(): token_id for token_id, piece in enumerate(pieces)}}
    target.detokenize([[ids[token] for token in results[0].hypotheses[0]]]).numpy()[0].decode()
"""


def ctranslate2_readme(
    name: str, banned: Sequence[str], max_source_length: int, max_target_length: int
) -> str:
    """Write the README of an exported model.

    Args:
        name: of the directory.
        banned: tokens that are never generated.
        max_source_length: most tokens of a source, the end token included.
        max_target_length: most tokens of an answer, likewise.

    Returns:
        The text, in Markdown.
    """
    tokens = ", ".join(f"`{token}`" for token in banned)
    return _TEMPLATE.format(
        name=name,
        banned=[[token] for token in banned],
        tokens=tokens,
        max_source_length=max_source_length,
        max_target_length=max_target_length,
    )


_TEMPLATE_DIRECTORY_README = """# {name}

A TensorFlow SavedModel: strings in; strings, scores and alignments out. Serve the directory above
this one with TensorFlow Serving, from the directory that holds `{name}`:

    docker run -p 8500:8500 -p 8501:8501 -v "$PWD/{name}:/models/{name}" \\
        -e {setting} tensorflow/serving --enable_model_warmup{flags}

With `{config_flag}` after the image's name the server reads the
file beside the versions instead of `MODEL_NAME`.

| signature | in | out |
|---|---|---|
| `serving_default` | `text`, string (b) | `output`, string (b); `score`, float32 (b) |
| `n_best` | `text` | `output`, string (b, n); `score`, float32 (b, n); best first |
| `align` | `text` | `output`, `score`; `source_tokens`, string (b, s); `output_tokens`, string (b, t); \
`attention`, float32 (b, t, s) |
| `score` | `text`; `output`, string (b), of which {num_scored} tokens are read | `score`, float32 (b); \
`num_tokens`, int32 (b), the end token included |

A score is a log-probability, divided by the length penalty of the search. `score` leaves out what a
coverage or repetition penalty of the search takes off. An empty text has an empty output and the score 0.
The batch may have any size, 0 included; bytes that are no UTF-8 are no error. Tokens end with `[END]` and
are padded with the empty string. n is {num_hypotheses}; where there are fewer sequences, as for an empty
text, the output is empty and the score -1e30.

An answer ends at {max_target_length} tokens, finished or not. `score` puts the end token behind what it
reads, so an answer that was cut off there loses its last token, and has another score than in the search.
{note}
Over REST, a row for each text, or a column for each input:

    curl -d '{rows}' http://localhost:8501/v1/models/{url_name}:predict
    curl -d '{columns}' http://localhost:8501/v1/models/{url_name}:predict
    curl -d '{pairs}' http://localhost:8501/v1/models/{url_name}:predict

Over gRPC, with the packages `grpcio` and `tensorflow-serving-api`:

    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    stub = prediction_service_pb2_grpc.PredictionServiceStub(grpc.insecure_channel("localhost:8500"))
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "{name}"
    request.model_spec.signature_name = "serving_default"
    request.inputs["text"].CopyFrom(tf.make_tensor_proto([{example!r}], tf.string))
    answer = stub.Predict(request, timeout=10)
    print(answer.outputs["output"].string_val, answer.outputs["score"].float_val)

In Python, without a server, from the same directory:

    import tensorflow as tf
{text_import}
    serve = tf.saved_model.load("{name}/{version}").signatures["serving_default"]
    serve(text=tf.constant([{example!r}]))["output"]
"""

_TEXT_IMPORT = "    import tensorflow_text  # registers the tokenizer's operations\n"

_NOTES = {
    "float32": "",
    "bfloat16": "\nMatrices are stored as bfloat16, in half the size, and computed with as float32.\n",
    "xla": """
The search is compiled by XLA, for sources padded to 16, 32, 64 and so on tokens and batches padded
to powers of two. The first request of each such size waits for the compiler; the warm-up requests are
examples of the usual ones.
""",
}
_FLAGS = {"xla": " --xla_cpu_compilation_enabled"}


def directory_readme(
    name: str,
    examples: Sequence[tuple[str, str]],
    *,
    version: int,
    num_hypotheses: int,
    max_target_length: int,
    optimize: str,
    needs_tensorflow_text: bool,
) -> str:
    """Writes the README of an export.

    Args:
        name: of the model.
        examples: real sources and answers to them; the first is shown.
        version: its number.
        num_hypotheses: answers of `n_best` to a text.
        max_target_length: most tokens of an answer, the end token included.
        optimize: see `ServingModule`.
        needs_tensorflow_text: whether Python must import TensorFlow Text first.

    Returns:
        the text, in Markdown.
    """
    text, output = examples[0] if examples else ("text", "output")
    return _TEMPLATE_DIRECTORY_README.format(
        name=name,
        setting=shlex.quote(f"MODEL_NAME={name}"),
        config_flag=shlex.quote(f"--model_config_file=/models/{name}/models.config"),
        url_name=urllib.parse.quote(name),
        version=version,
        num_hypotheses=num_hypotheses,
        max_target_length=max_target_length,
        num_scored=max_target_length - 1,
        rows=_request(instances=[text]),
        columns=_request(signature_name="n_best", inputs={"text": [text]}),
        pairs=_request(signature_name="score", instances=[{"text": text, "output": output}]),
        example=text,
        note=_NOTES[optimize],
        flags=_FLAGS.get(optimize, ""),
        text_import=_TEXT_IMPORT if needs_tensorflow_text else "",
    )


def _request(**body: object) -> str:
    """Write JSON that a shell leaves alone: an apostrophe would end its quoted string."""
    return json.dumps(body, ensure_ascii=False).replace("'", "\\u0027")
