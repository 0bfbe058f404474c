//! The system calls by name, those of all architectures: crates lag behind the kernel, and a call that
//! is not known here cannot be judged.

use crate::Arch;
use crate::arch::first_calls;
use std::fmt;

/// The number of pidfd_send_signal(2). It and all calls since have the same number everywhere (Linux 5.1).
pub(crate) const FIRST_OF_ALL: u32 = 424;
/// The highest number whose meaning was looked at (Linux 7.3); later ones do not exist for the command.
pub(crate) const NEWEST: u32 = 472;

macro_rules! syscalls {
    ($($name:ident,)*) => {
        /// A system call, with the name that the kernel's table gives it; the newest in the order of their numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        #[allow(non_camel_case_types, missing_docs, reason = "the kernel's names, and its documentation")]
        pub enum Syscall {
            $($name,)*
        }

        impl Syscall {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// As in the kernel's table.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

/// Those of all architectures, of which x86-64 has the most, and those since.
macro_rules! with_newest {
    ($($first:literal: $($name:ident),*;)*) => {
        syscalls! {
            $($($name,)*)*
            pidfd_send_signal, io_uring_setup, io_uring_enter, io_uring_register, open_tree, move_mount,
            fsopen, fsconfig, fsmount, fspick, pidfd_open, clone3, close_range, openat2, pidfd_getfd,
            faccessat2, process_madvise, epoll_pwait2, mount_setattr, quotactl_fd, landlock_create_ruleset,
            landlock_add_rule, landlock_restrict_self, memfd_secret, process_mrelease, futex_waitv,
            set_mempolicy_home_node, cachestat, fchmodat2, map_shadow_stack, futex_wake, futex_wait,
            futex_requeue, statmount, listmount, lsm_get_self_attr, lsm_set_self_attr, lsm_list_modules,
            mseal, setxattrat, getxattrat, listxattrat, removexattrat, open_tree_attr, file_getattr,
            file_setattr, listns, rseq_slice_yield, fchroot,
        }
    };
}

first_calls!(with_newest);

impl Syscall {
    /// The call that has this number where this program runs.
    #[must_use]
    pub fn of(number: i32) -> Option<Self> {
        /// Numbers are looked up for every notification.
        static CALLS: [Option<Syscall>; NEWEST as usize + 1] = Arch::NATIVE.calls();
        CALLS.get(usize::try_from(number).ok()?).copied().flatten()
    }
}

impl fmt::Display for Syscall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
