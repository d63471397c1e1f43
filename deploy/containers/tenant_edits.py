"""What a container is given of a tenant: mounts and environment by which unmodified programs in it find
the tenant's device, as softhca-run sets it for a program of the host."""
import dataclasses
import glob
import pathlib

# In the container.
LIBRARIES = "/opt/softhca"

PRELOAD = "libsofthca-preload.so"


class NotThere(Exception):
    """What would be mounted is not there; the text says what."""


@dataclasses.dataclass(frozen=True)
class Mount:
    """Read-only: connecting to a socket takes no write access to the file system it is in."""

    host_path: str
    container_path: str


def library_mounts(folder=None):
    """The provider for each private interface of libibverbs, and the preloaded library. `folder`: where
    packages put libraries; none: the one of this machine that has them."""
    pattern = f"{folder or '/usr/lib/*'}/libibverbs/libsofthca-rdmav*.so"
    providers = sorted(glob.glob(pattern))
    if not providers:
        raise NotThere(f"there is no provider {pattern}; install softhca-provider")
    preload = pathlib.Path(providers[0]).parent.parent / "softhca" / PRELOAD
    if not preload.is_file():
        raise NotThere(f"there is no {preload}; install softhca-provider")
    return [Mount(path, f"{LIBRARIES}/{pathlib.Path(path).name}") for path in (*providers, str(preload))]


def tenant_mount(tenant, runtime_dir):
    """At the same path as on the host: the device tree names the socket by it."""
    folder = pathlib.Path(runtime_dir) / tenant
    if not (folder / "sysfs").is_dir():
        raise NotThere(f"no tenant {tenant} in {runtime_dir}; check that softhcad is running")
    return Mount(str(folder), str(folder))


def environment(tenant, runtime_dir):
    tree = f"{runtime_dir}/{tenant}/sysfs"
    provider = f"{LIBRARIES}/libsofthca"
    return {
        "SOFTHCA_TENANT": tenant,
        "SOFTHCA_RUNTIME_DIR": str(runtime_dir),
        "SOFTHCA_SYSFS": tree,
        "SYSFS_PATH": tree,
        "LD_PRELOAD": f"{LIBRARIES}/{PRELOAD}",
        "IBV_DRIVERS": provider,
        "RDMAV_DRIVERS": provider,
    }
