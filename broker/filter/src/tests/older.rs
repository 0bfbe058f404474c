//! What is different where Landlock lacks something.

use super::*;

pub(super) const ENOTTY: u32 = 0x0005_0019;

const SCOPES: Variant = Variant::NO_SCOPES;
const DEVICES: Variant = SCOPES.union(Variant::NO_DEVICES);
const TRUNCATION: Variant = DEVICES.union(Variant::NO_TRUNCATION);

#[rustfmt::skip]
const SIGNALS: &[Syscall] = &[
    kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal, fork, vfork,
];

#[test]
fn nothing_else_changes_on_older_kernels() {
    let arguments = [[0; 6], [u64::MAX; 6], [1, 2, 3, 4, 5, 6], [GARBAGE; 6]];
    for (&arch, older) in
        Arch::ALL.iter().flat_map(|a| [SCOPES, DEVICES, TRUNCATION].map(|v| (a, v)))
    {
        let can_be = |variant: &Variant| Variant::every().any(|other| other == *variant | older);
        for variant in all_variants().filter(can_be) {
            let plain = Program::compile(arch, variant).unwrap();
            let program = Program::compile(arch, variant | older).unwrap();
            assert!(program.instructions.len() < 428, "{}", program.instructions.len());
            let calls = arch.calls();
            for number in (0..=1023).chain([0x3fff_ffff, 0x4000_0000, u32::MAX]) {
                let call = calls.get(number as usize).copied().flatten();
                for args in arguments {
                    let data = Call { number, arch: arch.audit, args };
                    let before = run(&plain.instructions, &data);
                    let expected = match call {
                        Some(call) if SIGNALS.contains(&call) => Ok(NOTIFY),
                        Some(clone | fcntl | ioctl) => continue,
                        _ => before,
                    };
                    let verdict = run(&program.instructions, &data);
                    assert_eq!(verdict, expected, "{} {number} {older:?} {args:x?}", arch.name);
                }
            }
        }
    }
}

#[test]
fn processes_are_made_with_the_brokers_leave_and_threads_without() {
    let filter = Filter::new(SCOPES);
    for bit in 0..32 {
        let namespace = bit == 17 || (25..=30).contains(&bit);
        for thread in [0, 0x1_0000] {
            let flags = 1 << bit | thread | 17;
            let expected = match (namespace, flags & 0x1_0000 != 0) {
                (false, true) => ALLOW,
                _ => NOTIFY,
            };
            assert_eq!(filter.int_verdict(clone, [flags, 0, 0, 0, 0, 0]), expected, "{flags:#x}");
        }
    }
}

#[test]
fn devices_are_not_controlled_where_landlock_does_not_see_it() {
    let filter = Filter::new(DEVICES);
    // TCGETS TIOCGWINSZ FIONREAD FIONBIO FIOCLEX, SIOCGIFCONF, FIGETBSZ, GETFLAGS, FICLONE, RNDGETENTCNT,
    // NS_GET_USERNS.
    for command in [
        0x5401,
        0x5413,
        0x541b,
        0x5421,
        0x5451,
        0x8912,
        2,
        0x8008_6601,
        0x4004_9409,
        0x8004_5200,
        0xb701,
    ] {
        assert_eq!(filter.int_verdict(ioctl, [3, command, 7, 0, 0, 0]), ALLOW, "{command:#x}");
    }
    // TIOCSTI, FS_IOC_SETFLAGS, Btrfs.
    for command in [0x5412, 0x4008_6602, 0x5000_9401] {
        assert_eq!(filter.int_verdict(ioctl, [3, command, 7, 0, 0, 0]), EPERM, "{command:#x}");
    }
    // Disks, SCSI, loops, DRM, KVM, sound, USB, video, input, memory of others.
    for command in [
        0x1260,
        0x2285,
        0x4c00,
        0xc010_6400,
        0xae00,
        0x4100,
        0x5500,
        0x5600,
        0x4500,
        0x7000,
        0xff0b,
    ] {
        assert_eq!(filter.int_verdict(ioctl, [3, command, 7, 0, 0, 0]), ENOTTY, "{command:#x}");
    }
}

#[test]
fn what_can_be_missing_is_what_came_last() {
    let every: Vec<_> = Variant::every().collect();
    for older in [SCOPES, DEVICES, TRUNCATION] {
        assert!(every.contains(&older) && every.contains(&(older | OPEN)));
        assert!(!every.contains(&(older | Variant::ALONE)));
    }
    assert!(!every.contains(&Variant::NO_TRUNCATION));
    assert!(!every.contains(&Variant::NO_DEVICES));
    assert!(every.contains(&Variant::ALONE));
}
