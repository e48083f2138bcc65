"""The page of `ringmain bench --html` in a real browser: it is whole, it shows the figures of its JSON, it loads and runs nothing
else whatever the JSON holds, and it can be read wide and narrow, light and dark, by eye, keyboard and ear."""
import copy
import json
import random
import socket
import subprocess

import pytest

from browser import BOUND
from conftest import BINARY

SECTIONS = ["summary", "ttft", "phases", "deltas", "outage", "cost", "setup"]
NOT_MEASURED = "–"


WHOLE = """(() => {
  const all = s => [...document.querySelectorAll(s)], ids = all('main [id]').map(e => e.id), main = document.querySelector('main');
  return { broken: all('.broken').map(e => e.textContent), missing: %s.filter(s => !ids.includes(s)), twice: ids.filter((id, i) => ids.indexOf(id) !== i),
    headline: document.querySelector('h1').textContent.trim() !== '', blank: all('.plot').filter(e => !e.querySelector('svg')).length,
    nonsense: main.innerText.match(/.{0,40}(NaN|undefined|Infinity|\\[object).{0,40}/) };
})()""" % json.dumps(SECTIONS)


def assert_whole(page):
    """No fault, no request, every part there and drawn."""
    assert page.js(WHOLE) == {"broken": [], "missing": [], "twice": [], "headline": True, "blank": 0, "nonsense": None}
    assert page.faults() == []
    assert page.requests() == []


def text(page, selector):
    return page.js(f"document.querySelector({json.dumps(selector)}).textContent")


def texts(page, selector):
    return page.js(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")


def open_folds(page):
    page.js("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.settle()


def number(v, digits):
    return f"{v:,.{digits}f}".replace("-", "−")


def plain(v):
    return NOT_MEASURED if v is None else number(v, 0 if v == 0 or abs(v) >= 9.95 else 1 if abs(v) >= 0.995 else 2)


def ms(v):
    return plain(v) + " ms" if v < 999.5 else number(v / 1000, 2 if v < 9995 else 1) + " s"


def difference(v):
    return ("+" if v > 0 else "") + number(v, 2 if abs(v) < 9.995 else 1 if abs(v) < 99.95 else 0)


# ---------------------------------------------------------------- what it shows

@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1400, 380])
def test_a_full_run_is_whole(report, width, dark):
    page = report("full.json", width=width, dark=dark)
    assert_whole(page)
    assert page.js("document.querySelector('#partial')") is None
    assert page.js("document.title") == "Ringmain: failover benchmark, 30 November 2026, 09:00 UTC"


def test_a_run_of_the_bench_itself_has_its_page(browser, tmp_path):
    """The real bench, small: what it writes with --html is whole and shows what it writes with --json."""
    done = subprocess.run([BINARY, "bench", "--quick", "--repeat", "1", "--requests", "6", "--concurrency", "3", "--phases", "direct,healthy,hang", "--html", "r.html", "--json", "r.json"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=2 * BOUND)
    assert done.returncode == 0, done.stderr
    page, run = browser.page().open(tmp_path / "r.html"), json.loads((tmp_path / "r.json").read_text())
    try:
        assert_whole(page)
        rows = page.js("[...document.querySelectorAll('#phase-table tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        assert [r[1:6] for r in rows] == [[number(p["n"], 0), *(plain(p["ttft_ms"][q]) for q in ("p50", "p95", "p99", "max"))] for p in run["phases"]]
        assert texts(page, "[data-claim] bdi") == [c["text"] for c in run["claims"]]
        assert page.js("document.querySelectorAll('[data-delta]').length") == sum(d["value"] is not None and d["unit"] == "ms" for d in run["deltas"]) > 0
        assert page.js("[...document.querySelectorAll('#outage [data-layer]')].map(e => e.dataset.layer)")[:2] == ["A", "B"]
    finally:
        page.close()


def test_a_quick_run_is_whole(report):
    assert_whole(report("quick.json"))


def test_the_headline_counts_the_claims_and_each_is_there(report, full):
    page = report(full)
    assert text(page, "h1") == "3 of 4 claims hold; 1 does not; 1 was not measured"
    got = page.js("[...document.querySelectorAll('[data-claim]')].map(e => [e.dataset.claim, e.querySelector('.verdict').textContent, e.querySelector('bdi').textContent])")
    assert got == [[c["name"], {"holds": "✓ ", "does not hold": "✗ ", "not measured": "– "}[c["verdict"]] + c["verdict"], c["text"]] for c in full["claims"]]
    assert [t.split(" – ")[0].strip() for t in texts(page, "#expect li")] == ["✓ holds" + full["expect"][0]["expression"], "✗ does not hold" + full["expect"][1]["expression"]]


@pytest.mark.parametrize("verdicts, headline", [
    (["holds"] * 3, "All 3 claims hold"),
    (["holds", "not measured"], "The one claim measured holds; 1 was not measured"),
    (["does not hold"] * 2, "None of 2 claims holds"),
    (["not measured"] * 2, "Failover benchmark: no claim was measured"),
])
def test_the_headline_never_says_more_than_the_claims(report, full, verdicts, headline):
    full["claims"] = [{"name": f"c{i}", "verdict": v, "text": "x"} for i, v in enumerate(verdicts)]
    assert text(report(full), "h1") == headline


def test_the_tiles_are_the_figures(report, full):
    full["timeline"]["errors"][20] = 5
    full["phases"][0]["ok"] -= 7  # what fails without the gateway is not the gateway's loss
    page = report(full)
    tiles = dict(page.js("[...document.querySelectorAll('[data-tile]')].map(e => [e.dataset.tile, e.querySelector('.big').textContent])"))
    through = [p for p in full["phases"] if not p["name"].startswith(("direct", "naive"))]
    hang = next(p for p in full["phases"] if p["name"] == "hang")
    t = full["timeline"]
    lost = sum(p["n"] - p["ok"] for p in through) + sum(t["errors"])
    assert f"of {sum(p['n'] for p in through) + sum(map(sum, t['served'])) + sum(t['errors']):,} through the gateway" in text(page, "[data-tile=lost] .small")
    assert tiles == {"steady": "+0.61 ms", "hang": ms(hang["ttft_ms"]["p50"]), "lost": str(lost),
                     "warm": "−949 ms", "waste": "7.83 %"}


def test_the_table_of_phases_shows_the_figures_of_the_json(report, full):
    rows = report(full).js("[...document.querySelectorAll('#phase-table tbody tr')].map(r => [...r.children].map(c => c.textContent))")
    assert len(rows) == len(full["phases"])
    for row, p in zip(rows, full["phases"]):
        assert row[0] == p["title"] + p["what"]
        assert row[1] == number(p["n"], 0)
        assert row[2:10] == [plain(p[k][q]) for k in ("ttft_ms", "total_ms") for q in ("p50", "p95", "p99", "max")]
        assert row[10] == (", ".join(f"{k} {n:,}" for k, n in p["errors"].items()) or "none")
        assert row[11] == number(p["attempts_per_request"], 2)
        assert row[13] == ("unknown" if p["cost_usd"] is None else "$" + number(float(p["cost_usd"]), 2 if float(p["cost_usd"]) >= 1 else 4))
        assert row[15] == ", ".join(f"{k} {n:,}" for k, n in p["served"].items())


def test_the_plots_are_labelled_with_the_figures_of_the_json(report, full):
    page = report(full)
    for p in full["phases"]:
        row = f"svg [data-phase='{p['name']}']"
        assert [ms(p["ttft_ms"][q]) for q in ("p50", "p95", "p99")] == texts(page, f"#ttft figure {row} text")[2:5]
    for d in full["deltas"]:
        if d["unit"] == "ms":
            shown = texts(page, f"[data-delta='{d['name']}'] text")
            assert shown[1:] == [difference(d["value"]) + " ms", difference(d["low"]) + " to " + difference(d["high"]) + " ms"]
    assert "0.31 %" in text(page, "#deltas dl")


def test_marks_stand_where_their_figures_are(report, full):
    """On the axis of first tokens the phases' medians stand in the order of their values, and a zero difference on the zero line."""
    full["deltas"] = [{"name": "a", "title": "nothing", "unit": "ms", "value": 0, "low": -2, "high": 2, "confidence": 0.95},
                      {"name": "b", "title": "more", "unit": "ms", "value": 2000, "low": 1900, "high": 2100, "confidence": 0.95}]
    page = report(full)
    at = page.js("[...document.querySelectorAll('#ttft figure')].slice(0, 1).flatMap(f => [...f.querySelectorAll('[data-phase]')]"
                 ".map(g => [g.dataset.phase, +g.querySelector('line.ink-stroke').getAttribute('x1')]))")
    value = {p["name"]: p["ttft_ms"]["p50"] for p in full["phases"]}
    assert [n for n, _ in sorted(at, key=lambda r: r[1])] == sorted(value, key=value.get)
    zero = float(page.js("document.querySelector('#deltas .zero').getAttribute('x1')"))
    dots = page.js("[...document.querySelectorAll('[data-delta]')].map(g => [+g.querySelector('circle').getAttribute('cx'), g.querySelector('circle').classList.contains('hollow')])")
    assert abs(dots[0][0] - zero) < 0.2 and dots[0][1] is True
    assert dots[1][0] > zero + 100 and dots[1][1] is False


def test_the_outage_is_told_in_words_plot_and_tables(report, full):
    page, t = report(full), full["timeline"]
    words = text(page, "#outage-words")
    inside = range(t["outage_from_ms"] // t["bucket_ms"], t["outage_to_ms"] // t["bucket_ms"])
    for name, served in zip(t["providers"], t["served"]):
        n = sum(served[i] for i in inside)
        assert (f"{name} served {n:,}" in words) == (n > 0)
    assert ms(max(t["ttft_max_ms"][i] for i in inside)) in words and "no request failed" in words
    assert sorted(set(texts(page, "#outage .name"))) == [n for n, s in zip(t["providers"], t["served"]) if sum(s)]
    assert "outage, 8 s to 20 s" in texts(page, "#outage text")
    events = page.js("[...document.querySelector('#outage table').tBodies[0].rows].map(r => [...r.cells].map(c => c.textContent))")
    assert events[:2] == [["8 s", "–", "the outage begins"], ["10.02 s", "A", "breaker opens: the provider is skipped"]]
    assert len(events) == len(t["breaker"]) + 2
    open_folds(page)
    rows = page.js("[...document.querySelectorAll('#outage details tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
    assert [r[1:] for r in rows] == [[str(s[i]) for s in t["served"]] + [str(t["errors"][i]), plain(t["ttft_p50_ms"][i]), plain(t["ttft_max_ms"][i])]
                                     for i in range(len(t["errors"]))]


def test_the_cost_and_the_setting_are_there(report, full):
    page = report(full)
    assert text(page, "#cost .share b") == "7.83 %"
    assert "$5.04 of $64.34" in text(page, "#cost .share")
    bars = dict(page.js("[...document.querySelectorAll('[data-cost]')].map(g => [g.dataset.cost, g.textContent])"))
    assert "$14.87, waste $5.04 (33.9 %)" in bars["hang"] and "not priced" in bars["naive"] and bars["outage"].startswith("Outage$2.10, waste $0.0042")
    setup = text(page, "#setup")
    for part in (full["command"], full["machine"]["cpu"], "2 cores", "7.8 GB", "200 requests at a time", "30 November 2026, 09:06 UTC", full["settings"]["providers"][2]["ttft"]):
        assert part in setup
    open_folds(page)
    figures = dict(page.js("[...document.querySelectorAll('#setup details tbody tr')].map(r => [r.cells[0].textContent, r.cells[1].textContent])"))
    assert {k: float(v.replace("−", "-")) for k, v in figures.items()} == full["figures"]


def test_every_plot_has_its_table(report, full):
    page = report(full)
    open_folds(page)
    assert_whole(page)
    quantiles = page.js("[...document.querySelectorAll('#ttft details')].map(d => [...d.querySelectorAll('tbody tr')].map(r => [...r.cells].map(c => c.textContent)))")
    for k, rows in zip(("ttft", "total"), quantiles):
        for row, p in zip(rows, full["phases"]):
            cdf, q = p[k + "_cdf_ms"], p[k + "_ms"]
            assert row == [p["title"], *map(plain, [cdf[0], cdf[10], cdf[50], q["p50"], cdf[150], q["p95"], q["p99"], q["max"]])]
    for section in ("ttft", "deltas", "outage", "cost"):
        assert page.js(f"document.querySelectorAll('#{section} details table caption').length") > 0, section


# ---------------------------------------------------------------- what may be missing or wrong

def test_a_partial_run_says_so_and_is_whole(report):
    page = report("partial.json")
    assert_whole(page)
    assert text(page, "#partial").startswith("Partial run: interrupted by the user in round 2 of 6. ")
    assert text(page, "h1") == "The one claim measured holds; 4 were not measured"
    assert "no sample" in text(page, "#ttft svg [data-phase='rate_limited']")
    assert "The outage was not run." in text(page, "#outage")
    row = page.js("[...document.querySelector(\"#phase-table [data-phase='rate_limited']\").cells].map(c => c.textContent)")
    assert row[1:10] == ["0"] + [NOT_MEASURED] * 8


def test_an_empty_run_says_so_and_is_whole(report):
    page = report({})
    assert_whole(page)
    assert text(page, "h1") == "Nothing was measured"
    page = report({"format": "ringmain-bench/9", "phases": [{}], "deltas": [{}], "claims": [{}], "timeline": {}, "cost": {}})
    assert_whole(page)
    assert "ringmain-bench/9" in text(page, ".banner")


@pytest.mark.parametrize("raw", [b"", b"{", b"null", b"[1]", b"\xff\xfe\x00</script><b>", b"{\"a\":1}{"])
def test_what_is_no_json_is_told(report, raw):
    page = report(raw)
    assert_whole(page)
    assert text(page, "#unreadable").startswith("The results in this page cannot be read: ")
    assert text(page, "h1") == "Nothing was measured"


def places(node, path=()):
    yield path
    for k, v in node.items() if isinstance(node, dict) else enumerate(node[:2]) if isinstance(node, list) else ():
        yield from places(v, path + (k,))


def test_any_member_may_be_of_any_type(report, full):
    """Each top-level member in turn, and seeded choices of the deeper ones, several at once, are null or of the wrong type."""
    wrong = [None, "x", "", -1, 1e308, True, [], {}, [None], [[]], {"p50": "x"}]
    chance, every = random.Random(7), [p for p in places(full) if p]
    deep = [p for p in every if len(p) > 1]
    tab = report({})
    for paths in [[p] for p in every if len(p) == 1 and p[0] != "figures"] + [chance.sample(deep, 8) for _ in range(8)]:
        mutant, changed = copy.deepcopy(full), []
        for path in sorted(paths, key=len, reverse=True):
            node = mutant
            for k in path[:-1]:
                node = node[k]
            node[path[-1]] = chance.choice(wrong)
            changed.append((path, node[path[-1]]))
        try:
            assert_whole(report(mutant, tab=tab))
        except AssertionError as fault:
            raise AssertionError(changed) from fault


HOSTILE = ["</script><script>window.hit=1</script>", "</SCRIPT\t><img src=x onerror=window.hit=1>", "<!--<script>window.hit=1</script>-->",
           "\"><svg onload=window.hit=1>", "javascript:window.hit=1", "</title></style></pre><iframe src=javascript:window.hit=1>", "&lt;b&gt;&quot;",
           "@RESULTS@", "\u202egnp.exe\u2028\u2029\x00\x07", "W" * 4000, "名前" * 400, "two\nlines", "__proto__", "constructor", "${window.hit=1}", "a b" * 500]


def hostile():
    n = iter(range(10 ** 9))

    def word():
        return HOSTILE[next(n) % len(HOSTILE)]

    def phase(i):
        cdf = [i + 0.001 * k * k for k in range(3000)]
        return {"name": word() + str(i), "title": word(), "what": word(), "n": 10 ** 9, "ok": 5, "errors": {word(): 3, "__proto__": 2, word() + "x": 10 ** 15},
                "ttft_ms": {"p50": cdf[1500], "p95": cdf[2850], "p99": cdf[2970], "max": 1e9}, "total_ms": {"p50": -5, "p95": 0, "p99": 1e-9, "max": 1e300},
                "ttft_cdf_ms": cdf, "total_cdf_ms": [None] * 3000, "tokens": {"input": 1e15, "output": -1}, "cost_usd": "9" * 200 + "." + "9" * 100,
                "waste_usd": word(), "attempts_per_request": 1e308, "served": {word() + str(k): k for k in range(30)}}

    buckets = 400
    return {"format": "ringmain-bench/1", "version": word(), "command": "".join(HOSTILE), "started": word(), "ended": word(), "seed": word(), "is_partial": True,
            "partial_reason": word(), "machine": {"kernel": word(), "cpu": word(), "cores": 1e20, "memory_mb": -1},
            "settings": {"concurrency": 1e308, "rate": None, "ttft_budget_ms": 1e12, "providers": [{"name": word(), "dialect": word(), "model": word(), "ttft": word(), "price": word(), "tokens_per_s": 1} for _ in range(40)]},
            "phases": [phase(i) for i in range(20)],
            "deltas": [{"name": word(), "title": word(), "unit": [word(), "ms", "%"][i % 3], "value": (-10.0) ** (i % 40 - 20), "low": -1e30, "high": 1e30, "confidence": 7} for i in range(60)],
            "claims": [{"name": word(), "verdict": word(), "text": word()} for _ in range(20)], "expect": [{"expression": word(), "value": 1e308, "holds": word()} for _ in range(20)],
            "timeline": {"bucket_ms": 1, "outage_from_ms": -50, "outage_to_ms": 1e15, "providers": [word() for _ in range(16)], "served": [[(i * k) % 7 for i in range(buckets)] for k in range(16)],
                         "errors": [1] * buckets, "ttft_p50_ms": [None, 5] * (buckets // 2), "ttft_max_ms": [1e9, -1] * (buckets // 2),
                         "breaker": [{"at_ms": i, "provider": word(), "state": word() if i % 5 == 0 else ["open", "trial", "closed"][i % 3]} for i in range(500)]},
            "cost": {"spend_usd": "1", "waste_usd": "2", "waste_pct": 200, "by_phase": [{"name": word(), "spend_usd": "0.000000001", "waste_usd": "5"} for _ in range(40)]},
            "figures": {word() + str(i): i for i in range(2000)}}


def test_hostile_results_stay_harmless_and_whole(report):
    data = hostile()
    page = report(data)
    open_folds(page)
    assert page.faults() == [] and page.requests() == []
    assert page.js("[...document.querySelectorAll('.broken')].map(e => e.textContent)") == []
    assert page.js("window.hit") is None
    assert page.js("document.querySelectorAll('script').length") == 2, "the results and the page's own"
    assert page.js("document.querySelectorAll('main :is(script, style, img, iframe, object, embed, link, base, form, input, b[id])').length") == 0
    assert page.js("[...document.querySelectorAll('body *')].some(e => e.getAttributeNames().some(a => a === 'style' || a.startsWith('on')))") is False
    assert page.js("[...document.querySelectorAll('a')].map(a => a.getAttribute('href')).filter(h => !h.startsWith('#'))") == []
    assert page.js("document.querySelectorAll('#phase-table tbody tr').length") == 20
    assert page.js("document.querySelectorAll('#outage details tbody tr').length") == 400
    assert page.js("document.querySelector('pre').textContent") == "".join(HOSTILE)
    assert page.js("[...document.querySelectorAll('[data-claim] bdi')].map(e => e.textContent)") == [c["text"].strip() for c in data["claims"]]
    for width in (1400, 380):
        page.size(width)
        page.settle()
        assert page.js("document.documentElement.scrollWidth <= innerWidth"), width
    assert page.faults() == []


def test_the_page_can_load_nothing(report):
    """What the policy in its head forbids, were any script of others to get in: images, fetches, frames, style, script."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        page = report({})
        page.js(f"""(async () => {{ const u = {json.dumps(url)}, add = (tag, more) => document.body.append(Object.assign(document.createElement(tag), more));
            add("img", {{src: u}}); add("iframe", {{src: u}}); add("link", {{rel: "stylesheet", href: u}});
            add("style", {{textContent: "body {{ background: red url(" + u + ") }}"}}); add("video", {{src: u}});
            await fetch(u).catch(() => 0);
            try {{ add("script", {{textContent: "window.hit = 1"}}); }} catch (e) {{}}
            try {{ document.body.innerHTML = "<b>"; }} catch (e) {{ window.sink = e.name; }} }})()""")
        page.settle()
        said = " ".join(page.js("window.violations"))
        for rule in ("img-src", "connect-src", "frame-src", "style-src-elem", "media-src", "require-trusted-types-for"):
            assert rule in said, (rule, said)
        assert page.js("window.hit") is None and page.js("window.sink") == "TypeError"
        # A frame's connection may be opened before its address is judged; what counts is that nothing is sent on it.
        while True:
            try:
                connection = server.accept()[0]
            except BlockingIOError:
                break
            with connection, pytest.raises(BlockingIOError):
                connection.setblocking(False)
                assert connection.recv(1) == b""
                raise BlockingIOError


# ---------------------------------------------------------------- how it can be read

@pytest.mark.parametrize("name", ["full.json", "quick.json", "partial.json"])
def test_no_width_and_no_zoom_makes_the_page_scroll_sideways(report, name):
    page = report(name)
    open_folds(page)
    for width, zoom in ((320, 1), (380, 1), (480, 1), (561, 1), (700, 1), (861, 1), (1024, 1), (1400, 1), (2400, 1), (1400, 2), (760, 2)):
        page.size(width, 900, zoom)
        page.settle()
        assert page.js("document.documentElement.scrollWidth <= innerWidth"), (width, zoom)
        wide = page.js("[...document.querySelectorAll('svg')].filter(e => { const b = e.getBoundingClientRect(); return b.width > 0 && b.right > innerWidth; }).length")
        assert wide == 0, (width, zoom)
    assert page.faults() == []


def test_figures_are_drawn_again_for_their_width_and_keep_their_text_size(report):
    page = report("full.json", width=1400)
    look = "(() => { const e = document.querySelector('#ttft svg'); return [e.getBoundingClientRect().width, e.viewBox.baseVal.width]; })()"
    wide = page.js(look)
    page.size(380)
    page.settle()
    narrow = page.js(look)
    assert wide[0] > 1000 > 380 > narrow[0] > 200
    assert abs(wide[0] - wide[1]) < 1 and abs(narrow[0] - narrow[1]) < 1, "drawn one to one, so that text is not scaled"


CONTRAST = """(() => {
  const parse = c => (c.match(/[\\d.]+/g) || []).map(Number), light = v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const lum = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b), ratio = (a, b) => { const [x, y] = [lum(a), lum(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
  const texts = [...document.querySelectorAll('body *')].filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) && e.getClientRects().length && !e.closest('script, style, #tip, .inverse'));
  const low = texts.map(e => { const svg = e.closest('svg'), s = getComputedStyle(e); return [ratio(parse(svg ? s.fill : s.color), behind(svg ? svg.parentElement : e)), e.textContent.slice(0, 40)]; }).filter(r => r[0] < 4.5);
  const card = parse(getComputedStyle(document.querySelector('section')).backgroundColor), probe = document.querySelector('section').appendChild(document.createElement('i'));
  const marks = ['p0', 'p1', 'p2', 'p3', 'p4', 'p5', 'lost', 'gateway', 'control', 'alone'].map(c => { probe.className = c; probe.style.color = 'var(--c)'; return [ratio(parse(getComputedStyle(probe).color), card), c]; }).filter(r => r[0] < 3);
  probe.remove();
  return { n: texts.length, low, marks, page: lum(behind(document.body)), ink: ratio(parse(getComputedStyle(document.body).color), behind(document.body)) };
})()"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["full.json", "quick.json", "partial.json"])
def test_every_text_has_contrast(report, dark, name):
    page = report(name, dark=dark)
    open_folds(page)
    got = page.js(CONTRAST)
    assert got["n"] > 200 and got["low"] == [] and got["marks"] == []
    assert got["page"] < 0.02 if dark else got["page"] > 0.85
    assert got["ink"] > 12


def test_colour_is_never_the_only_carrier(report, full):
    """Layers of the outage differ by texture and name, kinds of phases by words, verdicts by words and signs."""
    page = report(full)
    fills = page.js("[...document.querySelectorAll('#outage [data-layer]')].map(e => document.querySelector(e.getAttribute('fill').slice(4, -1)).innerHTML.replace(/class=\"[^\"]*\"/g, ''))")
    assert len(fills) == 2 == len(set(fills))
    assert page.js("[...document.querySelectorAll('#ttft figure [data-phase^=direct], #ttft figure [data-phase=naive]')].filter(e => e.tagName === 'g').every(e => /gateway/i.test(e.textContent))")


def test_figures_have_names_descriptions_and_focusable_details(report):
    page = report("full.json")
    open_folds(page)
    unnamed = page.js("""[...document.querySelectorAll('.plot svg, .panels svg')].filter(e => { const [t, d] = e.getAttribute('aria-labelledby').split(' ').map(i => document.getElementById(i));
        return e.role !== 'group' || t.tagName !== 'title' || d.tagName !== 'desc' || t.parentNode !== e || !t.textContent.trim() || !d.textContent.trim(); }).length""")
    assert unnamed == 0
    assert page.js("[...document.querySelectorAll('[tabindex]')].filter(e => !e.getAttribute('aria-label')).length") == 0
    assert page.js("[...document.querySelectorAll('table')].filter(t => !t.caption || [...t.querySelectorAll('th')].some(h => !h.scope)).length") == 0
    assert page.js("document.documentElement.lang") == "en"
    levels = page.js("[...document.querySelectorAll('h1, h2, h3')].map(h => +h.tagName[1])")
    assert levels[0] == 1 and levels.count(1) == 1 and all(b <= a + 1 for a, b in zip(levels, levels[1:]))
    assert page.js("[...document.querySelectorAll('nav a')].every(a => document.querySelector(a.getAttribute('href')))")
    names = [n["name"]["value"] for n in page.ask("Accessibility.getFullAXTree")["nodes"] if n.get("role", {}).get("value") in ("image", "img", "slider") and not n.get("ignored")]
    assert any(n.startswith("A hangs (through the gateway)") and "median 2.16 s" in n for n in names)


def test_details_by_keyboard(report):
    page = report("full.json")
    page.js("document.querySelector('nav li:last-child a').focus()")
    page.key("Tab")
    assert page.js("document.activeElement.dataset.phase") == "direct"
    tip = text(page, "#tip")
    assert page.js("document.getElementById('tip').hidden") is False and tip.startswith("Direct to A") and "median 150 ms" in tip and "p99 390 ms" in tip
    page.key("Escape")
    assert page.js("document.getElementById('tip').hidden") is True
    page.js("document.querySelector('#outage [role=slider]').focus()")
    for _ in range(17):
        page.key("ArrowRight")
    said = page.js("document.activeElement.getAttribute('aria-valuetext')")
    assert page.js("document.activeElement.getAttribute('aria-valuenow')") == "17" and said.startswith("8.5 s to 9 s") and said.replace(". ", "\n") == text(page, "#tip")
    page.key("End")
    assert page.js("document.activeElement.getAttribute('aria-valuenow')") == "63"


def test_the_page_scrolls_to_the_focus_and_its_details_stay(report):
    page = report("full.json", width=380, height=700, reduced=True)
    page.js("document.querySelector('#deltas summary').focus()")
    before = page.js("scrollY")
    page.key("Tab")
    page.settle()
    assert page.js("scrollY") > before and page.js("document.activeElement.getAttribute('role')") == "slider"
    assert page.js("(() => { const t = document.getElementById('tip'), b = t.getBoundingClientRect(); return !t.hidden && b.top >= 0 && b.bottom <= innerHeight && b.right <= innerWidth; })()")
    page.js("scrollBy(0, 40)")
    page.settle()
    assert page.js("document.getElementById('tip').hidden") is False


@pytest.mark.parametrize("width", [1400, 380])
def test_details_by_pointer_stay_on_the_page(report, width):
    page = report("full.json", width=width)
    for selector, part in (("#ttft [data-phase=naive]", "A client by itself"), ("[data-delta='steady.ttft.p95.delta_ms']", "within noise"), ("[data-cost=hang]", "waste $5.04"), ("#outage [role=slider]", "served by")):
        b = page.js(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center', behavior: 'instant'}}); const b = e.getBoundingClientRect(); return [b.right - 6, b.top + b.height / 2]; }})()")
        page.settle()
        page.point(b[0] - 1, b[1])
        page.point(*b)
        assert part in text(page, "#tip"), selector
        assert page.js("(() => { const b = document.getElementById('tip').getBoundingClientRect(); return b.width > 0 && b.left >= 0 && b.right <= innerWidth && b.top >= 0 && b.bottom <= innerHeight; })()"), selector
        page.point(2, 2)
        assert page.js("document.getElementById('tip').hidden") is True


def test_nothing_moves_for_who_wants_no_motion(report):
    page = report("full.json", reduced=True)
    assert page.js("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    assert page.js("document.getAnimations().length") == 0
    assert page.js("[...document.querySelectorAll('*')].filter(e => getComputedStyle(e).transitionDuration !== '0s' || getComputedStyle(e).animationName !== 'none').length") == 0


def test_it_prints_on_white_without_what_paper_cannot_do(report):
    page = report("full.json", dark=True)
    page.ask("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.size(1039)
    page.settle()
    got = page.js(CONTRAST)
    assert got["page"] > 0.99 and got["low"] == []
    assert page.js("[...document.querySelectorAll('nav, details')].filter(e => e.getClientRects().length).length") == 0
    assert page.js("document.documentElement.scrollWidth <= innerWidth"), "a table is cut off on paper"
    pdf = page.ask("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"]
    assert len(pdf) > 20000
    page.ask("Emulation.setEmulatedMedia", media="")
    page.settle()
    assert page.js("document.querySelector('main').className") == "", "as before the print"
    assert page.faults() == []
