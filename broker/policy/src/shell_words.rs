//! The words of what shells run, as far as they can be known without running it: to find the files that are named there.
//! Pure. Source: sh(1p), Word Expansions.

/// The words of what a shell runs, a script after its interpreter among them. `here` is put in the place of what a shell
/// does (`$PWD`, `$(git rev-parse --show-toplevel)`), which is taken for the directory where it runs; what follows `cd` is
/// read as well as if it were relative to what that names.
pub(super) fn words(value: &[u8], here: u8) -> Vec<Vec<u8>> {
    let mut text = Vec::new();
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let end = |close: u8| {
            after.iter().position(|&byte| byte == close).map_or(after.len(), |at| at + 1)
        };
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = match (byte, after.first()) {
            (b'$', Some(b'(')) => end(b')'),
            (b'$', Some(b'{')) => end(b'}'),
            (b'$', _) => after.iter().take_while(|byte| is_name(byte)).count(),
            (b'`', _) => end(b'`'),
            (b'\'' | b'"', _) => continue,
            _ => {
                text.push(byte);
                continue;
            }
        };
        let (name, behind) = after.split_at(length);
        text.push(if [&b"HOME"[..], b"{HOME}"].contains(&name) { b'~' } else { here });
        rest = behind;
    }
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut entered: Option<Vec<u8>> = None;
    for word in text.split(|byte| b" \t\n!;&|()".contains(byte)).filter(|word| !word.is_empty()) {
        if let Some(directory) = entered.as_ref().filter(|_| word.contains(&b'/')) {
            words.push([directory, &b"/"[..], word].concat());
        }
        if words.last().is_some_and(|before| before == b"cd" || before == b"pushd") {
            entered = Some(word.to_owned());
        }
        words.push(word.to_owned());
    }
    words
}

/// What stands in the place of words in `line`: the commands of `$(...)` and of backticks, with what is in those.
pub(super) fn substituted(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find(['$', '`']) {
        let (is_quote, behind) = (rest.as_bytes()[at] == b'`', &rest[at + 1..]);
        rest = behind;
        let inner = if is_quote { Some(behind) } else { behind.strip_prefix('(') };
        let Some(inner) = inner else { continue };
        let mut depth = 0_usize;
        let end = inner.find(|character| match character {
            '`' => is_quote,
            '(' => {
                depth += 1;
                false
            }
            ')' if !is_quote => {
                depth = depth.wrapping_sub(1);
                depth == usize::MAX
            }
            _ => false,
        });
        let Some(end) = end else { continue };
        found.push(&inner[..end]);
        found.extend(substituted(&inner[..end]));
        rest = &inner[end + 1..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_the_place_of_words_are_found() {
        for (line, expected) in [
            ("a b", &[][..]),
            ("eval \"$(bash x.sh)\" `y z`", &["bash x.sh", "y z"]),
            ("$(a $(b (c)) d) $e ${f}", &["a $(b (c)) d", "b (c)"]),
            ("$(a", &[]),
        ] {
            assert_eq!(substituted(line), expected, "{line}");
        }
    }
}
