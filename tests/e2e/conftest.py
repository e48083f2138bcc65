import pytest

from harness import Gateway, Provider, provider_conf


class World:
    """Providers and gateways of one test, closed at its end. A gateway must end with 0: under the sanitizers that says that
    nothing leaked and nothing was touched after its end."""

    def __init__(self, tmp):
        self.tmp, self.providers, self.gateways = tmp, [], []

    def provider(self, script, **kw):
        p = Provider(script, **kw)
        self.providers.append(p)
        return p

    def gateway(self, config, **kw):
        d = self.tmp / f"g{len(self.gateways)}"
        d.mkdir(exist_ok=True)
        g = Gateway(d, config, **kw)
        self.gateways.append(g)
        return g

    def chain(self, *scripts, dialects=None, config=None, route=None, links=None, env=None, **kw):
        """A gateway with providers a, b, … (one per script) in one route `r`. Returns (gateway, [providers])."""
        ps = [self.provider(s) for s in scripts]
        names = [chr(ord("a") + i) for i in range(len(ps))]
        dialects = dialects or ["openai"] * len(ps)
        conf = {"providers": {n: provider_conf(p.port, d, key=f"sk-key-{n}-SECRET") for n, p, d in zip(names, ps, dialects)},
                "routes": [{"model": "r", "chain": [{"provider": n, "model": f"m-{n}", **((links or {}).get(n, {}))} for n in names],
                            **(route or {})}]}
        conf.update(config or {})
        return self.gateway(conf, env=env, **kw), ps

    def end(self):
        codes = [(g.stop(), g.log()) for g in self.gateways]
        for p in self.providers:
            p.close()
        for code, log in codes:
            assert code == 0, log
            assert "ERROR: " not in log and "runtime error" not in log, log


@pytest.fixture
def world(tmp_path):
    w = World(tmp_path)
    yield w
    w.end()
