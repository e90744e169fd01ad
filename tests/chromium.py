"""A headless Chromium driven over a pipe, by as much of the DevTools protocol as the tests need.

Tests that use it are skipped where no Chromium is installed (`apt-get install chromium`).
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

PATH = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
ANSWER_S = 30.0

_WAIT = """new Promise((done, fail) => {
  const began = performance.now();
  const look = () => {
    let found = null;
    try { found = %s; } catch (error) { if (performance.now() - began > %d) return fail(error); }
    if (found) return done(found);
    if (performance.now() - began > %d) return fail(new Error('not in time: ' + document.body.innerText));
    setTimeout(look, 20);
  };
  look();
})"""


class Browser:
    """A browser with a profile of its own in `folder`. `close` it."""

    def __init__(self, folder: Path) -> None:
        assert PATH is not None
        (from_us, to_browser), (from_browser, to_us) = os.pipe(), os.pipe()
        theirs = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in (from_us, to_us)]  # none is 3 or 4 already
        os.close(from_us)
        os.close(to_us)
        command = [
            PATH,
            *(
                "--headless=new",
                "--remote-debugging-pipe",
                "--no-first-run",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ),
            *(
                "--hide-scrollbars",
                "--disable-background-networking",
                "--no-proxy-server",
                "--force-color-profile=srgb",
            ),
            *(("--no-sandbox",) if os.geteuid() == 0 else ()),
            f"--user-data-dir={folder}",
        ]
        # The protocol's pipe is descriptors 3 and 4 of the browser.
        shell = f'exec "$@" 3<&{theirs[0]} 4>&{theirs[1]} {theirs[0]}<&- {theirs[1]}>&-'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "chromium", *command],
            pass_fds=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for one in theirs:
            os.close(one)
        self._to, self._from = to_browser, from_browser
        self._rest = b""
        self._last_id = 0
        self.events: list[dict] = []

    def call(self, method: str, session: str | None = None, **parameters) -> dict:
        """Ask the browser something, and return its answer."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + ANSWER_S
        while (answer := self._next(until)).get("id") != self._last_id:
            self.events.append(answer)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _next(self, until: float) -> dict:
        while b"\0" not in self._rest:
            if not select.select([self._from], [], [], max(0.0, until - time.monotonic()))[0]:
                raise AssertionError("the browser does not answer")
            data = os.read(self._from, 2**20)
            if not data:
                raise AssertionError("the browser has ended")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def page(self, url: str, **settings) -> "Page":
        """Open a page."""
        return Page(self, url, **settings)

    def close(self) -> None:
        """End the browser."""
        try:
            self.call("Browser.close")
        except AssertionError:
            self._process.kill()
        self._process.wait(ANSWER_S)
        os.close(self._to)
        os.close(self._from)


class Page:
    """One tab, `width` by `height` CSS pixels."""

    def __init__(self, browser: Browser, url: str, *, width: int = 1400, height: int = 900, dark: bool = False) -> None:
        self._browser = browser
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=url)

    def call(self, method: str, **parameters) -> dict:
        """Ask something of this tab."""
        return self._browser.call(method, self._session, **parameters)

    def resize(self, width: int, height: int) -> None:
        """Have the page be of another size."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def read(self, expression: str):
        """Return what a JavaScript expression, or the promise that it is, comes to."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description") or details["text"])
        return found["result"].get("value")

    def wait(self, expression: str, timeout_s: float = 20.0):
        """Wait until an expression is true, and return it; fails with the page's text."""
        return self.read(_WAIT % (expression, timeout_s * 1e3, timeout_s * 1e3))

    @property
    def text(self) -> str:
        """What the page shows as text."""
        return self.read("document.body.innerText")

    def press(self, key: str, *, code: int = 0, text: str = "", shift: bool = False) -> None:
        """Press and let go of a key, as `KeyboardEvent.key` names it."""
        code = code or {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, " ": 32}.get(key, 0)
        text = text or {"Enter": "\r", " ": " "}.get(key, "")
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def complaints(self) -> list[str]:
        """Return the errors that the browser has told of this tab: exceptions, refusals by policy, failed loads."""
        self.read("1")
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                details = event["params"]["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details["text"])
            elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                found.append(event["params"]["entry"]["text"])
        return found

    def requested(self) -> list[str]:
        """Return the addresses that this tab has asked for."""
        sent = [e for e in self._browser.events if e.get("sessionId") == self._session]
        return [e["params"]["request"]["url"] for e in sent if e["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Write what the page looks like as a PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole, format="png", **self._clip(whole))
        path.write_bytes(base64.b64decode(data["data"]))

    def _clip(self, whole: bool) -> dict:
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    def close(self) -> None:
        """Close the tab."""
        self._browser.call("Target.closeTarget", targetId=self._target)
