"""A real Chromium, driven through ChromeDriver's plain HTTP interface; no other package is needed."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
    "--window-size=1500,950",
]


class Chromium:
    """A browser session. `console` gives what the page logged, errors included."""

    def __init__(self) -> None:
        driver, browser = (
            shutil.which("chromedriver"),
            shutil.which("chromium") or shutil.which("google-chrome"),
        )
        if driver is None or browser is None:
            message = "needs chromium and chromedriver (apt-get install chromium chromium-driver)"
            if os.environ.get("HGPO_REQUIRE_CHROMIUM"):
                pytest.fail(message)
            pytest.skip(message)
        self.folder = tempfile.mkdtemp(prefix="chromium-")
        self.process = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        port = None
        while port is None:
            line = self.process.stdout.readline()
            assert line, "chromedriver ended before it said its port"
            found = re.search(r"started successfully on port (\d+)", line)
            port = found and found[1]
        self.base = f"http://127.0.0.1:{port}"
        options = {"binary": browser, "args": [*FLAGS, f"--user-data-dir={self.folder}"]}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{made['sessionId']}"

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._call("DELETE", self.session)
        finally:
            self.process.terminate()
            self.process.wait(timeout=20)
            shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.base + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return json.loads(reply.read())["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.loads(error.read())["value"]["message"]) from None

    def load(self, page: Path, fragment: str = "") -> None:
        """Load a page from disk, afresh."""
        self._call("POST", f"{self.session}/url", {"url": "about:blank"})
        self._call("POST", f"{self.session}/url", {"url": page.resolve().as_uri() + fragment})

    def open(self, page: Path, fragment: str = "") -> None:
        """Load a page from disk, afresh, and wait until it has drawn itself."""
        self.load(page, fragment)
        self.wait("return document.body.dataset.ready === 'true'")

    def visit(self, address: str) -> None:
        """Load a page from a server and wait until it is drawn."""
        self._call("POST", f"{self.session}/url", {"url": address})
        self.wait("return document.body && document.body.dataset.ready === 'true'")

    def resize(self, width: int | None, height: int | None) -> None:
        """Give the page so much room; None for what the window has."""
        cleared = {"cmd": "Emulation.clearDeviceMetricsOverride", "params": {}}
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        given = {"cmd": "Emulation.setDeviceMetricsOverride", "params": size}
        self._call("POST", f"{self.session}/goog/cdp/execute", cleared if width is None else given)

    def run(self, script: str, *args: Any) -> Any:
        """The result of a script in the page."""
        return self._call("POST", f"{self.session}/execute/sync", {"script": script, "args": list(args)})

    def wait(self, script: str, *args: Any, seconds: float = 30) -> Any:
        """Repeat a script until it gives something true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := self.run(script, *args):
                return found
            time.sleep(0.02)
        raise AssertionError(f"after {seconds} s still not true: {script}; console: {self.console()}")

    def click(self, selector: str) -> None:
        """Click as a person does: scrolled into view, at the element's middle."""
        found = self._call("POST", f"{self.session}/element", {"using": "css selector", "value": selector})
        self._call("POST", f"{self.session}/element/{next(iter(found.values()))}/click", {})

    def write(self, selector: str, text: str) -> None:
        """Type into a field."""
        found = self._call("POST", f"{self.session}/element", {"using": "css selector", "value": selector})
        self._call("POST", f"{self.session}/element/{next(iter(found.values()))}/value", {"text": text})

    def click_at(self, x: float, y: float) -> None:
        """Click a point of the window."""
        moves = [
            {"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}
        self._call("POST", f"{self.session}/actions", {"actions": [mouse]})

    def move_to(self, x: float, y: float) -> None:
        """Move the pointer to a point of the window."""
        moves = [{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}
        self._call("POST", f"{self.session}/actions", {"actions": [mouse]})

    def press(self, key: str) -> None:
        """Press a key where the focus is; the code points of WebDriver name those without a letter."""
        strokes = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._call(
            "POST",
            f"{self.session}/actions",
            {"actions": [{"type": "key", "id": "keys", "actions": strokes}]},
        )

    def text(self, selector: str) -> str:
        """The text of the first element that fits."""
        return str(self.run("return document.querySelector(arguments[0]).textContent", selector))

    def console(self) -> list[str]:
        """What was logged since the last call, with its severity."""
        return [
            f"{e['level']}: {e['message']}"
            for e in self._call("POST", f"{self.session}/se/log", {"type": "browser"})
        ]

    def picture(self, path: Path) -> None:
        """Save what the window shows."""
        path.write_bytes(base64.b64decode(self._call("GET", f"{self.session}/screenshot")))
