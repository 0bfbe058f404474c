//! Files.

use super::older::ENOTTY;
use super::*;

#[test]
fn ioctls_cannot_type_or_change_files() {
    // TIOCSTI TIOCLINUX TIOCSETD TIOCSSOFTCAR; SETFLAGS SETVERSION and their 32-bit twins; EXT4 SETVERSION, MOVE_EXT,
    // RESIZE_FS, SWAP_BOOT; encryption policy (which the header calls a read), keys; verity; FSSETXATTR,
    // FIFREEZE, FITHAW, FITRIM, XFS shutdown (a read too); Btrfs subvolumes and snapshots, label, defrag, dedupe;
    // FAT attributes; F2FS; OCFS2 reflink, which takes paths; bcachefs subvolumes; CIFS; Ceph; ZFS.
    let refused = [
        0x5412,
        0x541c,
        0x5423,
        0x541a,
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
        0xc018_9436,
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
    // TCGETS TIOCGWINSZ FIONREAD FIONBIO FIOCLEX, SIOCGIFCONF SIOCGIFFLAGS, FIBMAP FIGETBSZ,
    // GETFLAGS GETVERSION FSGETXATTR FIEMAP MEASURE_VERITY GETFSLABEL, reflink, pty and VFAT queries.
    let free = [
        0x5401,
        0x5413,
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
        0x8004_5430,
        0x5441,
        0x8004_7213,
        0,
    ];
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for command in refused {
            assert_eq!(filter.int_verdict(ioctl, [1, command, 7, 0, 0, 0]), EPERM, "{command:#x}");
        }
        for command in free {
            assert_eq!(filter.int_verdict(ioctl, [1, command, 7, 0, 0, 0]), ALLOW, "{command:#x}");
        }
    }
}

#[test]
fn what_reaches_others_on_a_terminal_is_the_brokers_business() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        // TIOCEXCL TIOCNXCL TIOCSPGRP TIOCSWINSZ
        for command in [0x540c, 0x540d, 0x5410, 0x5414] {
            let verdict = filter.int_verdict(ioctl, [1, command, 7, 0, 0, 0]);
            assert_eq!(verdict, NOTIFY, "{command:#x}");
        }
        // TCXONC with TCOOFF to TCION; TIOCGPGRP, which only asks.
        for (command, argument, expected) in
            [(0x540a, 0, NOTIFY), (0x540a, 1, ALLOW), (0x540a, 3, ALLOW), (0x540f, 7, NOTIFY)]
        {
            let verdict = filter.int_verdict(ioctl, [1, command, argument, 0, 0, 0]);
            assert_eq!(verdict, expected, "{command:#x} {argument}");
        }
    }
    // TIOCSCTTY; TCSETS, TCSETA, TCSETS2 with what follows them, TCFLSH. KDSKBMODE, KDSETMODE, VT_SETMODE, VT_LOCKSWITCH;
    // VIDIOC_QUERYCAP, which has the same letter.
    let of_broker = [0x540e, 0x5402, 0x5404, 0x5406, 0x5408, 0x402c_542b, 0x402c_542d, 0x540b];
    let of_broker = of_broker.map(|command| (command, NOTIFY, ALLOW));
    let consoles = [0x4b45, 0x4b3a, 0x5602, 0x560b].map(|command| (command, ENOTTY, ENOTTY));
    let others = [(0x8068_5600, ALLOW, ALLOW), (0x540f, NOTIFY, ALLOW)];
    for (command, expected, alone) in of_broker.into_iter().chain(consoles).chain(others) {
        let asked = all_variants().map(|variant| (variant, expected));
        for (variant, expected) in asked.chain([(Variant::ALONE, alone)]) {
            let verdict = Filter::new(variant).int_verdict(ioctl, [1, command, 0, 0, 0, 0]);
            assert_eq!(verdict, expected, "{command:#x}");
        }
    }
}

#[test]
fn opens_are_notified_when_they_write_or_reads_are_reported() {
    const O_PATH: u64 = 0o10_000_000;
    const O_RDWR: u64 = 0o2;
    const O_NOCTTY: u64 = 0o400;
    // Of both architectures.
    const O_DIRECTORY: u64 = 0o240_000;
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for (call, position) in [(open, 1), (openat, 2)] {
            for mode in 0..4 {
                for bit in 2..64 {
                    for path in [0, O_PATH] {
                        let flags: u64 = mode | 1 << bit | path;
                        let low = flags & 0xffff_ffff;
                        let writes = mode != 0 || low & (0o100 | 0o1000 | 0o20_000_000) != 0;
                        let lists = low & O_DIRECTORY != 0;
                        // As grep(1) opens what it is told to search.
                        let may_list = lists || low == O_NOCTTY;
                        let reads = variant.contains(Variant::REPORT_READS)
                            || variant.contains(Variant::LISTINGS) && may_list;
                        let changes = if variant.contains(Variant::CHANGES_LEFT) {
                            mode & O_RDWR != 0 || writes && lists
                        } else {
                            writes
                        };
                        let is_notified = low & O_PATH == 0 && (changes || reads);
                        let expected = match (low & O_PATH, mode) {
                            // It is no access for Landlock.
                            (0, 3) => EACCES,
                            _ if is_notified => NOTIFY,
                            _ => ALLOW,
                        };
                        let mut args = [1, 2, 3, 4, 5, 6];
                        args[position] = flags;
                        assert_eq!(
                            filter.int_verdict(call, args),
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
fn no_file_is_made_that_lends_the_rights_of_its_owner() {
    const O_PATH: u64 = 0o10_000_000;
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for mode in [0o4755, 0o2755, 0o6000, 0o4000, 0o10_2644, 0o755, 0o1777, 0] {
            let sets_id = mode & 0o6000 != 0;
            for (call, at) in [(open, 1), (openat, 2)] {
                for flags in [0, 1, 0o100, 0o20_200_002, 0o20_000_002, 0o1101, 0o100 | O_PATH] {
                    let makes = flags & 0o20_000_100 != 0 && flags & O_PATH == 0;
                    let mut args = [1, 2, 3, 4, 5, 6];
                    (args[at], args[at + 1]) = (flags, mode);
                    let verdict = filter.int_verdict(call, args);
                    assert_eq!(verdict == EPERM, makes && sets_id, "{call} {flags:#o} {mode:#o}");
                }
            }
            for (call, at) in [(creat, 1), (mknod, 1), (mknodat, 2)] {
                let mut args = [1, 2, 3, 4, 5, 6];
                args[at] = mode;
                assert_eq!(filter.int_verdict(call, args) == EPERM, sets_id, "{call} {mode:#o}");
            }
        }
    }
}

#[test]
fn no_leases_watches_or_hints_on_files_of_others() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        // DUPFD to OFD_SETLKW; SETLEASE to ADD_SEALS, GET_RW_HINT and on.
        for command in (0..=40).chain(1020..=1060) {
            let expected = match command {
                8 => NOTIFY,
                10 | 15 | 1024 | 1026 | 1036 | 1040 => EPERM,
                _ => ALLOW,
            };
            assert_eq!(filter.int_verdict(fcntl, [3, command, 1, 0, 0, 0]), expected, "{command}");
        }
    }
}

#[test]
fn what_holds_up_others_who_lock_a_file_is_the_brokers_business() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        // LOCK_SH, LOCK_EX and LOCK_UN, with LOCK_NB and without; LOCK_MAND, and what there is none of.
        for (operation, expected) in
            [(1, NOTIFY), (2, NOTIFY), (5, NOTIFY), (6, NOTIFY), (8, ALLOW), (12, ALLOW)]
        {
            assert_eq!(filter.int_verdict(flock, [3, operation, 0, 0, 0, 0]), expected);
        }
        for operation in [0, 3, 4, 9, 10, 24, 32, 96, 224] {
            assert_eq!(filter.int_verdict(flock, [3, operation, 0, 0, 0, 0]), NOTIFY);
        }
    }
    assert_eq!(Filter::new(Variant::ALONE).int_verdict(flock, [3, 2, 0, 0, 0, 0]), ALLOW);
}

#[test]
fn the_signal_of_an_owner_is_sigio() {
    let filter = Filter::new(CLOSED);
    assert_eq!(filter.int_verdict(fcntl, [0, 10, 0, 0, 0, 0]), ALLOW);
    for signal in [1, 9, 29, 34, 64] {
        assert_eq!(filter.int_verdict(fcntl, [0, 10, signal, 0, 0, 0]), EPERM, "{signal}");
    }
    // F_GETOWN F_GETSIG F_GETOWN_EX
    for command in [9, 11, 16] {
        assert_eq!(filter.int_verdict(fcntl, [0, command, 9, 0, 0, 0]), ALLOW, "{command}");
    }
}

#[test]
fn the_owner_of_a_descriptor_is_the_brokers_business() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        // F_SETOWN, F_SETFL with O_ASYNC and without, F_SETOWN_EX, and those that ask.
        for (command, argument, expected) in [
            (8, 0, NOTIFY),
            (8, 1, NOTIFY),
            (8, 0xffff_ffff, NOTIFY),
            (15, 0, EPERM),
            (15, 7, EPERM),
            (9, 7, ALLOW),
            (16, 7, ALLOW),
            (4, 0o20_000, NOTIFY),
            (4, 0xffff_ffff, NOTIFY),
            (4, !0o20_000 & 0xffff_ffff, ALLOW),
            (3, 0o20_000, ALLOW),
            (10, 9, EPERM),
        ] {
            let args = [3, command, argument, 0, 0, 0];
            assert_eq!(filter.int_verdict(fcntl, args), expected, "{command} {argument}");
        }
        // FIOSETOWN, SIOCSPGRP.
        for command in [0x8901, 0x8902] {
            assert_eq!(filter.int_verdict(ioctl, [3, command, 7, 0, 0, 0]), EPERM, "{command:#x}");
        }
        // FIOASYNC.
        assert_eq!(filter.int_verdict(ioctl, [3, 0x5452, 7, 0, 0, 0]), NOTIFY);
    }
}

#[test]
fn access_is_asked_of_the_broker_for_writing_and_where_reads_are_denied() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for (call, position) in [(access, 1), (faccessat, 2), (faccessat2, 2)] {
            for mode in 0..8 {
                let denied = Variant::REPORT_READS | Variant::LISTINGS;
                let reads = mode & 4 != 0 && variant.intersects(denied);
                let expected = if mode & 2 != 0 || reads { NOTIFY } else { ALLOW };
                let mut args = [1, 2, 3, 4, 5, 6];
                args[position] = mode;
                assert_eq!(filter.int_verdict(call, args), expected, "{call} {mode} {variant:?}");
            }
        }
    }
}

#[test]
fn changes_that_landlock_decides_are_notified_only_where_shared_memory_may_be_meant() {
    const AT_FDCWD: u64 = 0xffff_ff9c;
    for variant in all_variants() {
        let filter = Filter::new(variant);
        let left = variant.contains(Variant::CHANGES_LEFT);
        let told = if left { ALLOW } else { NOTIFY };
        for call in [creat, mkdir, mkdirat, mknod, mknodat, rmdir, symlink, symlinkat] {
            assert_eq!(filter.verdict(call, [1, 2, 3, 4, 5, 6]), told, "{call} {variant:?}");
        }
        for call in [unlink, rename, link, truncate] {
            assert_eq!(filter.verdict(call, [1, 2, 3, 4, 5, 6]), NOTIFY, "{call} {variant:?}");
        }
        for (call, directory, flags, expected) in [
            (unlinkat, AT_FDCWD, 0, NOTIFY),
            (unlinkat, 3, 0, told),
            (renameat, AT_FDCWD, 0, NOTIFY),
            (renameat2, 3, 1, told),
            (renameat2, AT_FDCWD, 1, NOTIFY),
            (linkat, 3, 0, told),
            (linkat, AT_FDCWD, 0, NOTIFY),
        ] {
            let args = [directory, 7, flags, 8, 0, 0];
            assert_eq!(filter.int_verdict(call, args), expected, "{call} {args:x?} {variant:?}");
        }
        // RENAME_WHITEOUT.
        for directory in [AT_FDCWD, 3] {
            let args = [directory, 7, 3, 8, 1 << 2, 0];
            assert_eq!(filter.int_verdict(renameat2, args), EPERM, "{args:x?} {variant:?}");
        }
    }
}
