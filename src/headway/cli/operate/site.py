"""The options of `serve` that are house rules: limits, what nodes have, programs around jobs, and the webhook."""

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.manager_options import note
from headway.errors import BadInput
from headway.io.accounts import loose_ways
from headway.io.files import read_file
from headway.io.units import seconds, size_bytes

if TYPE_CHECKING:
    from headway.live.manager.manager import Manager
    from headway.live.notify.webhook import Webhook
    from headway.live.state.site import Site

MOST_SECRET_BYTES = 4096


def site_of(
    max_grace: str,
    jobs_per_user: int | None,
    nodes: tuple[str, list[str]],
    hooks: tuple[Path | None, Path | None],
    executor: str,
    max_processes: int | None = None,
) -> "Site":
    """The house rules; `nodes` is the type of the GPUs and the features, `hooks` the prolog and the epilog."""
    from headway.live.state.site import Site

    if any(hooks) and executor != "process":
        raise BadInput(f"--prolog and --epilog: the executor {executor} does not run them: configure them there")
    if max_processes is not None and executor != "process":
        raise BadInput(f"--max-processes: the executor {executor} does not limit processes: set a limit there")
    prolog, epilog = (_program(path, option) for path, option in zip(hooks, ("--prolog", "--epilog"), strict=True))
    grace_s = seconds(max_grace, "--max-grace")
    return Site(grace_s, jobs_per_user, nodes[0], frozenset(nodes[1]), prolog, epilog, max_processes)


def with_served_fabric(site: "Site", fabric: str | None, data: Path, inventory: Path | None) -> "Site":
    """The house rules with the fabric, if there is one; what plans need is compiled meanwhile."""
    if fabric is None:
        if inventory is not None:
            raise BadInput("--inventory is about a fabric: give --fabric as well")
        return site
    from headway.live.fabric.served import served
    from headway.live.fabric.slices import prepare_planning

    with_fabric = replace(site, fabric=served(fabric, data, inventory))
    threading.Thread(target=prepare_planning, name="plans", daemon=True).start()
    return with_fabric


def with_floor(site: "Site", min_free: str) -> "Site":
    """The house rules with the free space that the journal's disk must have."""
    return replace(site, min_free_bytes=0 if min_free == "0" else int(size_bytes(min_free)))


def _program(path: Path | None, option: str) -> str:
    """A program that can be run; it is run by whoever runs the manager, so nobody else may be able to change it."""
    if path is None:
        return ""
    program = path.absolute()
    if not program.is_file() or not os.access(program, os.X_OK):
        raise BadInput(f"{option} {path}: is not a program that can be run: chmod +x {path}")
    about, loose = program.stat(), loose_ways(program)
    if about.st_mode & 0o022 or about.st_uid not in {0, os.geteuid()} or loose:
        what, those = (f"{loose[0]}, which leads to it,", loose[0]) if loose else ("it,", path)
        raise BadInput(
            f"{option} {path}: others can change {what} and the program runs with the manager's rights: chown {those}, chmod go-w {those}"
        )
    return str(program)


def start_webhook(manager: "Manager", url: str | None, secret_file: Path | None) -> "Webhook":
    """Send changes of state from now on."""
    from headway.live.notify.webhook import Webhook

    if url is None:
        raise BadInput("--webhook-secret signs what is sent to a webhook: give --webhook as well")
    secret = ""
    if secret_file is not None:
        try:
            secret = read_file(secret_file, MOST_SECRET_BYTES).decode("utf-8").strip()
            if secret_file.stat().st_mode & 0o077:
                note(f"headway: {secret_file} can be read by others: chmod 600 {secret_file}")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"--webhook-secret {secret_file}: {getattr(error, 'strerror', None) or error}") from None
        if not secret:
            raise BadInput(f"--webhook-secret {secret_file}: is empty: nothing could be signed with it")
    hook = Webhook(manager, url, secret)
    hook.start()
    return hook
