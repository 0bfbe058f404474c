//! Sockets.

use super::*;

#[test]
fn socket_allows_streams_and_route_queries_only() {
    let protocols = [0, 1, 6, 17, 132, 136, 255, 256, 262, 0xffff_ffff];
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for domain in 0..=50 {
            for kind in 0..=15 {
                for protocol in protocols {
                    for flags in [0, 0x800, 0x80000, 0x80800] {
                        let free = match (domain, kind, protocol) {
                            (1, 1 | 5, 0 | 1) => true,
                            (2 | 10, 1, 0 | 6) => true,
                            (2 | 10, _, _) => variant.contains(OPEN),

                            (16, 2 | 3, 0) => true,
                            _ => false,
                        };
                        let expected = if free { ALLOW } else { NOTIFY };
                        let args = [domain, kind | flags, protocol, 0, 0, 0];
                        assert_eq!(
                            filter.int_verdict(socket, args),
                            expected,
                            "{variant:?} {args:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn the_broker_makes_all_sockets_or_is_asked_for_the_refused_ones() {
    let made = Variant::MAKES_SOCKETS | Variant::ALL_UNIX_SOCKETS | OPEN;
    for domain in [1, 2, 10, 16, 40] {
        for kind in [1, 2, 3, 5] {
            assert_eq!(Filter::new(made).int_verdict(socket, [domain, kind, 0, 0, 0, 0]), NOTIFY);
        }
    }
    let alone = Variant::ALONE | Variant::MAKES_SOCKETS;
    assert_eq!(Filter::new(alone).int_verdict(socket, [1, 1, 0, 0, 0, 0]), ALLOW);
    // Of others, a sandbox around may decide on datagrams of Unix; it may not on one of the internet.
    for (domain, kind, expected) in [(40, 1, EPERM), (1, 2, EACCES), (2, 1, EPERM), (2, 2, EPERM)] {
        assert_eq!(Filter::new(alone).int_verdict(socket, [domain, kind, 0, 0, 0, 0]), expected);
    }
    assert_eq!(Filter::new(alone | OPEN).int_verdict(socket, [2, 1, 262, 0, 0, 0]), ALLOW);
}

#[test]
fn socketpair_allows_connected_unix_pairs_only() {
    for variant in all_variants() {
        let filter = Filter::new(variant);
        for domain in 0..=50 {
            for kind in 0..=15 {
                for protocol in [0, 1, 6, 17] {
                    for flags in [0, 0x800, 0x80000, 0x80800] {
                        let free = domain == 1 && (kind == 1 || kind == 5) && protocol <= 1;
                        let expected = if free { ALLOW } else { NOTIFY };
                        let args = [domain, kind | flags, protocol, 0x7fff_0000_1234, 0, 0];
                        assert_eq!(filter.int_verdict(socketpair, args), expected, "{args:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn fast_open_is_refused_where_the_network_is() {
    let unseen = Filter::new(Variant::MAKES_SOCKETS);
    for (call, flags) in [(sendto, 3), (sendmsg, 2), (sendmmsg, 3)] {
        for bit in 0..32 {
            let mut args = [7; 6];
            args[flags] = 1 << bit | 0x4000;
            let expected = if bit == 29 { EOPNOTSUPP } else { ALLOW };
            assert_eq!(unseen.int_verdict(call, args), expected, "{call} bit {bit}");
            // The broker refuses it.
            let expected = if call == sendmsg { expected } else { NOTIFY };
            assert_eq!(Filter::new(CLOSED).int_verdict(call, args), expected, "{call} bit {bit}");
            assert_eq!(Filter::new(OPEN).int_verdict(call, args), ALLOW, "{call} bit {bit}");
        }
    }
}

#[test]
fn a_port_is_not_shared_with_other_programs() {
    let share = [3, 1, 15, 0x7fff_0000_1234, 4, 0];
    assert_eq!(Filter::new(LOCAL).int_verdict(setsockopt, share), NOTIFY);
    assert_eq!(
        Filter::new(LOCAL).int_verdict(setsockopt, [3, 1, 2, 0x7fff_0000_1234, 4, 0]),
        ALLOW
    );
    // Where nothing can be bound, or everything may be, it means nothing.
    assert_eq!(Filter::new(CLOSED).int_verdict(setsockopt, share), ALLOW);
    let both = LOCAL | OPEN;
    assert_eq!(Filter::new(both).int_verdict(setsockopt, share), ALLOW);
}

#[test]
fn sockets_of_udp_do_not_share_a_port_where_they_have_one() {
    let share = [3, 1, 2, 0x7fff_0000_1234, 4, 0];
    let own = LOCAL | Variant::DATAGRAMS;
    assert_eq!(Filter::new(own).int_verdict(setsockopt, share), NOTIFY);
    for free in [LOCAL, Variant::DATAGRAMS, own | OPEN] {
        assert_eq!(Filter::new(free).int_verdict(setsockopt, share), ALLOW, "{free:?}");
    }
}

#[test]
fn giving_up_a_port_is_judged_where_ports_are_bound() {
    for (how, expected) in [(0, NOTIFY), (1, ALLOW), (2, NOTIFY), (3, NOTIFY)] {
        assert_eq!(Filter::new(LOCAL).int_verdict(shutdown, [3, how, 0, 0, 0, 0]), expected);
        assert_eq!(Filter::new(CLOSED).int_verdict(shutdown, [3, how, 0, 0, 0, 0]), ALLOW);
        let both = LOCAL | OPEN;
        assert_eq!(Filter::new(both).int_verdict(shutdown, [3, how, 0, 0, 0, 0]), ALLOW);
    }
}

#[test]
fn datagram_sockets_are_free_only_where_all_unix_sockets_are() {
    let all = Variant::ALL_UNIX_SOCKETS;
    for call in [socket, socketpair] {
        let args = [1, 2 | 0x80800, 0, 0, 0, 0];
        assert_eq!(Filter::new(all).int_verdict(call, args), ALLOW);
        assert_eq!(Filter::new(CLOSED).int_verdict(call, args), NOTIFY);
        assert_eq!(Filter::new(all).int_verdict(call, [2, 2, 0, 0, 0, 0]), NOTIFY);
    }
}

#[test]
fn no_address_is_sent_to_unseen_where_datagram_sockets_are_listed() {
    const FASTOPEN: u64 = 0x2000_0000;
    let address = 0x7fff_0000_0000;
    for network in [CLOSED, OPEN] {
        let listed = Variant::DATAGRAMS | network;
        let filter = Filter::new(listed);
        for call in [socket, socketpair] {
            // The broker sends from then on.
            assert_eq!(filter.int_verdict(call, [1, 2 | 0x80800, 0, 0, 0, 0]), NOTIFY);
            // SOCK_RAW is SOCK_DGRAM by another name (unix_create in net/unix/af_unix.c).
            assert_eq!(filter.int_verdict(call, [1, 3, 0, 0, 0, 0]), NOTIFY);
        }
        for flags in [0, 0x4040, FASTOPEN] {
            assert_eq!(filter.int_verdict(sendmsg, [3, address, flags, 0, 0, 0]), NOTIFY);
            assert_eq!(filter.int_verdict(sendmmsg, [3, address, 4, flags, 0, 0]), NOTIFY);
            assert_eq!(filter.verdict(sendto, [3, 0x1000, 4, flags, address, 110]), NOTIFY);
            // Half a pointer is one.
            for half in [1, 1 << 32, 1 << 63] {
                assert_eq!(filter.verdict(sendto, [3, 0x1000, 4, flags, half, 0]), NOTIFY);
            }
        }
        // send(2), whatever length it is told for the address that it has not.
        assert_eq!(filter.verdict(sendto, [3, 0x1000, 4, 0x4040, 0, 110]), ALLOW);
        assert_eq!(filter.verdict(sendto, [3, 0x1000, 4, FASTOPEN, 0, 0]), NOTIFY);
    }
    for filter in [OPEN, Variant::MAKES_SOCKETS, Variant::ALONE].map(Filter::new) {
        assert_eq!(filter.int_verdict(sendmsg, [3, address, 0, 0, 0, 0]), ALLOW);
        assert_eq!(filter.int_verdict(sendmmsg, [3, address, 4, 0, 0, 0]), ALLOW);
        assert_eq!(filter.verdict(sendto, [3, 0x1000, 4, 0, address, 110]), ALLOW);
    }
    let closed = Filter::new(CLOSED);
    assert_eq!(closed.int_verdict(sendmsg, [3, address, 0, 0, 0, 0]), ALLOW);
    assert_eq!(closed.int_verdict(sendmmsg, [3, address, 4, 0, 0, 0]), NOTIFY);
    assert_eq!(closed.verdict(sendto, [3, 0x1000, 4, 0, address, 110]), NOTIFY);
    assert_eq!(closed.verdict(sendto, [3, 0x1000, 4, 0x4040, 0, 110]), ALLOW);
}

#[test]
fn only_options_that_tune_an_own_connection_can_be_set() {
    #[rustfmt::skip]
    let free: [(u64, &[u64]); 5] = [
        // REUSEADDR DONTROUTE .. OOBINLINE PRIORITY .. PASSCRED RCVLOWAT .. SNDTIMEO TIMESTAMP PASSSEC ..
        (1, &[2, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 18, 19, 20, 21, 29, 34, 35, 37, 40, 42, 45, 46, 47, 49,
              60, 63, 64, 65]),
        // NODELAY .. WINDOW_CLAMP QUICKACK CONGESTION THIN_.. USER_TIMEOUT FASTOPEN TIMESTAMP NOTSENT_LOWAT ..
        (6, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 16, 17, 18, 23, 24, 25, 27]),
        (0, &[1, 2, 6, 7, 8, 10, 11, 12, 13, 20, 21, 24, 25, 26]),
        (41, &[16, 18, 23, 24, 25, 26, 49, 51, 62, 66, 67, 70, 72]),
        (270, &[1, 2, 3, 4, 5, 10, 11, 12]),
    ];
    let [closed, alone, open_network] = [CLOSED, Variant::ALONE, OPEN].map(Filter::new);
    // SOL_UDP SOL_RAW SOL_ALG SOL_TLS SOL_MPTCP and more, garbage, negative.
    for level in (0..300).chain([0xffff, 0xffff_ffff, 0x8000_0001]) {
        let known =
            free.iter().find(|(of, _)| *of == level).map_or(&[][..], |(_, options)| options);
        for option in (0..300).chain([0x1_0002_u64 & 0xffff_ffff, 0x8000_0002, 0xffff_ffff]) {
            let args = [3, level, option, 0x7fff_0000_1234, 4, 0];
            let is_known = known.contains(&option);
            for (filter, refused) in [(&closed, NOTIFY), (&alone, ENOPROTOOPT)] {
                let expected = if is_known { ALLOW } else { refused };
                assert_eq!(filter.int_verdict(setsockopt, args), expected, "{args:?}");
            }
            assert_eq!(open_network.int_verdict(setsockopt, args), ALLOW, "{args:?}");
        }
    }
}
