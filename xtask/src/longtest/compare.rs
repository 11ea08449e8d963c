//! Are two runs of a case the same in everything the case promises?

use super::cases::{Case, Output};
use super::record::Run;
use std::path::Path;

/// Differences, in words; empty when there are none.
pub fn runs(case: &Case, native: &Run, recorded: &Run) -> Result<Vec<String>, String> {
    let mut faults = Vec::new();
    let (expected, got) = (native.finished.status, recorded.finished.status);
    if expected != got {
        faults.push(format!(
            "status {} instead of {}{}",
            got.0,
            expected.0,
            last_words(&recorded.stderr)
        ));
    }
    if case.output != Output::Status {
        faults.extend(files("stdout", &native.stdout, &recorded.stdout)?);
    }
    if case.output == Output::Both {
        faults.extend(texts(
            "stderr",
            &read(&native.stderr)?,
            &own_words_removed(&read(&recorded.stderr)?),
        ));
    }
    for name in case.files {
        faults.extend(files(name, &native.dir.join(name), &recorded.dir.join(name))?);
    }
    faults.extend(files("afterwards", &native.aside, &recorded.aside)?);
    Ok(faults)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn files(what: &str, native: &Path, recorded: &Path) -> Result<Option<String>, String> {
    Ok(texts(what, &read(native)?, &read(recorded)?))
}

fn texts(what: &str, native: &[u8], recorded: &[u8]) -> Option<String> {
    if native == recorded {
        return None;
    }
    let at = native.iter().zip(recorded).take_while(|(a, b)| a == b).count();
    Some(format!(
        "{what} differs at byte {at} ({} against {} bytes)",
        recorded.len(),
        native.len()
    ))
}

/// What memtrail itself says on standard error is prefixed with its name.
fn own_words_removed(text: &[u8]) -> Vec<u8> {
    text.split_inclusive(|b| *b == b'\n')
        .filter(|line| !line.starts_with(b"memtrail: "))
        .flatten()
        .copied()
        .collect()
}

fn last_words(stderr: &Path) -> String {
    let text = std::fs::read(stderr).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .last()
        .map_or(String::new(), |line| format!(" (“{}”)", line.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_difference_is_named() {
        assert_eq!(texts("x", b"same", b"same"), None);
        assert_eq!(
            texts("x", b"abc", b"abd"),
            Some("x differs at byte 2 (3 against 3 bytes)".into())
        );
    }

    #[test]
    fn our_words_do_not_count_as_the_targets() {
        assert_eq!(own_words_removed(b"a\nmemtrail: hello\nb"), b"a\nb");
    }
}
