"""Computes what data parallel training on many devices would give. Nothing here is measured.

python benchmarks/scaling_on_paper.py
python benchmarks/scaling_on_paper.py --device-tflops 140 --link 900 --network 50

A step takes the arithmetic of its batch at the rate that a device reaches, and then the sum of all gradients,
float32, around a ring: of n devices each sends and receives 2 (n - 1) / n of the bytes of the gradients,
at the speed of the slowest link. Nothing overlaps, which is the worst case; latencies, the input
and stragglers cost nothing, which is the best.
"""

import argparse

from training_shapes import Shape

TOKENS, LENGTH = 16_384, 64
DEVICES_OF_A_HOST = 8
NUM_DEVICES = (1, 2, 8, 16, 64)
SHAPES = {
    "small": Shape(3, 256, 1024, 8, 32_000, TOKENS // LENGTH, LENGTH),
    "base": Shape(6, 512, 2048, 8, 32_000, TOKENS // LENGTH, LENGTH),
    "big": Shape(6, 1024, 4096, 16, 32_000, TOKENS // LENGTH, LENGTH),
}


def gradient_bytes(shape: Shape) -> int:
    """Count the bytes of the gradients of the matrices, one table for source, target and output.

    Args:
        shape: of the model.

    Returns:
        bytes of float32.
    """
    projections, inner = 4 * shape.hidden_dim**2, 2 * shape.hidden_dim * shape.intermediate_dim
    layer = (projections + inner) + (2 * projections + inner)  # of the encoder, and of the decoder
    return 4 * (shape.num_layers * layer + shape.vocabulary * shape.hidden_dim)


def step_seconds(shape: Shape, num_devices: int, rate: float, link: float, network: float) -> float:
    """Compute the time of a step.

    Args:
        shape: of the model, and of the batch of each device.
        num_devices: in hosts of eight.
        rate: floating-point operations a second that a device reaches.
        link: bytes a second from a device to the next one of its host.
        network: bytes a second from a host to the next one.

    Returns:
        seconds.
    """
    slowest = link if num_devices <= DEVICES_OF_A_HOST else min(link, network)
    sent = 2 * (num_devices - 1) / num_devices * gradient_bytes(shape)
    return shape.flops / rate + sent / slowest


def table(rate: float, link: float, network: float) -> list[str]:
    """Write tokens a second and efficiency by the number of devices.

    Args:
        rate: as in `step_seconds`, like the others.
        link: of a host.
        network: of the hosts.

    Returns:
        lines of Markdown.
    """
    heads = [f"{n} device{'s' * (n > 1)}" for n in NUM_DEVICES]
    lines = [f"| million target tokens a second | {' | '.join(heads)} |", "|---" + "|---:" * len(heads) + "|"]
    for name, shape in SHAPES.items():
        alone = step_seconds(shape, 1, rate, link, network)
        seconds = [step_seconds(shape, n, rate, link, network) for n in NUM_DEVICES]
        cells = [
            f"{n * shape.tokens / t / 1e6:.2f} ({alone / t:.0%})"
            for n, t in zip(NUM_DEVICES, seconds, strict=True)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device-tflops", type=float, default=100, help="that a device reaches")
    parser.add_argument("--link", type=float, default=300, help="GB/s between the devices of a host")
    parser.add_argument("--network", type=float, default=25, help="GB/s between hosts")
    options = parser.parse_args()
    numbers = (options.device_tflops * 1e12, options.link * 1e9, options.network * 1e9)
    if min(numbers) <= 0:
        parser.error("--device-tflops, --link and --network must be above zero.")
    print("\n".join(table(*numbers)))
    print(
        f"\nComputed, not measured: {TOKENS:,} target tokens and as many source tokens a device and step, "
        f"vocabulary 32,000, {options.device_tflops:g} TFLOP/s reached, {options.link:g} GB/s within hosts "
        f"of {DEVICES_OF_A_HOST}, {options.network:g} GB/s between them, no overlap."
    )


if __name__ == "__main__":
    main()
