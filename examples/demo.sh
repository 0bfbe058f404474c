#!/bin/sh
# What landstrip does, in a minute: run it where landstrip is installed. Everything happens in a directory that is
# removed at the end, which is also the home directory here.
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

say 'Ordinary work in a repository runs as ever.'
try "landstrip -p agent -- sh -c 'echo one > file && git add . && git commit -qm first && git log --oneline | wc -l'"

say 'What the user would run unknowingly is not written, and the report says by which rule.'
try 'landstrip -p agent -- touch .git/hooks/pre-commit'
try 'landstrip -p agent -- git config core.pager evil'

say 'Keys and tokens are not read, neither in files nor in variables.'
try 'landstrip -p agent --report all -- cat ~/.ssh/id_ed25519'
export GH_TOKEN=secret
try 'landstrip -p agent -- env | grep -c GH_TOKEN'

say 'What is not there yet is protected too, and nothing is left in its place.'
try 'landstrip -p agent -- mkdir .vscode'
try 'ls -d .vscode'

say 'There is no network but to the hosts that a policy names.'
try "landstrip -p agent -- bash -c 'exec 3<>/dev/tcp/192.0.2.1/443'"

say 'Everything that the command started ends with it.'
try "landstrip -p agent -- sh -c 'sleep 987 & echo \$! >started'"
try 'test -d "/proc/$(cat started)"'

say 'A program reads the denials as JSON lines from a descriptor of its own.'
try 'landstrip -p agent --trap-fd 3 -- touch ~/elsewhere 3>denials 2>/dev/null'
try 'cat denials'

say 'So a policy is made: the preset, and what was missing.'
printf 'extends: agent\nfilesystem:\n  allowWrite: [~/elsewhere]\n' >"$HOME/.config/landstrip/demo.yaml"
try 'cat ~/.config/landstrip/demo.yaml'
try 'landstrip -p ~/.config/landstrip/demo.yaml -- touch ~/elsewhere'
try 'ls ~'

say 'A word that is wrong is an error, and nothing runs.'
printf 'filesystem:\n  denyRaed: [secret]\n' >"$HOME/.config/landstrip/typo.yaml"
try 'landstrip -p ~/.config/landstrip/typo.yaml -- echo never'
