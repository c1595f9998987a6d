"""The options of `serve` are one value: command line, checks, systemd unit and what starts a manager take them from it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headway.cli import serve
from headway.cli.machine.unit import PATHS
from headway.cli.main import app
from headway.errors import BadInput
from headway.io.command_option import flag_of, options_of
from headway.live.options import ServeOptions

OPTIONS = options_of(ServeOptions)
# A value for each option that is not its default.
OTHERS: dict[str, Any] = {
    "cluster": "2x4",
    "policy": "fifo",
    "placement": "spread",
    "fabric": "testbed32",
    "inventory": Path("inventory.yaml"),
    "min_runtime": "5m,batch=1h",
    "queues": Path("queues.yaml"),
    "executor": "slurm?partition=gpu",
    "data": Path("data"),
    "host": "::1",
    "port": 0,
    "allow_host": ("headway.example", "other:80"),
    "max_grace": "1h",
    "max_jobs_per_user": 7,
    "max_processes": 9,
    "gpu_type": "a100",
    "feature": ("ib", "nvlink"),
    "prolog": Path("/bin/true"),
    "epilog": Path("/bin/false"),
    "webhook": "https://chat.example/hook",
    "webhook_secret": Path("secret"),
    "rate": 10.0,
    "tls_cert": Path("cert.pem"),
    "tls_key": Path("key.pem"),
    "log_cap": "1MB",
    "min_free": "0",
}


class Read(Exception):
    """The options that the command line has read."""


def read(monkeypatch: pytest.MonkeyPatch, *words: str) -> ServeOptions:
    """The options that `headway serve` reads from these words."""

    def stop(**given: Any) -> ServeOptions:
        raise Read(ServeOptions(**given))

    monkeypatch.setattr(serve, "ServeOptions", stop)
    done = CliRunner().invoke(app, ["serve", *words], env={"HEADWAY_WEBHOOK": ""})
    assert isinstance(done.exception, Read), done.output
    options: ServeOptions = done.exception.args[0]
    return options


def test_the_command_line_reads_what_the_options_write(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OTHERS.keys() == OPTIONS.keys()
    assert all(value != OPTIONS[name].default for name, value in OTHERS.items())
    options = ServeOptions(**OTHERS)
    assert read(monkeypatch, *options.words) == options


def test_without_options_every_default_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ServeOptions().words == []
    assert read(monkeypatch) == ServeOptions()


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_has_its_help(name: str) -> None:
    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "300"}).stdout
    assert flag_of(OPTIONS[name]) in shown
    assert OPTIONS[name].help.removesuffix(".") in shown


def test_the_unit_makes_every_path_absolute() -> None:
    assert {flag_of(OPTIONS[name]) for name, value in OTHERS.items() if isinstance(value, Path)} == PATHS


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"min_runtime": "soon"}, "--min-runtime: 'soon' is not a time"),
        ({"max_grace": "soon"}, "--max-grace: 'soon' is not a time"),
        ({"log_cap": "much"}, "--log-cap: 'much' is not a size"),
        ({"log_cap": "0"}, "--log-cap: 0 is too small for a log: give at least 1000 bytes"),
        ({"log_cap": "999B"}, "--log-cap: 999B is too small"),
        ({"min_free": "5"}, "--min-free: '5' has no unit: write a number and a unit"),
        ({"max_processes": 5_000_000}, "max processes 5000000 is not a whole number from 1 to 4,000,000"),
        ({"port": 65_536}, "port 65536 is not a whole number from 0 to 65,535"),
        ({"rate": 0}, "rate 0 is not a number from 1 to 1e"),
        ({"inventory": Path("names.yaml")}, "--inventory is about a fabric: give --fabric as well"),
        ({"webhook_secret": Path("secret")}, "give --webhook as well"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        ServeOptions(**given)


def test_options_become_the_settings_of_the_site() -> None:
    site = replace(ServeOptions(), max_grace="1h", max_jobs_per_user=3, feature=("ib",), min_free="1GB").site()
    assert (site.longest_grace_s, site.jobs_per_user, site.features) == (3600.0, 3, frozenset({"ib"}))
    assert (site.min_free_bytes, ServeOptions(min_free="0").site().min_free_bytes) == (10**9, 0)
    assert site.prolog == ""
