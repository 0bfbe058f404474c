//! What is attempted inside of the sandbox, what is expected of it, and how the list of it travels there: in a
//! variable, a line an attempt. Pure.

use crate::cli::Form;
use std::fmt::Write;

/// The variable that holds the list. It means something only to a process that no launcher started as broker.
pub const VARIABLE: &str = "LANDSTRIP_DOCTOR";

/// Something to do, and whether the policy permits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub is_permitted: bool,
    pub act: Act,
    /// A path, an address, a process: what the act is done to.
    pub object: String,
}

macro_rules! acts {
    ($($act:ident $word:literal,)*) => {
        /// What is done.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Act {
            $($act,)*
        }

        impl Act {
            /// In words.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$act => $word,)*
                }
            }

            fn of(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$act),)*
                    _ => None,
                }
            }
        }
    };
}

acts! {
    Read "read",
    Write "write",
    MakeIn "make a file in",
    ChangeMode "change the mode of",
    MakeDevice "make a device in",
    Signal "signal process",
    ReadMemory "read the memory of process",
    TakeDescriptor "take a descriptor of process",
    Trace "trace process",
    ReadEnvironment "read the environment of process",
    Connect "connect by TCP to",
    Bind "bind TCP at",
    SendTo "send by UDP to",
    ConnectUnix "connect to the Unix socket",
    ConnectAbstract "connect to the abstract socket",
    MakeSocket "make a socket of kind",
    AskProxy "ask the proxy for",
    ShareMemory "share memory called",
    Call "call",
    Own "use its own",
}

impl Attempt {
    pub fn permitted(act: Act, object: impl Into<String>) -> Self {
        Self { is_permitted: true, act, object: object.into() }
    }

    pub fn refused(act: Act, object: impl Into<String>) -> Self {
        Self { is_permitted: false, ..Self::permitted(act, object) }
    }

    /// Whether it fits a line.
    pub fn is_plain(&self) -> bool {
        !self.object.contains(char::is_control)
    }
}

/// The value of [`VARIABLE`].
pub fn encode(form: Form, is_colored: bool, attempts: &[Attempt]) -> String {
    let mut text = String::from(match (form, is_colored) {
        (Form::Json, _) => "json",
        (Form::Text, true) => "color",
        (Form::Text, false) => "text",
    });
    for Attempt { is_permitted, act, object } in attempts {
        let expected = if *is_permitted { "permitted" } else { "refused" };
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{expected}\t{}\t{object}", act.word());
    }
    text
}

/// What [`encode`] wrote; none of what it did not.
pub fn decode(text: &str) -> Option<(Form, bool, Vec<Attempt>)> {
    let mut lines = text.split('\n');
    let (form, is_colored) = match lines.next()? {
        "json" => (Form::Json, false),
        "color" => (Form::Text, true),
        "text" => (Form::Text, false),
        _ => return None,
    };
    let attempt = |line: &str| {
        let mut fields = line.splitn(3, '\t');
        let is_permitted = match fields.next()? {
            "permitted" => true,
            "refused" => false,
            _ => return None,
        };
        let (act, object) = (Act::of(fields.next()?)?, fields.next()?.to_owned());
        Some(Attempt { is_permitted, act, object })
    };
    Some((form, is_colored, lines.map(attempt).collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_comes_back_as_it_was() {
        let attempts = [
            Attempt::refused(Act::Read, "/home/u/a b\\c"),
            Attempt::permitted(Act::Own, ""),
            Attempt::refused(Act::Connect, "127.0.0.1:1"),
        ];
        for (form, color) in [(Form::Json, false), (Form::Text, true), (Form::Text, false)] {
            let text = encode(form, color, &attempts);
            assert_eq!(decode(&text), Some((form, color, attempts.to_vec())));
        }
        for wrong in ["", "x", "text\n", "text\nrefused\tread", "text\nmaybe\tread\tx"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
        assert!(!Attempt::refused(Act::Read, "a\nb").is_plain());
    }
}
