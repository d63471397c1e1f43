#!/usr/bin/env python3
"""Tests of what tools/release refuses, and of the notes that it makes, without a build."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
VERSIONED = ("meson.build", "deploy/debian/changelog", "deploy/rpm/softhca.spec", "CHANGELOG.md")


class ReleaseTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        for name in (*VERSIONED, "tools/release"):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, self.tree / name)
        self.version = re.search(r"^  version: '(.*)',$", (self.tree / "meson.build").read_text(), re.MULTILINE).group(1)

    def release(self, *arguments):
        return subprocess.run(["tools/release", *arguments], cwd=self.tree, capture_output=True, text=True, check=False)

    def commit(self):
        for command in (("init", "-q"), ("add", "."), ("-c", "user.name=a", "-c", "user.email=a@a", "commit", "-qm", "a")):
            subprocess.run(["git", *command], cwd=self.tree, check=True)

    def assert_refused(self, result, *texts):
        self.assertEqual(result.returncode, 1, result)
        for text in texts:
            self.assertIn(text, result.stderr)

    def test_version_of_the_tree_has_notes(self):
        result = self.release("--notes", self.version)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, rf"^# softhca {re.escape(self.version)}\n\n\S")

    def test_notes_are_the_section_of_the_version(self):
        (self.tree / "CHANGELOG.md").write_text(
            f"# Changelog\n\n## Unreleased\n\nnew\n\n## {self.version} (1 May 2026)\n\nfirst\n\nlast\n\n## 0.0.1\n\nold\n")
        self.assertEqual(self.release("--notes", self.version).stdout, f"# softhca {self.version}\n\nfirst\n\nlast\n")

    def test_another_version_in_a_file_is_refused(self):
        for name in VERSIONED:
            with self.subTest(name):
                path = self.tree / name
                text = path.read_text()
                path.write_text(text.replace(self.version, "9.8.7", 1))
                self.assert_refused(self.release("--notes", self.version), f"cannot release {self.version}: {name} has")
                path.write_text(text)

    def test_all_files_of_another_version_are_named(self):
        self.assert_refused(self.release("9.8.7"), *VERSIONED)

    def test_changed_tree_is_refused(self):
        self.commit()
        (self.tree / "new").touch()
        self.assert_refused(self.release(self.version), "differs from its commit")

    def test_tree_without_a_commit_is_refused(self):
        self.assert_refused(self.release(self.version), "is not a clone of the repository")


if __name__ == "__main__":
    unittest.main()
