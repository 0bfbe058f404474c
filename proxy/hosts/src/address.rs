//! What kind of address a name resolved to. Pure.
//!
//! A permitted name must not lead to services that trust whoever reaches them: those on this host,
//! on the local network, and the metadata service of a cloud. Sources: the IANA special-purpose
//! address registries (RFC 6890); RFC 6052, RFC 3056, RFC 4380 and RFC 5214 for IPv6 addresses with an IPv4
//! address inside, which is judged instead.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Anybody's.
    Public,
    /// Of a local network: RFC 1918, shared and benchmarking space, unique local.
    Private,
    /// Of this host: loopback.
    Loopback,
    /// One of this host's own, on whatever interface.
    Own,
    /// Of this link.
    LinkLocal,
    /// A metadata service, which gives credentials to whoever asks.
    Metadata,
    /// Not one host's: unspecified, multicast, broadcast, reserved.
    NoHost,
}

impl Class {
    /// Whether a rule for such an address may be advised to whoever was refused it. A metadata service gives
    /// credentials away, and so may what serves a link; servers of this host run commands for whoever reaches them
    /// (debuggers, container engines, databases); the rest is no host.
    #[must_use]
    pub fn is_advisable(self) -> bool {
        matches!(self, Self::Public | Self::Private)
    }
}

/// Whether `name`, in lower case, is this host's: RFC 6761, section 6.3.
#[must_use]
pub fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether a rule for `name`, in lower case, may be advised.
#[must_use]
pub fn is_advisable_name(name: &str) -> bool {
    !is_localhost(name) && !is_metadata_name(name)
}

/// Whether a cloud answers for this name, in lower case, with its metadata service: Google, and EC2 in its documentation.
fn is_metadata_name(name: &str) -> bool {
    const NAMES: [&str; 5] = [
        "instance-data",
        "instance-data.ec2.internal",
        "metadata",
        "metadata.goog",
        "metadata.google.internal",
    ];
    NAMES.contains(&name)
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Private => "a private address",
            Self::Loopback => "a loopback address",
            Self::Own => "an address of this host",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a cloud's metadata service",
            Self::NoHost => "not the address of a host",
        })
    }
}

/// Tells what `address` is, except [`Class::Own`], which only this host knows.
#[must_use]
pub fn classify(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

fn classify_v4(address: Ipv4Addr) -> Class {
    match address.octets() {
        // AWS, Azure, Google, Oracle, Linode, Exoscale and most others
        // <https://docs.cloud-init.io/en/latest/reference/datasources.html>.
        [169, 254, 169, 254]
        // Scaleway <https://docs.cloud-init.io/en/latest/reference/datasources/scaleway.html>.
        | [169, 254, 42, 42]
        // Alibaba <https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata>.
        | [100, 100, 100, 200]
        // Azure's own services for its machines
        // <https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16>.
        | [168, 63, 129, 16]
        // Oracle, in its classic cloud
        // <https://docs.oracle.com/en/cloud/iaas/compute-iaas-cloud/stcsg/retrieving-instance-metadata.html>.
        | [192, 0, 0, 192] => Class::Metadata,
        [0, ..] | [224..=255, ..] => Class::NoHost,
        [127, ..] => Class::Loopback,
        [169, 254, ..] => Class::LinkLocal,
        [10, ..]
        | [172, 16..=31, ..]
        | [192, 168, ..]
        | [100, 64..=127, ..]
        | [192, 0, 0, _]
        | [198, 18..=19, ..] => Class::Private,
        _ => Class::Public,
    }
}

/// The IPv4 addresses that a packet to `address` may reach in the end: of one that is mapped or compatible, of NAT64
/// (RFC 6052), of 6to4 (RFC 3056), of ISATAP (RFC 5214 section 6.1). Of a network's own prefix for NAT64 (RFC 8215)
/// nobody else knows the length: then there are several.
pub fn embedded(address: IpAddr) -> impl Iterator<Item = Ipv4Addr> + Clone {
    let found = match address {
        IpAddr::V4(_) => [None; 4],
        IpAddr::V6(address) => embedded_v6(address),
    };
    found.into_iter().flatten()
}

fn embedded_v6(address: Ipv6Addr) -> [Option<Ipv4Addr>; 4] {
    let bytes = address.octets();
    let at = |places: [usize; 4]| Some(Ipv4Addr::from(places.map(|place| bytes[place])));
    let last = at([12, 13, 14, 15]);
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0x64, 0xff9b, 0, ..] => [last, None, None, None],
        // RFC 6052 section 2.2, figure 1: the ninth byte is left out.
        [0x64, 0xff9b, 1, ..] => [at([6, 7, 9, 10]), at([7, 9, 10, 11]), at([9, 10, 11, 12]), last],
        [0x2002, ..] => [at([2, 3, 4, 5]), None, None, None],
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => [last, None, None, None],
        _ => [None; 4],
    }
}

fn classify_v6(address: Ipv6Addr) -> Class {
    if address == Ipv6Addr::LOCALHOST {
        return Class::Loopback;
    }
    let inside = embedded(address.into()).map(classify_v4);
    // What is no host is reached by nobody, and some other reading is meant.
    let mut inside = inside.filter(|class| *class != Class::NoHost);
    if let Some(class) = inside.clone().find(|class| *class != Class::Public) {
        return class;
    }
    match address.segments() {
        // The deprecated compatible form includes the unspecified address.
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0x64, 0xff9b, 0 | 1, ..] | [0x2002, ..] => {
            inside.next().unwrap_or(Class::NoHost)
        }
        // Teredo hides its IPv4 addresses behind a server's.
        [0x2001, 0, ..] => Class::NoHost,
        // AWS, which has its credentials for containers there as well
        // <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html>.
        [0xfd00, 0xec2, ..]
        // Google <https://cloud.google.com/compute/docs/metadata/querying-metadata>.
        | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]
        // Oracle <https://github.com/oracle/oci-python-sdk>, instance_principals_security_token_signer.py.
        | [0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe]
        // Linode <https://docs.cloud-init.io/en/latest/reference/datasources/akamai.html>.
        | [0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1]
        // Scaleway <https://docs.cloud-init.io/en/latest/reference/datasources/scaleway.html>.
        | [0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42]
        // Alibaba <https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata>.
        | [0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200]
        // OpenStack, also Oracle and Linode <https://docs.openstack.org/nova/latest/user/metadata.html>.
        | [0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe] => Class::Metadata,
        [0xfe80..=0xfebf, ..] => Class::LinkLocal,
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Class::Private,
        [0x2000..=0x3fff, ..] => Class::Public,
        // Nothing else is given to hosts; multicast is in here.
        _ => Class::NoHost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_what_the_registries_say() {
        for (text, expected) in [
            ("93.184.216.34", Class::Public),
            ("172.15.0.1", Class::Public),
            ("172.32.0.1", Class::Public),
            ("100.63.0.1", Class::Public),
            ("10.0.0.1", Class::Private),
            ("172.16.0.1", Class::Private),
            ("192.168.1.1", Class::Private),
            ("100.64.0.1", Class::Private),
            ("198.18.0.1", Class::Private),
            ("127.0.0.1", Class::Loopback),
            ("127.255.255.255", Class::Loopback),
            ("169.254.1.1", Class::LinkLocal),
            ("169.254.169.254", Class::Metadata),
            ("100.100.100.200", Class::Metadata),
            ("0.0.0.0", Class::NoHost),
            ("0.1.2.3", Class::NoHost),
            ("224.0.0.1", Class::NoHost),
            ("255.255.255.255", Class::NoHost),
            ("240.0.0.1", Class::NoHost),
            ("2606:2800:220:1::1", Class::Public),
            ("::1", Class::Loopback),
            ("::", Class::NoHost),
            ("::ffff:127.0.0.1", Class::Loopback),
            ("::ffff:8.8.8.8", Class::Public),
            ("::127.0.0.1", Class::Loopback),
            ("64:ff9b::7f00:1", Class::Loopback),
            ("64:ff9b::a9fe:a9fe", Class::Metadata),
            ("64:ff9b:1::a00:1", Class::Private),
            // The prefix of the network has 48, 56, 64 or 96 bits; whatever follows the address does not count.
            ("64:ff9b:1:a9fe:a9:fe00::", Class::Metadata),
            ("64:ff9b:1:a9fe:a9:fe00:808:808", Class::Metadata),
            ("64:ff9b:1:7f:0:1::", Class::Loopback),
            ("64:ff9b:1:0:a:0:100::", Class::Private),
            ("64:ff9b:1:0:7f:0:1ff:ffff", Class::Loopback),
            ("64:ff9b:1::808:808", Class::Public),
            ("64:ff9b:1:fffe::808:808", Class::Public),
            ("64:ff9b:1:808:8:800::", Class::Public),
            ("64:ff9b:1::", Class::NoHost),
            ("2001:db8::5efe:a00:1", Class::Private),
            ("2001:db8::200:5efe:7f00:1", Class::Loopback),
            ("2001:db8::5efe:808:808", Class::Public),
            ("fe80::5efe:808:808", Class::LinkLocal),
            ("::ffff:0:127.0.0.1", Class::NoHost),
            ("169.254.42.42", Class::Metadata),
            ("192.0.0.192", Class::Metadata),
            ("192.0.0.193", Class::Private),
            ("fd00:c1::a9fe:a9fe", Class::Metadata),
            ("fd00:42::42", Class::Metadata),
            ("fd00:a9fe:a9fe::1", Class::Metadata),
            ("fd00:100::100:200", Class::Metadata),
            ("fe80::a9fe:a9fe", Class::Metadata),
            ("2002:7f00:1::", Class::Loopback),
            ("2001::1", Class::NoHost),
            ("2001:db8::1", Class::Public),
            ("fe80::1", Class::LinkLocal),
            ("fd00:ec2::254", Class::Metadata),
            ("fd00:ec2::23", Class::Metadata),
            ("168.63.129.16", Class::Metadata),
            ("168.63.129.17", Class::Public),
            ("fd20:ce::254", Class::Metadata),
            ("fd00::1", Class::Private),
            ("fc00::1", Class::Private),
            ("fec0::1", Class::Private),
            ("ff02::1", Class::NoHost),
            ("5f00::1", Class::NoHost),
        ] {
            assert_eq!(classify(text.parse().unwrap()), expected, "{text}");
        }
    }
}
