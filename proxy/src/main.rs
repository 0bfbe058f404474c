//! The filtering proxy: HTTP and SOCKS5 for one sandbox, to the hosts that its policy names.
//!
//! The broker starts it on the sandbox's first connection, with a control socket as standard input,
//! and gives it its rules, and each connection, over that. It reads no policy and has no
//! options; it ends with the broker. `--connect` is another program in the same file: a client of
//! the proxy, for ssh's ProxyCommand inside of the sandbox.

#![forbid(unsafe_code)]

mod answer;
mod asking;
mod bypass;
mod client;
mod confine;
mod control;
mod destination;
mod dial;
mod direct;
mod dns;
mod error;
mod files;
mod filter;
mod forward;
#[cfg(test)]
mod fuzz;
mod gate;
mod headers;
mod http;
mod interim;
mod learning;
#[cfg(test)]
mod limits;
mod lookup;
mod names;
mod opening;
mod plain;
mod proxy;
mod relay;
mod resolve;
mod rules;
mod socks;
mod socks5;
mod tls;
mod tunnel;
mod upstream;
mod watch;

use common::trap::write_internal;
use control::Control;
use error::ProxyError;
use proxy::Proxy;
use std::io::Write;
use std::process::ExitCode;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (result, tell): (_, fn(&ProxyError)) = match words[..] {
        [] => (serve(), tell_in_json),
        ["--connect", proxy, host, port] => (client::relay(proxy, host, port), tell),
        _ => (Err(ProxyError::Usage), tell),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&error);
            ExitCode::FAILURE
        }
    }
}

/// For somebody inside of the sandbox, who must not take it for a failure of landstrip.
fn tell(error: &ProxyError) {
    // A closed standard error leaves only the exit status to tell.
    let _ = writeln!(std::io::stderr(), "landstrip-proxy: {error}");
}

/// Serves the sandbox until the broker has gone.
fn serve() -> Result<(), ProxyError> {
    let control = Control::take_over()?;
    let setup = control.receive_setup()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ProxyError::Runtime)?;
    confine::confine()?;
    filter::install()?;
    runtime.block_on(async {
        let proxy = Proxy::new(setup.rules, setup.resolver, setup.upstreams, control)?;
        gate::serve(proxy).await
    })
}

/// Says why it gave up, in one line of JSON as all of landstrip's programs do.
fn tell_in_json(error: &ProxyError) {
    let message = error.to_string();
    let mut line = String::new();
    let pairs = [("source", &b"proxy"[..]), ("message", message.as_bytes())];
    let _ = write_internal(&mut line, &pairs);
    let _ = std::io::stderr().write_all(line.as_bytes());
}
