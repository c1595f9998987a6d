"""`headway serve` and `headway token`: run a manager on this machine, and decide who else may use it."""

import gc
import os
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.declared_options import takes
from headway.cli.manager_options import DataOption, JsonOption, note, print_json
from headway.client.folder import CERTIFICATE_FILE, TOKEN_FILE, URL_FILE, data_folder
from headway.client.peer import is_loopback
from headway.errors import BadInput, HeadwayError, unknown
from headway.io.command_option import options_of
from headway.io.units import counted
from headway.live.options import ServeOptions

if TYPE_CHECKING:
    from headway.live.executors import Executor
    from headway.live.manager.manager import Manager
    from headway.live.state.records import Job
    from headway.live.state.site import Site

token = typer.Typer(no_args_is_help=True, help="Make, list and revoke tokens for other users and programs.")
NameArgument = Annotated[str, typer.Argument(help="A name for the token.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(serve)
    app.add_typer(token, name="token")


@takes(options_of(ServeOptions))
def serve(
    *,
    unit: Annotated[
        bool, typer.Option("--systemd-unit", help="Print a systemd unit for these options, and stop.")
    ] = False,
    as_json: JsonOption = False,
    **given: Any,
) -> None:
    """Run a manager on this machine until it is stopped; its jobs keep running, and the next manager adopts them.

    Example: headway serve --cluster 2x4 --policy "tiresias-l?threshold=3600"
    """
    if unit:
        from headway.cli.machine.unit import systemd_unit

        ServeOptions(**given).check_names()
        typer.echo(systemd_unit(sys.argv[2:], given["data"]), nl=False)
        return
    from headway.cli.machine import certificates
    from headway.live.http.private import check_folder, make_folder

    options = ServeOptions(**given)
    executor, site = options.find_executor(), options.site()
    tls = certificates.checked(options.tls_cert, options.tls_key)
    check_folder(options.folder)
    listening = _listen(options.host, options.port)
    address, port = listening.getsockname()[:2]
    if tls is None and not is_loopback(address):
        raise BadInput(
            f"--host {options.host} can be reached from other machines, which needs TLS: give --tls-cert and --tls-key"
        )
    # Without TLS, an address and not a name: `localhost` has two addresses, and another user may listen on the other.
    url = f"https://{_reached_as(options.host)}:{port}" if tls else f"http://{_reached_as(address)}:{port}"
    make_folder(options.folder)
    manager = _start(options, executor, replace(site, fabric=options.serve_fabric()), url)
    if tls is not None:
        certificates.publish(tls[0], options.folder)
    hook = None
    try:
        hook = options.start_webhook(manager, _say)
        _serve(manager, options, listening, url, as_json, tls)
    finally:
        if hook:
            hook.stop()
        manager.stop()
        listening.close()


def _say(text: str) -> None:
    note(f"headway: {text}")


def _listen(host: str, port: int) -> socket.socket:
    """Take the port before anything else: a second manager fails here, with one line."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(256)
        return listening
    except OSError as error:
        raise BadInput(f"cannot listen on {host}:{port}: {error.strerror}; give another --port (0: any free)") from None


def _reached_as(host: str) -> str:
    if host in {"0.0.0.0", "::", ""}:
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _hosts(host: str, port: int, more: Iterable[str]) -> list[str]:
    """The Host headers that mean this manager."""
    names = ["127.0.0.1", "localhost", "[::1]", _reached_as(host)]
    return [f"{name}:{port}" for name in names] + [name if ":" in name else f"{name}:{port}" for name in more]


def _start(options: ServeOptions, executor: "Executor", site: "Site", url: str) -> "Manager":
    """Return a manager that has made its first decision."""
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("starting (the first start on a machine compiles the engine for about half a minute)"):
        from headway.live.errors import JournalFailed
        from headway.live.http.tokens import damage, job_secret, job_token
        from headway.live.manager.loop.rehearsal import rehearse

        folder, secret = options.folder, job_secret(options.folder)
        trusted = {"HEADWAY_CERT": str(folder.absolute() / CERTIFICATE_FILE)} if url.startswith("https") else {}

        def environment(job: "Job", attempt: int) -> dict[str, str]:
            return {"HEADWAY_API": url, "HEADWAY_TOKEN": job_token(secret, job.id, attempt), **trusted}

        try:
            manager = options.make_manager(executor, site, environment, _say)
            rehearse(manager.cluster, manager.policy, manager.placement)  # before it says that it is ready
            manager.start()
        except JournalFailed as error:
            raise error if error.fields.get("path") else JournalFailed(f"{folder}: {error}") from None
        # What is there now stays: looking through it for garbage stops every thread for a tenth of a second.
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000)
    for line in (*manager.warnings, *executor.warnings(), damage(folder)):
        if line:
            _say(line)
    return manager


def _serve(
    manager: "Manager",
    options: ServeOptions,
    listening: socket.socket,
    url: str,
    as_json: bool,
    tls: tuple[str, str] | None,
) -> None:
    from headway.client.client import dashboard_link
    from headway.io.accounts import own_account
    from headway.io.files import write_atomically
    from headway.live.http.api import make_api
    from headway.live.http.guard import Guard
    from headway.live.http.server.connections import make_server
    from headway.live.http.tokens import Tokens

    folder, hosts = options.folder, _hosts(options.host, listening.getsockname()[1], options.allow_host)
    tokens = Tokens(folder, own_account()[1], attempt_runs=manager.attempt_runs)
    api: Any = Guard(make_api(manager), tokens, hosts, rate_per_s=options.rate)
    write_atomically(folder / URL_FILE, url + "\n", 0o644)
    if as_json:
        print_json({"url": url, "data": str(folder), "token_file": str(folder / TOKEN_FILE), "pid": os.getpid()})
    else:
        cluster = manager.cluster
        typer.echo(
            f"Headway serves the cluster {cluster.name} ({counted(cluster.total, 'GPU')}) under {manager.policy} at {url}"
        )
        command = (
            "headway dashboard" if folder == data_folder() else f"headway dashboard --data {shlex.quote(str(folder))}"
        )
        if sys.stdout.isatty():  # a log would keep the code
            code = tokens.make_code((folder / TOKEN_FILE).read_text(encoding="ascii").strip())
            typer.echo(
                f"dashboard: {dashboard_link(url, f'code={code}')} (works once, within 10 minutes; `{command}` prints another)"
            )
        else:
            typer.echo(f"dashboard: `{command}` prints a link")
        typer.echo(f"data and token: {folder} (Ctrl-C stops the manager; its jobs go on, and the next adopts them)")
    sys.stdout.flush()
    server, failures = make_server(api, tls), list[str]()

    def stop(*_: object) -> None:
        server.should_exit = True

    # Until the server handles these itself. It raises them again afterwards, when there is nothing left to do.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)

    def watch() -> None:
        failures.append(manager.wait_for_failure())
        server.should_exit = True

    threading.Thread(target=watch, name="watch", daemon=True).start()
    server.run(sockets=[listening])
    if any(failures):
        raise HeadwayError(
            f"{failures[0]}; running jobs continue, and nothing submitted is lost: start a manager again, "
            "with another policy or executor if that is what failed"
        )


@token.command()
def make(
    name: NameArgument,
    user: Annotated[
        str,
        typer.Option(help="The user that jobs submitted with it belong to (and run as, if the manager runs as root)."),
    ],
    scope: Annotated[str, typer.Option(help="read, submit (own jobs) or operate (all jobs and nodes).")] = "submit",
    expires: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How long it is good for, such as 30d; default: until it is revoked."),
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            help="A queue that the token may submit to, with the queues below it; repeatable; default: all queues."
        ),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token and print it once; only its hash is kept. Whoever has a submit token runs programs as its user.

    A manager that is not run by root runs all jobs as its owner: there, tokens of other users may only read.

    Example: headway token make ada-laptop --user ada --scope submit --expires 30d
    """
    import time

    from headway.io.accounts import user_exists
    from headway.io.units import seconds
    from headway.live.http.tokens import Scope, make_token

    if scope not in {"read", "submit", "operate"}:
        raise unknown("scope", scope, ("read", "submit", "operate"))
    until = None if expires is None else time.time() + seconds(expires, "--expires")
    secret = make_token(data_folder(data), name, user, Scope(scope), until, queue or ())
    advice = f"create the account, or revoke the token (headway token revoke {name})"
    warning = None if user_exists(user) else f"this machine has no user {user!r}: {advice}"
    if as_json:
        content = {"name": name, "user": user, "scope": scope, "token": secret, "expires": until}
        print_json({**content, "queues": queue or [], "warning": warning})
        return
    if warning:
        note(f"headway: {warning}")
    typer.echo(secret)


@token.command("list")
def list_tokens(data: DataOption = None, as_json: JsonOption = False) -> None:
    """The tokens that were made, without their secrets.

    Example: headway token list
    """
    from headway.live.http.tokens import stored_tokens

    callers = stored_tokens(data_folder(data)).values()
    if as_json:
        fields = ("name", "user", "scope", "expires", "queues")
        print_json([{field: getattr(caller, field) for field in fields} for caller in callers])
        return
    for caller in callers:
        queues = f"  queues {', '.join(caller.queues)}" if caller.queues else ""
        typer.echo(f"{caller.name}  {caller.user}  {caller.scope}  {_until(caller.expires)}{queues}")


def _until(expires: float | None) -> str:
    import time

    if expires is None:
        return "does not expire"
    word = "expired" if expires <= time.time() else "expires"
    return f"{word} {time.strftime('%Y-%m-%d %H:%M', time.localtime(expires))}"


@token.command()
def revoke(name: NameArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Revoke a token at once.

    Example: headway token revoke ada-laptop
    """
    from headway.live.http.tokens import revoke_token

    revoke_token(data_folder(data), name)
    if as_json:
        print_json({"revoked": name})
