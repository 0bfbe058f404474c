//! Real programs do inside what they do outside.

mod attack_table;
mod by_name;
mod clients;
mod everyday;
mod examples;
mod long_runs;
mod packages;
mod programs;
mod repository;
mod screens;
mod settings;
mod signing;
mod tls_servers;
