"""Scrapes daemons with a Prometheus client's parser. Checks the form of all metrics, then sums that must
add up.

usage: check_metrics.py URL..."""
import sys
import urllib.request
from prometheus_client.parser import text_string_to_metric_families

SUFFIXES = ("_bucket", "_count", "_sum")
PREFIXES = ("softhca_", "process_")  # the latter as any Prometheus client names it


class Scrape:
    """Families by the name operators see: name -> type; samples: (name, labels) -> value."""

    def __init__(self, url):
        text = urllib.request.urlopen(url, timeout=10).read().decode()
        self.types, self.labels, self.samples, self.sample_count = {}, {}, {}, 0
        for family in text_string_to_metric_families(text):
            if not family.name.startswith(PREFIXES):
                continue
            name = family.name + ("_total" if family.type == "counter" else "")
            expect(name not in self.types, f"{name}: twice")
            expect(family.documentation, f"{name}: no help")
            self.types[name] = family.type
            self.labels[name] = set()
            for sample in family.samples:
                self.take(name, sample)

    def take(self, family, sample):
        key = (sample.name, tuple(sorted(sample.labels.items())))
        expect(key not in self.samples, f"{key}: twice")
        expect(sample.value >= 0, f"{key}: {sample.value}")
        self.samples[key] = sample.value
        self.labels[family].add(frozenset(sample.labels) - {"le", "quantile"})

    def all(self, name, **labels):
        return {
            key[1]: value
            for key, value in self.samples.items()
            if key[0] == name and labels.items() <= dict(key[1]).items()
        }

    def sum(self, name, **labels):
        found = self.all(name, **labels)
        expect(found, f"{name} {labels}: not there")
        return sum(found.values())


def expect(condition, what):
    if not condition:
        sys.exit(f"check_metrics: {what}")


def check_form(scrapes):
    """A family has one type and the same labels everywhere."""
    types, labels = {}, {}
    for scrape in scrapes:
        for name, kind in scrape.types.items():
            expect(types.setdefault(name, kind) == kind, f"{name}: is a {kind}, and a {types[name]}")
            labels.setdefault(name, set()).update(scrape.labels[name])
    for name, found in labels.items():
        expect(len(found) == 1, f"{name}: labels {[sorted(one) for one in found]}")
    return len(types)


def check_histograms(scrape):
    for name in (n for n, kind in scrape.types.items() if kind == "histogram"):
        series = {}
        for labels, value in scrape.all(name + "_bucket").items():
            rest = tuple(pair for pair in labels if pair[0] != "le")
            series.setdefault(rest, []).append((float(dict(labels)["le"]), value))
        expect(series, f"{name}: no buckets")
        for rest, buckets in series.items():
            counts = [count for _, count in sorted(buckets)]
            expect(counts == sorted(counts), f"{name}: buckets shrink")
            expect(counts[-1] == scrape.samples[(name + "_count", rest)], f"{name}: count")


def check_sums(scrape):
    """At rest: guarantees and what is nobody's make the pool, what tenants have is what is in use."""
    pool = lambda what, name: scrape.sum(f"softhca_pool_{what}", pool=name)
    for name in ("vcbs", "pcbs"):
        given = scrape.sum(f"softhca_{name}_guaranteed")
        expect(given + pool("unallocated", name) == pool("size", name), f"{name}: guarantees")
        parts = scrape.sum("softhca_level_guaranteed", resource=name)
        expect(parts == given, f"{name}: guarantees of levels")
        expect(scrape.sum(f"softhca_{name}_in_use") == pool("in_use", name), f"{name}: in use")
    for kind in ("execution", "completion"):
        name = f"{kind}_credits"
        given = scrape.sum("softhca_credits_guaranteed", kind=kind)
        given += scrape.sum("softhca_gsa_credits", kind=kind)
        expect(given + pool("unallocated", name) == pool("size", name), f"{name}: guarantees")
        used = scrape.sum("softhca_credits_in_use", kind=kind)
        expect(used == pool("in_use", name), f"{name}: in use")
    for labels, total in scrape.all("softhca_pool_size").items():
        name = dict(labels)["pool"]
        expect(pool("in_use", name) <= pool("high_water", name) <= total, f"{name}: high water")
        if scrape.all("softhca_tenant_in_use", resource=name):
            used = scrape.sum("softhca_tenant_in_use", resource=name)
            expect(used == pool("in_use", name), f"{name}: of the tenants")


def check_work(scrape):
    """At rest, too: every command that was taken was started, once more each time it went back,
    waited and was counted where it came."""
    taken = scrape.sum("softhca_commands_total")
    expect(taken > 0, "no commands")
    started = taken + scrape.sum("softhca_commands_given_back_total")
    expect(scrape.sum("softhca_commands_started_total") == started, "commands started")
    expect(scrape.sum("softhca_arbitration_wait_seconds_count") == started, "arbitration waits")
    if "softhca_level_commands_total" in scrape.types:
        levels = {dict(labels)["tenant"] for labels in scrape.all("softhca_level_commands_total")}
        of_tenants = sum(scrape.sum("softhca_commands_total", tenant=name) for name in levels)
        of_levels = scrape.sum("softhca_level_commands_total")
        expect(of_levels == of_tenants, "commands of levels")
        waits = scrape.sum("softhca_level_arbitration_wait_seconds_count")
        back = sum(scrape.sum("softhca_commands_given_back_total", tenant=name) for name in levels)
        expect(of_levels <= waits <= of_levels + back, "arbitration waits of levels")


def main():
    scrapes = [Scrape(url) for url in sys.argv[1:]]
    count = check_form(scrapes)
    for scrape in scrapes:
        check_histograms(scrape)
        check_sums(scrape)
        check_work(scrape)
    print(f"{count} metrics, {[len(scrape.samples) for scrape in scrapes]} series")


if __name__ == "__main__":
    main()
