#!/usr/bin/env python3
"""Checks how comments, messages and documents are written: plain English, for a reader who knows RDMA.

The rules are RULES below. `--since REV` lists only the violations in lines that are new since then.

Usage: check_prose.py [ROOT]               exit code 1 and one line per violation
       check_prose.py --since REV [ROOT]   lists the violations in lines added since REV
       check_prose.py --list RULE [ROOT]   lists all violations of a rule
       check_prose.py --self-test
"""

import pathlib
import re
import subprocess
import sys

LONGEST = 35  # words of a sentence

# Each finds its violations in a passage: a comment, a text in quotation marks, or a paragraph.
RULES = {
    "question": re.compile(r"[\w)`\"']\?\s*$"),
    "person": re.compile(r"\b(?:who|whoever|whose|somebody|nobody|anybody|everybody)\b", re.I),
    "of": re.compile(r"(?:^|[.!?:]\s+)Of (?!course\b)"),
    "what-is": re.compile(r"\bwhat (?:is|are|has|comes|lies|goes)\b[^.;]*\b(?:is|are)\b", re.I),
    "is-no": re.compile(r"\b(?:is|are|was) no (?!longer\b|more\b|less\b|fewer\b|other\b|later\b|earlier\b)"),
    "as-ever": re.compile(r"\bas ever\b", re.I),
    "word": re.compile(r"\b(?:in vain|patience|patient|luck|drought|sparing|set aside|borne|allotment|"
                       r"holdings|cookie|thought better)\b", re.I),
    "long": None,
}

SOURCES = ("abi", "bench", "cli", "daemon", "examples", "guest", "libverbs-provider", "tests")
CODE = {".cpp", ".hpp", ".c", ".h"}
COMMENT = re.compile(r"(?:^[ \t]*//[/!]?<?[^\n]*\n)+|//[/!]?<?[^\n]*", re.M)
TEXT = re.compile(r'(?:"(?:\\.|[^"\\\n])*"\s*)+')
RAW = re.compile(r'R"(?P<tag>[^()\s]*)\(.*?\)(?P=tag)"', re.S)


def sentences(passage):
    return re.split(r"(?<=[.!?])\s+|\n\s*\n|;\s", passage)


def count_words(sentence):
    return len(re.findall(r"[A-Za-z][\w'-]*", sentence))


def violations(rule, passage):
    if rule == "long":
        return [s for s in sentences(passage) if count_words(s) > LONGEST]
    return [m.group() for m in RULES[rule].finditer(passage)]


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def code_passages(text):
    """(line, passage) of comments, and of texts of three words or more."""
    code = RAW.sub(blank, text)
    # A comment mark within a text is none.
    hidden = TEXT.sub(lambda m: re.sub(r"[^\n]", "_", m.group()), code)
    comments = list(COMMENT.finditer(hidden))
    for match in comments:
        passage = re.sub(r"^[ \t]*//[/!]?<?[ \t]?", "", code[match.start():match.end()], flags=re.M)
        yield text.count("\n", 0, match.start()) + 1, passage.strip()
    without = list(code)
    for match in comments:
        for i in range(match.start(), match.end()):
            if without[i] != "\n":
                without[i] = " "
    for match in TEXT.finditer(re.sub(r"^[ \t]*#[^\n]*", blank, "".join(without), flags=re.M)):
        passage = "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', match.group()))
        if count_words(passage) >= 3:
            yield text.count("\n", 0, match.start()) + 1, passage.replace("\\n", "\n").strip()


def document_passages(text):
    """(line, paragraph), without code and tables of identifiers."""
    text = re.sub(r"^```.*?^```", blank, text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.S)
    text = re.sub(r"`[^`\n]*`", "code", text)
    line = 1
    for block in re.split(r"(\n(?:\s*\n|(?=[ \t]*(?:[-*|#]|\d+\.) )))", text):
        passage = re.sub(r"^[ \t]*(?:[-*#>]+|\d+\.)\s+", "", block.strip())
        cells = [c for c in passage.split("|") if c.strip()] if passage.startswith("|") else [passage]
        for cell in cells:
            if count_words(cell) >= 3:
                yield line, cell.strip()
        line += block.count("\n")


def passages(root, path):
    text = (root / path).read_text(encoding="utf-8", errors="replace")
    return document_passages(text) if path.suffix == ".md" else code_passages(text)


def files(root):
    for top in SOURCES:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in CODE and path.is_file():
                yield path.relative_to(root)
    for path in sorted([*root.glob("*.md"), *(root / "docs").glob("*.md")]):
        yield path.relative_to(root)


def find(root, rules=None):
    for path in files(root):
        for line, passage in passages(root, path):
            for rule in rules or RULES:
                for what in violations(rule, passage):
                    yield rule, path, line, " ".join(what.split()), passage.count("\n")


def added_lines(root, revision):
    """path: set of line numbers."""
    diff = subprocess.run(["git", "-C", root, "diff", "--unified=0", revision], check=True,
                          capture_output=True, text=True, errors="replace").stdout
    lines, path = {}, None
    for line in diff.splitlines():
        if line.startswith("+++ "):
            path = line[6:] if line.startswith("+++ b/") else None
        elif path and (m := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)):
            first, count = int(m[1]), int(m[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + count))
    return lines


def report(violation):
    rule, path, line, text, _ = violation
    print(f"{path}:{line}: {rule}: {text[:150]}")


def check(root):
    found = list(find(root))
    for violation in found:
        report(violation)
    print(f"{len(found)} violations")
    return bool(found)


def self_test():
    def rules_of(text, suffix):
        found = document_passages(text) if suffix == ".md" else code_passages(text)
        return sorted({rule for _, passage in found for rule in RULES if violations(rule, passage)})

    long = "word " * 36
    cases = [
        ("// Is it so?\nint x;\n", ".cpp", ["question"]),
        ("f(\"SEND 0 [0,256) ! ?\");  // a mark\n", ".cpp", []),
        ("/// Returns what?\n/// All of it.\n", ".cpp", []),
        ("f(\"who asked for it\");\n", ".cpp", ["person"]),
        ("f(\"who\");  // one word is an identifier\n", ".cpp", []),
        ("f(\"http://x/who is it\");\n", ".cpp", ["person"]),
        ("// Of the two, one.\n", ".cpp", ["of"]),
        ("// Of course.\n", ".cpp", []),
        ("// What is kept is dropped.\n", ".cpp", ["what-is"]),
        ("// It is no longer there.\n", ".cpp", []),
        ("// It is no key.\n", ".cpp", ["is-no"]),
        ("// It waits as ever.\n", ".cpp", ["as-ever"]),
        ("// It asks in vain.\n", ".cpp", ["word"]),
        (f"// {long}.\n", ".cpp", ["long"]),
        (f"{long}.\n", ".md", ["long"]),
        (f"| a b c | {long} |\n", ".md", ["long"]),
        ("```\nnobody says so\n```\n", ".md", []),
        ("Run `nobody` now, please.\n", ".md", []),
        ("- Nobody waits for it.\n", ".md", ["person"]),
        ("R\"(who is it)\"", ".cpp", []),
        ("#include \"a/cookie/of three words.hpp\"\n", ".cpp", []),
    ]
    failures = 0
    for text, suffix, expected in cases:
        got = rules_of(text, suffix)
        if got != expected:
            print(f"{text!r}: {got}, not {expected}")
            failures += 1
    print(f"{len(cases)} cases, {failures} failures")
    return failures != 0


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--self-test"]:
        return self_test()
    if arguments[:1] in (["--since"], ["--list"]):
        how, what, *rest = arguments
        root = pathlib.Path(rest[0]) if rest else pathlib.Path(__file__).resolve().parent.parent
        added = added_lines(root, what) if how == "--since" else None
        for violation in find(root, None if added is not None else [what]):
            _, path, line, _, more = violation
            if added is None or added.get(str(path), set()) & set(range(line, line + more + 1)):
                report(violation)
        return 0
    return check(pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parent.parent)


if __name__ == "__main__":
    sys.exit(main())
