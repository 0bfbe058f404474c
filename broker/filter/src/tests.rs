//! The program against expectations written by hand, by number: nothing here is derived from the table.

#![allow(clippy::unwrap_used, reason = "a test that cannot run has failed")]

use super::interpreter::{Call, run};
use super::program::{Error, build};
use super::rule::{Arg, Case, Row, Syscall, Test, Verdict, When};
use super::{Instruction, Variant, compile, describe, syscalls, table};

const X86_64: u32 = 0xc000_003e;
const I386: u32 = 0x4000_0003;

const ALLOW: u32 = 0x7fff_0000;
const NOTIFY: u32 = 0x7fc0_0000;
const KILL: u32 = 0x8000_0000;
const EPERM: u32 = 0x0005_0001;
const EACCES: u32 = 0x0005_000d;
const ENOSYS: u32 = 0x0005_0026;
const ENOPROTOOPT: u32 = 0x0005_005c;
const EOPNOTSUPP: u32 = 0x0005_005f;

const GARBAGE: u64 = 0xdead_beef_0000_0000;

fn all_variants() -> impl Iterator<Item = Variant> {
    [CLOSED, Variant::REPORT_READS, OPEN, OPEN | Variant::REPORT_READS].into_iter()
}

const CLOSED: Variant = Variant::empty();
const OPEN: Variant = Variant::ALLOW_NETWORK;
const LOCAL: Variant = Variant::LOCAL_BINDING;

struct Filter(Vec<Instruction>);

impl Filter {
    fn new(variant: Variant) -> Self {
        Filter(compile(variant).unwrap())
    }

    fn verdict(&self, number: u32, args: [u64; 6]) -> u32 {
        run(&self.0, &Call { number, arch: X86_64, args }).unwrap()
    }

    /// The verdict, which must not depend on the upper halves of `int` arguments.
    fn int_verdict(&self, number: u32, args: [u64; 6]) -> u32 {
        let plain = self.verdict(number, args);
        assert_eq!(
            plain,
            self.verdict(number, args.map(|arg| arg | GARBAGE)),
            "{number} {args:x?}"
        );
        plain
    }
}

// What happens to each number whatever its arguments are.

#[rustfmt::skip]
const ALLOWED: &[(u32, u32)] = &[
    (0, 1), (3, 15), (17, 28), (32, 40), (43, 43), (45, 45), (47, 48), (51, 52), (55, 55), (57, 63), (73, 75),
    (77, 81), (89, 89), (96, 100), (102, 102), (104, 104), (107, 112), (115, 115), (118, 118), (120, 121), (124, 125), (127, 131), (135, 135), (137, 138), (140, 140), (143, 143), (145, 152),
    (158, 158), (160, 160), (162, 162), (186, 187), (191, 196), (200, 202), (204, 204), (206, 210), (213, 213),
    (216, 219), (221, 226), (228, 234), (237, 239), (247, 247), (252, 255), (262, 262), (267, 267), (269, 271),
    (273, 278), (281, 297), (299, 299), (306, 306), (309, 312), (315, 315), (318, 319), (322, 322), (324, 334),
    (424, 424), (434, 434), (436, 436), (438, 441), (444, 451), (453, 456), (459, 459), (461, 462), (464, 465),
    (468, 468),
];

#[rustfmt::skip]
const NOTIFIED: &[u32] = &[
    42, 49, // connect bind
    76, 82, 83, 84, 85, 86, 87, 88, // truncate rename mkdir rmdir creat link unlink symlink
    90, 91, 92, 93, 94, // chmod fchmod chown fchown lchown
    95, // umask
    105, 106, 113, 114, 116, 117, 119, 122, 123, 126, // setuid .. setfsgid capset
    132, 133, // utime mknod
    188, 189, 190, 197, 198, 199, // setxattr.. removexattr..
    235, // utimes
    258, 259, 260, 261, 263, 264, 265, 266, 268, // mkdirat mknodat fchownat futimesat unlinkat renameat.. fchmodat
    280, 316, // utimensat renameat2
    437, 452, 463, 466, 469, // openat2 fchmodat2 setxattrat removexattrat file_setattr
];

#[rustfmt::skip]
const REFUSED_EPERM: &[u32] = &[
    103, 153, 155, 159, 161, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173, 175, 176, 179,
    227, 246, 298, 300, 301, 303, 304, 305, 308, 313, 320, 321, 323,
    428, 429, 430, 431, 432, 433, 442, 443, 460, 467,
];

#[rustfmt::skip]
const REFUSED_ENOSYS: &[u32] = &[
    29, 30, 31, 64, 65, 66, 67, 68, 69, 70, 71, 220, // System V IPC
    134, 136, 139, 154, 156, 174, 177, 178, 180, 181, 182, 183, 184, 185, 205, 211, 212, 214, 215, 236,
    240, 241, 242, 243, 244, 245, 248, 249, 250, // mq_*, keyrings
    425, 426, 427, 435, 457, 458, 470, // io_uring, clone3, statmount listmount listns
];

/// The arguments decide; each has a test of its own below.
#[rustfmt::skip]
const JUDGED: &[u32] = &[
    2, 16, 41, 44, 46, 50, 53, 54, 56, 72, 101, 141, 142, 144, 157, 203, 251, 256, 257, 272, 279, 302, 307, 314, 317,
];

fn allowed(number: u32) -> bool {
    ALLOWED.iter().any(|&(first, last)| (first..=last).contains(&number))
}

#[test]
fn every_number_has_exactly_the_expected_fate() {
    let arguments = [[0; 6], [u64::MAX; 6], [1, 2, 3, 4, 5, 6], [GARBAGE; 6]];
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for number in 0..=1023 {
            let lists = [
                allowed(number),
                NOTIFIED.contains(&number),
                REFUSED_EPERM.contains(&number),
                REFUSED_ENOSYS.contains(&number),
                JUDGED.contains(&number),
                (335..=423).contains(&number) || number > 470,
            ];
            assert_eq!(lists.iter().filter(|&&listed| listed).count(), 1, "{number} {lists:?}");
            let expected = match lists {
                [true, ..] => ALLOW,
                [_, true, ..] => NOTIFY,
                [_, _, true, ..] => EPERM,
                [_, _, _, _, true, _] => continue,
                _ => ENOSYS,
            };
            for args in arguments {
                assert_eq!(
                    filter.verdict(number, args),
                    expected,
                    "{number} {variant:?} {args:x?}"
                );
            }
        }
    }
}

#[test]
fn without_a_listener_only_what_landlock_decides_is_let_through() {
    let (asked, alone) = (Filter::new(CLOSED), Filter::new(Variant::ALONE));
    // open openat openat2 truncate rename mkdir rmdir creat link unlink symlink, and their newer
    // forms; mknod mknodat; socket connect bind listen.
    let files =
        [2, 257, 437, 76, 82, 83, 84, 85, 86, 87, 88, 258, 259, 263, 264, 265, 266, 316, 133];
    let sockets = [41, 42, 49, 50];
    // umask, setuid.. capset, prctl, seccomp: the broker only wants to know.
    let own = [95, 105, 106, 113, 114, 116, 117, 119, 122, 123, 126, 157, 317];
    for number in 0..=1023 {
        for args in [[0; 6], [u64::MAX; 6], [1, 2, 3, 4, 5, 6], [1; 6], [9; 6], [0, 9, 9, 9, 9, 9]]
        {
            let (before, now) = (asked.verdict(number, args), alone.verdict(number, args));
            let expected = match before {
                NOTIFY if files.contains(&number) || own.contains(&number) => ALLOW,
                NOTIFY if sockets.contains(&number) => EACCES,
                NOTIFY => EPERM,
                other => other,
            };
            assert_eq!(now, expected, "{number} {args:x?}");
        }
    }
}

#[test]
fn other_architectures_and_x32_are_killed() {
    for variant in all_variants() {
        let Filter(program) = Filter::new(variant);
        for number in (0..=1023).flat_map(|number| [number, number | 0x4000_0000]).chain([u32::MAX])
        {
            for args in [[0; 6], [u64::MAX; 6]] {
                let foreign = run(&program, &Call { number, arch: I386, args });
                assert_eq!(foreign, Ok(KILL), "i386 {number:#x}");
                if number & 0xc000_0000 == 0x4000_0000 {
                    let x32 = run(&program, &Call { number, arch: X86_64, args });
                    assert_eq!(x32, Ok(KILL), "x32 {number:#x}");
                }
            }
        }
        for arch in [0, X86_64 ^ 1, X86_64 & !0x8000_0000, X86_64 & !0x4000_0000, 0xc000_00b7] {
            assert_eq!(
                run(&program, &Call { number: 0, arch, args: [0; 6] }),
                Ok(KILL),
                "{arch:#x}"
            );
        }
    }
}

#[test]
fn numbers_that_no_abi_has_do_not_exist() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for number in [
            471,
            511,
            512,
            547,
            1024,
            0x3fff_ffff,
            0x8000_0000,
            0xc000_0000,
            u32::MAX - 1,
            u32::MAX,
        ] {
            assert_eq!(filter.verdict(number, [0; 6]), ENOSYS, "{number:#x}");
        }
    }
}

#[test]
fn socket_allows_streams_and_route_queries_only() {
    let protocols = [0, 1, 6, 17, 132, 136, 255, 256, 262, 0xffff_ffff];
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for domain in 0..=50 {
            for kind in 0..=15 {
                for protocol in protocols {
                    for flags in [0, 0x800, 0x80000, 0x80800] {
                        let free = match (domain, kind, protocol) {
                            (1, 1 | 5, 0 | 1) => true,
                            (2 | 10, 1, 0 | 6) => true,
                            (2 | 10, _, _) => variant.contains(OPEN),
                            (16, 2 | 3, 0) => true,
                            _ => false,
                        };
                        let expected = if free { ALLOW } else { NOTIFY };
                        let args = [domain, kind | flags, protocol, 0, 0, 0];
                        assert_eq!(filter.int_verdict(41, args), expected, "{variant:?} {args:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_broker_makes_all_sockets_or_is_asked_for_the_refused_ones() {
    let made = Variant::MAKES_SOCKETS | Variant::ALL_UNIX_SOCKETS | OPEN;
    for domain in [1, 2, 10, 16, 40] {
        for kind in [1, 2, 3, 5] {
            assert_eq!(Filter::new(made).int_verdict(41, [domain, kind, 0, 0, 0, 0]), NOTIFY);
        }
    }
    let alone = Variant::ALONE | Variant::MAKES_SOCKETS;
    assert_eq!(Filter::new(alone).int_verdict(41, [1, 1, 0, 0, 0, 0]), ALLOW);
    assert_eq!(Filter::new(alone).int_verdict(41, [40, 1, 0, 0, 0, 0]), EACCES);
}

#[test]
fn socketpair_allows_connected_unix_pairs_only() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for domain in 0..=50 {
            for kind in 0..=15 {
                for protocol in [0, 1, 6, 17] {
                    for flags in [0, 0x800, 0x80000, 0x80800] {
                        let free = domain == 1 && (kind == 1 || kind == 5) && protocol <= 1;
                        let expected = if free { ALLOW } else { NOTIFY };
                        let args = [domain, kind | flags, protocol, 0x7fff_0000_1234, 0, 0];
                        assert_eq!(filter.int_verdict(53, args), expected, "{args:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn fast_open_is_refused_where_the_network_is() {
    for (number, flags) in [(44, 3), (46, 2), (307, 3)] {
        for bit in 0..32 {
            let mut args = [7; 6];
            args[flags] = 1 << bit | 0x4000;
            let expected = if bit == 29 { EOPNOTSUPP } else { ALLOW };
            assert_eq!(
                Filter::new(CLOSED).int_verdict(number, args),
                expected,
                "{number} bit {bit}"
            );
            assert_eq!(Filter::new(OPEN).int_verdict(number, args), ALLOW, "{number} bit {bit}");
        }
    }
}

#[test]
fn listen_is_judged_where_the_network_is() {
    assert_eq!(Filter::new(CLOSED).int_verdict(50, [3, 128, 0, 0, 0, 0]), NOTIFY);
    assert_eq!(Filter::new(OPEN).int_verdict(50, [3, 128, 0, 0, 0, 0]), ALLOW);
}

#[test]
fn a_port_is_not_shared_with_other_programs() {
    let share = [3, 1, 15, 0x7fff_0000_1234, 4, 0];
    assert_eq!(Filter::new(LOCAL).int_verdict(54, share), ENOPROTOOPT);
    assert_eq!(Filter::new(LOCAL).int_verdict(54, [3, 1, 2, 0x7fff_0000_1234, 4, 0]), ALLOW);
    let put_off = [3, 6, 30, 0x7fff_0000_1234, 4, 0];
    assert_eq!(Filter::new(LOCAL).int_verdict(54, put_off), ENOPROTOOPT);
    assert_eq!(Filter::new(CLOSED).int_verdict(54, put_off), ALLOW);
    // Where nothing can be bound, or everything may be, it means nothing.
    assert_eq!(Filter::new(CLOSED).int_verdict(54, share), ALLOW);
    let open = LOCAL | OPEN;
    assert_eq!(Filter::new(open).int_verdict(54, share), ALLOW);
}

#[test]
fn giving_up_a_port_is_judged_where_ports_are_bound() {
    for (how, expected) in [(0, NOTIFY), (1, ALLOW), (2, NOTIFY), (3, NOTIFY)] {
        assert_eq!(Filter::new(LOCAL).int_verdict(48, [3, how, 0, 0, 0, 0]), expected);
        assert_eq!(Filter::new(CLOSED).int_verdict(48, [3, how, 0, 0, 0, 0]), ALLOW);
        let open = LOCAL | OPEN;
        assert_eq!(Filter::new(open).int_verdict(48, [3, how, 0, 0, 0, 0]), ALLOW);
    }
}

#[test]
fn datagram_sockets_are_free_only_where_all_unix_sockets_are() {
    let all = Variant::ALL_UNIX_SOCKETS;
    for number in [41, 53] {
        let args = [1, 2 | 0x80800, 0, 0, 0, 0];
        assert_eq!(Filter::new(all).int_verdict(number, args), ALLOW);
        assert_eq!(Filter::new(CLOSED).int_verdict(number, args), NOTIFY);
        assert_eq!(Filter::new(all).int_verdict(number, [2, 2, 0, 0, 0, 0]), NOTIFY);
    }
}

#[test]
fn no_address_is_sent_to_unseen_where_datagram_sockets_are_listed() {
    const FASTOPEN: u64 = 0x2000_0000;
    let address = 0x7fff_0000_0000;
    for network in [CLOSED, OPEN] {
        let listed = Variant::UNIX_DATAGRAMS | network;
        let filter = Filter::new(listed);
        for number in [41, 53] {
            assert_eq!(filter.int_verdict(number, [1, 2 | 0x80800, 0, 0, 0, 0]), ALLOW);
            // SOCK_RAW is SOCK_DGRAM by another name (unix_create in net/unix/af_unix.c).
            assert_eq!(filter.int_verdict(number, [1, 3, 0, 0, 0, 0]), NOTIFY);
        }
        for (flags, expected) in [(0, NOTIFY), (0x4040, NOTIFY), (FASTOPEN, EOPNOTSUPP)] {
            assert_eq!(filter.int_verdict(46, [3, address, flags, 0, 0, 0]), expected);
            assert_eq!(filter.int_verdict(307, [3, address, 4, flags, 0, 0]), expected);
            assert_eq!(filter.verdict(44, [3, 0x1000, 4, flags, address, 110]), expected);
            // Half a pointer is one.
            for half in [1, 1 << 32, 1 << 63] {
                assert_eq!(filter.verdict(44, [3, 0x1000, 4, flags, half, 0]), expected);
            }
        }
        // send(2), whatever length it is told for the address that it has not.
        assert_eq!(filter.verdict(44, [3, 0x1000, 4, 0x4040, 0, 110]), ALLOW);
        assert_eq!(filter.verdict(44, [3, 0x1000, 4, FASTOPEN, 0, 0]), EOPNOTSUPP);
    }
    let all = Variant::UNIX_DATAGRAMS | Variant::ALL_UNIX_SOCKETS;
    for filter in [Filter::new(all), Filter::new(CLOSED)] {
        assert_eq!(filter.int_verdict(46, [3, address, 0, 0, 0, 0]), ALLOW);
        assert_eq!(filter.verdict(44, [3, 0x1000, 4, 0, address, 110]), ALLOW);
    }
}

#[test]
fn source_routes_cannot_be_set() {
    for level in [0, 1, 6, 17, 41, 255, 270] {
        for option in 0..=255 {
            let args = [3, level, option, 0, 0, 0];
            let refused =
                matches!((level, option), (0, 4) | (1, 25 | 62) | (41, 6 | 54 | 55 | 57 | 59));
            let expected = if refused { EPERM } else { ALLOW };
            assert_eq!(Filter::new(CLOSED).int_verdict(54, args), expected, "{args:?}");
            assert_eq!(Filter::new(OPEN).int_verdict(54, args), ALLOW, "{args:?}");
        }
    }
}

#[test]
fn ioctls_cannot_type_or_change_files() {
    // TIOCSTI TIOCLINUX TIOCSETD; SETFLAGS SETVERSION and their 32-bit twins; EXT4 SETVERSION, MOVE_EXT,
    // RESIZE_FS, SWAP_BOOT; encryption policy (which the header calls a read), keys; verity; FSSETXATTR,
    // FIFREEZE, FITHAW, FITRIM, XFS shutdown (a read too); Btrfs subvolumes and snapshots, label, defrag;
    // FAT attributes; F2FS; OCFS2 reflink, which takes paths; bcachefs subvolumes; CIFS; Ceph; ZFS.
    let refused = [
        0x5412,
        0x541c,
        0x5423,
        0x4008_6602,
        0x4004_6602,
        0x4008_7602,
        0x4004_7602,
        0x4004_6604,
        0xc028_660f,
        0x4008_6610,
        0x6611,
        0x800c_6613,
        0x4010_6614,
        0xc050_6617,
        0xc040_6618,
        0xc040_6619,
        0x4080_6685,
        0x401c_5820,
        0xc004_5877,
        0xc004_5878,
        0xc018_5879,
        0x8004_587d,
        0x5000_9401,
        0x5000_940e,
        0x5000_9417,
        0x5000_9418,
        0x5000_940f,
        0x5000_943f,
        0x4008_941a,
        0xc0c8_9425,
        0x5000_9402,
        0x4008_9413,
        0x4100_9432,
        0x4004_7211,
        0xf501,
        0x4018_6f04,
        0x4020_bc10,
        0x4004_cf03,
        0x4010_9702,
        0x4008_8302,
    ];
    // TCGETS TCSETS TIOCGWINSZ TIOCSPGRP FIONREAD FIONBIO FIOCLEX, SIOCGIFCONF SIOCGIFFLAGS, FIBMAP FIGETBSZ,
    // GETFLAGS GETVERSION FSGETXATTR FIEMAP MEASURE_VERITY GETFSLABEL, reflink and dedupe, pty and VFAT queries.
    let free = [
        0x5401,
        0x5402,
        0x5413,
        0x5410,
        0x541b,
        0x5421,
        0x5451,
        0x8912,
        0x8913,
        1,
        2,
        0x8008_6601,
        0x8008_7601,
        0x8008_6603,
        0x801c_581f,
        0xc020_660b,
        0xc004_6686,
        0x8100_9431,
        0x4004_9409,
        0x4020_940d,
        0xc018_9436,
        0x8004_5430,
        0x5441,
        0x8004_7213,
        0,
    ];
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for command in refused {
            assert_eq!(filter.int_verdict(16, [1, command, 7, 0, 0, 0]), EPERM, "{command:#x}");
        }
        for command in free {
            assert_eq!(filter.int_verdict(16, [1, command, 7, 0, 0, 0]), ALLOW, "{command:#x}");
        }
    }
}

#[test]
fn opens_are_notified_when_they_write_or_reads_are_reported() {
    const O_PATH: u64 = 0o10_000_000;
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for (number, position) in [(2, 1), (257, 2)] {
            for access in 0..4 {
                for bit in 2..64 {
                    for path in [0, O_PATH] {
                        let flags: u64 = access | 1 << bit | path;
                        let low = flags & 0xffff_ffff;
                        let writes = access != 0 || low & (0o100 | 0o1000 | 0o20_000_000) != 0;
                        let expected = if low & O_PATH == 0
                            && (writes || variant.contains(Variant::REPORT_READS))
                        {
                            NOTIFY
                        } else {
                            ALLOW
                        };
                        let mut args = [1, 2, 3, 4, 5, 6];
                        args[position] = flags;
                        assert_eq!(
                            filter.int_verdict(number, args),
                            expected,
                            "{flags:#o} {variant:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn namespaces_cannot_be_made() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for bit in 0..32 {
            let flags = 1 << bit;
            // CLONE_NEWNS; NEWCGROUP to NEWNET
            let namespace = bit == 17 || (25..=30).contains(&bit);
            let expected = if namespace { EPERM } else { ALLOW };
            assert_eq!(
                filter.int_verdict(56, [flags | 17, 0, 0, 0, 0, 0]),
                expected,
                "clone {flags:#x}"
            );
            // unshare takes VM FS FILES SIGHAND, THREAD, SYSVSEM
            let free = matches!(bit, 8..=11 | 16 | 18);
            let expected = if free { ALLOW } else { EPERM };
            assert_eq!(
                filter.int_verdict(272, [flags, 0, 0, 0, 0, 0]),
                expected,
                "unshare {flags:#x}"
            );
        }
        // What glibc passes for a thread, posix_spawn and fork.
        for flags in [0x3d_0f00, 0x4111, 0x0120_0011] {
            assert_eq!(filter.int_verdict(56, [flags, 0, 0, 0, 0, 0]), ALLOW, "clone {flags:#x}");
        }
        assert_eq!(filter.int_verdict(272, [0, 0, 0, 0, 0, 0]), ALLOW);
    }
}

#[test]
fn no_second_listener() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for operation in 0..=4 {
            for flags in 0..=0x7f {
                let expected = if flags & 8 == 0 { NOTIFY } else { EPERM };
                assert_eq!(filter.int_verdict(317, [operation, flags, 0, 0, 0, 0]), expected);
            }
        }
    }
}

#[test]
fn other_processes_are_the_brokers_business() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for pid in [0, 1, 2, 4711, 0xffff_ffff] {
            let own = if pid == 0 { ALLOW } else { NOTIFY };
            for number in [142, 144, 203, 314] {
                assert_eq!(filter.int_verdict(number, [pid, 1, 2, 3, 4, 5]), own, "{number} {pid}");
            }
            for number in [256, 279] {
                let own = if pid == 0 { ALLOW } else { EPERM };
                assert_eq!(filter.int_verdict(number, [pid, 1, 2, 3, 4, 5]), own, "{number} {pid}");
            }
            for which in 0..=4 {
                let setpriority = if (which, pid) == (0, 0) { ALLOW } else { NOTIFY };
                assert_eq!(filter.int_verdict(141, [which, pid, 5, 0, 0, 0]), setpriority);
                let ioprio_set = if (which, pid) == (1, 0) { ALLOW } else { NOTIFY };
                assert_eq!(filter.int_verdict(251, [which, pid, 5, 0, 0, 0]), ioprio_set);
            }
            // The pointer counts in full: a limit beyond 4 GiB with zeros below is no null pointer.
            for limit in [0, 1, 0x1_0000_0000, 0x7fff_ffff_0000_0000, u64::MAX] {
                for garbage in [0, GARBAGE] {
                    let expected = if pid == 0 || limit == 0 { ALLOW } else { NOTIFY };
                    let args = [pid | garbage, 7 | garbage, limit, 1, 0, 0];
                    assert_eq!(filter.verdict(302, args), expected, "{args:x?}");
                }
            }
        }
    }
}

#[test]
fn no_leases_or_watches_on_files_of_others() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        // DUPFD to OFD_SETLKW; SETLEASE to ADD_SEALS, GET_RW_HINT and on.
        for command in (0..=40).chain(1020..=1060) {
            let refused = matches!(command, 1024 | 1026 | 1040);
            let expected = if refused { EPERM } else { ALLOW };
            assert_eq!(filter.int_verdict(72, [3, command, 1, 0, 0, 0]), expected, "{command}");
        }
    }
}

#[test]
fn whoever_wants_to_be_traced_asks_the_broker() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        // PEEKTEXT to SYSCALL, GETREGS, SETOPTIONS and on, SEIZE, INTERRUPT.
        for request in (0..=33).chain(0x4200..=0x4210) {
            let expected = if request == 0 { NOTIFY } else { ALLOW };
            assert_eq!(filter.int_verdict(101, [request, 7, 0, 0, 0, 0]), expected, "{request}");
        }
    }
}

#[test]
fn the_listener_can_be_handed_over() {
    // sendmsg, close, execve and exit_group are what the launcher does after the filter is in force.
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for (number, args) in
            [(46, [5, 1, 0x4000, 0, 0, 0]), (3, [5; 6]), (59, [5; 6]), (231, [5; 6])]
        {
            assert_eq!(filter.verdict(number, args), ALLOW, "{number}");
        }
    }
}

#[test]
fn prctl_is_free_but_for_what_changes_capabilities_and_filters() {
    let filter = Filter::new(CLOSED);
    for (operation, expected) in [
        (22, NOTIFY),
        (24, NOTIFY),
        (28, NOTIFY),
        (47, NOTIFY),
        (1, ALLOW),
        (4, ALLOW),
        (15, ALLOW),
        (38, ALLOW),
    ] {
        assert_eq!(filter.int_verdict(157, [operation, 0, 0, 0, 0, 0]), expected, "{operation}");
    }
}

#[test]
fn the_table_names_every_call_once_with_a_reason() {
    let mut numbers: Vec<_> =
        table::ROWS.iter().flat_map(|row| row.calls).map(|call| (call.number, call.name)).collect();
    numbers.sort_unstable();
    let all: Vec<_> = syscalls::ALL.iter().map(|call| (call.number, call.name)).collect();
    assert_eq!(numbers, all);
    assert!(all.iter().map(|&(number, _)| number).eq((0..=334).chain(424..=470)));
    for row in table::ROWS {
        assert!((10..=120).contains(&row.why.len()), "{}", row.why);
    }
}

#[test]
fn the_table_can_be_read() {
    let text = |name: &str, variant: Variant| {
        let entry = describe(variant).find(|entry| entry.call.name == name).unwrap();
        (entry.call.number, entry.what)
    };
    assert_eq!(describe(CLOSED).count(), 382);
    assert_eq!(text("read", CLOSED), (0, "allowed".into()));
    assert_eq!(text("listen", CLOSED), (50, "the broker decides".into()));
    assert_eq!(text("listen", OPEN), (50, "allowed".into()));
    assert_eq!(
        text("socketpair", CLOSED).1,
        "allowed if domain is 0x1 and type & 0xf is 0x1 or 0x5 and protocol is 0x0 or 0x1; else the broker decides"
    );
}

#[test]
fn program_is_short_and_shaped_as_the_kernel_wants_it() {
    for variant in all_variants() {
        let Filter(program) = Filter::new(variant);
        assert!(program.len() < 300, "{}", program.len());
        assert_eq!(program.last().map(|last| last.code), Some(0x06));
        let first = Instruction { code: 0x20, jt: 0, jf: 0, k: 4 };
        assert_eq!(program[0], first);
        assert_eq!(first.to_bytes(), [0x20, 0, 0, 0, 4, 0, 0, 0]);
    }
}

/// A table with one row a number, which allows the call when its first argument is the number.
fn long_table(count: u32) -> Vec<Row> {
    let row = |number| {
        let values: &[u32] = Vec::leak(vec![number]);
        let all: &[Test] =
            Vec::leak(vec![Test::Low { arg: Arg(0, "number"), mask: u32::MAX, values }]);
        Row {
            calls: Vec::leak(vec![Syscall { name: "call", number }]),
            cases: Vec::leak(vec![Case { when: When::Always, all, then: Verdict::Allow }]),
            otherwise: Verdict::Notify,
            alone: Verdict::Kill,
            why: "a test",
        }
    };
    (0..count).map(row).collect()
}

#[test]
fn programs_longer_than_a_comparison_can_jump_are_right() {
    let program = Filter(build(&long_table(400), CLOSED).unwrap());
    assert!(program.0.len() > 3 * 255);
    for number in 0..471 {
        for arg in [0, number, number + 1, 399, 470] {
            let expected = match number {
                400.. => ENOSYS,
                _ if arg == number => ALLOW,
                _ => NOTIFY,
            };
            assert_eq!(
                program.int_verdict(number, [arg.into(), 0, 0, 0, 0, 0]),
                expected,
                "{number} {arg}"
            );
        }
    }
}

#[test]
fn contradictory_and_unreviewed_rows_are_errors() {
    let table = [long_table(3), long_table(1)].concat();
    assert_eq!(build(&table, CLOSED), Err(Error::Duplicate("call")));
    assert_eq!(build(&long_table(472), CLOSED), Err(Error::Unreviewed("call")));
}

/// The table as documentation. Run with `LANDSTRIP_WRITE_TABLE=1` to write it anew.
#[test]
fn the_documented_table_is_the_one_in_force() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../man/system-calls.md");
    let variant = CLOSED;
    let mut text = "# System calls\n\n\
        What the filter does with each system call of x86-64 when neither `network.allowNetwork` nor\n\
        `filesystem.denyRead` is set. Generated from the table that the filter is built from; what is\n\
        not listed is refused with ENOSYS.\n\n\
        | call | number | what happens | why |\n|---|---|---|---|\n"
        .to_owned();
    for entry in describe(variant) {
        let (call, what, why) = (entry.call, entry.what, entry.why);
        text.push_str(&format!("| {} | {} | {what} | {why} |\n", call.name, call.number));
    }
    if std::env::var_os("LANDSTRIP_WRITE_TABLE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let documented = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(documented == text, "run this test once with LANDSTRIP_WRITE_TABLE=1");
}
