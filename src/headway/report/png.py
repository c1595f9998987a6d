"""Figures as pictures for papers, rendered by the installed Chromium or Chrome: it is started once for all of them.

The page calls plotly's export function and leaves the pictures in the document as text, which the browser prints. Nothing is fetched.
"""

import base64
import itertools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headway.errors import BadInput, HeadwayError
from headway.io.files import write_atomically
from headway.report.figure import Figure
from headway.report.page import as_json, plotly_js

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-extensions", "--no-first-run", "--hide-scrollbars"),
)
# Points of a figure, and dots of the picture per point: 3 x 96 dots per inch is enough for print.
WIDTH, WIDE, SCALE = 620, 1240, 3
TIME_LIMIT_S = 180
LONGEST_NAME = 120

SCRIPT = """
const all = JSON.parse(document.getElementById('figures').textContent);
async function picture(figure, width, height) {
  const layout = {margin: {l: 70, r: 20, t: 40, b: 60}, bargap: 0.25, ...figure.layout, width, height,
    paper_bgcolor: '#ffffff', plot_bgcolor: '#ffffff', font: {color: '#000000', family: 'sans-serif', size: 13},
    legend: {orientation: 'h', x: 0, y: 1.02, yanchor: 'bottom'}};
  if (layout.showlegend === undefined) layout.showlegend = new Set(figure.traces.map(t => t.legendgroup)).size > 1;
  for (const key of Object.keys(layout).filter(key => /^[xy]axis/.test(key)))
    layout[key] = {automargin: true, gridcolor: '#e3e3e3', linecolor: '#888888', ticks: 'outside', ...layout[key]};
  return Plotly.toImage({data: figure.traces, layout}, {format: 'png', width, height, scale: SCALE});
}
function loaded(url) {
  return new Promise(done => { const image = new Image(); image.onload = () => done(image); image.src = url; });
}
async function together(urls, sizes) {
  let x = 0, y = 0, row = 0; const places = [];
  sizes.forEach(([width, height]) => {
    if (x + width > WIDE) { x = 0; y += row; row = 0; }
    places.push([x, y]); x += width; row = Math.max(row, height);
  });
  const canvas = document.createElement('canvas');
  canvas.width = WIDE * SCALE; canvas.height = (y + row) * SCALE;
  const paper = canvas.getContext('2d');
  paper.fillStyle = '#ffffff'; paper.fillRect(0, 0, canvas.width, canvas.height);
  for (let i = 0; i < urls.length; i++)
    paper.drawImage(await loaded(urls[i]), places[i][0] * SCALE, places[i][1] * SCALE);
  return canvas.toDataURL('image/png');
}
(async () => {
  const urls = [];
  for (let i = 0; i < all.length; i++) urls.push(await picture(all[i], ...sizes[i]));
  const kept = one ? [await together(urls, sizes)] : urls;
  document.getElementById('pictures').textContent = kept.map((url, i) => `[[${i}:${url.split(',')[1]}]]`).join('');
})();
"""


def browser() -> str:
    """The browser to render with."""
    program = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if program is None:
        raise HeadwayError(
            "--png needs Chromium or Chrome on the PATH, and there is none: install one (apt-get install chromium), "
            "or open the HTML report and save the figures from there"
        )
    return program


def draw(figures: Sequence[Figure], path: Path) -> list[Path]:
    """Draw the figures: into one picture if `path` ends in .png, else one picture each into the folder `path`."""
    one = path.suffix.lower() == ".png"
    if one and path.is_dir():
        raise BadInput(f"{path} is a folder: give it without .png at its end, or the path of a file to write")
    if not one and path.exists() and not path.is_dir():
        raise BadInput(f"{path} is a file: give a folder, or a path that ends in .png")
    pictures = _rendered(_page(figures, one), 1 if one else len(figures))
    paths = [path] if one else [path / f"{name}.png" for name in file_names(figures)]
    for target, picture in zip(paths, pictures, strict=True):
        write_atomically(target, picture)
    return paths


def _page(figures: Sequence[Figure], one: bool) -> str:
    sizes = [[WIDE if figure.wide else WIDTH, figure.height + 40] for figure in figures]
    constants = f"const SCALE = {SCALE}, WIDE = {WIDE}, one = {str(one).lower()}, sizes = {sizes};"
    titled = [_titled(figure) for figure in figures]
    return (
        f"<!doctype html><meta charset='utf-8'><script>{plotly_js()}</script><pre id='pictures'></pre>"
        f"<script type='application/json' id='figures'>{as_json(titled)}</script><script>{constants}{SCRIPT}</script>"
    )


def _titled(figure: Figure) -> Figure:
    """Gantt charts have no legend: as a single picture, one needs a title that names its policy."""
    if figure.layout.get("showlegend", True):
        return figure
    layout = figure.layout | {"title": {"text": figure.title, "font": {"size": 14}, "x": 0.01}}
    return replace(figure, layout=layout)


def _rendered(page: str, count: int) -> list[bytes]:
    with tempfile.TemporaryDirectory(prefix="headway-png-") as folder:
        source = Path(folder, "figures.html")
        source.write_text(page, "utf-8")
        command = [browser(), *FLAGS, f"--user-data-dir={folder}/profile", "--virtual-time-budget=60000", "--dump-dom"]
        command.append(source.as_uri())
        quiet = {**os.environ, "HOME": folder}
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S, env=quiet, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HeadwayError(f"the browser could not draw the figures: {error}") from None
    pictures = [base64.b64decode(text) for text in re.findall(r"\[\[\d+:([A-Za-z0-9+/=]+)\]\]", done.stdout)]
    if len(pictures) != count:
        raise HeadwayError(f"the browser drew {len(pictures)} of {count} figures (exit code {done.returncode})")
    return pictures


def file_names(figures: Sequence[Figure]) -> list[str]:
    """Different file names for the figures; a policy's name may contain what a file name may not, and a trace's path may be long."""
    names: list[str] = []
    for figure in figures:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", figure.name).strip("-")[:LONGEST_NAME]
        again = (f"{name}-{number}" for number in itertools.count(2))
        # Upper and lower case are the same on some file systems.
        taken = {one.lower() for one in names}
        names.append(name if name.lower() not in taken else next(one for one in again if one.lower() not in taken))
    return names
