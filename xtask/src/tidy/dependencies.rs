//! What the lock files bring in: licences, versions that stand twice, packages nobody looks after,
//! and the least Rust version.
//!
//! `cargo metadata` knows all of it, so no network and no further tool is needed. What it does not
//! know is whether a package has a known vulnerability: the advisory database is elsewhere.

use crate::project::{cargo, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Each has a lock file of its own.
const MANIFESTS: &[&str] = &[
    "Cargo.toml",
    "crates/runtime/Cargo.toml",
    "examples/strides/Cargo.toml",
    "fuzz/Cargo.toml",
];

/// What memtrail runs on, and so what counts.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Licences that ask for no more than their text beside the program.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    // libFuzzer, in `fuzz` only.
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages of which a lock file may hold two versions, with the reason.
const TWICE: &[(&str, &str)] = &[];

/// Packages that the RustSec database calls unmaintained, and for which there is something better.
const UNMAINTAINED: &[&str] = &[
    "adler",
    "ansi_term",
    "atty",
    "backoff",
    "bincode",
    "derivative",
    "encoding",
    "failure",
    "fxhash",
    "instant",
    "memmap",
    "net2",
    "number_prefix",
    "paste",
    "proc-macro-error",
    "serde_cbor",
    "tempdir",
    "term_size",
    "yaml-rust",
];

struct Package {
    name: String,
    version: String,
    licence: Option<String>,
    rust_version: Option<String>,
    /// Of this project.
    own: bool,
}

pub fn check(errors: &mut Vec<String>) -> Result<(), String> {
    for manifest in MANIFESTS {
        let packages = packages(manifest)?;
        let found = judge(&packages);
        errors.extend(found.into_iter().map(|error| format!("{manifest}: {error}")));
    }
    Ok(())
}

/// What the lock file beside a manifest holds for our platform.
fn packages(manifest: &str) -> Result<Vec<Package>, String> {
    let path = root().join(manifest).display().to_string();
    let output = cargo(&["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", PLATFORM, "--manifest-path", &path])
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata of {manifest}: {}", said.trim()));
    }
    let all: Value = serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    parse(&all).ok_or(format!("cargo metadata of {manifest} is not as expected"))
}

fn parse(all: &Value) -> Option<Vec<Package>> {
    // `packages` has those of other platforms as well; the nodes of the graph do not.
    let nodes = all["resolve"]["nodes"].as_array()?;
    let used: BTreeSet<&str> = nodes.iter().filter_map(|node| node["id"].as_str()).collect();
    let text = |value: &Value| value.as_str().map(str::to_string);
    let packages = all["packages"].as_array()?.iter();
    packages
        .filter(|p| p["id"].as_str().is_some_and(|id| used.contains(id)))
        .map(|p| {
            Some(Package {
                name: text(&p["name"])?,
                version: text(&p["version"])?,
                licence: text(&p["license"]),
                rust_version: text(&p["rust_version"]),
                own: p["source"].is_null(),
            })
        })
        .collect()
}

fn judge(packages: &[Package]) -> Vec<String> {
    let mut errors = Vec::new();
    let declared = packages.iter().filter(|p| p.own);
    let declared = declared.filter_map(|p| release(p.rust_version.as_deref()?)).min();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let Package { name, version, .. } = package;
        versions.entry(name).or_default().push(version);
        match &package.licence {
            None => errors.push(format!("{name} {version} names no licence")),
            Some(licence) if !allowed(licence) => {
                errors.push(format!("{name} {version} has the licence {licence}"));
            }
            Some(_) => {}
        }
        if UNMAINTAINED.contains(&name.as_str()) {
            errors.push(format!("{name} {version} is unmaintained"));
        }
        let wants = package.rust_version.as_deref().and_then(release);
        if wants > declared {
            let wants = package.rust_version.as_deref().unwrap_or_default();
            errors.push(format!("{name} {version} wants Rust {wants}, more than is declared"));
        }
    }
    for (name, versions) in versions {
        if versions.len() > 1 && !TWICE.iter().any(|(known, _)| *known == name) {
            errors.push(format!(
                "{name} has {} versions: {}",
                versions.len(),
                versions.join(", ")
            ));
        }
    }
    errors
}

/// `1.88` and `1.88.0` are the same.
fn release(version: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = version.split('.').map(|n| n.parse().ok());
    let (major, minor) = (numbers.next()??, numbers.next().unwrap_or(Some(0))?);
    Some((major, minor, numbers.next().unwrap_or(Some(0))?))
}

/// May we use what has this licence? `OR` leaves the choice to us, `AND` does not; `/` is an old
/// `OR`.
fn allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    either(&mut rest) && rest.is_empty()
}

fn either(rest: &mut &[&str]) -> bool {
    let mut good = both(rest);
    while let Some(("OR", behind)) = rest.split_first().map(|(first, behind)| (*first, behind)) {
        *rest = behind;
        good |= both(rest);
    }
    good
}

fn both(rest: &mut &[&str]) -> bool {
    let mut good = one(rest);
    while let Some(("AND", behind)) = rest.split_first().map(|(first, behind)| (*first, behind)) {
        *rest = behind;
        good &= one(rest);
    }
    good
}

fn one(rest: &mut &[&str]) -> bool {
    match **rest {
        ["(", ref behind @ ..] => {
            *rest = behind;
            let good = either(rest);
            let closed = rest.first() == Some(&")");
            *rest = rest.get(1..).unwrap_or_default();
            good && closed
        }
        [licence, "WITH", exception, ref behind @ ..] => {
            *rest = behind;
            LICENCES.contains(&format!("{licence} WITH {exception}").as_str())
        }
        [licence, ref behind @ ..] => {
            *rest = behind;
            LICENCES.contains(&licence)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_expressions() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "LGPL-2.1-or-later OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(allowed(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT",
            "MIT)",
            "MIT WITH GPL-exception",
            "OR MIT",
        ] {
            assert!(!allowed(bad), "{bad}");
        }
    }

    fn package(name: &str, version: &str, licence: Option<&str>, rust: Option<&str>, own: bool) -> Package {
        Package {
            name: name.into(),
            version: version.into(),
            licence: licence.map(str::to_string),
            rust_version: rust.map(str::to_string),
            own,
        }
    }

    #[test]
    fn everything_wrong_is_told() {
        let packages = [
            package("ours", "0.1.0", Some("MIT"), Some("1.88"), true),
            package("good", "1.0.0", Some("MIT"), Some("1.88.0"), false),
            package("silent", "1.0.0", None, None, false),
            package("strict", "1.0.0", Some("GPL-3.0"), None, false),
            package("young", "1.0.0", Some("MIT"), Some("1.88.1"), false),
            package("number_prefix", "0.4.0", Some("MIT"), None, false),
            package("good", "2.0.0", Some("MIT"), Some("1.9"), false),
        ];
        let expected = [
            "silent 1.0.0 names no licence",
            "strict 1.0.0 has the licence GPL-3.0",
            "young 1.0.0 wants Rust 1.88.1, more than is declared",
            "number_prefix 0.4.0 is unmaintained",
            "good has 2 versions: 1.0.0, 2.0.0",
        ];
        assert_eq!(judge(&packages), expected);
    }

    /// The version of iced-x86 that a lock file names.
    fn decoder(lock: &str) -> String {
        let text = std::fs::read_to_string(root().join(lock)).expect(lock);
        let (_, behind) = text.split_once("name = \"iced-x86\"\nversion = \"").expect(lock);
        behind.split('"').next().expect(lock).to_string()
    }

    /// The runtime and the collector derive the same plan from the same bytes: with one decoder
    /// only.
    #[test]
    fn the_decoder_is_the_same_inside_and_outside_the_target() {
        let version = decoder("Cargo.lock");
        assert_eq!(decoder("crates/runtime/Cargo.lock"), version);
        for manifest in ["Cargo.toml", "crates/runtime/Cargo.toml"] {
            let text = std::fs::read_to_string(root().join(manifest)).expect(manifest);
            let pinned = format!("iced-x86 = {{ version = \"={version}\"");
            assert!(text.contains(&pinned), "{manifest} does not pin {version}");
        }
    }
}
