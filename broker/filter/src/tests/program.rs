//! The table, and the program as a whole.

use super::*;
use crate::arch::numbers;
use crate::program::{Instruction, build};
use crate::rule::{Arg, Case, Row, Test, Verdict, When};
use crate::syscall::NEWEST;
use crate::{Entry, describe, table};
use nix::libc;

#[test]
fn the_table_names_every_call_once_with_a_reason() {
    let mut calls: Vec<_> = table::rows().flat_map(|row| row.calls).copied().collect();
    calls.sort_unstable_by_key(|call| *call as u16);
    assert_eq!(calls, Syscall::ALL);
    for row in table::rows() {
        assert!((10..=120).contains(&row.why.len()), "{}", row.why);
    }
}

/// What an architecture does not have of the calls of the others.
fn absent(arch: &Arch) -> &'static [Syscall] {
    match arch.name {
        #[rustfmt::skip]
        "aarch64" => &[
            open, stat, lstat, poll, access, pipe, select, dup2, pause, alarm, fork, vfork, getdents,
            rename, mkdir, rmdir, creat, link, unlink, symlink, readlink, chmod, chown, lchown, getpgrp,
            utime, mknod, uselib, ustat, sysfs, modify_ldt, _sysctl, arch_prctl, iopl, ioperm,
            create_module, get_kernel_syms, query_module, getpmsg, putpmsg, afs_syscall, tuxcall,
            security, time, set_thread_area, get_thread_area, epoll_create, epoll_ctl_old,
            epoll_wait_old, epoll_wait, utimes, vserver, inotify_init, futimesat, signalfd, eventfd,
            uretprobe, uprobe,
        ],
        _ => &[],
    }
}

#[test]
fn every_architecture_has_or_lacks_every_call() {
    for arch in Arch::ALL {
        for &call in Syscall::ALL {
            let is_absent = absent(arch).contains(&call);
            assert_eq!(arch.number(call).is_none(), is_absent, "{} {call}", arch.name);
        }
    }
    let numbers = |name: &str| {
        let arch = Arch::named(name).unwrap();
        let mut numbers: Vec<_> = arch.numbers.iter().flatten().copied().collect();
        numbers.sort_unstable();
        numbers
    };
    assert!(numbers("x86_64").into_iter().eq((0..=336).chain(424..=NEWEST)));
    assert!(numbers("aarch64").into_iter().eq((0..=243).chain(260..=294).chain(424..=NEWEST)));
}

/// Of this architecture, as another list has them.
#[test]
fn numbers_are_those_of_the_c_library() {
    for (call, number) in [
        (read, libc::SYS_read),
        (openat, libc::SYS_openat),
        (ioctl, libc::SYS_ioctl),
        (socket, libc::SYS_socket),
        (clone, libc::SYS_clone),
        (execve, libc::SYS_execve),
        (seccomp, libc::SYS_seccomp),
        (mount, libc::SYS_mount),
        (ptrace, libc::SYS_ptrace),
        (bpf, libc::SYS_bpf),
        (setns, libc::SYS_setns),
        (statx, libc::SYS_statx),
        (openat2, libc::SYS_openat2),
        (connect, libc::SYS_connect),
        (bind, libc::SYS_bind),
    ] {
        assert_eq!(Arch::NATIVE.number(call).map(i64::from), Some(number), "{call}");
        assert_eq!(Syscall::of(i32::try_from(number).unwrap()), Some(call));
    }
    let newer = i32::try_from(NEWEST + 1).unwrap();
    assert_eq!([-1, 400, newer, i32::MAX].map(Syscall::of), [None; 4]);
}

#[test]
fn the_table_can_be_read() {
    let text = |call: Syscall, variant: Variant| {
        describe(variant).find(|entry| entry.call == call).unwrap().what
    };
    assert_eq!(describe(CLOSED).count(), Syscall::ALL.len());
    assert_eq!(text(read, CLOSED), "allowed");
    assert_eq!(text(listen, CLOSED), "the broker decides");
    assert_eq!(text(sendto, OPEN), "allowed");
    assert_eq!(
        text(socketpair, CLOSED),
        "allowed if domain is 0x1 and type & 0xf is 0x1 or 0x5 and protocol is 0x0 or 0x1; else the broker decides"
    );
}

#[test]
fn program_is_short_and_shaped_as_the_kernel_wants_it() {
    for (variant, Filter(programs)) in all_variants().map(|variant| (variant, Filter::new(variant)))
    {
        // Calls on files fare less alike where only some of them are notified.
        let limit = if variant.contains(Variant::CHANGES_LEFT) { 438 } else { 413 };
        for program in programs.iter().map(|program| &program.instructions) {
            assert!(program.len() < limit, "{variant:?}: {}", program.len());
            assert_eq!(program.last().map(|last| last.code), Some(0x06));
            let first = Instruction { code: 0x20, jt: 0, jf: 0, k: 4 };
            assert_eq!(program[0], first);
            assert_eq!(first.to_bytes(), [0x20, 0, 0, 0, 4, 0, 0, 0]);
        }
    }
}

/// A table with one row a call, which allows the call when its first argument is its place.
fn long_table() -> Vec<Row> {
    let row = |(place, call): (u32, &'static Syscall)| {
        let values: &[u32] = Vec::leak(vec![place]);
        let all: &[Test] =
            Vec::leak(vec![Test::Low { arg: Arg(0, "place"), mask: u32::MAX, values }]);
        Row {
            calls: std::slice::from_ref(call),
            cases: Vec::leak(vec![Case { when: When::ALWAYS, all, then: Verdict::Allow }]),
            otherwise: Verdict::Notify,
            alone: Verdict::Kill,
            why: "a test",
        }
    };
    (0..).zip(Syscall::ALL).map(row).collect()
}

#[test]
fn programs_longer_than_a_comparison_can_jump_are_right() {
    for &arch in Arch::ALL {
        let instructions = build(&long_table(), arch, CLOSED).unwrap();
        assert!(instructions.len() > 3 * 255);
        for (place, call) in (0_u64..).zip(Syscall::ALL) {
            let Some(number) = arch.number(*call) else { continue };
            for arg in [0, place, place + 1, 399, 470] {
                let expected = if arg == place { ALLOW } else { NOTIFY };
                let args = [arg | GARBAGE, 0, 0, 0, 0, 0];
                let verdict = run(&instructions, &Call { number, arch: arch.audit, args });
                assert_eq!(verdict, Ok(expected), "{call} {arg}");
            }
        }
    }
}

#[test]
fn contradictory_and_unreviewed_rows_are_errors() {
    let table = [long_table(), long_table()].concat();
    assert_eq!(build(&table, Arch::NATIVE, CLOSED).err().unwrap(), "read is listed twice");
    let newer = Arch { numbers: numbers! { 1000: read; }, ..*Arch::NATIVE };
    let error = build(&long_table(), &newer, CLOSED).err().unwrap();
    assert_eq!(error, "read is newer than the newest known call");
}

/// The table as documentation. Run with `LANDSTRIP_WRITE_TABLE=1` to write it anew.
#[test]
fn the_documented_table_is_the_one_in_force() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../man/system-calls.md");
    let names: Vec<_> = Arch::ALL.iter().map(|arch| arch.name).collect();
    let mut text = format!(
        "# System calls\n\n\
        What the filter does with each system call when neither `network.allowNetwork` nor\n\
        `filesystem.denyRead` is set, and its number on each architecture. Generated from the table\n\
        that the filter is built from; what is not listed is refused with ENOSYS.\n\n\
        | call | {} | what happens | why |\n|---|---|---|---|---|\n",
        names.join(" | ")
    );
    for Entry { call, what, why } in describe(CLOSED) {
        let number = |arch: &&Arch| arch.number(call).map_or("-".into(), |n| n.to_string());
        let numbers: Vec<_> = Arch::ALL.iter().map(number).collect();
        text.push_str(&format!("| {call} | {} | {what} | {why} |\n", numbers.join(" | ")));
    }
    if std::env::var_os("LANDSTRIP_WRITE_TABLE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let documented = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(documented == text, "run this test once with LANDSTRIP_WRITE_TABLE=1");
}
