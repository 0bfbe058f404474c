//! The attempts, made as the tool of a sandbox. Each changes nothing, or takes back what it changed, if it is not
//! refused.

use super::attempt::{Act, Attempt, VARIABLE, decode};
use crate::cli::Form;
use crate::explain::page::Style;
use kernel::denied_syscalls::CALLS;
use kernel::kill;
use landstrip_core::report::errno::strerror;
use nix::sys::ptrace::{self, Options};
use nix::sys::uio;
use nix::unistd;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::{self, Errno};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketType};
use rustix::process::{self, Pid, PidfdFlags, PidfdGetfdFlags};
use serde_json::json;
use std::io::{IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;

/// With what a sandbox refuses. Another error says that the attempt was no attempt.
const REFUSALS: [Errno; 6] = [
    Errno::PERM,
    Errno::ACCESS,
    Errno::NOSYS,
    Errno::ROFS,
    Errno::AFNOSUPPORT,
    Errno::PROTONOSUPPORT,
];

/// Makes the attempts that the environment lists, and says what came of each; the exit status, 0 if all came
/// out as expected. None if it lists none.
pub fn run() -> Option<i32> {
    let list = std::env::var(VARIABLE).ok()?;
    let (form, is_colored, attempts) = decode(&list)?;
    let style = Style::colored(is_colored);
    let mut output = std::io::stdout();
    let mut all_hold = true;
    for attempt in attempts {
        let outcome = attempt.make();
        all_hold &= attempt.holds(outcome);
        let line = line(&attempt, outcome, form, style);
        if output.write_all(line.as_bytes()).is_err() {
            return Some(1);
        }
    }
    Some(i32::from(!all_hold))
}

fn line(attempt: &Attempt, outcome: io::Result<()>, form: Form, style: Style) -> String {
    let expected = if attempt.is_permitted { "permitted" } else { "refused" };
    let error = outcome.err().map(strerror);
    let found = match outcome {
        Ok(()) => "permitted",
        Err(errno) if attempt.is_refusal(errno) => "refused",
        Err(_) => "unclear",
    };
    let what = format!("{} {}", attempt.act.word(), attempt.object);
    let what = what.trim_end();
    let holds = attempt.holds(outcome);
    if form == Form::Json {
        let object = json!({"Attempt": {
            "what": what, "expected": expected, "outcome": found, "error": error, "holds": holds,
        }});
        return format!("{object}\n");
    }
    let verdict = if holds { style.good("holds") } else { style.bad("FAILS") };
    let error = error.map(|error| format!(" ({error})")).unwrap_or_default();
    let wanted = if holds { String::new() } else { format!(", should be {expected}") };
    format!("  {verdict}  {found:9}  {what}{error}{wanted}\n")
}

impl Attempt {
    /// Whether the sandbox does with it what the policy says.
    fn holds(&self, outcome: io::Result<()>) -> bool {
        match outcome {
            Ok(()) => self.is_permitted,
            Err(errno) => !self.is_permitted && self.is_refusal(errno),
        }
    }

    /// Whether `errno` says so. In proc(5) nobody can make anything, which its file system puts like that, and
    /// processes outside are hidden.
    fn is_refusal(&self, errno: Errno) -> bool {
        let makes = matches!(self.act, Act::MakeIn | Act::MakeDevice);
        let nobody_can = || makes && errno == Errno::NOENT && Path::new(&self.object).is_dir();
        // Of a process outside that lives: it is hidden.
        let is_hidden = || {
            let lives = |process: Pid| kill::send(process.as_raw_pid(), 0) == Err(Errno::PERM);
            matches!(self.act, Act::ReadEnvironment)
                && errno == Errno::NOENT
                && self.process().is_ok_and(lives)
        };
        REFUSALS.contains(&errno) || nobody_can() || is_hidden()
    }

    fn make(&self) -> io::Result<()> {
        let Self { object, .. } = self;
        let path = Path::new(object);
        match self.act {
            Act::Read => open(path, OFlags::RDONLY),
            Act::Write => match open(path, OFlags::WRONLY) {
                // A program that runs is written by nobody; but its mode could be changed.
                Err(Errno::TXTBSY) => change_mode(path),
                other => other,
            },
            Act::MakeIn => make_in(path),
            Act::ChangeMode => change_mode(path),
            Act::MakeDevice => make_device(path),
            Act::Signal => kill::send(self.process()?.as_raw_pid(), 0),
            Act::ReadMemory => read_memory(self.process()?),
            Act::TakeDescriptor => {
                let pidfd = process::pidfd_open(self.process()?, PidfdFlags::empty())?;
                process::pidfd_getfd(pidfd, 0, PidfdGetfdFlags::empty()).map(drop)
            }
            Act::Trace => trace(self.process()?),
            Act::ReadEnvironment => {
                open(Path::new(&format!("/proc/{object}/environ")), OFlags::RDONLY)
            }
            Act::Connect => TcpStream::connect(self.address()?).map(drop).map_err(errno),
            Act::Bind => std::net::TcpListener::bind(self.address()?).map(drop).map_err(errno),
            Act::SendTo => {
                let socket = UdpSocket::bind("127.0.0.1:0").or_else(|_| UdpSocket::bind("[::1]:0"));
                let sent = socket.and_then(|socket| socket.send_to(b"doctor", self.address()?));
                sent.map(drop).map_err(errno)
            }
            Act::ConnectUnix => connect(&SocketAddrUnix::new(path)?),
            Act::ConnectAbstract => connect(&SocketAddrUnix::new_abstract_name(object.as_bytes())?),
            Act::MakeSocket => {
                let (family, kind) = match object.as_str() {
                    "packet" => (AddressFamily::PACKET, SocketType::RAW),
                    "vsock" => (AddressFamily::VSOCK, SocketType::STREAM),
                    _ => (AddressFamily::INET, SocketType::RAW),
                };
                net::socket(family, kind, None).map(drop)
            }
            Act::AskProxy => ask_proxy(object),
            Act::ShareMemory => share_memory(path),
            Act::Call => {
                let call = CALLS.iter().find(|call| call.name == object);
                call.ok_or(Errno::INVAL)?.make()
            }
            Act::Own => own(object),
        }
    }

    fn process(&self) -> io::Result<Pid> {
        self.object.parse().ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)
    }

    fn address(&self) -> io::Result<SocketAddr> {
        self.object.parse().map_err(|_| Errno::INVAL)
    }
}

/// Whether process_vm_readv(2) reads the memory of `process`: asked of the first page, where nothing is, which is looked
/// at last.
pub(super) fn read_memory(process: Pid) -> io::Result<()> {
    let nowhere = uio::RemoteIoVec { base: 8, len: 1 };
    let process = unistd::Pid::from_raw(process.as_raw_pid());
    match uio::process_vm_readv(process, &mut [IoSliceMut::new(&mut [0])], &[nowhere]) {
        Ok(_) | Err(nix::Error::EFAULT) => Ok(()),
        Err(errno) => Err(Errno::from_raw_os_error(errno as i32)),
    }
}

/// Becomes the tracer of `process`, without stopping it; to end is to let it go (ptrace(2), PTRACE_SEIZE).
fn trace(process: Pid) -> io::Result<()> {
    let traced = ptrace::seize(unistd::Pid::from_raw(process.as_raw_pid()), Options::empty());
    traced.map_err(|errno| Errno::from_raw_os_error(errno as i32))
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

fn open(path: &Path, access: OFlags) -> io::Result<()> {
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    fs::open(path, flags, Mode::empty()).map(drop)
}

/// To what it is.
fn change_mode(path: &Path) -> io::Result<()> {
    fs::chmod(path, Mode::from_raw_mode(fs::stat(path)?.st_mode))
}

/// The name of what an attempt makes.
fn own_name(directory: &Path) -> std::path::PathBuf {
    directory.join(format!(".landstrip-doctor-{}", std::process::id()))
}

fn make_in(directory: &Path) -> io::Result<()> {
    let path = own_name(directory);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?;
    fs::unlink(&path)
}

fn make_device(directory: &Path) -> io::Result<()> {
    let path = own_name(directory);
    let null = fs::makedev(1, 3);
    fs::mknodat(fs::CWD, &path, FileType::CharacterDevice, Mode::RUSR, null)?;
    fs::unlinkat(fs::CWD, &path, AtFlags::empty())
}

fn connect(address: &SocketAddrUnix) -> io::Result<()> {
    let socket = net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    net::connect(&socket, address)
}

/// Asks the proxy that the environment names; its word is its own (403).
fn ask_proxy(host: &str) -> io::Result<()> {
    let proxy = std::env::var("HTTP_PROXY").unwrap_or_default();
    let address: SocketAddr =
        proxy.trim_start_matches("http://").parse().map_err(|_| Errno::INVAL)?;
    let mut stream = TcpStream::connect(address).map_err(errno)?;
    let request = format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(errno)?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).map_err(errno)?;
    if answer.ends_with(b" 403") { Err(Errno::ACCESS) } else { Ok(()) }
}

fn share_memory(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    fs::unlink(path)
}

/// What every command needs.
fn own(what: &str) -> io::Result<()> {
    match what {
        "signals" => kill::send(process::getpid().as_raw_pid(), 0),
        "threads" => std::thread::Builder::new()
            .spawn(|| ())
            .map_err(errno)
            .and_then(|thread| thread.join().map_err(|_| Errno::IO)),
        "socket pairs" => {
            let flags = net::SocketFlags::CLOEXEC;
            net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).map(drop)
        }
        "memory files" => fs::memfd_create("doctor", fs::MemfdFlags::CLOEXEC).map(drop),
        "program" => open(Path::new("/proc/self/exe"), OFlags::RDONLY),
        _ => Err(Errno::INVAL),
    }
}
