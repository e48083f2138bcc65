"""A headless Chromium, driven over its own debugging pipe: two descriptors, JSON messages that end with a NUL. No port is
opened and no driver program is needed (docs/decisions has the why). `Browser` is the process, `Page` one tab with what it
logged, threw, asked the network for and was forbidden."""
import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time

BOUND = 60 * float(os.environ.get("RINGMAIN_TEST_SLOWDOWN", "1"))  # seconds for any one answer; a busy machine is slow

FLAGS = ["--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions", "--mute-audio",
         "--force-color-profile=srgb", "--lang=en-GB"]

WATCH = """window.violations = [];
document.addEventListener("securitypolicyviolation", e => window.violations.push(e.violatedDirective + " " + e.blockedURI));"""


def program():
    found = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
    assert found, "no Chromium: scripts/setup installs it"
    return found


class Browser:
    def __init__(self, folder):
        to_us, from_them = os.pipe()
        to_read, to_them = os.pipe()

        def wire():  # Chromium reads descriptor 3 and writes descriptor 4
            ours = fcntl.fcntl(to_read, fcntl.F_DUPFD, 64), fcntl.fcntl(from_them, fcntl.F_DUPFD, 64)  # clear of 3 and 4
            os.dup2(ours[0], 3), os.dup2(ours[1], 4)
            os.close(ours[0]), os.close(ours[1])

        flags = FLAGS + [f"--user-data-dir={folder}"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
        self.log = open(folder / "chromium.log", "wb")
        self.process = subprocess.Popen([program(), *flags, "about:blank"], preexec_fn=wire, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, start_new_session=True)
        os.close(to_read), os.close(from_them)
        self.inlet, self.outlet, self.rest, self.n, self.events = to_us, to_them, b"", 0, []

    def receive(self, until):
        while b"\0" not in self.rest:
            left = until - time.monotonic()
            assert left > 0 and select.select([self.inlet], [], [], left)[0], "Chromium gives no answer"
            data = os.read(self.inlet, 1 << 20)
            assert data, "Chromium ended"
            self.rest += data
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def ask(self, method, session=None, **params):
        """Sends a command and returns its result; events that arrive meanwhile are kept."""
        self.n += 1
        message = {"id": self.n, "method": method, "params": params, **({"sessionId": session} if session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.outlet, data):]
        until = time.monotonic() + BOUND
        while True:
            got = self.receive(until)
            if got.get("id") == self.n:
                assert "error" not in got, (method, got)
                return got["result"]
            self.events.append(got)

    def wait_event(self, session, method):
        until = time.monotonic() + BOUND
        while not any(e.get("method") == method and e.get("sessionId") == session for e in self.events):
            self.events.append(self.receive(until))

    def page(self, **kw):
        return Page(self, **kw)

    def close(self):
        try:
            self.ask("Browser.close")
            self.process.wait(BOUND)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            os.close(self.inlet), os.close(self.outlet)
            self.log.close()


class Page:
    def __init__(self, browser, width=1400, height=900, dark=False, reduced=False, zoom=1):
        """`zoom` works as the browser's own: fewer CSS pixels, each larger."""
        self.browser = browser
        self.target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.ask("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")
        self.size(width, height, zoom)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                                                         {"name": "prefers-reduced-motion", "value": "reduce" if reduced else "no-preference"}])
        self.ask("Page.addScriptToEvaluateOnNewDocument", source=WATCH)

    def ask(self, method, **params):
        return self.browser.ask(method, self.session, **params)

    def size(self, width, height=900, zoom=1):
        self.ask("Emulation.setDeviceMetricsOverride", width=int(width / zoom), height=int(height / zoom), deviceScaleFactor=zoom, mobile=False)

    def open(self, path):
        self.browser.events = [e for e in self.browser.events if e.get("sessionId") != self.session]
        self.url = path.as_uri()
        self.ask("Page.navigate", url=self.url)
        self.browser.wait_event(self.session, "Page.loadEventFired")
        self.settle()
        return self

    def settle(self):
        """Waits until the page has had two frames, so that observers of its size have run."""
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def js(self, expression):
        got = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, got["exceptionDetails"]
        return got["result"].get("value")

    def key(self, key, code=None):
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, windowsVirtualKeyCode={"Tab": 9, "Enter": 13, "ArrowRight": 39, "End": 35}.get(key, 0))

    def point(self, x, y):
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def mine(self, method):
        return [e["params"] for e in self.browser.events if e.get("sessionId") == self.session and e.get("method") == method]

    def faults(self):
        """Everything that went wrong in the page: exceptions, the console's errors and warnings, the browser's own log, what its
        policy forbade."""
        violations = self.js("window.violations")  # what was told before this answer has arrived
        thrown = [p["exceptionDetails"] for p in self.mine("Runtime.exceptionThrown")]
        console = [p for p in self.mine("Runtime.consoleAPICalled") if p["type"] in ("error", "warning", "assert")]
        logged = [p["entry"]["text"] for p in self.mine("Log.entryAdded") if p["entry"]["level"] in ("error", "warning")]
        return thrown + console + logged + violations

    def requests(self):
        """What was asked of anything but the page's own bytes."""
        urls = [p["request"]["url"] for p in self.mine("Network.requestWillBeSent")]
        return [u for u in urls if not u.startswith("data:") and u.split("#")[0] != self.url]

    def shot(self, path, whole=True):
        data = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(data["data"]))

    def close(self):
        self.browser.ask("Target.closeTarget", targetId=self.target)
