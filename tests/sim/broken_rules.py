#!/usr/bin/env python3
"""Checks that the sweep of fault points finds each rule of the order of stores that is broken.

usage: broken_rules.py BUILD SOURCE FOLDER [NAME...]

For each rule: copies the files that are compiled together with the file of the rule, breaks the
rule in the copy, links tests/sim/sim-faults with it in FOLDER, and runs that. It must fail.
"""

import json
import pathlib
import re
import shlex
import subprocess
import sys

PROGRAM = 'tests/sim/sim-faults'
RUN = ['--count', '200', '--chance', '0.3', '--most', '100', '--stop']
ENGINE = 'daemon/engine/'
RELIABLE = 'daemon/roce/transport/reliable/'

# name: file, [(text, text instead)]
RULES = {
    'R1: a packet is counted before it is answered': (
        RELIABLE + 'responder_check.cpp',
        [('  accept(up, p);\n  up.events.executed();\n', '  accept(up, p);\n')]),
    'R1: an unreliable message is recorded before it is sent': (
        ENGINE + 'queue_pairs/qp_environment.cpp',
        [('  qp_.record.durable->attempted = qp_.sq.done + 1;\n', '')]),
    'R1: a datagram is recorded before it is delivered': (
        ENGINE + 'datagrams/ud_sender.cpp',
        [('  qp.record.durable->attempted = qp.sq.done + 1;\n', '')]),
    'R2: the place of a send completion is stored before it is pushed': (
        ENGINE + 'queue_pairs/command_completion.cpp',
        [('    qp.record.durable->begin_sent({qp.sq.cq->ring.next_counter(), completion.index}, behind, '
          'fails);\n', '')]),
    'R2: the place of a receive completion is stored before it is pushed': (
        ENGINE + 'receive/receive_queues.cpp',
        [('  completion_queues_.push(cq, out, completion.solicited);\n', ''),
         ('  durable.begin_taken(', '  completion_queues_.push(cq, out, completion.solicited);\n'
                                    '  durable.begin_taken(')]),
    'R3: a command is recorded before its VCB is released': (
        ENGINE + 'commands/command_intake.cpp',
        [('    accept(session, *pcb);\n  }\n  release(session, vcb, scoreboard);\n',
          '    release(session, vcb, scoreboard);\n    accept(session, *pcb);\n  }\n')]),
    'R3: commands are recorded before their doorbell is released': (
        ENGINE + 'commands/command_intake.cpp',
        [('    session.view.take_doorbell();\n    ++taken;\n', '    ++taken;\n'),
         ('    const DoorbellCause cause = abi::cause_of(doorbell);\n',
          '    session.view.take_doorbell();\n'
          '    const DoorbellCause cause = abi::cause_of(doorbell);\n')]),
    'a failure is recorded with the completion that tells of it': (
        ENGINE + 'queue_pairs/command_completion.cpp',
        [('    qp.record.durable->begin_sent({qp.sq.cq->ring.next_counter(), completion.index}, behind, '
          'fails);\n',
          '    qp.record.durable->begin_sent({qp.sq.cq->ring.next_counter(), completion.index}, behind, '
          'false);\n')]),
    'an atomic is recorded before it runs': (
        'daemon/tenant_memory/atomic.cpp',
        [('    log.begin(before, after);\n', ''),
         ('op == AtomicOp::kCompareSwap) return;', 'op == AtomicOp::kCompareSwap) break;'),
         ('    if (word.compare_exchange_weak(before, after)) return;\n  }\n',
          '    if (word.compare_exchange_weak(before, after)) break;\n  }\n'
          '  log.begin(before, result_of(op, before, compare_add, swap));\n')]),
    'a record of an atomic says when the atomic has run': (
        RELIABLE + 'responder.cpp',
        [('    WasRun run = WasRun::kYes;\n', '    WasRun run = WasRun::kNo;\n'),
         ('      run = up.memory.recall_atomic(', '      up.memory.recall_atomic(')]),
    'a receive of a shared queue is recorded before it is taken': (
        ENGINE + 'receive/receive_queues.cpp',
        [('    srq.ring.publish_taken();\n', ''),
         ('    qp.record.durable->drawn_srq = srq.number;\n',
          '    srq.ring.publish_taken();\n    qp.record.durable->drawn_srq = srq.number;\n')]),
    'inside the daemon the receiving end commits first': (
        'daemon/roce/transport/local/local.cpp',
        [('  peer.expected = checks_.behind(request);\n', '  const Psn behind = checks_.behind(request);\n'),
         ('  peer.events.executed();\n  return end(turn, Verdict::kOk);\n',
          '  const Step ended = end(turn, Verdict::kOk);\n  peer.expected = behind;\n'
          '  peer.events.executed();\n  return ended;\n')]),
    'a window that is bound may be bound again': (
        ENGINE + 'queue_pairs/command_windows.cpp',
        [('memory_.bind(qp, buffer.header, qp.sq.resumed)', 'memory_.bind(qp, buffer.header, false)')]),
    'a window that is invalidated may be invalidated again': (
        ENGINE + 'queue_pairs/qp_environment.cpp',
        [('memory.invalidate(qp_, rkey, qp_.rq.resumed)', 'memory.invalidate(qp_, rkey, false)')]),
}


def broken_unit(build, source, folder, file, changes):
    """Writes the broken file. Returns the compile command of what holds it, and the object's path."""
    text = (source / file).read_text()
    for old, new in changes:
        if text.count(old) != 1:
            sys.exit(f'broken_rules: {file}: expected once, found {text.count(old)} times: {old.strip()}')
        text = text.replace(old, new)
    broken = folder / pathlib.Path(file).name
    broken.write_text(text)
    for entry in json.loads((build / 'compile_commands.json').read_text()):
        unit = build / entry['file']
        if unit.resolve() == (source / file).resolve():
            unit_text = None
        elif '-unity' in unit.name:
            unit_text = unit.read_text()
            lines = [(line, re.search(r'[<"](.*)[>"]', line)) for line in unit_text.splitlines()]
            if not any(m and (build / m[1]).resolve() == (source / file).resolve() for _, m in lines):
                continue
            unit_text = '\n'.join(
                f'#include "{broken}"' if m and (build / m[1]).resolve() == (source / file).resolve() else line
                for line, m in lines)
        else:
            continue
        compiled = broken if unit_text is None else folder / 'unit.cpp'
        if unit_text is not None:
            compiled.write_text(unit_text + '\n')
        words = shlex.split(entry['command'])
        command = words[:words.index('-MD')]
        return [*command, '-Wno-error', '-o', str(folder / 'unit.o'), '-c', str(compiled)]
    sys.exit(f'broken_rules: {file}: nothing in compile_commands.json compiles it')


def link_command(build, folder):
    """Returns the command that links the program. The broken object comes first, so that the linker
    takes nothing from the archive member that it replaces."""
    commands = subprocess.run(['ninja', '-C', build, '-t', 'commands', PROGRAM], check=True,
                              capture_output=True, text=True).stdout.splitlines()
    words = shlex.split(commands[-1])
    out = words.index('-o')
    return [*words[:out], '-o', str(folder / 'sim-faults'), str(folder / 'unit.o'), *words[out + 2:]]


def main():
    build, source, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    folder.mkdir(parents=True, exist_ok=True)
    missed = []
    for name, (file, changes) in RULES.items():
        if sys.argv[4:] and not any(part in name for part in sys.argv[4:]):
            continue
        subprocess.run(broken_unit(build, source, folder, file, changes), cwd=build, check=True)
        subprocess.run(link_command(build, folder), cwd=build, check=True)
        run = subprocess.run([folder / 'sim-faults', *RUN], capture_output=True, text=True)
        found = run.returncode == 1
        print(f'{"found" if found else "MISSED"}: {name}', (run.stdout.splitlines() or [''])[0], sep='\n    ',
              flush=True)
        if not found:
            missed.append(name)
    return 1 if missed else 0


if __name__ == '__main__':
    sys.exit(main())
