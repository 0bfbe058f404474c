//! Real programs do inside what they do outside.

mod clients;
mod everyday;
mod examples;
mod packages;
mod programs;
mod repository;
mod signing;
