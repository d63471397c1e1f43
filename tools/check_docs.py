#!/usr/bin/env python3
"""Checks that what the documents name in backticks exists.

  - A path that begins with a folder of the project (`daemon/port/port.hpp`, `docs/ports.md`) and a
    relative link are there. `*`, `<name>` and `NAME` stand for anything, `NAME.{hpp,cpp}` and `NAME.*` for
    each such file; what lies in `build/` is made by the build.
  - A source file named without its folder (`engine.hpp`) is somewhere in the project.
  - A metric `softhca_...` has its name in the sources; a name that ends in `_` or `*` begins one.
  - `Class::member`, `ClassName` and `member_` are names of the sources; `AlertName` may be of an alert
    in deploy/prometheus/.
  - A setting, in the column `settings` of a table, is a key of docs/configuration.md with its section
    (`tenant.tvl.weight`), or a variable of the environment (`SOFTHCA_...`).
  - Above each block of commands (`sh`) a comment says that tests/system/documents.test runs it, or why not and what
    tries it instead; paths in that comment are there.
  - docs/clauses.md has code, tests and programs for each clause of docs/mechanisms.md, and for no other.

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
HEADING = re.compile(r"^## (?:\[+([\w.]+)\]+|(\w+), of a (\w+))$")
KEY = re.compile(r"^\| `(\w+)` \|")
CLAUSE = re.compile(r"^- ([A-E]\d+) ", re.MULTILINE)
ROW = re.compile(r"^\| ([A-E]\d+)\b")
ALERT = re.compile(r"^ *- alert: (\w+)$", re.MULTILINE)
COMMANDS = re.compile(r"(?:^<!-- (run\b.*|not run: .+) -->\n)?^```sh$", re.MULTILINE)
TRIED_BY = re.compile(r"\b(?:tests|deploy|tools)/[\w./-]+\w")
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
        for path in (root / "deploy" / "prometheus").glob("*.rules.yml"):
            self.words |= set(ALERT.findall(path.read_text(encoding="utf-8")))

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


def settings_of(reference):
    """The keys of the configuration, as SECTION.KEY."""
    section, keys = None, set()
    for line in reference.splitlines():
        if line.startswith("## "):
            found = HEADING.match(line)
            section = found and (found.group(1) or f"{found.group(3)}.{found.group(2)}")
        elif section and (found := KEY.match(line)):
            keys.add(f"{section}.{found.group(1)}")
    return keys | {"shared_datagrams." + key.split(".")[1] for key in keys if key.startswith("general_services.")}


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def setting_errors(text, settings, words):
    column = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("|"):
            column = None
        elif "settings" in cells_of(line):
            column = cells_of(line).index("settings")
        elif column is not None and column < len(cells_of(line)):
            for name in CODE.findall(cells_of(line)[column]):
                if name not in (words if name.startswith("SOFTHCA_") else settings):
                    yield number, f"there is no setting {name}"


def clause_errors(mechanisms, clauses):
    wanted, got = set(CLAUSE.findall(mechanisms)), set()
    for number, line in enumerate(clauses.splitlines(), 1):
        if found := ROW.match(line):
            got.add(found.group(1))
            if not all(CODE.search(cell) for cell in cells_of(line)[1:4]):
                yield number, f"{found.group(1)} lacks its code, its test or its programs"
    for clause in sorted(wanted ^ got):
        yield 1, f"{clause} is in one of docs/mechanisms.md and docs/clauses.md alone"


def command_errors(root, text):
    for found in COMMANDS.finditer(text):
        number = text.count("\n", 0, found.end()) + 1
        if not found.group(1):
            yield number, "commands that no test runs, and no comment that says why"
        for path in TRIED_BY.findall(found.group(1) or ""):
            if not (root / path).exists():
                yield number, f"there is no {path}"


def errors_of(root):
    project = Project(root)
    texts = {path.name: path.read_text(encoding="utf-8") for path in (root / "docs").glob("*.md")}
    settings = settings_of(texts.get("configuration.md", ""))
    for name, text in sorted(texts.items()):
        for number, complaint in setting_errors(text, settings, project.words):
            yield f"docs/{name}:{number}: {complaint}"
    if "clauses.md" in texts:
        for number, complaint in clause_errors(texts["mechanisms.md"], texts["clauses.md"]):
            yield f"docs/clauses.md:{number}: {complaint}"
    for document in sorted([*root.glob("*.md"), *(root / "docs").glob("*.md")]):
        where = document.relative_to(root)
        for number, complaint in command_errors(root, document.read_text(encoding="utf-8")):
            yield f"{where}:{number}: {complaint}"
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
        for path in ("docs", "daemon/port", "tests/system", "deploy/prometheus"):
            (root / path).mkdir(parents=True)
        (root / "daemon/port/port.hpp").write_text('class Port { void flush(); }; "softhca_pcbs"\n')
        (root / "daemon/port/port.cpp").write_text("")
        (root / "tests/system/real.test").write_text("")
        (root / "deploy/prometheus/a.rules.yml").write_text("rules:\n  - alert: PortDown\n    expr: PortUp\n")
        document = root / "docs/a.md"
        for text, wanted in [
            ("`daemon/port/port.hpp`, `daemon/port/`, `daemon/port`, `daemon/port/port.{hpp,cpp}`", 0),
            ("`daemon/port/gone.hpp`, `daemon/port/port.{hpp,py}`, `daemon/*/gone.*`", 3),
            ("`daemon/*/port.hpp`, `daemon/port/<name>.hpp`, `daemon/port/NAME.cpp`, `a/b`", 0),
            ("`port.hpp`, `real.test`, `gone.test`, `gone.hpp`", 2),
            ("`softhca_pcbs`, `softhca_*`, `softhca_gone`, `softhca_gone_*`", 2),
            ("`Port::flush()`, `Port::gone()`, `Gone::flush`, `NoPort`, `none_`, `std::string`", 4),
            ("`PortDown`, `PortUp`", 1),
            ("[a](a.md), [b](a.md#b), [c](gone.md), [d](https://example.org/x)", 1),
            ("daemon/port/gone.hpp is not in backticks", 0),
            ("| settings |\n| --- |\n| `pools.pcbs`, `port.fault.loss`, `tenant.tvl.weight` |", 0),
            ("| a | settings |\n| --- | --- |\n| `x` | `pools.loss`, `tenant.weight`, `SOFTHCA_GONE` |", 3),
            ("`pools.loss` is in no table", 0),
            ("<!-- run -->\n```sh\ntrue\n```\n\n<!-- run: server 1 -->\n```sh\ntrue\n```", 0),
            ("<!-- not run: tests/system/real.test, or by hand -->\n```sh\nfalse\n```", 0),
            ("<!-- not run: tests/system/gone.test -->\n```sh\nfalse\n```\n\n```sh\nfalse\n```", 2),
        ]:
            document.write_text(text + "\n")
            (root / "docs/configuration.md").write_text(
                "## [pools]\n| `pcbs` | 1 |\n## [[tenant.tvl]]\n| `weight` | 1 |\n## fault, of a port\n| `loss` | 0 |\n")
            got = list(errors_of(root))
            assert len(got) == wanted, (text, got)
    for clauses, wanted in [("| A1 x | `a` | `b` | `c` | |\n| A1 y | `a` | `b` | `c` | |\n| B2 | `a` | `b` | `c` |", 0),
                            ("| A1 | `a` | `b` | | `c` |\n| B2 | `a` | `b` | `c` |", 1),
                            ("| A1 | `a` | `b` | `c` |\n| C1 | `a` | `b` | `c` |", 2)]:
        got = list(clause_errors("- A1 one\n- B2 two\n", clauses))
        assert len(got) == wanted, (clauses, got)


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
