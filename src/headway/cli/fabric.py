"""`headway fabric`: draw a fabric, allocate isolated slices of it, verify slices, write the routes that enforce them."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.manager_options import number_option
from headway.errors import BadInput
from headway.io.numbers import COUNT, FROM_ZERO

if TYPE_CHECKING:
    from headway.network.certificates.certificate import Certificate
    from headway.network.fabric.model import Fabric

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
SignOption = Annotated[
    Path | None,
    typer.Option("--sign", metavar="KEY", help="Sign with this private key (`headway fabric key` makes one)."),
]
KeyOption = Annotated[
    Path | None,
    typer.Option("--key", metavar="PUB", help="Certificates must be signed by the owner of this public key."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON.")]


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    app.add_typer(fabric, name="fabric")


def _read(paths: list[Path], real: "Fabric", key: Path | None = None) -> list["Certificate"]:
    """Certificates that the verifier accepts together on the real fabric; otherwise a refusal with its reason."""
    from headway.io.json_file import read_json
    from headway.io.keys import read_public_key
    from headway.network.certificates.anchored import admitted

    return admitted([(str(path), read_json(path)) for path in paths], real, read_public_key(key) if key else None)


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
    from headway.sim.network_files import load_fabric

    loaded = load_fabric(name)
    certificates = _read(after or [], loaded)
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
    gpus: Annotated[int, number_option(COUNT, "--gpus", help="GPUs of the job.")],
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
    sign: SignOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find a slice that a job has to itself and write its certificate.

    Example: headway fabric allocate vclos-512 --gpus 64 --pattern ring --after job1.json --failed spine3 --out job2.json
    """
    from rich.console import Console

    from headway.cli.tables.fabrics import show_certificate
    from headway.io.files import write_atomically
    from headway.io.keys import read_private_key
    from headway.network.certificates.allocate import allocate as find
    from headway.network.certificates.allocate import holders, occupied_by
    from headway.network.sharing.patterns import parse_pattern
    from headway.sim.network_files import load_fabric

    loaded = load_fabric(name)
    wanted = None if pattern == "auto" else parse_pattern(pattern)
    method = placement if placement != "auto" else "ocs-vclos" if loaded.ocs else "vclos"
    key = read_private_key(sign) if sign else None
    issued = after or []
    certificates = _read(issued, loaded)
    state = occupied_by(loaded, certificates, failed or [])
    for number in holders(loaded, certificates, failed or []):
        print(f"note: {issued[number]} holds a link that failed: allocate its job again, without it", file=sys.stderr)
    answer = find(state, gpus, method, wanted)
    if answer.certificate is None:
        raise BadInput(f"no isolated slice of {loaded.name}: {answer.reason}")
    if answer.reissued and reissue is None:
        owners = ", ".join(str(issued[number]) for number, _ in answer.reissued)
        raise BadInput(f"{answer.moved} circuits of {owners} would move: give --reissue DIR for their new certificates")
    for number, again in answer.reissued:
        assert reissue
        write_atomically(reissue / issued[number].name, again.as_text(key))
    if out:
        write_atomically(out, answer.certificate.as_text(key))
    if as_json:
        print(answer.certificate.as_text(key), end="")
        return
    show_certificate(Console(), answer.certificate, answer.moved)
    if out:
        print(f"certificate: {out}", file=sys.stderr)


@fabric.command()
def verify(
    certificates: Annotated[list[Path], typer.Argument(metavar="CERT...", help="Certificates, checked together.")],
    real: Annotated[
        str,
        typer.Option("--fabric", metavar="F", help="The real fabric; without it a certificate's own claim is taken."),
    ] = "",
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check certificates with code that shares nothing with the allocator; exit 1 if any is rejected.

    Example: headway fabric verify job1.json job2.json --fabric vclos-512
    """
    from rich.console import Console

    from headway.cli.tables.fabrics import show_verdicts
    from headway.io.json_file import read_json
    from headway.io.keys import read_public_key
    from headway.network.certificates.certificate import describe
    from headway.network.certificates.verify import verify as check
    from headway.sim.network_files import load_fabric

    contents = [(str(path), read_json(path)) for path in certificates]
    anchor = describe(load_fabric(real)) if real else None
    verdicts = check(contents, anchor, read_public_key(key) if key else None)
    rejected = [one for one in verdicts if one.reasons]
    if as_json:
        answer = {"ok": not rejected, "anchored": anchor is not None}
        print(json.dumps(answer | {"certificates": [one.as_json() for one in verdicts]}))
    else:
        show_verdicts(Console(), verdicts)
    if rejected:
        more = f" (and {len(rejected) - 1} more)" if len(rejected) > 1 else ""
        raise BadInput(f"{rejected[0].where}: rejected: {rejected[0].reasons[0]}{more}")


@fabric.command()
def key(
    out: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where the private key goes; the public one to FILE.pub.")
    ],
) -> None:
    """Make a key pair to sign certificates with.

    Example: headway fabric key manager.key
    """
    from headway.io.keys import make_keys
    from headway.network.certificates.signature import fingerprint

    public_path, public = make_keys(out)
    print(f"private key: {out} (keep it), public key: {public_path}, {fingerprint(public)}")


@fabric.command()
def sign(
    certificate: Annotated[Path, typer.Argument(metavar="CERT", help="A certificate.")],
    private: Annotated[Path, typer.Option("--key", metavar="KEY", help="The private key to sign with.")],
    real: Annotated[str, typer.Option("--fabric", metavar="F", help="The real fabric: nothing else is signed for.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Write to this file instead of the certificate's own.")
    ] = None,
) -> None:
    """Sign a certificate, once it was checked against the real fabric.

    Example: headway fabric sign job1.json --key manager.key --fabric vclos-512
    """
    from headway.io.files import write_atomically
    from headway.io.json_file import read_json
    from headway.io.keys import read_private_key
    from headway.network.certificates.anchored import admitted
    from headway.network.certificates.certificate import signed, text_of
    from headway.sim.network_files import load_fabric

    own, content = read_private_key(private), read_json(certificate)
    admitted([(str(certificate), content)], load_fabric(real))
    write_atomically(out or certificate, text_of(signed(content, own)))
    print(f"signed: {out or certificate}", file=sys.stderr)


@fabric.command()
def inventory(
    name: FabricArgument,
    out: Annotated[Path, typer.Option("--out", help="The file to write: JSON, which is YAML too.")],
) -> None:
    """Write an inventory to start from: addresses, interfaces and switch names by one plan, to be replaced by yours.

    Example: headway fabric inventory vclos-512 --out hall.json
    """
    from headway.io.files import write_atomically
    from headway.network.fabric.presets import PRESETS
    from headway.network.routes.plan import as_json as text_of
    from headway.network.routes.plan import planned
    from headway.sim.network_files import load_fabric

    write_atomically(out, text_of(planned(load_fabric(name)), name if name in PRESETS else str(Path(name).resolve())))
    print(f"inventory: {out}", file=sys.stderr)


@fabric.command()
def routes(
    certificate: Annotated[Path, typer.Argument(metavar="CERT", help="A certificate.")],
    real: Annotated[
        str,
        typer.Option(
            "--fabric", metavar="F", help="The real fabric; an inventory names it, and presets go by their name."
        ),
    ] = "",
    hall: Annotated[
        Path | None,
        typer.Option("--inventory", help="Your addresses, interfaces and switch names; without it, one plan."),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="linux, sonic, eos, nvue, frr or json.")] = "linux",
    undo: Annotated[bool, typer.Option("--undo", help="The way back: what takes these routes away again.")] = False,
    switch: Annotated[str, typer.Option("--switch", help="Only this switch.")] = "",
    budget: Annotated[
        int | None, number_option(FROM_ZERO, "--budget", help="Policy rules that a switch takes.")
    ] = None,
    beside: Annotated[
        list[Path] | None, typer.Option("--beside", metavar="CERT", help="A slice in force, counted too; repeatable.")
    ] = None,
    failed: Annotated[
        list[str] | None,
        typer.Option("--failed", metavar="LINK", help="Route around leaf0-spine3, or spine3; repeatable."),
    ] = None,
    key: KeyOption = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write to this file instead of the terminal.")] = None,
    as_json: JsonOption = False,
) -> None:
    """The policy routes that enforce a slice, and the optical cross-connects, as text to review and apply.

    The certificate is checked against the real fabric first.

    Example: headway fabric routes job1.json --inventory hall.json --format nvue --switch leaf0
    """
    from headway.io.files import write_atomically
    from headway.network.routes.plan import planned
    from headway.network.routes.render import render
    from headway.sim.network_files import read_inventory

    known = read_inventory(hall) if hall else planned(_anchor(certificate, real))
    if hall and real and _anchor(certificate, real) != known.fabric:
        raise BadInput(f"{hall} is of fabric {known.fabric.name}, which is not {real}")
    mine, *others = _read([certificate, *(beside or [])], known.fabric, key)
    shape = "json" if as_json else form
    text = render(mine, known, shape, undo=undo, switch=switch, budget=budget, beside=others, failed=failed or [])
    if out:
        write_atomically(out, text)
        print(f"routes: {out}", file=sys.stderr)
        return
    print(text, end="")


def _anchor(certificate: Path, real: str) -> "Fabric":
    """The real fabric: as given, or the preset that the certificate names."""
    from headway.io.json_file import read_json
    from headway.network.certificates.form import malformed
    from headway.network.fabric.presets import PRESETS
    from headway.sim.network_files import load_fabric

    if real:
        return load_fabric(real)
    content = read_json(certificate)
    if reason := malformed(content):
        raise BadInput(f"{certificate}: rejected: {reason}")
    if content["fabric"]["name"] in PRESETS:
        return load_fabric(content["fabric"]["name"])
    raise BadInput(f"{certificate}: give --fabric F or --inventory FILE: its own word for the fabric is not enough")
