#!/usr/bin/python3
"""Checks the manifests of deploy/kubernetes, as kubectl builds base and overlays: fields and types against
kubernetes.schema.json, and what no schema says: names that refer to others, templates of the configuration,
paths of the host, images and their version, rules. Then spoils them in many ways, each of which must be
noticed.

usage: check_manifests.py SOFTHCAD    checks the configuration in them
exit code 77: skipped"""
import copy
import ipaddress
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

try:
    import jsonschema
    import yaml
except ImportError as error:
    print(f"{error}; install: tools/install-packages test")
    sys.exit(77)

import manifests

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((pathlib.Path(__file__).parent / "kubernetes.schema.json").read_text())
DOMAIN = "softhca.io/"
DAEMON_SET = "DaemonSet", "softhca"


def load(folder):
    pingpong = yaml.safe_load((manifests.FOLDER / "pingpong.yaml").read_text())
    return {**manifests.build(folder), ("Pod", "pingpong"): pingpong}


def containers_of(pod):
    return pod.get("initContainers", []) + pod["containers"]


def pods_of(documents):
    for (kind, _), each in documents.items():
        if kind == "DaemonSet":
            yield each["spec"]["template"]["spec"]
        elif kind == "Pod":
            yield each["spec"]


def schema_problems(documents):
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for name, document in documents.items():
        for error in validator.iter_errors(document):
            yield f"{name}: {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"


def reference_problems(documents):
    for (kind, name), each in documents.items():
        namespace = each["metadata"].get("namespace")
        if namespace and ("Namespace", namespace) not in documents:
            yield f"{name}: no namespace {namespace}"
        if kind == "DaemonSet":
            wanted = each["spec"]["selector"]["matchLabels"]
            if not wanted.items() <= each["spec"]["template"]["metadata"]["labels"].items():
                yield f"{name}: its selector does not find its own pods"
    for pod in pods_of(documents):
        volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
        used = {mount["name"] for container in containers_of(pod) for mount in container.get("volumeMounts", [])}
        for volume in used ^ set(volumes):
            yield f"volume {volume} is not there, or not mounted"
        for volume in volumes.values():
            if "configMap" in volume and ("ConfigMap", volume["configMap"]["name"]) not in documents:
                yield f"no ConfigMap {volume['configMap']['name']}"
        names = [container["name"] for container in containers_of(pod)]
        if len(set(names)) < len(names):
            yield f"two containers of one name: {names}"


def on_this_host(text):
    """The configuration with the networks that this host has in place of those of a site."""
    return text.replace('"10.0.0.0/24"', '"127.0.0.0/8"').replace('"10.64.0.0/16"', '"fd00::/64"')


def check_config(text, softhcad):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(on_this_host(text))
        file.flush()
        checked = subprocess.run([softhcad, "--check-config", "--config", file.name], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
    return checked.stdout if checked.returncode else ""


def addresses_of(template, config):
    """How many addresses there are for the template's tenants."""
    count = 0
    for text in template["addresses"]:
        first, _, last = text.partition("-")
        if any(port["name"] == text for port in config.get("port", [])):
            count += config["pools"]["tenants"]
        else:
            count += int(ipaddress.ip_address(last or first)) - int(ipaddress.ip_address(first)) + 1
    return count


def offered_by(documents):
    plugin = next(container for container in documents[DAEMON_SET]["spec"]["template"]["spec"]["containers"]
                  if container["name"] == "device-plugin")
    return plugin, dict(re.findall(r"--resource=(\S+)=(\d+)", "\n".join(plugin["args"])))


def template_problems(documents, config):
    templates = {template["name"]: template for template in config["template"]}
    _, offered = offered_by(documents)
    if set(offered) != set(templates):
        yield f"templates {set(templates)}, resources {set(offered)}"
    for name, count in offered.items():
        if name in templates and int(count) > addresses_of(templates[name], config):
            yield f"{count} of {name}, {addresses_of(templates[name], config)} addresses"
    if sum(map(int, offered.values())) > config["pools"]["tenants"]:
        yield "more tenants than pools.tenants"
    for each in pods_of(documents):
        for container in containers_of(each):
            for resource in container.get("resources", {}).get("limits", {}):
                if resource.startswith(DOMAIN) and resource[len(DOMAIN):] not in offered:
                    yield f"nobody offers {resource}"


def path_problems(documents, config):
    """The kubelet mounts paths of the host: they must mean the same to daemon and plugin."""
    pod = documents[DAEMON_SET]["spec"]["template"]["spec"]
    plugin, _ = offered_by(documents)
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    for container in containers_of(pod):
        for mount in container.get("volumeMounts", []):
            if mount["name"] in paths and mount["mountPath"] != paths[mount["name"]]:
                yield f"{container['name']}: {paths[mount['name']]} is {mount['mountPath']} in it"
    if not any(argument == f"--runtime-dir={path}" for argument in plugin["args"] for path in paths.values()):
        yield "--runtime-dir is no path of the host"
    daemon = next(container for container in pod["containers"] if container["name"] == "softhcad")
    if not any(path in daemon["args"][daemon["args"].index("--libraries"):] for path in paths.values()):
        yield "--libraries is no path of the host"
    if config["daemon"]["state_dir"] not in paths.values():
        yield "daemon.state_dir is no path of the host"


def image_problems(documents):
    version = re.search(r"version: '(.*)'", (ROOT / "meson.build").read_text())[1]
    targets = re.findall(r"^FROM \S+ AS (\S+)$", (ROOT / "deploy/containers/Containerfile").read_text(), re.MULTILINE)
    for container in containers_of(documents[DAEMON_SET]["spec"]["template"]["spec"]):
        if container["image"] not in {f"localhost/softhca-{target}:{version}" for target in targets}:
            yield f"no image {container['image']} is built: deploy/kubernetes/base/kustomization.yaml needs {version}"


def port_problems(documents, config):
    """A port on an interface is one of the node, and needs capabilities."""
    pod = documents[DAEMON_SET]["spec"]["template"]["spec"]
    daemon = next(container for container in pod["containers"] if container["name"] == "softhcad")
    has_port = "port" in config
    if has_port != pod.get("hostNetwork", False):
        yield "a port and the network of the host belong together"
    if has_port != ("NET_RAW" in daemon["securityContext"]["capabilities"].get("add", [])):
        yield "a port and NET_RAW belong together"


def monitoring_problems(documents):
    metrics = [argument for container in documents[DAEMON_SET]["spec"]["template"]["spec"]["containers"]
               for argument in container["args"] if argument.startswith("--metrics")]
    if ("ServiceMonitor", "softhca") not in documents:
        if metrics:
            yield "metrics at an address that nothing scrapes"
        return
    monitor, service = documents["ServiceMonitor", "softhca"]["spec"], documents["Service", "softhca"]
    template = documents[DAEMON_SET]["spec"]["template"]
    if not monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items():
        yield "the ServiceMonitor does not find the Service"
    if not service["spec"]["selector"].items() <= template["metadata"]["labels"].items():
        yield "the Service does not find the pods"
    daemon = next(container for container in template["spec"]["containers"] if container["name"] == "softhcad")
    ports = {port["name"]: port["containerPort"] for port in daemon.get("ports", [])}
    served = {port["name"]: port["targetPort"] for port in service["spec"]["ports"]}
    for endpoint in monitor["endpoints"]:
        port = ports.get(served.get(endpoint["port"]))
        if not any(argument.startswith("--metrics=") and argument.endswith(f":{port}") for argument in metrics):
            yield f"nothing serves port {endpoint['port']} of the ServiceMonitor"
        token = endpoint["authorization"]["credentials"]
        secret = next((volume for volume in template["spec"]["volumes"]
                       if volume.get("secret", {}).get("secretName") == token["name"]), {"name": None})
        folder = next((mount["mountPath"] for mount in daemon["volumeMounts"] if mount["name"] == secret["name"]), None)
        if f"--metrics-credentials={folder}/{token['key']}" not in metrics:
            yield "scrapers have another token than the daemon"
    groups = [group for path in sorted((ROOT / "deploy/prometheus").glob("*.rules.yml"))
              for group in yaml.safe_load(path.read_text())["groups"]]
    if documents["PrometheusRule", "softhca"]["spec"]["groups"] != groups:
        yield ("the rules differ from those of deploy/prometheus; run "
               "deploy/kubernetes/generate-rules >deploy/kubernetes/components/monitoring/rules.yaml")


def problems(documents, softhcad):
    wrong = [*schema_problems(documents)] or [*reference_problems(documents)]
    if wrong:
        return wrong
    text = documents["ConfigMap", "softhca"]["data"]["softhca.toml"]
    mistakes = check_config(text, softhcad)
    if mistakes:
        return [f"the configuration: {mistakes}"]
    config = tomllib.loads(text)
    return [*template_problems(documents, config), *path_problems(documents, config), *image_problems(documents),
            *port_problems(documents, config), *monitoring_problems(documents)]


def spoilings():
    """What makes one of the documents wrong: (description, function)."""
    def pod(change):
        return lambda documents: change(documents[DAEMON_SET]["spec"]["template"]["spec"])

    def container(name, change):
        return pod(lambda spec: change(next(each for each in containers_of(spec) if each["name"] == name)))

    def volume(name, change):
        return pod(lambda spec: change(next(each for each in spec["volumes"] if each["name"] == name)))

    def argument(name, old, new):
        def change(spec):
            assert old in spec["args"]
            spec["args"] = [new if each == old else each for each in spec["args"]]
        return container(name, change)

    def config(old, new):
        def change(documents):
            data = documents["ConfigMap", "softhca"]["data"]
            assert old in data["softhca.toml"]
            data["softhca.toml"] = data["softhca.toml"].replace(old, new)
        return change

    def pingpong(documents):
        return documents["Pod", "pingpong"]["spec"]["containers"][0]

    yield "an unknown field", pod(lambda spec: spec.update(hostPid=True))
    yield "a field of another type", pod(lambda spec: spec.update(hostPID="true"))
    yield "no image", container("softhcad", lambda spec: spec.pop("image"))
    yield "a capability with its prefix", container(
        "softhcad", lambda spec: spec["securityContext"]["capabilities"].update(add=["CAP_NET_RAW"]))
    yield "a probe without a command", container("softhcad", lambda spec: spec["readinessProbe"].pop("exec"))
    yield "a wrong kind of path", volume("run", lambda each: each["hostPath"].update(type="Folder"))
    yield "two kinds of volume", volume("run", lambda each: each.update(emptyDir={}))
    yield "a number that is no text", lambda documents: pingpong(documents).update(command=["ibv_rc_pingpong", 0])
    yield "a toleration without its operator", pod(lambda spec: spec.update(tolerations=[{"operator": "Any"}]))
    yield "another version of the API", lambda documents: documents[DAEMON_SET].update(apiVersion="v1")
    yield "a volume that is not there", pod(lambda spec: spec["volumes"].pop())
    yield "another ConfigMap", volume("config", lambda each: each["configMap"].update(name="other"))
    yield "another namespace", lambda documents: documents[DAEMON_SET]["metadata"].update(namespace="x")
    yield "labels that the selector does not have", lambda documents: documents[DAEMON_SET]["spec"][
        "selector"]["matchLabels"].update({"app.kubernetes.io/name": "other"})
    yield "a configuration with a mistake", config("vcbs", "vcb")
    yield "a template that is not offered", config('"small"', '"tiny"')
    yield "more devices than addresses", argument("device-plugin", "--resource=large=2", "--resource=large=17")
    yield "another path of the host", volume("run", lambda each: each["hostPath"].update(path="/run/other"))
    yield "another path for the plugin", argument("device-plugin", "--runtime-dir=/run/softhca", "--runtime-dir=/run")
    yield "another folder of libraries", argument("softhcad", "/opt/softhca", "/opt")
    yield "an image that is not built", container("device-plugin", lambda spec: spec.update(image="localhost/softhca-plugin:0.1.0"))
    yield "an image of any version", container("softhcad", lambda spec: spec.update(image="localhost/softhca-daemon:latest"))
    yield "the node's network without need", pod(lambda spec: spec.update(hostNetwork=not spec.get("hostNetwork", False)))
    yield "a resource that nobody offers", lambda documents: pingpong(documents)["resources"]["limits"].update(
        {"softhca.io/tiny": 1})
    yield "metrics without their token", container(
        "softhcad", lambda spec: spec.update(args=[*spec["args"], "--metrics=[::]:1"][:4]))


def monitoring_spoilings():
    def change(kind, *path, **values):
        def spoil(documents):
            part = documents[kind, "softhca"]
            for step in path:
                part = part[step]
            part.update(values)
        return spoil

    yield "a monitor of another service", change("ServiceMonitor", "spec", "selector", "matchLabels",
                                                 **{"app.kubernetes.io/name": "x"})
    yield "a service of other pods", change("Service", "spec", "selector", **{"app.kubernetes.io/name": "x"})
    yield "another port", change("Service", "spec", "ports", 0, targetPort="other")
    yield "another token", change("ServiceMonitor", "spec", "endpoints", 0, "authorization", "credentials", key="x")
    yield "a rule that is changed", change("PrometheusRule", "spec", "groups", 0, "rules", 0, expr="1")


def main():
    softhcad = sys.argv[1]
    reason = manifests.why_not()
    if reason:
        print(reason)
        sys.exit(77)
    found = []
    for folder in manifests.folders():
        documents = load(folder)
        found += [f"{folder}: {problem}" for problem in problems(documents, softhcad)]
    documents = load("overlays/cluster")
    for spoilt, change in [*spoilings(), *monitoring_spoilings()]:
        copied = copy.deepcopy(documents)
        change(copied)
        if not problems(copied, softhcad):
            found.append(f"not noticed: {spoilt}")
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(bool(found))


main()
