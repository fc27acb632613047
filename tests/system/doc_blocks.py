"""The blocks of a Markdown page: what is between fences, and what is indented. A block of no known kind is an error."""

import re
from dataclasses import dataclass

RUN = ("regard", "echo", "make")
"""What the first word of a command may be."""


@dataclass(frozen=True)
class Block:
    kind: str
    """commands, python, file (its first line is a comment with its name) or output."""
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    listed, lines, number = [], page.splitlines(), 0
    while number < len(lines):
        start = number
        if fence := re.fullmatch(r"```(\w*)", lines[number].rstrip()):
            number = lines.index("```", start + 1)
            listed.append(_block(fence[1], "\n".join(lines[start + 1 : number]), start + 2))
        elif lines[number].startswith("    "):
            while number + 1 < len(lines) and lines[number + 1].startswith("    "):
                number += 1
            listed.append(_block("", "\n".join(line[4:] for line in lines[start : number + 1]), start + 1))
        number += 1
    return listed


def _block(language: str, text: str, line: int) -> Block:
    words = [row.split()[0] for row in text.splitlines() if row.strip()]
    if language == "python":
        return Block("python", text, line)
    if language == "yaml" and re.match(r"# \S+\.yaml\n", text):
        return Block("file", text, line)
    if language == "" and words and all(word in RUN for word in words):
        return Block("commands", text, line)
    if language == "" and text.startswith("•"):
        return Block("output", text, line)
    raise ValueError(f"line {line}: a block of no known kind: {text[:60]!r}")


def commands(block: Block) -> list[str]:
    """One a line, without the comment after it."""
    rows = [re.sub(r"\s+#\s.*$", "", row).strip() for row in block.text.splitlines()]
    return [row for row in rows if row]
