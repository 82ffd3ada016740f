//! Why a command failed, for people.

use crate::api::error::chain;
use crate::config::ConfigError;
use std::error::Error;
use std::fmt::{self, Write};
use std::process::ExitCode;

/// What a command prints when it fails.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A setting cannot be used.
    Config(ConfigError),
    /// `verify` found what must not be; the report says what.
    Violations,
    /// `restore-check` misses something; the report says what.
    Damaged,
    /// `restore-check` misses nothing, and found objects that the catalog does not know.
    Orphans,
    /// `compact` went on past groups that failed; the report says why.
    Incomplete,
    /// Something outside failed, while doing what the text says.
    While(String, Box<dyn Error + Send + Sync>),
}

impl Failure {
    /// An error that happened while doing `what`.
    pub(crate) fn at(what: impl Into<String>, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::While(what.into(), error.into())
    }

    /// 2 for a wrong setting, as for a wrong flag; 1 otherwise.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(_) => ExitCode::from(2),
            Self::Violations | Self::Damaged => ExitCode::from(3),
            Self::Orphans => ExitCode::from(4),
            Self::Incomplete | Self::While(..) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Violations => f.write_str("the catalog violates an invariant; the report says which"),
            Self::Damaged => f.write_str("the object store lacks what the catalog needs; the report says what"),
            Self::Orphans => {
                f.write_str("nothing is missing, but the object store holds objects that the catalog does not know")
            }
            Self::Incomplete => f.write_str(
                "not all could be done: the report says how many groups or objects failed, and they are tried again",
            ),
            // what an object store or a server says may carry anything; a terminal obeys control characters
            Self::While(what, error) => {
                format!("{what}: {}", chain(error.as_ref())).chars().try_for_each(|c| match c {
                    '\n' => f.write_char(c),
                    c if c.is_control() => write!(f, "{}", c.escape_default()),
                    c => f.write_char(c),
                })
            }
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

#[cfg(test)]
mod tests {
    use super::Failure;

    #[test]
    fn what_others_say_does_not_reach_the_terminal_raw() {
        let failure = Failure::at("cannot list", "bad key a\u{1b}[31m\u{1}b\nand so on");
        assert_eq!(failure.to_string(), "cannot list: bad key a\\u{1b}[31m\\u{1}b\nand so on");
    }
}
