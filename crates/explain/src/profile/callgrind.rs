//! Callgrind's format, for KCachegrind and `callgrind_annotate`.
//!
//! What a format of profiles has no room for: which data it was. How often a function was called is
//! not in the counts: each call of a path is told once.
use super::{one_line, Profile, StackFrame};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Module, file and function.
type Code = (String, String, String);

fn code(frame: &StackFrame) -> Code {
    let known = |text: &str| match text {
        "" => "???".to_string(),
        text => one_line(text),
    };
    (known(&frame.module), known(&frame.file), known(&frame.function))
}

/// What a function did itself, by line, and through the functions it called: by line and callee.
#[derive(Default)]
struct Function {
    own: BTreeMap<u32, Vec<u64>>,
    /// What the callee did, all it called included, and the line that it is known by.
    calls: BTreeMap<(u32, Code), Vec<u64>>,
}

fn add(sums: &mut Vec<u64>, values: &[u64]) {
    sums.resize(values.len(), 0);
    sums.iter_mut().zip(values).for_each(|(sum, n)| *sum += n);
}

fn listed(values: &[u64]) -> String {
    values.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

pub fn callgrind(profile: &Profile) -> String {
    let mut functions: BTreeMap<Code, Function> = BTreeMap::new();
    for sample in &profile.samples {
        let Some(leaf) = sample.stack.last() else { continue };
        add(
            functions
                .entry(code(leaf))
                .or_default()
                .own
                .entry(leaf.line)
                .or_default(),
            &sample.values,
        );
        // A function that calls itself through others would count what it did twice.
        let mut told = BTreeSet::new();
        for pair in sample.stack.windows(2) {
            let (caller, callee) = (code(&pair[0]), code(&pair[1]));
            if told.insert((caller.clone(), pair[0].line, callee.clone())) {
                let calls = &mut functions.entry(caller).or_default().calls;
                add(calls.entry((pair[0].line, callee)).or_default(), &sample.values);
            }
        }
    }
    let mut text = String::from("# callgrind format\nversion: 1\ncreator: memtrail\n");
    let _ = writeln!(
        text,
        "cmd: {}\npositions: line\nevents: {}",
        one_line(&profile.command),
        profile.events.join(" ")
    );
    let _ = writeln!(text, "summary: {}\n", listed(&profile.totals()));
    for ((module, file, name), function) in &functions {
        let _ = writeln!(text, "ob={module}\nfl={file}\nfn={name}");
        for (line, values) in &function.own {
            let _ = writeln!(text, "{line} {}", listed(values));
        }
        for ((line, (module, file, name)), values) in &function.calls {
            let _ = writeln!(
                text,
                "cob={module}\ncfi={file}\ncfn={name}\ncalls=1 0\n{line} {}",
                listed(values)
            );
        }
        text.push('\n');
    }
    let _ = writeln!(text, "totals: {}", listed(&profile.totals()));
    text
}
