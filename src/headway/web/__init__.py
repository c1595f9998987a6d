"""The dashboard's files, and how they are served: plain ES modules and CSS, read once, under a strict content security policy.

Imports nothing of Headway. The pages hold no data: they ask the public API for it, with the session that a person signs in to.
"""

import hashlib
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
# Files are asked for under a digest of all of them, so that a browser keeps them and a new version is seen at once.
KEEP = {"Cache-Control": "public, max-age=31536000, immutable"}


def files() -> dict[str, bytes]:
    """All files, by their paths."""
    paths = sorted(path for path in FOLDER.rglob("*") if path.suffix in TYPES)
    return {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in paths}


def digest(content: dict[str, bytes]) -> str:
    """A name for exactly these files."""
    found = hashlib.sha256()
    for path, data in content.items():
        found.update(path.encode() + b"\0" + hashlib.sha256(data).digest())
    return found.hexdigest()[:16]


def add_pages(api: FastAPI) -> None:
    """Serve them. What is asked for is looked up among the files that were read, never on disk."""
    content = files()
    version = digest(content)
    start = content.pop("index.html").replace(b"{root}", f"{PAGES}{version}".encode())

    @api.get(START, include_in_schema=False)
    async def page() -> Response:
        """The dashboard."""
        return Response(start, headers={**HEADERS, "Cache-Control": "no-cache"}, media_type=TYPES[".html"])

    @api.get(PAGES + "{given}/{path:path}", include_in_schema=False)
    async def file(given: str, path: str) -> Response:
        """A script or a style of it."""
        if given != version or path not in content:
            raise HTTPException(404, "there is no such file; reload the page")
        kind = TYPES[Path(path).suffix]
        return Response(content[path], headers={**HEADERS, **KEEP}, media_type=kind)
