//! What is known to be done to the host of an agent, tried under the preset `agent`: something is left for the user
//! to run unknowingly, or a secret is taken. Whether it worked is told from outside, when the user does what the
//! attack waits for; the same attack works where the preset is not in force.

use tests::{Outcome, Sandbox, UnixPeer, User, for_each_user, programs, skipped};

const SECRET: &str = "open-sesame";

/// Wider than the preset, as users write it: the home may be written, and another work tree.
const AGENT: &str = "extends: agent\nfilesystem: {allowWrite: ['~', ../other]}";
/// The same without the preset.
const OPEN: &str = "filesystem: {allowWrite: [., '~', ../other]}";

/// A host as an agent finds it: repositories, a home with settings and keys, tokens in the environment.
fn host(user: User) -> Sandbox {
    let sandbox = Sandbox::of(user);
    let owned = sandbox.path("outside/owned");
    let sandbox =
        sandbox.env("OWNED", owned).env("GH_TOKEN", SECRET).env("AWS_SECRET_ACCESS_KEY", SECRET);
    for directory in [
        ".ssh",
        ".aws",
        ".config",
        ".config/gh",
        ".config/fish",
        ".config/systemd",
        ".docker",
        "bin",
    ] {
        sandbox.dir(format!("home/{directory}"));
    }
    for file in [
        ".ssh/id_rsa",
        ".aws/credentials",
        ".netrc",
        ".config/gh/hosts.yml",
        ".docker/config.json",
        ".bash_history",
    ] {
        sandbox.file(format!("home/{file}"), SECRET);
    }
    for file in [".bashrc", ".profile", ".zshenv", ".config/fish/config.fish"] {
        sandbox.file(format!("home/{file}"), "");
    }
    sandbox.file("home/.gitconfig", "[user]\n\tname = n\n\temail = n@example.com\n");
    sandbox.dir("other");
    sandbox.file("work/package.json", r#"{"scripts":{"go":"true"}}"#);
    let made = "git init -q . && git add . && git commit -qm first && git init -q ../other \
                && git worktree add -q ../home/tree && mkdir .husky";
    sandbox.sh_outside(made).succeeds();
    sandbox
}

fn under(sandbox: &Sandbox, policy: &str, script: &str) -> Outcome {
    let policy = sandbox.file("policy.yaml", policy);
    sandbox.landstrip(["-p", policy.to_str().unwrap(), "--", "sh", "-c", script])
}

/// Under the preset what the user does later runs nothing of the attack's; without it, it does.
#[track_caller]
fn leaves_nothing_to_run(attack: &str, later: &str) {
    leaves_nothing_to_run_where("true", attack, later);
}

/// The same on a host that is `made` otherwise.
#[track_caller]
fn leaves_nothing_to_run_where(made: &str, attack: &str, later: &str) {
    for_each_user(|user| {
        let owned = |policy: &str| {
            let sandbox = host(user);
            sandbox.sh_outside(made).succeeds();
            under(&sandbox, policy, attack);
            sandbox.sh_outside(later);
            sandbox.path("outside/owned").exists()
        };
        let tool = later.split(' ').next().unwrap();
        if Sandbox::of(user).sh_outside(&format!("command -v {tool}")).status != Some(0) {
            return skipped(&format!("not here: {tool}"));
        }
        assert!(!owned(AGENT), "{attack}");
        assert!(owned(OPEN), "no attack: {attack}");
    });
}

/// The editor, agent or tool that would run what this file says.
fn is_read(file: &str) -> String {
    format!("test -s {file} && touch $OWNED")
}

/// A test for each attack that leaves something: what it does, what the user does later.
macro_rules! attacks {
    ($($name:ident: $attack:expr, $later:expr;)*) => {
        $(
            #[test]
            fn $name() {
                leaves_nothing_to_run($attack, &$later.to_string());
            }
        )*
    };
}

/// A script that is left somewhere, in the words of a shell.
macro_rules! script {
    ($path:literal) => {
        concat!("printf '#!/bin/sh\\ntouch \"$OWNED\"\\n' > ", $path, "; chmod +x ", $path)
    };
}

attacks! {
    a_git_hook: script!(".git/hooks/pre-commit"), "git commit --allow-empty -qm x";
    a_git_hook_in_a_repository_that_is_replaced:
        concat!("mv .git .old; cp -R .old .git; ", script!(".git/hooks/pre-commit")),
        "git commit --allow-empty -qm x";
    a_git_hook_in_another_work_tree: script!("../other/.git/hooks/pre-commit"),
        "git -C ../other commit --allow-empty -qm x";
    a_directory_of_hooks: concat!("mkdir h; ", script!("h/pre-commit"), "; git config core.hooksPath h"),
        "git commit --allow-empty -qm x";
    a_file_system_monitor_of_git: "git config core.fsmonitor 'touch $OWNED;false'", "git status";
    a_filter_of_git: "git config filter.x.clean 'touch $OWNED; cat'; echo '* filter=x' > .gitattributes; touch new",
        "git add new";
    settings_of_git_for_all_repositories: "git config --global core.fsmonitor 'touch $OWNED;false'", "git status";
    settings_of_git_by_another_common_directory:
        "cp -R .git evil; git config -f evil/config core.fsmonitor 'touch $OWNED;false'; echo ../evil > .git/commondir",
        "git status";
    settings_of_git_for_a_linked_work_tree:
        "cp -R .git evil; git config -f evil/config core.fsmonitor 'touch $OWNED;false'; \
         echo $PWD/evil > .git/worktrees/tree/commondir",
        "git -C ../home/tree status";
    a_hook_of_husky: script!(".husky/pre-commit"), "git -c core.hooksPath=.husky commit --allow-empty -qm x";
    a_start_up_file_of_interactive_shells: "echo 'touch $OWNED' >> ~/.bashrc", "bash -ic true";
    a_start_up_file_of_login_shells: "echo 'touch $OWNED' >> ~/.profile", "bash -lc true";
    a_start_up_file_that_takes_the_place_of_another: "echo 'touch $OWNED' > ~/.bash_profile", "bash -lc true";
    a_start_up_file_by_rename: "echo 'touch $OWNED' > ~/new; mv ~/new ~/.bashrc", "bash -ic true";
    a_start_up_file_of_zsh: "echo 'touch $OWNED' > ~/.zshenv", "zsh -c true";
    a_start_up_file_of_fish: "echo 'touch $OWNED' > ~/.config/fish/config.fish", "fish -c true";
    a_program_of_the_user_s_own: script!("$HOME/bin/git"), "env PATH=$HOME/bin:$PATH git status";
    a_unit_of_systemd: "mkdir -p ~/.config/systemd/user; echo x > ~/.config/systemd/user/x.service",
        is_read("~/.config/systemd/user/x.service");
    a_key_to_log_in_with: "echo x > ~/.ssh/authorized_keys", is_read("~/.ssh/authorized_keys");
    a_task_of_an_editor: "mkdir .vscode; echo x > .vscode/tasks.json", is_read(".vscode/tasks.json");
    a_task_of_an_editor_by_rename: "mkdir d; echo x > d/tasks.json; mv d .vscode", is_read(".vscode/tasks.json");
    a_task_of_an_editor_in_another_work_tree: "mkdir ../other/.vscode; echo x > ../other/.vscode/tasks.json",
        is_read("../other/.vscode/tasks.json");
    a_start_up_file_of_an_editor: "echo x > .nvim.lua", is_read(".nvim.lua");
    a_hook_of_an_agent: "mkdir .claude; echo x > .claude/settings.json", is_read(".claude/settings.json");
    a_hook_of_an_agent_for_all_projects: "mkdir ~/.claude; echo x > ~/.claude/settings.json",
        is_read("~/.claude/settings.json");
    a_server_of_an_agent: "echo x > .mcp.json", is_read(".mcp.json");
    a_shell_of_npm_s: concat!(script!("evil"), "; echo script-shell=$PWD/evil > .npmrc"), "npm run go";
    settings_of_cargo: "mkdir -p .cargo; echo x > .cargo/config.toml", is_read(".cargo/config.toml");
    settings_of_a_debugger: "echo x > .gdbinit", is_read(".gdbinit");
    settings_of_a_directory: "echo x > .envrc", is_read(".envrc");
}

/// Repositories that are not in `.git`.
#[test]
fn a_directory_that_is_made_a_repository() {
    leaves_nothing_to_run_where(
        "rm -rf .git",
        "git init -q --bare evil; cd evil; git config core.bare false; git config core.worktree ..; \
         git config core.fsmonitor 'touch $OWNED;false'; mv HEAD config objects refs ..",
        "git status",
    );
}

/// What git enters to see whether it changed. The preset lets it be, as documented: sources are fetched so.
#[test]
fn a_submodule_of_the_command_s_own_where_no_repository_may_be_made() {
    for_each_user(|user| {
        let attack = "git init -q evil && cd evil && git commit -q --allow-empty -m x && \
                      git config core.fsmonitor 'touch $OWNED;false' && cd .. && \
                      git update-index --add --cacheinfo 160000,$(git -C evil rev-parse HEAD),evil";
        let owned = |policy: &str| {
            let sandbox = host(user);
            under(&sandbox, policy, attack);
            sandbox.sh_outside("git status").succeeds();
            let commit =
                under(&sandbox, policy, "mkdir d && touch d/f && git add d && git commit -qm d");
            commit.succeeds();
            sandbox.path("outside/owned").exists()
        };
        assert!(!owned("extends: agent\nfilesystem: {denyWrite: ['*/**/.git']}"));
        assert!(owned("extends: agent"));
    });
}

#[test]
fn settings_of_git_where_a_file_leads_to_them() {
    for place in [".bare", "../other/deep"] {
        leaves_nothing_to_run_where(
            &format!("git init -q --separate-git-dir {place} . && echo gitdir: {place} > .git"),
            &format!("git config -f {place}/config core.fsmonitor 'touch $OWNED;false'"),
            "git status",
        );
    }
}

#[test]
fn hooks_of_git_in_a_repository_that_may_be_written_itself() {
    leaves_nothing_to_run_where(
        "git init -q --bare ../other/bare; git clone -q ../other/bare ../other/clone 2>/dev/null; \
         mv ../other ../repositories; ln -s repositories/bare ../other",
        script!("../other/hooks/post-update"),
        "git push -q ../other HEAD:refs/heads/pushed",
    );
}

/// A linked work tree: the repository that it belongs to may be written, but for what programs outside would run.
#[test]
fn an_agent_works_in_a_linked_work_tree() {
    for_each_user(|user| {
        let sandbox = host(user);
        let link = "git worktree prune; mv .git ../outside/main; mkdir ../outside/main/worktrees/work; \
                    cd ../outside/main/worktrees/work; echo ../.. > commondir; echo ref: refs/heads/work > HEAD; \
                    echo $OLDPWD/.git > gitdir; cd ../../../../work; echo gitdir: ../outside/main/worktrees/work > .git; \
                    git add . ; git commit -qm work";
        sandbox.sh_outside(link).succeeds();
        let policy = "extends: agent";
        let work =
            "git commit -q --allow-empty -m x; git checkout -q -b other; git log --oneline | wc -l";
        let outcome = under(&sandbox, policy, work);
        assert_eq!((outcome.stdout.as_str(), outcome.reports.len()), ("2\n", 0), "{outcome:#?}");
        for attack in [
            "git config core.fsmonitor evil",
            "echo evil > ../outside/main/hooks/post-commit",
            "echo evil > ../outside/main/worktrees/work/commondir",
            "echo evil > ../outside/main/worktrees/work/config.worktree",
            "echo evil > ../outside/main/worktrees/work/gitdir",
            "echo evil > .git",
        ] {
            under(&sandbox, policy, attack).fails();
        }
        sandbox.sh_outside("! grep -r evil .git ../outside/main").succeeds();
    });
}

#[test]
fn secrets_are_not_read() {
    for_each_user(|user| {
        let sandbox = host(user);
        let other = sandbox.spawn_outside(["env", &format!("OTHER={SECRET}"), "sleep", "100"]);
        let environ = format!("/proc/{}/environ", other.pid());
        let started = tests::eventually(|| {
            std::fs::read_to_string(&environ).is_ok_and(|text| text.contains("OTHER="))
        });
        assert!(started, "{environ}");
        for attack in [
            "cat ~/.ssh/id_rsa",
            "cat ~/.aws/credentials",
            "cat ~/.netrc",
            "cat ~/.config/gh/hosts.yml",
            "cat ~/.docker/config.json",
            "cat ~/.bash_history",
            "ln ~/.ssh/id_rsa here; cat here",
            "ln -s ~/.ssh here; cat here/id_rsa",
            "mv ~/.ssh ~/.other; cat ~/.other/id_rsa",
            "grep -r open-ses ~/.config",
            "env",
            "xargs -0 -n 1 < /proc/$PPID/environ",
            "cat /proc/[0-9]*/environ",
            &format!("cat {environ}"),
            &format!("cat /proc/{}/task/*/environ", other.pid()),
        ] {
            let inside = under(&sandbox, AGENT, attack);
            assert!(
                !format!("{}{}", inside.stdout, inside.stderr).contains(SECRET),
                "{attack}: {inside:#?}"
            );
            let twin = if attack.contains("/proc/") {
                sandbox.sh_outside(&format!("sh -c '{attack}'; true"))
            } else {
                host(user).sh_outside(attack)
            };
            assert!(twin.stdout.contains(SECRET), "no attack: {attack}: {twin:#?}");
        }
        assert_eq!(sandbox.read("home/.ssh/id_rsa"), SECRET);
    });
}

/// An agent that holds keys, or an engine that starts containers, listens there.
#[test]
fn the_sockets_of_services_are_not_reached() {
    let sandbox = host(User::Caller);
    let peer = UnixPeer::at(sandbox.path("outside/agent"), "stream");
    let connect = format!("{} unix-connect ../outside/agent stream", programs().probe().display());
    let inside = under(&sandbox, AGENT, &connect);
    assert_eq!(inside.stdout, "unix-connect=EACCES\n", "{inside:#?}");
    assert_eq!(peer.connections(), 0);
    sandbox.sh_outside(&connect).succeeds();
    peer.reached();
}

/// What others make while the command runs is protected as what was there.
#[test]
fn a_repository_that_the_user_makes_later_is_protected_too() {
    for_each_user(|user| {
        let sandbox = Sandbox::of(user);
        sandbox.dir("other");
        let policy = sandbox.file("policy.yaml", AGENT);
        let script = "until test -e made; do sleep 0.05; done; for tree in . ../other; do \
                      touch $tree/kept; for file in .git/hooks/pre-commit .git/config .vscode/tasks.json; do \
                      echo evil >> $tree/$file; mv $tree/$file $tree/x; done; done; echo done";
        let line = ["-p", policy.to_str().unwrap(), "--", "sh", "-c", script];
        let program = programs().landstrip();
        let words = [program.to_str().unwrap()].into_iter().chain(line);
        let running = sandbox.spawn_outside(words);
        let make = "for tree in . ../other; do git init -q $tree; mkdir $tree/.vscode; echo kept > $tree/.vscode/tasks.json; \
                    echo kept > $tree/.git/hooks/pre-commit; echo '# kept' >> $tree/.git/config; done; touch made";
        sandbox.sh_outside(make).succeeds();
        let outcome = running.wait();
        assert_eq!(outcome.stdout, "done\n", "{outcome:#?}");
        for tree in ["work", "other"] {
            assert!(sandbox.path(format!("{tree}/kept")).exists());
            for file in [".git/hooks/pre-commit", ".git/config", ".vscode/tasks.json"] {
                let text = sandbox.read(format!("{tree}/{file}"));
                assert!(
                    text.ends_with("kept\n") && !text.contains("evil"),
                    "{tree}/{file}: {text}"
                );
            }
        }
    });
}
