"""A headless Chromium over its DevTools protocol, with nothing but `websockets`.

with Chromium() as browser:
    page = browser.page(width=1280, height=800)
    page.open("http://127.0.0.1:8080/")
    page.until("document.querySelector('h1')")
    page.picture(Path("page.png"))
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
START_SECONDS = 60.0
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def find_chromium() -> str | None:
    """The browser of this machine: $CARETAKER_CHROMIUM, else the first of NAMES; None without one."""
    chosen = os.environ.get("CARETAKER_CHROMIUM")
    return chosen or next((found for name in NAMES if (found := shutil.which(name))), None)


class Chromium:
    """A browser process with a profile of its own."""

    def __init__(self, *options: str) -> None:
        path = find_chromium()
        assert path is not None
        self.profile = Path(tempfile.mkdtemp(prefix="chromium-"))
        self.log = (self.profile / "log").open("wb")
        self.process = subprocess.Popen(
            [
                path,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--no-first-run",
                "--no-proxy-server",
                "--hide-scrollbars",
                "--force-color-profile=srgb",
                "--remote-debugging-port=0",
                f"--user-data-dir={self.profile}",
                *options,
                "about:blank",
            ],
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.port = self._port()

    def _port(self) -> int:
        file = self.profile / "DevToolsActivePort"
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if file.is_file() and (lines := file.read_text().split()):
                return int(lines[0])
            assert self.process.poll() is None, (self.profile / "log").read_text("utf-8", "replace")
            time.sleep(0.05)
        raise TimeoutError("Chromium did not start")

    def page(self, *, width: int = 1280, height: int = 800, dark: bool = False) -> Page:
        """A new tab of this size."""
        url = f"http://127.0.0.1:{self.port}/json/new?about:blank"
        request = urllib.request.Request(url, method="PUT")
        with _direct.open(request, timeout=30) as answer:
            target = json.load(answer)
        page = Page(target["webSocketDebuggerUrl"])
        page.size(width, height)
        page.dark(on=dark)
        return page

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)


class Page:
    """One tab.  `requests` are the addresses that it asked for, `problems` what its console says."""

    def __init__(self, url: str) -> None:
        self.socket: ClientConnection = connect(url, max_size=None, proxy=None)
        self.number = 0
        self.requests: list[str] = []
        self.problems: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Mapping[str, Any]:
        """The result of a command."""
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            if message.get("id") == self.number:
                assert "error" not in message, f"{method}: {message.get('error')}"
                found: Mapping[str, Any] = message["result"]
                return found
            self._note(message)

    def _note(self, message: Mapping[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def size(self, width: int, height: int) -> None:
        """The size of the window in CSS pixels, drawn at twice that."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if width < 700 else 1,
            mobile=width < 700,
        )

    def dark(self, *, on: bool) -> None:
        """What prefers-color-scheme says."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def cookie(self, url: str, name: str, value: str) -> None:
        """Set a cookie."""
        self.call("Network.setCookie", url=url, name=name, value=value)

    def open(self, url: str) -> None:
        """Go to an address."""
        self.call("Page.navigate", url=url)

    def js(self, expression: str) -> Any:
        """The value of an expression, awaited; AssertionError if it throws."""
        found = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str, seconds: float = 30.0) -> Any:
        """The value of the expression as soon as it is true."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                value = self.js(f"(() => {{ const v = {expression}; return v ? true : false; }})()")
            except AssertionError:
                value = None  # the page is still loading
            if value:
                return self.js(
                    f"(() => {{ const v = {expression}; return v instanceof Node ? true : v; }})()"
                )
            time.sleep(0.05)
        shown = self.js("document.body && document.body.innerText.slice(0, 800)")
        raise TimeoutError(f"{expression}\n{shown}\n{self.problems}")

    def key(self, key: str) -> None:
        """Press and release a key: a character, or a name such as Enter."""
        named = {"Enter": ("Enter", "\r", 13), "Escape": ("Escape", "", 27), "Tab": ("Tab", "", 9)}
        name, text, code = named.get(key, (key, key, 0))
        self.call(
            "Input.dispatchKeyEvent",
            type="keyDown",
            key=name,
            text=text,
            windowsVirtualKeyCode=code,
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)

    def write(self, text: str) -> None:
        """Write into the field that has the focus."""
        self.call("Input.insertText", text=text)

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """A PNG of the window, or of the whole page."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        """Close the connection; the tab goes with the browser."""
        self.socket.close()
