//! Links the launcher without a C library or start-up files.

fn main() {
    for arg in ["-nostartfiles", "-nostdlib", "-static", "-no-pie"] {
        println!("cargo:rustc-link-arg-bins={arg}");
    }
    // There the compiler's library asks for it in a constructor, which without start-up files nobody calls.
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("aarch64") {
        println!("cargo:rustc-link-arg-bins=-Wl,--defsym=getauxval=0");
    }
}
