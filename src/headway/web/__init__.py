"""The dashboard's files, and how they are served: plain ES modules and CSS, read once, under a strict content security policy.

Imports nothing of Headway. The pages hold no data: they ask the public API for it, with the session that a person signs in to.
"""

import secrets
from pathlib import Path

from fastapi import FastAPI, HTTPException
from fastapi.responses import Response

START, PAGES = "/", "/web/"
FOLDER = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Scripts and styles come from our own files only; nothing of the data can become either. No other page may frame this one.
POLICY = "; ".join(
    (
        *("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'"),
        *("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
        "require-trusted-types-for 'script'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
# Each process serves its scripts and styles below a new random name. A browser keeps them, but never uses the files that another program
# on the same port gave it, nor those of another version.
KEEP = {"Cache-Control": "public, max-age=31536000, immutable"}


def files() -> dict[str, bytes]:
    """All files, by their paths."""
    paths = sorted(path for path in FOLDER.rglob("*") if path.suffix in TYPES)
    return {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in paths}


def add_pages(api: FastAPI) -> None:
    """Serve them. What is asked for is looked up among the files that were read, never on disk."""
    content = files()
    name = secrets.token_hex(8)
    start = content.pop("index.html").replace(b"{root}", f"{PAGES}{name}".encode())

    @api.get(START, include_in_schema=False)
    async def page() -> Response:
        """The dashboard."""
        return Response(start, headers={**HEADERS, "Cache-Control": "no-cache"}, media_type=TYPES[".html"])

    @api.get(PAGES + "{folder}/{path:path}", include_in_schema=False)
    async def file(folder: str, path: str) -> Response:
        """A script or a style of it."""
        if folder != name or path not in content:
            raise HTTPException(404, "there is no such file; reload the page")
        kind = TYPES[Path(path).suffix]
        return Response(content[path], headers={**HEADERS, **KEEP}, media_type=kind)
