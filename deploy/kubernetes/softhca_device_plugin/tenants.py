"""Tenants of pods: made as a container is given its device, removed once the kubelet lists no container
that has it. What there is the daemon knows; here is only what it cannot know."""
import logging
import pathlib
import threading
import time

from .admin import NO_SUCH_THING, Refused
from .once import Once

PREFIX = "pod-"
# In the folder of a tenant, which the daemon then leaves there when it ends. A container has the folder
# mounted, and would see nothing of one that is made anew.
MARK = "in-a-pod"
# How long the daemon may take to close the sessions of one that is removed.
GOING_S = 10

log = logging.getLogger("softhca.tenants")


def name_of(template, number):
    return f"{PREFIX}{template}-{number}"


def template_of(name):
    return name[len(PREFIX):].rpartition("-")[0]


class Tenants:
    def __init__(self, daemon, runtime_dir, grace_s):
        self._daemon = daemon
        self._runtime_dir = pathlib.Path(runtime_dir)
        self._grace_s = grace_s
        self._lock = threading.Lock()
        # By name: until when the kubelet may not list it yet.
        self._awaited_until = {}
        self._given_at = {}
        # Listed since they were given.
        self._listed = set()
        self._once = Once(log)

    def give(self, name):
        """Makes the tenant for a container. One of that name is of another container, which has ended,
        unless nobody has used it yet: the kubelet asks once for an initializing container and once for the
        one that comes after it."""
        with self._lock:
            if name in self._sessions():
                if name in self._given_at and name not in self._listed and not self._was_used(name):
                    self._await(name)
                    return
                log.info("%s: its container has ended; made again for another container", name)
                self._remove(name)
            self._make(name)
            self._given_at[name] = time.monotonic()
            self._await(name)
        log.info("%s: made", name)

    def take_back(self, name):
        """Removes one that was given in vain."""
        with self._lock:
            self._remove(name)

    def reconcile(self, in_use, as_of, has_begun):
        """Removes tenants that no container has and no program uses, and makes those anew that the daemon
        has lost. `in_use`: what the kubelet was asked for at `as_of`, by name of the tenant the container that
        has it. It never lists an initializing container, and nothing for a while after it `has_begun`."""
        with self._lock:
            now = time.monotonic()
            there = self._sessions()
            for name in there:
                if has_begun or name not in self._awaited_until:
                    self._await(name)
            for name, container in in_use.items():
                if self._given_at.get(name, as_of) > as_of:
                    continue  # the list may have the container before
                self._listed.add(name)
                self._awaited_until[name] = now
                if name in there:
                    self._keep(name, container)
                else:
                    self._restore(name)
            for name in sorted(set(there) - set(in_use)):
                if now >= self._awaited_until[name] and there[name] == 0:
                    self._remove_quietly(name)
            self._clean_up(set(there) | set(in_use))

    def _sessions(self):
        """By name of those that were made here; without those that drain."""
        return {tenant["name"]: tenant["sessions"] for tenant in self._daemon.call("tenants")["tenants"]
                if tenant["name"].startswith(PREFIX) and not tenant["leaving"]}

    def _was_used(self, name):
        return self._daemon.call("tenant.show", name=name)["limits"]["sessions"]["high_water"] > 0

    def _await(self, name):
        self._awaited_until[name] = time.monotonic() + self._grace_s

    def _make(self, name):
        self._daemon.call("tenant.create", name=name, template=template_of(name), save=True)
        try:
            self._mark(name).touch()
        except OSError:
            self._remove(name)
            raise

    def _mark(self, name):
        return self._runtime_dir / name / MARK

    def _keep(self, name, container):
        try:
            self._mark(name).touch()  # gone where the node has started again
            self._once.say(name, f"belongs to container {container}", logging.INFO)
        except OSError as error:
            self._once.say(name, f"belongs to container {container}, but its folder will be gone after a restart of the daemon: {error}")

    def _remove(self, name):
        self._mark(name).unlink(missing_ok=True)
        give_up = time.monotonic() + GOING_S
        try:
            while "draining" in self._daemon.call("tenant.remove", name=name, end=True):
                if time.monotonic() > give_up:
                    raise OSError(f"tenant {name} still has sessions after {GOING_S} s")
                time.sleep(0.05)
        except Refused as error:
            if error.code != NO_SUCH_THING:
                raise
        self._awaited_until.pop(name, None)
        self._given_at.pop(name, None)
        self._listed.discard(name)
        self._once.forget(name)

    def _remove_quietly(self, name):
        try:
            self._remove(name)
            log.info("%s: removed, no container uses it", name)
        except (Refused, OSError) as error:
            self._once.say(name, f"not removed: {error}")

    def _restore(self, name):
        try:
            self._make(name)
            log.warning("%s: the daemon had lost it; made again", name)
        except (Refused, OSError) as error:
            self._once.say(name, f"the daemon has lost it, and it cannot be made again: {error}")

    def _clean_up(self, known):
        """Folders that were left for containers, of tenants that did not come back."""
        for mark in self._runtime_dir.glob(f"{PREFIX}*/{MARK}"):
            if mark.parent.name not in known:
                try:
                    mark.unlink()
                    mark.parent.rmdir()
                except OSError as error:
                    self._once.say(mark.parent.name, f"its folder cannot be removed: {error}")
