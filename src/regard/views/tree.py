"""Trees drawn in the terminal and as SVG. A node is a label and its parts, or a word: (label, [parts]) or str."""

from __future__ import annotations

from html import escape
from typing import Any

_WIDTH, _HEIGHT, _MARGIN = 9, 44, 16  # width of a letter, height of a level, margin of the picture


def tree_lines(node: Any) -> list[str]:
    """Indented lines, each part below its label; a constituent that has only words is one line."""
    label, parts = (node, []) if isinstance(node, str) else node
    if parts and all(isinstance(part, str) for part in parts):
        return [f"{label}  {' '.join(parts)}"]
    lines = [label]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        first, *others = tree_lines(part)
        lines.append(("└─ " if last else "├─ ") + first)
        lines += [("   " if last else "│  ") + line for line in others]
    return lines


def tree_svg(node: Any) -> str:
    """The words in one row at the bottom, each label above the middle of its parts."""
    shapes: list[str] = []
    right = float(_MARGIN)

    def height(part: Any) -> int:
        return 0 if isinstance(part, str) else 1 + max(map(height, part[1]))

    levels = height(node)

    def place(part: Any, level: int) -> tuple[float, float]:
        nonlocal right
        label = part if isinstance(part, str) else part[0]
        width = _WIDTH * max(len(label), 1) + _MARGIN
        if isinstance(part, str):
            x, y = right + width / 2, float(_MARGIN + levels * _HEIGHT)
            right += width
        else:
            y = float(_MARGIN + level * _HEIGHT)
            below = [place(inner, level + 1) for inner in part[1]]
            x = (below[0][0] + below[-1][0]) / 2
            right = max(right, x + width / 2)
            for inner_x, inner_y in below:
                shapes.append(f'<line x1="{x:.1f}" y1="{y + 6:.1f}" x2="{inner_x:.1f}" y2="{inner_y - 14:.1f}"/>')
        kind = "word" if isinstance(part, str) else "label"
        shapes.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(label)}</text>')
        return x, y

    place(node, 0)
    width, full = right + _MARGIN, 2 * _MARGIN + levels * _HEIGHT
    style = (
        "text{font:14px sans-serif;text-anchor:middle}.label{font-weight:600;fill:#1f4e79}.word{fill:#222}"
        "line{stroke:#888;stroke-width:1}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{full}" '
        f'viewBox="0 0 {width:.0f} {full}" role="img" aria-label="constituency tree">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>{"".join(shapes)}</svg>\n'
    )
