//! Links the launcher without a C library or start-up files.

fn main() {
    // What would be made read-only after start is put at the end of a page by it, which on AArch64 is 64 KiB of the
    // file: no start-up files, and nobody to make it so.
    for arg in ["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-Wl,-z,norelro"] {
        println!("cargo:rustc-link-arg-bins={arg}");
    }
    // There the compiler's library asks for it in a constructor, which without start-up files nobody calls.
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("aarch64") {
        println!("cargo:rustc-link-arg-bins=-Wl,--defsym=getauxval=0");
    }
}
