//! What the size table records: kernels of known shape, and real programs. As data.
//!
//! Dense kernels come in pairs of sizes, chosen so that the larger makes about 500 times the
//! accesses of the smaller: a trace of loops must not care. Kernels are static, so that the dynamic
//! linker is not part of what is measured, and compiled without and with optimisation: at `-O0`
//! every counter lives in memory and no loop is affine in registers.

use crate::bench::workloads::{self, Prepared, Workload};
use crate::packages::Package;
use crate::project::{first_line_of, root};
use std::path::Path;

/// What a row's trace must keep (issue "Small", "Fast"); what is `None` is not asked of it.
/// To be smaller than `xz -6` of the bare addresses is asked of every row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// Bytes of the file.
    pub file: Option<u64>,
    /// Growth of the file between the sizes of a pair, in per cent.
    pub growth: Option<f64>,
    /// Bits per access.
    pub bits: Option<f64>,
    /// Wall time of recording over native wall time.
    pub wall: Option<f64>,
}

#[derive(Debug)]
pub enum Program {
    /// `bench/kernels/SOURCE.c` with its arguments: small, large, and a large one for `--quick`.
    Pair {
        small: &'static str,
        large: &'static str,
        quick: &'static str,
    },
    /// A kernel at one size; SIZE in `setup`, bash that may call `./kernel`, or in `arguments` is
    /// replaced.
    Single {
        setup: &'static str,
        arguments: &'static str,
        full: &'static str,
        quick: &'static str,
    },
    /// A program of the system; SIZE in its set-up script is replaced.
    Command {
        argv: &'static [&'static str],
        setup: &'static str,
        full: &'static str,
        quick: &'static str,
    },
    /// The workload of the same name in the overhead table.
    Workload,
}

pub struct Subject {
    pub name: &'static str,
    pub packages: &'static [Package],
    pub program: Program,
    pub bounds: Bounds,
}

/// One line of the table: a subject, its optimisation level and size.
pub struct Row {
    pub subject: &'static Subject,
    /// `-O0` or `-O2`; empty for what we do not compile.
    pub level: &'static str,
    pub size: &'static str,
    /// Is this the larger of a pair? The smaller is the row before.
    pub grown: bool,
}

impl Row {
    pub fn name(&self) -> String {
        format!("{}{}", self.subject.name, self.level)
    }

    pub fn bounds(&self) -> Bounds {
        let mut bounds = self.subject.bounds;
        bounds.growth = bounds.growth.filter(|_| self.grown);
        bounds
    }
}

/// How kernels are compiled.
const LEVELS: [&str; 2] = ["-O0", "-O2"];

/// A file that is not to grow: 24 KB in the strict sense.
const DENSE: Bounds = Bounds {
    file: Some(24_000),
    growth: Some(5.0),
    bits: None,
    wall: None,
};

const fn dense(name: &'static str, small: &'static str, large: &'static str, quick: &'static str) -> Subject {
    Subject {
        name,
        packages: &[],
        program: Program::Pair { small, large, quick },
        bounds: DENSE,
    }
}

const fn bits(most: f64) -> Bounds {
    Bounds {
        file: None,
        growth: None,
        bits: Some(most),
        wall: None,
    }
}

const fn bits_and_wall(most: f64, wall: f64) -> Bounds {
    Bounds {
        wall: Some(wall),
        ..bits(most)
    }
}

/// SIZE bytes of natural text: the sources of the Python and Perl standard libraries, in order of
/// their paths.
const TEXT: &str = "find -L /usr/lib/python3.[0-9]* /usr/share/perl/5.[0-9]*[0-9].[0-9]* -name '*.p[lmy]' -print0 |
    sort -z | xargs -0 cat 2>/dev/null | head -c SIZE > input.txt
[ $(stat -c %s input.txt) = SIZE ] || { echo 'too little text in the libraries of python3 and perl' >&2; false; }";

const TEXT_PACKAGES: &[Package] = &[
    ("gzip", "gzip"),
    ("xz-utils", "xz"),
    ("python3", "python3"),
    ("perl", "perl"),
];

pub const SUBJECTS: &[Subject] = &[
    dense("matmul", "50 1", "400 1", "100 1"),
    dense("trisolve", "100 10", "2400 10", "400 10"),
    dense("lu", "60", "500", "120"),
    dense("stencil", "50 10", "430 85", "100 20"),
    dense("stencil3", "20 4", "180 4", "40 4"),
    dense("vadd", "2000 50", "1200000 50", "20000 50"),
    Subject {
        name: "spmv",
        packages: &[],
        program: Program::Single {
            setup: "./kernel make matrix SIZE 1500",
            arguments: "matrix",
            full: "200000",
            quick: "20000",
        },
        bounds: bits(3.8),
    },
    Subject {
        name: "quicksort",
        packages: &[],
        program: Program::Single {
            setup: "",
            arguments: "SIZE 1",
            full: "1000000",
            quick: "50000",
        },
        bounds: bits(3.8),
    },
    Subject {
        name: "gzip",
        packages: TEXT_PACKAGES,
        program: Program::Command {
            argv: &["gzip", "-6", "-n", "-c", "input.txt"],
            setup: TEXT,
            full: "20000000",
            quick: "200000",
        },
        bounds: bits_and_wall(3.8, 8.0),
    },
    Subject {
        name: "xz-T2",
        packages: TEXT_PACKAGES,
        program: Program::Command {
            argv: &["xz", "-3", "-T2", "--block-size=1MiB", "-c", "input.txt"],
            setup: TEXT,
            full: "8000000",
            quick: "200000",
        },
        bounds: Bounds {
            file: None,
            growth: None,
            bits: None,
            wall: Some(8.0),
        },
    },
    Subject {
        name: "sqlite3",
        packages: &[("sqlite3", "sqlite3")],
        program: Program::Workload,
        bounds: bits_and_wall(0.8, 15.0),
    },
    Subject {
        name: "python3",
        packages: &[("python3", "python3")],
        program: Program::Workload,
        bounds: bits_and_wall(1.6, 15.0),
    },
    Subject {
        name: "cc1",
        packages: &[("mawk", "mawk")],
        program: Program::Command {
            argv: &["CC1", "-quiet", "-O2", "functions.i", "-o", "functions.s"],
            setup: "mawk -v n=SIZE -f $INPUTS/functions.awk > functions.c; gcc -E -P functions.c > functions.i",
            full: "10",
            quick: "1",
        },
        bounds: bits(2.5),
    },
];

/// The rows of the subjects that `only` names: a subject, or a subject with its level.
pub fn rows(only: &[String], quick: bool) -> Result<Vec<Row>, String> {
    let mut all: Vec<Row> = Vec::new();
    for subject in SUBJECTS {
        let mut add = |level, size, grown| {
            all.push(Row {
                subject,
                level,
                size,
                grown,
            })
        };
        match subject.program {
            Program::Pair {
                small,
                large,
                quick: less,
            } => {
                for level in LEVELS {
                    add(level, small, false);
                    add(level, if quick { less } else { large }, true);
                }
            }
            Program::Single { full, quick: less, .. } => {
                for level in LEVELS {
                    add(level, if quick { less } else { full }, false);
                }
            }
            Program::Command { full, quick: less, .. } => add("", if quick { less } else { full }, false),
            Program::Workload => {
                let (full, less) = workload(subject)?.sizes();
                add("", if quick { less } else { full }, false);
            }
        }
    }
    let named = |row: &Row, name: &String| row.subject.name == name || row.name() == *name;
    if let Some(unknown) = only.iter().find(|name| !all.iter().any(|row| named(row, name))) {
        return Err(format!("no kernel or program `{unknown}`"));
    }
    all.retain(|row| only.is_empty() || only.iter().any(|name| named(row, name)));
    Ok(all)
}

fn workload(subject: &Subject) -> Result<&'static Workload, String> {
    workloads::by_name(subject.name).ok_or(format!("no workload `{}`", subject.name))
}

/// Builds and sets up what `row` runs, in a directory of its own.
pub fn prepare(row: &Row, quick: bool, base: &Path) -> Result<Prepared, String> {
    if let Program::Workload = row.subject.program {
        return workloads::prepare(workload(row.subject)?, quick, base);
    }
    let dir = base.join(row.name());
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let env = workloads::environment();
    let inputs = root().join("bench/inputs").display().to_string();
    let script = |script: &str| {
        let script = script.replace("SIZE", row.size).replace("$INPUTS", &inputs);
        workloads::setup(&["bash", "-ec", &script], &dir, &env)
    };
    let argv: Vec<String> = match row.subject.program {
        Program::Pair { .. } => {
            compile(row, &dir)?;
            format!("./kernel {}", row.size).split(' ').map(String::from).collect()
        }
        Program::Single { setup, arguments, .. } => {
            compile(row, &dir)?;
            script(setup)?;
            let arguments = arguments.replace("SIZE", row.size);
            format!("./kernel {arguments}").split(' ').map(String::from).collect()
        }
        Program::Command { argv, setup, .. } => {
            script(setup)?;
            // The compiler proper, not the driver that starts it.
            let word = |word: &&str| match *word {
                "CC1" => first_line_of("gcc", &["-print-prog-name=cc1"]),
                other => other.to_string(),
            };
            argv.iter().map(word).collect()
        }
        Program::Workload => unreachable!("returned above"),
    };
    Ok(Prepared { argv, dir, env })
}

fn compile(row: &Row, dir: &Path) -> Result<(), String> {
    let source = root()
        .join("bench/kernels")
        .join(format!("{}.c", row.subject.name))
        .display()
        .to_string();
    let argv = ["cc", row.level, "-static", "-o", "kernel", &source];
    workloads::setup(&argv, dir, &workloads::environment())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_by_name_and_level() {
        let names = |only: &[&str]| -> Vec<(String, &str, bool)> {
            let only: Vec<String> = only.iter().map(|n| n.to_string()).collect();
            let rows = rows(&only, false).expect("known names");
            rows.iter().map(|r| (r.name(), r.size, r.grown)).collect()
        };
        let lu = |level: &str| [(format!("lu{level}"), "60", false), (format!("lu{level}"), "500", true)];
        assert_eq!(names(&["lu"]), [lu("-O0"), lu("-O2")].concat());
        assert_eq!(names(&["lu-O2"]), lu("-O2"));
        assert_eq!(names(&["gzip"]), [("gzip".to_string(), "20000000", false)]);
        assert_eq!(names(&[]).len(), 6 * 4 + 2 * 2 + 5);
        assert!(rows(&["nonsense".to_string()], false).is_err());
    }
}
