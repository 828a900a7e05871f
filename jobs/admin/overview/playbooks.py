"""The playbooks within the console: the files of ``docs/playbooks``, which are shipped with it, shown as pages.

Only the files that were there when this process first looked are names of pages, so no address leads to another file.
A link to another playbook leads to its page. The rest of the documentation is not served, so a link into it is shown
as text with the file's path.
"""

import posixpath
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.http import Http404, HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from jobs.admin.shared.pages import ConsolePage

#: The folder within the installation, and within the repository.
FOLDER = "docs/playbooks"
INDEX = "README"
#: HTML in a file is shown as text.
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


class Playbook(NamedTuple):
    title: str
    body: SafeString


@cache
def names() -> frozenset[str]:
    """The names of all playbooks, without the list of them; none where the installation came without the files."""
    return frozenset(path.stem for path in (settings.BASE_DIR / FOLDER).glob("*.md")) - {INDEX}


def url_of(name: str) -> str | None:
    """The page of a playbook; None where the installation came without it."""
    return reverse("playbook", args=[name]) if name in names() else None


@cache
def read(name: str) -> Playbook:
    """Read one of ``names``, or the list of them. Raises ``Http404``."""
    if name != INDEX and name not in names():
        raise Http404
    try:
        text = (settings.BASE_DIR / FOLDER / f"{name}.md").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Http404 from None
    title, tokens = _without_title(_MARKDOWN.parse(text))
    for token in tokens:
        if token.children:
            token.children = list(_linked(token.children))
    rendered = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    return Playbook(title, mark_safe(rendered))  # noqa: S308  # our own files, with HTML switched off


def _without_title(tokens: list[Token]) -> tuple[str, list[Token]]:
    """The first heading, which the page shows itself, and the tokens that follow it."""
    if tokens and tokens[0].type == "heading_open":
        return tokens[1].content, tokens[3:]
    return "Playbook", tokens


def _linked(tokens: list[Token]) -> Iterator[Token]:
    """The tokens, with links that the console can follow."""
    path, said = "", ""
    for token in tokens:
        if token.type == "link_open":
            url, path = _followed(str(token.attrGet("href") or ""))
            said = ""
            if not url:
                continue
            token.attrSet("href", url)
            token.attrSet("class", "text-link")
        elif token.type == "link_close" and path:
            if said != path:
                yield Token("text", "", 0, content=" (")
                yield Token("code_inline", "code", 0, content=path)
                yield Token("text", "", 0, content=")")
            continue
        said += token.content
        yield token


def _followed(href: str) -> tuple[str, str]:
    """The address of another playbook, or else the path of a target that the console does not serve."""
    split = urlsplit(href)
    if split.scheme or split.netloc:
        return "", href
    path = PurePosixPath(posixpath.normpath(f"{FOLDER}/{split.path}"))
    if str(path.parent) == FOLDER and path.suffix == ".md":
        url = reverse("playbooks") if path.stem == INDEX else url_of(path.stem)
        return (url, "") if url else ("", str(path))
    return "", str(path)


class Playbooks(ConsolePage):
    """The list of playbooks, or one of them. For all who are signed in: they tell nothing of an installation."""

    title = "Playbooks"
    permission = ""
    template_name = "admin/overview/playbook.html"

    def is_permitted(self, request: HttpRequest) -> bool:
        return True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        found = read(kwargs.get("name", INDEX))
        told = {"title": found.title, "content_title": found.title, "playbook": found}
        return super().get_context_data(**kwargs | told)
