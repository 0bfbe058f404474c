//! Calls on System V objects, read off their number and registers (sysvipc(7), svipc(7)).

use crate::kernel::ipc::Kind::{self, Queue, Segment, Semaphores};
use crate::kernel::listener::Notification;
use landstrip_filter::Syscall;

/// A call on a System V object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IpcCall {
    /// shmget, semget, msgget: key, size or number of semaphores, flags.
    Get(Kind, i32, u64, i32),
    /// What uses the object with this id.
    Use(Kind, i32),
    /// shmctl, semctl, msgctl: id, command.
    Control(Kind, i32, i32),
}

impl IpcCall {
    /// None for another call.
    pub(super) fn decode(call: Syscall, n: &Notification) -> Option<Self> {
        Some(match call {
            Syscall::shmget => Self::Get(Segment, n.int(0), n.arguments[1], n.int(2)),
            Syscall::semget => Self::Get(Semaphores, n.int(0), n.unsigned(1).into(), n.int(2)),
            Syscall::msgget => Self::Get(Queue, n.int(0), 0, n.int(1)),
            Syscall::shmat => Self::Use(Segment, n.int(0)),
            Syscall::semop | Syscall::semtimedop => Self::Use(Semaphores, n.int(0)),
            Syscall::msgsnd | Syscall::msgrcv => Self::Use(Queue, n.int(0)),
            Syscall::shmctl => Self::Control(Segment, n.int(0), n.int(1)),
            Syscall::semctl => Self::Control(Semaphores, n.int(0), n.int(2)),
            Syscall::msgctl => Self::Control(Queue, n.int(0), n.int(1)),
            _ => return None,
        })
    }
}
