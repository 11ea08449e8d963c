//! The library can be used without an operating system: it names nothing but `core` and `alloc`,
//! and needs no other crate.
use std::fs;
use std::path::Path;

#[test]
fn nothing_of_the_standard_library_is_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    assert!(library.contains("#![no_std]") && library.contains("extern crate alloc;"));
    assert!(!library.contains("extern crate std"));
    let mut files = 0;
    for entry in fs::read_dir(root.join("src")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("std::"), "{}", path.display());
        files += 1;
    }
    assert!(files > 5);
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert!(!manifest.contains("[dependencies]") && !manifest.contains("[features]"));
}
