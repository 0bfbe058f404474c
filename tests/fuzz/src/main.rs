//! What parses bytes of the command's, of a host's or of a file's, fed by libFuzzer: no panic, no endless loop, and what
//! each parser promises of its result. LANDSTRIP_PARSER names the one; tests/long/run builds and runs this.

#![no_main]
#![allow(
    dead_code,
    unused_imports,
    missing_docs,
    reason = "most of the proxy is not called from here"
)]

// The proxy is a program, so its modules are those of this one.
#[path = "../../../proxy/src/answer.rs"]
mod answer;
#[path = "../../../proxy/src/asking.rs"]
mod asking;
#[path = "../../../proxy/src/bypass.rs"]
mod bypass;
#[path = "../../../proxy/src/control.rs"]
mod control;
#[path = "../../../proxy/src/destination.rs"]
mod destination;
#[path = "../../../proxy/src/dial.rs"]
mod dial;
#[path = "../../../proxy/src/dns.rs"]
mod dns;
#[path = "../../../proxy/src/error.rs"]
mod error;
#[path = "../../../proxy/src/files.rs"]
mod files;
#[path = "../../../proxy/src/forward.rs"]
mod forward;
#[path = "../../../proxy/src/headers.rs"]
mod headers;
#[path = "../../../proxy/src/http.rs"]
mod http;
#[path = "../../../proxy/src/interim.rs"]
mod interim;
#[path = "../../../proxy/src/learning.rs"]
mod learning;
#[path = "../../../proxy/src/lookup.rs"]
mod lookup;
#[path = "../../../proxy/src/names.rs"]
mod names;
#[path = "../../../proxy/src/opening.rs"]
mod opening;
#[path = "../../../proxy/src/plain.rs"]
mod plain;
#[path = "../../../proxy/src/proxy.rs"]
mod proxy;
#[path = "../../../proxy/src/relay.rs"]
mod relay;
#[path = "../../../proxy/src/resolve.rs"]
mod resolve;
#[path = "../../../proxy/src/rules.rs"]
mod rules;
#[path = "../../../proxy/src/socks.rs"]
mod socks;
#[path = "../../../proxy/src/socks5.rs"]
mod socks5;
#[path = "../../../proxy/src/tls.rs"]
mod tls;
#[path = "../../../proxy/src/tunnel.rs"]
mod tunnel;
#[path = "../../../proxy/src/upstream.rs"]
mod upstream;
#[path = "../../../proxy/src/watch.rs"]
mod watch;

mod parsers;
mod seeds;
mod streams;

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

static PARSER: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("LANDSTRIP_PARSER").expect("LANDSTRIP_PARSER names a parser");
        let parser = match name.as_str() {
            "paths" => parsers::paths,
            "addresses" => parsers::addresses,
            "http" => streams::http,
            "socks" => streams::socks,
            "tls" => parsers::tls,
            "dns" => parsers::dns,
            "policy" => parsers::policy,
            "wire" => parsers::wire,
            "ask" => parsers::ask,
            _ => panic!("no parser is called {name}"),
        };
        if let Ok(directory) = std::env::var("LANDSTRIP_SEEDS") {
            seeds::write(&name, directory.as_ref());
        }
        PARSER.get_or_init(|| parser);
    },
    |bytes: &[u8]| {
        if let Some(parser) = PARSER.get() {
            parser(bytes);
        }
    }
);
