"""The options of `headway serve`, declared once, with their checks, and the manager that they make.

The command line and the systemd unit take their options from here. The engine is loaded when a manager is made: every command reads these
declarations at its start.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from headway.client.folder import DATA_HELP, data_folder
from headway.errors import BadInput
from headway.io.accounts import loose_ways
from headway.io.command_option import CommandOption, check_fields, checked_word, flag_of, options_of
from headway.io.files import read_file
from headway.io.numbers import COUNT, PORT, Range
from headway.io.units import seconds, size_bytes
from headway.sim.experiment import check_time, check_turns, turns

if TYPE_CHECKING:
    from headway.cluster.nodes import Cluster
    from headway.cluster.queues import Queues
    from headway.live.executors import Executor
    from headway.live.fabric.served import ServedFabric
    from headway.live.manager.manager import Manager
    from headway.live.notify.webhook import Webhook
    from headway.live.state.records import Job
    from headway.live.state.site import Site

MOST_SECRET_BYTES = 4096
LEAST_LOG_BYTES = 1000
PROCESSES = Range(1, 4_000_000, whole=True)  # Linux refuses a pids.max above 4,194,304
Environment = Callable[["Job", int], dict[str, str]]  # variables of an attempt
Note = Callable[[str], None]  # says something to the operator


def _size(option: CommandOption, value: str) -> str:
    _bytes(value, flag_of(option))
    return value


def _log_size(option: CommandOption, value: str) -> str:
    if _bytes(value, flag_of(option)) < LEAST_LOG_BYTES:
        raise BadInput(f"{flag_of(option)}: {value} is too small for a log: give at least {LEAST_LOG_BYTES} bytes")
    return value


def _bytes(text: str, option: str = "") -> int:
    try:
        return 0 if text == "0" else size_bytes(text)
    except BadInput as error:
        raise BadInput(f"{option}: {error}") from None


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The options of `headway serve`, as the command line has them."""

    cluster: Annotated[
        str | None,
        CommandOption("Slots of this machine as NODESxGPUS such as 2x4, or a YAML file; default: its GPUs."),
    ] = None
    policy: Annotated[str, CommandOption("When jobs run; see `headway policies`.")] = "headway"
    placement: Annotated[str | None, CommandOption("Where jobs run; default: consolidated, with a fabric joint.")] = (
        None
    )
    fabric: Annotated[
        str | None,
        CommandOption(
            "The network between the nodes (see `headway fabric`): jobs can have links of their own.", metavar="F"
        ),
    ] = None
    inventory: Annotated[
        Path | None,
        CommandOption("Your names and addresses of the fabric, for the routes of slices.", metavar="FILE"),
    ] = None
    min_runtime: Annotated[
        str,
        CommandOption(
            "Time a job runs before it may be preempted: auto (by what stopping and starting it again takes), or 5m,batch=1h.",
            check_turns,
            metavar="auto|TIME[,QUEUE=TIME|auto...]",
        ),
    ] = "auto"
    queues: Annotated[
        Path | None,
        CommandOption("A YAML file of queues: weights, guaranteed GPUs, priorities and limits.", metavar="FILE"),
    ] = None
    executor: Annotated[
        str,
        CommandOption("What starts jobs: process (this machine), slurm (or 'slurm?partition=gpu'), or MODULE:CLASS."),
    ] = "process"
    data: Annotated[Path | None, CommandOption(DATA_HELP, metavar="DIR")] = None
    host: Annotated[str, CommandOption("Address to listen on; one that other machines reach needs --tls-cert.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, CommandOption("Port to listen on; 0 takes a free one.", allowed=PORT)] = 8642
    allow_host: Annotated[
        tuple[str, ...],
        CommandOption("Another host name under which clients reach the manager.", metavar="NAME[:PORT]"),
    ] = ()
    max_grace: Annotated[
        str,
        CommandOption(
            "The longest time that a job may take to stop; longer graces are cut to it.", check_time, metavar="TIME"
        ),
    ] = "10m"
    max_jobs_per_user: Annotated[
        int | None, CommandOption("Jobs of one user that may run and wait; default: any number.", allowed=COUNT)
    ] = None
    max_processes: Annotated[
        int | None,
        CommandOption(
            "Processes and threads of one attempt; default: 16384, or a quarter of the machine's limit if that is less.",
            allowed=PROCESSES,
        ),
    ] = None
    gpu_type: Annotated[
        str, CommandOption("GPU type for nodes whose cluster file gives none, such as a100.", checked_word)
    ] = ""
    feature: Annotated[
        tuple[str, ...], CommandOption("A feature of all nodes, for jobs with constraints.", checked_word)
    ] = ()
    prolog: Annotated[
        Path | None, CommandOption("A program that runs before every attempt of a job; if it fails, the job waits.")
    ] = None
    epilog: Annotated[Path | None, CommandOption("A program that runs after every attempt of a job.")] = None
    webhook: Annotated[
        str | None,
        CommandOption(
            "Where every change of a job's state is sent, as JSON; an address that is a secret belongs into the environment.",
            metavar="URL",
            variable="HEADWAY_WEBHOOK",
        ),
    ] = None
    webhook_secret: Annotated[
        Path | None, CommandOption("A file with the secret that what is sent is signed with.", metavar="FILE")
    ] = None
    rate: Annotated[float, CommandOption("Requests per second that one token may send.", allowed=Range(1, 1e6))] = (
        2000.0
    )
    tls_cert: Annotated[
        Path | None, CommandOption("Speak TLS, with this certificate and its chain (PEM).", metavar="FILE")
    ] = None
    tls_key: Annotated[Path | None, CommandOption("The key of the certificate (PEM).", metavar="FILE")] = None
    log_cap: Annotated[
        str | None,
        CommandOption(
            "Size of the log of a rank: its newest part is kept; at least 1KB; default: 100MB.",
            _log_size,
            metavar="SIZE",
        ),
    ] = None
    min_free: Annotated[
        str,
        CommandOption(
            "Free space on the data folder's disk below which no job is started; 0: none.", _size, metavar="SIZE"
        ),
    ] = "256MB"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.inventory is not None and self.fabric is None:
            raise BadInput("--inventory is about a fabric: give --fabric as well")
        if self.webhook_secret is not None and self.webhook is None:
            raise BadInput("--webhook-secret signs what is sent to a webhook: give --webhook as well")

    @property
    def words(self) -> list[str]:
        """Return the words of the command line that give these options."""
        values = [(option, getattr(self, name)) for name, option in options_of(ServeOptions).items()]
        return [word for option, value in values if value != option.default for word in option.written(value)]

    @property
    def folder(self) -> Path:
        """Return the data folder of the manager."""
        return data_folder(self.data)

    def check_names(self) -> None:
        """Refuse a policy, a placement, a cluster, a queues file or a webhook that the manager would refuse. Start nothing."""
        from headway.cluster.named import cluster
        from headway.live.notify.webhook import address
        from headway.placement.registry import find_placement
        from headway.policies.registry import find_policy

        find_policy(self.policy)
        find_placement(self.placement or "consolidated")
        if self.cluster is not None:
            cluster(self.cluster)
        self._read_queues(lambda warning: None)
        if self.webhook is not None:
            address(self.webhook)

    def find_executor(self) -> "Executor":
        """Return the executor. Refuse options that it cannot obey."""
        from headway.live.executors.registry import find_executor

        executor = find_executor(self.executor, self.folder)
        executor.capabilities.refuse(
            self.executor,
            hooks=bool(self.prolog or self.epilog),
            log_cap=self.log_cap is not None,
            process_limit=self.max_processes is not None,
        )
        if self.log_cap is not None:
            executor.cap_logs(_bytes(self.log_cap))
        return executor

    def site(self) -> "Site":
        """Return the site settings. The folder of the manager need not exist yet, so they name no fabric."""
        from headway.live.state.site import Site

        return Site(
            longest_grace_s=seconds(self.max_grace),
            jobs_per_user=self.max_jobs_per_user,
            gpu_type=self.gpu_type,
            features=frozenset(self.feature),
            prolog=_program(self.prolog, "--prolog"),
            epilog=_program(self.epilog, "--epilog"),
            max_processes=self.max_processes,
            min_free_bytes=_bytes(self.min_free),
        )

    def serve_fabric(self) -> "ServedFabric | None":
        """Return the fabric, and compile the code for collective plans in another thread."""
        if self.fabric is None:
            return None
        from headway.live.fabric.served import served
        from headway.live.fabric.slices import prepare_planning

        fabric = served(self.fabric, self.folder, self.inventory)
        threading.Thread(target=prepare_planning, name="plans", daemon=True).start()
        return fabric

    def make_manager(self, executor: "Executor", site: "Site", environment: Environment, note: Note) -> "Manager":
        """Return the manager, which is not started yet."""
        from headway.live.manager.manager import Manager

        return Manager(
            self.folder,
            self._nodes(executor, site, note),
            self.policy,
            self.placement or ("joint" if self.fabric else "consolidated"),
            min_runtimes=turns(self.min_runtime),
            executor=executor,
            environment=environment,
            site=site,
            queues=self._read_queues(note),
        )

    def _nodes(self, executor: "Executor", site: "Site", note: Note) -> "Cluster":
        """Return the declared nodes, else (on one machine) those of the fabric, else those that the executor discovers."""
        from headway.cluster.named import cluster

        if self.cluster is not None:
            return cluster(self.cluster)
        if site.fabric and executor.capabilities.numbers_gpus:
            fabric = site.fabric.fabric
            slots = f"{fabric.servers}x{fabric.gpus_per_server}"
            note(f"the nodes are those of the fabric {fabric.name}: slots of this machine, {slots}")
            return cluster(slots)
        discovery = executor.discover()
        if discovery.note:
            note(discovery.note)
        return discovery.cluster

    def _read_queues(self, note: Note) -> "Queues | None":
        if self.queues is None:
            return None
        from headway.cluster.queues_file import queues_from

        queues = queues_from(self.queues)
        if warning := queues.unknown_accounts():
            note(warning)
        return queues

    def start_webhook(self, manager: "Manager", note: Note) -> "Webhook | None":
        """Start the webhook, if the options name one, and return it."""
        if self.webhook is None:
            return None
        from headway.live.notify.webhook import Webhook

        hook = Webhook(manager, self.webhook, self._secret(note))
        hook.start()
        return hook

    def _secret(self, note: Note) -> str:
        if (path := self.webhook_secret) is None:
            return ""
        try:
            secret = read_file(path, MOST_SECRET_BYTES).decode("utf-8").strip()
            if path.stat().st_mode & 0o077:
                note(f"{path} can be read by others: chmod 600 {path}")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"--webhook-secret {path}: {getattr(error, 'strerror', None) or error}") from None
        if not secret:
            raise BadInput(f"--webhook-secret {path}: is empty: nothing could be signed with it")
        return secret


def _program(path: Path | None, option: str) -> str:
    """Return the path of a program; refuse a program that other users could change, because it runs with the manager's rights."""
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
