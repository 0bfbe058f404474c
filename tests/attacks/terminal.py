"""A caller on a terminal of its own: the leader of the session, another process of its job, and the sandbox."""

import json
import os
import pty
import subprocess

# Leads the session and starts the command as a script would, in its own process group. It stays until it was looked
# at, since the terminal is hung up when it ends.
CALLER = """
import fcntl, json, os, select, signal, subprocess, sys, termios
command, note, limit, sibling = json.loads(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4]
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
other = subprocess.Popen([sys.executable, '-c', sibling, note], preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
                         stdout=subprocess.PIPE)
other.stdout.readline()
before = os.tcgetpgrp(0)
process = subprocess.Popen(command, preexec_fn=lambda: [signal.signal(s, signal.SIG_DFL) for s in (signal.SIGHUP, signal.SIGTTOU)])
try:
    process.wait(limit)
except subprocess.TimeoutExpired:
    process.kill()
after = os.tcgetpgrp(0)
# It gets this signal after those of smaller numbers. One that does not answer was ended or stopped.
other.send_signal(signal.SIGUSR1)
answers = select.select([other.stdout], [], [], limit)[0] and other.stdout.readline()
os.write(3, json.dumps([before, after, bool(answers)]).encode())
os.read(4, 1)
other.kill()
"""
SIBLING = """
import signal, sys
signals = {signal.SIGHUP, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
print(flush=True)
while True:
    if signal.sigwait(signals) == signal.SIGUSR1:
        print('all noted', flush=True)
    else:
        open(sys.argv[1], 'w').close()
"""


def run(world, command, environment, judge, limit, _):
    """Runs `command` there and judges while the terminal is still there."""
    master, slave = pty.openpty()
    told, tell = os.pipe()
    wait, end = os.pipe()
    note = world.top / "hung-up"

    def prepare():
        os.setsid()
        os.dup2(tell, 10)
        os.dup2(wait, 11)
        os.dup2(10, 3)
        os.dup2(11, 4)

    caller = subprocess.Popen(
        ["/usr/bin/python3", "-c", CALLER, json.dumps(command), str(note), str(limit), SIBLING],
        stdin=slave, stdout=slave, stderr=slave, cwd=world.work, env=environment, pass_fds=[3, 4, 10, 11],
        preexec_fn=prepare,
    )
    os.close(tell)
    os.close(wait)
    try:
        world.foreground_before, world.foreground_after, answers = json.loads(os.read(told, 100) or b"[0, 0, false]")
        world.slave = slave
        world.sibling_was_hung_up = note.exists() or not answers
        came = bool(judge(world))
        os.set_blocking(master, False)
        try:
            world.output = os.read(master, 10_000)
        except OSError:
            pass
        return came
    finally:
        os.close(end)
        caller.wait()
        for fd in (master, slave, told):
            os.close(fd)
