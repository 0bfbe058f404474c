//! The proxy's own system call filter, after landlock(7): seccomp(2).
//!
//! What a serving proxy calls is allowed, everything else fails with EPERM: execute, create
//! processes and threads, open files, trace, read other processes' memory, make other sockets,
//! make memory executable, and whatever the kernel will have tomorrow. An error rather than death,
//! since a library's newer version may ask for something that it can do without.

use crate::error::ProxyError;
use libc::c_long;
use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::env::consts::ARCH;

/// Allowed whatever their arguments.
const PLAIN: &[c_long] = &[
    // Descriptors that it has: of sockets, and of tokio's epoll.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_connect,
    // Landlock refuses TCP, of which nothing listens in any case; UDP is for asking name servers.
    libc::SYS_bind,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_shutdown,
    // Memory, beside mmap and mprotect below.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Time, chance, waiting.
    libc::SYS_clock_gettime,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    // To end, in good order or by abort(3), which signals this process: see below.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
];

/// Of `asm-generic/ioctls.h`: C libraries do not agree on its type.
const FIONBIO: u64 = 0x5421;

/// Gives up every system call that serving does not need.
///
/// # Errors
/// Returns [`ProxyError::Confine`] if there is no such filter.
pub(crate) fn install() -> Result<(), ProxyError> {
    let program = compile().map_err(|error| ProxyError::Confine(error.to_string()))?;
    seccompiler::apply_filter(&program).map_err(|error| ProxyError::Confine(error.to_string()))
}

fn compile() -> Result<BpfProgram, seccompiler::BackendError> {
    use SeccompCmpArgLen::{Dword, Qword};
    use SeccompCmpOp::{Eq, MaskedEq};
    let when = |argument, length, operation, value: u64| {
        SeccompRule::new(vec![SeccompCondition::new(argument, length, operation, value)?])
    };
    let executable = MaskedEq(libc::PROT_EXEC as u64);
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        PLAIN.iter().map(|&call| (call, Vec::new())).collect();
    rules.extend([
        (
            libc::SYS_socket,
            vec![
                when(0, Dword, Eq, libc::AF_INET as u64)?,
                when(0, Dword, Eq, libc::AF_INET6 as u64)?,
            ],
        ),
        // No owner is made of a descriptor, nor signalled what happens on one.
        (
            libc::SYS_fcntl,
            vec![
                when(1, Dword, Eq, libc::F_DUPFD_CLOEXEC as u64)?,
                when(1, Dword, Eq, libc::F_GETFD as u64)?,
                when(1, Dword, Eq, libc::F_SETFD as u64)?,
                when(1, Dword, Eq, libc::F_GETFL as u64)?,
                SeccompRule::new(vec![
                    SeccompCondition::new(1, Dword, Eq, libc::F_SETFL as u64)?,
                    SeccompCondition::new(2, Dword, MaskedEq(libc::O_ASYNC as u64), 0)?,
                ])?,
            ],
        ),
        (libc::SYS_mmap, vec![when(2, Qword, executable.clone(), 0)?]),
        (libc::SYS_mprotect, vec![when(2, Qword, executable, 0)?]),
        // Not to wait. Standard error may be a terminal, and others type into one.
        (libc::SYS_ioctl, vec![when(1, Dword, Eq, FIONBIO)?]),
        (libc::SYS_tgkill, vec![when(0, Dword, Eq, std::process::id().into())?]),
        // getrlimit(2), of itself.
        (libc::SYS_prlimit64, vec![when(0, Dword, Eq, 0)?]),
    ]);
    let refuse = SeccompAction::Errno(Errno::PERM.raw_os_error().cast_unsigned());
    let arch = TargetArch::try_from(ARCH)?;
    SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{self, OFlags};
    use std::fs::File;
    use std::io::{self, Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;
    use std::process::Command;
    use std::thread;

    #[test]
    fn serving_goes_on_and_everything_else_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let attempts = move || {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            let signalling = OFlags::from_bits_retain(libc::O_ASYNC as u32);
            let errno = |error: io::Error| error.raw_os_error().unwrap_or(0);
            let refused = [
                ("open", File::open("/dev/null").map(drop)),
                ("execute", Command::new("/bin/true").status().map(drop)),
                ("thread", thread::Builder::new().spawn(|| ()).map(drop)),
                ("unix socket", UnixStream::connect("/run/none").map(drop)),
                ("unlink", std::fs::remove_file("/run/none")),
                ("signals", fs::fcntl_setfl(&socket, signalling).map_err(Into::into)),
                ("locks", fs::fcntl_lock(&socket, fs::FlockOperation::Unlock).map_err(Into::into)),
            ];
            let refused = refused.map(|(name, result)| (name, result.map_err(errno)));
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(b"ping")?;
            let mut answer = [0; 4];
            stream.read_exact(&mut answer)?;
            stream.set_nonblocking(true)?;
            fs::fcntl_setfl(&socket, fs::fcntl_getfl(&socket)? | OFlags::NONBLOCK)?;
            socket.try_clone()?;
            // Grows by mmap(2).
            let large = vec![1_u8; 64 << 20];
            io::Result::Ok((refused, answer, large.len()))
        };
        let twin = attempts;
        let confined = thread::spawn(move || {
            crate::confine::confine().unwrap();
            install().unwrap();
            attempts()
        });
        let mut echo = listener.accept().unwrap().0;
        let mut bytes = [0; 4];
        echo.read_exact(&mut bytes).unwrap();
        echo.write_all(&bytes).unwrap();
        let (refused, answer, _) = confined.join().unwrap().unwrap();
        for (name, result) in refused {
            assert_eq!(result, Err(libc::EPERM), "{name}");
        }
        assert_eq!(&answer, b"ping");

        let free = thread::spawn(twin);
        let mut echo = listener.accept().unwrap().0;
        echo.write_all(b"pong").unwrap();
        for (name, result) in free.join().unwrap().unwrap().0 {
            assert!(matches!(result, Ok(()) | Err(libc::ENOENT)), "{name}: {result:?}");
        }
    }
}
