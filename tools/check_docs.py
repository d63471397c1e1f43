#!/usr/bin/env python3
"""Checks that what the documents name in backticks exists.

  - A path that begins with a folder of the project (`daemon/port/port.hpp`, `docs/ports.md`) and a
    relative link are there. `*`, `<name>` and `NAME` stand for anything, `NAME.{hpp,cpp}` and `NAME.*` for
    each such file; what lies in `build/` is made by the build.
  - A source file named without its folder (`engine.hpp`) is somewhere in the project.
  - A metric `softhca_...` has its name in the sources; a name that ends in `_` or `*` begins one.
  - `Class::member`, `ClassName` and `member_` are names of the sources.

Usage: check_docs.py [ROOT]     exit code 1 and one line per error
       check_docs.py --self-test
"""

import pathlib
import re
import sys
import tempfile

CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"^[\w.{},*<>-]+(?:/[\w.{},*<>-]+)+/?$")
FILE = re.compile(r"^[\w-]+\.(?:cpp|hpp|py|test|toml|md)$")
METRIC = re.compile(r"^softhca_[a-z0-9_]+\*?$")
WORD = re.compile(r"^(?:(?:[A-Z][a-z0-9]+){2,}|[a-z]\w*_)$")
MEMBER = re.compile(r"^([A-Z]\w+)::(~?\w+)(?:\(\))?$")
SOURCES = {".cpp", ".hpp", ".py", ".sh", ".test", ".toml", ".md", ".build", ".txt", ".packets", ""}
CODE_FOLDERS = ("abi", "daemon", "libverbs-provider", "cli", "tests", "bench")


class Project:
    def __init__(self, root):
        self.root = root
        self.folders = {p.name for p in root.iterdir() if p.is_dir()} - {"build"}
        self.names = {p.name for folder in self.folders for p in (root / folder).rglob("*")
                      if not folder.startswith(".")} | {p.name for p in root.iterdir()}
        self.words = set()
        for folder in CODE_FOLDERS:
            for path in (root / folder).rglob("*"):
                if path.is_file() and path.suffix in {".cpp", ".hpp", ".h"}:
                    self.words |= set(re.findall(r"\w+", path.read_text(encoding="utf-8")))

    def has_path(self, name):
        if any(True for _ in self.root.glob(name.rstrip("/"))):
            return True
        pattern = re.sub(r"<[^<>]*>|\b[A-Z]{2,}\b", "*", name.rstrip("/"))
        found = re.search(r"\{([^{}]*)\}", pattern)
        if found:
            return all(self.has_path(pattern.replace(found.group(), part, 1))
                       for part in found.group(1).split(","))
        return any(True for _ in self.root.glob(pattern))

    def complaint(self, name):
        """Why `name` is wrong; none: it is not, or is no name of the project's."""
        if PATH.match(name) and name.split("/")[0] in self.folders:
            if not self.has_path(name):
                return f"there is no {name}"
        elif FILE.match(name):
            if name not in self.names:
                return f"there is no file {name}"
        elif METRIC.match(name):
            begin = name.rstrip("*")
            exact = begin == name and not name.endswith("_")
            if not (name in self.words if exact else any(w.startswith(begin) for w in self.words)):
                return f"there is no metric {name}"
        elif found := MEMBER.match(name):
            if not set(found.groups()) <= self.words:
                return f"there is no {name}"
        elif WORD.match(name) and name not in self.words:
            return f"there is no {name}"
        return None


def errors_of(root):
    project = Project(root)
    for document in sorted([root / "README.md", *(root / "docs").glob("*.md")]):
        if not document.exists():
            continue
        where = document.relative_to(root)
        for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
            for name in CODE.findall(line):
                if complaint := project.complaint(name):
                    yield f"{where}:{number}: {complaint}"
            for link in LINK.findall(line):
                if "://" not in link and not (document.parent / link).exists():
                    yield f"{where}:{number}: there is nothing at the link {link}"


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path in ("docs", "daemon/port", "tests/system"):
            (root / path).mkdir(parents=True)
        (root / "daemon/port/port.hpp").write_text('class Port { void flush(); }; "softhca_pcbs"\n')
        (root / "daemon/port/port.cpp").write_text("")
        (root / "tests/system/real.test").write_text("")
        document = root / "docs/a.md"
        for text, wanted in [
            ("`daemon/port/port.hpp`, `daemon/port/`, `daemon/port`, `daemon/port/port.{hpp,cpp}`", 0),
            ("`daemon/port/gone.hpp`, `daemon/port/port.{hpp,py}`, `daemon/*/gone.*`", 3),
            ("`daemon/*/port.hpp`, `daemon/port/<name>.hpp`, `daemon/port/NAME.cpp`, `a/b`", 0),
            ("`port.hpp`, `real.test`, `gone.test`, `gone.hpp`", 2),
            ("`softhca_pcbs`, `softhca_*`, `softhca_gone`, `softhca_gone_*`", 2),
            ("`Port::flush()`, `Port::gone()`, `Gone::flush`, `NoPort`, `none_`, `std::string`", 4),
            ("[a](a.md), [b](a.md#b), [c](gone.md), [d](https://example.org/x)", 1),
            ("daemon/port/gone.hpp is not in backticks", 0),
        ]:
            document.write_text(text + "\n")
            got = list(errors_of(root))
            assert len(got) == wanted, (text, got)


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    errors = list(errors_of(root))
    if errors:
        print("\n".join(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
