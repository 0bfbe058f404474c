//! What a shell, or another program, would have taken apart in a path, and nothing does in a policy: a rule for
//! a file called `$HOME` protects nothing, and says nothing. Pure.

/// Checks that `text`, an item of a list of paths, begins with no variable and no drive, and holds no other list and
/// no URL.
/// Escaped by a backslash, `$` and `{` are meant as they are.
///
/// # Errors
/// Returns what is wrong and what to write instead.
pub(crate) fn check(text: &str) -> Result<(), String> {
    // Hundreds of paths have none of these.
    if !text.bytes().any(|byte| b"$!%:{".contains(&byte)) {
        return Ok(());
    }
    if let Some((name, rest)) = leading_variable(text) {
        let instead = match name {
            "HOME" => format!("write '~{rest}' for the home directory"),
            "PWD" => format!("write '.{rest}' for the working directory"),
            _ => format!("write the path itself, or './{text}' for a file of that name"),
        };
        return Err(format!("nothing expands the variable in '{text}': {instead}"));
    }
    if let Some(name) = text.strip_prefix('!') {
        return Err(format!(
            "nothing negates '{name}' in '{text}': leave the item out, or write './{text}' for a file of that name"
        ));
    }
    if text
        .strip_prefix('%')
        .and_then(|rest| rest.split_once('%'))
        .is_some_and(|(name, _)| is_name(name))
    {
        return Err(format!(
            "nothing expands the variable in '{text}': write the path itself, '~' for the home directory"
        ));
    }
    if text.contains("://") {
        return Err(format!("'{text}' is a URL; write a path"));
    }
    if let Some((drive, rest)) = on_a_drive(text) {
        let drive = drive.to_ascii_lowercase();
        let rest = rest.replace('\\', "/");
        return Err(format!(
            "'{text}' is a path of Windows: write the path that it has here, \
             '/mnt/{drive}/{rest}' under WSL"
        ));
    }
    if text.contains(":~/") {
        return Err(format!(
            "a colon separates nothing in '{text}': write each path as an item of its own"
        ));
    }
    if let Some(items) = brace_list(text) {
        let items = items.join("', '");
        return Err(format!(
            "nothing expands the braces in '{text}': write '{items}', each as an item of its own \
             ('\\{{' for a brace in a name)"
        ));
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The drive and what follows in `C:\...` or `C:/...`.
fn on_a_drive(text: &str) -> Option<(char, &str)> {
    let (drive, rest) = text.split_once(':')?;
    let [letter] = drive.as_bytes() else { return None };
    let rest = rest.strip_prefix(['\\', '/'])?;
    letter.is_ascii_alphabetic().then_some((char::from(*letter), rest))
}

/// The name in a leading `$NAME` or `${NAME}`, and what follows.
fn leading_variable(text: &str) -> Option<(&str, &str)> {
    let after = text.strip_prefix('$')?;
    if let Some((name, rest)) = after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
        return Some((name, rest));
    }
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let end = after.find(|c: char| !is_first(c) && !c.is_ascii_digit()).unwrap_or(after.len());
    after.starts_with(is_first).then(|| after.split_at(end))
}

/// A variable that a shell would expand after the first character of `text`: `/$NAME`, or `${NAME}` anywhere. A
/// dollar within a name, as in `Outer$Inner.class`, is none.
pub(crate) fn later_variable(text: &str) -> Option<&str> {
    text.match_indices('$').find_map(|(at, _)| {
        let (before, from) = text.split_at(at);
        let starts = before.ends_with('/') || from.starts_with("${") && !before.ends_with('\\');
        let (_, rest) = leading_variable(from).filter(|_| starts)?;
        Some(&from[..from.len() - rest.len()])
    })
}

/// What a shell would make of the first list in braces: `{a,b}` or `{1..9}`, of which only the ends are told.
fn brace_list(text: &str) -> Option<Vec<String>> {
    let mut open = None;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => {}
            b'{' => open = Some(at),
            b'}' => {
                if let Some(from) = open.take() {
                    let inner = &text[from + 1..at];
                    let (before, after) = (&text[..from], &text[at + 1..]);
                    let items: Vec<&str> = match inner.split_once("..") {
                        Some((first, last)) if !inner.contains(',') => vec![first, last],
                        _ => inner.split(',').collect(),
                    };
                    if items.len() > 1 {
                        let whole = |item: &&str| format!("{before}{item}{after}");
                        return Some(items.iter().map(whole).collect());
                    }
                }
            }
            _ => {}
        }
        escaped = byte == b'\\' && !escaped;
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_a_shell_would_expand_is_an_error_that_says_what_to_write() {
        for (text, instead) in [
            ("$HOME/.ssh", "write '~/.ssh' for"),
            ("${HOME}/.ssh", "write '~/.ssh' for"),
            ("$HOME", "write '~' for"),
            ("$PWD/x", "write './x' for"),
            ("$XDG_DATA_HOME/x", "write the path itself, or './$XDG_DATA_HOME/x'"),
            ("${A:-b}/x", "write the path itself"),
            ("{~/.ssh,~/.aws}", "write '~/.ssh', '~/.aws', each"),
            ("~/.{ssh,aws,gnupg}/*", "write '~/.ssh/*', '~/.aws/*', '~/.gnupg/*', each"),
            ("src/**/*.{js,ts}", "write 'src/**/*.js', 'src/**/*.ts', each"),
            ("x{1..9}", "write 'x1', 'x9', each"),
            ("a{,.bak}", "write 'a', 'a.bak', each"),
            ("file:///etc/passwd", "is a URL"),
            ("~/.ssh:~/.aws", "each path as an item of its own"),
            ("a{b,{c,d}}", "nothing expands the braces"),
            ("C:\\Users\\me", "'/mnt/c/Users/me' under WSL"),
            ("d:/work", "'/mnt/d/work' under WSL"),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.contains(instead), "{text}: {error}");
        }
    }

    #[test]
    fn variables_further_on_are_found() {
        for (text, found) in [
            ("/home/$USER/.ssh", Some("$USER")),
            ("~/.cache/x-${UID}/y", Some("${UID}")),
            ("./$HOME", Some("$HOME")),
            ("a/\\$HOME", None),
            ("a/\\${HOME}", None),
            ("build/Outer$Inner.class", None),
            ("a/$1", None),
            ("a/b$", None),
        ] {
            assert_eq!(later_variable(text), found, "{text}");
        }
    }

    #[test]
    fn other_dollars_and_braces_are_names() {
        for text in [
            "./$HOME",
            "a/$HOME",
            "\\$HOME",
            "$",
            "$1",
            "$/x",
            "a{b}",
            "{a",
            "a,b}",
            "}{,",
            "\\{a,b}",
            "{{uuid}}",
            "a{b\\}c,d",
            "./C:\\Users",
            "C:",
            "C:x",
            "CD:/x",
            "a\\:b",
            "~/.ssh",
            "*.c",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }
}
