"""Asks a Prometheus for what a Grafana dashboard and the recording rules show, and for the series that
the alerts look at: each expression has a finite value. Then for the rules: all are evaluated without an
error, and no alert fires.

usage: check_dashboard.py DASHBOARD URL SECONDS    what lacks a value is asked for again for so long"""
import json
import math
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

SELECTOR = re.compile(r'(?:[a-z_]+:)?softhca_\w+(?::\w+)?(?:\{[^}]*\})?|up\{[^}]*\}')
VARIABLES = {"$instance": ".+", "$tenant": ".+", "$__rate_interval": "10s"}


def get(url, path, **parameters):
    query = urllib.parse.urlencode(parameters)
    try:
        answer = urllib.request.urlopen(f"{url}/api/v1/{path}?{query}", timeout=10)
    except urllib.error.HTTPError as error:
        sys.exit(f"check_dashboard: {parameters}: {error.read().decode()}")
    return json.load(answer)["data"]


def expect(condition, what):
    if not condition:
        sys.exit(f"check_dashboard: {what}")


def substituted(text):
    for variable, value in VARIABLES.items():
        text = text.replace(variable, value)
    expect("$" not in text, f"a variable without a value: {text}")
    return text


def of_dashboard(path):
    """Panel and expression -> query; those of variables must find something, too."""
    with open(path) as file:
        dashboard = json.load(file)
    queries = {}
    for panel in dashboard["panels"]:
        expect(panel["type"] == "row" or panel["targets"], f"panel {panel['title']}: no expression")
        for target in panel.get("targets", []):
            queries[f"{panel['title']}: {target['expr']}"] = substituted(target["expr"])
    expect(queries, f"{path}: no panels")
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            arguments = variable["query"]["query"].removeprefix("label_values(").removesuffix(")")
            selector, label = arguments.rsplit(", ", 1)
            queries[f"variable {variable['name']}"] = f"group by ({label}) ({substituted(selector)})"
    return queries


def rules(url):
    return [rule for group in get(url, "rules")["groups"] for rule in group["rules"]]


def has_value(url, query):
    return any(math.isfinite(float(series["value"][1])) for series in get(url, "query", query=query)["result"])


def main():
    dashboard, url, seconds = sys.argv[1:]
    until = time.monotonic() + float(seconds)
    missing = of_dashboard(dashboard)
    recorded = {f"recording rule {rule['name']}": rule["name"] for rule in rules(url) if rule["type"] == "recording"}
    expect(recorded, "no recording rules")
    missing |= recorded
    for rule in rules(url):
        if rule["type"] == "alerting":
            selectors = SELECTOR.findall(rule["query"])
            expect(selectors, f"alert {rule['name']} looks at nothing")
            missing |= {f"alert {rule['name']}: {selector}": selector for selector in selectors}
    asked = len(missing)
    while missing := {what: query for what, query in missing.items() if not has_value(url, query)}:
        expect(time.monotonic() < until, "without a value:\n" + "\n".join(missing))
        time.sleep(0.5)
    alerts = [rule for rule in rules(url) if rule["type"] == "alerting"]
    expect(alerts, "no alerts")
    for rule in rules(url):
        expect(rule["health"] == "ok", f"{rule['name']}: {rule['health']} {rule.get('lastError', '')}")
    firing = [rule["name"] for rule in alerts if rule["state"] == "firing"]
    expect(not firing, f"alerts fire: {firing}")
    pending = [rule["name"] for rule in alerts if rule["state"] == "pending"]
    print(f"{asked} expressions have values; of {len(alerts)} alerts pending: {pending}")


if __name__ == "__main__":
    main()
