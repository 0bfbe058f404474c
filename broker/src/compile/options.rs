//! What of the policy changes the filter.

/// Each set of options has a filter of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// IP networking is not restricted.
    pub allow_network: bool,
    /// Something is denied for reading: opens for reading are notified too.
    pub report_reads: bool,
    /// TCP may be bound on loopback addresses.
    pub local_binding: bool,
    /// Unix sockets are not judged by path.
    pub all_unix_sockets: bool,
    /// A Unix datagram socket is listed: sending to an address is notified.
    pub unix_datagrams: bool,
    /// There is no listener: nothing is notified.
    pub alone: bool,
    /// The broker makes the command's sockets.
    pub makes_sockets: bool,
}

impl Options {
    /// How many sets there are.
    pub(crate) const COUNT: usize = 128;

    /// Every set, in the order of [`Options::index`].
    #[allow(dead_code, reason = "for the build script and tests")]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(|index| Self {
            allow_network: index & 1 != 0,
            report_reads: index & 2 != 0,
            local_binding: index & 4 != 0,
            all_unix_sockets: index & 8 != 0,
            unix_datagrams: index & 16 != 0,
            alone: index & 32 != 0,
            makes_sockets: index & 64 != 0,
        })
    }

    /// The number of this set.
    #[allow(dead_code, reason = "not for the build script")]
    pub(crate) fn index(self) -> usize {
        usize::from(self.allow_network)
            | usize::from(self.report_reads) << 1
            | usize::from(self.local_binding) << 2
            | usize::from(self.all_unix_sockets) << 3
            | usize::from(self.unix_datagrams) << 4
            | usize::from(self.alone) << 5
            | usize::from(self.makes_sockets) << 6
    }
}
