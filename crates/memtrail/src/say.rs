//! Our words to the user: on stderr, one prefix, nothing else there.

/// One line to the user.
pub fn line(text: impl std::fmt::Display) {
    eprintln!("memtrail: {text}");
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
}
