"""Checks a Grafana dashboard by the rules of Grafana's dashboard-linter and some of our own: see RULES.

Then asks a Prometheus for what the dashboard and the recording rules show, and for the series that the alerts
look at: each expression has a finite value. Then for the rules: all are evaluated without an error, and no
alert fires.

usage: check_dashboard.py DASHBOARD URL SECONDS    what lacks a value is asked for again for so long
       check_dashboard.py --rules DASHBOARD        only the rules
       check_dashboard.py --self-test DASHBOARD    each rule finds a change that breaks it"""
import copy
import json
import math
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

SELECTOR = re.compile(r'(?:[a-z_]+:)?softhca_\w+(?::\w+)?(?:\{[^}]*\})?|up\{[^}]*\}')
VARIABLES = {"$job": ".+", "$instance": ".+", "$tenant": ".+", "$__rate_interval": "10s"}
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Those of the linter's list that a metric of ours may have.
UNITS = {"short", "percentunit", "bytes", "Bps", "pps", "ops", "s", "dateTimeFromNow"}
NOT_METRICS = {"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring", "group_left", "group_right"}


def panels(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions(dashboard):
    return [target["expr"] for panel in panels(dashboard) for target in panel.get("targets", [])]


def variables(dashboard, kind="query"):
    return [variable for variable in dashboard["templating"]["list"] if variable["type"] == kind]


def selectors(expression):
    """(metric, matchers) of each selector."""
    bare = re.sub(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)|\[[^]]*\]", " ", expression)
    for found in re.finditer(r'"[^"]*"|\b([a-zA-Z_:][\w:]*)\b(?!\s*\()(\{(?:[^}"]|"[^"]*")*\})?', bare):
        if found[1] and found[1] not in NOT_METRICS:
            yield found[1], found[2] or ""


def good_variable(dashboard, name):
    return any(variable["name"] == name and variable["label"] == name.title() and variable["multi"] and
               variable["allValue"] == ".+" and variable["datasource"] == DATASOURCE for variable in variables(dashboard))


def each_selects(dashboard, label):
    return all(f'{label}=~"${label}"' in matchers for text in expressions(dashboard) for _, matchers in selectors(text))


# By name: True if the dashboard keeps the rule. The linter's, except target-promql-rule, which Prometheus checks
# here, and target-logql-rule and target-logql-auto-rule, which are about Loki. Those that begin with "our" are ours.
RULES = {
    "template-datasource-rule": lambda d: [(v["name"], v["label"], v["query"]) for v in variables(d, "datasource")] ==
                                          [("datasource", "Data source", "prometheus")],
    "template-job-rule": lambda d: good_variable(d, "job"),
    "template-instance-rule": lambda d: good_variable(d, "instance"),
    "template-label-promql-rule": lambda d: all(
        re.fullmatch(r"label_values\(\w+(\{.*\})?, \w+\)", v["query"]["query"]) for v in variables(d)),
    "template-on-time-change-reload-rule": lambda d: all(v["refresh"] == 2 for v in variables(d)),
    "panel-datasource-rule": lambda d: all(p["datasource"] == DATASOURCE for p in panels(d)),
    "panel-title-description-rule": lambda d: all(p.get("title") and p.get("description") for p in panels(d)),
    "panel-units-rule": lambda d: all(p["fieldConfig"]["defaults"].get("unit") in UNITS for p in panels(d)),
    "panel-no-targets-rule": lambda d: all(p.get("targets") for p in panels(d)),
    "target-rate-interval-rule": lambda d: all(
        interval == "$__rate_interval" for e in expressions(d) for interval in re.findall(r"\[([^]]*)\]", e)),
    "target-job-rule": lambda d: each_selects(d, "job"),
    "target-instance-rule": lambda d: each_selects(d, "instance"),
    "target-counter-agg-rule": lambda d: all(
        len(re.findall(r"\w_total\b", e)) == len(re.findall(r"\b(?:i?rate|increase)\(\w+_total\{[^}]*\}\[", e))
        for e in expressions(d)),
    "uneditable-dashboard": lambda d: d["editable"] is False,
    "our-thresholds": lambda d: all(p["fieldConfig"]["defaults"].get("thresholds", {}).get("steps") for p in panels(d)),
    "our-links": lambda d: bool(d["links"]) and all(
        p["fieldConfig"]["defaults"].get("links") for p in panels(d) if p["type"] == "timeseries"),
    "our-annotations": lambda d: {"Restarts", "Reloads", "Alerts"} <= {a["name"] for a in d["annotations"]["list"]},
    "our-unique-ids": lambda d: len({p["id"] for p in d["panels"]}) == len(d["panels"]),
}


def broken_rules(dashboard):
    return [name for name, keeps in RULES.items() if not keeps(dashboard)]


def self_test(dashboard):
    def expression(change):
        def apply(d):
            target = next(t for p in panels(d) for t in p["targets"] if "rate(" in t["expr"])
            target["expr"] = change(target["expr"])
        return apply

    def default(key):
        return lambda d: panels(d)[-1]["fieldConfig"]["defaults"].pop(key)

    changes = {
        "template-datasource-rule": lambda d: variables(d, "datasource")[0].update(name="prometheus"),
        "template-job-rule": lambda d: variables(d)[0].update(multi=False),
        "template-instance-rule": lambda d: variables(d)[1].update(allValue=".*"),
        "template-label-promql-rule": lambda d: variables(d)[2]["query"].update(query="softhca_sessions"),
        "template-on-time-change-reload-rule": lambda d: variables(d)[2].update(refresh=1),
        "panel-datasource-rule": lambda d: panels(d)[0].update(datasource={"type": "prometheus", "uid": "abc"}),
        "panel-title-description-rule": lambda d: panels(d)[3].pop("description"),
        "panel-units-rule": default("unit"),
        "panel-no-targets-rule": lambda d: panels(d)[1].pop("targets"),
        "target-rate-interval-rule": expression(lambda e: e.replace("$__rate_interval", "5m")),
        "target-job-rule": expression(lambda e: e.replace('job=~"$job",', "")),
        "target-instance-rule": expression(lambda e: e + " + up"),
        "target-counter-agg-rule": expression(lambda e: re.sub(r"rate\(|\[.*?\]\)", "", e)),
        "uneditable-dashboard": lambda d: d.update(editable=True),
        "our-thresholds": default("thresholds"),
        "our-links": default("links"),
        "our-annotations": lambda d: d["annotations"]["list"].pop(),
        "our-unique-ids": lambda d: panels(d)[0].update(id=panels(d)[1]["id"]),
    }
    expect(changes.keys() == RULES.keys(), "a rule is not tested")
    for name, change in changes.items():
        changed = copy.deepcopy(dashboard)
        change(changed)
        expect(name in broken_rules(changed), f"{name} does not find its violation")


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


def of_dashboard(dashboard):
    """Panel and expression -> query; those of variables must find something, too."""
    queries = {}
    for panel in panels(dashboard):
        for target in panel["targets"]:
            queries[f"{panel['title']}: {target['expr']}"] = substituted(target["expr"])
    for variable in variables(dashboard):
        arguments = variable["query"]["query"].removeprefix("label_values(").removesuffix(")")
        selector, label = arguments.rsplit(", ", 1)
        queries[f"variable {variable['name']}"] = f"group by ({label}) ({substituted(selector)})"
    return queries


def rules(url):
    return [rule for group in get(url, "rules")["groups"] for rule in group["rules"]]


def has_value(url, query):
    return any(math.isfinite(float(series["value"][1])) for series in get(url, "query", query=query)["result"])


def main():
    mode = sys.argv.pop(1) if sys.argv[1].startswith("--") else None
    with open(sys.argv[1]) as file:
        dashboard = json.load(file)
    if mode == "--self-test":
        self_test(dashboard)
        return
    expect(not broken_rules(dashboard), f"not kept: {', '.join(broken_rules(dashboard))}")
    if mode == "--rules":
        return
    url, seconds = sys.argv[2:]
    until = time.monotonic() + float(seconds)
    missing = of_dashboard(dashboard)
    # What an annotation marks need not have happened: it only has to be an expression.
    for annotation in dashboard["annotations"]["list"]:
        if "expr" in annotation:
            get(url, "query", query=substituted(annotation["expr"]))
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
