//! Processes.

use super::*;

#[test]
fn namespaces_cannot_be_made() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for bit in 0..32 {
            let flags = 1 << bit;
            // CLONE_NEWNS; NEWCGROUP to NEWNET
            let namespace = bit == 17 || (25..=30).contains(&bit);
            let expected = if namespace { NOTIFY } else { ALLOW };
            assert_eq!(
                filter.int_verdict(clone, [flags | 17, 0, 0, 0, 0, 0]),
                expected,
                "clone {flags:#x}"
            );
            // unshare takes VM FS FILES SIGHAND, THREAD, SYSVSEM
            let free = matches!(bit, 8..=11 | 16 | 18);
            let expected = if free { ALLOW } else { NOTIFY };
            assert_eq!(
                filter.int_verdict(unshare, [flags, 0, 0, 0, 0, 0]),
                expected,
                "unshare {flags:#x}"
            );
        }
        // What glibc passes for a thread, posix_spawn and fork.
        for flags in [0x3d_0f00, 0x4111, 0x0120_0011] {
            assert_eq!(
                filter.int_verdict(clone, [flags, 0, 0, 0, 0, 0]),
                ALLOW,
                "clone {flags:#x}"
            );
        }
        assert_eq!(filter.int_verdict(unshare, [0, 0, 0, 0, 0, 0]), ALLOW);
    }
    let alone = Filter::new(Variant::ALONE);
    for namespace in [0x2_0000, 0x1000_0000, 0x4000_0000] {
        for call in [clone, unshare] {
            assert_eq!(alone.int_verdict(call, [namespace, 0, 0, 0, 0, 0]), EPERM, "{call}");
        }
    }
    assert_eq!(alone.int_verdict(ptrace, [16, 7, 0, 0, 0, 0]), ALLOW);
}

#[test]
fn groups_and_sessions_are_asked_for() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        assert_eq!(filter.int_verdict(setsid, [0; 6]), NOTIFY);
        for group in [0, 1, 7, 0xffff_ffff] {
            assert_eq!(filter.int_verdict(setpgid, [7, group, 0, 0, 0, 0]), NOTIFY);
        }
    }
    let alone = Filter::new(Variant::ALONE);
    assert_eq!(alone.int_verdict(setsid, [0; 6]), ALLOW);
    assert_eq!(alone.int_verdict(setpgid, [7, 0, 0, 0, 0, 0]), ALLOW);
    assert_eq!(alone.int_verdict(setpgid, [7, 7, 0, 0, 0, 0]), EPERM);
}

#[test]
fn no_second_listener() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for operation in 0..=4 {
            for flags in 0..=0x7f {
                let expected = if flags & 8 == 0 { NOTIFY } else { EPERM };
                assert_eq!(filter.int_verdict(seccomp, [operation, flags, 0, 0, 0, 0]), expected);
            }
        }
    }
}

#[test]
fn the_broker_is_told_of_every_landlock_domain_but_the_commands() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        let of_launcher = u64::from(common::wire::OF_LAUNCHER);
        for (third, expected) in [(0, NOTIFY), (1, NOTIFY), (of_launcher, ALLOW)] {
            assert_eq!(filter.verdict(landlock_restrict_self, [3, 0, third, 0, 0, 0]), expected);
        }
    }
}

#[test]
fn other_processes_are_the_brokers_business() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for pid in [0, 1, 2, 4711, 0xffff_ffff] {
            let own = if pid == 0 { ALLOW } else { NOTIFY };
            for call in [sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr] {
                assert_eq!(filter.int_verdict(call, [pid, 1, 2, 3, 4, 5]), own, "{call} {pid}");
            }
            for call in [migrate_pages, move_pages] {
                let own = if pid == 0 { ALLOW } else { EPERM };
                assert_eq!(filter.int_verdict(call, [pid, 1, 2, 3, 4, 5]), own, "{call} {pid}");
            }
            for which in 0..=4 {
                let expected = if (which, pid) == (0, 0) { ALLOW } else { NOTIFY };
                assert_eq!(filter.int_verdict(setpriority, [which, pid, 5, 0, 0, 0]), expected);
                let expected = if (which, pid) == (1, 0) { ALLOW } else { NOTIFY };
                assert_eq!(filter.int_verdict(ioprio_set, [which, pid, 5, 0, 0, 0]), expected);
            }
            // The pointer counts in full: a limit beyond 4 GiB with zeros below is no null pointer.
            for limit in [0, 1, 0x1_0000_0000, 0x7fff_ffff_0000_0000, u64::MAX] {
                for garbage in [0, GARBAGE] {
                    let expected = if pid == 0 || limit == 0 { ALLOW } else { NOTIFY };
                    let args = [pid | garbage, 7 | garbage, limit, 1, 0, 0];
                    assert_eq!(filter.verdict(prlimit64, args), expected, "{args:x?}");
                }
            }
        }
    }
}

#[test]
fn whoever_wants_to_be_traced_or_to_trace_asks_the_broker() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        // TRACEME to SYSCALL with ATTACH, SETOPTIONS and on, SEIZE, INTERRUPT.
        for request in (0..=33).chain(0x4200..=0x4210) {
            let expected = if [0, 16, 0x4206].contains(&request) { NOTIFY } else { ALLOW };
            assert_eq!(filter.int_verdict(ptrace, [request, 7, 0, 0, 0, 0]), expected, "{request}");
        }
    }
}

#[test]
fn the_listener_can_be_handed_over() {
    // sendmsg, close, execve and exit_group are what the launcher does after the filter is in force.
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for (call, args) in [
            (sendmsg, [5, 1, 0x4000, 0, 0, 0]),
            (close, [5; 6]),
            (execve, [5; 6]),
            (exit_group, [5; 6]),
        ] {
            assert_eq!(filter.verdict(call, args), ALLOW, "{call}");
        }
    }
}

#[test]
fn prctl_is_free_but_for_what_changes_capabilities_and_filters_or_hides_memory() {
    const DONE: u32 = 0x0005_0000;
    let filter = Filter::new(CLOSED);
    for (operation, expected) in [
        (22, NOTIFY),
        (24, NOTIFY),
        (28, NOTIFY),
        (47, NOTIFY),
        (1, ALLOW),
        (4, DONE),
        (15, ALLOW),
        (38, ALLOW),
    ] {
        assert_eq!(filter.int_verdict(prctl, [operation, 0, 0, 0, 0, 0]), expected, "{operation}");
    }
}
