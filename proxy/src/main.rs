//! landstrip-proxy
fn main() {
    println!("landstrip-proxy {}", env!("CARGO_PKG_VERSION"));
}
