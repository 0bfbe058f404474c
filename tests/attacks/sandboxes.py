"""How each sandbox is asked for a policy, with the options that its users take.

An adapter returns the command line, or None where the sandbox cannot say what the policy asks.
"""

import json
import os
import shutil
import subprocess


class NoSandbox:
    """The control: what does not succeed here is no attack on this machine."""

    name = "none"

    def is_there(self):
        return True

    def version(self):
        return ""

    def command(self, world, policy, argv):
        return argv


class Landstrip:
    """With a policy of the case's, or the preset `agent`."""

    name = "landstrip"

    def __init__(self):
        self.program = os.environ.get("LANDSTRIP") or shutil.which("landstrip")

    def is_there(self):
        return bool(self.program)

    def version(self):
        return output([self.program, "--version"])

    def command(self, world, policy, argv):
        if policy.preset:
            return [self.program, "-p", "agent", "--", *argv]
        written = {
            "filesystem": {
                "allowWrite": absolute(world, policy.write),
                "denyWrite": absolute(world, policy.deny_write),
                "denyRead": absolute(world, policy.deny_read),
            },
            "network": {
                "allowLocalBinding": policy.local,
                "allowUnixSockets": absolute(world, policy.sockets),
                "allowedDomains": policy.hosts,
            },
        }
        if policy.own_processes:
            written["processes"] = "own"
        return [self.program, "-p", kept(world, written), "--", *argv]


class Reference:
    """Another sandbox of the same name for the same format of policies, from crates.io, in namespaces and with a broker."""

    name = "reference"

    def __init__(self):
        self.program = os.environ.get("LANDSTRIP_REFERENCE")

    def is_there(self):
        return bool(self.program) and succeeds([self.program, "--version"])

    def version(self):
        return output([self.program, "--version"])

    def command(self, world, policy, argv):
        if policy.preset or policy.hosts:
            return None
        written = {
            "filesystem": {
                "allowWrite": absolute(world, policy.write),
                "denyWrite": absolute(world, policy.deny_write),
                "denyRead": absolute(world, policy.deny_read),
            },
            "network": {
                "allowNetwork": False,
                "allowLocalBinding": policy.local,
                "allowUnixSockets": absolute(world, policy.sockets),
            },
        }
        return [self.program, "run", "-p", kept(world, written), "--", *argv]


class Bubblewrap:
    """All namespaces, the root read-only, what may be written bound over it, what is denied hidden."""

    name = "bubblewrap"

    def is_there(self):
        return succeeds(["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"])

    def version(self):
        return output(["bwrap", "--version"])

    def command(self, world, policy, argv):
        if policy.preset or policy.hosts:
            return None
        command = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev"]
        command += ["--proc", "/proc", "--tmpfs", "/tmp"]
        for path in absolute(world, policy.write):
            command += ["--bind", path, path]
        for path in absolute(world, policy.deny_write):
            if not os.path.exists(path):
                return None
            command += ["--ro-bind", path, path]
        for path in absolute(world, policy.deny_read):
            command += ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]
        return [*command, "--chdir", str(world.work), "--", *argv]


class Firejail:
    """Without a profile of a program's; the same rules."""

    name = "firejail"

    def is_there(self):
        return succeeds(["firejail", "--quiet", "--noprofile", "true"])

    def version(self):
        return output(["firejail", "--version"])

    def command(self, world, policy, argv):
        if policy.preset or policy.hosts:
            return None
        command = ["firejail", "--quiet", "--noprofile", "--net=none", "--caps.drop=all", "--nonewprivs", "--seccomp"]
        # The worlds lie in /var/tmp, which it hides else.
        command += ["--read-only=/", "--private-tmp", "--private-dev", "--keep-var-tmp"]
        command += [f"--read-write={path}" for path in absolute(world, policy.write)]
        for path in absolute(world, policy.deny_write):
            if not os.path.exists(path):
                return None
            command.append(f"--read-only={path}")
        command += [f"--blacklist={path}" for path in absolute(world, policy.deny_read)]
        return [*command, "--", *argv]


class SandboxRuntime:
    """The Anthropic Sandbox Runtime, by its command, with its own format of policies."""

    name = "sandbox-runtime"

    def __init__(self):
        self.program = os.environ.get("SRT") or shutil.which("srt")

    def is_there(self):
        return bool(self.program) and succeeds([self.program, "true"])

    def version(self):
        return output([self.program, "--version"])

    def command(self, world, policy, argv):
        # It has a namespace of processes under every policy, and a list of what runs later, but none of secrets.
        if policy.secrets:
            return None
        written = {
            "filesystem": {
                "allowWrite": absolute(world, policy.write),
                "denyWrite": [] if policy.preset else absolute(world, policy.deny_write),
                "denyRead": absolute(world, policy.deny_read),
            },
            "network": {
                "allowedDomains": policy.hosts,
                "deniedDomains": [],
                "allowLocalBinding": policy.local,
                "allowUnixSockets": absolute(world, policy.sockets),
            },
        }
        return [self.program, "--settings", kept(world, written), *argv]


ALL = [NoSandbox, Landstrip, Bubblewrap, SandboxRuntime, Firejail, Reference]


def absolute(world, paths):
    return [str(world.top / path) for path in paths]


def kept(world, policy):
    """Where the policy stands in a file, outside of what the command may write."""
    path = world.top / "policy.json"
    path.write_text(json.dumps(policy))
    return str(path)


def succeeds(command):
    try:
        return subprocess.run(command, capture_output=True, timeout=60, stdin=subprocess.DEVNULL).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def output(command):
    found = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    lines = (found.stdout + found.stderr).strip().splitlines()
    return lines[0] if lines else ""
