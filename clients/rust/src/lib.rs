#![doc = include_str!("../README.md")]

mod asking;
mod command;
#[cfg(feature = "embedded")]
mod embedded;
#[cfg(feature = "tokio")]
mod future;
mod policy;
mod process;
mod questions;
mod report;
mod sys;

pub use asking::{Answer, Granted, Question};
pub use command::{Command, Report, Source};
#[cfg(feature = "embedded")]
pub use embedded::become_landstrip_by_name;
#[cfg(feature = "tokio")]
pub use future::AsyncChild;
pub use policy::*;
pub use process::{Child, Output};
pub use questions::{Check, Kept, Learned};
pub use report::{Denial, EndedBy, Failure, Kind, Limit, Origin, Outcome, Rule};
