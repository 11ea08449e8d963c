//! Programs of `programs/`, built as a test wants them.
use memtrail_symbols::{Disk, Function, Module, Options, Store, Symbols};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

/// A directory with a built program in it.
pub struct Built {
    pub dir: tempfile::TempDir,
    pub program: PathBuf,
}

/// Runs a command that has to succeed.
pub fn run(dir: &Path, command: &[&str]) {
    let output = Command::new(command[0]).args(&command[1..]).current_dir(dir).output();
    let output = output.unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

/// Copies a source into a fresh directory and builds it there, as `program`.
pub fn build(source: &str, compiler: &str, flags: &[&str]) -> Built {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(source);
    let name = source.rsplit('/').next().unwrap_or(source);
    std::fs::copy(&from, dir.path().join(name)).expect("the source");
    let mut command = vec![compiler, name, "-o", "program"];
    command.extend(flags);
    run(dir.path(), &command);
    let program = dir.path().join("program");
    Built { dir, program }
}

impl Built {
    pub fn run(&self, command: &[&str]) {
        run(self.dir.path(), command);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

pub fn symbols(store: &Store, options: Options) -> Symbols<'_> {
    Symbols::new(store, Box::new(Disk), options)
}

pub fn open<'s>(store: &'s Store, program: &Path) -> Rc<Module<'s>> {
    let module = symbols(store, Options::default()).module(program.as_os_str().as_bytes(), None);
    module.unwrap_or_else(|why| panic!("{}: {why}", program.display()))
}

/// The function of this name, found by going through the code.
pub fn function(module: &Module<'_>, name: &str) -> Function {
    for segment in module.segments().iter().filter(|s| s.executable) {
        let mut offset = 0;
        while offset < segment.filesz {
            let found = module.function_at(segment.offset + offset);
            match found {
                Some(function) if function.name.as_deref() == Some(name) => return function,
                Some(function) if function.range.end > segment.vaddr + offset => {
                    offset = function.range.end - segment.vaddr
                }
                _ => offset += 1,
            }
        }
    }
    panic!("no function {name} in {}", module.path().display());
}
