#![no_std]
//! common
