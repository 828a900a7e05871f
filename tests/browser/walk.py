"""A walk through the console: an operator's clicks and typing to get a task done, with the clicks counted."""

from collections.abc import Callable

from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

#: Two cores may have much other work meanwhile.
PATIENCE_SECONDS = 30
#: Whether a select2 shows the results for the whole term: earlier results are replaced, maybe under the pointer.
_HAS_FOUND = """
    return django.jQuery.active === 0
        && performance.getEntriesByType("resource").some((entry) => entry.name.split(/[?&]/).includes(arguments[0]));
"""


class Walk:
    """``clicks`` counts links and buttons clicked; to type costs none."""

    def __init__(self, browser: Chrome) -> None:
        self.browser = browser
        self.clicks = 0

    def click(self, text: str, *, within: str = "body") -> None:
        """Click the link or button that says ``text``, beside an icon or not. ``within``: a CSS selector."""
        says = f"contains(normalize-space(.), '{text}')"
        wanted = f".//a[{says}] | .//button[{says}]"
        self._click(
            lambda: self.browser.find_element(By.CSS_SELECTOR, within).find_elements(By.XPATH, wanted), text
        )

    def press(self, selector: str) -> None:
        """Click the element that the CSS selector finds."""
        self._click(lambda: self.browser.find_elements(By.CSS_SELECTOR, selector), selector)

    def type(self, selector: str, text: str) -> None:
        field = self.shown(selector)
        field.clear()
        field.send_keys(text)

    def choose(self, text: str) -> None:
        """Choose in the page's select2 the option that a search for ``text`` finds, by two clicks."""
        self.press(".select2-selection")
        self.type(".select2-search__field", text)
        self._wait().until(
            lambda browser: browser.execute_script(_HAS_FOUND, f"term={text}"), f"{text!r} is not found"
        )
        self.press(".select2-results__option--highlighted")
        self.reads(text, within=".select2-selection__rendered")

    def shown(self, selector: str) -> WebElement:
        """The element that the CSS selector finds, once it is displayed."""
        found: WebElement = self._wait().until(
            lambda browser: _displayed(browser.find_elements(By.CSS_SELECTOR, selector)),
            f"{selector!r} is not displayed",
        )
        return found

    def reads(self, text: str, *, within: str = "body") -> None:
        """Wait until the page shows ``text``."""
        read = ""

        def shows(browser: Chrome) -> bool:
            nonlocal read
            read = browser.find_element(By.CSS_SELECTOR, within).text
            return text in read

        try:
            self._wait().until(shows)
        except TimeoutException as error:
            at = self.browser.current_url
            raise AssertionError(f"{text!r} is not in {within} of {at}, which reads:\n{read}") from error

    def _click(self, find: Callable[[], list[WebElement]], what: str) -> None:
        def click(_: Chrome) -> bool:
            if element := _displayed(find()):
                element.click()  # if it was replaced since, nothing was clicked, and the wait goes on
            return element is not None

        self._wait().until(click, f"{what!r} is not displayed")
        self.clicks += 1

    def _wait(self) -> WebDriverWait:
        # Fragments are replaced while one looks.
        return WebDriverWait(
            self.browser, PATIENCE_SECONDS, ignored_exceptions=(StaleElementReferenceException,)
        )


def _displayed(found: list[WebElement]) -> WebElement | None:
    """The first of them that is displayed."""
    return next((element for element in found if element.is_displayed()), None)
