"""Starts the double with the flags of the real server that it knows."""

import time
from pathlib import Path

import click

from model_server_double.batching import BatchingParameters
from model_server_double.registry import Registry
from model_server_double.server import serving

PATH = click.Path(path_type=Path, exists=True)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--models", type=PATH, required=True, help="Directory that stands for /models in the file.")
@click.option("--model_config_file", type=PATH, required=True, help="ModelServerConfig in text form.")
@click.option("--port", default=8500, show_default=True, help="Of gRPC.")
@click.option("--rest_api_port", default=8501, show_default=True, help="Of REST.")
@click.option("--poll_wait_seconds", default=1.0, show_default=True, help="Between two looks at the files.")
@click.option("--enable_batching", is_flag=True, help="Join requests.")
@click.option("--batching_parameters_file", type=PATH, help="BatchingParameters in text form.")
@click.option("--enable_model_warmup", is_flag=True, help="Answer the recorded requests at load.")
def main(
    models: Path,
    model_config_file: Path,
    port: int,
    rest_api_port: int,
    poll_wait_seconds: float,
    enable_batching: bool,
    batching_parameters_file: Path | None,
    enable_model_warmup: bool,
) -> None:
    """Serve SavedModels as TensorFlow Serving would; a test double, not the real server."""
    if batching_parameters_file and not enable_batching:
        raise click.UsageError(
            "server_options.batching_parameters_file is set without setting server_options.enable_batching "
            "to true."
        )
    text = batching_parameters_file.read_text(encoding="utf-8") if batching_parameters_file else ""
    batching = BatchingParameters.parse(text) if enable_batching else None
    registry = Registry(model_config_file, models, warmup=enable_model_warmup, batching=batching)
    for name, versions in registry.versions.items():
        for version, served in versions.items():
            click.echo(f"serving {name} version {version} ({served.num_warmup_requests} warm-up requests)")
    with serving(registry, rest_api_port, port) as ports:
        click.echo(f"REST on port {ports.rest}, gRPC on port {ports.grpc}")
        while True:
            time.sleep(poll_wait_seconds)
            for change in registry.refresh():
                click.echo(change)


if __name__ == "__main__":
    main()
