//! The parts of Landlock by name, and what to say of a kernel that lacks them.

use kernel::features::{Features, Missing};
use rustix::io::Errno;

/// Each with its name and the first kernel that has it, in the order in which they came.
pub(crate) const PARTS: [(Features, &str, &str); 6] = [
    (Features::FILES, "rules for files", "5.13"),
    (Features::MOVES, "moves between directories", "5.19"),
    (Features::TRUNCATION, "truncation", "6.2"),
    (Features::TCP, "rules for TCP", "6.7"),
    (Features::DEVICES, "control of devices", "6.10"),
    (Features::SCOPES, "scopes for signals and abstract sockets", "6.12"),
];

/// Why nothing can run.
pub(crate) fn why(missing: &Missing) -> String {
    match missing {
        Missing::Landlock(Errno::NOSYS) => {
            "it is built without Landlock (CONFIG_SECURITY_LANDLOCK); Linux 6.1 with it is needed"
                .to_owned()
        }
        Missing::Landlock(Errno::OPNOTSUPP) => {
            "Landlock is not enabled at boot: landlock must be among lsm= of its command line"
                .to_owned()
        }
        Missing::Landlock(Errno::PERM) => {
            "what surrounds this program, such as a container's seccomp profile, refuses Landlock"
                .to_owned()
        }
        Missing::Landlock(errno) => format!("Landlock says {}", std::io::Error::from(*errno)),
        Missing::Features(missing) => {
            let missing = PARTS.iter().filter(|(part, ..)| missing.contains(*part));
            let named = missing.map(|(_, name, since)| format!("{name} (Linux {since})"));
            format!("its Landlock lacks {}", named.collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_kernel_that_has_it() {
        assert_eq!(
            why(&Missing::Features(Features::MOVES | Features::FILES)),
            "its Landlock lacks rules for files (Linux 5.13), moves between directories (Linux 5.19)"
        );
        assert!(why(&Missing::Landlock(Errno::NOSYS)).contains("CONFIG_SECURITY_LANDLOCK"));
        assert!(why(&Missing::Landlock(Errno::OPNOTSUPP)).contains("lsm="));
    }

    #[test]
    fn each_part_has_a_name() {
        let named = PARTS.iter().map(|(part, ..)| *part).collect::<Features>();
        assert_eq!(named, Features::all());
    }
}
