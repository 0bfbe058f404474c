//! All that is said to people: options, checks, explanations, advice, what was learned.
//!
//! Nothing that confines a run depends on this crate.
//!
//! | room | what it owns | what it never does |
//! |---|---|---|
//! | [`cli`] | options and the help | run anything |
//! | [`load`] | the way from the options to a policy | run anything |
//! | [`advice`] | what a policy would have to say for what was refused or learned | change a policy |
//! | [`commands`] | what the command line asks for | confine |
//! | [`consent`] | who is asked during a run, how, and by which rules | confine |
//! | [`explain`] | what a policy means, in words, for `--explain` | judge by itself |
//! | [`doctor`] | what the platform gives, and attempts on a sandbox from inside, for `--doctor` | confine |
//! | [`ending`] | what is said when a run has ended | confine |
//! | [`environment`] | what tools are told of the sandbox by variables | decide which the command gets |
//! | [`examine`] | what there is to say of a policy, for `--check` and `--explain` | run anything |
//! | [`learn`] | a run that permits and reports, and the policy that it needs | confine |
//! | [`observe`] | which calls that are let through the file rules refuse, for reports | refuse anything |
//! | [`reports`] | what is said of denials when a run has ended | refuse anything |
//! | [`store`] | the denials that are kept, and what `--denials` says of them | run anything |
//! | [`init`] | the policy that `--init` writes | run anything |

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "for the crates of the broker alone")]

pub mod advice;
pub mod cli;
pub mod commands;
pub mod consent;
pub mod doctor;
pub mod ending;
pub mod environment;
pub mod examine;
pub mod explain;
pub mod init;
pub mod learn;
pub mod load;
pub mod observe;
pub mod reports;
pub mod store;
