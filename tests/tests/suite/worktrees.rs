//! Linked work trees of git under the preset for agents: made, worked in side by side and removed, and protected as the
//! one that the command starts in. Whether an attack worked is told from outside, when the user does what it waits for.

use crate::presets::{host, under};
use tests::{Outcome, Sandbox, User, for_each_user, programs, quoted};

/// Runs `script` under the preset in `directory`.
fn agent_in(sandbox: &Sandbox, directory: &str, script: &str) -> Outcome {
    let landstrip = programs().landstrip();
    let (landstrip, script) = (landstrip.display(), quoted(script));
    let run = format!("cd {directory} && exec {landstrip} -p agent -- sh -c {script}");
    sandbox.sh_outside(&run)
}

const DAILY: &str = "set -e; git switch -q -c $NAME; for n in 1 2 3; do echo $n > $NAME$n; git status; git add .; \
    git commit -q -m $n; done; GIT_SEQUENCE_EDITOR='sed -i 2s/pick/squash/' GIT_EDITOR=true git rebase -q -i HEAD~2; \
    git fetch -q ../upstream; git rebase -q FETCH_HEAD; echo x > main.c; \
    git checkout -q main.c; git tag t-$NAME; git cherry-pick t-$NAME~1 || git cherry-pick --skip; git log --oneline";

/// Not side by side: git dies where it finds a work tree that another git is just adding or removing (`failed to read
/// .git/worktrees/subnone/commondir: Success`), without a sandbox as well.
const WITHIN: &str = "set -e; git worktree add -q sub$NAME; git -C sub$NAME commit -q --allow-empty -m sub; \
    git worktree remove sub$NAME";

#[test]
fn agents_work_side_by_side_in_linked_work_trees() {
    for_each_user(|user| {
        let sandbox = host(user);
        let make = "set -e; git clone -q . ../outside/upstream; git -C ../outside/upstream commit -q --allow-empty -m up
            git config core.packedRefsTimeout 60000
            for n in one two three; do git worktree add -q ../outside/$n; done; git checkout -q -b here";
        sandbox.sh_outside(make).succeeds();
        let names = ["one", "two", "three"];
        let work = |name: &&str| {
            let script = format!("NAME=n{name}; {DAILY}");
            agent_in(&sandbox, &format!("../outside/{name}"), &script).succeeds();
        };
        tests::at_once(&names, work);
        for name in names {
            let within = format!("NAME=n{name}; {WITHIN}");
            agent_in(&sandbox, &format!("../outside/{name}"), &within).succeeds();
            let check = format!(
                "git -C ../outside/{name} status --porcelain; git rev-list --count n{name}"
            );
            assert_eq!(sandbox.sh_outside(&check).stdout, "4\n", "{name}");
        }
        sandbox.sh_outside("git fsck --strict && git status").succeeds();
        // The work trees of others are not theirs, nor is what the repository lies in.
        let attack =
            "echo x > ../two/x; echo x > ../../work/main.c; echo x > ../new; rm -rf ../two/.git";
        agent_in(&sandbox, "../outside/one", attack).fails();
        sandbox
            .sh_outside(
                "git status --porcelain; git -C ../outside/two status --porcelain; ls ../outside",
            )
            .succeeds();
        assert!(!sandbox.path("outside/two/x").exists() && !sandbox.path("outside/new").exists());
    });
}

/// One work tree can write the index of another, where git enters what it names.
#[test]
fn a_submodule_in_the_index_of_another_work_tree_is_named_at_the_end() {
    for_each_user(|user| {
        let make = "set -e; git init -q sub; git -C sub commit -q --allow-empty -m x; object=$(git -C sub rev-parse HEAD)";
        let link = "git update-index --add --cacheinfo 160000,$object";
        let in_main = "GIT_DIR=../../.git GIT_WORK_TREE=../..";
        for (directory, script, named) in [
            (".", "git status; git commit -q --allow-empty -m x".to_owned(), None),
            ("trees/one", format!("{make}; {in_main} {link},trees/one/sub"), Some("\"sub\"")),
            (".", format!("cd trees/one; {make}; {link},sub"), Some("\"trees/one/sub\"")),
            (
                ".",
                format!("git worktree add -q new; cd new; {make}; {link},sub"),
                Some("\"new/sub\""),
            ),
        ] {
            let sandbox = host(user);
            sandbox.sh_outside("git worktree add -q trees/one").succeeds();
            let outcome = agent_in(&sandbox, directory, &script);
            let told = outcome.succeeds().stderr.contains("git status outside obeys");
            assert_eq!(told, named.is_some(), "{script}: {outcome:#?}");
            let name = named.unwrap_or_default();
            assert!(outcome.stderr.contains(name), "{script}: {outcome:#?}");
        }
    });
}

#[test]
fn an_agent_adds_works_in_and_removes_a_linked_work_tree() {
    for_each_user(|user| {
        let sandbox = host(user);
        sandbox.sh_outside("git clone -q . upstream && echo upstream > .gitignore").succeeds();
        let add = "git worktree add -q trees/one";
        let outcome = under(&sandbox, "agent", add);
        assert!(outcome.succeeds().reports.is_empty(), "{outcome:#?}");
        assert_eq!(sandbox.read("work/.git/worktrees/one/commondir"), "../..\n");
        let work =
            format!("ln -s $PWD/upstream trees/upstream; cd trees/one; NAME=n; {DAILY}; {WITHIN}");
        under(&sandbox, "agent", &work).succeeds();
        sandbox.sh_outside("git -C trees/one status && git fsck --strict").succeeds();
        // In a run of its own, as each of the others.
        under(&sandbox, "agent", "git worktree lock trees/one; git worktree unlock trees/one")
            .succeeds();
        under(&sandbox, "agent", "git worktree remove trees/one && git worktree list").succeeds();
        assert!(!sandbox.path("work/trees/one").exists());
        assert!(!sandbox.path("work/.git/worktrees/one").exists());
        let both = format!(
            "{add} -f && cd trees/one && git log && cd ../.. && git worktree remove trees/one"
        );
        under(&sandbox, "agent", &both).succeeds();
    });
}

/// A repository with a linked work tree, and another one that runs `mark` for whoever asks it anything.
fn linked(user: User) -> Sandbox {
    let sandbox = host(user);
    let make = format!(
        "set -e; git clone -q --bare . evil; git -C evil config core.bare false
         git -C evil config core.fsmonitor 'touch {};false'; git config core.hooksPath hooks
         git worktree add -q trees/known; cp -a . ../outside/kept",
        sandbox.name("outside/ran")
    );
    sandbox.sh_outside(&make).succeeds();
    sandbox
}

/// What each run of an attack does, and what the user does then.
const ATTACKS: [(&[&str], &str); 18] = [
    (&["echo $PWD/evil > .git/worktrees/known/commondir"], KNOWN),
    (&["cd .git/worktrees/known; rm -f commondir; echo $OLDPWD/evil > commondir"], KNOWN),
    (
        &[
            "rm -f .git/worktrees/known/commondir",
            "echo $PWD/evil > .git/worktrees/known/commondir",
        ],
        KNOWN,
    ),
    (&["cd .git/worktrees/known; rm -f commondir; cp -r $OLDPWD/evil/. ."], KNOWN),
    (&["echo $PWD/evil > t; mv t .git/worktrees/known/commondir"], KNOWN),
    (
        &[
            "echo $PWD/evil > t; rm -f .git/worktrees/known/commondir; mv t .git/worktrees/known/commondir",
        ],
        KNOWN,
    ),
    (
        &[
            "echo $PWD/evil > t; rm -f .git/worktrees/known/commondir; ln t .git/worktrees/known/commondir",
        ],
        KNOWN,
    ),
    (
        &[
            "echo $PWD/evil > t; rm -f .git/worktrees/known/commondir; ln -s $PWD/t .git/worktrees/known/commondir",
        ],
        KNOWN,
    ),
    (&["echo gitdir: $PWD/evil > trees/known/.git"], KNOWN),
    (&["rm -f trees/known/.git; echo gitdir: $PWD/evil > trees/known/.git"], KNOWN),
    (&["rm -f trees/known/.git", "echo gitdir: $PWD/evil > trees/known/.git"], KNOWN),
    (&["rm -f trees/known/.git; ln -s $PWD/evil trees/known/.git"], KNOWN),
    (&["mv trees/known away; mkdir trees/known; echo gitdir: $PWD/evil > trees/known/.git"], KNOWN),
    (
        &[
            "echo $PWD/src/.git > .git/worktrees/known/gitdir",
            "echo gitdir: $PWD/evil > trees/known/.git",
        ],
        KNOWN,
    ),
    (&["rm -f trees/known/.git; cp -r evil trees/.git"], KNOWN),
    (
        &["mkdir -p .git/worktrees/known/modules; cp -r evil .git/worktrees/known/modules/lib"],
        SUBMODULE,
    ),
    (
        &["git worktree add -q trees/new; echo $PWD/evil > .git/worktrees/new/commondir"],
        "git -C trees/new status",
    ),
    (
        &[
            "mkdir n trees/new; cp -r evil/. n; echo $PWD/evil > n/commondir; echo $PWD/trees/new/.git > n/gitdir; \
           mv n .git/worktrees/new; echo gitdir: $PWD/.git/worktrees/new > trees/new/.git",
        ],
        "git -C trees/new status",
    ),
];
const KNOWN: &str = "git -C trees/known status";
const SUBMODULE: &str = "git --git-dir=.git/worktrees/known/modules/lib --work-tree=. status";

#[test]
fn nothing_is_planted_in_or_for_a_linked_work_tree() {
    for_each_user(|user| {
        let sandbox = linked(user);
        let restore = "cd ..; rm -rf work/* work/.git outside/ran; cp -a outside/kept/. work";
        for (runs, then) in ATTACKS {
            for (preset, works) in [("agent", false), ("build", true)] {
                runs.iter().for_each(|script| drop(under(&sandbox, preset, script)));
                let outside = sandbox.sh_outside(then);
                let ran = sandbox.path("outside/ran").exists();
                assert!(!ran || works, "ESCAPED: {runs:?}");
                assert!(ran || !works, "no attack: {runs:?}: {outside:#?}");
                sandbox.sh_outside(restore).succeeds();
            }
        }
        for made in ["hooks", ".vscode", ".envrc", "sub/../.mcp.json", "HEAD"] {
            let make = format!(
                "mkdir trees/known/sub; echo x > trees/known/{made} || mkdir trees/known/{made}"
            );
            under(&sandbox, "agent", &make).fails();
            assert!(!sandbox.path("work/trees/known").join(made).exists(), "ESCAPED: {made}");
            under(&sandbox, "build", &make).succeeds();
            sandbox.sh_outside(restore).succeeds();
        }
    });
}

/// What is opened to write there is not the file, and the file says the same whatever moves meanwhile.
#[test]
fn what_leads_to_the_repository_has_one_content() {
    const RACE: &str = "import os, threading
os.makedirs('.git/worktrees/a'); os.makedirs('sub')
def turn():
    for _ in range(2000):
        for old, new in ('.git/worktrees/a', '.git/worktrees/b'), ('.git/worktrees/b', '.git/worktrees/a'):
            try: os.rename(old, new)
            except OSError: pass
turner = threading.Thread(target=turn); turner.start()
seen = set()
while turner.is_alive():
    for flags in 0, os.O_TRUNC, os.O_EXCL, os.O_APPEND, os.O_NOFOLLOW | os.O_CLOEXEC:
        for name in 'a', 'b':
            path = '.git/worktrees/' + name + '/commondir'
            try: file = os.open(path, os.O_WRONLY | os.O_CREAT | flags)
            except OSError: continue
            os.write(file, b'evil')
            try: os.pwrite(os.open('/proc/self/fd/%d' % file, os.O_RDWR), b'evil', 0)
            except OSError: pass
            os.close(file)
            try: seen.add(open(path).read()); os.unlink(path)
            except OSError: pass
print(sorted(seen))";
    for_each_user(|user| {
        let sandbox = host(user);
        let outcome = sandbox.landstrip(["-p", "agent", "python3", "-c", RACE]);
        // Whether one was made between two renames is luck; git's own are made elsewhere in these tests.
        let is_kept = ["[]\n", "['../..\\n']\n"].contains(&&*outcome.stdout);
        assert!(is_kept, "ESCAPED: {outcome:#?}");
        // Nothing else makes one, and a rule of one's own denies it.
        for flags in ["os.O_RDWR", "os.O_RDONLY"] {
            let code = format!(
                "import os; os.makedirs('.git/worktrees/c', exist_ok=True); \
                                os.open('.git/worktrees/c/commondir', os.O_CREAT | {flags})"
            );
            sandbox.landstrip(["-p", "agent", "python3", "-c", &code]).fails();
        }
        let add = |rule: &str| {
            let text = format!("extends: agent\nfilesystem: {{denyWrite: ['{rule}']}}");
            let policy = sandbox.file("p.yaml", text);
            sandbox.landstrip([
                "-p",
                policy.to_str().unwrap(),
                "git",
                "worktree",
                "add",
                "-q",
                "../work/t",
            ])
        };
        for rule in ["**/commondir", ".git/worktrees", ".git/worktrees/t/commondir", ".git"] {
            add(rule).fails();
            assert!(!sandbox.path("work/.git/worktrees/t/commondir").exists(), "{rule}");
            sandbox.sh_outside("rm -rf t; git worktree prune; git branch -D t");
        }
        add("other").succeeds();
    });
}

/// A repository is given to the command only if it knows the work tree.
#[test]
fn no_work_tree_names_a_repository_that_does_not_know_it() {
    for_each_user(|user| {
        let sandbox = host(user);
        sandbox
            .sh_outside(
                "git worktree add -q ../outside/tree; cp -r ../outside/tree ../outside/copy",
            )
            .succeeds();
        let commit = "git commit -q --allow-empty -m x";
        let refused = agent_in(&sandbox, "../outside/copy", commit);
        refused.fails();
        agent_in(&sandbox, "../outside/tree", commit).succeeds();
        // One that the work tree lies in would be given with all beside it, as a home would.
        let bare = "git clone -q --bare . ../outside/bare; git -C ../outside/bare worktree add -q tree -b bare; \
                    git clone -q --bare . ../home/bare; mv ../home/bare/* ~; git -C ~ worktree add -q ../outside/own -b own";
        sandbox.sh_outside(bare).succeeds();
        for tree in ["../outside/bare/tree", "../outside/own"] {
            agent_in(&sandbox, tree, commit).fails();
            agent_in(&sandbox, tree, "echo x > ../x; echo x > ~/x; echo x > made").succeeds();
        }
        assert!(!sandbox.path("outside/bare/x").exists() && !sandbox.path("home/x").exists());
    });
}

/// However many were planted, none is left out.
#[test]
fn too_many_linked_work_trees_are_not_written_at_all() {
    let sandbox = host(User::Caller);
    let make = "for n in $(seq 40); do git worktree add -q trees/$n; done";
    sandbox.sh_outside(make).succeeds();
    let outcome = under(
        &sandbox,
        "agent",
        "for n in $(seq 40); do echo x > trees/$n/x; echo x > trees/$n/.git; done",
    );
    outcome.fails();
    let count = sandbox.sh_outside("ls trees/*/x | wc -l; cat trees/*/.git | grep -c gitdir");
    assert_eq!(count.stdout, "32\n40\n");
}

/// What a command has left there is not looked at in the place of the user's own settings.
#[test]
fn what_a_linked_work_tree_leads_to_keeps_nothing_else_from_being_found() {
    for (count, starts) in [(100, true), (1100, false)] {
        let sandbox = host(User::Caller);
        let script = format!(
            "set -e; mkdir -p w ev/refs t .git/worktrees/w; echo $PWD/w/.git > .git/worktrees/w/gitdir
             echo 'gitdir: ../ev' > w/.git; echo 'ref: refs/heads/main' > ev/HEAD
             for n in $(seq {count}); do echo '#' > t/$n; printf '[include]\npath=../t/%s\n' $n; done > ev/config"
        );
        under(&sandbox, "agent", &script).succeeds();
        let make = "mkdir -p tools/hooks; git config --global core.hooksPath tools/hooks";
        sandbox.sh_outside(make).succeeds();
        let outcome = under(&sandbox, "agent", "echo x > made; echo x > tools/hooks/pre-commit");
        match starts {
            true => outcome.fails(),
            false => outcome.is_error(125, "Internal", "is more than is looked through"),
        };
        assert!(!sandbox.path("work/tools/hooks/pre-commit").exists());
        assert_eq!(sandbox.path("work/made").exists(), starts);
    }
}
