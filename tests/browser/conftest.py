"""A real Chromium, in a thread of its own.

Playwright runs an event loop in the thread that starts it, and Django refuses to talk to the database where one runs.
So tests stay in their thread with the database, and hand functions to the browser's.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright
from pytest_django.live_server_helper import LiveServer

from diagnostics.models import User

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PASSWORD = "only for this test"
PATIENCE_MS = 30_000
"""What a page gets to become as a test expects it: a busy machine is no fault of the page."""

expect.set_options(timeout=PATIENCE_MS)


class Tab:
    """One page with a session of its own, and all that went wrong on it."""

    def __init__(self, thread: ThreadPoolExecutor, opened: Callable[[], BrowserContext]) -> None:
        self._thread = thread
        self._opened = opened
        self.complaints: list[str] = []
        self._context, self._page = thread.submit(self._open).result()

    def _open(self) -> tuple[BrowserContext, Page]:
        context = self._opened()
        page = context.new_page()
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        return context, page

    def do[T](self, steps: Callable[[Page], T]) -> T:
        """Run `steps` in the browser's thread."""
        return self._thread.submit(steps, self._page).result()

    def close(self) -> None:
        self._thread.submit(self._context.close).result()

    def _note(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"} or "Content Security Policy" in text:
            self.complaints.append(f"{kind}: {text}")


@pytest.fixture(scope="session")
def browser_thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="chromium") as thread:
        yield thread


@pytest.fixture(scope="session")
def chromium(browser_thread: ThreadPoolExecutor) -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        why = "install the Debian package chromium"
        if os.environ.get("GPUHEALTH_REQUIRE_SERVICES") == "1":
            pytest.fail(why)
        pytest.skip(why)

    def start() -> tuple[Playwright, Browser]:
        playwright = sync_playwright().start()
        return playwright, playwright.chromium.launch(executable_path=path, args=ARGUMENTS)

    playwright, browser = browser_thread.submit(start).result()
    yield browser
    browser_thread.submit(browser.close).result()
    browser_thread.submit(playwright.stop).result()


@pytest.fixture
def open_tab(
    chromium: Browser, browser_thread: ThreadPoolExecutor, live_server: LiveServer
) -> Iterator[Callable[..., Tab]]:
    """Opens a tab; keywords are those of Playwright's `new_context`. Whatever a page complains of fails the test."""
    tabs: list[Tab] = []

    def opened(width: int = 1440, cookies: dict[str, str] | None = None, **options: Any) -> Tab:
        def start() -> BrowserContext:
            context = chromium.new_context(
                base_url=live_server.url, viewport={"width": width, "height": 900}, **options
            )
            context.set_default_timeout(PATIENCE_MS)
            for name, value in (cookies or {}).items():
                context.add_cookies([{"name": name, "value": value, "url": live_server.url}])
            return context

        tab = Tab(browser_thread, start)
        tabs.append(tab)
        return tab

    yield opened
    for tab in tabs:
        tab.close()
    assert [complaint for tab in tabs for complaint in tab.complaints] == []


@pytest.fixture
def user(transactional_db: None) -> User:
    return User.objects.create_user("sre", password=PASSWORD)


@pytest.fixture
def signed_in(user: User) -> dict[str, str]:
    """Cookies of somebody who has signed in."""
    client = Client()
    client.force_login(user)
    return {name: morsel.value for name, morsel in client.cookies.items()}
