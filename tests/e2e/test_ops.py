"""Running it: reload, drain, ledger, admin, command line, TLS to providers, secrets."""
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import time

import pytest

from harness import (BINARY, LAST, SLOW, SSE_HEAD, Reply, chunk, error_json, events, free_port, good, http, provider_conf, read_response, stream,
                     wait_for)


def cli(*args, cwd=None, env=None, stdin=None):
    return subprocess.run([BINARY, *args], cwd=cwd, env={**os.environ, **(env or {})}, input=stdin, capture_output=True, text=True, timeout=60)


# ---- reload and stop

def test_reload_keeps_streams_in_flight(world):
    words = [f"w{i} " for i in range(80)]
    g, (a, b) = world.chain([stream(*events("openai", words), gap=0.01)], good("openai"))
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        running = [pool.submit(g.chat) for _ in range(10)]
        wait_for(lambda: len(a.requests) == 10)
        for i in range(10):
            conf = json.loads(json.dumps(g.config))
            if i % 2:
                conf["routes"][0]["chain"] = conf["routes"][0]["chain"][1:]
                del conf["providers"]["a"]
            g.write(conf)
            n = g.log().count("is in force")
            g.proc.send_signal(signal.SIGHUP)
            wait_for(lambda: g.log().count("is in force") > n, what="the reload")
            socket.create_connection(("127.0.0.1", g.port)).close()
        answers = [f.result() for f in running]
    assert all(r.text() == "".join(words) and r.is_well_ended() for r in answers)
    assert g.chat().headers["x-ringmain-provider"] == "b"


def test_a_bad_config_changes_nothing(world):
    g, _ = world.chain(good("openai"))
    g.path.write_text("routes: [ {modle: x} ]")
    g.reload()
    wait_for(lambda: "nothing was changed" in g.log())
    assert "model" in g.log() and g.chat().status == 200


def test_reload_says_what_needs_a_restart(world):
    g, _ = world.chain(good("openai"))
    g.reload({**g.config, "workers": 2})
    wait_for(lambda: "restart" in g.log())
    assert "workers" in g.log()


def test_drain_finishes_streams(world):
    g, (a,) = world.chain([stream(*events("openai", [f"w{i} " for i in range(30)]), gap=0.02)])
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(g.chat)
        wait_for(lambda: a.requests)
        g.proc.send_signal(signal.SIGTERM)
        r = running.result()
    assert r.is_well_ended() and len(r.text().split()) == 30
    assert g.proc.wait(10 * SLOW) == 0 and "nothing was cut" in g.log()


def test_drain_cuts_at_its_timeout_and_says_so(world):
    evs = events("openai", ["one"], done=False, finish=None, usage=None)
    g, (a,) = world.chain([stream(*evs, last=False, end="hang")], config={"drain_timeout_ms": 300})
    s = g.send("/v1/chat/completions", {"model": "r", "stream": True, "messages": []})
    wait_for(lambda: a.requests)
    assert s.recv(1)
    g.proc.send_signal(signal.SIGTERM)
    rest = b""
    while x := s.recv(65536):
        rest += x
    assert b'"error"' in rest and rest.endswith(b"0\r\n\r\n") and b"[DONE]" not in rest
    assert g.proc.wait(10 * SLOW) == 0
    assert "1 requests were cut" in g.log()
    row = sqlite3.connect(g.dir / "ringmain.db")
    assert json.loads(cli("ledger", "tail", "-n", "1", "--json", "--db", str(g.dir / "ringmain.db")).stdout.splitlines()[0])["outcome"] == "drained"
    row.close()


def test_the_address_in_use_is_a_clear_error(world):
    g, _ = world.chain(good("openai"))
    out = cli("serve", "-c", str(g.path), cwd=g.dir)
    assert out.returncode == 1 and "in use" in out.stderr


# ---- the ledger

MEMBERS = {"id", "started", "key", "route", "dialect", "stream", "status", "outcome", "provider", "model", "served_link", "ttft_us", "total_us", "gateway_us",
           "prompt_bytes", "max_tokens", "effort", "prefix_hash", "cost_nusd", "waste_nusd", "adjusted", "trace_id", "attempts"}
ATTEMPT = {"n", "kind", "link", "provider", "model", "outcome", "in_stream", "status", "start_us", "connect_us", "first_byte_us", "ttft_us", "total_us", "tokens",
           "tokens_from", "service", "service_from", "price_version", "price_certainty", "cost_nusd", "waste_nusd", "retry_after_ms", "provider_request_id", "decision"}


def test_the_object_has_every_member(world):
    g, _ = world.chain([Reply(http(503, error_json("openai", 503)))], good("openai"))
    r = g.chat(max_tokens=50)
    row = g.row(r)
    assert set(row) == MEMBERS and all(set(a) == ATTEMPT for a in row["attempts"])
    assert set(row["attempts"][1]["tokens"]) == {"input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning"}
    assert row["provider"] == "b" and row["served_link"] == 1 and row["max_tokens"] == 50 and row["status"] == 200
    assert 0 < row["ttft_us"] <= row["total_us"] and 0 < row["gateway_us"] <= row["total_us"]
    shown = cli("ledger", "show", row["id"], "--json", "--db", str(g.dir / "ringmain.db"))
    assert json.loads(shown.stdout) == row
    text = cli("ledger", "show", row["id"], "--db", str(g.dir / "ringmain.db")).stdout
    assert "overloaded" in text and "b" in text
    total = json.loads(cli("ledger", "sum", "--json", "--db", str(g.dir / "ringmain.db")).stdout)
    assert total["requests"] == 1


def test_a_locked_ledger_delays_nobody_and_loses_nothing(world):
    g, _ = world.chain(good("openai"))
    g.row(g.chat())
    lock = sqlite3.connect(g.dir / "ringmain.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    ids, slowest = [], 0
    for _ in range(100):
        t = time.monotonic()
        ids.append(g.chat(stream=False).headers["x-ringmain-request-id"])
        slowest = max(slowest, time.monotonic() - t)
    lock.execute("ROLLBACK")
    lock.close()
    assert slowest < 0.5 * SLOW
    assert all(g.row(i)["outcome"] == "ok" for i in ids)
    n = json.loads(cli("ledger", "sum", "--json", "--db", str(g.dir / "ringmain.db")).stdout)["requests"]
    assert n == 101


def test_an_unclean_end_is_noted(world):
    g, _ = world.chain(good("openai"))
    g.row(g.chat())
    world.gateways.remove(g)
    g.proc.kill()
    g.proc.wait()
    again = {k: v for k, v in g.config.items() if k not in ("listen", "admin")}
    g2 = world.gateway({**again, "ledger": f"sqlite:{g.dir}/ringmain.db"})
    wait_for(lambda: "no clean end" in g2.log(), what="the note")


def test_access_log_lines(world):
    g, _ = world.chain(good("openai"))
    rid = g.chat().headers["x-ringmain-request-id"]
    line = wait_for(lambda: next((x for x in g.access() if x["id"] == rid), None))
    assert list(line)[0] == "id" and line["outcome"] == "ok" and line["status"] == 200


# ---- the admin listener

def test_admin_without_a_secret(world):
    g, _ = world.chain(good("openai"))
    assert g.admin("/metrics").status == 200
    assert g.admin("/api/requests?n=1", host="evil.example").status in (400, 403, 404, 421)
    for path in ("/admin/config", "/admin/keys", "/admin/", "/ui"):
        r = g.admin(path, [("Origin", "https://evil.example")])
        assert r.status in (401, 404) and "access-control-allow-origin" not in r.headers and b"SECRET" not in r.body
    assert g.admin("/api/reload", method="POST").status in (401, 403, 404, 405)
    assert g.admin("/api/requests/req_0000000000000").status == 404
    assert g.admin("/api/requests/nonsense").status in (400, 404)


def test_admin_with_a_secret(world):
    port = free_port()
    conf = {"admin": {"listen": f"127.0.0.1:{port}", "secret_sha256": hashlib.sha256(b"hush").hexdigest()}}
    g, _ = world.chain(good("openai"), config=conf)
    g.admin_port = port
    assert g.admin("/metrics").status == 401
    assert g.admin("/metrics", [("Authorization", "Bearer wrong")]).status == 401
    assert g.admin("/metrics", [("Authorization", "Bearer hush")]).status == 200


@pytest.mark.parametrize("conf,word", [({"listen": "0.0.0.0:0"}, "client_keys"), ({"admin": "0.0.0.0:0"}, "secret")])
def test_leaving_the_loopback_needs_keys(tmp_path, conf, word):
    path = tmp_path / "ringmain.yaml"
    path.write_text(json.dumps({"providers": {"a": provider_conf(1)}, "routes": [{"model": "r", "order": ["a"]}], **conf}))
    out = cli("serve", "-c", str(path), cwd=tmp_path)
    assert out.returncode == 1 and word in out.stderr


# ---- the command line

def test_help_and_usage():
    for args in ([], ["serve"], ["check"], ["mock"], ["ledger"], ["keys"], ["demo"]):
        out = cli(*args, "--help")
        assert out.returncode == 0 and "usage: ringmain" in out.stdout, args
    assert cli().returncode == 2 and cli("nonsense").returncode == 2
    assert cli("serve", "--nonsense").returncode == 2
    assert cli("--version").stdout.startswith("ringmain ")


SEED = {"model": "meta-llama/llama-3.3-70b-instruct", "strategy": "failover", "order": ["providerA", "providerB", "providerC"], "ttft_budget_ms": 2000,
        "keepalive_sec": 30}


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_the_seed_route_works_as_it_stands(world, form):
    ps = [world.provider([Reply(http(503, error_json("openai", 503)))]), world.provider(good("openai")), world.provider(good("openai"))]
    providers = {f"provider{c}": provider_conf(p.port) for c, p in zip("ABC", ps)}
    g = world.gateway({"providers": providers, "routes": [SEED]}, wait=False, name="x")
    g.proc.kill(), g.proc.wait()
    if form == "yaml":
        lines = [f"{k}: {json.dumps(v)}" for k, v in g.config.items() if k != "routes"]
        lines += ["routes:", f"  - {json.dumps(SEED)}"]
        g.path.write_text("\n".join(lines))
    world.gateways.remove(g)
    out = cli("check", "-c", str(g.path), cwd=g.dir)
    assert out.returncode == 0, out.stdout + out.stderr
    proc = subprocess.Popen([BINARY, "serve", "-c", str(g.path)], cwd=g.dir, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", g.port)) == 0, 10)
        r = g.chat(SEED["model"])
        assert r.text() == "Hello from B." and ps[1].requests[0].json["model"] == SEED["model"]
        assert r.headers["x-ringmain-trail"].startswith("providerA/meta-llama/llama-3.3-70b-instruct;overloaded;status=503;")
    finally:
        proc.terminate()
        assert proc.wait(20 * SLOW) == 0


def test_without_its_yaml_library_it_says_so(world, tmp_path):
    g, _ = world.chain(good("openai"), good("openai"))
    with open(f"/proc/{g.proc.pid}/maps") as f:
        assert "libfyaml" not in f.read()  # read, and let go
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "libfyaml.so.0").write_text("not a library")
    out = cli("check", "-c", str(g.path), cwd=g.dir, env={"LD_LIBRARY_PATH": str(tmp_path / "none")})
    assert out.returncode == 1 and "cannot be read without libfyaml: " in out.stdout + out.stderr, (out.stdout, out.stderr)


def test_check_reports_every_fault_at_once(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("listn: 1\nproviders:\n  a: { dialect: opnai, base_url: \"http://x/v1\" }\nroutes:\n  - model: r\n    order: [b]\n    ttft_buget_ms: 5\n    hedge: on\n")
    out = cli("check", "-c", str(path))
    text = out.stdout + out.stderr
    assert out.returncode == 1
    for want in ("c.yaml:1:1", "listen", "c.yaml:3:", "openai", "c.yaml:6:", "c.yaml:7:", "ttft_budget_ms", "hedge"):
        assert want in text, (want, text)


def test_keys_new_makes_a_key_that_works(world):
    out = cli("keys", "new", "--name", "me").stdout
    key = next(w for w in out.split() if w.startswith("rk-"))
    assert hashlib.sha256(key.encode()).hexdigest() in out
    g, _ = world.chain(good("openai"), config={"client_keys": [{"name": "me", "sha256": hashlib.sha256(key.encode()).hexdigest()}]})
    assert g.chat(headers=[("Authorization", f"Bearer {key}")]).status == 200


# ---- keys of providers

def test_provider_keys_from_environment_and_file(world, tmp_path):
    a, b = world.provider([Reply(http(503, error_json("openai", 503)))]), world.provider(good("openai"))
    (tmp_path / "key").write_text("sk-from-file-SECRET\n")
    os.chmod(tmp_path / "key", 0o600)
    pb = provider_conf(b.port)
    del pb["api_key"]
    g = world.gateway({"providers": {"a": provider_conf(a.port, key="${RM_TEST_KEY}"), "b": {**pb, "api_key_file": str(tmp_path / "key")}},
                       "routes": [{"model": "r", "order": ["a", "b"]}]}, env={"RM_TEST_KEY": "sk-from-env-SECRET"})
    r = g.chat()
    assert a.requests[0].headers["authorization"] == "Bearer sk-from-env-SECRET"
    assert b.requests[0].headers["authorization"] == "Bearer sk-from-file-SECRET"
    everything = g.log() + (g.dir / "access.log").read_text() + json.dumps(g.row(r)) + g.admin("/metrics").body.decode() + g.admin("/api/health").body.decode()
    assert "SECRET" not in everything and b"SECRET" not in (g.dir / "ringmain.db").read_bytes()


def test_a_provider_without_its_key_is_off(world):
    a, b = world.provider(good("openai", "A.")), world.provider(good("openai"))
    g = world.gateway({"providers": {"a": provider_conf(a.port, key="${RM_UNSET_KEY:-}"), "b": provider_conf(b.port)},
                       "routes": [{"model": "r", "order": ["a", "b"]}]})
    r = g.chat()
    assert [e[1] for e in r.trail()] == ["skipped_off", "ok"] and not a.requests
    assert "a" in g.call("/readyz", None, method="GET").json()["providers_off"] and "RM_UNSET_KEY" in g.log()


def test_a_provider_that_echoes_our_key_does_not_leak_it(world):
    g, _ = world.chain([Reply(http(400, error_json("openai", 400, "invalid_request_error", "your key sk-key-a-SECRET and sk-other-123456789 are odd")))])
    r = g.chat()
    assert r.status == 400 and b"SECRET" not in r.body and b"sk-other-123456789" not in r.body
    assert "SECRET" not in g.log()


# ---- TLS to providers, names, addresses

@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    d = tmp_path_factory.mktemp("ca")
    run = lambda *a: subprocess.run(["openssl", *a], cwd=d, check=True, capture_output=True)
    run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test ca")
    for name, san in (("good", "DNS:localhost,IP:127.0.0.1"), ("wrong", "DNS:elsewhere.test")):
        (d / f"{name}.ext").write_text(f"subjectAltName={san}\n")
        run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", "/CN=x")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem")
    return d


def tls_context(ca, name):
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    c.load_cert_chain(ca / f"{name}.pem", ca / f"{name}.key")
    return c


@pytest.mark.parametrize("cert,with_ca,host,ok", [("good", True, "localhost", True), ("good", True, "127.0.0.1", True), ("wrong", True, "localhost", False),
                                                  ("good", False, "localhost", False)])
def test_tls_to_providers(world, ca, cert, with_ca, host, ok):
    a = world.provider(good("openai", "over TLS", "m-a"), tls=tls_context(ca, cert))
    more = {"ca_file": str(ca / "ca.pem")} if with_ca else {}
    g = world.gateway({"providers": {"a": provider_conf(a.port, scheme="https", host=host, **more)}, "routes": [{"model": "r", "order": ["a"]}]})
    r = g.chat()
    if ok:
        assert r.text() == "over TLS" and r.is_well_ended()
        assert g.chat(stream=False).status == 200
    else:
        assert r.status == 502 and not a.requests
        assert g.row(r)["attempts"][0]["outcome"] == "connect_error"


def test_the_next_address_is_tried(world):
    a = world.provider(good("openai", "by name", "m-a"))  # listens on 127.0.0.1 only; localhost may mean ::1 first
    g = world.gateway({"providers": {"a": provider_conf(a.port, host="localhost")}, "routes": [{"model": "r", "order": ["a"]}]})
    assert g.chat().text() == "by name"


def test_an_unknown_name_is_a_connect_error(world):
    b = world.provider(good("openai"))
    g = world.gateway({"providers": {"a": provider_conf(1, host="no-such-host.invalid"), "b": provider_conf(b.port)},
                       "routes": [{"model": "r", "order": ["a", "b"], "connect_timeout_ms": 500}]})
    r = g.chat()
    assert r.text() == "Hello from B." and g.row(r)["attempts"][0]["outcome"] in ("connect_error", "connect_timeout")


def test_descriptors_run_out_and_come_back(world):
    g, (a,) = world.chain([Reply(end="hang")])
    assert g.admin("/healthz").status in (200, 404)  # everything has started
    subprocess.run(["prlimit", f"--pid={g.proc.pid}", "--nofile=48:48"], check=True)
    socks = [socket.create_connection(("127.0.0.1", g.port)) for _ in range(60)]
    before = os.times()
    cpu = lambda: sum(map(int, open(f"/proc/{g.proc.pid}/stat").read().rsplit(")", 1)[1].split()[11:13]))
    wait_for(lambda: "descriptors" in g.log(), what="the shortage to be told")
    c0, t0 = cpu(), time.monotonic()
    wait_for(lambda: time.monotonic() - t0 > 0.5)
    assert (cpu() - c0) / os.sysconf("SC_CLK_TCK") < 0.25 * SLOW
    for s in socks:
        s.close()
    wait_for(lambda: g.call("/healthz", None, method="GET").status == 200, what="accepting again")


def test_metrics_tell_live_objects(world):
    g, _ = world.chain([Reply(end="hang")])

    def alive():
        text = g.admin("/metrics").body.decode()
        return {m.group(1): int(m.group(2)) for m in re.finditer(r'^ringmain_live_objects\{type="(\w+)"\} (-?\d+)$', text, re.M)}
    before = alive()
    assert before["relay"] == before["exchange"] == 0 and before["config"] >= 1 and before["conn"] >= 1
    s = g.send("/v1/chat/completions", {"model": "r", "stream": True, "messages": [{"role": "user", "content": "x"}]})
    wait_for(lambda: alive()["relay"] == 1 and alive()["exchange"] == 1, what="the request to be alive")
    s.close()
    wait_for(lambda: alive() == before, what="its objects to go")
