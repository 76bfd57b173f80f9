"""A real Chromium, driven through its debugging pipe: no driver, no library, no open port."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--remote-debugging-pipe",
)
# Chromium reads commands from descriptor 3 and answers on 4.
_LAUNCH = (
    "import os, sys; r, w = int(sys.argv[1]), int(sys.argv[2]); "
    "os.dup2(r, 3); os.dup2(w, 4); os.execv(sys.argv[3], sys.argv[3:])"
)


def find() -> str | None:
    """Returns the path of an installed Chromium, if there is one."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if (path := shutil.which(name)) is not None:
            return path
    return None


def _pipe() -> list[int]:
    """Returns a pipe on descriptors above 9: copying them to 3 and 4 then overwrites neither."""
    ends = []
    for low in os.pipe():
        ends.append(fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(low)
    return ends


class Chromium:
    """One browser with one page; every request, console message and dialog is kept.

    Attributes:
        requests: Addresses of every request that the page made.
        problems: Console errors, exceptions, refused requests and policy violations.
        dialogs: Texts of the dialogs that were opened (and dismissed).
    """

    def __init__(self, profile: Path, *, timeout: float = 60.0) -> None:
        binary = find()
        assert binary is not None
        self.requests: list[str] = []
        self.problems: list[str] = []
        self.dialogs: list[str] = []
        self._timeout, self._next, self._buffer = timeout, 0, b""
        self._loaded = False
        theirs_in, self._out = _pipe()
        self._in, theirs_out = _pipe()
        command = [sys.executable, "-c", _LAUNCH, str(theirs_in), str(theirs_out), binary]
        self._process = subprocess.Popen(
            [*command, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends one command of the DevTools protocol and waits for its answer."""
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer.get("result", {}))

    def open(self, path: Path, fragment: str = "", *, ready: bool = True) -> None:
        """Opens a file and waits until it is loaded, and unless told otherwise, its script ran."""
        self._loaded = False
        self.call("Page.navigate", url=path.resolve().as_uri() + fragment)
        while not self._loaded:
            self._read()
        assert not ready or self.run("document.documentElement.dataset.ready") == "true"

    def blank(self) -> None:
        """Leaves the page, so that the next one is opened afresh even at the same address."""
        self._loaded = False
        self.call("Page.navigate", url="about:blank")
        while not self._loaded:
            self._read()

    def run(self, expression: str) -> Any:
        """Returns the value of a JavaScript expression in the page."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"].get("description"))
        return found["result"].get("value")

    def settle(self) -> None:
        """Waits until the page has been drawn, and has heard that it was scrolled."""
        self.run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r())))")

    def size(self, width: int, height: int = 900, *, phone: bool = False) -> None:
        """Sets the size of the page."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )

    def prefer(self, scheme: str) -> None:
        """Makes the system prefer `light` or `dark`."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def point(self, x: float, y: float) -> None:
        """Moves the mouse."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Writes a picture of the page as PNG."""
        import base64

        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + self._timeout
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self._in, 1 << 16) if ready else b""
            if not chunk:
                raise TimeoutError("Chromium does not answer.")
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._notice(message.get("method", ""), message.get("params", {}))
        return message

    def _notice(self, event: str, facts: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])
        elif event == "Network.loadingFailed":
            self.problems.append(facts["errorText"])
        elif event == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(facts["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning"):
            self.problems.append(json.dumps(facts["args"]))
        elif event == "Log.entryAdded" and facts["entry"]["level"] in ("error", "warning"):
            self.problems.append(facts["entry"]["text"])
        elif event == "Page.javascriptDialogOpening":
            self.dialogs.append(facts["message"])
            self._next += 1
            answer = {
                "id": self._next,
                "method": "Page.handleJavaScriptDialog",
                "params": {"accept": True},
                "sessionId": self._session,
            }
            os.write(self._out, json.dumps(answer).encode() + b"\0")
