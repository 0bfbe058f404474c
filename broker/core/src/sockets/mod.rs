//! Calls on sockets: addresses judged by the rules, and used as the broker's own copies.
//!
//! Nothing here lets a call through whose address lies in memory and counts: it is performed or refused.
//! socket(2), whose arguments are registers, can continue (see [`calls::make_socket`]), and sendmsg(2) where no
//! socket that is judged heeds an address ([`sendmsg_gate`]).

mod address_leases;
mod asked;
pub(crate) mod calls;
pub(crate) mod connects;
pub(crate) mod dial;
mod held_sockets;
mod inert_udp;
pub(crate) mod judge;
mod kinds;
mod message;
mod message_sender;
mod messages;
mod own_datagrams;
mod own_paths;
mod own_ports;
mod permitted;
mod reached;
pub(crate) mod sendmsg_gate;
pub(crate) mod socket;
mod udp;
mod unix;
mod unwaiting;
