//! Sockets: the broker judges addresses; the filter, what kind of socket there can be at all.

use super::{WITH_BROKER, case, is, judge, lacks, masked, options, row, when};
use crate::Syscall::*;
use crate::Variant;
use crate::rule::Errno::{EACCES, ENOPROTOOPT, EOPNOTSUPP};
use crate::rule::Verdict::{self, Allow, Deny, Notify};
use crate::rule::{Arg, Row, Test, When};
use crate::uapi::*;

const SENDS: &str = "a datagram socket sends to any address: the broker does it, or says whose name was asked \
    for; MSG_FASTOPEN connects";

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(
        &[
            accept, accept4, recvfrom, recvmsg, recvmmsg, getsockname, getpeername, getsockopt,
        ],
        Allow,
        "works on a socket whose making, binding and connecting was judged",
    ),
    judge(
        &[socket],
        &[
            // Where it cannot get at those that the command makes.
            when(SOCKETS_MADE, &[], Notify),
            case(UNIX_STREAM, Allow),
            when(ALL_UNIX_SOCKETS, UNIX_DATAGRAM, Allow),
            when(NETWORK_ALLOWED, &[INTERNET], Allow),
            // Without a broker nothing would keep it from listening (listen(2) without bind(2)).
            when(WITH_BROKER, TCP_STREAM, Allow),
            case(ROUTE_QUERIES, Allow),
            when(When::is(Variant::ALONE), UNIX_DATAGRAM, LEFT),
        ],
        Notify,
        "Landlock judges TCP only: sockets of UDP send nothing but what the broker lets them; others are refused and \
         reported",
    ),
    judge(
        &[socketpair],
        &[
            case(UNIX_STREAM, Allow),
            when(ALL_UNIX_SOCKETS, UNIX_DATAGRAM, Allow),
        ],
        Notify,
        "a datagram socket can send to any Unix socket by name: the broker makes a seqpacket pair instead",
    ),
    row(
        &[connect, bind],
        Notify,
        "the address is in memory: the broker judges and uses its own copy",
    )
    .alone(LEFT),
    row(
        &[listen],
        Notify,
        "without a bind it would listen on every address, or by an abstract name; the broker remembers the port",
    )
    .alone(LEFT),
    judge(
        &[shutdown],
        &[
            case(&[is(Arg(1, "how"), &[SHUT_WR])], Allow),
            when(LOCAL_BINDING, &[], Notify),
        ],
        Allow,
        "gives up a port that is listened on, so that another program can take it: never while the \
         broker connects to it",
    ),
    judge(
        &[sendto],
        &[
            when(MESSAGES_FREE, &[], Allow),
            case(&[Test::Null { arg: Arg(4, "dest_addr") }, lacks(Arg(3, "flags"), MSG_FASTOPEN)], Allow),
            when(MESSAGES_SENT, &[], Notify),
            when(MESSAGES_SEEN, &[], Notify),
            case(&[lacks(Arg(3, "flags"), MSG_FASTOPEN)], Allow),
        ],
        Deny(EOPNOTSUPP),
        SENDS,
    )
    .alone(LEFT),
    judge(
        &[sendmsg],
        &[
            when(MESSAGES_FREE, &[], Allow),
            when(MESSAGES_SENT, &[], Notify),
            case(&[lacks(Arg(2, "flags"), MSG_FASTOPEN)], Allow),
        ],
        Deny(EOPNOTSUPP),
        "a datagram socket sends to any address: once there is one, the broker does it; MSG_FASTOPEN connects",
    )
    .alone(LEFT),
    judge(
        &[sendmmsg],
        &[
            when(MESSAGES_FREE, &[], Allow),
            when(MESSAGES_SENT, &[], Notify),
            when(MESSAGES_SEEN, &[], Notify),
            case(&[lacks(Arg(3, "flags"), MSG_FASTOPEN)], Allow),
        ],
        Deny(EOPNOTSUPP),
        SENDS,
    )
    .alone(LEFT),
    judge(
        &[setsockopt],
        &[
            when(NETWORK_ALLOWED, &[], Allow),
            // Another program could share the port.
            when(LOCAL_BINDING, &[is(LEVEL, &[SOL_SOCKET]), is(OPTION, &[SO_REUSEPORT])], Notify),
            // Of UDP, another program could share it then; of TCP not.
            when(OWN_DATAGRAMS, &[is(LEVEL, &[SOL_SOCKET]), is(OPTION, &[SO_REUSEADDR])], Notify),
            case(&[is(LEVEL, &[SOL_SOCKET]), is(OPTION, options::SOCKET)], Allow),
            case(&[is(LEVEL, &[IPPROTO_TCP]), is(OPTION, options::TCP)], Allow),
            case(&[is(LEVEL, &[SOL_IP]), is(OPTION, options::IP)], Allow),
            case(&[is(LEVEL, &[SOL_IPV6]), is(OPTION, options::IPV6)], Allow),
            case(&[is(LEVEL, &[SOL_NETLINK]), is(OPTION, options::NETLINK)], Allow),
        ],
        Notify,
        "tunes the caller's own connection; what leads elsewhere is as if not built, and reported if it is missed",
    )
    .alone(Deny(ENOPROTOOPT)),
];

/// See `compile::filter::leaving` of the broker: nothing else gets this without a listener.
const LEFT: Verdict = Deny(EACCES);

/// IP networking is not restricted.
const NETWORK_ALLOWED: When = When::is(Variant::ALLOW_NETWORK);

const LOCAL_BINDING: When = When::is(Variant::LOCAL_BINDING).unless(Variant::ALLOW_NETWORK);

const ALL_UNIX_SOCKETS: When = When::is(Variant::ALL_UNIX_SOCKETS);

/// The command can have sockets of UDP with an address.
const OWN_DATAGRAMS: When = When::is(Variant::LOCAL_BINDING.union(Variant::DATAGRAMS))
    .unless(Variant::ALLOW_NETWORK.union(Variant::ALONE));

/// Where every address may be sent to.
const MESSAGES_FREE: When = When::is(Variant::ALLOW_NETWORK).unless(Variant::DATAGRAMS);

/// Where the broker sends all messages that can have an address, once there is a socket that could do it by
/// itself.
const MESSAGES_SENT: When = When::is(Variant::DATAGRAMS);

/// Where no socket can send to an address: the broker says what was refused, if it can get at the socket.
const MESSAGES_SEEN: When = When::ALWAYS.unless(Variant::ALONE.union(Variant::MAKES_SOCKETS));

/// By the broker, where it cannot get at those that the command makes.
const SOCKETS_MADE: When = When::is(Variant::MAKES_SOCKETS).unless(Variant::ALONE);

/// Connected Unix sockets. The kernel makes SOCK_RAW a datagram socket here, which can send to any name.
const UNIX_STREAM: &[Test] = &[
    is(DOMAIN, &[AF_UNIX]),
    masked(TYPE, SOCK_TYPE_MASK, &[SOCK_STREAM, SOCK_SEQPACKET]),
    is(PROTOCOL, &[PROTOCOL_DEFAULT, PF_UNIX]),
];

/// Unix sockets that send without being connected.
const UNIX_DATAGRAM: &[Test] = &[
    is(DOMAIN, &[AF_UNIX]),
    masked(TYPE, SOCK_TYPE_MASK, &[SOCK_DGRAM]),
    is(PROTOCOL, &[PROTOCOL_DEFAULT, PF_UNIX]),
];

const INTERNET: Test = is(DOMAIN, &[AF_INET, AF_INET6]);

const TCP_STREAM: &[Test] = &[
    INTERNET,
    masked(TYPE, SOCK_TYPE_MASK, &[SOCK_STREAM]),
    is(PROTOCOL, &[PROTOCOL_DEFAULT, IPPROTO_TCP]),
];

const ROUTE_QUERIES: &[Test] = &[
    is(DOMAIN, &[AF_NETLINK]),
    masked(TYPE, SOCK_TYPE_MASK, &[SOCK_RAW, SOCK_DGRAM]),
    is(PROTOCOL, &[NETLINK_ROUTE]),
];

const DOMAIN: Arg = Arg(0, "domain");
const TYPE: Arg = Arg(1, "type");
const PROTOCOL: Arg = Arg(2, "protocol");
const LEVEL: Arg = Arg(1, "level");
const OPTION: Arg = Arg(2, "optname");
