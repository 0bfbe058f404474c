"""What other programs run later because a file lies there; for sandboxes that know such places (a preset)."""

from case import Case, Policy

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
    "the shell's start-up file": "home/.bashrc",
    "the login's start-up file": "home/.profile",
    "Git's own settings": "home/.gitconfig",
    "SSH's settings": "home/.ssh/config",
    "programs of the user's": "home/.local/bin/ls",
    "services of the user's": "home/.config/systemd/user/x.service",
    "what starts with the desktop": "home/.config/autostart/x.desktop",
}


def make(world):
    import subprocess

    subprocess.run(["git", "init", "-q", str(world.work)], check=True)
    (world.home / ".local/bin").mkdir(parents=True)
    return {"TARGET": "", "HOME": str(world.home)}


def is_there(place):
    return lambda world: (world.top / place).exists() and b"planted" in (world.top / place).read_bytes()


def cases():
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
