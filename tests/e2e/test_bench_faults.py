"""`ringmain bench faults`: sixteen passes for this gateway, and the right verdicts for gateways that are bad on purpose. A bench
that cannot fail a bad gateway proves nothing."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile

import pytest

from harness import BINARY, ROOT, SLOW, Provider, Reply, error_json, free_port, http, openai_chunk, read_response, stream, wait_for, whole

SPEED = 4
FAST = 10  # where a verdict does not hang on how fast this machine is
SHIPPED = (ROOT / "bench/failover-bench.yaml").read_text()
ALL = [f"S{n:02}" for n in range(1, 17)]


@pytest.fixture(scope="module", autouse=True)
def folders():
    """A failed run leaves its logs; here they go."""
    with tempfile.TemporaryDirectory(prefix="fb") as d:
        patch = pytest.MonkeyPatch()
        patch.setenv("TMPDIR", d)
        yield
        patch.undo()


def bench(*args, bound=60):
    env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0"}
    p = subprocess.run([BINARY, "bench", "faults", *args], capture_output=True, text=True, timeout=bound * SLOW, env=env)
    assert "ERROR: " not in p.stderr and "runtime error" not in p.stderr, p.stderr
    return p


def result(*args, code=0, bound=60):
    p = bench(*args, "--json", bound=bound)
    assert p.returncode == code, (p.returncode, p.stdout, p.stderr)
    return json.loads(p.stdout)


def verdicts(r):
    return {s["id"]: s["verdict"] for s in r["scenarios"]}


def row(r, sid):
    return next(s for s in r["scenarios"] if s["id"] == sid)


def check(r, sid, name):
    return next(c["status"] for c in row(r, sid)["checks"] if c["id"] == name)


class Wall:
    def __init__(self, speed=SPEED):
        self.proc = subprocess.Popen([BINARY, "mock", "--listen", "127.0.0.1:0", "--fb-speed", str(speed)], stdout=subprocess.PIPE, text=True)
        self.port = int(self.proc.stdout.readline().split()[-1])
        self.at = f"127.0.0.1:{self.port}"

    def send(self, body):
        s = socket.create_connection(("127.0.0.1", self.port))
        s.settimeout(60 * SLOW)
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        return s

    def ask(self, body):
        """A response, or None when the connection broke before there was one."""
        try:
            with contextlib.closing(self.send(body)) as s:
                return read_response(s)
        except (AssertionError, OSError):
            return None


@pytest.fixture
def wall():
    walls = []

    def start(speed=SPEED):
        walls.append(Wall(speed))
        return walls[-1]
    yield start
    for w in walls:
        w.proc.send_signal(signal.SIGTERM)
        assert w.proc.wait(10 * SLOW) == 0


# ---------------------------------------------------------------- this gateway

def test_sixteen_passes():
    r = result("--quick", "--expect-pass", "16", bound=90)
    assert verdicts(r) == dict.fromkeys(ALL, "pass"), [(s["id"], s["verdict"], s["reason"]) for s in r["scenarios"]]
    assert r["summary"] == {"pass": 16, "partial": 0, "safe": 0, "fail": 0} and r["is_partial"] is False
    assert [a["status"] for a in row(r, "S01")["attempts"]] == [429, 200]
    assert [(a["model"], a["status"]) for a in row(r, "S12")["attempts"]] == [("fb-s12-context-length", 400), ("fb-ok", 200)]
    assert row(r, "S13")["attempts_fallback"] == 0 and "content_policy_violation" in row(r, "S13")["reason"]
    assert row(r, "S06")["attempts_primary"] == 1
    assert row(r, "S16")["model_told"] == "fb-ok" and row(r, "S16")["usage_told"] is True
    assert row(r, "S14")["prefills_refused"] == 0
    assert all(s["words"] == 60 for s in r["scenarios"] if s["id"] != "S13")


def test_table_for_people():
    p = bench("--only", "s12,S03", "--speed", "4")
    assert p.returncode == 0
    lines = p.stdout.splitlines()
    assert lines[0].split() == ["scenario", "verdict", "primary", "fallback", "seconds", "why"]
    assert lines[1].startswith("S03  500 once, then healthy") and lines[2].startswith("S12  Prompt too long")
    assert lines[-1] == "2 pass, 0 partial, 0 safe, 0 fail"
    assert [line.split()[:2] for line in p.stderr.splitlines()] == [["S03", "pass"], ["S12", "pass"]]


def test_shipped_file_works_as_it_stands(tmp_path):
    p = subprocess.run([BINARY, "check", "-c", str(ROOT / "bench/failover-bench.yaml"), "--json"], capture_output=True, text=True)
    assert p.returncode == 0, p.stdout
    routes = {r["model"]: [link["model"] for link in r["links"]] for r in json.loads(p.stdout)["routes"]}
    assert len(routes) == 17 and routes["fb-ok"] == ["fb-ok"]
    for model, links in routes.items():
        assert model == "fb-ok" or links == [model, "fb-ok-noprefill" if "s14" in model else "fb-ok"]


def test_every_departure_from_the_defaults_is_named():
    defaults = SHIPPED[SHIPPED.index("defaults:"):SHIPPED.index("routes:")].splitlines()[1:]
    settings = [line for line in defaults if line.strip() and not line.strip().endswith("breaker:")]
    assert len(settings) >= 7
    for line in settings:
        assert "# default: " in line, line


# ---------------------------------------------------------------- this gateway, configured badly

def variant(tmp_path, **replace):
    text = SHIPPED
    for old, new in replace.items():
        old = old.replace("__", ": ")
        assert old in text, old
        text = text.replace(old, new)
    path = tmp_path / "variant.yaml"
    path.write_text(text)
    return str(path)


def test_resume_off_is_safe(tmp_path):
    path = variant(tmp_path, resume__on="resume: off")
    r = result("--config", path, "--speed", str(FAST), "--only", "S08,S09,S10,S14,S11")
    assert verdicts(r) == {"S08": "safe", "S09": "safe", "S10": "safe", "S14": "safe", "S11": "pass"}
    assert all(row(r, s)["outcome"] == "error" for s in ("S08", "S09", "S10", "S14"))
    assert check(r, "S10", "recovered_in_place") == "bad" and check(r, "S10", "alive_after") == "good"


def alone(tmp_path):
    """No fallback, no retries, no waiting, no resume."""
    lines = [line for line in SHIPPED.splitlines() if not ("provider: fallback" in line and "supports" in line)]
    text = "\n".join(lines) + "\n"
    for old, new in (("retries: 2", "retries: 0"), ("wait_retry_after_ms: 3000", "wait_retry_after_ms: 0"), ("resume: on", "resume: off")):
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "alone.yaml"
    path.write_text(text)
    return str(path)


def test_no_fallback_and_no_retries(tmp_path):
    r = result("--config", alone(tmp_path), "--speed", str(FAST), "--only", "S01,S02,S03,S04,S07,S08,S10,S11,S12,S13,S14,S15,S16", code=1)
    assert verdicts(r) == {"S01": "safe", "S02": "safe", "S03": "safe", "S04": "safe", "S07": "partial", "S08": "safe", "S10": "safe",
                           "S11": "pass", "S12": "safe", "S13": "pass", "S14": "safe", "S15": "fail", "S16": "safe"}
    assert "0 of 15 calls answered" in row(r, "S15")["reason"]
    assert row(r, "S01")["attempts_primary"] == 1 and row(r, "S01")["attempts_fallback"] == 0


def test_a_silent_provider_ends_at_the_deadline(tmp_path):
    r = result("--config", alone(tmp_path), "--speed", "20", "--only", "S06")
    assert verdicts(r) == {"S06": "safe"}
    assert row(r, "S06")["wall_ms"] >= 90000 / 20


# ---------------------------------------------------------------- no gateway at all

DIRECT = {"S01": "safe", "S02": "safe", "S03": "safe", "S04": "safe", "S05": "safe", "S07": "partial", "S08": "safe", "S09": "safe",
          "S10": "pass", "S11": "pass", "S12": "safe", "S13": "pass", "S14": "safe", "S15": "fail", "S16": "safe"}


def test_direct(wall):
    w = wall(FAST)
    only = ",".join(DIRECT)
    r = result("--base-url", f"http://{w.at}/v1", "--wall", w.at, "--speed", str(FAST), "--only", only, code=1)
    assert verdicts(r) == DIRECT
    assert row(r, "S10")["malformed_events"] == 1
    assert all(s["attempts_primary"] == 1 for s in r["scenarios"] if s["id"] != "S15")
    assert row(r, "S15")["attempts_primary"] == 20


def test_direct_declares_no_fallback(wall):
    w = wall(10)
    r = result("--base-url", f"http://{w.at}/v1", "--wall", w.at, "--speed", "10", "--only", "S07,S15", "--no-fallback")
    assert verdicts(r) == {"S07": "pass", "S15": "safe"}
    assert check(r, "S07", "ttft_limit") == "not_applicable" and check(r, "S15", "recovered") == "not_applicable"


def test_direct_silence_takes_too_long(wall):
    w = wall(20)
    r = result("--base-url", f"http://{w.at}/v1", "--wall", w.at, "--speed", "20", "--only", "S06", code=1)
    assert verdicts(r) == {"S06": "fail"}
    assert "at most 5.0 s" in row(r, "S06")["reason"]


# ---------------------------------------------------------------- gateways that are bad on purpose

def through(w, script, only, code, speed=SPEED, *args):
    """Runs the bench against a small gateway: script(body as dict, raw body) -> Reply; fb-ok itself is answered well."""
    def answer(req):
        body = req.json
        if body["model"] == "fb-ok":
            r = w.ask(req.body)
            return Reply(http(r.status, r.body))
        return script(body, req.body)
    p = Provider(answer)
    try:
        return result("--base-url", f"http://127.0.0.1:{p.port}/v1", "--wall", w.at, "--speed", str(speed), "--only", only, *args, code=code)
    finally:
        p.close()


def relay(r):
    """A response of the wall, passed on as it came."""
    if r is None:
        return Reply(http(502, error_json("openai", 502, message="upstream broke")))
    if r.status != 200:
        return Reply(http(r.status, r.body))
    return stream(r.body, last=r.is_whole, end="keep" if r.is_whole else "close")


def with_model(body, model):
    return json.dumps({**body, "model": model}).encode()


def test_a_hammering_gateway_fails(wall):
    w = wall()

    def hammer(body, raw):
        for _ in range(50):
            r = w.ask(raw)
            if r is not None and r.status == 200:
                break
        return relay(r)
    r = through(w, hammer, "S01,S02,S03,S04,S12,S13,S16", 1)
    assert verdicts(r) == {"S01": "partial", "S02": "fail", "S03": "pass", "S04": "fail", "S12": "fail", "S13": "fail", "S16": "fail"}
    assert row(r, "S02")["attempts_primary"] == 50 and check(r, "S02", "no_hammer") == "bad"
    assert "50 attempts" in row(r, "S04")["reason"]


def cut_text(r):
    events = r.body.split(b"\n\n")
    return [e + b"\n\n" for e in events if e.startswith(b"data: {")]


def test_a_truncated_answer_as_success_fails(wall):
    w = wall()

    def patch_up(body, raw):
        r = w.ask(raw)
        return stream(*cut_text(r), openai_chunk({}, "stop"), b"data: [DONE]\n\n")
    r = through(w, patch_up, "S08,S14", 1)
    assert verdicts(r) == {"S08": "fail", "S14": "fail"}
    assert "40 words of 60" in row(r, "S08")["reason"] and row(r, "S08")["outcome"] == "truncated"

    def just_end(body, raw):
        return stream(*cut_text(w.ask(raw)))
    r = through(w, just_end, "S08", 1)
    assert verdicts(r) == {"S08": "fail"} and row(r, "S08")["outcome"] == "truncated"


def test_an_error_that_looks_like_an_end_fails(wall):
    w = wall()

    def mask(body, raw):
        error = b"data: " + json.dumps(error_json("openai", 502)).encode() + b"\n\n"
        return stream(*cut_text(w.ask(raw)), error, b"data: [DONE]\n\n")
    r = through(w, mask, "S08", 1)
    assert verdicts(r) == {"S08": "fail"} and row(r, "S08")["outcome"] == "masked_error"

    def clean(body, raw):
        error = b"data: " + json.dumps(error_json("openai", 502)).encode() + b"\n\n"
        return stream(*cut_text(w.ask(raw)), error, end="hang", last=False)
    r = through(w, clean, "S08", 0)
    assert verdicts(r) == {"S08": "safe"}, "a client that was told an error does not wait for the end"


def test_a_doubled_text_fails(wall):
    w = wall()

    def restart(body, raw):
        first = cut_text(w.ask(raw))
        return stream(*first, w.ask(with_model(body, "fb-ok")).body)
    r = through(w, restart, "S08", 1)
    assert verdicts(r) == {"S08": "fail"} and row(r, "S08")["words"] == 99, "two of them run together"


def test_a_hang_fails(wall):
    w = wall(20)
    r = through(w, lambda body, raw: Reply(end="hang"), "S03,S12", 1, 20)
    assert verdicts(r) == {"S03": "fail", "S12": "fail"}
    assert row(r, "S03")["outcome"] == "hang" and "no end within 1.0 s" in row(r, "S03")["reason"]
    assert row(r, "S03")["alive_after"] is True


def test_masking_by_the_prefill_refusal_fails(wall):
    w = wall()

    def mask(body, raw):
        so_far = "".join(json.loads(e[6:])["choices"][0]["delta"].get("content", "") for e in cut_text(w.ask(raw)))
        body["messages"].append({"role": "assistant", "content": so_far})
        return relay(w.ask(with_model(body, "fb-ok-noprefill")))
    r = through(w, mask, "S14", 1)
    assert verdicts(r) == {"S14": "fail"}
    assert row(r, "S14")["prefills_refused"] == 1 and check(r, "S14", "no_prefill_masking") == "bad"


def test_the_wrong_name_on_the_answer_fails(wall):
    w = wall()

    def rename(body, raw):
        w.ask(raw)
        r = w.ask(with_model(body, "fb-ok"))
        return stream(r.body.replace(b'"fb-ok"', b'"fb-s16-503-persistent"'))
    r = through(w, rename, "S16", 1)
    assert verdicts(r) == {"S16": "fail"} and check(r, "S16", "names_the_fallback") == "bad"

    def drop_usage(body, raw):
        w.ask(raw)
        del body["stream_options"]
        return relay(w.ask(with_model(body, "fb-ok")))
    r = through(w, drop_usage, "S16", 0)
    assert verdicts(r) == {"S16": "partial"} and check(r, "S16", "usage_told") == "bad"


def test_going_around_a_refusal_is_partial(wall):
    w = wall()

    def around(body, raw):
        w.ask(raw)
        return relay(w.ask(with_model(body, "fb-ok")))
    r = through(w, around, "S12,S13", 0)
    assert verdicts(r) == {"S12": "pass", "S13": "partial"}
    assert row(r, "S13")["attempts_fallback"] == 1, "told apart by the request's user from what others ask of fb-ok"


def test_never_going_back_to_the_primary_fails(wall):
    w = wall(10)
    r = through(w, lambda body, raw: relay(w.ask(with_model(body, "fb-ok"))), "S15", 1, 10)
    assert verdicts(r) == {"S15": "fail"}
    assert check(r, "S15", "served_during_outage") == "good" and check(r, "S15", "recovered") == "bad"


def test_dying_after_a_stall_fails(wall):
    """It ends well, but every call after it is refused."""
    w = wall(10)
    seen = []

    def answer(req):
        if req.json["model"] != "fb-ok":
            seen.append(req)
            return Reply(http(502, error_json("openai", 502)))
        if seen:
            return Reply(http(500, error_json("openai", 500)))
        r = w.ask(req.body)
        return Reply(http(r.status, r.body))
    p = Provider(answer)
    try:
        r = result("--base-url", f"http://127.0.0.1:{p.port}/v1", "--wall", w.at, "--speed", "10", "--only", "S09,S08", code=1)
    finally:
        p.close()
    assert verdicts(r) == {"S08": "safe", "S09": "fail"}
    assert check(r, "S09", "alive_after") == "bad" and row(r, "S08")["alive_error"].startswith("HTTP 500")


# ---------------------------------------------------------------- bad input

@pytest.mark.parametrize("args, told", [
    (["--only", "S17"], "no scenario 'S17'"),
    (["--only", ""], "no scenario ''"),
    (["--only", "S01,,S02"], "no scenario ''"),
    (["--speed", "0"], "1 to 20"),
    (["--speed", "x"], "1 to 20"),
    (["--expect-pass", "17"], "0 to 16"),
    (["--base-url", "nonsense"], "--base-url"),
    (["--base-url", "http://127.0.0.1:1/v1", "--wall", "nowhere"], "HOST:PORT"),
    (["--base-url", "http://127.0.0.1:1/v1", "--config", "x.yaml"], "another one is tested"),
    (["--wall", "127.0.0.1:1"], "needs --base-url"),
    (["--key", "k"], "needs --base-url"),
    (["--colour"], "--help"),
    (["S01"], "'S01' is not understood"),
])
def test_usage(args, told):
    p = bench(*args)
    assert p.returncode == 2 and told in p.stderr and p.stdout == "", (p.returncode, p.stdout, p.stderr)


def test_help():
    p = bench("--help")
    assert p.returncode == 0 and p.stderr == ""
    for option in ("--only", "--quick", "--speed", "--config", "--base-url", "--key", "--wall", "--no-fallback", "--expect-pass", "--json"):
        assert option in p.stdout


def test_expected_passes_are_missing():
    p = bench("--only", "S13", "--speed", "4", "--expect-pass", "2")
    assert p.returncode == 1 and "1 passed, 2 expected" in p.stderr


def test_no_wall():
    p = bench("--base-url", "http://127.0.0.1:1/v1", "--wall", f"127.0.0.1:{free_port()}")
    assert p.returncode == 1 and "pretend provider" in p.stderr and p.stdout == ""


def test_wall_is_something_else():
    p = Provider([Reply(http(404, {"error": "no"}))])
    try:
        got = bench("--base-url", "http://127.0.0.1:1/v1", "--wall", f"127.0.0.1:{p.port}")
    finally:
        p.close()
    assert got.returncode == 1 and "is not `ringmain mock`" in got.stderr


def test_unreachable_gateway(wall):
    w, port = wall(), free_port()
    p = bench("--base-url", f"http://127.0.0.1:{port}/v1", "--wall", w.at)
    assert p.returncode == 1 and f"127.0.0.1:{port} does not answer the healthy model fb-ok" in p.stderr


def test_baseline_fails(wall):
    w = wall()
    for reply, told in ((Reply(http(404, error_json("openai", 404, code="model_not_found", message="no such model"))), "model_not_found"),
                        (Reply(http(200, whole("openai", "Something else."))), "other words")):
        p = Provider([reply])
        try:
            got = bench("--base-url", f"http://127.0.0.1:{p.port}/v1", "--wall", w.at, "--json")
        finally:
            p.close()
        assert got.returncode == 1 and told in got.stderr
        r = json.loads(got.stdout)
        assert r["is_partial"] is True and told in r["partial_reason"] and r["summary"]["pass"] == 0


def test_config_with_faults(tmp_path):
    path = variant(tmp_path, resume__on="resmue: on")
    p = bench("--config", path)
    assert p.returncode == 1 and "resmue" in p.stderr and "resume" in p.stderr
    path = tmp_path / "other.yaml"
    path.write_text(SHIPPED.replace("9199", "9200"))
    p = bench("--config", str(path))
    assert p.returncode == 1 and "127.0.0.1:9199" in p.stderr
    p = bench("--config", str(tmp_path / "none.yaml"))
    assert p.returncode == 1 and "No such file" in p.stderr


def test_the_key_is_sent(wall):
    w = wall(10)
    got = []

    def answer(req):
        got.append(req.headers.get("authorization"))
        return Reply(http(200, w.ask(req.body).body))
    p = Provider(answer)
    try:
        bench("--base-url", f"http://127.0.0.1:{p.port}/v1", "--wall", w.at, "--key", "sk-one", "--speed", "10", "--only", "S13")
    finally:
        p.close()
    assert set(got) == {"Bearer sk-one"}


def test_stopped_in_the_middle():
    tmp_path = pathlib.Path(tempfile.mkdtemp(prefix="fb"))
    p = subprocess.Popen([BINARY, "bench", "faults", "--only", "S12,S15", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env={**os.environ, "TMPDIR": str(tmp_path)})
    line = p.stderr.readline()  # S12 has its verdict, S15 goes on for more than a minute
    assert line.startswith("S12"), line
    children = pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()
    assert len(children) == 2
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=20 * SLOW)
    assert p.returncode == 130, err
    r = json.loads(out)
    assert r["is_partial"] is True and verdicts(r) == {"S12": "pass", "S15": None}
    wait_for(lambda: not any(os.path.exists(f"/proc/{c}") for c in children), 5, "the children to end")
    tmp_path.rmdir()  # which fails when something was left in it
