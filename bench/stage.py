"""What a measurement stands on: the kit's pretend provider and load, proxies as processes on a core of their own, and the scheduler's own
account of what they used. Each object ends what it has started, and nothing else."""
import contextlib
import json
import os
import pathlib
import resource
import signal
import socket
import statistics
import subprocess
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
WORK = ROOT / "build/bench"
BINARY = os.environ.get("RINGMAIN_BINARY", str(ROOT / "build/release/ringmain"))
PROXY_CPU, LOAD_CPU = "0", str(min(1, os.cpu_count() - 1))
PROVIDER_PORT = 9101  # of the kit's provider that answers
MOCK_PORTS = [str(PROVIDER_PORT), "9102,status=429,retry=1", "9103,hang=1"]
TLS_PORT = 9443  # the same provider behind TLS
MOCK_DIALECTS = {"anthropic": (9104, 9106), "openai": (9105, 9107)}  # answers at once, paced


class Refused(Exception):
    """Something that the measurement needs is not to be had; the text says what."""


def wait_for(condition, what, bound=15):
    end = time.monotonic() + bound
    while not condition():
        if time.monotonic() > end:
            raise Refused(f"waited {bound} s in vain for {what}")
        time.sleep(0.02)


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class Process:
    """A program on the cores `cpus`, ready when `port` takes connections."""

    def __init__(self, name, cmd, port, cpus, env=None):
        if listens(port):
            raise Refused(f"port {port}, which {name} needs, is in use")
        self.name, self.port = name, port
        WORK.mkdir(parents=True, exist_ok=True)
        self.err = open(WORK / f"{name}.err", "wb")
        self.proc = subprocess.Popen(["taskset", "-c", cpus, *map(str, cmd)], stdout=subprocess.DEVNULL, stderr=self.err, cwd=ROOT,
                                     env={**os.environ, **(env or {})}, start_new_session=True)
        try:
            wait_for(self._is_ready, f"{name} at port {port}")
        except Refused:
            self.stop()
            raise

    def _is_ready(self):
        if self.proc.poll() is not None:
            raise Refused(f"{self.name} did not start, see {self.err.name}")
        return listens(self.port)

    def stop(self):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
            try:
                self.proc.wait(15)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        self.err.close()

    def tree(self):
        """Its pid and those of its children: nginx works in one."""
        found, todo = [], [self.proc.pid]
        while todo:
            pid = todo.pop()
            found.append(pid)
            with contextlib.suppress(OSError):
                for task in os.listdir(f"/proc/{pid}/task"):
                    todo += map(int, pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split())
        return found

    def cpu_ns(self):
        total = 0
        for pid in self.tree():
            with contextlib.suppress(OSError):
                for task in os.listdir(f"/proc/{pid}/task"):
                    total += int(pathlib.Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
        return total

    def ticks(self):
        """(user, system) seconds, by the clock's ticks."""
        fields = pathlib.Path(f"/proc/{self.proc.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return tuple(int(x) / os.sysconf("SC_CLK_TCK") for x in fields[11:13])

    def rss(self):
        return sum(int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() for pid in self.tree())


class Target:
    """Where the load goes, and with what."""

    def __init__(self, name, port, headers=(), model=None):
        self.name, self.headers, self.model = name, headers, model
        self.url = f"http://127.0.0.1:{port}/v1/chat/completions"


class Proxy(Process, Target):
    """One that is measured."""

    def __init__(self, name, cmd, port, cpus=PROXY_CPU, headers=(), model=None):
        Process.__init__(self, name, cmd, port, cpus)
        Target.__init__(self, name, port, headers, model)


class Kit:
    """The bench kit's folder: its provider, and its load."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        if not (self.folder / "proxybench").exists():
            raise Refused(f"{folder} is not the bench kit: it has no proxybench")
        if subprocess.run(["make", "-s", "-C", str(self.folder)]).returncode != 0:
            raise Refused(f"the kit in {folder} cannot be built: it must be a copy that can be written to")

    def provider(self):
        listen = [x for port in MOCK_PORTS for x in ("--listen", port)]
        return Process("mockllm", [self.folder / "mockllm", *listen], PROVIDER_PORT, LOAD_CPU)

    def command(self, proxy, *args):
        headers = [x for h in proxy.headers for x in ("-H", h)]
        model = ["--model", proxy.model] if proxy.model else []
        return ["taskset", "-c", LOAD_CPU, str(self.folder / "sseload"), *map(str, args), *model, *headers, proxy.url]

    def load(self, proxy, *args):
        return json.loads(subprocess.run(self.command(proxy, *args), stdout=subprocess.PIPE, check=True).stdout)

    def body(self, *args):
        """The request's body that these options make."""
        return subprocess.run([str(self.folder / "sseload"), *map(str, args), "--print-body", "http://127.0.0.1:1/"],
                              stdout=subprocess.PIPE, check=True).stdout

    @staticmethod
    def stats():
        with urllib.request.urlopen(f"http://127.0.0.1:{PROVIDER_PORT}/__stats") as r:
            return json.load(r)


def requests(kit, proxy, *args):
    """One run of whole answers: CPU a request, and what the clients saw."""
    cpu, t = proxy.cpu_ns(), time.monotonic()
    r = kit.load(proxy, *args)
    cpu, wall = proxy.cpu_ns() - cpu, time.monotonic() - t
    return {"cpu_us": cpu / max(r["ok"], 1) / 1e3, "rps": r["rps"], "busy": cpu / wall / 1e9, "p50_us": r["latency_us"]["p50"],
            "p99_us": r["latency_us"]["p99"], "errors": r["errors"] + (r["ok"] == 0)}


def chunks(kit, proxy, *args):
    """One run of streams: CPU a chunk."""
    cpu, t = proxy.cpu_ns(), time.monotonic()
    r = kit.load(proxy, "-s", *args)
    cpu, wall = proxy.cpu_ns() - cpu, time.monotonic() - t
    return {"cpu_ns": cpu / max(r["chunks"], 1), "chunks_per_s": r["chunks_per_s"], "busy": cpu / wall / 1e9,
            "chunks_per_read": r["chunks_per_read"], "ttft_p50_us": r["ttft_us"]["p50"], "errors": r["errors"] + (r["ok"] == 0)}


def in_turns(rounds, measures, told):
    """{name: function}: each is measured once a round, so that a drift of the machine falls on all. Medians; errors are summed."""
    got = {name: [] for name in measures}
    for n in range(rounds):
        for name, measure in measures.items():
            got[name].append(measure())
            told(f"{name} {n + 1}/{rounds}", got[name][-1])
    return {name: {k: sum(r[k] for r in rs) if k == "errors" else statistics.median(r[k] for r in rs) for k in rs[0]}
            for name, rs in got.items()}


def variant(name, **put):
    """Ringmain's configuration of the bench under a name of its own, with texts exchanged."""
    text = (HERE / "ringmain-direct.yaml").read_text().replace("../build/bench/direct.", f"{name}.")
    for old, new in put.items():
        old = {"listen": "127.0.0.1:8094", "admin": "127.0.0.1:8095", "workers": "workers: 1", "upstream_stream": "    upstream_stream: off\n", "budget": "total_budget_ms: 200",
               "routes": text[text.index("routes:"):], "providers": text[text.index("providers:"):text.index("routes:")]}[old]
        if text.count(old) != 1:
            raise Refused(f"bench/ringmain-direct.yaml has no '{old}' to exchange")
        text = text.replace(old, new)
    WORK.mkdir(parents=True, exist_ok=True)
    for old in WORK.glob(f"{name}.db*"):
        old.unlink()
    path = WORK / f"{name}.yaml"
    path.write_text(text)
    return path


def ringmain(name, port, cpus=PROXY_CPU, headers=(), model=None, **put):
    path = variant(name, listen=f"127.0.0.1:{port}", admin=f"127.0.0.1:{port + 1}", **put)
    return Proxy(name, [BINARY, "serve", "-c", path], port, cpus, headers, model)


def peers_config(file):
    """A proxy's configuration from bench/tls with this machine's folder in it."""
    path = WORK / file
    path.write_text((HERE / "tls" / file).read_text().replace("@FOLDER@", str(WORK)))
    return path


def certificate():
    """An authority and a certificate for 127.0.0.1, for as long as a bench lasts."""
    made = WORK / "provider.pem"
    run = lambda *args: subprocess.run(["openssl", *args], cwd=WORK, check=True, capture_output=True)
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    (WORK / "san.txt").write_text("subjectAltName=IP:127.0.0.1\n")
    run("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=bench authority")
    run("req", *curve, "-keyout", "provider.key", "-out", "provider.csr", "-subj", "/CN=127.0.0.1")
    run("x509", "-req", "-in", "provider.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "provider.crt",
        "-days", "2", "-extfile", "san.txt")
    made.write_text((WORK / "provider.crt").read_text() + (WORK / "provider.key").read_text())
    return made
