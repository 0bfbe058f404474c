//! Which options of sockets the command may set, by level: what tunes its own connection. The reasons for
//! what is left out stand beside what is in; the newest are left out because programs do without them, and
//! every instruction of the filter takes time at launch. include/uapi/asm-generic/socket.h, linux/in.h, in6.h, tcp.h,
//! netlink.h.

macro_rules! options {
    ($($name:ident = $value:literal,)*) => {
        &[$({
            const $name: u32 = $value;
            $name
        },)*]
    };
}

/// Not: SO_ATTACH_FILTER and its kin, which put programs into the kernel; SO_BINDTODEVICE,
/// SO_BINDTOIFINDEX and SO_MARK, which lead elsewhere than the address; SO_TXTIME, SO_DEBUG,
/// SO_RESERVE_MEM, which take from others.
#[rustfmt::skip]
pub(super) const SOCKET: &[u32] = options! {
    SO_REUSEADDR = 2, SO_DONTROUTE = 5, SO_BROADCAST = 6, SO_SNDBUF = 7, SO_RCVBUF = 8, SO_KEEPALIVE = 9,
    SO_OOBINLINE = 10, SO_PRIORITY = 12, SO_LINGER = 13, SO_BSDCOMPAT = 14, SO_REUSEPORT = 15,
    SO_PASSCRED = 16, SO_RCVLOWAT = 18, SO_SNDLOWAT = 19, SO_RCVTIMEO = 20, SO_SNDTIMEO = 21,
    SO_TIMESTAMP = 29, SO_PASSSEC = 34, SO_TIMESTAMPNS = 35, SO_TIMESTAMPING = 37, SO_RXQ_OVFL = 40,
    SO_PEEK_OFF = 42, SO_SELECT_ERR_QUEUE = 45, SO_BUSY_POLL = 46, SO_MAX_PACING_RATE = 47,
    SO_INCOMING_CPU = 49, SO_ZEROCOPY = 60, SO_TIMESTAMP_NEW = 63, SO_TIMESTAMPNS_NEW = 64,
    SO_TIMESTAMPING_NEW = 65,
};

/// Not: TCP_ULP, which puts another protocol into the kernel; TCP_REPAIR, TCP_MD5SIG, TCP_AO and their
/// kin, which forge or sign segments; TCP_FASTOPEN_KEY, which is the machine's; TCP_FASTOPEN_CONNECT, which puts a
/// connect off until the first write: it would find whoever has the port by then.
#[rustfmt::skip]
pub(super) const TCP: &[u32] = options! {
    TCP_NODELAY = 1, TCP_MAXSEG = 2, TCP_CORK = 3, TCP_KEEPIDLE = 4, TCP_KEEPINTVL = 5, TCP_KEEPCNT = 6,
    TCP_SYNCNT = 7, TCP_LINGER2 = 8, TCP_DEFER_ACCEPT = 9, TCP_WINDOW_CLAMP = 10, TCP_QUICKACK = 12,
    TCP_CONGESTION = 13, TCP_THIN_LINEAR_TIMEOUTS = 16, TCP_THIN_DUPACK = 17, TCP_USER_TIMEOUT = 18,
    TCP_FASTOPEN = 23, TCP_TIMESTAMP = 24, TCP_NOTSENT_LOWAT = 25, TCP_SAVE_SYN = 27,
};

/// Not: IP_OPTIONS, which are source routes; IP_UNICAST_IF, IP_TRANSPARENT, IP_FREEBIND and multicast,
/// which lead elsewhere than the address; IP_IPSEC_POLICY, and the tables of netfilter.
#[rustfmt::skip]
pub(super) const IP: &[u32] = options! {
    IP_TOS = 1, IP_TTL = 2, IP_RECVOPTS = 6, IP_RETOPTS = 7, IP_PKTINFO = 8, IP_MTU_DISCOVER = 10,
    IP_RECVERR = 11, IP_RECVTTL = 12, IP_RECVTOS = 13, IP_RECVORIGDSTADDR = 20, IP_MINTTL = 21,
    IP_BIND_ADDRESS_NO_PORT = 24, IP_RECVFRAGSIZE = 25, IP_RECVERR_RFC4884 = 26,
};

/// Not: what is not there for IP; IPV6_PKTINFO and IPV6_RTHDR and their kin, which are an interface and
/// source routes here; IPV6_ADDRFORM, which makes it a socket of the other family. Java has no datagram socket without
/// IPV6_MULTICAST_HOPS.
#[rustfmt::skip]
pub(super) const IPV6: &[u32] = options! {
    IPV6_UNICAST_HOPS = 16, IPV6_MULTICAST_HOPS = 18, IPV6_MTU_DISCOVER = 23,
    IPV6_MTU = 24, IPV6_RECVERR = 25, IPV6_V6ONLY = 26, IPV6_RECVPKTINFO = 49,
    IPV6_RECVHOPLIMIT = 51, IPV6_DONTFRAG = 62, IPV6_RECVTCLASS = 66, IPV6_TCLASS = 67,
    IPV6_AUTOFLOWLABEL = 70, IPV6_ADDR_PREFERENCES = 72,
};

/// Which messages the kernel sends, and how. Not: NETLINK_LISTEN_ALL_NSID, rings.
#[rustfmt::skip]
pub(super) const NETLINK: &[u32] = options! {
    NETLINK_ADD_MEMBERSHIP = 1, NETLINK_DROP_MEMBERSHIP = 2, NETLINK_PKTINFO = 3,
    NETLINK_BROADCAST_ERROR = 4, NETLINK_NO_ENOBUFS = 5, NETLINK_CAP_ACK = 10, NETLINK_EXT_ACK = 11,
    NETLINK_GET_STRICT_CHK = 12,
};
