#!/usr/bin/env python3
"""Checks that what the documents name in backticks exists.

  - A path that begins with a folder of the project (`daemon/port/port.hpp`, `docs/ports.md`) and a
    relative link are there. `*`, `<name>` and `NAME` stand for anything, `NAME.{hpp,cpp}` and `NAME.*` for
    each such file; what lies in `build/` is made by the build.
  - A source file named without its folder (`engine.hpp`) is somewhere in the project.
  - A metric `softhca_...` has its name in the sources; a name that ends in `_` or `*` begins one.
  - `Class::member`, `ClassName` and `member_` are names of the sources; `AlertName` may be of an alert
    in deploy/prometheus/.
  - A setting, in a line of docs/mechanisms.md that begins with "Settings:", is a key of config/softhca-full.toml with
    its section (`tenant.tvl.weight`), or a variable of the environment (`SOFTHCA_...`).
  - Above each block of commands (`sh`) a comment says that tests/system/deployment/documents.test runs it, or why not
    and what tries it instead; paths in that comment are there.
  - docs/mechanisms.md has a heading for each clause, in order, and for no other. Under each are the requirement and,
    once or more, lines "Code:", "Tests:" and "Programs:", each with names.
  - docs/admin-socket.md has a row for each method of the admin socket. cli/softhcactl.1 names each command of softhcactl.

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
HEADING = re.compile(r"^(?:# ?)?\[+([\w.]+)\]+$")
KEY = re.compile(r"^(?:# ?)?(\w+) = (.*)$")
INNER_KEY = re.compile(r"# (\w+): ")
CLAUSES = [f"{letter}{number}" for letter, count in {"A": 13, "B": 6, "C": 6, "D": 7, "E": 6}.items()
           for number in range(1, count + 1)]
CLAUSE = re.compile(r"^### ([A-E]\d+)\b")
SHOWN_BY = re.compile(r"^(Code|Tests|Programs|Settings):(.*)$")
ALERT = re.compile(r"^ *- alert: (\w+)$", re.MULTILINE)
COMMANDS = re.compile(r"(?:^<!-- (run\b.*|not run: .+) -->\n)?^```sh$", re.MULTILINE)
TRIED_BY = re.compile(r"\b(?:tests|deploy|tools)/[\w./-]+\w")
METHOD = re.compile(r'\badd\(\s*"([a-z.]+)",\s*(?:&\w+::|\[)')
COMMAND = re.compile(r'\badd(?:_family)?\(\s*\*?\w+,\s*"([a-z]+)"')
CODE_FOLDERS = ("abi", "daemon", "libverbs-provider", "guest", "cli", "tests", "bench")


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


def settings_of(sample):
    """The keys of a configuration, as SECTION.KEY, those of its inner tables too."""
    section, keys, inner = None, set(), []
    for line in sample.splitlines():
        if found := HEADING.match(line):
            section = found.group(1)
        elif found := INNER_KEY.match(line):
            inner.append(found.group(1))
        elif section and (found := KEY.match(line)):
            key = f"{section}.{found.group(1)}"
            keys.add(key)
            if found.group(2).startswith("{"):
                keys |= {f"{key}.{name}" for name in inner}
            inner = []
    return keys | {"shared_datagrams." + key.split(".")[1] for key in keys if key.startswith("general_services.")}


def shown_by(text):
    """The code, tests, programs and settings of clauses: (line number, kind, names). Lines that begin with a name
    continue the one before."""
    found = []
    goes_on = False
    for number, line in enumerate(text.splitlines(), 1):
        if match := SHOWN_BY.match(line):
            found.append((number, match.group(1), CODE.findall(match.group(2))))
        elif goes_on and line.startswith("`"):
            found[-1][2].extend(CODE.findall(line))
        goes_on = bool(match) or (goes_on and line.startswith("`"))
    return found


def setting_errors(text, settings, words):
    for number, kind, names in shown_by(text):
        for name in names if kind == "Settings" else []:
            if name not in (words if name.startswith("SOFTHCA_") else settings):
                yield number, f"there is no setting {name}"


def clause_errors(text, clauses):
    lines = text.splitlines()
    headings = [(number, found.group(1)) for number, line in enumerate(lines, 1) if (found := CLAUSE.match(line))]
    got = [clause for _, clause in headings]
    for clause in sorted(set(clauses) - set(got)):
        yield 1, f"{clause} has no heading"
    for clause in sorted(set(got) - set(clauses)):
        yield 1, f"{clause} is not a clause"
    if sorted(got) == sorted(clauses) and got != list(clauses):
        yield 1, "the clauses are not in order"
    if len(set(got)) != len(got):
        yield 1, "a clause has two headings"
    for begin, clause in headings:
        end = next((number for number, line in enumerate(lines, 1) if number > begin and line.startswith("#")),
                   len(lines) + 1)
        section = lines[begin:end - 1]
        first = next((line for line in section if line), "")
        if not first or SHOWN_BY.match(first) or first.startswith("*Built"):
            yield begin, f"{clause} lacks its requirement"
        shown = shown_by("\n".join(section))
        kinds = [kind for _, kind, _ in shown if kind != "Settings"]
        if not kinds or kinds != ["Code", "Tests", "Programs"] * (len(kinds) // 3) or not all(n for *_, n in shown):
            yield begin, f"{clause} lacks its code, its tests or its programs"


def command_errors(root, text):
    for found in COMMANDS.finditer(text):
        number = text.count("\n", 0, found.end()) + 1
        if not found.group(1):
            yield number, "commands that no test runs, and no comment that says why"
        for path in TRIED_BY.findall(found.group(1) or ""):
            if not (root / path).exists():
                yield number, f"there is no {path}"


def interface_errors(methods, document, commands, manual):
    """`methods`: the sources that add methods; `commands`: the source that adds commands."""
    cells = "\n".join(line.split("|")[1] for line in document.splitlines() if line.startswith("| `"))
    for name in sorted(set(METHOD.findall(methods)) - set(CODE.findall(cells))):
        yield f"docs/admin-socket.md: no row for the method {name}"
    shown = "\n".join(line for line in manual.splitlines() if "Cm " in line)
    for name in sorted(set(COMMAND.findall(commands)) - set(re.findall(r"\w+", shown))):
        yield f"cli/softhcactl.1: no command {name}"


def errors_of(root):
    project = Project(root)
    texts = {path.name: path.read_text(encoding="utf-8") for path in (root / "docs").glob("*.md")}
    settings = settings_of((root / "config" / "softhca-full.toml").read_text(encoding="utf-8"))
    for name, text in sorted(texts.items()):
        for number, complaint in setting_errors(text, settings, project.words):
            yield f"docs/{name}:{number}: {complaint}"
    if "mechanisms.md" in texts:
        for number, complaint in clause_errors(texts["mechanisms.md"], CLAUSES):
            yield f"docs/mechanisms.md:{number}: {complaint}"
    if "admin-socket.md" in texts:
        sources = sorted((root / "daemon" / "operate").rglob("*.cpp"))
        files = [(root / "cli" / name).read_text(encoding="utf-8")
                 for name in ("ctl/command_tree.cpp", "softhcactl.1")]
        yield from interface_errors("\n".join(path.read_text(encoding="utf-8") for path in sources),
                                    texts["admin-socket.md"], *files)
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
        for path in ("docs", "config", "daemon/port", "tests/system", "deploy/prometheus"):
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
            ("Settings: `pools.pcbs`, `port.fault.loss`, `tenant.tvl.weight`.", 0),
            ("Settings: `pools.loss`, `tenant.weight`,\n`SOFTHCA_GONE`.", 3),
            ("Settings: `pools.pcbs`.\n\n`pools.loss` is not in such a line", 0),
            ("<!-- run -->\n```sh\ntrue\n```\n\n<!-- run: server 1 -->\n```sh\ntrue\n```", 0),
            ("<!-- not run: tests/system/real.test, or by hand -->\n```sh\nfalse\n```", 0),
            ("<!-- not run: tests/system/gone.test -->\n```sh\nfalse\n```\n\n```sh\nfalse\n```", 2),
        ]:
            document.write_text(text + "\n")
            (root / "config/softhca-full.toml").write_text(
                "[pools]\npcbs = 1  # x\n#[[port]]\n# loss: of a frame\n#fault = { loss = 0 }\n# [[tenant.tvl]]\n# weight = 1\n")
            got = list(errors_of(root))
            assert len(got) == wanted, (text, got)
    shown = "Code: `a`.\nTests: `b`,\n`c`.\nPrograms: `d`.\n"
    good = f"### A1 x\n\nIt is.\n\n{shown}\n*Built:* y\n\n{shown}Settings: `e`.\n### B2 y\n\nIt is.\n\n{shown}## C\n"
    for text, wanted in [(good, 0),
                         (good.replace("Tests: `b`,\n`c`.\n", "", 1), 1),
                         (good.replace("Programs: `d`.\n", "Programs: -\n", 1), 1),
                         (good.replace("Code: `a`.", "Code:", 1), 1),
                         (good.replace("Settings: `e`", "Settings: e"), 1),
                         (good.replace("It is.\n\nCode", "Code", 1), 1),
                         (good.replace("### B2", "### C1"), 2),
                         (good.replace("### B2", "### A1"), 2),
                         (good.replace("### A1", "### x").replace("### B2", "### A1").replace("### x", "### B2"), 1),
                         (good.replace(shown, ""), 2)]:
        got = list(clause_errors(text, ["A1", "B2"]))
        assert len(got) == wanted, (text, got)
    sources = 'add("a.b", &View::b); methods.add(\n  "c", [] {}); add("no_method", 1);'
    for commands, wanted in [('add(app, "show", "x")', 0), ('add(\n *family, "gone", "x")', 1),
                             ('add_family(app, "half", "x")', 1)]:
        got = list(interface_errors(sources, "| `a.b`, `c` | x |\n", commands, ".It Cm show\n"))
        assert len(got) == wanted, (commands, got)
    assert len(list(interface_errors(sources, "| `c` | `a.b` |\n`a.b`\n", "", ""))) == 1


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
