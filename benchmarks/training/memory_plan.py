"""Compares `kt.training.memory_plan` with what XLA reports for the compiled step.

python -m benchmarks.training.memory_plan [case ...]

JAX compiles the step of `fit` from shapes, without weights, for the processor. "State" is weights and Adam's
state: that of the plan, and XLA's arguments, the batch included. "Rest" is the peak of everything else in the
step: the plan's gradients and activations, and XLA's temporaries.
"""

import argparse
import json
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.common import conditions, table


class Case(NamedTuple):
    """A model, a batch and its lengths."""

    model: str
    vocabulary_size: int
    batch_size: int
    source_length: int
    target_length: int
    options: Mapping[str, Any] = MappingProxyType({})


_STACK = {"num_layers": 4, "hidden_dim": 256, "num_heads": 8, "intermediate_dim": 1024}
_MODERN = {
    "norm_first": True,
    "gated": True,
    "activation": "silu",
    "normalization": "rms",
    "positions": "rotary",
    "num_key_value_heads": 2,
    "dropout": 0.0,
}
_T5 = {"activation": "gelu", "positions": "relative", "intermediate_dropout": 0.1, "dropout": 0.0}
CASES = {
    "tiny": Case("tiny", 100, 4, 8, 8),
    "small": Case("small", 8000, 32, 32, 32),
    "small, longer": Case("small", 8000, 8, 128, 128),
    "small, attention dropout": Case("small", 8000, 8, 256, 256, {"attention_dropout": 0.1}),
    "small, no dropout": Case("small", 8000, 8, 16, 256, {"dropout": 0.0}),
    "small, pre-norm, RMS, SwiGLU, rotary, 2 key heads": Case("small", 2000, 8, 128, 128, _MODERN),
    "small, GELU, relative, inner dropout": Case("small", 2000, 8, 128, 128, _T5),
    "causal, 4 layers of 256": Case("causal", 8000, 16, 0, 128, _STACK),
    "encoder, 4 layers of 256": Case("encoder", 8000, 16, 128, 0, _STACK),
    "base": Case("base", 32_000, 16, 64, 64),
    "base, one row": Case("base", 1000, 1, 16, 16),
    "small, mixed_bfloat16": Case("small", 8000, 32, 32, 32, {"dtype": "mixed_bfloat16"}),
}


def measure(case: Case) -> dict[str, int]:
    """Plan and compile a step; return the bytes of both."""
    import keras_transformer as kt
    from benchmarks.training.compiled_step import compile_step, make_batch, needed_bytes

    v, options = case.vocabulary_size, case.options
    with kt.models.shapes_only():
        if case.model == "causal":
            model: Any = kt.CausalLM(v, **options)
        elif case.model == "encoder":
            model = kt.EncoderModel(v, 20, **options)
        else:
            model = kt.Transformer.from_preset(case.model, v, v, **{"share_embeddings": True, **options})
    kt.training.compile_model(model, 1e-3)
    plan = kt.training.memory_plan(
        model,
        case.batch_size,
        source_length=case.source_length or None,
        target_length=case.target_length or None,
    )
    compiled = compile_step(model, make_batch(model, case.batch_size, case.source_length, case.target_length))
    state, arguments = plan.total.weights + plan.total.optimizer, compiled.memory_analysis()
    xla = needed_bytes(compiled)
    return {
        "plan_state": state,
        "xla_state": arguments.argument_size_in_bytes,
        "plan_rest": plan.peak - state,
        "xla_rest": xla - arguments.argument_size_in_bytes,
    }


def main() -> None:
    """Compare all cases, or those named, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"one of: {'; '.join(CASES)}")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each case")
    options = parser.parse_args()
    os.environ["KERAS_BACKEND"] = "jax"
    rows = []
    for name in options.cases or CASES:
        case, found = CASES[name], measure(CASES[name])
        if options.json:
            print(json.dumps({"case": name, **found}), flush=True)
        whole = [found[f"{side}_state"] + found[f"{side}_rest"] for side in ("plan", "xla")]
        lengths = f"({case.source_length}, {case.target_length})"
        rows.append(
            [
                name,
                f"{case.batch_size} of {lengths}; {case.vocabulary_size:,}",
                *(f"{number / 1e6:,.1f}" for number in found.values()),
                f"{found['plan_rest'] / found['xla_rest']:.2f}",
                f"{whole[0] / whole[1]:.2f}",
            ]
        )
    if options.json:
        return
    heads = ["model", "rows of (source, target); vocabulary", "state, MB", "XLA", "rest, MB", "XLA"]
    print(table([*heads, "rest / XLA", "whole / XLA"], rows))
    print(f"\n{conditions('keras', 'jax')}")


if __name__ == "__main__":
    main()
