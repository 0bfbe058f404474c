//! Amounts in policies: a number, or a size as people write it. Pure.

/// Of what an amount is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Count,
    Seconds,
}

/// The units of sizes, by IEC 80000-13 and the SI; none is ambiguous.
const SIZES: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
];

impl Unit {
    /// What `text` says, which is no number alone.
    pub(super) fn parse(self, text: &str) -> Option<u64> {
        if self != Self::Bytes {
            return None;
        }
        let (number, factor) =
            SIZES.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
        let number = number.trim_end();
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(*factor)
    }

    /// The largest amount.
    pub(super) fn most(self) -> u64 {
        match self {
            Self::Bytes => i64::MAX.unsigned_abs(),
            Self::Count | Self::Seconds => u32::MAX.into(),
        }
    }

    /// What an amount looks like, for errors.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::Bytes => "a number of bytes, or a size such as \"512MiB\" or \"2GiB\"",
            Self::Count => "a number of processes from 1",
            Self::Seconds => "a number of seconds from 1",
        }
    }

    /// `amount` as people read it.
    #[must_use]
    pub fn show(self, amount: u64) -> String {
        match self {
            Self::Count => amount.to_string(),
            Self::Seconds => format!("{amount} s"),
            Self::Bytes => {
                let unit = SIZES.iter().take(4).find(|(_, factor)| amount.is_multiple_of(*factor));
                let (unit, factor) = unit.copied().unwrap_or(("bytes", 1));
                format!("{} {unit}", amount / factor)
            }
        }
    }
}

#[cfg(test)]
impl Unit {
    pub(super) fn in_manual(self) -> &'static str {
        match self {
            Self::Bytes => "bytes, or a string such as 2GiB",
            Self::Count | Self::Seconds => "integer from 1",
        }
    }

    pub(super) fn schema(self) -> serde_json::Value {
        let number = serde_json::json!({ "type": ["integer", "null"], "minimum": 1 });
        let units = SIZES.map(|(unit, _)| unit).join("|");
        let size =
            serde_json::json!({ "type": "string", "pattern": format!("^[0-9]+ *({units})$") });
        match self {
            Self::Bytes => serde_json::json!({ "anyOf": [number, size] }),
            Self::Count | Self::Seconds => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_that_mean_one_thing() {
        for (text, expected) in [
            ("2GiB", Some(2 << 30)),
            ("512 MiB", Some(512 << 20)),
            ("1kB", Some(1000)),
            ("3TB", Some(3_000_000_000_000)),
            ("2G", None),
            ("2gib", None),
            ("GiB", None),
            ("-1GiB", None),
            ("+1GiB", None),
            ("1.5GiB", None),
            ("1", None),
            ("99999999999TiB", None),
        ] {
            assert_eq!(Unit::Bytes.parse(text), expected, "{text}");
            assert_eq!(Unit::Seconds.parse(text), None);
        }
    }

    #[test]
    fn amounts_are_shown_as_they_would_be_written() {
        assert_eq!(Unit::Bytes.show(2 << 30), "2 GiB");
        assert_eq!(Unit::Bytes.show(1536 << 20), "1536 MiB");
        assert_eq!(Unit::Bytes.show(1000), "1000 bytes");
        assert_eq!(Unit::Seconds.show(60), "60 s");
        assert_eq!(Unit::Count.show(7), "7");
    }
}
