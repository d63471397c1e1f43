"""Prints how podman runs a container of the DaemonSet in deploy/kubernetes: options, image, arguments, one a
line. Makes the folders that it wants of the host.

usage: manifest_options.py CONTAINER FOLDER    FOLDER: for the files of ConfigMaps"""
import json
import os
import pathlib
import sys

import manifests


def source(volume, documents, folder):
    """What is mounted for a volume; none: an empty folder."""
    if "hostPath" in volume:
        path = volume["hostPath"]["path"]
        if volume["hostPath"]["type"] == "DirectoryOrCreate":
            os.makedirs(path, exist_ok=True)
        return path
    if "configMap" in volume:
        folder = folder / volume["configMap"]["name"]
        folder.mkdir(exist_ok=True)
        for name, text in documents["ConfigMap", volume["configMap"]["name"]]["data"].items():
            (folder / name).write_text(text)
        return folder
    return None


def options(pod, container, documents, folder):
    security = container["securityContext"]
    yield f"--user={pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"
    yield from (f"--cap-drop={name}" for name in security["capabilities"]["drop"])
    yield from (f"--cap-add={name}" for name in security["capabilities"].get("add", []))
    if pod["hostPID"]:
        yield "--pid=host"
    yield "--network=host" if pod.get("hostNetwork") else "--network=none"
    if not security["allowPrivilegeEscalation"]:
        yield "--security-opt=no-new-privileges"
    if security["readOnlyRootFilesystem"]:
        yield from ("--read-only", "--read-only-tmpfs=false")
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for mount in container["volumeMounts"]:
        path = source(volumes[mount["name"]], documents, folder)
        access = "ro" if mount.get("readOnly") else "rw"
        yield f"--volume={path}:{mount['mountPath']}:{access}" if path else f"--tmpfs={mount['mountPath']}"
    if "command" in container:
        yield f"--entrypoint={json.dumps(container['command'])}"
    yield container['image']
    yield from container.get("args", [])


def main():
    documents = manifests.build("base")
    pod = documents["DaemonSet", "softhca"]["spec"]["template"]["spec"]
    container = next(each for each in pod["initContainers"] + pod["containers"] if each["name"] == sys.argv[1])
    print(*options(pod, container, documents, pathlib.Path(sys.argv[2])), sep="\n")


main()
