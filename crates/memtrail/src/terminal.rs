//! What a text may look like where it is printed.
use memtrail_explain::answer::Look;
use std::env;
use std::io::IsTerminal;

/// Columns where there is no terminal that tells.
const USUAL: usize = 100;

/// Most columns of a text: those that `COLUMNS` names, those of the terminal, or 100. Nothing with
/// `--wide`.
pub fn width(wide: bool) -> Option<usize> {
    if wide {
        return None;
    }
    let named = env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let named = named.filter(|&columns| columns > 0);
    let of_terminal = || {
        let (_, columns) = console::Term::stdout().size_checked()?;
        std::io::stdout().is_terminal().then_some(usize::from(columns))
    };
    Some(named.or_else(of_terminal).unwrap_or(USUAL))
}

/// As `https://no-color.org` has it.
fn wants_colour(is_terminal: bool) -> bool {
    let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    is_terminal && !refused && !dumb
}

/// For a report on standard output.
pub fn look(wide: bool) -> Look {
    Look {
        width: width(wide),
        colour: wants_colour(std::io::stdout().is_terminal()),
    }
}

/// For words to the user, on standard error.
pub fn look_of_stderr() -> Look {
    Look {
        width: width(false),
        colour: wants_colour(std::io::stderr().is_terminal()),
    }
}
