//! Error numbers in words.

use rustix::io::Errno;

/// The text of `errno` without Rust's `(os error N)`.
pub fn strerror(errno: Errno) -> String {
    let mut text = std::io::Error::from(errno).to_string();
    text.truncate(text.find(" (os error").unwrap_or(text.len()));
    text
}
