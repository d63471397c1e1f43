#!/usr/bin/env python3
"""Lists what the built programs and libraries consist of, in SPDX 2.3 (ISO/IEC 5962), as JSON.

usage: generate_sbom.py VERSION OUTPUT [--static NAME=VERSION]... FILE...
       generate_sbom.py --check OUTPUT

Each FILE is a program or library of this build. What it is linked with is found by ldd, and the
distribution's package of that, with its version, by dpkg. --static names a library that is
compiled in, from headers or an archive. --check ends with 1 and says why if OUTPUT is not such a list.
"""

import datetime
import hashlib
import json
import os
import re
import subprocess
import sys


def output_of(*command):
    """What a command prints; nothing if it fails or is not there."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def libraries_of(file):
    """Paths of the libraries that a program or library loads, those of this build left out."""
    here = os.path.dirname(os.path.abspath(file))
    build = os.path.dirname(here)
    paths = re.findall(r"=> (/\S+)", output_of("ldd", file))
    return {os.path.realpath(path) for path in paths if not path.startswith(build)}


def package_of(path):
    """Name and version of the Debian package of a file, or the file's name and none."""
    for candidate in (path, path.removeprefix("/usr")):
        owner = output_of("dpkg-query", "-S", candidate).split(":")[0]
        if owner:
            return owner, output_of("dpkg-query", "-W", "-f", "${Version}\\n", owner).split("\n")[0]
    return os.path.basename(path), None


def spdx_id(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def package(name, version, **more):
    entry = {"SPDXID": spdx_id(name), "name": name, "downloadLocation": "NOASSERTION",
             "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
             "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION", **more}
    if version:
        entry["versionInfo"] = version
    return entry


def relationship(one, kind, other):
    return {"spdxElementId": spdx_id(one), "relationshipType": kind,
            "relatedSpdxElement": spdx_id(other)}


def generate(version, files, static):
    """The document, of the files given and everything that they load."""
    found = {}
    for file in files:
        for path in libraries_of(file):
            name, its_version = package_of(path)
            found[name] = its_version
    kinds = [("softhca", version, {"licenseDeclared": "Apache-2.0"})]
    kinds += [(name, found[name], {}) for name in sorted(found)]
    kinds += [(name, its_version, {}) for name, its_version in static]
    packages = [package(name, its_version, **more) for name, its_version, more in kinds]
    links = [relationship("DOCUMENT", "DESCRIBES", "softhca")]
    links += [relationship("softhca", "DYNAMIC_LINK", name) for name in sorted(found)]
    links += [relationship("softhca", "STATIC_LINK", name) for name, _ in static]
    digest = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", datetime.datetime.now().timestamp()))
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"softhca-{version}",
            "documentNamespace": f"https://spdx.org/spdxdocs/softhca-{version}-{digest[:32]}",
            "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                             "creators": ["Tool: generate_sbom.py"]},
            "packages": packages, "relationships": links}


def faults_of(document):
    """What keeps the document from being an SPDX list of this project's parts."""
    for key in ("spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo"):
        if not document.get(key):
            yield f"{key} is missing"
    packages = document.get("packages", [])
    ids = {"SPDXRef-DOCUMENT"} | {each["SPDXID"] for each in packages}
    if len(ids) != len(packages) + 1:
        yield "two parts have the same SPDXID"
    for each in packages:
        if not re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", each["SPDXID"]):
            yield f"{each['SPDXID']} is no SPDXID"
        if not each.get("versionInfo"):
            yield f"{each['name']} has no version"
    linked = {each["relatedSpdxElement"] for each in document.get("relationships", [])}
    for missing in sorted(ids - linked - {"SPDXRef-DOCUMENT"}):
        yield f"nothing says what {missing} is to the project"
    for unknown in sorted(linked - ids):
        yield f"{unknown} is not in the list"
    names = " ".join(each["name"] for each in packages)
    for needed in ("softhca", "cli11", "libc6", "libsystemd", "nlohmann-json", "tomlplusplus"):
        if needed not in names:
            yield f"{needed} is not in the list"
    if "dpdk" not in names and "librte-eal" not in names:
        yield "DPDK is not in the list"


def main(arguments):
    if arguments[:1] == ["--check"]:
        with open(arguments[1], encoding="utf-8") as file:
            faults = list(faults_of(json.load(file)))
        print("\n".join(faults) or "complete")
        return 1 if faults else 0
    if len(arguments) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    version, output, *rest = arguments
    static, files = [], []
    while rest:
        if (first := rest.pop(0)) == "--static":
            static.append(rest.pop(0).split("=", 1))
        else:
            files.append(first)
    with open(output, "w", encoding="utf-8") as file:
        json.dump(generate(version, files, static), file, indent=2)
        file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
