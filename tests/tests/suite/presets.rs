//! The policies that come with landstrip: what each lets through, and what it protects.

use tests::{Outcome, Sandbox, User, for_each_user};

pub(super) fn under(sandbox: &Sandbox, preset: &str, script: &str) -> Outcome {
    sandbox.landstrip(["-p", preset, "sh", "-c", script])
}

/// A host as an agent finds it: a repository, a home with keys and settings, a token in the environment.
pub(super) fn host(user: User) -> Sandbox {
    let sandbox = Sandbox::of(user).env("GH_TOKEN", "Secret").env("KEPT", "kept");
    let sandbox = sandbox.timeout(std::time::Duration::from_secs(120));
    for dir in ["home/.ssh", "home/.config", "home/.config/gh"] {
        sandbox.dir(dir);
    }
    for key in ["home/.ssh/id_rsa", "home/.netrc", "home/.config/gh/hosts.yml"] {
        sandbox.file(key, "Secret");
    }
    // What git begins in the background would change what tests copy meanwhile.
    let settings = "[user]\n\tname = n\n\temail = n@example.com\n[maintenance]\n\tauto = false\n[gc]\n\tauto = 0\n";
    sandbox.file("home/.gitconfig", settings);
    sandbox.file("work/main.c", "int main(void) { return 0; }\n");
    sandbox.sh_outside("git init -q . && git add . && git commit -qm first").succeeds();
    sandbox
}

#[test]
fn an_agent_works_in_its_repository() {
    for_each_user(|user| {
        let sandbox = host(user);
        let work = "echo 'int other;' > other.c && mkdir -p src/deep && mv other.c src/deep \
                    && git add . && git commit -qm second && git checkout -q -b branch \
                    && git stash list && rm main.c && git checkout main.c && git log --oneline \
                    && mkdir .github node_modules && echo $KEPT";
        let outcome = under(&sandbox, "agent", work);
        outcome.succeeds();
        assert!(outcome.stdout.contains("second") && outcome.stdout.ends_with("kept\n"));
        sandbox.sh_outside("git status --porcelain && test -f src/deep/other.c").succeeds();
    });
}

#[test]
fn an_agent_leaves_nothing_that_the_user_would_run() {
    for_each_user(|user| {
        let sandbox = host(user);
        for attack in [
            "echo evil > .git/hooks/pre-commit",
            "git config core.pager evil",
            "git config core.hooksPath /tmp",
            "mkdir -p ../evil || mkdir evil; echo ../evil > .git/commondir",
            "mv .git .other",
            "rm -rf .git/hooks && ln -s ../evil .git/hooks",
            "mv .git/hooks .git/other",
            "ln main.c .git/hooks/post-checkout",
            "mkdir .vscode",
            "echo evil > .mcp.json",
            "echo evil > new && mv new .envrc",
            "ln -s main.c .npmrc",
            "ln main.c .gdbinit",
            "mkdir .claude",
            "mkdir d && mv d .idea",
            "mkdir -p .cargo && echo evil > .cargo/config.toml",
            "echo evil > .cargo",
            "echo evil >> ~/.bashrc",
            "echo evil > ~/.gitconfig",
            "mkdir -p ~/.config/autostart",
            "mkdir -p ~/bin",
        ] {
            let before =
                sandbox.sh_outside("ls -lAR --full-time .git/hooks .git/config; cat .git/config");
            under(&sandbox, "agent", attack).fails();
            let after =
                sandbox.sh_outside("ls -lAR --full-time .git/hooks .git/config; cat .git/config");
            assert_eq!(before.stdout, after.stdout, "{attack}");
            for made in [".vscode", ".mcp.json", ".envrc", ".npmrc", ".gdbinit", ".claude", ".idea"]
            {
                let made = sandbox.path("work").join(made);
                assert!(made.symlink_metadata().is_err(), "{attack}: {}", made.display());
            }
            assert!(sandbox.path("work/.git/commondir").symlink_metadata().is_err(), "{attack}");
            sandbox.sh_outside("rm -rf evil d new; git checkout -q .");
        }
        // The same things are possible without the preset.
        let outside = "mkdir .vscode && echo x > .mcp.json && git config core.pager less";
        sandbox.sh_outside(outside).succeeds();
    });
}

/// What stands in the preset below `key`, up to `end`.
fn listed(key: &str, end: &str) -> Vec<&'static str> {
    let text = include_str!("../../../broker/presets/agent.yaml");
    let from = text.split_once(key).expect("the key").1;
    let lines = from.split_once(end).expect("the next key").0.lines();
    lines.filter_map(|line| Some(line.strip_prefix("    - ")?.trim_matches('\''))).collect()
}

/// Each name of the list, where nothing is yet.
#[test]
fn what_tools_run_by_themselves_is_not_made() {
    let names =
        listed("denyWrite:\n", "  denyRead:").into_iter().filter(|name| !name.starts_with('~'));
    let plain = |name: &str| name.replace("**", "a").replace(['[', ']'], "").replace('*', "x");
    let names: Vec<String> = names.map(plain).collect();
    let script =
        "while read name; do mkdir -p \"${name%/*}\"; rmdir \"$name\"; echo x > \"$name\"; done";
    let script = format!("{script} 2> /dev/null <<'E'\n{}\nE\n", names.join("\n"));
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let made = || names.iter().filter(|name| sandbox.path("work").join(name).exists());
        under(&sandbox, "agent", &script);
        assert_eq!(made().collect::<Vec<_>>(), [""; 0], "ESCAPED");
        let others = "set -e; mkdir -p .github/workflows .yarn/cache .config/x tools src .direnv/python node_modules .lsp/.cache renv/library; \
                      for name in .lsp/.cache/x renv/library/x .github/workflows/ci.yml .yarn/cache/x .config/x/y tools/x .env Makefile package.json \
                      .direnv/python/x AGENTS.md src/.vimrc; do echo x > $name; done";
        under(&sandbox, "agent", others).succeeds();
        under(&sandbox, "build", &script);
        // Those above others are files.
        assert!(made().count() > names.len() / 2);
    });
}

#[test]
fn where_there_is_no_repository_an_agent_cannot_pretend_one() {
    let attacks = ["echo 'gitdir: evil' > .git", "mkdir .git", "ln -s evil .git", "mv evil .git"];
    for attack in attacks {
        let sandbox = Sandbox::new();
        sandbox.dir("work/evil");
        under(&sandbox, "agent", attack).fails();
        assert!(sandbox.path("work/.git").symlink_metadata().is_err(), "{attack}");
        under(&sandbox, "build", attack).succeeds();
    }
    // A work tree whose repository lies elsewhere.
    let sandbox = Sandbox::new();
    sandbox.file("work/.git", "gitdir: ../outside/repository");
    under(&sandbox, "agent", "echo 'gitdir: evil' > .git; rm -f .git; mv .git other").fails();
    assert_eq!(sandbox.read("work/.git"), "gitdir: ../outside/repository");
}

/// A repository with a submodule that is registered and not there: what stands in `.git/modules` is taken for it.
fn host_with_submodule(user: User) -> Sandbox {
    let sandbox = host(user);
    let make = "set -e; export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always
        git clone -q . ../outside/sub && git submodule --quiet add ../outside/sub lib/sub && git commit -qm sub
        git submodule --quiet deinit -f --all && git config submodule.lib/sub.active true
        git clone -q --bare ../outside/sub evil && mkdir -p evil/hooks
        printf '#!/bin/sh\ntouch %s\n' $PWD/../outside/ran > evil/hooks/post-checkout
        chmod +x evil/hooks/post-checkout && git -C evil config core.bare false
        git -C evil config core.worktree ../lib/sub && rm -rf .git/modules/lib";
    sandbox.sh_outside(make).succeeds();
    sandbox
}

const UPDATE: &str = "git -c protocol.file.allow=always submodule --quiet update --init; rm -rf lib/sub/* lib/sub/.git; \
                      git submodule --quiet deinit -f --all; rm -rf .git/modules/lib; test -e ../outside/ran";

#[test]
fn no_link_or_move_puts_a_repository_in_the_place_of_a_submodule() {
    for_each_user(|user| {
        let sandbox = host_with_submodule(user);
        let attacks = [
            "mkdir -p .git/modules/lib && ln -s ../../../evil .git/modules/lib/sub",
            "mkdir -p .git/modules && ln -s ../../lib .git/modules/lib && mv evil lib/sub",
            "ln -s ../../evil link; mkdir -p .git/modules/lib && mv link .git/modules/lib/sub",
            "ln -s ../../../evil link; mkdir -p .git/modules/lib && ln -P link .git/modules/lib/sub",
            "mkdir -p .git/modules/lib && mv evil .git/modules/lib/sub",
            "mkdir -p .git/modules/lib .git/modules/x && ln -s y .git/modules/x/y; mv .git/modules/x .git/m; \
             rm -f .git/m/y; ln -s $PWD/evil .git/m/sub; mv .git/m .git/modules/lib",
            "mkdir lib2 && ln -s ../../../evil lib2/sub && mkdir -p .git/modules/lib && mv lib2 .git/modules/lib",
        ];
        for attack in attacks {
            sandbox.sh_outside("rm -rf backup; cp -a evil backup");
            under(&sandbox, "agent", attack);
            sandbox.sh_outside(UPDATE).fails();
            sandbox.sh_outside("rm -rf evil link lib lib2 .git/m .git/modules; mv backup evil");
        }
        under(&sandbox, "build", attacks[0]).succeeds();
        sandbox.sh_outside(UPDATE).succeeds();
        // What git itself makes there.
        let work = "mkdir -p .git/modules/new/refs && echo x > .git/modules/new/index.lock \
                    && mv .git/modules/new/index.lock .git/modules/new/index && ln -s evil here";
        under(&sandbox, "agent", work).succeeds();
    });
}

#[test]
fn where_a_link_stands_in_place_of_a_repository_its_target_is_protected() {
    for_each_user(|user| {
        let sandbox = host(user);
        let make = "mkdir -p .git/modules/a .git/worktrees evil/hooks wt && ln -s ../../../evil .git/modules/a/b \
                    && ln -s ../../wt .git/worktrees/w && ln -s ../../new .git/modules/c";
        sandbox.sh_outside(make).succeeds();
        for attack in [
            "echo x > evil/hooks/post-checkout",
            "echo x > evil/config",
            "mv evil other",
            "echo x > wt/config.worktree",
            "mkdir new",
        ] {
            under(&sandbox, "agent", attack).fails();
            under(&sandbox, "build", attack).succeeds();
            sandbox.sh_outside(&format!(
                "rm -rf evil wt other new .git/modules .git/worktrees; {make}"
            ));
        }
        under(&sandbox, "agent", "touch evil/index wt/index evil/HEAD").succeeds();
    });
}

/// Each with what would run it outside; `@` stands for a command that leaves a mark.
const PLANTED: [(&str, &str, &str); 20] = [
    (
        "a work tree without commondir",
        "mkdir -p .git/worktrees/w && cd .git/worktrees/w && mkdir refs objects && echo 'ref: refs/heads/x' > HEAD \
         && printf '[core]\nfsmonitor = @;false\n' > config; echo /nowhere/.git > gitdir",
        "cd .git/worktrees/w && git --git-dir=. --work-tree=. status",
    ),
    (
        "a strategy of the sequencer",
        "git cherry-pick other~1 other; mkdir x git-merge-x; printf '#!/bin/sh\n@\n' > evil; chmod +x evil; \
         printf '[options]\nstrategy = x/../evil\n' > .git/sequencer/opts",
        "git cherry-pick --skip",
    ),
    (
        "an old name of a remote",
        "git init -q --bare there; printf '#!/bin/sh\n@\n' > there/hooks/post-update; chmod +x there/hooks/*; \
         mkdir -p .git/remotes; printf 'URL: ./there\nPush: HEAD:refs/heads/x\n' > .git/remotes/origin",
        "git push -q origin HEAD:refs/heads/y",
    ),
    (
        "an older name of a remote",
        "git init -q --bare there; printf '#!/bin/sh\n@\n' > there/hooks/post-update; chmod +x there/hooks/*; \
         mkdir -p .git/branches; echo ./there > .git/branches/origin",
        "git push -q origin HEAD:refs/heads/y",
    ),
    (
        "a directory of hooks in the tree",
        "printf '#!/bin/sh\n@\n' > hooks/post-checkout; chmod +x hooks/post-checkout",
        "git checkout -q other",
    ),
    (
        "a hook that is a link into the tree",
        "printf '#!/bin/sh\n@\n' > tools/commit; chmod +x tools/commit",
        "git -c core.hooksPath=.git/hooks commit -q --allow-empty -m x",
    ),
    ("settings that are included", "printf '[alias]\nx = !@\n' > settings", "git x"),
    ("settings that do not exist yet", "printf '[alias]\nx = !@\n' > later", "git x"),
    (
        "a file system monitor",
        "printf '#!/bin/sh\n@\n' > tools/monitor; chmod +x tools/monitor",
        "git status",
    ),
    ("a filter", "echo '@;cat' > tools/filter", "echo 4 > main.c; git add main.c"),
    ("a filter without a directory", "echo '@;cat' > bare", "echo 4 > other.e; git add other.e"),
    (
        "a repository by its address",
        "printf '#!/bin/sh\n@\n' > addressed/hooks/post-update; chmod +x addressed/hooks/*",
        "git push -q addressed HEAD:refs/heads/y",
    ),
    (
        "a repository that is pushed to by default",
        "printf '#!/bin/sh\n@\n' > usual/hooks/post-update; chmod +x usual/hooks/*",
        "git -c push.default=current push -q",
    ),
    ("what shows a difference", "echo '@;cat' > tools/differ", "echo 4 > main.c; git diff"),
    ("what pages a status", "echo '@;cat' > tools/page", "script -qec 'git status' /dev/null"),
    (
        "what is named by the top of the tree",
        "echo '@;cat' > tools/top",
        "echo 4 > other.d; git add other.d",
    ),
    (
        "hooks of a template",
        "mkdir -p template/hooks; printf '#!/bin/sh\n@\n' > template/hooks/post-checkout; \
         chmod +x template/hooks/post-checkout",
        "git clone -q . ../outside/clone; rm -rf ../outside/clone",
    ),
    (
        "a transport of its own",
        "echo '@' > tools/transport",
        "git -c protocol.ext.allow=always fetch -q far",
    ),
    (
        "a hook of a repository in the tree",
        "printf '#!/bin/sh\n@\n' > near/hooks/post-update; chmod +x near/hooks/post-update",
        "git push -q near HEAD:refs/heads/y",
    ),
    (
        "a helper for passwords",
        "echo '@' > tools/helper",
        "echo url=https://a.b | GIT_TERMINAL_PROMPT=0 git credential fill",
    ),
];

#[test]
fn nothing_is_planted_that_git_runs_outside() {
    for_each_user(|user| {
        let sandbox = host(user);
        let make = "set -e; mkdir -p hooks tools template/hooks; touch tools/commit settings; echo exit 1 > tools/monitor; chmod +x tools/*
            ln -s ../../tools/commit .git/hooks/commit-msg; ln -s $PWD/later later-link
            git config core.hooksPath hooks; git config include.path ../settings; git config --add include.path ../later
            git config core.fsmonitor './tools/monitor'; touch tools/differ tools/helper; echo cat > tools/filter
            echo '*.c filter=f diff=d' > .git/info/attributes; git config filter.f.clean 'sh ./tools/filter'
            printf '*.d filter=g\n' >> .git/info/attributes; git config filter.g.clean 'sh \"$(git rev-parse --show-toplevel)\"/tools/top'
            echo cat > tools/top; echo cat > tools/page; git config pager.status 'sh ./tools/page'
            printf '*.e filter=h\n' >> .git/info/attributes; git config filter.h.clean 'sh bare'; echo cat > bare
            git init -q --bare addressed; git remote add addressed file://$PWD/addressed
            git init -q --bare usual; git config remote.pushDefault ./usual
            git init -q --bare near; git remote add near ./near; git config remote.far.url 'ext::sh tools/transport'; touch tools/transport
            git config --global init.templateDir $PWD/template; git config diff.d.command 'sh tools/differ'; git config credential.helper '!f() { sh tools/helper; }; f'
            git checkout -q -b other; for n in 1 2; do echo $n > main.c; git commit -qam $n; done; git checkout -q -
            echo 3 > main.c; git commit -qam 3; rm -rf ../outside/kept; cp -a . ../outside/kept";
        sandbox.sh_outside(make).succeeds();
        let mark = format!("touch {}", sandbox.name("outside/ran"));
        let restore = "cd ..; rm -rf work/* work/.git outside/ran; cp -a outside/kept/. work";
        for (what, plant, run) in PLANTED {
            let plant = plant.replace('@', &mark);
            under(&sandbox, "agent", &plant);
            sandbox.sh_outside(run);
            assert!(!sandbox.path("outside/ran").exists(), "ESCAPED: {what}");
            sandbox.sh_outside(restore).succeeds();
            under(&sandbox, "build", &plant);
            let outside = sandbox.sh_outside(run);
            assert!(sandbox.path("outside/ran").exists(), "{what}: {outside:#?}");
            sandbox.sh_outside(restore).succeeds();
        }
    });
}

/// Editors and agents follow links in their directories.
#[test]
fn what_links_inside_protected_directories_lead_to_is_protected() {
    const MAKE: &str = "mkdir -p .vscode .claude/commands .github tools .yarn/releases conf skills/one src on
        ln -s ../on .github/hooks; ln -s ../conf/hook.sh on; ln -s ../conf/bazel tools/bazel; ln -s ../../conf/yarn.cjs .yarn/releases
        ln -s ../conf/tasks.json ../conf/later.json .vscode
        ln -s ../skills .claude; ln -s ../../src/prompt.md .claude/commands/x.md; ln -s .. .vscode/all; ln -s ../../elsewhere .vscode
        touch conf/tasks.json conf/other skills/one/SKILL.md src/prompt.md src/main.c";
    const PROTECTED: [&str; 9] = [
        "conf/tasks.json",
        "conf/later.json",
        "conf/bazel",
        "conf/yarn.cjs",
        "on/x.json",
        "conf/hook.sh",
        "skills/one/SKILL.md",
        "skills/new",
        "src/prompt.md",
    ];
    for_each_user(|user| {
        let sandbox = host(user);
        sandbox.sh_outside(MAKE).succeeds();
        let is_written = |path: &str| {
            std::fs::read(sandbox.path("work").join(path)).is_ok_and(|text| text.starts_with(b"x"))
        };
        let write = |path: &str| format!("echo x > {path}");
        for path in PROTECTED {
            under(&sandbox, "agent", &write(path));
            assert!(!is_written(path), "ESCAPED: {path}");
            let refused = under(
                &sandbox,
                "agent",
                &format!("rm -rf {path}; mv conf conf2; mv skills s; {}", write(path)),
            );
            assert!(!is_written(path), "ESCAPED: {path}: {refused:#?}");
        }
        for path in ["conf/other", "src/main.c", "new"] {
            under(&sandbox, "agent", &write(path)).succeeds();
            assert!(is_written(path), "{path}");
        }
        for path in PROTECTED {
            under(&sandbox, "build", &write(path)).succeeds();
            assert!(is_written(path), "{path}");
        }
    });
}

/// git writes through a link where one stands for its own files: each line of a start-up file could be an attack.
#[test]
fn no_link_leads_what_git_writes_out_of_the_repository() {
    let places = [
        "COMMIT_EDITMSG",
        "index",
        "packed-refs",
        "logs/HEAD",
        "worktrees/tree/COMMIT_EDITMSG",
        "worktrees/tree/logs/HEAD",
    ];
    let link = "mkdir -p $(dirname $1); rm -f $1; ln -s $2 $1";
    let later = "git branch -q 'y;evil'; git pack-refs --all; git add .; git commit -qm evil; git fetch -q . x; \
                 cd ../outside/tree && git commit -q --allow-empty -m evil";
    for_each_user(|user| {
        for place in places {
            for how in [
                link,
                "mkdir -p $(dirname $1); ln -s $2 link; mv -T link $1",
                "mkdir -p $(dirname $1); ln -s $2 .git/.link; rm -f $1; ln -P .git/.link $1",
                "mkdir d; ln -s $2 d/$(basename $1); rm -rf $(dirname $1); mv -T d $(dirname $1)",
            ] {
                if how != link && place != "logs/HEAD" {
                    continue;
                }
                let written_under = |preset: &str| {
                    let sandbox = host(user);
                    let make =
                        "git checkout -q -b x; git worktree add -q ../outside/tree; echo x > new";
                    sandbox.sh_outside(make).succeeds();
                    let target = sandbox.name("outside/new");
                    under(&sandbox, preset, &format!("set -- .git/{place} {target}; {how}"));
                    sandbox.sh_outside(later);
                    sandbox.path("outside/new").exists()
                };
                assert!(!written_under("agent"), "ESCAPED: {place}: {how}");
                assert!(written_under("build"), "{place}: {how}");
            }
        }
        let sandbox = host(user);
        let work = "set -e; git checkout -q -b y; echo x > new; git add .; git commit -qm y; git gc -q; git tag -a -m t t
            git reflog expire --all; echo x >> new; git stash -q; git stash pop -q; git commit -qam z; git fetch -q . y
            git worktree add -q tree; cd tree; git commit -q --allow-empty -m w; cd ..; git worktree remove tree; git gc -q
            git config --get user.name; git reset -q --hard HEAD~; git rebase -q HEAD~; ln -s main.c link; git add .";
        under(&sandbox, "agent", work).succeeds();
        sandbox.sh_outside("git fsck --strict && git status && test -h link").succeeds();
    });
}

/// What git writes or removes through a link less often, and the locks that become its settings.
#[test]
fn neither_links_nor_locks_of_settings_are_made_in_a_repository() {
    for_each_user(|user| {
        for (name, make) in [
            ("addp-hunk-edit.diff", "ln -s $2 $1"),
            ("lost-found/other/x", "ln -s $2 $1"),
            ("objects/info/commit-graph", "ln -s $2 $1"),
            ("objects/pack/multi-pack-index", "ln -s $2 link; mv -T link $1"),
            ("rebase-merge", "ln -s $2 $1"),
            ("refs/tags/d", "ln -s $2 $1"),
            ("shallow", "ln -s $2 link; ln -P link $1"),
            // There may be an object of such a name.
            ("objects/aa/x", "rm -rf $(dirname $1); mkdir d; ln -s $2 d/x; mv -T d $(dirname $1)"),
            ("config.lock", "echo x > $1"),
            ("config.worktree.lock", "mv $3 $1"),
            ("modules/sub/config.lock", "ln $3 $1"),
            ("../.gitmodules.lock", "echo x > $1"),
        ] {
            let is_made_under = |preset: &str| {
                let sandbox = host(user);
                sandbox.file("work/file", "");
                let target = sandbox.name("outside/new");
                let script =
                    format!("set -- .git/{name} {target} file; mkdir -p $(dirname $1); {make}");
                under(&sandbox, preset, &script);
                sandbox.path(format!("work/.git/{name}")).symlink_metadata().is_ok()
            };
            assert!(!is_made_under("agent"), "ESCAPED: {name}: {make}");
            assert!(is_made_under("build"), "{name}: {make}");
        }
    });
}

/// What leads to hooks, and settings beside which there are many that are missing.
#[test]
fn hooks_are_protected_however_settings_lead_to_them() {
    const HOOK: &str =
        "rm -f $1; mkdir -p $(dirname $1); printf '#!/bin/sh\nexit 0\n' > $1; chmod +x $1";
    for_each_user(|user| {
        for (make, plant) in [
            (
                "mkdir scripts; ln -s scripts .githooks; git config core.hooksPath .githooks",
                "rm .githooks",
            ),
            (
                "mkdir -p config/hooks; ln -s config conf; git config core.hooksPath conf/hooks",
                "rm conf",
            ),
            (
                "git config --global core.hooksPath .githooks; git commit -q --allow-empty -m x
                 for n in $(seq 90); do git worktree add -q ../outside/tree$n; done",
                "true",
            ),
        ] {
            let is_planted_under = |preset: &str| {
                let sandbox = host(user);
                sandbox.sh_outside(make).succeeds();
                let path = sandbox.sh_outside("git config core.hooksPath").stdout;
                let hook = format!("{}/pre-commit", path.trim());
                under(&sandbox, preset, &format!("set -- {hook}; {plant}; {HOOK}"));
                sandbox.path(format!("work/{hook}")).exists()
            };
            assert!(!is_planted_under("agent"), "ESCAPED: {make}");
            assert!(is_planted_under("build"), "{make}");
        }
        // More submodules than are looked for: then no directory becomes a repository.
        let link = "for n in $(seq 1100); do echo \"160000 $(git rev-parse HEAD) 0\ts$n\"; done | git update-index --index-info";
        for (make, is_made) in [("true", true), (link, false)] {
            let sandbox = host(user);
            sandbox.sh_outside(&format!("git commit -q --allow-empty -m x; {make}")).succeeds();
            under(
                &sandbox,
                "agent",
                "mkdir -p sub/dir; git init -q sub/dir; echo x > sub/dir/file",
            );
            assert_eq!(sandbox.path("work/sub/dir/.git/config").exists(), is_made, "{make}");
            assert_eq!(sandbox.read("work/sub/dir/file"), "x\n", "{make}");
        }
    });
}

/// What shells load because somebody enters a directory, beside the settings themselves.
#[test]
fn what_the_settings_of_a_directory_load_is_not_written() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.dir("work/env");
        sandbox.dir("work/tools");
        let envrc = "dotenv\nsource_env_if_exists .envrc.local\n. \"$PWD/env/more.sh\"\neval \"$(tools/env)\"\n\
                     python3 tools/script\nfor f in env/*.bash; do . $f; done\nwatch_file package.json\n\
                     NAMED=named D=env\nsource $NAMED; source \"${D}/inner\"\n. ~/../work/of-home\nuse vim\n\
                     export $(cat data | xargs)\nVERSION=$(cat version)\nexport RUBYOPT=-r./tools/hook JAVA_TOOL_OPTIONS=-javaagent:tools/x.jar\n\
                     CARGO_HOME=$PWD/cargo\npushd env; ./entered\nuse flake path:./nix\njust env\necho make\n\
                     while read l; do export \"$l\"; done <lines\ncat piped | bash\nsource \"$(expand_path expanded)\"\n\
                     [ -f later.env ] && export $(xargs < later.env)\n";
        let mise = "[[env]]\n_.source = \"{{config_root}}/mise.sh\"\n_.file = [\n  \".env.mise\",\n]\n[hooks.enter]\nscript = \"source hooked.sh\"\n[tasks.x]\nfile = \"tools/task\"\n";
        for (name, text) in [
            ("env/more.sh", ""),
            ("env/other.bash", ""),
            ("tools/script", ""),
            ("tools/env", "#!/bin/sh\n"),
            ("tools/task", "#!/bin/sh\n"),
            ("package.json", "{}"),
            ("data", ""),
            ("version", ""),
            ("tools/hook.rb", ""),
            ("tools/x.jar", ""),
            ("env/entered", "#!/bin/sh\n"),
            ("lines", ""),
            ("piped", ""),
            ("expanded", ""),
        ] {
            sandbox.file(format!("work/{name}"), text);
        }
        sandbox.sh_outside("chmod 755 tools/env tools/task; mkdir cargo nix").succeeds();
        let write = "all='.env .envrc.local env/more.sh env/other.bash tools/env tools/script mise.sh .env.mise named env/inner of-home .vimrc.local data \
                     tools/hook.rb tools/x.jar cargo/config.toml env/entered nix/flake.nix justfile lines piped expanded later.env hooked.sh'; \
                     for name in $all; do echo evil > $name; done; ln -sf evil .env; mv evil tools/env; rm -rf env; mkdir env; cat $all";
        let work = "echo evil > evil; echo '{ }' > package.json && echo x > tools/task && echo x > .env.other && echo x > env/other && echo x > version && echo x: > Makefile && echo x > cargo/env";
        for (is_loaded, preset) in [(true, "agent"), (true, "build"), (false, "agent")] {
            if is_loaded {
                sandbox.file("work/.envrc", envrc);
                sandbox.file("work/mise.toml", mise);
            }
            under(&sandbox, preset, work).succeeds();
            let is_written = under(&sandbox, preset, write).stdout.contains("evil");
            let is_safe = is_loaded && preset == "agent";
            assert!(!(is_safe && is_written), "ESCAPED: {preset}");
            assert_eq!(is_written, !is_safe, "{preset} {is_loaded}");
            let restore = "rm -rf .env .env.mise .envrc .envrc.local mise.sh mise.toml evil env/* tools/env named of-home .vimrc.local cargo/* nix/* justfile later.env hooked.sh; mkdir -p env; : > data; : > lines; : > piped; : > expanded; \
                           : > env/more.sh; : > env/other.bash; : > tools/script; : > tools/hook.rb; : > tools/x.jar; : > env/entered; printf '#!/bin/sh\\n' > tools/env; chmod 755 tools/env";
            sandbox.sh_outside(restore).succeeds();
        }
    });
}

/// git status at the top enters what the index names as a submodule, and runs what the settings there name.
#[test]
fn a_repository_that_git_enters_by_itself_is_named_at_the_end() {
    for_each_user(|user| {
        let make = "git init -q sub; git -C sub commit -q --allow-empty -m x; ";
        let link = "git update-index --add --cacheinfo 160000,$(git -C sub rev-parse HEAD),sub";
        let known = "git status outside obeys the settings of repositories that the index names";
        // All indexes together are as large as one may be, of which each is read: else a tree could make launches slow.
        let many = |length: usize| {
            let size = u32::try_from(length - 40).unwrap().to_be_bytes();
            let size: String = size.iter().map(|byte| format!("\\0{byte:o}")).collect();
            format!(
                "for n in sub other; do git init -q $n; git -C $n commit -q --allow-empty -m x; git update-index --add \
                 --cacheinfo 160000,$(git -C $n rev-parse HEAD),$n; rm -f $n/.git/index; \
                 printf %b 'DIRC\\0\\0\\0\\02\\0\\0\\0\\0TREE{size}' > $n/.git/index; truncate -s {length} $n/.git/index; done"
            )
        };
        for (script, said) in [
            (format!("{make}{link}"), known),
            (format!("{make}git update-index --index-version 4; {link}"), known),
            // Of its mode git looks at the last bits alone.
            (
                format!(
                    "{make}{link}; perl -0777 -pi -e 's/\\0\\0\\xe0\\0/\\0\\x01\\xe0\\0/' .git/index"
                ),
                known,
            ),
            (format!("{make}git update-index --split-index; {link}"), known),
            (format!("{make}{link}; git update-index --split-index; echo x > x; git add x"), known),
            (format!("{make}{link}; echo x > .git/index"), "cannot be read"),
            (many(200 << 20), "cannot be read"),
            (many(1000), known),
            // As git reads what leads to a repository, and to its settings: a blank is part of a name, a NUL ends it.
            (
                format!(
                    "{make}{link}; mkdir d .git/modules .git/modules/m; mv sub/.git 'd/m '; ln -s ../.git/modules/m d/m; \
                     echo 'gitdir: ../d/m ' > sub/.git"
                ),
                known,
            ),
            (format!("{make}{link}; mv sub/.git e; printf 'gitdir: ../e\\0x' > sub/.git"), known),
            (
                format!(
                    "{make}{link}; mv sub/.git e; mkdir .git/sl; cp e/HEAD .git/sl; echo ../../e > .git/sl/commondir; \
                     echo 'gitdir: ../.git/sl' > sub/.git"
                ),
                known,
            ),
            (format!("{make}echo x > new; git add new"), ""),
            ("git commit -q --allow-empty -m x; echo x > main.c; git add .".to_owned(), ""),
            ("rm .git/index".to_owned(), ""),
        ] {
            let sandbox = host(user);
            let outcome = under(&sandbox, "agent", &script);
            outcome.succeeds();
            let found = outcome.stderr.lines().find(|line| line.starts_with("landstrip: "));
            assert_eq!(found.is_some(), !said.is_empty(), "{script}: {outcome:#?}");
            assert!(found.is_none_or(|line| line.contains(said)), "{script}: {outcome:#?}");
            assert!(
                said != known || found.is_some_and(|line| line.contains("\"sub\"")),
                "{outcome:#?}"
            );
        }
        // One that the repository's own settings protect, as git makes it.
        let sandbox = host_with_submodule(user);
        sandbox
            .sh_outside("rm -rf evil; git -c protocol.file.allow=always submodule -q update --init")
            .succeeds();
        let outcome = under(&sandbox, "agent", "echo x > new && git add new");
        assert!(!outcome.succeeds().stderr.contains("landstrip: "), "{outcome:#?}");
        // In such a one, git enters others.
        let further = format!("cd lib/sub; {make}{link}");
        let outcome = under(&sandbox, "agent", &further);
        assert!(outcome.succeeds().stderr.contains("\"lib/sub/sub\""), "{outcome:#?}");
    });
}

/// `hg id` at the top asks each repository that .hgsub names, and runs what the settings there name.
#[test]
fn repositories_that_mercurial_enters_keep_their_settings() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let make = "mkdir -p .hg sub/.hg free/.hg; echo sub = ../x > .hgsub; echo in = in > sub/.hgsub; echo was > sub/.hg/hgrc";
        sandbox.sh_outside(make).succeeds();
        let attack = "for name in .hgsub sub/.hgsub; do echo x = x >> $name; done
            mkdir -p sub/in/.hg; for name in sub/.hg/hgrc sub/in/.hg/hgrc sub/.hg/sharedpath; do echo evil > $name; done
            mv sub old; mkdir -p sub/.hg; echo evil > sub/.hg/hgrc; echo evil > new; mv new sub/.hg/hgrc";
        let look = "grep -rl 'evil\\|x = x' .hgsub sub";
        let work = "echo x > sub/new && mkdir -p sub/.hg/store sub/in && echo x > sub/.hg/store/x && echo x > sub/in/x && echo evil > free/.hg/hgrc";
        under(&sandbox, "agent", attack);
        let found = sandbox.sh_outside(look);
        assert_eq!(found.stdout, "", "ESCAPED: {found:#?}");
        under(&sandbox, "agent", work).succeeds();
        under(&sandbox, "build", attack);
        let found = sandbox.sh_outside(look).stdout;
        assert!(found.contains(".hgsub") && found.contains("sub/.hg/hgrc"), "{found}");
    });
}

/// What containers are given lies in /run: a directory of the test's own, in the place of this host's.
#[test]
fn what_a_container_is_given_is_not_read() {
    for_each_user(|user| {
        let sandbox = host(user);
        let launcher = tests::programs().landstrip();
        let flags = if user.is_root() { "" } else { "-Ur" };
        let read = "cat /run/secrets/kubernetes.io/token /run/open";
        let script = format!(
            "exec unshare {flags} -m sh -c 'mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io && \
             echo Secret > /run/secrets/kubernetes.io/token && echo open > /run/open && echo mounted; \
             {0} -p agent -- sh -c \"{read}\"; echo; {0} -p build -- sh -c \"{read}\"'",
            launcher.display()
        );
        let outcome = sandbox.sh_outside(&script);
        let Some(found) = outcome.stdout.strip_prefix("mounted\n") else {
            return tests::skipped("no mounts of its own");
        };
        assert_eq!(found, "open\n\nSecret\nopen\n", "ESCAPED: {outcome:#?}");
    });
}

/// Each by what takes the place of its repository, or is it: git status at the top runs what the settings there name.
#[test]
fn submodules_that_are_there_at_launch_keep_the_repositories_that_they_have() {
    for_each_user(|user| {
        for (place, take) in [
            ("lib/sub", "git init -q lib/sub && git -C lib/sub commit -q --allow-empty -m x"),
            (
                "lib/sub",
                "mv lib l && mkdir -p lib && git init -q lib/sub && git -C lib/sub commit -q --allow-empty -m x",
            ),
            (
                "there",
                "rm there/.git && cp -r .git/modules/there there/.git && sed -i /worktree/d there/.git/config",
            ),
            ("there", "mv there x && git clone -q ../outside/sub there"),
            ("own", "true"),
            ("there/in", "true"),
        ] {
            let sandbox = host_with_submodule(user);
            let make = "set -e; rm -rf evil; git -c protocol.file.allow=always submodule -q add ../outside/sub there
                git init -q own; git -C own commit -q --allow-empty -m x; git add own 2> /dev/null; git commit -qm more
                git init -q there/in; git -C there/in commit -q --allow-empty -m x; git -C there add in 2> /dev/null";
            sandbox.sh_outside(make).succeeds();
            let mark = sandbox.name("outside/ran");
            let attack = format!(
                "{take} && printf '[core]\\nfsmonitor = \"touch {mark};false\"\\n' >> {place}/.git/config"
            );
            let work = "set -e; echo x > there/x; git -C there add x; git -C there commit -qm x; echo x > own/x; git -C own add x
                git -C own commit -qm x; git add there own; git commit -qm x; git checkout -q -b other HEAD~1; git status";
            for preset in ["agent", "build"] {
                let inside = under(&sandbox, preset, &attack);
                let outside = sandbox.sh_outside("git status");
                let has_run = sandbox.path("outside/ran").exists();
                assert!(!(preset == "agent" && has_run), "ESCAPED: {place} {take}: {inside:#?}");
                assert_eq!(has_run, preset == "build", "{place} {take}: {inside:#?} {outside:#?}");
                if preset == "agent" {
                    inside.fails();
                    let restore = "test ! -e l || { rm -rf lib; mv l lib; }; test ! -e x || { rm -rf there; mv x there; }; \
                                   rm -rf lib/sub; mkdir -p lib/sub";
                    sandbox.sh_outside(restore).succeeds();
                    under(&sandbox, "agent", work).succeeds();
                }
            }
        }
    });
}

/// Writes the index anew. By names of objects of 20 bytes its entry is another one, by the 32 that it has the same.
const OF_TWO_KINDS: &str = "
old = open('.git/index', 'rb').read()
entry = old[12:72] + b'\\0\\x0a' + b'other-name' + old[84:92]
open('.git/index', 'wb').write(old[:8] + b'\\0\\0\\0\\1' + entry + b'TREE\\0\\0\\0\\4' + b'x' * 24)
";
/// The same with `d` as a directory that is not told further (gitformat-index(5), Sparse directory entries).
const SPARSE: &str = "
import subprocess
tree = bytes.fromhex(subprocess.check_output(['git', 'rev-parse', 'HEAD:d'], text=True))
entry = bytes(26) + b'\\x40\\0' + bytes(12) + tree + b'\\x40\\2' + b'\\x40\\0' + b'd/' + bytes(6)
open('.git/index', 'wb').write(b'DIRC\\0\\0\\0\\3\\0\\0\\0\\1' + entry + b'sdir' + bytes(24))
";

/// The same with an entry of no submodule, and one in an extension that others name as where the entries begin.
const IN_BLOCKS: &str = "
import hashlib
old = open('.git/index', 'rb').read()
number = lambda value: value.to_bytes(4, 'big')
headers = b'ABCD' + number(72), b'IEOT' + number(12)
blocks = headers[0] + old[12:84] + headers[1] + number(1) + number(92) + number(1)
end = b'EOIE' + number(24) + number(84) + hashlib.sha1(b''.join(headers)).digest()
plain = old[12:36] + number(0o100644) + old[40:84]
open('.git/index', 'wb').write(old[:12] + plain + blocks + end + bytes(20))
";

#[test]
fn no_index_that_an_earlier_run_left_hides_a_submodule() {
    for_each_user(|user| {
        let cases = [
            ("sha256", "sub", OF_TWO_KINDS),
            ("sha1", "d/sub", SPARSE),
            ("sha1", "sub", IN_BLOCKS),
        ];
        for (format, sub, hide) in cases {
            let sandbox = host(user);
            sandbox.file("work/hide.py", hide);
            let make = format!(
                "set -e; rm -rf .git; git init -q --object-format={format} .; git init -q --object-format={format} {sub}
                 git -C {sub} commit -q --allow-empty -m x; git add {sub} 2> /dev/null; git commit -qm x
                 git config core.sparseCheckout true; echo '/*' > .git/info/sparse-checkout; git config index.threads 4"
            );
            sandbox.sh_outside(&make).succeeds();
            let mark = sandbox.name("outside/ran");
            let attack = format!(
                "printf '[core]\\nfsmonitor = \"touch {mark};false\"\\n' >> {sub}/.git/config"
            );
            under(&sandbox, "agent", &attack).fails();
            let hidden = under(&sandbox, "agent", "python3 hide.py");
            hidden.succeeds();
            for preset in ["agent", "build"] {
                let inside = under(&sandbox, preset, &attack);
                let outside = sandbox.sh_outside("git status");
                let has_run = sandbox.path("outside/ran").exists();
                assert_eq!(has_run, preset == "build", "{hide}: {inside:#?} {outside:#?}");
            }
        }
        // What a sparse index leaves out, and is not there, keeps nobody from anything.
        let sandbox = host(user);
        let make = "mkdir d e && touch d/f e/f && git add . && git commit -qm x && git sparse-checkout set --cone --sparse-index e";
        sandbox.sh_outside(make).succeeds();
        under(
            &sandbox,
            "agent",
            "git init -q e/new && echo x > e/x && git add e/x && git commit -qm y",
        )
        .succeeds();
    });
}

#[test]
fn everyday_work_with_git_goes_on() {
    for_each_user(|user| {
        let sandbox = host(user);
        let make = "set -e; mkdir .githooks; git config core.hooksPath .githooks; git clone -q --bare . ../outside/up
            git remote add up ../outside/up; git branch -q old; git worktree add -q ../outside/tree 2> /dev/null";
        sandbox.sh_outside(make).succeeds();
        let work = "set -e; git checkout -q -b topic; for n in 1 2 3 4; do echo $n > f$n; git add .; git commit -qm $n; done
            GIT_SEQUENCE_EDITOR='sed -i 2s/pick/squash/' GIT_EDITOR=true git rebase -q -i HEAD~2
            git checkout -q old; echo x > x; git add x; git commit -qm x; git cherry-pick topic~2 topic~1
            git cherry-pick -x topic; GIT_EDITOR=true git revert HEAD~1 HEAD; git revert --no-edit HEAD
            git checkout -q topic; git rebase -q old; git checkout -q -b side topic~2; echo other > f3; git add .
            git commit -qm conflict; git rebase topic || { echo both > f3; git add .; GIT_EDITOR=true git rebase --continue; }
            git checkout -q -b aside old; echo mine > f1; git add .; git commit -qm own; git cherry-pick side~1 side || \\
                { echo both > f1; git add .; GIT_EDITOR=true git cherry-pick --continue; } || git cherry-pick --abort
            git merge -q --no-edit old; echo y > x; git stash -q; git stash pop -q; git tag v1; git checkout -q x
            git fetch -q up; git gc -q; git bisect start; git bisect reset
            git format-patch -q -1 --stdout > p; git reset -q --hard HEAD~1; git am -q p; git log --oneline | wc -l";
        under(&sandbox, "agent", work).succeeds();
        sandbox.sh_outside("git fsck --strict && git log --oneline && git status").succeeds();
        let refused = under(&sandbox, "agent", "git cherry-pick -x old~1 old");
        refused.fails();
    });
}

#[test]
fn an_agent_reads_no_keys_and_gets_no_tokens() {
    for_each_user(|user| {
        let sandbox = host(user);
        let attack = "env; cat ~/.ssh/id_rsa ~/.netrc ~/.config/gh/hosts.yml; ls ~/.ssh; \
                      ln ~/.ssh/id_rsa here && cat here; cat /proc/[0-9]*/environ; cat ~/.gitconfig";
        let inside = under(&sandbox, "agent", attack);
        assert!(!inside.stdout.contains("Secret"), "{inside:#?}");
        assert!(!inside.stdout.contains("id_rsa"), "{inside:#?}");
        assert!(inside.stdout.contains("KEPT=kept") && inside.stdout.contains("[user]"));
        let open = under(&sandbox, "build", attack);
        assert!(open.stdout.contains("GH_TOKEN=Secret") && open.stdout.contains("id_rsa"));
    });
}

#[test]
fn no_place_of_secrets_is_read_wherever_variables_move_it() {
    for_each_user(|user| {
        let names =
            listed("denyRead:\n", "environment:").into_iter().filter(|name| name.starts_with("~/"));
        let names: Vec<String> = names.map(|name| format!("home/{}", &name[2..])).collect();
        let moved = [
            "x/gh",
            "x/git/credentials",
            "data/keyrings",
            "cargo/credentials.toml",
            "k/a",
            "k/b",
            "aws",
            "gpg/x",
        ];
        let moved = moved.map(|name| format!("outside/{name}"));
        let variables = [
            ("XDG_CONFIG_HOME", "x"),
            ("XDG_DATA_HOME", "data"),
            ("CARGO_HOME", "cargo"),
            ("AWS_SHARED_CREDENTIALS_FILE", "aws"),
            ("GNUPGHOME", "gpg"),
        ];
        let mut sandbox = Sandbox::of(user);
        for (name, place) in variables {
            let value = sandbox.name(format!("outside/{place}"));
            sandbox = sandbox.env(name, value);
        }
        let list = format!("{}:{}", sandbox.name("outside/k/a"), sandbox.name("outside/k/b"));
        let sandbox = sandbox.env("KUBECONFIG", list).env("HISTFILE", "/dev/null");
        let all: Vec<&String> = names.iter().chain(&moved).collect();
        let made = format!(
            "cd ..; while read name; do mkdir -p \"${{name%/*}}\"; echo \"Secret $name\" > \"$name\"; done <<'E'\n{}\nE\n",
            all.iter().map(|name| name.as_str()).collect::<Vec<_>>().join("\n")
        );
        sandbox.sh_outside(&made).succeeds();
        sandbox.file("home/.config/other", "open");
        sandbox.file("outside/cargo/config.toml", "open");
        let attack = "cat ~/.config/other ../outside/cargo/config.toml; echo; find .. -type f -exec grep -sh Secret {} + | sort";
        let inside = under(&sandbox, "agent", attack);
        assert!(inside.stdout.starts_with("openopen\n"), "{inside:#?}");
        assert!(!inside.stdout.contains("Secret"), "ESCAPED: {inside:#?}");
        let open = under(&sandbox, "build", attack);
        assert_eq!(
            open.stdout.lines().filter(|line| line.starts_with("Secret")).count(),
            all.len()
        );
    });
}

#[test]
fn no_variable_tells_a_secret_and_those_of_git_stay_together() {
    let sandbox = Sandbox::new()
        .env("DATABASE_URL", "postgres://u:Secret@h/d")
        .env("PLAIN_URL", "https://h:80/@x")
        .env("AWS_REGION", "here");
    let secrets = [
        "CREDS",
        "GHPAT",
        "SEED_PHRASE",
        "AWS_SESSION_TOKEN",
        "db_pass",
        "NPM_AUTH",
        "npm_config__authToken",
        "SENTRY_DSN",
        "X_CREDS",
        "X_APIKEY",
        "X_CRED",
        "X_PEM",
        "X_PSW",
        "X_PW",
        "SLACK_WEBHOOK",
        "gh_token",
    ];
    let mut sandbox = secrets.iter().fold(sandbox, |sandbox, name| sandbox.env(*name, "Secret"));
    for (name, value) in [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "user.name"),
        ("GIT_CONFIG_VALUE_0", "Secret"),
    ] {
        sandbox = sandbox.env(name, value);
    }
    let script = "env; git config user.name; git --version";
    let inside = under(&sandbox, "agent", script);
    inside.succeeds();
    assert!(!inside.stdout.contains("Secret"), "ESCAPED: {inside:#?}");
    assert!(
        inside.stdout.contains("PLAIN_URL=")
            && inside.stdout.contains("AWS_REGION=")
            && !inside.stdout.contains("GIT_CONFIG_COUNT"),
        "{inside:#?}"
    );
    let open = under(&sandbox, "build", script);
    assert_eq!(open.stdout.matches("Secret").count(), secrets.len() + 3, "{open:#?}");
    // A policy of one's own takes a part of git's away; a name that it allows as it is counts more than a glob.
    let own = "extends: agent\nenvironment: {allow: ['*', gh_token, DATABASE_URL]}";
    let own = sandbox.file("own.yaml", own);
    let named = under(&sandbox, own.to_str().unwrap(), "env");
    assert_eq!(named.stdout.matches("Secret").count(), 2, "{named:#?}");
    let part = sandbox.file("part.yaml", "environment: {deny: ['*_KEY_*']}");
    under(&sandbox, part.to_str().unwrap(), "git --version && ! env | grep GIT_CONFIG_").succeeds();
}

/// git gives up between the two where it cannot write that the new branch follows the other.
#[test]
fn a_remote_branch_is_switched_to_with_its_files_and_its_head() {
    for_each_user(|user| {
        let sandbox = host(user);
        let make = "set -e; git clone -q . ../outside/o; cd ../outside/o; git checkout -q -b side; echo 2 > new
            git add new; git commit -qm second; cd ../../work; git remote add origin ../outside/o; git fetch -q";
        sandbox.sh_outside(make).succeeds();
        for switch in ["git switch side", "git checkout side", "git checkout -b side origin/side"] {
            under(&sandbox, "agent", switch).succeeds();
            let look = "git symbolic-ref --short HEAD; git status --porcelain; cat new; git switch -q -; git branch -qD side";
            let found = sandbox.sh_outside(look);
            assert_eq!(found.succeeds().stdout, "side\n2\n", "{switch}: {found:#?}");
        }
    });
}

#[test]
fn each_preset_lets_through_what_it_says() {
    let sandbox = Sandbox::new();
    let listen = "python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); \
                  socket.create_connection(s.getsockname())'";
    for (preset, writes, caches, listens) in [
        ("read-only", false, false, false),
        ("offline-test", true, false, true),
        ("build", true, true, true),
        ("agent", true, true, true),
    ] {
        let works = |script: &str| under(&sandbox, preset, script).status == Some(0);
        assert!(works("cat /etc/passwd > /dev/null"), "{preset}");
        assert_eq!(works("touch made && rm made"), writes, "{preset}");
        assert_eq!(works("mkdir -p ~/.npm && touch ~/.npm/made"), caches, "{preset}");
        assert!(!works("touch ~/made"), "{preset}");
        assert_eq!(works(listen), listens, "{preset}");
    }
}

#[test]
fn a_policy_adds_to_the_preset_that_it_extends() {
    let sandbox = Sandbox::new();
    let policy = "extends: agent\nfilesystem:\n  allowWrite: [../outside]\n";
    let policy = sandbox.file("own.yaml", policy);
    let policy = policy.to_str().unwrap();
    under(&sandbox, policy, "touch made ../outside/made").succeeds();
    under(&sandbox, policy, "touch .mcp.json").fails();
    under(&sandbox, "agent", "touch ../outside/other").fails();
    let error = sandbox.landstrip(["-p", "agnet", "touch", "made2"]);
    error.is_error(125, "Internal", "no preset is called 'agnet': did you mean 'agent'?");
    assert!(!sandbox.path("work/made2").exists());
}

#[test]
fn a_directory_that_a_policy_adds_is_protected_even_if_it_is_missing() {
    for_each_user(|user| {
        let sandbox = host(user);
        let policy =
            "extends: agent\nfilesystem:\n  allowWrite: [~/there, ~/new, ~/deep/new, ~/file]\n";
        let policy = sandbox.file("own.yaml", policy);
        let policy = policy.to_str().unwrap();
        sandbox.dir("home/there");
        for place in ["there", "new", "deep/new"] {
            let script = format!(
                "mkdir -p ~/{place}/sub && cd ~/{place} && cp /bin/true tool && ./tool && echo x > sub/made && echo ran; \
                 mkdir .git; echo x > .git; echo x > .envrc; mkdir .vscode; echo y > ~/../work/y; mv ~/../work/y .mcp.json; \
                 ls -A"
            );
            let outcome = under(&sandbox, policy, &script);
            assert_eq!(outcome.stdout, "ran\nsub\ntool\n", "{place}");
        }
        let script = "echo x > ~/file && cat ~/file; ! touch ~/deep/other";
        assert_eq!(under(&sandbox, policy, script).succeeds().stdout, "x\n");
    });
}

/// A rule that adds nothing takes nothing away.
#[test]
fn a_missing_path_that_may_be_written_anyway_can_be_made_though_a_policy_names_it() {
    for_each_user(|user| {
        let sandbox = host(user);
        let policy = "extends: agent\nfilesystem:\n  allowWrite: [dist, build/out, ./notes.txt]\n";
        let policy = sandbox.file("own.yaml", policy);
        let policy = policy.to_str().unwrap();
        let script = "set -e; mkdir dist; mkdir build; echo x > build/other; mkdir build/out; echo x > notes.txt
            ! mkdir .vscode; ! touch dist/.git; ! mkdir build/out/.vscode";
        under(&sandbox, policy, script).succeeds();
        assert!(!sandbox.path("work/dist/.git").exists());
    });
}

#[test]
fn a_submodule_that_was_taken_out_of_the_index_stays_protected() {
    let sandbox = host(User::Caller);
    let make = "set -e; git init -q sub; git -C sub commit -q --allow-empty -m sub
        git submodule --quiet add ./sub sub; git commit -qm sub; cp sub/.git/config ../outside/kept";
    sandbox.sh_outside(make).succeeds();
    under(&sandbox, "agent", "git rm -q --cached sub && echo x > sub/file").succeeds();
    under(&sandbox, "agent", "echo x >> sub/.git/config").fails();
    sandbox.sh_outside("cmp sub/.git/config ../outside/kept && cat sub/file").succeeds();
}

#[test]
fn the_policy_that_init_writes_can_be_used_as_it_is() {
    for (file, host) in [
        ("Cargo.toml", Some("static.crates.io:443")),
        ("package.json", Some("registry.npmjs.org:443")),
        ("notes.txt", None),
    ] {
        let sandbox = Sandbox::new();
        sandbox.file(format!("work/{file}"), "");
        let written = sandbox.landstrip(["--init"]);
        written.succeeds();
        assert_eq!(written.stderr, "");
        assert!(host.is_none_or(|host| written.stdout.contains(host)), "{written:#?}");
        let policy = sandbox.file("init.yaml", &written.stdout);
        let policy = policy.to_str().unwrap();
        let check = sandbox.landstrip(["-p", policy, "--check"]);
        check.succeeds();
        assert!(!check.stdout.contains("warning"), "{check:#?}");
        under(&sandbox, policy, "touch made").succeeds();
        under(&sandbox, policy, "touch .mcp.json").fails();
    }
}

#[test]
fn an_extended_policy_cannot_be_written() {
    let sandbox = Sandbox::new();
    sandbox.file("work/base.yaml", "filesystem: {allowWrite: [.]}");
    let own = sandbox.file("work/own.yaml", "extends: ./base.yaml");
    let own = own.to_str().unwrap();
    for attack in
        ["echo >> base.yaml", "rm base.yaml", "mv base.yaml x", "echo x > y && mv y base.yaml"]
    {
        under(&sandbox, own, attack).fails();
        assert_eq!(sandbox.read("work/base.yaml"), "filesystem: {allowWrite: [.]}", "{attack}");
    }
    under(&sandbox, own, "touch other").succeeds();
}

/// Each extends the next one twice: without a limit of their number a launch would not end.
#[test]
fn policies_that_extend_without_number_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.dir("policies");
    for depth in 0..14 {
        let next = format!("./{}.yaml", depth + 1);
        let same = format!("./../policies/{}.yaml", depth + 1);
        sandbox.file(format!("policies/{depth}.yaml"), format!("extends: [{next}, {same}]"));
    }
    sandbox.file("policies/14.yaml", "filesystem: {allowWrite: .}");
    let run = |name: &str| sandbox.landstrip(["-p", &sandbox.name(name), "--", "true"]);
    run("policies/0.yaml").is_error(125, "Internal", "more than 64 policies");
    run("policies/12.yaml").succeeds();
}

#[test]
fn a_repository_that_is_a_loop_of_links_stays_one() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for (one, other) in [(".git", ".git"), (".git", ".other"), (".idea", ".other")] {
            sandbox.sh_outside(&format!("ln -s {other} {one}; ln -s {one} {other}"));
            let attack = format!("rm -f {one} {other}; mkdir {one} {other}; touch made{one}");
            under(&sandbox, "agent", &attack).succeeds();
            let is_link = |name| sandbox.path("work").join(name).is_symlink();
            assert!(is_link(one) && is_link(other), "{one} {other}");
            sandbox.sh_outside(&format!("rm {one} {other}"));
        }
        under(&sandbox, "agent", "touch made").succeeds();
    });
}

/// What each package manager makes first in a home without any: archives that it reads and tools that it runs.
#[test]
fn package_managers_fill_their_caches_from_an_empty_home() {
    const CACHES: [(&str, &str); 21] = [
        ("black", ".cache/black/24"),
        ("bun", ".bun/install/cache"),
        ("cargo", ".cargo/registry/index"),
        ("ccache", ".cache/ccache/tmp"),
        ("composer", ".cache/composer/files"),
        ("deno", ".cache/deno/npm"),
        ("go", "go/pkg/mod"),
        ("go build", ".cache/go-build/00"),
        ("gopls", ".cache/gopls/x"),
        ("gradle", ".gradle/caches/8"),
        ("maven", ".m2/repository/org"),
        ("next", ".config/nextjs-nodejs"),
        ("node-gyp", ".cache/node-gyp/20"),
        ("npm", ".npm/_cacache"),
        ("pip", ".cache/pip/http"),
        ("pnpm", ".local/share/pnpm/store/v3"),
        ("poetry", ".cache/pypoetry/virtualenvs"),
        ("uv", ".cache/uv/wheels"),
        ("virtualenv", ".cache/virtualenv/wheel"),
        ("virtualenv 20", ".local/share/virtualenv/wheel"),
        ("yarn", ".yarn/berry/cache"),
    ];
    for_each_user(|user| {
        for (index, (manager, cache)) in CACHES.into_iter().enumerate() {
            let preset = if index % 2 == usize::from(user.is_root()) { "agent" } else { "build" };
            let sandbox = Sandbox::of(user);
            let script = format!(
                "set -e; cd; mkdir -p {cache}; cd {cache}; printf '#!/bin/sh\necho ran\n' >tool; chmod +x tool; \
                 mkdir new; mv tool new/; ./new/tool; cat new/tool >/dev/null; ls; ! mkdir ~/other; ! ls ~/.ssh"
            );
            let outcome = under(&sandbox, preset, &script);
            assert_eq!(outcome.succeeds().stdout, "ran\nnew\n", "{manager} {preset}: {outcome:#?}");
            assert!(sandbox.path("home").join(cache).join("new/tool").exists(), "{manager}");
            assert!(!sandbox.path("home/other").exists(), "{manager}");
        }
    });
}

/// Another program made what the cache lies in, and a path in the cache is denied.
#[test]
fn a_cache_with_a_denied_path_is_filled_beside_others() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.dir("home/.cache");
        sandbox.dir("home/go");
        let script = "set -e; mkdir -p ~/.cache/ccache/tmp ~/go/pkg/mod/golang.org ~/go/pkg/mod/cache/download; \
                      touch ~/.cache/ccache/stats; ! touch ~/.cache/ccache/ccache.conf";
        under(&sandbox, "agent", script).succeeds();
        assert!(sandbox.path("home/.cache/ccache/stats").exists());
    });
}

/// With each of them notified, rg takes four times as long.
#[test]
fn reads_are_left_to_landlock_whatever_caches_there_are() {
    for_each_user(|user| {
        let sandbox = host(user);
        let extending =
            |key: &str, path: &str| format!("extends: [agent]\nfilesystem:\n  {key}: [{path}]\n");
        sandbox.file("outside/opens.yaml", extending("allowWriteInside", ".vscode"));
        sandbox.file("outside/glob.yaml", extending("denyWrite", "'**/*.lock'"));
        for made in [".", ".cache/pip", "go/pkg/mod/cache", ".npm"] {
            sandbox.sh_outside(&format!("mkdir -p ../home/{made}")).succeeds();
            for policy in ["agent", "build", "opens.yaml", "glob.yaml"] {
                let policy = if policy.contains('.') {
                    sandbox.name(format!("outside/{policy}"))
                } else {
                    policy.into()
                };
                let outcome = sandbox.landstrip(["-p", &policy, "--explain"]);
                assert!(outcome.stdout.contains("reads native"), "{policy}, {made}: {outcome:#?}");
            }
        }
    });
}

/// The programs of Go in its cache, which the next go(1) outside would run, and what it would unpack them from.
#[test]
fn a_cache_that_is_new_is_usable_and_what_is_denied_in_it_is_not_made() {
    for_each_user(|user| {
        let sandbox = host(user);
        let script = "m=~/go/pkg/mod; mkdir -p $m/cache $m/golang.org/x && echo 'module' > $m/golang.org/x/go.mod \
            && cat $m/golang.org/x/go.mod && printf '#!/bin/sh\necho runs' > $m/cache/run && chmod +x $m/cache/run \
            && $m/cache/run; mkdir $m/golang.org/toolchain@v1; mv $m/golang.org/x $m/golang.org/toolchain@v2; \
            d=$m/cache/download; mkdir -p $d/golang.org/x/text/@v && echo zip > $d/golang.org/x/text/@v/v1.zip \
            && mkdir -p $d/example.com/toolchain && cat $d/golang.org/x/text/@v/v1.zip; mkdir $d/golang.org/toolchain; \
            mv $d/golang.org/x $d/golang.org/toolchain; ln -s x $d/golang.org/toolchain; \
            mv $d/example.com/toolchain $d/golang.org/";
        let outcome = under(&sandbox, "agent", script);
        assert_eq!(outcome.stdout, "module\nruns\nzip\n", "{outcome:#?}");
        let found =
            sandbox.sh_outside("cd ../home/go/pkg/mod; ls golang.org cache/download/*").stdout;
        let expected = "cache/download/example.com:\ntoolchain\n\ncache/download/golang.org:\nx\n\ngolang.org:\nx\n";
        assert_eq!(found, expected, "{outcome:#?}");
    });
}

/// What leads there is denied by nothing but that it is not allowed.
#[test]
fn on_the_way_to_a_cache_nothing_but_directories_is_made() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        let script = "cd; ln -s . .config; echo x >.config; mkdir -p .config/nextjs-nodejs; \
            mkdir .config/fish; ln -s . .config/git; echo x >.config/other; echo x >.config/nextjs-nodejs/ok";
        under(&sandbox, "agent", script).succeeds();
        let settings = sandbox.path("home/.config");
        assert!(settings.is_dir() && !settings.is_symlink());
        let there: Vec<_> =
            settings.read_dir().unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(there, ["nextjs-nodejs"]);
        assert!(settings.join("nextjs-nodejs/ok").exists());
    });
}

/// Many keep their settings in a repository, and links to it in the home.
#[test]
fn settings_that_links_in_the_home_lead_to_are_not_written_in_the_repository_that_has_them() {
    const SETTINGS: [&str; 9] = [
        ".config/git",
        ".config/fish",
        ".config/systemd",
        ".config/tmux",
        ".config/zsh",
        ".config/autostart",
        ".config/environment.d",
        ".local/bin",
        ".local/share/applications",
    ];
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        for directory in ["home/.config", "home/.local", "home/.local/share"] {
            sandbox.dir(directory);
        }
        let name =
            |it: &'static str| std::path::Path::new(it).file_name().unwrap().to_str().unwrap();
        for it in SETTINGS {
            sandbox.dir(format!("work/{}", name(it)));
            std::os::unix::fs::symlink(
                sandbox.path(format!("work/{}", name(it))),
                sandbox.path(format!("home/{it}")),
            )
            .unwrap();
        }
        let script = "for d in */; do echo x >$d/made; done; echo x >made";
        under(&sandbox, "agent", script).succeeds();
        let made = |it: &str| sandbox.path(format!("work/{it}/made")).exists();
        for it in SETTINGS {
            assert!(!made(name(it)), "{it}");
        }
        assert!(made("."));
    });
}

#[test]
fn what_is_made_at_a_missing_cache_beside_keys_is_executed() {
    for_each_user(|user| {
        let sandbox = host(user);
        let script = "set -e; mkdir 1 2 3 4 5 6; mkdir -p ~/.npm/_npx/x ~/.cargo/registry/a; \
            for d in ~/.npm/_npx/x ~/.cargo/registry/a 6; do cp /bin/true $d/tool; $d/tool; done; \
            echo x > ~/.npm/_npx/x/tool2 && cat ~/.npm/_npx/x/tool2; ! cat ~/.ssh/id_rsa";
        assert_eq!(under(&sandbox, "agent", script).succeeds().stdout, "x\n");
    });
}
#[test]
fn what_is_made_at_a_missing_path_is_executed_whatever_else_is_missing() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user).allow_write("~/conf/d").deny_write("~/conf/d/key");
        let sandbox = sandbox.allow_write("~/tools").deny_read("~/.ssh");
        sandbox.dir("home/.ssh");
        sandbox.file("home/.ssh/id", "TOPSECRET");
        let script = "mkdir -p ~/tools/a && cp /bin/true ~/tools/a/tool && ~/tools/a/tool && echo ran; cat ~/.ssh/id";
        assert_eq!(sandbox.sh(script).stdout, "ran\n");
    });
}
