"""The fenced blocks of README and docs, as tests run them.

A block's language says how tests treat it. ``sh``, ``python`` and ``sql`` are run; ``yaml`` is applied. ``json`` must
parse and, right behind a command, have the members of its answer. ``text`` and ``mermaid`` are for eyes alone. A
comment on the line before says otherwise:

- ``<!-- not run: REASON -->``
- ``<!-- runs on -->``: it is started, and stopped at the page's end;
- ``<!-- a job -->``: JSON, members of a definition; ``<!-- payload of TYPE -->``: JSON, of a job of that type.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN, SHOWN = ("sh", "python", "sql", "yaml", "json"), ("text", "mermaid")
_BLOCK = re.compile(
    r"(?:^<!-- (?P<marker>.+?) -->\n)?^```(?P<language>.*)\n(?P<text>(?:.*\n)*?)```$", re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    marker: str
    text: str
    #: Nothing stands between this block and the one before.
    follows: bool

    @property
    def is_run(self) -> bool:
        return self.language in RUN and not self.marker.startswith("not run: ")

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    text, found, end = page.read_text(), [], -2
    for match in _BLOCK.finditer(text):
        found.append(
            Block(
                page=str(page.relative_to(ROOT)),
                line=text.count("\n", 0, match.start("language")) + 1,
                language=match["language"],
                marker=match["marker"] or "",
                text=match["text"],
                follows=match.start() == end + 1,
            )
        )
        end = match.end()
    return found
