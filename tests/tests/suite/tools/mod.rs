//! Real programs do inside what they do outside.

mod clients;
mod everyday;
mod examples;
mod packages;
mod repository;
mod signing;
