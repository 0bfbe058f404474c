//! A call that waits for its answer, for tests.

#![allow(clippy::unwrap_used, unsafe_code)]

use crate::errno;
use crate::listener::{Listener, Notification};
use crate::request::Request;
use nix::libc;
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io;
use rustix::thread;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// A getppid(2) that nobody has answered.
pub struct TestCall {
    listener: Listener,
    notification: Notification,
}

impl TestCall {
    /// Has a thread make the call, and do `work` once it is answered.
    pub fn before(work: impl FnOnce() + Send + 'static) -> (TestCall, JoinHandle<()>) {
        let (tell, told) = mpsc::channel();
        let caller = std::thread::spawn(move || {
            tell.send(notify()).unwrap();
            // SAFETY: takes nothing.
            unsafe { libc::syscall(libc::SYS_getppid) };
            work();
        });
        let listener = Listener::new(told.recv().unwrap().unwrap(), |_, _| false);
        let notification = listener.receive().unwrap().unwrap();
        (TestCall { listener, notification }, caller)
    }

    pub fn request(&self) -> Request<'_> {
        Request::new(&self.listener, &self.notification, &|_| true)
    }
}

/// Has this thread's getppid(2) notified.
fn notify() -> io::Result<OwnedFd> {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const SET_MODE_FILTER: u32 = 1;
    const NEW_LISTENER: u64 = 1 << 3;
    let number = u32::try_from(libc::SYS_getppid).unwrap();
    let mut instructions = [
        libc::sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: 1, k: number },
        libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_USER_NOTIF },
        libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ];
    let program = libc::sock_fprog { len: 4, filter: instructions.as_mut_ptr() };
    thread::set_no_new_privs(true)?;
    let call = libc::SYS_seccomp;
    // SAFETY: the program and its instructions live until the kernel has copied them.
    let listener =
        unsafe { libc::syscall(call, SET_MODE_FILTER, NEW_LISTENER, &raw const program) };
    errno::result(listener)?;
    // SAFETY: the kernel just returned it, and nothing else holds it.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(listener).unwrap()) })
}
