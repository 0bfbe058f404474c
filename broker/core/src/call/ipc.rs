//! Calls on System V objects, read off their number and registers (sysvipc(7), svipc(7)).

use kernel::listener::Notification;
use landstrip_filter::Syscall;
use sysv::Argument;

/// A call on a System V object. What has an id names the object by the first number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IpcCall {
    /// shmget, semget, msgget: key, size or number of semaphores, flags.
    Get(Kind, i32, u64, i32),
    /// shmat
    Attach(i32),
    /// semop, semtimedop: operations, how many, time limit.
    Operate(i32, u64, u32, u64),
    /// msgsnd: message, size of its text, flags.
    Send(i32, u64, u64, i32),
    /// msgrcv: where the message goes, size for its text, type, flags.
    Receive(i32, u64, u64, i64, i32),
    /// shmctl, semctl, msgctl: id, command, argument.
    Control(Kind, i32, i32, Argument),
}

/// What kind of object it is: ids and keys of one kind mean nothing to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Shared memory.
    Segment,
    /// A set of semaphores.
    Semaphores,
    /// A message queue.
    Queue,
}

impl IpcCall {
    /// None for another call.
    pub(super) fn decode(call: Syscall, n: &Notification) -> Option<Self> {
        let argument = |semaphore, index| Argument {
            semaphore,
            value: n.int(index),
            address: n.arguments[index],
        };
        let get = |kind, size, flags| Self::Get(kind, n.int(0), size, flags);
        let control =
            |kind, command, argument| Self::Control(kind, n.int(0), n.int(command), argument);
        Some(match call {
            Syscall::shmget => get(Kind::Segment, n.arguments[1], n.int(2)),
            Syscall::semget => get(Kind::Semaphores, n.unsigned(1).into(), n.int(2)),
            Syscall::msgget => get(Kind::Queue, 0, n.int(1)),
            Syscall::shmat => Self::Attach(n.int(0)),
            Syscall::semop => Self::Operate(n.int(0), n.arguments[1], n.unsigned(2), 0),
            Syscall::semtimedop => {
                Self::Operate(n.int(0), n.arguments[1], n.unsigned(2), n.arguments[3])
            }
            Syscall::msgsnd => Self::Send(n.int(0), n.arguments[1], n.arguments[2], n.int(3)),
            Syscall::msgrcv => Self::Receive(
                n.int(0),
                n.arguments[1],
                n.arguments[2],
                n.arguments[3].cast_signed(),
                n.int(4),
            ),
            Syscall::shmctl => control(Kind::Segment, 1, argument(0, 2)),
            Syscall::semctl => control(Kind::Semaphores, 2, argument(n.int(1), 3)),
            Syscall::msgctl => control(Kind::Queue, 1, argument(0, 2)),
            _ => return None,
        })
    }
}
