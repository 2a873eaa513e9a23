#!/usr/bin/env python3
"""Draws the README's chart from the figures recorded in Benchmarks/Figures.md, light and dark.

    Benchmarks/Scripts/chart.py

The charts are figures.svg and figures~dark.svg in Sources/Convoy/Convoy.docc/Resources.
"""
import html
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
THEMES = {
    "light": dict(text="#1f2328", soft="#59636e", bar="#d0d7de", convoy="#0969da"),
    "dark": dict(text="#e6edf3", soft="#9198a1", bar="#3d444d", convoy="#4493f8"),
}
# The title, the start of the row in Figures.md, and the subject of the column "the limit".
PANELS = [
    ("GETs of 11 bytes, 64 in flight: requests per second", "| 50,000 GETs of 11 bytes, all enqueued at once", "C loop on libcurl"),
    ("Download of 1 GiB to a file: MiB per second", "| download of 1 GiB to a file, MiB/s", "curl -o"),
]


def number(text):
    return int(re.match(r"[\d,]+", text)[0].replace(",", ""))


def figures(text, start, limit):
    """The subjects of a row and their figures, the fastest first."""
    rows = [line for line in text.splitlines() if line.startswith(start)]
    if len(rows) != 1:
        sys.exit(f"== Figures.md has {len(rows)} rows that begin with {start!r}")
    cells = [cell.strip() for cell in rows[0].strip("|").split("|")]
    found = {"Convoy": number(cells[1]), limit: number(cells[2]), "URLSession": number(cells[4])}
    for other in cells[5].split(" · "):
        name, value = other.rsplit(" ", 1)
        found[name.replace("`", "")] = number(value)
    return sorted(found.items(), key=lambda pair: -pair[1])


def chart(panels, theme):
    colors, width, label, height = THEMES[theme], 420, 130, 26
    rows = max(len(bars) for _, bars in panels)
    size = (width * len(panels) + 20, 44 + rows * height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}"'
        " font-size=\"13\" font-family=\"-apple-system,'Segoe UI','Noto Sans','DejaVu Sans',Helvetica,Arial,sans-serif\">"
    ]
    for place, (title, bars) in enumerate(panels):
        x = place * (width + 20)
        parts.append(f'<text x="{x}" y="18" font-weight="600" fill="{colors["text"]}">{html.escape(title)}</text>')
        for row, (name, value) in enumerate(bars):
            y, length = 36 + row * height, value / bars[0][1] * (width - label - 60)
            color = colors["convoy"] if name == "Convoy" else colors["bar"]
            weight = ' font-weight="600"' if name == "Convoy" else ""
            parts += [
                f'<text x="{x + label - 8}" y="{y + 13}" text-anchor="end" fill="{colors["text"]}"{weight}>{html.escape(name)}</text>',
                f'<rect x="{x + label}" y="{y}" width="{length:.1f}" height="18" rx="2" fill="{color}"/>',
                f'<text x="{x + label + length + 6:.1f}" y="{y + 13}" fill="{colors["soft"]}"{weight}>{value:,}</text>',
            ]
    return "\n".join(parts) + "\n</svg>\n"


def main():
    text = (ROOT / "Benchmarks/Figures.md").read_text()
    panels = [(title, figures(text, start, limit)) for title, start, limit in PANELS]
    for theme in THEMES:
        path = ROOT / f"Sources/Convoy/Convoy.docc/Resources/figures{'~dark' if theme == 'dark' else ''}.svg"
        path.write_text(chart(panels, theme))
        print(path.relative_to(ROOT))


main()
