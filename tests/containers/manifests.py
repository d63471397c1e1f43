"""The manifests of deploy/kubernetes, as kubectl builds them by kustomize."""
import pathlib
import re
import subprocess

import yaml

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy/kubernetes"


def why_not():
    """Why kubectl cannot build them; empty: it can."""
    try:
        said = subprocess.run(["kubectl", "version", "--client"], stdout=subprocess.PIPE, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no kubectl: {error}"
    minor = re.search(r'v1\.(\d+)', said)
    # Older ones have a kustomize without components.
    return "" if minor and int(minor[1]) >= 21 else f"kubectl is older than 1.21: {said.strip()}"


def build(folder):
    """The objects of a folder of kustomize, by (kind, name)."""
    text = subprocess.run(["kubectl", "kustomize", FOLDER / folder], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}


def folders():
    return ["base", *sorted(f"overlays/{path.name}" for path in (FOLDER / "overlays").iterdir())]
