"""The step of a model on a virtual mesh of 2 x 4 devices: bytes of a device, and its collectives."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.backend

ROOT = Path(__file__).parents[2]


def test_groups_of_devices_are_read_in_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.training.model_parallel import collectives

    text = """
  %a = f32[8,128]{1,0} all-reduce(%x), channel_id=1, replica_groups=[4,2]<=[2,4]T(1,0), to_apply=%sum
  %b = (bf16[3]{0}, f32[2,2]{1,0}) all-reduce(%x, %y), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%sum
  %c = u32[4]{0} all-gather(%x), replica_groups=mesh['a'=2,'b'=1,'c'=4] {'c'}, dimensions={0}
  %d = u32[4]{0} all-gather(%x), replica_groups=mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'a'}
  %e = s32[1]{0} collective-permute(%x), source_target_pairs={{0,1},{1,0}}
  %f = f32[9]{0} fusion(%all-reduce.1), kind=kLoop
"""
    numbers, sizes = collectives(text)
    assert numbers == {
        ("all-reduce", 2): 1,
        ("all-reduce", 4): 1,
        ("all-gather", 4): 2,
        ("collective-permute", 2): 1,
    }
    assert [*sizes.values()] == [4 * 8 * 128, 2 * 3 + 4 * 4, 2 * 4 * 4, 4]


@pytest.mark.slow
def test_a_device_has_a_share_of_weights_and_gradients() -> None:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    sizes = {"num-layers": 1, "hidden-dim": 256, "num-heads": 8, "intermediate-dim": 1024}
    words = [f"--{name}={size}" for name, size in {**sizes, "vocabulary-size": 800, "batch-size": 4}.items()]
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.training.model_parallel", "--json", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout)
    # A quarter, and all of the small ones that are not split.
    assert found["state"] / 4 < found["arguments"] < 1.05 * found["state"] / 4
    bytes_of = {(kind, group): size for kind, group, _, size in found["collectives"]}
    # The two halves of the batch add up the gradients of their shares of the weights.
    assert bytes_of["all-reduce", 2] > found["parameters"] * 4 / 4
    assert ("all-reduce", 4) in bytes_of
