#!/usr/bin/env python3
"""Runs a job of a workflow of GitHub Actions in a root directory, step by step, as a runner does.

Of workflows and composite actions it knows what those of the project use, and refuses anything else: shells and
their options, `env`, `if`, `working-directory`, inputs, outputs, and the files GITHUB_ENV, GITHUB_PATH and
GITHUB_OUTPUT. A job with a `container` runs as root, another one as the user `runner`, who may use sudo.
`actions/checkout` finds the workspace as it is. OWNER/softhca/PATH@REF is the action in PATH of the source.

Usage: runner.py --root ROOT --source SOURCE [--job JOB] [--pass NAME=VALUE]... WORKFLOW
  SOURCE     where the source lies, seen from the root
  WORKFLOW   a file of YAML, or a document, of which the blocks of YAML with `jobs:` are taken
  --pass     a variable of the environment of all steps
The exit code is 0 if the job succeeds, 1 if it fails, 2 if there is something in it that is not known.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

import yaml

HOME = "/home/runner"
WORKSPACE = f"{HOME}/work/project/project"
TEMP = f"{HOME}/work/_temp"
CONTEXT = {"runner.temp": TEMP, "github.server_url": "https://github.invalid", "github.action_repository": "OWNER/softhca"}
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ACTION = re.compile(r"^[\w-]+/softhca/([\w/-]+)@[\w.-]+$")
STEP_KEYS = {"name", "id", "if", "uses", "with", "env", "run", "shell", "working-directory"}
# As GitHub documents them; without `shell` a workflow's step does not ask for pipefail.
SHELLS = {None: ["bash", "-e"], "bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"]}


class Unknown(Exception):
    """Something that this runner does not do."""


def only(mapping, keys, where):
    if left := set(mapping) - set(keys):
        raise Unknown(f"{where}: {', '.join(sorted(map(str, left)))}")


def assignments(text):
    """What a file of GITHUB_ENV or GITHUB_OUTPUT assigns: NAME=VALUE, or NAME<<END, lines, END."""
    lines, found = iter(text.splitlines()), {}
    for line in lines:
        if match := re.match(r"^([^=<]+)<<(.+)$", line):
            value = []
            for inner in lines:
                if inner == match.group(2):
                    break
                value.append(inner)
            else:
                raise Unknown(f"no end of the value of {match.group(1)}")
            found[match.group(1)] = "\n".join(value)
        elif "=" in line:
            name, value = line.split("=", 1)
            found[name] = value
        elif line:
            raise Unknown(f"a line of an environment file: {line}")
    return found


class Runner:
    def __init__(self, root, source, as_root, passed):
        self.root, self.source, self.as_root = pathlib.Path(root), source, as_root
        self.env, self.path, self.count = dict(passed), [], 0

    def inside(self, path):
        return self.root / path.lstrip("/")

    def expand(self, text, inputs, outputs, where):
        def value(match):
            parts = match.group(1).split(".")
            if match.group(1) in CONTEXT:
                return CONTEXT[match.group(1)]
            if parts[0] == "inputs" and len(parts) == 2 and parts[1] in inputs:
                return inputs[parts[1]]
            if parts[0] == "steps" and len(parts) == 4 and parts[2] == "outputs":
                return outputs.get(parts[1], {}).get(parts[3], "")
            raise Unknown(f"{where}: {match.group()}")
        return EXPRESSION.sub(value, str(text))

    def due(self, condition, failed):
        condition = EXPRESSION.sub(r"\1", str(condition or "success()"))
        results = {"success()": not failed, "failure()": failed, "always()": True}
        if condition not in results:
            raise Unknown(f"if: {condition}")
        return results[condition]

    def run_shell(self, step, env, inputs, outputs):
        """Outputs of the step, and whether it did well."""
        self.count += 1
        files = {name: f"{TEMP}/{name.lower()}_{self.count}" for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT")}
        script = f"{TEMP}/step_{self.count}.sh"
        for path in files.values():
            self.inside(path).write_text("")
            self.inside(path).chmod(0o666)
        self.inside(script).write_text(self.expand(step["run"], inputs, outputs, "run"))
        if step.get("shell") not in SHELLS:
            raise Unknown(f"shell: {step['shell']}")
        variables = {"HOME": "/root" if self.as_root else HOME, "CI": "true", "GITHUB_ACTIONS": "true",
                     "GITHUB_WORKSPACE": WORKSPACE, "RUNNER_TEMP": TEMP, **self.env, **files, **env,
                     "PATH": ":".join([*reversed(self.path), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"])}
        folder = os.path.join(WORKSPACE, self.expand(step.get("working-directory", ""), inputs, outputs, "working-directory"))
        # Variables are set last, so that what runs the step does not have them itself.
        command = ["chroot", *([] if self.as_root else ["--userspec=runner:runner"]), str(self.root),
                   "/usr/bin/env", "-i", f"--chdir={folder}", *(f"{name}={value}" for name, value in variables.items()),
                   *SHELLS[step.get("shell")], script]
        good = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode == 0
        self.env.update(assignments(self.inside(files["GITHUB_ENV"]).read_text()))
        self.path += self.inside(files["GITHUB_PATH"]).read_text().split("\n")[:-1]
        return assignments(self.inside(files["GITHUB_OUTPUT"]).read_text()), good

    def run_action(self, path, given, inputs_of_caller, outputs_of_caller):
        folder = f"{self.source}/{path}"
        action = yaml.safe_load(self.inside(f"{folder}/action.yml").read_text())
        only(action, ("name", "description", "inputs", "outputs", "runs"), path)
        only(action["runs"], ("using", "steps"), path)
        if action["runs"]["using"] != "composite":
            raise Unknown(f"{path}: {action['runs']['using']}")
        declared = action.get("inputs", {})
        only(given, declared, f"{path}: inputs")
        inputs = {name: self.expand(given.get(name, about.get("default", "")), inputs_of_caller, outputs_of_caller, name)
                  for name, about in declared.items()}
        outputs, good = {}, True
        for step in action["runs"]["steps"]:
            if "run" in step and "shell" not in step:
                raise Unknown(f"{path}: a step without a shell, which composite actions must name")
            # Within an action success() is about the action's own steps.
            good = self.run_step(step, inputs, outputs, not good, {"GITHUB_ACTION_PATH": folder}) and good
        return {name: self.expand(about["value"], inputs, outputs, name)
                for name, about in action.get("outputs", {}).items()}, good

    def run_step(self, step, inputs, outputs, failed, more_env):
        """Whether it did well, or was not due."""
        only(step, STEP_KEYS, step.get("name", "a step"))
        if not self.due(step.get("if"), failed):
            return True
        print(f"##[step] {step.get('name') or step.get('uses') or step['run'].splitlines()[0]}", flush=True)
        env = {name: self.expand(value, inputs, outputs, name) for name, value in step.get("env", {}).items()}
        if "run" in step:
            found, good = self.run_shell(step, {**env, **more_env}, inputs, outputs)
        elif step["uses"].startswith("actions/checkout@"):
            found, good = {}, True
        elif match := ACTION.match(step["uses"]):
            found, good = self.run_action(match.group(1), step.get("with", {}), inputs, outputs)
        else:
            raise Unknown(f"uses: {step['uses']}")
        if "id" in step:
            outputs[step["id"]] = found
        return good

    def run_job(self, steps):
        outputs, good = {}, True
        for step in steps:
            good = self.run_step(step, {}, outputs, not good, {}) and good
        return good


def jobs_of(path):
    text = path.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text) if path.suffix == ".md" else [text]
    jobs = {}
    for block in map(yaml.safe_load, blocks):
        if isinstance(block, dict) and "jobs" in block:
            jobs.update(block["jobs"])
    return jobs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("--pass", dest="passed", action="append", default=[])
    parser.add_argument("workflow", type=pathlib.Path)
    options = parser.parse_args()
    try:
        job = jobs_of(options.workflow)[options.job]
        only(job, ("runs-on", "container", "steps"), options.job)
        runner = Runner(options.root, options.source, "container" in job,
                        dict(variable.split("=", 1) for variable in options.passed))
        good = runner.run_job(job["steps"])
    except Unknown as unknown:
        print(f"not known to this runner: {unknown}", file=sys.stderr)
        return 2
    print(f"##[job] {options.job} {'succeeded' if good else 'failed'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
