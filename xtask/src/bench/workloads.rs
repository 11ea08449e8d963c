//! What is measured: five kernels, four applications, two starts. As data.
//!
//! A workload is source plus the exact command that makes its input, never a
//! committed binary. Inputs are generated once per size and kept under `target/`.

use crate::packages::{Package, PATH};
use crate::process::{self, Job};
use crate::project::root;
use std::path::{Path, PathBuf};

/// The most a workload may cost (issue "Fast").
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// Target CPU time against native CPU time.
    CpuRatio(f64),
    /// Milliseconds of wall time added to a run.
    AddedMs(f64),
}

pub enum Program {
    /// `bench/kernels/NAME.c`, and its arguments, full and quick.
    Kernel { full: &'static str, quick: &'static str },
    /// A program of the system; `%` in the arguments is the input's size.
    Command {
        argv: &'static [&'static str],
        setup: &'static str,
        full: &'static str,
        quick: &'static str,
    },
}

pub struct Workload {
    pub name: &'static str,
    pub stresses: &'static str,
    pub packages: &'static [Package],
    pub program: Program,
    pub bound: Bound,
}

impl Workload {
    /// The full and the quick size.
    pub fn sizes(&self) -> (&'static str, &'static str) {
        match self.program {
            Program::Kernel { full, quick } | Program::Command { full, quick, .. } => (full, quick),
        }
    }

    /// Starts last milliseconds: many more runs are needed, and affordable.
    pub fn repeat(&self) -> usize {
        match self.program {
            Program::Command { full: "", .. } => 4,
            _ => 1,
        }
    }
}

const fn kernel(
    name: &'static str,
    stresses: &'static str,
    full: &'static str,
    quick: &'static str,
    most: f64,
) -> Workload {
    Workload {
        name,
        stresses,
        packages: &[],
        program: Program::Kernel { full, quick },
        bound: Bound::CpuRatio(most),
    }
}

/// Text of SIZE lines that compresses about as English does, the same every time.
const TEXT: &str = r#"mawk -v n=SIZE 'BEGIN {
    split("the memory of a loop is read once and written twice by some other thread while nobody waits", word, " ")
    state = 1
    for (i = 0; i < n; i++) {
        line = i
        for (j = 0; j < 12; j++) { state = (state * 16807) % 2147483647; line = line " " word[state % 17 + 1] (state % 97) }
        print line
    }
}' > input.txt"#;

/// Of the table of objects only.
pub const BLOCKS: Workload = kernel(
    "blocks",
    "a million heap blocks a second",
    "1500000",
    "300000",
    f64::INFINITY,
);

pub const WORKLOADS: &[Workload] = &[
    kernel("matmul", "three nested affine loops", "560 4", "320 4", 1.15),
    kernel(
        "triad",
        "unit strides at memory speed",
        "2000000 330",
        "2000000 40",
        1.15,
    ),
    kernel(
        "stencil",
        "six references in a two-deep affine nest",
        "1000 600",
        "1000 120",
        1.15,
    ),
    kernel(
        "quicksort",
        "data-dependent branches and addresses",
        "1000000 8",
        "1000000 2",
        1.3,
    ),
    kernel("fib", "calls and returns, nothing else", "41 1", "38 1", 2.5),
    Workload {
        name: "gzip",
        stresses: "hash chains, short irregular loops",
        packages: &[("gzip", "gzip"), ("mawk", "mawk")],
        program: Program::Command {
            argv: &["gzip", "-9", "-n", "-c", "input.txt"],
            setup: TEXT,
            full: "35000",
            quick: "5000",
        },
        bound: Bound::CpuRatio(1.6),
    },
    Workload {
        name: "xz",
        stresses: "match finder over megabytes, range coder",
        packages: &[("xz-utils", "xz"), ("mawk", "mawk")],
        program: Program::Command {
            argv: &["xz", "-3", "-T1", "-c", "input.txt"],
            setup: TEXT,
            full: "60000",
            quick: "8000",
        },
        bound: Bound::CpuRatio(1.6),
    },
    Workload {
        name: "sqlite3",
        stresses: "interpreter of byte code, B-trees, many small functions",
        packages: &[("sqlite3", "sqlite3")],
        program: Program::Command {
            argv: &["sqlite3", "-batch", ":memory:", ".read queries.sql"],
            setup: "cat > queries.sql <<'END'
CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER, c TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < SIZE)
INSERT INTO t SELECT i, (i * 7919) % 10007, 'row ' || ((i * 31) % 1009) FROM n;
CREATE INDEX tb ON t(b);
SELECT c, count(*), sum(b) FROM t GROUP BY c ORDER BY 2 DESC, 1 LIMIT 10;
SELECT count(*) FROM t x JOIN t y ON x.b = y.b AND x.a < y.a;
SELECT sum(length(c)) FROM t WHERE c LIKE '%9%';
END",
            full: "450000",
            quick: "80000",
        },
        bound: Bound::CpuRatio(3.0),
    },
    Workload {
        name: "python3",
        stresses: "interpreter with indirect branches, allocation, reference counts",
        packages: &[("python3", "python3")],
        program: Program::Command {
            argv: &["/usr/bin/python3", "-S", "work.py"],
            setup: "cat > work.py <<'END'
def sieve(n):
    flags = bytearray([1]) * n
    for i in range(2, n):
        if flags[i]:
            for j in range(i * i, n, i):
                flags[j] = 0
    return sum(flags)
class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y
    def norm(self):
        return self.x * self.x + self.y * self.y
total, words = 0, {}
for i in range(SIZE):
    total += Point(i % 7, i % 11).norm()
    words[str(i % 5003)] = words.get(str(i % 5003), 0) + i
print(total, len(words), sieve(SIZE), sum(sorted(words.values())[:10]))
END",
            full: "1200000",
            quick: "180000",
        },
        bound: Bound::CpuRatio(2.8),
    },
    Workload {
        name: "true",
        stresses: "start and end of a process; nothing else",
        packages: &[],
        program: Program::Command {
            argv: &["/bin/true"],
            setup: "",
            full: "",
            quick: "",
        },
        bound: Bound::AddedMs(25.0),
    },
    Workload {
        name: "python3-pass",
        stresses: "translation of code that runs once",
        packages: &[("python3", "python3")],
        program: Program::Command {
            argv: &["/usr/bin/python3", "-c", "pass"],
            setup: "",
            full: "",
            quick: "",
        },
        bound: Bound::CpuRatio(5.0),
    },
];

/// A workload ready to run.
pub struct Prepared {
    pub argv: Vec<String>,
    pub dir: PathBuf,
    pub env: Vec<(String, String)>,
}

/// The same for every run: no locale, no random hash seeds, no version manager's programs.
pub fn environment() -> Vec<(String, String)> {
    let fixed = [
        ("PATH", PATH),
        ("LC_ALL", "C"),
        ("PYTHONHASHSEED", "0"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
    ];
    fixed.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

pub fn by_name(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|w| w.name == name)
}

pub fn prepare(workload: &Workload, quick: bool, base: &Path) -> Result<Prepared, String> {
    let dir = base.join(workload.name);
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let env = environment();
    let argv = match &workload.program {
        Program::Kernel { full, quick: small } => {
            let source = root().join("bench/kernels").join(format!("{}.c", workload.name));
            let binary = dir.join(workload.name).display().to_string();
            let source = source.display().to_string();
            setup(&["cc", "-O2", "-o", &binary, &source], &dir, &env)?;
            let arguments = if quick { small } else { full };
            std::iter::once(binary)
                .chain(arguments.split(' ').map(String::from))
                .collect()
        }
        Program::Command {
            argv,
            setup: script,
            full,
            quick: small,
        } => {
            let size = if quick { small } else { full };
            if !script.is_empty() {
                setup(&["bash", "-ec", &script.replace("SIZE", size)], &dir, &env)?;
            }
            argv.iter().map(|a| a.to_string()).collect()
        }
    };
    Ok(Prepared { argv, dir, env })
}

/// Runs a command that must succeed, natively; what it said is in the error.
pub fn setup(argv: &[&str], dir: &Path, env: &[(String, String)]) -> Result<(), String> {
    let mut job = Job::new(argv, dir);
    let errors = dir.join("setup.txt");
    job.stderr = Some(errors.clone());
    job.env = env.to_vec();
    let done = process::run(&job)?;
    if done.status.success() {
        return Ok(());
    }
    let said = std::fs::read_to_string(errors).unwrap_or_default();
    Err(format!(
        "set-up failed ({}): {}: {}",
        done.status.0,
        argv.join(" "),
        said.trim()
    ))
}
