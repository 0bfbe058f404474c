#![doc = include_str!("../README.md")]

mod asking;
mod command;
mod policy;
mod process;
mod questions;
mod report;
mod sys;

pub use asking::{Answer, Granted, Question};
pub use command::{Command, Report, Source};
pub use policy::*;
pub use process::{Child, Output};
pub use questions::{Check, Kept, Learned};
pub use report::{Denial, EndedBy, Failure, Kind, Limit, Origin, Outcome, Rule};
