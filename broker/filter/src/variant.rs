//! What of the policy, and of the surroundings, changes the filter.

bitflags::bitflags! {
    /// Each set of these that there can be has a filter of its own.
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
        /// There can be sockets that send to an address, for the broker to judge: each message is notified.
        const DATAGRAMS = 1 << 4;
        /// There is no listener: nothing is notified.
        const ALONE = 1 << 5;
        /// The broker makes the command's sockets.
        const MAKES_SOCKETS = 1 << 6;
        /// Something is denied for reading, and only opens of directories are notified. Beside
        /// [`Variant::REPORT_READS`] this and the next say nothing.
        const LISTINGS = 1 << 7;
        /// Changes of files that Landlock alone decides are not notified.
        const CHANGES_LEFT = 1 << 8;
        /// Landlock scopes no signals (Linux 6.12 does), or forks are counted: signals and forks are notified.
        const NO_SCOPES = 1 << 9;
        /// Landlock does not judge what devices are asked (Linux 6.10 does).
        const NO_DEVICES = 1 << 10;
        /// Landlock does not judge truncation (Linux 6.2 does): the broker does.
        const NO_TRUNCATION = 1 << 11;
    }
}

impl Variant {
    /// How many sets there are.
    pub const COUNT: usize = Self::all().bits() as usize + 1;

    /// Every one that there can be, in the order of [`Variant::index`].
    pub fn every() -> impl Iterator<Item = Self> {
        (0..=Self::all().bits()).map(Self::from_bits_truncate).filter(|variant| variant.can_be())
    }

    /// Kernels got what is missing one after the other, and without scopes nobody but a broker judges
    /// signals. There changes are not left unreported, which would make many filters more.
    fn can_be(self) -> bool {
        [(Self::NO_TRUNCATION, Self::NO_DEVICES), (Self::NO_DEVICES, Self::NO_SCOPES)]
            .into_iter()
            .all(|(older, newer)| !self.contains(older) || self.contains(newer))
            && !self.contains(Self::ALONE | Self::NO_SCOPES)
            && !self.contains(Self::NO_SCOPES | Self::CHANGES_LEFT)
    }

    /// The number of this one.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.bits())
    }
}
