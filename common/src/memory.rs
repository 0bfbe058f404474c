//! Programs that lie in sealed memory instead of in files (memfd_create(2)). Who starts the first one leaves descriptors
//! of the others open. The name of each, which the kernel tells and nobody can change, ends with the number of the one
//! that it starts: of the launcher `landstrip:7:`, of the broker `landstrip-broker:8:`.

/// The descriptor of what `program` starts, as /proc/self/exe calls that; `None` if it lies in a file. No file is called
/// so but by who may write in the root directory.
#[must_use]
pub fn started_by(program: &[u8]) -> Option<&[u8]> {
    let name = program.strip_prefix(b"/memfd:")?.strip_suffix(b": (deleted)")?;
    let number = name.rsplit(|&byte| byte == b':').next()?;
    (!number.is_empty() && number.iter().all(u8::is_ascii_digit)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::started_by;

    #[test]
    fn only_what_lies_in_memory_names_a_descriptor() {
        for (program, number) in [
            ("/memfd:landstrip:7: (deleted)", Some("7")),
            ("/memfd:landstrip-broker:1023: (deleted)", Some("1023")),
            ("/memfd:landstrip:7:", None),
            ("/memfd:landstrip (deleted)", None),
            ("/memfd:landstrip:7 (deleted)", None),
            ("/memfd:landstrip:: (deleted)", None),
            ("/memfd:landstrip:7/../8: (deleted)", None),
            ("/memfd:landstrip:-1: (deleted)", None),
            ("/home/you/memfd:landstrip:7: (deleted)", None),
            ("/usr/bin/landstrip", None),
            ("/usr/bin/landstrip:7: (deleted)", None),
            ("", None),
        ] {
            assert_eq!(started_by(program.as_bytes()), number.map(str::as_bytes), "{program}");
        }
    }
}
