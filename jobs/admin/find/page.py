"""Find anything: by Ctrl+K over any page, or as a page of its own.

It takes the address of Unfold's search, because Unfold's palette asks there. Unfold's own search keeps its findings for
five minutes, even after a permission is withdrawn, and looks for everything in lower case.
"""

from typing import Any

from django.http import HttpRequest, HttpResponse

from jobs.admin.find.groups import groups
from jobs.admin.find.terms import MAX_LENGTH
from jobs.admin.shared.pages import ConsolePage


class FindPage(ConsolePage):
    title = "Find"
    template_name = "admin/find/page.html"

    def is_permitted(self, request: HttpRequest) -> bool:
        """Every user who is signed in; each finds only rows that they may see."""
        return True

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.headers.get("HX-Request") and not self._text():
            return HttpResponse()
        return super().get(request, *args, **kwargs)

    def get_template_names(self) -> list[str]:
        return ["admin/find/results.html" if self.request.headers.get("HX-Request") else self.template_name]

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        text = self._text()
        found = groups(self.request, text) if text else []
        # Unfold's palette numbers the entries that the arrow keys walk over.
        numbers = iter(range(1, 1000))
        shown = [(group, [(next(numbers), hit) for hit in group.hits]) for group in found]
        return super().get_context_data(text=text, groups=shown, **kwargs)

    def _text(self) -> str:
        return self.request.GET.get("s", "").strip()[:MAX_LENGTH]
