"""`ringmain bench`: the scenario from end to end, its exit codes and files, real providers under a spend cap, and what it says
when things go wrong. Speeds are never asserted; what must hold on any machine is (a budget is waited out, a stall is seen)."""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import termios
import time

import pytest
from harness import BINARY, SLOW, Provider, Reply, chunk, error_json, events, free_port, http, SSE_HEAD, LAST, wait_for

ENV = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0"}


def bench(*args, bound=120, stdin=subprocess.DEVNULL, env=None, cwd=None):
    return subprocess.run([BINARY, "bench", *map(str, args)], capture_output=True, text=True, timeout=bound * SLOW, stdin=stdin,
                          env={**ENV, **(env or {})}, cwd=cwd)


SMALL = ["--quick", "--repeat", 1, "--requests", 6, "--concurrency", 3, "--no-outage"]


# ---------------------------------------------------------------- the scenario

@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """One quick run, looked at by several tests."""
    d = tmp_path_factory.mktemp("bench")
    r = bench("--quick", "--json", d / "r.json", "--html", d / "r.html", "--expect", "hang.ttft.p50_ms>=300",
              "--expect", "healthy.errors<=0", "--expect", "hang.attempts>=2")
    assert r.returncode == 0, r.stderr + r.stdout
    return r, json.loads((d / "r.json").read_text()), (d / "r.html").read_text()


def test_quick_has_every_phase_and_no_error(quick):
    _, j, _ = quick
    assert j["format"] == "ringmain-bench/1" and not j["is_partial"]
    phases = {p["name"]: p for p in j["phases"]}
    assert list(phases) == ["direct", "direct_b", "healthy", "rate_limited", "hang", "error_in_200", "double_failure", "cold", "warm", "naive"]
    for name, p in phases.items():
        assert p["ok"] == p["n"] > 0 and p["errors"] == {}, name
        assert len(p["ttft_cdf_ms"]) == 201 and p["ttft_cdf_ms"] == sorted(p["ttft_cdf_ms"]), name
        assert p["ttft_cdf_ms"][100] == p["ttft_ms"]["p50"] and p["ttft_cdf_ms"][200] == p["ttft_ms"]["max"], name
        assert p["total_ms"]["p50"] > p["ttft_ms"]["p50"], name


def test_who_served_and_how_many_attempts(quick):
    _, j, _ = quick
    phases = {p["name"]: p for p in j["phases"]}
    # a machine that stands still for a while makes a provider miss its budget of 300 ms: then the next one serves
    assert phases["healthy"]["served"]["A"] > phases["healthy"]["n"] / 2
    assert phases["healthy"]["attempts_per_request"] < 2
    for name in ("rate_limited", "hang", "error_in_200"):
        assert "A" not in phases[name]["served"] and phases[name]["served"]["B"] > phases[name]["n"] / 2
        assert 2 <= phases[name]["attempts_per_request"] < 3
    assert phases["double_failure"]["served"] == {"C": phases["double_failure"]["n"]}
    assert phases["double_failure"]["attempts_per_request"] == 3
    assert phases["naive"]["attempts_per_request"] == 3
    for name in ("cold", "warm"):
        assert phases[name]["served"] == {"standby": phases[name]["n"]}


def test_detection_is_waited_out(quick):
    """A hanging provider costs the budget and not less; a naive client twice as much; a refusal costs no budget."""
    _, j, _ = quick
    f = j["figures"]
    assert f["hang.ttft.p50_ms"] >= 300 and min(next(p for p in j["phases"] if p["name"] == "hang")["ttft_cdf_ms"]) >= 300
    assert min(next(p for p in j["phases"] if p["name"] == "naive")["ttft_cdf_ms"]) >= 600
    assert f["cold.ttft.p50_ms"] >= 300


def test_money(quick):
    _, j, _ = quick
    phases = {p["name"]: p for p in j["phases"]}
    healthy = phases["healthy"]
    # $1 in and $4 out per million tokens, to the nano-dollar
    assert healthy["tokens"]["input"] > 1000 * healthy["n"] and healthy["tokens"]["output"] == 20 * healthy["n"]
    nusd = healthy["tokens"]["input"] * 1000 + healthy["tokens"]["output"] * 4000
    usd = f"{nusd // 10**9}.{nusd % 10**9:09d}"
    assert phases["direct"]["cost_usd"] == usd
    assert abs(float(healthy["cost_usd"]) - float(healthy["waste_usd"]) - float(usd)) < 1e-8
    if healthy["attempts_per_request"] == 1:
        assert healthy["cost_usd"] == usd and float(healthy["waste_usd"]) == 0
    assert 0 < float(phases["hang"]["waste_usd"]) < float(phases["hang"]["cost_usd"])
    if phases["rate_limited"]["attempts_per_request"] == 2:
        assert float(phases["rate_limited"]["waste_usd"]) == 0  # a refusal is not billed
    through = ["healthy", "rate_limited", "hang", "error_in_200", "double_failure", "cold", "warm", "outage"]
    rows = {r["name"]: r for r in j["cost"]["by_phase"]}
    assert abs(sum(float(rows[n]["spend_usd"]) for n in through) - float(j["cost"]["spend_usd"])) < 1e-8
    assert 0 < j["cost"]["waste_pct"] < 100 and j["figures"]["waste.pct"] == j["cost"]["waste_pct"]


def test_outage_timeline(quick):
    _, j, _ = quick
    t = j["timeline"]
    n = len(t["errors"])
    assert t["providers"] == ["A", "B", "C"] and all(len(row) == n for row in t["served"]) and len(t["ttft_p50_ms"]) == n
    assert sum(t["errors"]) == 0
    marks = [m for m in t["breaker"] if m["provider"] == "A"]
    states = [m["state"] for m in marks]
    assert states[0] == "open"
    assert all(x != y for x, y in zip(states, states[1:]))
    assert marks[0]["at_ms"] >= t["outage_from_ms"]  # five budgets are waited out first
    a, b = t["served"][0], t["served"][1]
    before = t["outage_from_ms"] // t["bucket_ms"] - 2
    during = range(t["outage_from_ms"] // t["bucket_ms"] + 1, t["outage_to_ms"] // t["bucket_ms"] - 1)
    assert sum(a[:before]) > sum(b[:before])
    assert all(a[i] == 0 for i in during) and sum(b[i] for i in during) > 0


def test_figures_expectations_and_claims(quick):
    r, j, html = quick
    assert [e["holds"] for e in j["expect"]] == [True, True, True]
    assert {c["name"] for c in j["claims"]} == {"steady", "failover", "no_errors", "keepalive", "waste", "naive"}
    assert all(c["verdict"] in ("holds", "does not hold", "not measured") and c["text"] for c in j["claims"])
    for d in j["deltas"]:
        assert d["name"] in j["figures"] and d["value"] == j["figures"][d["name"]]
        if d["low"] is not None:
            assert d["low"] <= d["value"] <= d["high"] or d["low"] <= d["high"]
    assert "A hangs" in html and "ringmain-bench/1" in html
    assert "first token, ms" in r.stdout and "claims" in r.stdout


def test_progress_is_a_line_a_phase_without_a_terminal(quick):
    r, _, _ = quick
    lines = [line for line in r.stderr.splitlines() if line.startswith("round ")]
    assert len(lines) == 3 * 10 + 1 and "\r" not in r.stderr


def test_progress_is_a_bar_on_a_terminal():
    ours, theirs = pty.openpty()
    p = subprocess.Popen([BINARY, "bench", *map(str, SMALL), "--phases", "direct,hang"], stdout=subprocess.DEVNULL, stderr=theirs, env=ENV)
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # the terminal is gone when the last writer is
        while part := os.read(ours, 65536):
            seen += part
    os.close(ours)
    assert p.wait(timeout=60 * SLOW) == 0
    shown = [int(x) for x in re.findall(rb"\] +(\d+) %", seen)]
    assert shown and shown[0] == 0 and 50 <= max(shown) <= 100 and shown == sorted(shown)
    assert b"A hangs" in seen and b"round 1 of 1" in seen and seen.endswith(b"\r\x1b[K")


def test_a_bar_is_no_wider_than_the_terminal():
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    p = subprocess.Popen([BINARY, "bench", *map(str, SMALL), "--phases", "direct"], stdout=subprocess.DEVNULL, stderr=theirs, env=ENV)
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):
        while part := os.read(ours, 65536):
            seen += part
    os.close(ours)
    assert p.wait(timeout=60 * SLOW) == 0
    lines = seen.split(b"\r\x1b[K")
    assert len(lines) > 2 and max(len(line) for line in lines) == 39  # one less than the width: nothing wraps


def test_order_turns_from_round_to_round(quick):
    r, _, _ = quick
    first = [line.split(": ")[1] for line in r.stderr.splitlines() if line.startswith("round ")]
    assert first[0] == "Direct to A" and first[10] == "Direct to B" and first[20] == "Through the gateway"


def test_rounds_are_spread():
    """--every counts from the start of a round to the start of the next; nothing is waited for after the last."""
    t = time.monotonic()
    r = bench("--quick", "--repeat", 3, "--every", "4s", "--requests", 3, "--concurrency", 3, "--no-outage", "--phases", "direct", "--json", "-")
    took = time.monotonic() - t
    assert r.returncode == 0, r.stderr
    j = json.loads(r.stdout[r.stdout.index("{"):])
    assert j["settings"]["rounds"] == 3 and j["phases"][0]["n"] == 9
    assert 8 <= took < 12 + 10 * SLOW


# ---------------------------------------------------------------- expectations and usage

def test_unmet_expectation_is_exit_1():
    r = bench(*SMALL, "--phases", "direct,hang", "--expect", "hang.ttft.p50_ms<1", "--expect", "direct.n>=6")
    assert r.returncode == 1
    assert "no             hang.ttft.p50_ms<1" in r.stdout and "yes            direct.n>=6" in r.stdout


def test_what_was_not_measured_fulfils_nothing():
    r = bench(*SMALL, "--phases", "direct", "--expect", "hang.errors<=0")
    assert r.returncode == 1 and "was not measured" in r.stdout


@pytest.mark.parametrize("args, says", [
    (["--phases", "hangs"], "no phase 'hangs'; did you mean hang?"),
    (["--phases", "direct,,hang"], "no phase ''"),
    (["--expect", "stedy.ttft.p50.delta_ms<=2"], "did you mean steady.ttft.p50.delta_ms?"),
    (["--expect", "steady.ttft.p50.delta_ms"], "one of < <= > >= must stand"),
    (["--expect", "steady.ttft.p50.delta_ms<=two"], "a decimal number must stand"),
    (["--concurrency", "0"], "--concurrency: '0' is not understood"),
    (["--rate", "-3"], "--rate: '-3' is not understood"),
    (["--rate", "nan"], "--rate: 'nan' is not understood"),
    (["--every", "8"], "--every: '8' is not understood"),
    (["--nonsense"], "nonsense"),
    (["extra"], "'extra' is too much"),
    (["--route", "x"], "--route and --max-usd go with --config"),
    (["--html", "-"], "--html takes a file"),
    (["--html", "r", "--json", "r"], "the same file"),
])
def test_usage(args, says):
    r = bench(*args, bound=20)
    assert r.returncode == 2 and says in r.stderr and r.stdout == ""


def test_lists():
    r = bench("--phases", "help", bound=20)
    assert r.returncode == 0 and "rate_limited" in r.stdout
    r = bench("--expect", "help", bound=20)
    assert r.returncode == 0 and "steady.ttft.p50.delta_ms\n" in r.stdout
    assert bench("--help", bound=20).returncode == 0


# ---------------------------------------------------------------- files

def test_json_to_stdout_is_only_json():
    r = bench(*SMALL, "--phases", "direct,healthy", "--json", "-")
    assert r.returncode == 0
    assert [p["name"] for p in json.loads(r.stdout)["phases"]] == ["direct", "healthy"]
    assert "first token, ms" in r.stderr


def test_full_disk_is_told_and_the_result_kept_elsewhere(tmp_path):
    r = bench(*SMALL, "--phases", "direct", "--json", "/dev/full", env={"TMPDIR": str(tmp_path)})
    assert r.returncode == 1
    assert "/dev/full: No space left on device" in r.stderr and "it was kept in" in r.stderr
    kept = list(tmp_path.glob("ringmain-bench-*.json"))
    assert len(kept) == 1 and json.loads(kept[0].read_text())["phases"][0]["name"] == "direct"


def test_a_table_that_nobody_can_read_is_told():
    with open("/dev/full", "w") as full:
        p = subprocess.run([BINARY, "bench", *map(str, SMALL), "--phases", "direct"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60 * SLOW, env=ENV)
    assert p.returncode == 1 and "the table cannot be written to standard output" in p.stderr


def test_a_folder_that_is_not_there(tmp_path):
    """Told before the run, not after minutes of it."""
    for option in ("--html", "--json", "--resume-file"):
        r = bench(*SMALL, "--phases", "direct", option, tmp_path / "no" / "r", env={"TMPDIR": str(tmp_path)}, bound=20)
        assert r.returncode == 1 and "r: No such file or directory" in r.stderr and "round" not in r.stderr and r.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_no_place_for_logs(tmp_path):
    r = bench(*SMALL, "--phases", "direct", env={"TMPDIR": str(tmp_path / "no")}, bound=20)
    assert r.returncode == 1 and "No such file or directory" in r.stderr and "logs are in" not in r.stderr
    assert r.stdout == "PARTIAL: a phase failed. No phase was whole.\n"


def test_an_old_file_is_replaced_whole(tmp_path):
    out = tmp_path / "r.json"
    out.write_text("old" * 100000)
    assert bench(*SMALL, "--phases", "direct", "--json", out).returncode == 0
    assert json.loads(out.read_text())["format"] == "ringmain-bench/1"
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


def test_nothing_is_left_behind(tmp_path):
    assert bench(*SMALL, "--phases", "direct", env={"TMPDIR": str(tmp_path)}).returncode == 0
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- rounds of other days

def test_rounds_are_merged(tmp_path):
    rounds, out = tmp_path / "rounds.json", tmp_path / "r.json"
    args = [*SMALL, "--phases", "direct,healthy", "--resume-file", rounds, "--json", out]
    assert bench(*args).returncode == 0
    first = json.loads(out.read_text())
    assert bench(*args).returncode == 0
    both = json.loads(out.read_text())
    assert first["settings"]["rounds"] == 1 and both["settings"]["rounds"] == 2
    assert [p["n"] for p in first["phases"]] == [6, 6] and [p["n"] for p in both["phases"]] == [12, 12]
    low, high = min(first["phases"][0]["ttft_cdf_ms"]), max(first["phases"][0]["ttft_cdf_ms"])
    assert min(both["phases"][0]["ttft_cdf_ms"]) <= low and max(both["phases"][0]["ttft_cdf_ms"]) >= high
    r = bench(*SMALL, "--budget-ms", 250, "--phases", "direct", "--resume-file", rounds, bound=20)
    assert r.returncode == 1 and "measured under other settings" in r.stderr


def test_rounds_file_that_is_none(tmp_path):
    rounds = tmp_path / "rounds.json"
    rounds.write_text("{}")
    r = bench(*SMALL, "--phases", "direct", "--resume-file", rounds, bound=20)
    assert r.returncode == 1 and "no file of rounds" in r.stderr and rounds.read_text() == "{}"


# ---------------------------------------------------------------- Ctrl-C

def test_ctrl_c_writes_what_there_is(tmp_path):
    out = tmp_path / "r.json"
    p = subprocess.Popen([BINARY, "bench", "--quick", "--json", str(out), "--html", str(tmp_path / "r.html")], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, env={**ENV, "TMPDIR": str(tmp_path)})
    seen = []
    for line in p.stderr:
        seen.append(line)
        if "A answers 429" in line:
            break
    p.send_signal(signal.SIGINT)
    stdout, _ = p.communicate(timeout=30 * SLOW)
    assert p.returncode == 130, "".join(seen)
    j = json.loads(out.read_text())
    assert j["is_partial"] and j["partial_reason"] == "interrupted"
    names = [x["name"] for x in j["phases"]]
    assert names[:4] == ["direct", "direct_b", "healthy", "rate_limited"] and "naive" not in names
    assert "PARTIAL: interrupted" in stdout and (tmp_path / "r.html").stat().st_size > 10000
    assert sorted(x.name for x in tmp_path.iterdir()) == ["r.html", "r.json"]  # no child, no folder is left


# ---------------------------------------------------------------- open loop

def children(pid):
    """Process ids of its children that run, by subcommand."""
    out = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{child}/cmdline").read_text().split("\0")
                out.setdefault(words[1] if len(words) > 1 else "", []).append(int(child))
    return out


def is_over(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    return True


def start_quick(tmp_path, *more, **kw):
    """A run that has its gateway and both mocks, and their ids."""
    p = subprocess.Popen([BINARY, "bench", "--quick", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**ENV, "TMPDIR": str(tmp_path)}, **kw)
    found = wait_for(lambda: (c := children(p.pid)) and len(c.get("mock", [])) == 2 and "serve" in c and c, 60, "the children")
    return p, [*found["mock"], *found["serve"]]


@pytest.mark.parametrize("sig", [signal.SIGHUP, signal.SIGTERM])
def test_a_lost_terminal_is_as_ctrl_c(tmp_path, sig):
    p, pids = start_quick(tmp_path, preexec_fn=lambda: signal.signal(sig, signal.SIG_DFL))  # whoever runs the tests may ignore it
    p.send_signal(sig)
    out, _ = p.communicate(timeout=60 * SLOW)
    assert p.returncode == 130 and out.startswith("PARTIAL: interrupted")
    assert all(is_over(pid) for pid in pids) and list(tmp_path.iterdir()) == []


def test_nohup_is_kept_to(tmp_path):
    p, _ = start_quick(tmp_path, "--repeat", "1", "--no-outage", "--phases", "direct", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    p.send_signal(signal.SIGHUP)
    out, err = p.communicate(timeout=60 * SLOW)
    assert p.returncode == 0 and "PARTIAL" not in out, err


def test_a_killed_bench_leaves_no_process(tmp_path):
    p, pids = start_quick(tmp_path)
    p.kill()
    p.communicate(timeout=20 * SLOW)
    wait_for(lambda: all(is_over(pid) for pid in pids), 60, "the children to end by themselves")


def test_a_gateway_that_dies_is_told(tmp_path):
    p, _ = start_quick(tmp_path)
    os.kill(children(p.pid)["serve"][0], signal.SIGKILL)
    out, err = p.communicate(timeout=120 * SLOW)
    assert p.returncode == 1 and "the gateway ended; see the logs in" in err and out.startswith("PARTIAL: a phase failed")
    assert len(list(tmp_path.glob("ringmain-bench-*/gateway.log"))) == 1


def test_open_loop_keeps_its_rate():
    r = bench(*SMALL, "--phases", "healthy", "--rate", 20, "--requests", 30, "--json", "-")
    assert r.returncode == 0
    j = json.loads(r.stdout)
    assert j["settings"]["rate"] == 20 and j["phases"][0]["n"] == 30
    assert j["figures"]["behind.max_ms"] is not None and j["figures"]["behind.max_ms"] >= 0
    assert "behind its due times" in r.stderr


# ---------------------------------------------------------------- real providers

PRICES = {"real/m": {"input": "1.00", "output": "4.00"}}


def streaming(delay=0.0):
    def script(req):
        parts = [SSE_HEAD, delay] if delay else [SSE_HEAD]
        return Reply(*parts, *[chunk(e) for e in events("openai", ["Hello", " you"], model="m", usage=(1400, 2))], LAST)
    return script


def real_config(tmp_path, port, **more):
    config = {"prices": PRICES, "providers": {"real": {"dialect": "openai", "base_url": f"http://127.0.0.1:{port}/v1", "api_key": "${BENCH_KEY}"}},
              "routes": [{"model": "flagship", "chain": [{"provider": "real", "model": "m", "retries": 0}]}], **more}
    path = tmp_path / "real.yaml"
    path.write_text(json.dumps(config))
    return path


def real(tmp_path, port, *args, config=None, **kw):
    path = config or real_config(tmp_path, port)
    return bench("--config", path, "--repeat", 1, "--requests", 6, "--concurrency", 2, "--budget-ms", 200, "--json", tmp_path / "r.json",
                 *args, env={"BENCH_KEY": "sk-real", "TMPDIR": str(tmp_path)}, **kw)


@pytest.fixture
def provider():
    p = Provider(streaming())
    yield p
    p.close()


def test_real_providers(tmp_path, provider):
    r = real(tmp_path, provider.port, "--max-usd", 1, "--yes")
    assert r.returncode == 0, r.stderr
    j = json.loads((tmp_path / "r.json").read_text())
    phases = {p["name"]: p for p in j["phases"]}
    assert list(phases) == ["direct", "direct_b", "healthy", "rate_limited", "hang", "error_in_200", "double_failure", "naive"]
    for name, p in phases.items():
        assert p["ok"] == 6 and p["served"] == {"real": 6}, name
    assert phases["hang"]["ttft_cdf_ms"][0] >= 200 and phases["double_failure"]["attempts_per_request"] == 3
    # every request that reached it was ours: 8 phases less the one that is shared, 2 to warm up
    assert len(provider.requests) == 7 * 6 + 2
    assert all(q.headers["authorization"] == "Bearer sk-real" and q.json["model"] == "m" for q in provider.requests)
    assert phases["hang"]["cost_usd"] == "0.008448000"  # 6 times 1400 in and 2 out; the pretend link is no money
    assert next(c for c in j["claims"] if c["name"] == "waste")["verdict"] == "not measured"
    assert j["settings"]["providers"][0]["price"] == "$1.00 in, $4.00 out per million tokens"


@pytest.fixture
def secure(tmp_path):
    """A provider behind TLS, with a key, speaking either dialect: `ringmain mock` itself."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", tmp_path / "key.pem", "-out", tmp_path / "ca.pem",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
    tls = {"cert": "ca.pem", "key": "key.pem"}
    one, two = free_port(), free_port()
    (tmp_path / "mock.yaml").write_text(json.dumps({"providers": [
        {"name": "one", "listen": f"127.0.0.1:{one}", "key": "k-one", "tls": tls, "ttft": 5, "gap_ms": 1, "tokens": 4},
        {"name": "two", "listen": f"127.0.0.1:{two}", "key": "k-two", "tls": tls, "ttft": 5, "gap_ms": 1, "tokens": 4, "dialect": "anthropic"}]}))
    p = subprocess.Popen([BINARY, "mock", "-c", str(tmp_path / "mock.yaml")], stdout=subprocess.PIPE, text=True, env=ENV)
    assert "one" in p.stdout.readline() and "two" in p.stdout.readline()
    yield one, two
    p.terminate()
    p.wait(timeout=10 * SLOW)


def test_tls_files_beside_the_config_and_other_dialects(tmp_path, secure):
    """Paths of the file count from its folder, also in the run's own copy; a route of another dialect has no direct path."""
    one, two = secure
    (tmp_path / "key-one").write_text("k-one\n")
    (tmp_path / "key-one").chmod(0o600)
    config = real_config(tmp_path, 0, prices={"one/m": {"input": "1", "output": "1"}, "two/m": {"input": "1", "output": "1"}}, providers={
        "one": {"dialect": "openai", "base_url": f"https://localhost:{one}/v1", "api_key_file": "key-one", "ca_file": "ca.pem"},
        "two": {"dialect": "anthropic", "base_url": f"https://localhost:{two}", "api_key": "k-two", "ca_file": "ca.pem"}},
        routes=[{"model": "m", "order": ["one", "two"]}, {"model": "claude", "keepalive_sec": 30, "chain": [{"provider": "two", "model": "m"}]}])
    r = real(tmp_path, 0, "--max-usd", 1, "--yes", "--phases", "direct,healthy,hang", config=config)
    assert r.returncode == 0, r.stderr
    assert all(p["served"] == {"one": 6} for p in json.loads((tmp_path / "r.json").read_text())["phases"])
    r = real(tmp_path, 0, "--max-usd", 1, "--yes", "--route", "claude", config=config)
    assert r.returncode == 0, r.stderr
    phases = json.loads((tmp_path / "r.json").read_text())["phases"]
    assert [p["name"] for p in phases] == ["healthy", "rate_limited", "hang", "error_in_200", "double_failure"]
    assert all(p["served"] == {"two": 6} for p in phases)


def test_the_cap_is_kept(tmp_path, provider):
    """Whatever a request costs at most, their sum never passes the cap: not even if each one had cost that."""
    r = real(tmp_path, provider.port, "--max-usd", "0.02", "--yes", "--max-tokens", 64)
    assert r.returncode == 1 and "stopped at the spend cap" in r.stderr
    j = json.loads((tmp_path / "r.json").read_text())
    assert j["is_partial"] and j["partial_reason"] == "the spend cap was reached"
    actual = len(provider.requests) * (1400 * 1000 + 2 * 4000) / 1e9
    body = max(len(q.body) for q in provider.requests)
    worst = (body // 2 * 1000 + 64 * 4000) / 1e9
    assert actual <= 0.02
    # it was stopped by what the next one might have cost, and not long before
    assert 1 <= len(provider.requests) and actual + 2 * worst > 0.02


def test_the_cap_counts_answers_without_usage_as_the_worst(tmp_path):
    p = Provider(lambda req: Reply(SSE_HEAD, *[chunk(e) for e in events("openai", ["Hi"], model="m", usage=None)], LAST))
    try:
        r = real(tmp_path, p.port, "--max-usd", "0.02", "--yes", "--phases", "direct", "--requests", 100)
        assert r.returncode == 1 and "stopped at the spend cap" in r.stderr
        body = max(len(q.body) for q in p.requests)
        worst = (body // 2 * 1000 + 64 * 4000) / 1e9
        assert len(p.requests) * worst <= 0.02 < (len(p.requests) + 1) * worst
    finally:
        p.close()


def test_cost_is_agreed_to_first(tmp_path, provider):
    r = real(tmp_path, provider.port, "--max-usd", 1)
    assert r.returncode == 2 and "--yes agrees" in r.stderr and "$1.00" in r.stderr
    r = real(tmp_path, provider.port)
    assert r.returncode == 2 and "--max-usd says what that may cost" in r.stderr
    assert provider.requests == []


def test_a_price_that_is_not_known(tmp_path, provider):
    r = real(tmp_path, provider.port, "--max-usd", 1, "--yes", config=real_config(tmp_path, provider.port, prices={}))
    assert r.returncode == 2 and "the price of real/m is not known" in r.stderr and provider.requests == []


def test_unknown_route_and_faulty_config(tmp_path, provider):
    r = real(tmp_path, provider.port, "--max-usd", 1, "--yes", "--route", "flagshp")
    assert r.returncode == 1 and "no route 'flagshp'; it has flagship" in r.stderr
    r = real(tmp_path, provider.port, "--max-usd", 1, "--yes", config=tmp_path / "none.yaml")
    assert r.returncode == 1 and "none.yaml" in r.stderr
    r = real(tmp_path, provider.port, "--max-usd", 1, "--yes", "--phases", "cold")
    assert r.returncode == 2 and "cold takes pretend providers" in r.stderr


def test_unreachable_target(tmp_path):
    r = real(tmp_path, free_port(), "--max-usd", 1, "--yes")
    assert r.returncode == 1 and "1 of 1 requests failed in the baseline (Direct to A): 1 refused" in r.stderr
    assert json.loads((tmp_path / "r.json").read_text())["is_partial"]


def test_a_baseline_that_fails(tmp_path):
    p = Provider(lambda req: Reply(http(401, error_json("openai", 401, "invalid_request_error"))))
    try:
        r = real(tmp_path, p.port, "--max-usd", 1, "--yes")
        assert r.returncode == 1 and "failed in the baseline (Direct to A): 1 status_401" in r.stderr
        assert len(p.requests) == 1
    finally:
        p.close()


def test_no_secret_is_written(tmp_path, provider):
    r = real(tmp_path, provider.port, "--max-usd", 1, "--yes", "--phases", "healthy", "--keep")
    assert r.returncode == 0
    for f in tmp_path.rglob("*"):
        if f.is_file():
            assert b"sk-real" not in f.read_bytes(), f
