"""`headway fabric`: draw a fabric, allocate isolated slices of it, verify slices, write the routes that enforce them."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.errors import BadInput

if TYPE_CHECKING:
    from headway.network.certificates.certificate import Certificate

fabric = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The network: draw it, allocate isolated slices of it, verify them, write their routes.",
)

FABRIC_HELP = "A preset (vclos-512, ocs-vclos-2048, superpod, ...), a YAML file or an inventory (host,dsw,psw,asw)."
FabricArgument = Annotated[str, typer.Argument(metavar="F", help=FABRIC_HELP)]
AfterOption = Annotated[
    list[Path] | None, typer.Option("--after", metavar="CERT", help="A certificate already issued; repeatable.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON.")]


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    app.add_typer(fabric, name="fabric")


def _read(paths: list[Path]) -> list["Certificate"]:
    """Certificates that the verifier accepts together; otherwise a refusal with its reason."""
    from headway.network.certificates.certificate import certificate_from, read_json
    from headway.network.certificates.verify import verify

    contents = [(str(path), read_json(path)) for path in paths]
    for verdict in verify(contents):
        if verdict.reasons:
            raise BadInput(f"{verdict.where}: rejected: {verdict.reasons[0]}")
    return [certificate_from(content) for _, content in contents]


@fabric.command()
def show(
    name: FabricArgument,
    after: AfterOption = None,
    report: Annotated[Path | None, typer.Option("--report", help="Also write a drawing in HTML to this file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a fabric and what of it is free.

    Example: headway fabric show vclos-512 --after job1.json --report fabric.html
    """
    from rich.console import Console

    from headway.cli.tables.fabrics import show_fabric
    from headway.io.files import write_atomically
    from headway.network.certificates.allocate import occupied_by
    from headway.network.certificates.certificate import describe
    from headway.network.fabric.file import load_fabric

    loaded = load_fabric(name)
    certificates = _read(after or [])
    state = occupied_by(loaded, certificates)
    if report:
        from headway.report.fabric import page

        write_atomically(report, page(loaded, certificates))
    if as_json:
        names = ("gpus", "servers", "leaves", "uplinks", "cables", "oversubscription")
        derived: dict[str, Any] = {name: getattr(loaded, name) for name in names}
        print(json.dumps(describe(loaded) | derived | {"gpus_free": int(state.gpu_free.sum())}))
        return
    show_fabric(Console(), loaded, state)
    if report:
        print(f"drawing: {report}", file=sys.stderr)


@fabric.command()
def allocate(
    name: FabricArgument,
    gpus: Annotated[int, typer.Option("--gpus", help="GPUs of the job.")],
    pattern: Annotated[
        str, typer.Option("--pattern", help="What the job sends: ring, all-to-all, hybrid:16, ...; auto chooses.")
    ] = "auto",
    placement: Annotated[
        str, typer.Option("--placement", help="vclos, vclos-padded or ocs-vclos; auto: by the fabric.")
    ] = "auto",
    after: AfterOption = None,
    failed: Annotated[
        list[str] | None,
        typer.Option(
            "--failed", metavar="CABLE", help="A cable or switch that does not work: leaf0-spine3, spine3; repeatable."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the certificate to this file.")] = None,
    reissue: Annotated[
        Path | None, typer.Option("--reissue", help="Folder for certificates whose circuits were moved.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find a slice that a job has to itself and write its certificate.

    Example: headway fabric allocate vclos-512 --gpus 64 --pattern ring --after job1.json --failed spine3 --out job2.json
    """
    from rich.console import Console

    from headway.cli.tables.fabrics import show_certificate
    from headway.core.compiler.jit import compiled_before
    from headway.io.files import write_atomically
    from headway.network.certificates.allocate import allocate as find
    from headway.network.certificates.allocate import holders, occupied_by
    from headway.network.fabric.file import load_fabric
    from headway.network.sharing.patterns import parse_pattern

    loaded = load_fabric(name)
    wanted = None if pattern == "auto" else parse_pattern(pattern)
    method = placement if placement != "auto" else "ocs-vclos" if loaded.ocs else "vclos"
    issued = after or []
    certificates = _read(issued)
    state = occupied_by(loaded, certificates, failed or [])
    for number in holders(loaded, certificates, failed or []):
        print(f"note: {issued[number]} holds a link that failed: allocate its job again, without it", file=sys.stderr)
    if not compiled_before():
        print("compiling the search, once, some seconds ...", file=sys.stderr)
    answer = find(state, gpus, method, wanted)
    if answer.certificate is None:
        raise BadInput(f"no isolated slice of {loaded.name}: {answer.reason}")
    if answer.reissued and reissue is None:
        owners = ", ".join(str(issued[number]) for number, _ in answer.reissued)
        raise BadInput(f"{answer.moved} circuits of {owners} would move: give --reissue DIR for their new certificates")
    for number, again in answer.reissued:
        assert reissue
        write_atomically(reissue / issued[number].name, again.as_text())
    if out:
        write_atomically(out, answer.certificate.as_text())
    if as_json:
        print(answer.certificate.as_text(), end="")
        return
    show_certificate(Console(), answer.certificate, answer.moved)
    if out:
        print(f"certificate: {out}", file=sys.stderr)


@fabric.command()
def verify(
    certificates: Annotated[list[Path], typer.Argument(metavar="CERT...", help="Certificates, checked together.")],
    as_json: JsonOption = False,
) -> None:
    """Check certificates with code that shares nothing with the allocator; exit 1 if any is rejected.

    Example: headway fabric verify job1.json job2.json
    """
    from rich.console import Console

    from headway.cli.tables.fabrics import show_verdicts
    from headway.network.certificates.certificate import read_json
    from headway.network.certificates.verify import verify as check

    verdicts = check([(str(path), read_json(path)) for path in certificates])
    rejected = [one for one in verdicts if one.reasons]
    if as_json:
        print(json.dumps({"ok": not rejected, "certificates": [one.as_json() for one in verdicts]}))
    else:
        show_verdicts(Console(), verdicts)
    if rejected:
        more = f" (and {len(rejected) - 1} more)" if len(rejected) > 1 else ""
        raise BadInput(f"{rejected[0].where}: rejected: {rejected[0].reasons[0]}{more}")


@fabric.command()
def routes(
    certificate: Annotated[Path, typer.Argument(metavar="CERT", help="A certificate.")],
    form: Annotated[str, typer.Option("--format", help="linux, frr or json.")] = "linux",
    out: Annotated[Path | None, typer.Option("--out", help="Write to this file instead of the terminal.")] = None,
    as_json: JsonOption = False,
) -> None:
    """The policy routes that enforce a slice, and the optical cross-connects, as text to review and apply.

    Example: headway fabric routes job1.json --format frr
    """
    from headway.io.files import write_atomically
    from headway.network.certificates.routes import render

    text = render(_read([certificate])[0], "json" if as_json else form)
    if out:
        write_atomically(out, text)
        print(f"routes: {out}", file=sys.stderr)
        return
    print(text, end="")
