//! The guests: found in `guests/`, described by their own second line, built on demand.
//!
//! The second line of a guest reads, for example,
//! `// guest: build=static scope=exe needs=avx2 flags=-O0,-pthread args=a,b`.
//! Everything a run depends on stands in the guest itself, so that adding one
//! is adding one file.
//!
//! | key | meaning |
//! |---|---|
//! | `build` | `asm`, `nolibc`, `static`, `static-pie`, `dynamic`, `dynamic-nopie` |
//! | `scope` | `whole` (default): every access; `exe`: accesses by code of the executable; `output`: none |
//! | `needs` | CPU features, in the kernel's spelling |
//! | `flags` | further compiler flags |
//! | `args` | the program's arguments |
//!
//! Threaded guests with `scope=exe` are bound at start (`flags=-z,now`): which
//! thread would resolve a symbol lazily depends on time, and that code is in
//! the executable.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Build {
    Asm,
    NoLibc,
    Static,
    StaticPie,
    Dynamic,
    DynamicNoPie,
}

/// Which accesses are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    Whole,
    /// Only those by the executable's own code: for guests whose libraries wait or spin.
    Exe,
    /// None: for guests whose course depends on time.
    Output,
}

#[derive(Clone, Debug)]
pub struct Guest {
    pub name: String,
    pub source: PathBuf,
    pub build: Build,
    pub scope: Scope,
    pub needs: Vec<String>,
    pub flags: Vec<String>,
    pub args: Vec<String>,
}

/// Why a guest's description cannot be used.
#[derive(Debug)]
pub enum GuestError {
    Io(PathBuf, io::Error),
    NoDescription(PathBuf),
    Unknown(PathBuf, String),
    Compiler {
        guest: String,
        command: String,
        message: String,
    },
}

impl std::fmt::Display for GuestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GuestError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            GuestError::NoDescription(path) => write!(f, "{}: second line lacks `guest:`", path.display()),
            GuestError::Unknown(path, word) => write!(f, "{}: cannot use `{word}`", path.display()),
            GuestError::Compiler {
                guest,
                command,
                message,
            } => {
                write!(f, "{guest} does not build\n{command}\n{message}")
            }
        }
    }
}

impl std::error::Error for GuestError {}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guests")
}

/// All guests, by name.
pub fn all() -> Result<Vec<Guest>, GuestError> {
    let dir = directory();
    let entries = fs::read_dir(&dir).map_err(|e| GuestError::Io(dir.clone(), e))?;
    let mut guests = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| GuestError::Io(dir.clone(), e))?.path();
        if path.is_file() {
            guests.push(describe(&path)?);
        }
    }
    guests.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(guests)
}

fn describe(path: &Path) -> Result<Guest, GuestError> {
    let text = fs::read_to_string(path).map_err(|e| GuestError::Io(path.into(), e))?;
    let line = text.lines().nth(1).and_then(|l| l.split_once("guest:"));
    let (_, words) = line.ok_or_else(|| GuestError::NoDescription(path.into()))?;
    let mut guest = Guest {
        name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        source: path.into(),
        build: Build::Static,
        scope: Scope::Whole,
        needs: Vec::new(),
        flags: Vec::new(),
        args: Vec::new(),
    };
    for word in words.split_whitespace() {
        let unknown = || GuestError::Unknown(path.into(), word.into());
        let (key, value) = word.split_once('=').ok_or_else(unknown)?;
        let list = || value.split(',').map(str::to_owned).collect();
        match key {
            "build" => guest.build = build_named(value).ok_or_else(unknown)?,
            "scope" => guest.scope = scope_named(value).ok_or_else(unknown)?,
            "needs" => guest.needs = list(),
            "flags" => guest.flags = list(),
            "args" => guest.args = list(),
            _ => return Err(unknown()),
        }
    }
    if guest.scope == Scope::Exe && guest.build == Build::StaticPie {
        return Err(GuestError::Unknown(
            path.into(),
            "scope=exe with build=static-pie: load address unknown".into(),
        ));
    }
    Ok(guest)
}

fn build_named(name: &str) -> Option<Build> {
    Some(match name {
        "asm" => Build::Asm,
        "nolibc" => Build::NoLibc,
        "static" => Build::Static,
        "static-pie" => Build::StaticPie,
        "dynamic" => Build::Dynamic,
        "dynamic-nopie" => Build::DynamicNoPie,
        _ => return None,
    })
}

fn scope_named(name: &str) -> Option<Scope> {
    Some(match name {
        "whole" => Scope::Whole,
        "exe" => Scope::Exe,
        "output" => Scope::Output,
        _ => return None,
    })
}

impl Guest {
    fn binary(&self) -> PathBuf {
        crate::tools::work_directory().join(&self.name)
    }

    /// Threaded allocators ask how many processors there are: such a guest must not be pinned to
    /// one.
    pub fn counts_processors(&self) -> bool {
        self.flags.iter().any(|f| f == "-pthread") || self.source.extension().is_some_and(|e| e == "rs")
    }

    /// Builds the guest unless its program is newer than its sources.
    pub fn built(&self) -> Result<PathBuf, GuestError> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
        let binary = self.binary();
        if self.is_fresh(&binary) {
            return Ok(binary);
        }
        let mut command = self.compiler();
        command.arg(&self.source).arg("-o").arg(&binary);
        let output = command
            .output()
            .map_err(|e| GuestError::Io(command.get_program().into(), e))?;
        if !output.status.success() {
            return Err(GuestError::Compiler {
                guest: self.name.clone(),
                command: format!("{command:?}"),
                message: String::from_utf8_lossy(&output.stderr).into_owned(),
            });
        }
        Ok(binary)
    }

    fn is_fresh(&self, binary: &Path) -> bool {
        let Ok(built) = modified(binary) else { return false };
        let include = directory().join("include");
        let shared = fs::read_dir(include).into_iter().flatten().flatten().map(|e| e.path());
        shared
            .chain([self.source.clone()])
            .all(|source| modified(&source).is_ok_and(|time| time < built))
    }

    fn compiler(&self) -> Command {
        let extension = self
            .source
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if extension == "rs" {
            return self.rust_compiler();
        }
        let mut command = Command::new(match extension.as_str() {
            "cpp" => "g++",
            "f90" => "gfortran",
            _ => "gcc",
        });
        // -w: guests do on purpose what compilers warn about.
        command
            .args(["-O2", "-g", "-w"])
            .arg("-I")
            .arg(directory().join("include"))
            .arg("-I")
            .arg(directory().join("../../include"));
        let linking: &[&str] = match self.build {
            Build::Asm => &["-nostdlib", "-static", "-no-pie"],
            Build::NoLibc => &[
                "-nostdlib",
                "-static",
                "-no-pie",
                "-fno-pie",
                "-ffreestanding",
                "-fno-stack-protector",
            ],
            Build::Static => &["-static", "-no-pie", "-fno-pie"],
            Build::StaticPie => &["-static-pie", "-fPIE"],
            Build::Dynamic => &["-pie", "-fPIE"],
            Build::DynamicNoPie => &["-no-pie", "-fno-pie"],
        };
        command.args(linking).args(&self.flags);
        command
    }

    fn rust_compiler(&self) -> Command {
        let mut command = Command::new("rustc");
        command.args(["--edition", "2021", "-O"]);
        match self.build {
            Build::Static => command.args(["-C", "target-feature=+crt-static", "-C", "relocation-model=static"]),
            Build::StaticPie => command.args(["-C", "target-feature=+crt-static"]),
            _ => &mut command,
        };
        command.args(&self.flags);
        command
    }
}

pub(crate) fn modified(path: &Path) -> io::Result<SystemTime> {
    fs::metadata(path)?.modified()
}
