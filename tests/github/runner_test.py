#!/usr/bin/env python3
"""Tests of what runner.py makes of expressions, environment files and conditions."""

import unittest

import runner


class RunnerTest(unittest.TestCase):
    def setUp(self):
        self.runner = runner.Runner("/nowhere", "/source", True, {})

    def test_environment_files(self):
        self.assertEqual(runner.assignments("A=1\nB=x=y\nC<<END\none\ntwo\nEND\n"), {"A": "1", "B": "x=y", "C": "one\ntwo"})
        for text in ("no assignment\n", "C<<END\none\n"):
            with self.assertRaises(runner.Unknown):
                runner.assignments(text)

    def test_expressions(self):
        expand = self.runner.expand
        outputs = {"start": {"log": "/a/log"}}
        self.assertEqual(expand("${{ inputs.tenant }}, ${{steps.start.outputs.log}}", {"tenant": "a"}, outputs, ""), "a, /a/log")
        self.assertEqual(expand("[${{ steps.later.outputs.log }}]", {}, outputs, ""), "[]")
        for text in ("${{ inputs.gone }}", "${{ secrets.TOKEN }}"):
            with self.assertRaises(runner.Unknown):
                expand(text, {}, outputs, "")

    def test_conditions(self):
        due = self.runner.due
        self.assertEqual([due(None, False), due("always()", False), due("failure()", False)], [True, True, False])
        self.assertEqual([due(None, True), due("${{ always() }}", True), due("failure()", True)], [False, True, True])
        with self.assertRaises(runner.Unknown):
            due("github.ref == 'main'", False)

    def test_unknown_keys_are_refused(self):
        for step in ({"run": "true", "timeout-minutes": 1}, {"uses": "else/where@v1"}):
            with self.assertRaises(runner.Unknown):
                self.runner.run_step(step, {}, {}, False, {})


if __name__ == "__main__":
    unittest.main()
