//! What is valid, for each parser: where libFuzzer begins.

use crate::dns;
use crate::streams::PORT;
use common::proxy::{SETUP_MAX, Setup, Unlisted};
use common::told::Told;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

/// Writes them into a directory.
pub(crate) fn write(parser: &str, directory: &Path) {
    for (number, seed) in of(parser).iter().enumerate() {
        fs::write(directory.join(format!("seed-{number}")), seed).unwrap();
    }
}

fn of(parser: &str) -> Vec<Vec<u8>> {
    match parser {
        "paths" => vec![
            b"/work/.env\n/work/**/*.pem\n/home/[!a-z]?x\\*\n\n/work/.env\n/work/a/b.pem\n/home/1xx*\n/work/a".to_vec(),
            b"/**\n\n/".to_vec(),
            b"/a/**/b/**/c*d?\n\n/a/b/c/cxde/b/cdd\n/a/x/y".to_vec(),
        ],
        "addresses" => vec![
            [&2_u16.to_ne_bytes()[..], &PORT.to_be_bytes(), &[127, 0, 0, 1], &[0; 8]].concat(),
            [&10_u16.to_ne_bytes()[..], &PORT.to_be_bytes(), &[0; 14], &[0xff, 0xff, 127, 0, 0, 1], &[0; 4]].concat(),
            [&1_u16.to_ne_bytes()[..], b"/run/x.sock\0"].concat(),
            [&1_u16.to_ne_bytes()[..], b"\0abstract"].concat(),
            [&16_u16.to_ne_bytes()[..], &[0; 10]].concat(),
        ],
        "http" => in_pieces(places().iter().flat_map(|place| requests(place))),
        "socks" => in_pieces(places().iter().flat_map(|place| socks(place))),
        "tls" => vec![[&[128], &hello("good.test")[..]].concat(), [&[64], &hello("good.test")[..], &hello("bad.test")].concat()],
        "dns" => [dns::Kind::A, dns::Kind::Aaaa]
            .into_iter()
            .flat_map(|kind| {
                let query = dns::query(7, "good.test", kind);
                let found = dns::Found::Address(Ipv4Addr::LOCALHOST);
                let answer = dns::Query::read(&query).ok().map(|read| read.response(found));
                [Some(query.clone()), answer]
            })
            .flatten()
            .collect(),
        "policy" => vec![
            include_bytes!("../../examples/policy.json").to_vec(),
            include_bytes!("../../examples/policy.yaml").to_vec(),
            include_bytes!("../../../broker/presets/build.yaml").to_vec(),
        ],
        "wire" => vec![
            setup(),
            asked(),
            b"LSF3\0\0\0\0\x01\0\0\0\x06\0\0\0\0\0\xff\x7f".to_vec(),
            b"LSP1\x01\0\0\0\x01\0\x01\0/bin/true\0A=b\0".to_vec(),
            b"\x02\0\x01\xbbbad.test".to_vec(),
            b"\x03\x01\x01\xbb\0\0bad.test".to_vec(),
            b"*.good.test:443".to_vec(),
            b"127.0.0.1 good.test".to_vec(),
        ],
        "ask" => vec![
            br#"{"ask":1,"answer":"once"}"#.to_vec(),
            br#"{"ask":1,"answer":"run","rule":["filesystem.allowWrite","~/.npm"]}"#.to_vec(),
            br#"{"grant":["network.allowedDomains","example.org"]}"#.to_vec(),
        ],
        _ => Vec::new(),
    }
}

/// Each in one piece, and in two.
fn in_pieces(streams: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    streams.flat_map(|stream| [0, 120].map(|cut| [&[cut], &stream[..]].concat())).collect()
}

fn places() -> Vec<String> {
    ["good.test", "127.0.0.1", "bad.test", "127.0.0.2", "[::1]", "GOOD.test."]
        .map(|host| format!("{host}:{PORT}"))
        .to_vec()
}

fn requests(place: &str) -> [Vec<u8>; 6] {
    [
        format!("GET http://{place}/p?q HTTP/1.1\r\nHost: {place}\r\n\r\n"),
        format!("GET http://{place} HTTP/1.0\r\n\r\nGET http://{place}/ HTTP/1.1\r\n\r\n"),
        format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\nGET / HTTP/1.1\r\nHost: {place}\r\n\r\n"),
        format!("POST http://{place}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde"),
        format!(
            "PUT http://{place}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n\
             3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: x\r\n\r\nGET http://{place}/2 HTTP/1.1\r\n\r\n"
        ),
        format!(
            "GET http://{place}/ HTTP/1.1\r\nConnection: upgrade, x\r\nUpgrade: websocket\r\n\
             Expect: 100-continue\r\nX: y\r\nTE: trailers\r\n\r\n"
        ),
    ]
    .map(String::into_bytes)
}

fn setup() -> Vec<u8> {
    let mut packet = vec![0; SETUP_MAX];
    let lists = [&["good.test:443"][..], &["*.bad.test"], &[], &["http://proxy.test"], &[], &[]];
    let length = Setup::encode(&mut packet, Unlisted::Asked, lists).unwrap();
    packet.truncate(length);
    packet
}

fn asked() -> Vec<u8> {
    let mut packet = vec![0; Told::MAX];
    let asked = Told::Asked { number: 1, host: b"good.test", port: 443, client: 1 };
    let length = asked.encode(&mut packet).unwrap();
    packet.truncate(length);
    packet
}

fn socks(place: &str) -> Vec<Vec<u8>> {
    let (host, port) = place.rsplit_once(':').unwrap();
    let port = port.parse::<u16>().unwrap().to_be_bytes();
    let length = u8::try_from(host.len()).unwrap();
    let mut seeds = vec![
        [&[5, 1, 0, 5, 1, 0, 3, length], host.as_bytes(), &port, b"GET / HTTP/1.1\r\n\r\n"]
            .concat(),
    ];
    if let Ok(address) = host.parse::<std::net::Ipv4Addr>() {
        let octets = address.octets();
        seeds.push([&[5, 2, 2, 0, 5, 1, 0, 1][..], &octets, &port].concat());
        seeds
            .push([&[5, 1, 0, 5, 1, 0, 4][..], &address.to_ipv6_mapped().octets(), &port].concat());
        seeds.push([&[4, 1][..], &port, &octets, b"me\0"].concat());
    }
    seeds
}

/// A ClientHello that names a host (RFC 8446 section 4.1.2), in a record.
fn hello(name: &str) -> Vec<u8> {
    let vector =
        |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat();
    let name = vector(&[&[0][..], &vector(name.as_bytes())].concat());
    let extensions = [&[0, 0][..], &vector(&name), &[0, 43], &vector(&[2, 3, 4])].concat();
    let body =
        [&[3, 3][..], &[7; 32], &[0], &vector(&[0x13, 1]), &[1, 0], &vector(&extensions)].concat();
    let message = [&[1, 0][..], &vector(&body)].concat();
    [&[22, 3, 1][..], &vector(&message)].concat()
}
