//! The command line, as the contract and landstrip(1) describe it.
