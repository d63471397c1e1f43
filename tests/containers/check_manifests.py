#!/usr/bin/python3
"""Checks the manifests of deploy/kubernetes: fields and types against kubernetes.schema.json, and what no
schema says: names that refer to others, templates of the configuration, paths of the host, images that
deploy/containers builds. Then spoils them in many ways, each of which must be noticed.

usage: check_manifests.py SOFTHCAD    checks the configuration in them
exit code 77: skipped"""
import copy
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

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/kubernetes"
SCHEMA = json.loads((pathlib.Path(__file__).parent / "kubernetes.schema.json").read_text())
DOMAIN = "softhca.io/"


def load():
    """By (kind, name)."""
    documents = [document for path in sorted(FOLDER.glob("*.yaml")) for document in yaml.safe_load_all(path.read_text())]
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


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


def meaning_problems(documents, softhcad):
    pod = documents["DaemonSet", "softhca"]["spec"]["template"]["spec"]
    text = documents["ConfigMap", "softhca"]["data"]["softhca.toml"]
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        checked = subprocess.run([softhcad, "--check-config", "--config", file.name], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
    if checked.returncode:
        yield f"the configuration: {checked.stdout}"
        return
    config = tomllib.loads(text)
    templates = {template["name"]: template for template in config["template"]}
    plugin = next(container for container in pod["containers"] if container["name"] == "device-plugin")
    offered = dict(re.findall(r"--resource=(\S+)=(\d+)", "\n".join(plugin["args"])))
    if set(offered) != set(templates):
        yield f"templates {set(templates)}, resources {set(offered)}"
    for name, count in offered.items():
        if name in templates and int(count) > len(templates[name]["addresses"]):
            yield f"{count} of {name}, {len(templates[name]['addresses'])} addresses"
    if sum(map(int, offered.values())) > config["pools"]["tenants"]:
        yield "more tenants than pools.tenants"
    # The kubelet mounts paths of the host: they must mean the same to daemon and plugin.
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    for container in containers_of(pod):
        for mount in container.get("volumeMounts", []):
            if mount["name"] in paths and mount["mountPath"] != paths[mount["name"]]:
                yield f"{container['name']}: {paths[mount['name']]} is {mount['mountPath']} in it"
    for option in ("--runtime-dir", "--libraries"):
        if not any(argument == f"{option}={path}" for argument in plugin["args"] for path in paths.values()):
            yield f"{option} is no path of the host"
    targets = re.findall(r"^FROM \S+ AS (\S+)$", (ROOT / "deploy/containers/Containerfile").read_text(), re.MULTILINE)
    for container in containers_of(pod):
        if container["image"] not in {f"softhca-{target}:latest" for target in targets}:
            yield f"no image {container['image']} is built"
    for each in pods_of(documents):
        for container in containers_of(each):
            for resource in container.get("resources", {}).get("limits", {}):
                if resource.startswith(DOMAIN) and resource[len(DOMAIN):] not in offered:
                    yield f"nobody offers {resource}"


def problems(documents, softhcad):
    return [*schema_problems(documents)] or [*reference_problems(documents), *meaning_problems(documents, softhcad)]


def spoilings():
    """What makes one of the documents wrong: (description, function)."""
    def daemon_set(change):
        return lambda documents: change(documents["DaemonSet", "softhca"]["spec"]["template"]["spec"])

    def config(old, new):
        def change(documents):
            data = documents["ConfigMap", "softhca"]["data"]
            assert old in data["softhca.toml"]
            data["softhca.toml"] = data["softhca.toml"].replace(old, new)
        return change

    def pingpong(documents):
        return documents["Pod", "pingpong"]["spec"]["containers"][0]

    yield "an unknown field", daemon_set(lambda pod: pod.update(hostPid=True))
    yield "a field of another type", daemon_set(lambda pod: pod.update(hostPID="true"))
    yield "no image", daemon_set(lambda pod: pod["containers"][0].pop("image"))
    yield "a capability with its prefix", daemon_set(
        lambda pod: pod["containers"][0]["securityContext"]["capabilities"].update(add=["CAP_NET_RAW"]))
    yield "a probe without a command", daemon_set(lambda pod: pod["containers"][0]["readinessProbe"].pop("exec"))
    yield "a wrong kind of path", daemon_set(lambda pod: pod["volumes"][1]["hostPath"].update(type="Folder"))
    yield "two kinds of volume", daemon_set(lambda pod: pod["volumes"][1].update(emptyDir={}))
    yield "a number that is no text", lambda documents: pingpong(documents).update(command=["ibv_rc_pingpong", 0])
    yield "another version of the API", lambda documents: documents["DaemonSet", "softhca"].update(apiVersion="v1")
    yield "a volume that is not there", daemon_set(lambda pod: pod["volumes"].pop())
    yield "another ConfigMap", daemon_set(lambda pod: pod["volumes"][0]["configMap"].update(name="other"))
    yield "another namespace", lambda documents: documents["DaemonSet", "softhca"]["metadata"].update(namespace="x")
    yield "labels that the selector does not have", lambda documents: documents["DaemonSet", "softhca"]["spec"][
        "selector"]["matchLabels"].update({"app.kubernetes.io/name": "other"})
    yield "a configuration with a mistake", config("vcbs", "vcb")
    yield "a template that is not offered", config('"small"', '"tiny"')
    yield "more devices than addresses", daemon_set(lambda pod: pod["containers"][1]["args"].__setitem__(1, "--resource=large=3"))
    yield "another path of the host", daemon_set(lambda pod: pod["volumes"][1]["hostPath"].update(path="/run/other"))
    yield "another path for the plugin", daemon_set(lambda pod: pod["containers"][1]["args"].__setitem__(3, "--libraries=/opt"))
    yield "an image that is not built", daemon_set(lambda pod: pod["containers"][1].update(image="softhca-plugin:latest"))
    yield "a resource that nobody offers", lambda documents: pingpong(documents)["resources"]["limits"].update(
        {"softhca.io/tiny": 1})


def main():
    softhcad = sys.argv[1]
    documents = load()
    found = problems(documents, softhcad)
    for spoilt, change in spoilings():
        copied = copy.deepcopy(documents)
        change(copied)
        if not problems(copied, softhcad):
            found.append(f"not noticed: {spoilt}")
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(bool(found))


main()
