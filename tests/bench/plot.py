"""The plot of docs/performance.md: times of starts as bars, from what bench.py recorded. Plain SVG, written by hand."""

import html

COLOURS = {"sbx": "#1f6f5c", "sbx, no cgroup": "#5fa08f", "floor": "#b8860b", "bare true": "#9aa0a6"}
OTHER = "#c5cad0"
LEFT, WIDTH, BAR, GAP = 130, 520, 16, 6


def starts_svg(record):
    """A group of bars for each identity: the median, its 95 % interval as a line, the number at the end."""
    groups = []
    for label, rows in record["identities"].items():
        shown = sorted(((row["median_ms"], name, row) for name, row in rows.items() if "median_ms" in row and not name.endswith("python")))
        if shown:
            groups.append((label, shown))
    longest = max((row["median_interval_ms"][1] for _, shown in groups for _, _, row in shown if row["median_ms"] < 30), default=1.0)
    scale = WIDTH / (longest * 1.05)
    body, y = [], 44
    for label, shown in groups:
        body.append(f'<text x="8" y="{y}" font-weight="bold">as {html.escape(label)}</text>')
        y += 10
        for median, name, row in shown:
            low, high = (min(value, longest * 1.05) for value in row["median_interval_ms"])
            length = min(median, longest * 1.05) * scale
            middle = y + BAR / 2
            body.append(f'<text x="{LEFT - 8}" y="{middle + 4}" text-anchor="end">{html.escape(name)}</text>'
                        f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{COLOURS.get(name, OTHER)}"/>'
                        f'<line x1="{LEFT + low * scale:.1f}" x2="{LEFT + high * scale:.1f}" y1="{middle}" y2="{middle}" stroke="#202124" stroke-width="1.5"/>'
                        f'<text x="{LEFT + max(length, high * scale) + 6:.1f}" y="{middle + 4}">{median:.1f} ms</text>')
            y += BAR + GAP
        y += 22
    host = record["host"]
    note = f"median of {record['rounds']} starts of `true` each, interleaved; Linux {host['kernel']}, {host['cpus']} CPUs{', a virtual machine' if host.get('virtual') else ''}"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 70}" height="{y + 4}" font-family="sans-serif" font-size="12" fill="#202124">\n'
            f'<rect width="100%" height="100%" fill="#ffffff"/>\n<text x="8" y="20">{html.escape(note)}</text>\n' + "\n".join(body) + "\n</svg>\n")
