//! What of the policy, and of the surroundings, changes the filter.

bitflags::bitflags! {
    /// Each set of these has a filter of its own.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Variant: u16 {
        /// IP networking is not restricted.
        const ALLOW_NETWORK = 1 << 0;
        /// Something is denied for reading: opens for reading are notified too.
        const REPORT_READS = 1 << 1;
        /// TCP may be bound on loopback addresses.
        const LOCAL_BINDING = 1 << 2;
        /// Unix sockets are not judged by path.
        const ALL_UNIX_SOCKETS = 1 << 3;
        /// A Unix datagram socket is listed: sending to an address is notified.
        const UNIX_DATAGRAMS = 1 << 4;
        /// There is no listener: nothing is notified.
        const ALONE = 1 << 5;
        /// The broker makes the command's sockets.
        const MAKES_SOCKETS = 1 << 6;
        /// Something is denied for reading, and only opens of directories are notified. Beside
        /// [`Variant::REPORT_READS`] this and the next say nothing.
        const LISTINGS = 1 << 7;
        /// Changes of files that Landlock alone decides are not notified.
        const CHANGES_LEFT = 1 << 8;
    }
}

impl Variant {
    /// How many there are.
    pub const COUNT: usize = Self::all().bits() as usize + 1;

    /// Every one, in the order of [`Variant::index`].
    pub fn every() -> impl Iterator<Item = Self> {
        (0..=Self::all().bits()).map(Self::from_bits_truncate)
    }

    /// The number of this one.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.bits())
    }
}
