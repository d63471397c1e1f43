"""Mounts and environment of a container, from the file of the Container Device Interface that softhcad keeps
in its runtime directory."""
import dataclasses
import json
import pathlib


class NotThere(Exception):
    """The file, or the tenant in it, is not there; the text says what to check."""


@dataclasses.dataclass(frozen=True)
class Mount:
    host_path: str
    container_path: str


@dataclasses.dataclass(frozen=True)
class Edits:
    environment: dict
    mounts: list


def edits_of(tenant, runtime_dir):
    path = pathlib.Path(runtime_dir) / "cdi.json"
    try:
        spec = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotThere(f"there is no {path}; check that softhcad's --libraries names a folder with the provider") from None
    except ValueError as error:
        raise NotThere(f"{path}: {error}") from error
    device = next((each for each in spec["devices"] if each["name"] == tenant), None)
    if device is None:
        raise NotThere(f"{path} has no tenant {tenant}")
    parts = device["containerEdits"], spec["containerEdits"]
    return Edits(dict(variable.split("=", 1) for part in parts for variable in part.get("env", [])),
                 [Mount(mount["hostPath"], mount["containerPath"]) for part in parts for mount in part["mounts"]])
