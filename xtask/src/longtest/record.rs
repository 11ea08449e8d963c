//! The place where cases run: same start, same directory, fixed environment.

use super::cases::{Case, How};
use crate::packages::PATH;
use crate::process::{self, Finished, Job};
use crate::project::root;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One run of a case, with everything it produced.
pub struct Run {
    pub finished: Finished,
    /// Where its directory, standard output and error were moved to.
    pub dir: PathBuf,
    pub stdout: PathBuf,
    pub stderr: PathBuf,
    /// What the driver and the `after` script said.
    pub aside: PathBuf,
    pub file: Option<PathBuf>,
}

/// Which way of recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    File,
    Discard,
}

impl How {
    pub fn runs(self) -> &'static [Way] {
        match self {
            How::File => &[Way::File],
            How::Discard => &[Way::Discard],
        }
    }
}

pub struct Lab {
    memtrail: PathBuf,
    base: PathBuf,
    keep: bool,
    /// Hash every access while recording, and compare with replay.
    deep: bool,
}

impl Lab {
    pub fn new(memtrail: PathBuf, keep: bool, deep: bool) -> Result<Lab, String> {
        let base = std::env::temp_dir().join(format!("memtrail-long-test.{}", std::process::id()));
        std::fs::create_dir_all(&base).map_err(|e| format!("{}: {e}", base.display()))?;
        Ok(Lab {
            memtrail,
            base,
            keep,
            deep,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// Runs the case's set-up in `start`, from which both runs are copied.
    pub fn prepare(&self, case: &Case) -> Result<(), String> {
        let start = self.path("start");
        std::fs::create_dir_all(&start).map_err(|e| format!("{}: {e}", start.display()))?;
        self.script(case.setup, &start, &self.path("setup.txt"))
    }

    /// A helper script, never recorded; its output goes to `into`.
    fn script(&self, script: &str, dir: &Path, into: &Path) -> Result<(), String> {
        if script.is_empty() {
            return Ok(());
        }
        let mut job = Job::new(&["bash", "-ec", script], dir);
        job.env = environment();
        job.stdout = Some(into.to_path_buf());
        let errors = self.path("script-errors.txt");
        job.stderr = Some(errors.clone());
        let done = process::run(&job)?;
        if done.status.success() {
            return Ok(());
        }
        let said = std::fs::read_to_string(errors).unwrap_or_default();
        Err(format!("script failed with {}: {}", done.status.0, said.trim()))
    }

    pub fn native(&self, case: &Case) -> Result<Run, String> {
        let argv: Vec<String> = case.argv.iter().map(|a| a.to_string()).collect();
        self.go(case, "native", argv, None)
    }

    pub fn recorded(&self, case: &Case, way: Way) -> Result<Run, String> {
        let file = self.path("recording.mtr");
        let mut argv = vec![self.memtrail.display().to_string(), "record".to_string()];
        match way {
            Way::File => {
                argv.extend(["-f".into(), "-o".into(), file.display().to_string()]);
                argv.extend(self.deep.then(|| "--verify".into()));
            }
            Way::Discard => argv.push("--discard".into()),
        }
        argv.push("--".into());
        argv.extend(case.argv.iter().map(|a| a.to_string()));
        self.go(case, "recorded", argv, (way == Way::File).then_some(file))
    }

    fn go(&self, case: &Case, name: &str, argv: Vec<String>, file: Option<PathBuf>) -> Result<Run, String> {
        let work = self.path("work");
        let _ = std::fs::remove_dir_all(&work);
        let copy = Job::new(&["cp", "-a", "start", "work"], &self.base);
        if !process::run(&copy)?.status.success() {
            return Err("cannot copy the starting state".into());
        }
        let aside = self.path(&format!("{name}.aside"));
        std::fs::write(&aside, "").map_err(|e| format!("{}: {e}", aside.display()))?;
        let mut job = Job::new(&argv, &work);
        job.env = environment();
        job.timeout = Duration::from_secs(case.timeout);
        let (stdout, stderr) = (
            self.path(&format!("{name}.stdout")),
            self.path(&format!("{name}.stderr")),
        );
        job.stdout = Some(stdout.clone());
        job.stderr = Some(stderr.clone());

        let driver = match case.driver {
            "" => None,
            script => {
                let mut driver = Job::new(&["bash", "-ec", script], &work);
                driver.env = environment();
                driver.stdout = Some(aside.clone());
                Some(process::start_beside(&driver)?)
            }
        };
        let finished = process::run(&job);
        if let Some(driver) = driver {
            let status = process::join_beside(driver, Duration::from_secs(5))?;
            if !status.success() {
                return Err(format!("{name} run: the driver ended with {}", status.0));
            }
        }
        let finished = finished?;
        if !finished.timed_out && !case.after.is_empty() {
            self.script(case.after, &work, &aside)?;
        }
        let dir = self.path(name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::rename(&work, &dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        Ok(Run {
            finished,
            dir,
            stdout,
            stderr,
            aside,
            file,
        })
    }

    /// A recording must be whole (`check`) and countable (`info`). Returns its accesses.
    pub fn verify(&self, file: &Path) -> Result<u64, String> {
        let memtrail = self.memtrail.display().to_string();
        let name = file.display().to_string();
        let said = self.path("verify.txt");
        let mut check = vec!["check", &name];
        check.extend(self.deep.then_some("--deep"));
        for arguments in [check, vec!["info", "--json", &name]] {
            let argv: Vec<&str> = std::iter::once(memtrail.as_str())
                .chain(arguments.iter().copied())
                .collect();
            let mut job = Job::new(&argv, &self.base);
            job.stdout = Some(said.clone());
            let done = process::run(&job)?;
            if !done.status.success() || done.timed_out {
                return Err(format!("memtrail {} ended with {}", arguments[0], done.status.0));
            }
        }
        let text = std::fs::read_to_string(&said).map_err(|e| format!("{}: {e}", said.display()))?;
        let json: Value = serde_json::from_str(&text).map_err(|e| format!("info --json: {e}"))?;
        let number = |key: &&str| {
            let value = json.get(*key).and_then(Value::as_f64);
            value.ok_or(format!("info --json has no {key}"))
        };
        let figures: Vec<f64> = INFO_KEYS.iter().map(number).collect::<Result<_, _>>()?;
        // Exact: f64 holds whole numbers up to 2^53, far more than a test can record.
        if figures[0] != figures[1] + figures[2] + figures[3] {
            return Err("info: accesses are not reads + writes + prefetches".into());
        }
        Ok(figures[0] as u64)
    }

    /// Makes room for the next case.
    pub fn clean(&self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.base);
            let _ = std::fs::create_dir_all(&self.base);
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.keep {
            eprintln!("long-test: kept {}", self.base.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.base);
        }
    }
}

/// What `info --json` promises; the first is the sum of the next three.
const INFO_KEYS: &[&str] = &[
    "accesses",
    "reads",
    "writes",
    "prefetches",
    "bytes",
    "instructions",
    "blocks",
    "threads",
    "processes",
    "file_bytes",
    "bits_per_access",
];

/// The same for every run: no locale, no user's settings, no random hash seeds.
fn environment() -> Vec<(String, String)> {
    let programs = root().join("xtask/programs").display().to_string();
    let fixed = [
        ("PATH", PATH),
        ("LC_ALL", "C"),
        ("TZ", "UTC"),
        ("HOME", "/nonexistent"),
        ("PYTHONHASHSEED", "0"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PERL_HASH_SEED", "0"),
        ("OPENBLAS_NUM_THREADS", "2"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@example.org"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@example.org"),
        ("GIT_AUTHOR_DATE", "2020-01-01T00:00:00Z"),
        ("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z"),
        ("SRC", &programs),
    ];
    fixed.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}
