//! Links the image freestanding and position-independent: the tracer decides where it lies.
fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo:rerun-if-changed=image.ld");
    for arg in [
        "-nostartfiles",
        "-nostdlib",
        "-static-pie",
        "-Wl,--build-id=none",
        "-Wl,-z,noexecstack",
        "-Wl,-z,norelro",
    ] {
        println!("cargo:rustc-link-arg-bins={arg}");
    }
    println!("cargo:rustc-link-arg-bins=-Wl,-T,{dir}/image.ld");
}
