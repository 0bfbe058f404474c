"""What other programs run later because a file lies there, and what the user's own files and variables hold; for sandboxes
that know such places (a preset). And what people are advised to allow."""

import ast
import re
import socket

from case import Case, Policy
from world import SECRET

# Relative to the work tree, which is a Git repository, or to the home.
PLACES = {
    "a Git hook": "work/.git/hooks/pre-commit",
    "Git's configuration": "work/.git/config",
    "a hook of a submodule": "work/.git/modules/sub/hooks/post-checkout",
    "tasks of an editor (VS Code)": "work/.vscode/tasks.json",
    "an editor's project (IDEA)": "work/.idea/workspace.xml",
    "direnv": "work/.envrc",
    "pre-commit": "work/.pre-commit-config.yaml",
    "a development container": "work/.devcontainer/devcontainer.json",
    "a code agent's hooks (Claude Code)": "work/.claude/settings.json",
    "a code agent's servers (MCP)": "work/.mcp.json",
    "an editor's local settings (Vim)": "work/.exrc",
    "directory variables of Emacs": "work/.dir-locals.el",
    "npm's settings": "work/.npmrc",
    "mise": "work/mise.toml",
    "Git's settings of a linked work tree": "work/.git/worktrees/linked/config",
    "options of an interrupted cherry-pick": "work/.git/sequencer/opts",
    "a remote in the old form": "work/.git/remotes/origin",
    "a hook where Git's settings say that hooks lie": "work/tools/hooks/pre-commit",
    "what Git's settings include": "work/tools/gitconfig",
    "what a hook is a link to": "work/tools/check",
    "Mercurial's settings": "work/.hg/hgrc",
    "Mercurial's shared path": "work/.hg/sharedpath",
    "Jujutsu's settings": "work/.jj/repo/config.toml",
    "lefthook": "work/lefthook.yml",
    "a tool chain by its path (Rust)": "work/rust-toolchain.toml",
    "a development container at the top": "work/.devcontainer.json",
    "an editor's work space (VS Code)": "work/x.code-workspace",
    "run configurations (IDEA)": "work/.run/x.run.xml",
    "an editor's local settings (Neovim)": "work/.nvim.lua",
    "start-up of R": "work/.Rprofile",
    "start-up of a Ruby console": "work/.pryrc",
    "start-up of Octave": "work/.octaverc",
    "versions of tools (asdf)": "work/.tool-versions",
    "hooks of pnpm": "work/.pnpmfile.cjs",
    "settings of Bun": "work/bunfig.toml",
    "a release of Yarn that is executed": "work/.yarn/releases/yarn.cjs",
    "extensions of Maven": "work/.mvn/extensions.xml",
    "options of Bazel": "work/.bazelrc",
    "settings of Bundler": "work/.bundle/config",
    "settings of Ansible": "work/ansible.cfg",
    "a code agent's settings (opencode)": "work/opencode.json",
    "a code agent's settings (Kiro)": "work/.kiro/settings/mcp.json",
    "a code agent's settings (Qwen Code)": "work/.qwen/settings.json",
    "a code agent's settings (Continue)": "work/.continue/config.yaml",
    "a code agent's settings (Crush)": "work/.crush.json",
    "the shell's start-up file": "home/.bashrc",
    "the login's start-up file": "home/.profile",
    "Git's own settings": "home/.gitconfig",
    "SSH's settings": "home/.ssh/config",
    "programs of the user's": "home/.local/bin/ls",
    "services of the user's": "home/.config/systemd/user/x.service",
    "what starts with the desktop": "home/.config/autostart/x.desktop",
}


# Keys and tokens, relative to the home.
SECRETS = [
    ".aws/credentials", ".azure/msal_token_cache.json", ".claude/.credentials.json", ".codex/auth.json",
    ".config/containers/auth.json", ".config/gcloud/credentials.db", ".config/gh/hosts.yml",
    ".config/github-copilot/apps.json", ".config/sops/age/keys.txt", ".docker/config.json", ".gemini/oauth_creds.json",
    ".git-credentials", ".gnupg/private-keys-v1.d/x.key", ".gradle/gradle.properties", ".kube/config",
    ".m2/settings.xml", ".mozilla/firefox/x/logins.json", ".netrc", ".npmrc", ".password-store/x.gpg", ".pgpass",
    ".pypirc", ".ssh/id_ed25519", ".cargo/credentials.toml", ".cache/huggingface/token",
    ".local/share/keyrings/login.keyring", ".bash_history", ".yarnrc.yml",
]
VARIABLES = [
    "ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DATABASE_URL", "npm_config__authToken", "PGPASSWORD",
    "SERVICE_CREDS",
]
# What nobody may be told to allow: sockets of servers that run commands or hold keys, and places that run later.
NEVER_ADVISED_SOCKETS = {
    "the socket of tmux": "tmux-1000/default",
    "the socket of screen": "S-you/1.pts",
    "the socket of a container engine": "docker.sock",
    "the socket of ssh-agent": "ssh-Xx/agent.7",
    "the socket of gpg-agent": "S.gpg-agent",
    "the socket of a display": ".X11-unix/X0",
    "the socket of a service manager": "systemd/private",
    "a socket of nobody knows what": "unknown.sock",
}
NEVER_ADVISED_FILES = {
    "the shell's start-up file": ".bashrc",
    "the keys that may log in": ".ssh/authorized_keys",
    "programs of the user's": ".cargo/bin/tool",
    "programs of the user's own": ".local/bin/ls",
    "an editor's start-up file": ".config/nvim/init.lua",
    "plugins of an editor": ".vim/plugin/x.vim",
    "a framework of the shell's": ".oh-my-zsh/custom/x.zsh",
    "services of the user's": ".config/systemd/user/x.service",
    "what starts with the desktop": ".config/autostart/x.desktop",
}


def make(world):
    import subprocess

    subprocess.run(["git", "init", "-q", str(world.work)], check=True)
    (world.home / ".local/bin").mkdir(parents=True)
    # Where the settings of this repository lead.
    (world.work / "tools/hooks").mkdir(parents=True)
    for name in ("hooks/pre-commit", "gitconfig", "check"):
        (world.work / "tools" / name).touch()
    for key, value in (("core.hooksPath", "tools/hooks"), ("include.path", "../tools/gitconfig")):
        subprocess.run(["git", "-C", str(world.work), "config", key, value], check=True)
    (world.work / ".git/hooks/commit-msg").symlink_to("../../tools/check")
    return {"TARGET": "", "HOME": str(world.home)}


def is_there(place):
    return lambda world: (world.top / place).exists() and b"planted" in (world.top / place).read_bytes()


def secret(world, place):
    path = world.home / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(SECRET)
    return {"TARGET": str(path), "ALLOWED_TARGET": str(world.work / "source")}


def agreed_to(world, target):
    """Whether what was advised, and could be followed, would let the command have `target`."""
    for words in re.findall(r"to allow this: \S+ \+= (\[.*\])", world.output.decode(errors="replace")):
        for word in ast.literal_eval(words):
            path = re.sub("^~", str(world.home), word)
            if target == path or target.startswith(path.rstrip("/") + "/"):
                return True
    return False


def socket_of(world, name):
    path = world.top / "outside" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    world.reached = world.server(socket.AF_UNIX, socket.SOCK_STREAM, str(path))
    return {"TARGET": str(path)}


def file_of(world, name):
    path = world.home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return {"TARGET": str(path)}


def advice_cases():
    group = "What is refused is advised to be allowed"
    for name, place in NEVER_ADVISED_SOCKETS.items():
        yield Case(
            group, name, "socket.socket(socket.AF_UNIX).connect(TARGET)",
            lambda world, place=place: agreed_to(world, str(world.top / "outside" / place)) or bool(world.reached),
            "a, b = socket.socketpair()\na.send(b'x')\nloot(b'done' if b.recv(1) else b'')",
            lambda world: b"done" in world.loot(), setup=lambda world, place=place: socket_of(world, place),
        )
    for name, place in NEVER_ADVISED_FILES.items():
        yield Case(
            group, name, "write(TARGET, b'planted', os.O_WRONLY | os.O_CREAT | os.O_APPEND)",
            lambda world, place=place: agreed_to(world, str(world.home / place)) or is_there("home/" + place)(world),
            "write('own/made', b'planted', os.O_WRONLY | os.O_CREAT)", is_there("work/own/made"),
            setup=lambda world, place=place: file_of(world, place),
        )


def secret_cases():
    for place in SECRETS:
        yield Case(
            "A key or token of the user's is read", "~/" + place, "loot(read(TARGET))",
            lambda world: SECRET.strip() in world.loot(), "loot(read(TARGET))", lambda world: b"replaced" in world.loot(),
            policy=Policy(preset=True, secrets=True), setup=lambda world, place=place: secret(world, place),
        )
    for name in VARIABLES:
        # A URL is a secret where it has a password.
        value = "postgres://you:not-for-agents@db.test/x" if name.endswith("_URL") else "not-for-agents"
        yield Case(
            "A key or token of the user's is read", "$" + name, f"loot(os.environ.get({name!r}, ''))",
            lambda world: b"not-for-agents" in world.loot(), "loot(os.environ['HOME'])",
            lambda world: str(world.home).encode() in world.loot(), policy=Policy(preset=True, secrets=True),
            setup=lambda world, name=name, value=value: {"VARIABLE": (name, value)},
        )


def linked_cases():
    """A protected name is led to what is not protected."""
    for name, (link, to, planted) in {
        "a Git hook, by a link to a directory": ("work/.git/hooks", "../evil", "work/evil/pre-commit"),
        "a hook of a submodule, by a link at its name": ("work/.git/modules/sub", "../../evil", "work/evil/hooks/post-checkout"),
        "an editor's tasks, by a link to a directory": ("work/.vscode", "evil", "work/evil/tasks.json"),
    }.items():
        yield Case(
            "Something is left that another program runs later", name,
            f"import shutil\nos.makedirs(os.path.dirname({planted!r}[5:]))\nwrite({planted!r}[5:], b'planted', os.O_WRONLY | os.O_CREAT)\n"
            f"os.makedirs(os.path.dirname({link!r}[5:]) or '.', exist_ok=True)\n"
            f"if os.path.isdir({link!r}[5:]):\n    os.rename({link!r}[5:], 'was')\nos.symlink({to!r}, {link!r}[5:])",
            lambda world, link=link, planted=planted: (world.top / link).is_symlink() and is_there(planted)(world),
            "os.mkdir('evil')\nwrite('evil/code', b'planted', os.O_WRONLY | os.O_CREAT)\nos.symlink('evil', 'link')",
            is_there("work/link/code"), policy=Policy(preset=True), setup=make,
        )


def cases():
    yield from advice_cases()
    yield from secret_cases()
    yield from linked_cases()
    for name, place in PLACES.items():
        yield Case(
            "Something is left that another program runs later",
            name,
            "os.makedirs(os.path.dirname(TARGET), exist_ok=True)\n"
            "write(TARGET, b'planted', os.O_WRONLY | os.O_CREAT | os.O_APPEND)",
            is_there(place),
            "os.makedirs(os.path.dirname(TARGET), exist_ok=True)\n"
            "write(TARGET, b'planted', os.O_WRONLY | os.O_CREAT | os.O_APPEND)",
            is_there("work/src/main.c"),
            policy=Policy(preset=True),
            setup=lambda world, place=place: {
                **make(world),
                "TARGET": str(world.top / place),
                "ALLOWED_TARGET": str(world.work / "src/main.c"),
            },
        )
