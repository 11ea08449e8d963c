//! Where files are: programs, their debug information, and sources.
//!
//! **Problem.** A recording names files as they were where it was made. Their debug information
//! lies beside them, in a tree of its own by path or by build id, or in pieces; and all of it may
//! have been moved to another machine.
//!
//! **Idea.** This module only knows names; [`Files`] opens them. Each question has an ordered list
//! of candidates, and a candidate counts only if it proves that it belongs: by build id, by
//! checksum or by the id of a split unit.
use crate::elf::{Elf, Input, Store};
use crate::reason::{BuildId, Reason};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where bytes come from: the only I/O there is.
pub trait Files {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Input>>;
    /// The file behind links: debug information lies beside it.
    fn real(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Input>> {
        // Asked before: opening a pipe would wait.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a file"));
        }
        Ok(Box::new(std::fs::File::open(path)?))
    }

    fn real(&self, path: &Path) -> PathBuf {
        std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
    }
}

/// Where to look, and what to accept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Put before every path that is looked up; what is not found there is looked up without it.
    pub sysroot: Option<PathBuf>,
    /// Directories of debug information, looked into before `/usr/lib/debug`.
    pub debug_dirs: Vec<PathBuf>,
    /// Take files for what was recorded although they are another build.
    pub force: bool,
}

/// The name of a path in a recording or in debug information.
pub(crate) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

pub(crate) struct Search<'s> {
    pub store: &'s Store,
    pub files: Box<dyn Files>,
    pub options: Options,
}

impl<'s> Search<'s> {
    /// The names a file may have here.
    fn rooted(&self, path: &Path) -> Vec<PathBuf> {
        let root = self.options.sysroot.as_ref();
        let moved = root.map(|root| root.join(path.strip_prefix("/").unwrap_or(path)));
        moved.into_iter().chain([path.to_path_buf()]).collect()
    }

    pub fn parse(&self, path: &Path) -> Result<Elf<'s>, Reason> {
        let input = self.files.open(path).map_err(|e| cannot(path, &e))?;
        Elf::parse(self.store, &self.files.real(path), input)
    }

    /// A file that has to be of a certain build.
    fn of_build(&self, path: &Path, expected: &BuildId) -> Result<Elf<'s>, Reason> {
        let found = self.parse(path)?;
        if found.build_id == *expected || self.options.force {
            return Ok(found);
        }
        Err(Reason::BuildIdDiffers {
            path: path.to_path_buf(),
            expected: expected.clone(),
            found: found.build_id,
        })
    }

    /// The first candidate that is there and accepted. Otherwise why not: of candidates that are
    /// there first.
    fn first<T>(
        &self,
        candidates: &[PathBuf],
        mut accept: impl FnMut(&Path) -> Result<T, Reason>,
    ) -> Result<T, Option<Reason>> {
        let mut reason = None;
        for path in candidates {
            match accept(path) {
                Ok(found) => return Ok(found),
                Err(Reason::NotFound(_)) => {}
                Err(why) => {
                    reason.get_or_insert(why);
                }
            }
        }
        Err(reason)
    }

    /// A program or library, by the path it was recorded with.
    pub fn module(&self, path: &[u8], id: Option<&[u8]>) -> Result<Elf<'s>, Reason> {
        let recorded = path_of(path);
        let mut candidates = self.rooted(recorded);
        // Replaced while it ran; what is there now may yet be the same build.
        if let (Some(kept), Some(_)) = (path.strip_suffix(b" (deleted)"), id) {
            candidates.extend(self.rooted(path_of(kept)));
        }
        let id = id.map(|id| BuildId(id.to_vec()));
        let accept = |path: &Path| match &id {
            Some(id) => self.of_build(path, id),
            None => self.parse(path),
        };
        let found = self.first(&candidates, accept);
        found.map_err(|why| why.unwrap_or_else(|| Reason::NotFound(recorded.to_path_buf())))
    }

    /// `/usr/lib/debug` and what the user added.
    fn debug_dirs(&self) -> Vec<PathBuf> {
        let system = self.rooted(Path::new("/usr/lib/debug"));
        self.options.debug_dirs.iter().cloned().chain(system).collect()
    }

    fn by_build_id(&self, id: &BuildId) -> Vec<PathBuf> {
        let name = id.to_string();
        let Some((first, rest)) = name.split_at_checked(2).filter(|(_, rest)| !rest.is_empty()) else {
            return Vec::new();
        };
        let within = format!(".build-id/{first}/{rest}.debug");
        self.debug_dirs().iter().map(|dir| dir.join(&within)).collect()
    }

    /// The debug information of a program that has none itself.
    pub fn debug_file(&self, elf: &Elf<'s>) -> Result<Elf<'s>, Option<Reason>> {
        let mut refused = None;
        if !elf.build_id.0.is_empty() {
            match self.first(&self.by_build_id(&elf.build_id), |path| {
                self.of_build(path, &elf.build_id)
            }) {
                Ok(found) => return Ok(found),
                Err(why) => refused = why,
            }
        }
        let Some((name, checksum)) = elf.debuglink() else {
            return Err(refused);
        };
        let (name, dir) = (path_of(name), elf.path.parent().unwrap_or(Path::new("")));
        let mut candidates = vec![dir.join(name), dir.join(".debug").join(name)];
        let within = self.without_sysroot(dir);
        candidates.extend(self.debug_dirs().iter().map(|top| top.join(within).join(name)));
        candidates.extend(self.options.debug_dirs.iter().map(|top| top.join(name)));
        let same_sum = |path: &Path| {
            let found = self.checksum(path)?;
            if found != checksum && !self.options.force {
                return Err(Reason::ChecksumDiffers {
                    path: path.to_path_buf(),
                    expected: checksum,
                    found,
                });
            }
            self.parse(path)
        };
        self.first(&candidates, same_sum).map_err(|why| refused.or(why))
    }

    fn without_sysroot<'p>(&self, dir: &'p Path) -> &'p Path {
        let root = self.options.sysroot.as_deref();
        let dir = root.and_then(|root| dir.strip_prefix(root).ok()).unwrap_or(dir);
        dir.strip_prefix("/").unwrap_or(dir)
    }

    fn checksum(&self, path: &Path) -> Result<u32, Reason> {
        let mut input = self.files.open(path).map_err(|e| cannot(path, &e))?;
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; 1 << 18];
        loop {
            match input.read(&mut buffer).map_err(|e| cannot(path, &e))? {
                0 => return Ok(hasher.finalize()),
                n => hasher.update(&buffer[..n]),
            }
        }
    }

    /// What several debug files have in common (`dwz -m`).
    pub fn supplementary(&self, elf: &Elf<'s>) -> Option<Result<Elf<'s>, Reason>> {
        let (name, id) = elf.altlink()?;
        let name = path_of(name);
        let dir = elf.path.parent().unwrap_or(Path::new(""));
        let mut candidates = vec![dir.join(name)];
        candidates.extend(self.rooted(name));
        candidates.extend(self.by_build_id(&id));
        let found = self.first(&candidates, |path| self.of_build(path, &id));
        Some(found.map_err(|why| why.unwrap_or_else(|| Reason::SupplementaryMissing(name.to_path_buf()))))
    }

    /// All split units of a program in one file.
    pub fn package(&self, program: &Path) -> Option<Elf<'s>> {
        let mut name = program.as_os_str().to_os_string();
        name.push(".dwp");
        self.parse(Path::new(&name)).ok()
    }

    /// One split unit. Whether it is the right one, the caller sees by its id.
    pub fn split(&self, program: &Path, dir: &[u8], name: &[u8]) -> Result<Elf<'s>, Reason> {
        let (dir, name) = (path_of(dir), path_of(name));
        let beside = program.parent().unwrap_or(Path::new(""));
        let mut candidates = self.rooted(&dir.join(name));
        candidates.push(beside.join(name));
        if let Some(file) = name.file_name() {
            candidates.push(beside.join(file));
            candidates.extend(self.options.debug_dirs.iter().map(|top| top.join(file)));
        }
        let found = self.first(&candidates, |path| self.parse(path));
        found.map_err(|why| why.unwrap_or_else(|| Reason::SplitMissing(dir.join(name))))
    }

    /// The text of a source file, if it is there, at most 64 MB of it.
    pub fn source(&self, path: &Path) -> Result<String, Reason> {
        const LIMIT: u64 = 64 << 20;
        let read = |path: &Path| {
            let input = self.files.open(path).map_err(|e| cannot(path, &e))?;
            let mut bytes = Vec::new();
            input
                .take(LIMIT)
                .read_to_end(&mut bytes)
                .map_err(|e| cannot(path, &e))?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let found = self.first(&self.rooted(path), read);
        found.map_err(|why| why.unwrap_or_else(|| Reason::NotFound(path.to_path_buf())))
    }
}

fn cannot(path: &Path, error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Reason::NotFound(path.to_path_buf()),
        _ => Reason::Unreadable {
            path: path.to_path_buf(),
            why: error.to_string(),
        },
    }
}
