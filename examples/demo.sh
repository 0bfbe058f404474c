#!/bin/sh
# What landstrip does, in a minute; landstrip must be in PATH. Everything happens in a directory that is removed at the
# end, and that also serves as the home directory.
set -eu
HOME=$(mktemp -d "${TMPDIR:-/var/tmp}/landstrip-demo-XXXXXX")
export HOME
trap 'cd /; rm -rf "$HOME"' EXIT
mkdir -p "$HOME/project" "$HOME/.ssh" "$HOME/.config/landstrip"
cd "$HOME/project"
git init -q
git config user.name demo
git config user.email demo@example.com
echo 'not for agents' >"$HOME/.ssh/id_ed25519"

say() { printf '\n# %s\n' "$*"; }
# Shows a command, runs it, and says how it ended.
try() {
    printf '$ %s\n' "$*"
    sh -c "$*" 2>&1 && return
    printf '(exit status %s)\n' $?
}

say 'Ordinary work in a repository runs as usual.'
try "landstrip -p agent -- sh -c 'echo one > file && git add . && git commit -qm first && git log --oneline | wc -l'"

say 'Files that would later run outside the sandbox are not writable; the report names the rule.'
try 'landstrip -p agent -- touch .git/hooks/pre-commit'
try 'landstrip -p agent -- git config core.pager evil'

say 'Keys and tokens cannot be read, neither from files nor from variables.'
try 'landstrip -p agent --report all -- cat ~/.ssh/id_ed25519'
export GH_TOKEN=secret
try 'landstrip -p agent -- env | grep -c GH_TOKEN'

say 'Files that do not exist yet are protected too, without placeholders.'
try 'landstrip -p agent -- mkdir .vscode'
try 'ls -d .vscode'

say 'There is no network, except to hosts that a policy names.'
try "landstrip -p agent -- bash -c 'exec 3<>/dev/tcp/192.0.2.1/443'"

say 'Everything that the command started ends with it.'
try "landstrip -p agent -- sh -c 'sleep 987 & echo \$! >started'"
try 'test -d "/proc/$(cat started)"'

say 'Programs can read the denials as JSON lines from a descriptor.'
try 'landstrip -p agent --trap-fd 3 -- touch ~/elsewhere 3>denials 2>/dev/null'
try 'cat denials'

say 'A policy can extend the preset with what was missing.'
printf 'extends: agent\nfilesystem:\n  allowWrite: [~/elsewhere]\n' >"$HOME/.config/landstrip/demo.yaml"
try 'cat ~/.config/landstrip/demo.yaml'
try 'landstrip -p ~/.config/landstrip/demo.yaml -- touch ~/elsewhere'
try 'ls ~'

say 'A misspelt key is an error, and nothing runs.'
printf 'filesystem:\n  denyRaed: [secret]\n' >"$HOME/.config/landstrip/typo.yaml"
try 'landstrip -p ~/.config/landstrip/typo.yaml -- echo never'
