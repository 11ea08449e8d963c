//! Builds the runtime, the freestanding program that is injected into targets, and tells the
//! crate where its file is.
//!
//! The runtime is a package of its own outside the workspace: it is linked without the C
//! library to lie at any address, and nothing of this build's settings may leak into that one.
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables of the outer build that would change the inner one.
const LEAKS: [&str; 9] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_BUILD_TARGET",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_MAKEFLAGS",
];

fn main() {
    let crates = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .parent()
        .expect("crates/tracee has a parent")
        .to_path_buf();
    for source in ["runtime", "translate", "plan", "ring", "model"] {
        for part in ["src", "Cargo.toml", "build.rs", "image.ld", "Cargo.lock", ".cargo"] {
            let path = crates.join(source).join(part);
            if path.exists() {
                println!("cargo:rerun-if-changed={}", path.display());
            }
        }
    }
    println!("cargo:rerun-if-changed=build.rs");
    let image = build_runtime(&crates.join("runtime"));
    println!("cargo:rustc-env=MEMTRAIL_RUNTIME={}", image.display());
}

fn build_runtime(runtime: &Path) -> PathBuf {
    // An outer build that checks itself injects a runtime that does.
    let profile = if cfg!(debug_assertions) { "checked" } else { "release" };
    let target_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("runtime");
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets it"));
    // The directory decides which cargo configuration applies: the runtime's own, not the caller's.
    cargo
        .current_dir(runtime)
        .args(["build", "--profile", profile, "--manifest-path"])
        .arg(runtime.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir);
    for name in LEAKS {
        cargo.env_remove(name);
    }
    for (name, _) in env::vars_os() {
        let leaks = name
            .to_str()
            .is_some_and(|n| n.starts_with("CARGO_PROFILE_") || n.starts_with("CARGO_TARGET_"));
        if leaks {
            cargo.env_remove(name);
        }
    }
    let status = cargo.status().expect("cargo can be run");
    assert!(status.success(), "building the runtime failed: {status}");
    let image = target_dir.join(profile).join("memtrail-runtime");
    assert!(image.is_file(), "no runtime image at {}", image.display());
    image
}
