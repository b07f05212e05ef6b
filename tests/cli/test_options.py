"""Every flag sets a field that exists, and the help says its default."""

import dataclasses

import click

from keras_transformer.cli.options import run_options
from keras_transformer.runs import RunConfig


def fields() -> set[str]:
    """Return the names of all fields of a run."""
    run = RunConfig()
    sections = (run, run.data, run.vocabulary, run.model, run.training, run.decoding)
    return {field.name for section in sections for field in dataclasses.fields(section)}


def test_every_flag_is_a_field() -> None:
    command = click.command()(run_options(lambda **flags: None))
    names = {parameter.name for parameter in command.params}
    assert names <= fields()
    assert {"epochs", "source", "shared", "beam_size"} <= names


def test_the_help_says_the_default() -> None:
    command = click.command()(run_options(lambda **flags: None))
    helps = {parameter.name: parameter.help for parameter in command.params}
    assert helps["beam_size"].endswith(f"[{RunConfig().decoding.beam_size}]")
