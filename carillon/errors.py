"""The failures of a command, and the exit code of each (docs/cli.md has the table)."""

from typing import Any

OK, REFUSED, USAGE, NOT_FOUND, FORBIDDEN, UNAVAILABLE, DIFFERS = range(7)


class Failure(Exception):
    """Ends the command: ``lines`` go to standard error, ``code`` is the exit code."""

    def __init__(self, *lines: str, code: int = REFUSED) -> None:
        super().__init__("\n".join(lines))
        self.lines, self.code = lines, code


class Misuse(Failure):
    """The command line or a file is wrong; nothing was sent."""

    def __init__(self, *lines: str) -> None:
        super().__init__(*lines, code=USAGE)


class Unreachable(Failure):
    """No answer from the server, or one that is not the API's."""

    def __init__(self, *lines: str) -> None:
        super().__init__(*lines, code=UNAVAILABLE)


class Problem(Failure):
    """The API refused: a problem document (RFC 9457). ``errors`` are (field, message) pairs."""

    def __init__(self, status: int, document: dict[str, Any]) -> None:
        self.status, self.document = status, document
        self.errors = [
            (str(fault.get("field", "")), str(fault.get("message", "")))
            for fault in document.get("errors") or []
            if isinstance(fault, dict)
        ]
        headline = str(document.get("detail") or document.get("title") or "The server refused.")
        lines = [f"{field} → {message}" for field, message in self.errors if message != headline]
        if status >= 500 and document.get("request_id"):
            lines.append(f"The server's log has more under request_id {document['request_id']}.")
        about = [field for field, message in self.errors if message == headline]
        super().__init__(": ".join([*about, headline]), *lines, code=code_of(status))

    @property
    def kind(self) -> str:
        """Such as ``quota-exceeded``."""
        return str(self.document.get("type", "")).rpartition(":")[2]


def code_of(status: int) -> int:
    """The exit code for an HTTP status that is an error."""
    match status:
        case 401 | 403:
            return FORBIDDEN
        case 404:
            return NOT_FOUND
        case 429:
            return UNAVAILABLE
        case _:
            return UNAVAILABLE if status >= 500 else REFUSED
