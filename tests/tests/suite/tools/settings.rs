//! What tools run because somebody enters, opens or asks about a directory: planted under `agent`, none of it is run
//! outside; planted under `build`, and outside, all of it is.
//!
//! The tools are the real ones, each by its package of Debian or its registry. One that is not installed, or does not obey
//! such settings in the version that is, is skipped, loudly.

use std::time::Duration;
use tests::{ESCAPED, Sandbox, User, for_each_user, skipped};

/// What plants a file of settings by which GNU Global loads a library.
macro_rules! gtags_settings {
    ($file:literal) => {
        concat!(
            "printf '#include <stdlib.h>\n__attribute__((constructor)) void f(void) { system(\"@\"); }\n' > evil.c; \
             cc -shared -fPIC -o evil.so evil.c; \
             printf 'default:langmap=C\\:.c:gtags_parser=C\\:%s/evil.so:\n' $PWD > ",
            $file
        )
    };
}

/// What it is, the program, what is there before, what is planted, and what somebody does then. `@` stands for a command
/// that makes FILE.
const PLANTED: &[(&str, &str, &str, &str, &str)] = &[
    (".hg/hgrc", "hg", "hg init .", "printf '[hooks]\\npre-status = @\\n' > .hg/hgrc", "hg status"),
    (
        ".hg/hgrc-not-shared",
        "hg",
        "hg init --config format.use-share-safe=True .",
        "printf '[hooks]\\npre-status = @\\n' > .hg/hgrc-not-shared",
        "hg status",
    ),
    (
        ".hg/sharedpath",
        "hg",
        "hg init --config format.use-share-safe=True .",
        "cp -r .hg evil; printf '[hooks]\\npre-status = @\\n' > evil/hgrc; echo shared >> .hg/requires; \
         printf %s \"$PWD/evil\" > .hg/sharedpath",
        "hg status",
    ),
    (
        ".hgsub",
        "hg",
        "hg init .; hg -q commit --config ui.allowemptycommit=True -u n -m x",
        "hg init sub; printf '[extensions]\nx = %s/x.py\n' $PWD > sub/.hg/hgrc; \
         echo 'import os; os.system(\"@\")' > x.py; echo sub = sub > .hgsub; hg add .hgsub",
        "hg id",
    ),
    (
        "a subrepository of .hgsub",
        "hg",
        "hg init .; hg init sub; echo sub = sub > .hgsub; hg add .hgsub; hg -q commit -u n -m x",
        "printf '[extensions]\nx = %s/x.py\n' $PWD > sub/.hg/hgrc; echo 'import os; os.system(\"@\")' > x.py",
        "hg id",
    ),
    (
        ".ruby-version",
        "rbenv",
        "mkdir -p ~/.rbenv/versions/1/bin; ln -s /bin/true ~/.rbenv/versions/1/bin/ruby; echo 1 > .ruby-version",
        "mkdir -p evil/bin; printf '#!/bin/sh\n@\n' > evil/bin/ruby; chmod +x evil/bin/ruby; \
         echo ../../../work/evil > .ruby-version",
        "rbenv exec ruby",
    ),
    (
        "a variable in .envrc",
        "direnv",
        "mkdir -p ~/.config/direnv; printf '[whitelist]\nprefix = [\"/\"]\n' > ~/.config/direnv/direnv.toml; \
         printf 'FILE_OF=settings\nsource $FILE_OF\n' > .envrc; touch settings",
        "echo '@' > settings",
        "direnv exec . true",
    ),
    (
        ".pre-commit-config.yaml",
        "pre-commit",
        "git init -q; git config user.name n; git config user.email e; echo 'repos: []' > .pre-commit-config.yaml; \
         git add .; git commit -qm x; pre-commit install",
        "printf 'repos:\\n- repo: local\\n  hooks:\\n  - {id: x, name: x, language: system, entry: @, always_run: true, \
         pass_filenames: false}\\n' > .pre-commit-config.yaml; git add .",
        "git commit -qm y",
    ),
    (
        ".envrc",
        "direnv",
        "mkdir -p ~/.config/direnv; printf '[whitelist]\\nprefix = [\"/\"]\\n' > ~/.config/direnv/direnv.toml",
        "echo '@' > .envrc",
        "direnv exec . true",
    ),
    (
        ".envrc.local",
        "direnv",
        "mkdir -p ~/.config/direnv; printf '[whitelist]\nprefix = [\"/\"]\n' > ~/.config/direnv/direnv.toml; \
         echo source_env_if_exists .envrc.local > .envrc",
        "echo '@' > .envrc.local",
        "direnv exec . true",
    ),
    (
        ".env of direnv",
        "direnv",
        "mkdir -p ~/.config/direnv; printf '[whitelist]\nprefix = [\"/\"]\n' > ~/.config/direnv/direnv.toml; \
         echo dotenv > .envrc",
        "mkdir evil; printf '#!/bin/sh\n@\n' > evil/tool; chmod +x evil/tool; echo PATH=$PWD/evil:/usr/bin:/bin > .env",
        "direnv exec . tool",
    ),
    (
        "a program of .envrc",
        "direnv",
        "mkdir -p ~/.config/direnv tools; printf '[whitelist]\nprefix = [\"/\"]\n' > ~/.config/direnv/direnv.toml; \
         printf '#!/bin/sh\n' > tools/env; chmod +x tools/env; echo 'eval \"$(tools/env)\"' > .envrc",
        "printf '#!/bin/sh\n@\n' > tools/env",
        "direnv exec . true",
    ),
    (
        "Makefile of .envrc",
        "direnv",
        "mkdir -p ~/.config/direnv; printf '[whitelist]\nprefix = [\"/\"]\n' > ~/.config/direnv/direnv.toml; \
         echo 'eval \"$(make -s env)\"' > .envrc; echo env: > Makefile",
        "printf 'env:\n\t@\n' > Makefile",
        "direnv exec . true",
    ),
    (
        "settings that .envrc names in a variable",
        "direnv",
        "mkdir -p ~/.config/direnv; printf '[whitelist]\nprefix = [\"/\"]\n' > ~/.config/direnv/direnv.toml; \
         echo 'export GIT_CONFIG_GLOBAL=$PWD/settings' > .envrc; git init -q",
        "printf '[core]\nfsmonitor = @;false\n' > settings",
        "direnv exec . git status",
    ),
    (
        "what .envrc has Ruby load",
        "direnv",
        "mkdir -p ~/.config/direnv; printf '[whitelist]\nprefix = [\"/\"]\n' > ~/.config/direnv/direnv.toml; \
         echo 'export RUBYOPT=-r./hook' > .envrc; touch hook.rb",
        "echo 'system(%q(@))' > hook.rb",
        "direnv exec . ruby -e 0",
    ),
    (
        ".node-version",
        "mise",
        ":",
        "mkdir -p evil/bin; printf '#!/bin/sh\n@\n' > evil/bin/node; chmod +x evil/bin/node; \
         echo path:$PWD/evil > .node-version",
        "MISE_OFFLINE=1 MISE_IDIOMATIC_VERSION_FILE_ENABLE_TOOLS=node mise exec -- node",
    ),
    (
        "mise.toml",
        "mise",
        ":",
        "echo '@' > env.sh; printf '[env]\n_.source = \"env.sh\"\n' > mise.toml",
        "MISE_TRUSTED_CONFIG_PATHS=/ mise env",
    ),
    (
        "_.source of mise",
        "mise",
        "printf '[env]\n_.source = \"env.sh\"\n' > mise.toml; touch env.sh",
        "echo '@' > env.sh",
        "MISE_TRUSTED_CONFIG_PATHS=/ mise env",
    ),
    (
        "lefthook.yml",
        "lefthook",
        "git init -q; git config user.name n; git config user.email e; printf 'pre-commit:\n  commands:\n    x:\n      \
         run: true\n' > lefthook.yml; git add .; git commit -qm x; lefthook install",
        "printf 'pre-commit:\n  commands:\n    x:\n      run: @\n' > lefthook.yml",
        "echo x > new; git add .; git commit -qm y",
    ),
    (
        ".pre-commit-config.yml",
        "prek",
        "git init -q; git config user.name n; git config user.email e; echo 'repos: []' > .pre-commit-config.yml; \
         git add .; git commit -qm x; prek install",
        "printf 'repos:\n- repo: local\n  hooks:\n  - {id: x, name: x, language: system, entry: @, always_run: true, \
         pass_filenames: false}\n' > .pre-commit-config.yml; git add .",
        "git commit -qm y",
    ),
    (
        "prek.toml",
        "prek",
        "git init -q; git config user.name n; git config user.email e; echo 'repos = []' > prek.toml; git add .; \
         git commit -qm x; prek install",
        "printf '[[repos]]\nrepo = \"local\"\n[[repos.hooks]]\nid = \"x\"\nname = \"x\"\nlanguage = \"system\"\n\
         entry = \"@\"\nalways_run = true\npass_filenames = false\n' > prek.toml; git add .",
        "git commit -qm y",
    ),
    (
        ".jj/repo/config.toml",
        "jj",
        "jj git init; echo x > new",
        "printf '[ui]\ndiff-formatter = [\"sh\", \"-c\", \"@\"]\n' > .jj/repo/config.toml",
        "jj diff",
    ),
    (
        ".vimrc",
        "vim",
        "echo set exrc > ~/.vimrc",
        "echo 'silent !@' > .vimrc",
        "vim --not-a-term -T dumb -c qa!",
    ),
    (
        ".exrc",
        "vim",
        "echo set exrc > ~/.vimrc",
        "echo 'silent !@' > .exrc",
        "vim --not-a-term -T dumb -c qa!",
    ),
    (
        ".dir-locals.el",
        "emacs",
        "touch main.c",
        "echo '((nil . ((eval . (shell-command \"@\")))))' > .dir-locals.el",
        "emacs --batch --eval '(setq enable-local-variables :all enable-local-eval t)' --visit main.c",
    ),
    (
        ".dir-locals-2.el",
        "emacs",
        "touch main.c; echo '((nil . ((fill-column . 80))))' > .dir-locals.el",
        "echo '((nil . ((eval . (shell-command \"@\")))))' > .dir-locals-2.el",
        "emacs --batch --eval '(setq enable-local-variables :all enable-local-eval t)' --visit main.c",
    ),
    (
        ".gdbinit",
        "gdb",
        "echo 'set auto-load safe-path /' > ~/.gdbinit",
        "echo 'shell @' > .gdbinit",
        "gdb -batch -ex quit",
    ),
    (".perldb", "perl", ":", "echo 'system(q(@));' > .perldb; chmod 600 .perldb", "perl -d -e 0"),
    (
        ".pdbrc",
        "python3",
        "echo 1 > main.py",
        "echo 'import os; os.system(\"@\")' > .pdbrc",
        "python3 -m pdb -c continue main.py",
    ),
    (".irbrc", "irb", ":", "echo 'system(%q(@))' > .irbrc", "echo exit | irb"),
    ("_irbrc", "irb", ":", "echo 'system(%q(@))' > _irbrc", "echo exit | irb"),
    ("irb.rc", "irb", ":", "echo 'system(%q(@))' > irb.rc", "echo exit | irb"),
    (
        ".config/irb/irbrc",
        "irb",
        ":",
        "mkdir -p .config/irb; echo 'system(%q(@))' > .config/irb/irbrc",
        "echo exit | irb",
    ),
    (
        ".pdm.toml",
        "pdm",
        "printf '[project]\nname = \"a\"\nversion = \"1\"\nrequires-python = \">=3.8\"\n' > pyproject.toml",
        "mkdir -p evil/bin; printf '#!/bin/sh\n@\n' > evil/bin/python; chmod +x evil/bin/python; \
         printf '[python]\npath = \"%s\"\n' $PWD/evil/bin/python > .pdm.toml",
        "pdm info",
    ),
    (
        ".jedi",
        "python3",
        "echo 'import json' > main.py",
        "mkdir -p evil/bin .jedi; printf '#!/bin/sh\n@\n' > evil/bin/python; chmod +x evil/bin/python; \
         echo '[1, {\"path\": \".\", \"environment_path\": \"evil/bin/python\"}]' > .jedi/project.json",
        "python3 -c 'import jedi; jedi.Script(path=\"main.py\").complete(1, 11)'",
    ),
    (
        ".latexmkrc",
        "latexmk",
        "echo '\\documentclass{article}' > a.tex",
        "echo 'system(q(@));' > .latexmkrc",
        "latexmk -pdf a.tex",
    ),
    (
        ".ctags.d",
        "ctags-universal",
        "touch main.c",
        "mkdir .ctags.d; echo '-f FILE' > .ctags.d/x.ctags",
        "ctags-universal main.c",
    ),
    (
        "ctags.d",
        "ctags-universal",
        "touch main.c",
        "mkdir ctags.d; echo '-f FILE' > ctags.d/x.ctags",
        "ctags-universal main.c",
    ),
    (
        "gtags.conf",
        "gtags",
        "echo 'int f() { return 1; }' > main.c; command -v cc",
        gtags_settings!("gtags.conf"),
        "gtags",
    ),
    (
        "gtags.conf of a directory for objects",
        "gtags",
        "mkdir obj; echo 'int f() { return 1; }' > main.c; command -v cc",
        gtags_settings!("obj/gtags.conf"),
        "gtags",
    ),
    (
        ".ropeproject",
        "python3",
        ":",
        "mkdir .ropeproject; echo 'import os; os.system(\"@\")' > .ropeproject/config.py",
        "python3 -c 'import rope.base.project as rope; rope.Project(\".\")'",
    ),
    (
        ".jupytext.py",
        "python3",
        "echo '{}' > a.ipynb",
        "echo 'import os; os.system(\"@\")' > .jupytext.py",
        "d=$PWD; cd /; python3 -c \"import jupytext.config as it; it.load_jupytext_config('$d/a.ipynb')\"",
    ),
    (
        ".ctags",
        "ctags-exuberant",
        "touch main.c",
        "echo '-f FILE' > .ctags",
        "ctags-exuberant main.c",
    ),
    (".Rprofile", "R", ":", "echo 'system(\"@\")' > .Rprofile", "R --no-save -e 0"),
    (
        ".Renviron",
        "R",
        "echo 'if (nzchar(Sys.getenv(\"X\"))) system(Sys.getenv(\"X\"))' > ~/.Rprofile",
        "echo 'X=\"@\"' > .Renviron",
        "R --no-save -e 0",
    ),
    (".octaverc", "octave-cli", ":", "echo 'system(\"@\");' > .octaverc", "octave-cli --eval 0"),
    (".calcinit", "calc", ":", "echo 'system(\"@\");' > .calcinit", "calc 1"),
    (".gambini", "gsi", ":", "echo '(shell-command \"@\")' > .gambini", "gsi -e 1"),
    (
        "maxima-init.lisp",
        "maxima",
        ":",
        "echo '(si:system \"@\")' > maxima-init.lisp",
        "echo 'quit();' | maxima",
    ),
    (
        "maxima-init.mac",
        "maxima",
        ":",
        "echo 'system(\"@\")$' > maxima-init.mac",
        "echo 'quit();' | maxima",
    ),
    (
        ".nexrc",
        "nvi",
        "echo set exrc > ~/.nexrc",
        "echo '!@' > .nexrc",
        "TERM=xterm timeout 3 script -qc nvi /dev/null < /dev/null",
    ),
    (
        ".vilerc",
        "vile",
        ":",
        "echo 'shell-command \"@\"' > .vilerc",
        "TERM=xterm timeout 3 script -qc vile /dev/null < /dev/null",
    ),
    (
        ".gutctags, as Gutentags has it read",
        "ctags",
        "echo 'int x;' > a.c",
        "echo -fFILE > .gutctags",
        "[ ! -e .gutctags ] || ctags --options=.gutctags a.c",
    ),
    (
        ".ledgerrc",
        "ledger",
        "printf '2020/01/01 x\n a  1\n b\n' > journal",
        "printf '#!/bin/sh\n@\n' > evil; chmod +x evil; printf -- '--pager %s/evil\n--force-pager\n' $PWD > .ledgerrc",
        "ledger -f journal balance",
    ),
    (".valgrindrc", "valgrind", ":", "echo --log-file=FILE > .valgrindrc", "valgrind true"),
    (
        "CVS/Root",
        "cvs",
        "mkdir CVS; echo :local:/x > CVS/Root; echo x > CVS/Repository; echo D > CVS/Entries",
        "printf '#!/bin/sh\n@\n' > evil; chmod +x evil; echo \":ext;CVS_RSH=$PWD/evil:h:/x\" > CVS/Root",
        "cvs status",
    ),
    (
        ".conanrc",
        "conan",
        ":",
        "mkdir -p evil/extensions/commands; echo 'import os; os.system(\"@\")' > evil/extensions/commands/cmd_x.py; \
         echo conan_home=./evil > .conanrc",
        "conan version",
    ),
    (
        "yt-dlp.conf",
        "yt-dlp",
        "echo x > v.mp4; echo \"{\\\"id\\\":\\\"a\\\",\\\"title\\\":\\\"t\\\",\\\"extractor\\\":\\\"generic\\\",\
         \\\"extractor_key\\\":\\\"Generic\\\",\\\"ext\\\":\\\"mp4\\\",\\\"webpage_url\\\":\\\"x\\\",\
         \\\"url\\\":\\\"file://$PWD/v.mp4\\\"}\" > i.json",
        "echo '--exec before_dl:\"@\"' > yt-dlp.conf",
        "yt-dlp --enable-file-urls --load-info-json i.json",
    ),
    (
        "what .bazelrc imports",
        "bazel",
        "touch WORKSPACE; echo 'try-import %workspace%/user.bazelrc' > .bazelrc",
        "mkdir -p evil/bin; printf '#!/bin/sh\n@\nexit 1\n' > evil/bin/java; chmod +x evil/bin/java; \
         echo startup --server_javabase=$PWD/evil > user.bazelrc",
        "timeout 60 bazel info",
    ),
    (
        "ccache.conf in the cache",
        "ccache",
        "echo 'int x;' > a.c",
        "printf '#!/bin/sh\n@\n' > evil; chmod +x evil; mkdir -p ~/.cache/ccache; \
         echo prefix_command = $PWD/evil > ~/.cache/ccache/ccache.conf",
        "CCACHE_DIR=~/.cache/ccache ccache cc -c a.c",
    ),
    (
        ".mvn/jvm.config",
        "mvn",
        ":",
        "mkdir .mvn; echo '-Xlog:gc*:file=FILE' > .mvn/jvm.config",
        "mvn --version",
    ),
    (
        ".npmrc",
        "npm",
        "echo '{\"scripts\":{\"test\":\"true\"}}' > package.json",
        "printf '#!/bin/sh\\n@\\n' > evil; chmod +x evil; echo script-shell=./evil > .npmrc",
        "npm test",
    ),
    (
        ".pnpmfile.cjs",
        "pnpm",
        "echo '{}' > package.json",
        "echo 'require(\"child_process\").execSync(\"@\")' > .pnpmfile.cjs",
        "pnpm install --offline",
    ),
    (
        ".yarnrc",
        "yarn",
        ":",
        "echo 'require(\"child_process\").execSync(\"@\")' > evil.js; echo 'yarn-path \"./evil.js\"' > .yarnrc",
        "yarn --version",
    ),
    (
        ".yarnrc.yml",
        "yarn",
        ":",
        "echo 'require(\"child_process\").execSync(\"@\")' > evil.js; echo 'yarnPath: ./evil.js' > .yarnrc.yml",
        "yarn --version",
    ),
    (
        ".yarn/releases",
        "yarn",
        "mkdir -p .yarn/releases; echo 'yarnPath: .yarn/releases/yarn.js' > .yarnrc.yml",
        "echo 'require(\"child_process\").execSync(\"@\")' > .yarn/releases/yarn.js",
        "yarn --version",
    ),
    (
        ".corepack.env",
        "corepack",
        "echo '{\"packageManager\": \"yarn@4.1.0\"}' > package.json",
        "d=evil/v1/yarn/4.1.0; mkdir -p $d; echo 'require(\"child_process\").execSync(\"@\")' > $d/yarn.js; \
         echo '{\"locator\":{\"name\":\"yarn\",\"reference\":\"4.1.0\"},\"bin\":{\"yarn\":\"yarn.js\"},\"hash\":\"sha1.0\"}' \
         > $d/.corepack; echo COREPACK_HOME=$PWD/evil > .corepack.env",
        "corepack yarn --version",
    ),
    (
        ".bundle/config",
        "bundle",
        "echo 'gem \"evil\"' > Gemfile",
        "d=evil/ruby/$(ruby -e 'print Gem.ruby_api_version'); mkdir -p .bundle $d/specifications $d/gems/evil-1/lib; \
         echo 'BUNDLE_PATH: evil' > .bundle/config; echo 'system(%q(@)); Gem::Specification.new { |s| s.name = %q(evil); \
         s.version = %q(1); s.summary = %q(x); s.authors = [%q(x)] }' > $d/specifications/evil-1.gemspec",
        "bundle list",
    ),
    (
        ".bundle/plugin",
        "bundle",
        "touch Gemfile",
        "mkdir -p .bundle/plugin evil; echo 'system(%q(@))' > evil/plugins.rb; printf -- '---\\ncommands:\\nhooks:\\n  \
         before-install-all:\\n  - evil\\nload_paths:\\n  evil:\\n  - %s\\nplugin_paths:\\n  evil: %s\\nsources:\\n' \
         \"$PWD/evil\" \"$PWD/evil\" > .bundle/plugin/index",
        "bundle install --local",
    ),
    (
        ".cargo/config.toml",
        "cargo",
        "mkdir src; printf '[package]\\nname = \"a\"\\nedition = \"2021\"\\n' > Cargo.toml; echo 'fn main() {}' > src/main.rs",
        "printf '#!/bin/sh\\n@\\n' > evil; chmod +x evil; mkdir .cargo; printf '[build]\\nrustc = \"./evil\"\\n' > .cargo/config.toml",
        "cargo metadata --offline --format-version 1 --filter-platform x86_64-unknown-linux-gnu; cargo check --offline",
    ),
    (
        "rust-toolchain.toml",
        "rustup",
        ":",
        "mkdir -p evil/bin evil/lib; printf '#!/bin/sh\\n@\\n' > evil/bin/rustc; chmod +x evil/bin/rustc; \
         printf '[toolchain]\\npath = \"%s\"\\n' \"$PWD/evil\" > rust-toolchain.toml",
        "rustc --version",
    ),
    // In a home that a policy lets be written.
    ("~/.bashrc", "bash", ":", "echo '@' > ~/.bashrc", "bash -ic :"),
    ("~/.bash_profile", "bash", ":", "echo '@' > ~/.bash_profile", "bash -lc :"),
    ("~/.profile", "sh", ":", "echo '@' > ~/.profile", "sh -lc :"),
    ("~/.zshenv", "zsh", ":", "echo '@' > ~/.zshenv", "zsh -c :"),
    ("~/.zshrc", "zsh", ":", "echo '@' > ~/.zshrc", "zsh -ic :"),
    (
        "~/.config/fish",
        "fish",
        ":",
        "mkdir -p ~/.config/fish; echo '@' > ~/.config/fish/config.fish",
        "fish -c true",
    ),
    (
        "~/.tmux.conf",
        "tmux",
        ":",
        "echo 'set -g default-command \"@\"' > ~/.tmux.conf",
        "export TMUX_TMPDIR=$HOME SHELL=/bin/sh; tmux new-session -d \\; send-keys exit Enter; \
         while tmux has-session; do sleep 0.05; done",
    ),
    (
        "~/.screenrc",
        "screen",
        "mkdir -m 700 ~/screens",
        "echo 'screen sh -c \"@\"' > ~/.screenrc",
        "SCREENDIR=$HOME/screens screen -D -m true",
    ),
    (
        "~/.ssh/config",
        "ssh",
        "mkdir -m 700 ~/.ssh",
        "echo 'Match exec \"@\"' > ~/.ssh/config",
        "ssh -F ~/.ssh/config -G h",
    ),
    (
        "~/.gnupg/gpg.conf",
        "gpg",
        "mkdir -m 700 ~/.gnupg",
        "echo 'log-file FILE' > ~/.gnupg/gpg.conf",
        "gpg --batch --list-keys",
    ),
    (
        "~/.config/pip/pip.conf",
        "pip3",
        ":",
        "mkdir -p ~/.config/pip; printf '[global]\nlog = FILE\n' > ~/.config/pip/pip.conf",
        "pip3 list",
    ),
    (
        "site-packages/x.pth",
        "python3",
        ":",
        "d=$(python3 -c 'import site; print(site.getusersitepackages())'); mkdir -p ~ $d; \
         echo 'import os; os.system(\"@\")' > $d/x.pth",
        "python3 -c 0",
    ),
    (
        "usercustomize.py",
        "python3",
        ":",
        "d=$(python3 -c 'import site; print(site.getusersitepackages())'); mkdir -p ~ $d; \
         echo 'import os; os.system(\"@\")' > $d/usercustomize.py",
        "python3 -c 0",
    ),
    (
        "usercustomize as a package",
        "python3",
        ":",
        "d=$(python3 -c 'import site; print(site.getusersitepackages())')/usercustomize; mkdir -p ~ $d; \
         echo 'import os; os.system(\"@\")' > $d/__init__.py",
        "python3 -c 0",
    ),
    (
        "~/.gitconfig",
        "git",
        "git init -q",
        "printf '[core]\\nfsmonitor = @;false\\n' > ~/.gitconfig",
        "git status",
    ),
    (
        "~/.config/git",
        "git",
        "git init -q",
        "mkdir -p ~/.config/git; printf '[core]\\nfsmonitor = @;false\\n' > ~/.config/git/config",
        "git status",
    ),
    (
        "~/.npmrc",
        "npm",
        "echo '{\"scripts\":{\"test\":\"true\"}}' > package.json",
        "printf '#!/bin/sh\\n@\\n' > evil; chmod +x evil; echo script-shell=./evil > ~/.npmrc",
        "npm test",
    ),
];

/// A host where the programs of the caller's toolchain, and those that CI fetched, are found.
fn host(user: User) -> Sandbox {
    let home = std::env::var("HOME").unwrap_or_default();
    let get = |name: &str, dir: &str| std::env::var(name).unwrap_or(format!("{home}/{dir}"));
    let fetched = std::env::var("LANDSTRIP_FETCHED").unwrap_or_default();
    let path = format!(
        "{}/bin:/usr/local/bin:/usr/bin:/bin:{fetched}/node_modules/.bin",
        get("CARGO_HOME", ".cargo")
    );
    let sandbox = Sandbox::of(user).env("PATH", path);
    let sandbox = sandbox.env("npm_config_update_notifier", "false");
    sandbox.env("RUSTUP_HOME", get("RUSTUP_HOME", ".rustup")).timeout(Duration::from_secs(180))
}

#[test]
fn nothing_is_planted_that_tools_run_outside_by_themselves() {
    for_each_user(|user| {
        for (what, program, before, plant, run) in PLANTED {
            // Plants by `preset`, or outside, and says whether it was run.
            let is_run_after = |preset: Option<&str>| {
                let sandbox = host(user);
                let file = sandbox.name("outside/ran");
                let plant = plant.replace('@', "touch FILE").replace("FILE", &file);
                sandbox.sh_outside(before);
                match preset {
                    None => sandbox.sh_outside(&plant),
                    Some(preset) => {
                        let home = if plant.contains('~') { "[\"~\"]" } else { "[]" };
                        let policy =
                            format!("extends: [{preset}]\nfilesystem:\n  allowWrite: {home}\n");
                        let policy = sandbox.file("p.yaml", policy);
                        sandbox.landstrip([
                            "-p",
                            policy.to_str().unwrap(),
                            "--",
                            "sh",
                            "-c",
                            &plant,
                        ])
                    }
                };
                sandbox.sh_outside(run);
                sandbox.path("outside/ran").exists()
            };
            let is_installed =
                host(user).sh_outside(&format!("command -v {program}")).status == Some(0);
            if !is_installed || !is_run_after(None) {
                let why = if is_installed { "does not obey it here" } else { "is not installed" };
                skipped(&format!("{what}: {program} {why}"));
                continue;
            }
            assert!(!is_run_after(Some("agent")), "{ESCAPED}{what}");
            assert!(is_run_after(Some("build")), "{what}");
        }
    });
}
