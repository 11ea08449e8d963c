//! Our words to the user: on stderr, one prefix, nothing else there.

use std::io::Write;

/// One line to the user, in one piece: the target writes to the same terminal.
pub fn line(text: impl std::fmt::Display) {
    let line = format!("memtrail: {text}\n");
    crate::progress::aside(|| {
        // If nobody listens there is nobody to tell.
        let _ = std::io::stderr().write_all(line.as_bytes());
    });
}

/// A text of several lines, as it is.
pub fn text(text: &str) {
    crate::progress::aside(|| {
        // If nobody listens there is nobody to tell.
        let _ = std::io::stderr().write_all(text.as_bytes());
    });
}

/// An error with its causes. A cause that its effect already names is not said twice.
pub fn error(error: &anyhow::Error) {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.ends_with(&cause) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
    }
    line(text);
    if error.chain().any(is_refusal) {
        line("memtrail doctor may tell why, and what to do");
    }
}

/// The kernel does not let us trace.
fn is_refusal(cause: &(dyn std::error::Error + 'static)) -> bool {
    use memtrail_tracee::Error::System;
    matches!(cause.downcast_ref(), Some(System { call, .. }) if call.starts_with("PTRACE_"))
}
