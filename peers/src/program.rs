//! A program to run under every tool in the same surroundings, and its layout.

use crate::profile::Function;
use crate::Result;
use object::elf;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Object, ObjectKind, ObjectSection, ObjectSymbol, SymbolKind};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub struct Program {
    pub path: PathBuf,
    pub args: Vec<String>,
    /// What its standard input is.
    pub input: Option<PathBuf>,
    image: Vec<u8>,
}

impl Program {
    pub fn new(path: &Path, args: &[&str], input: Option<&Path>) -> Result<Program> {
        let path = path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?;
        let image = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let args = args.iter().map(|a| a.to_string()).collect();
        Ok(Program {
            path,
            args,
            input: input.map(Path::to_path_buf),
            image,
        })
    }

    /// The same environment, input and (absent) output for every tool.
    pub fn surround(&self, command: &mut Command) -> Result<()> {
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C");
        command.stdout(Stdio::null()).stdin(match &self.input {
            Some(path) => File::open(path).map_err(|e| format!("{}: {e}", path.display()))?.into(),
            None => Stdio::null(),
        });
        Ok(())
    }

    pub fn accept(&self, status: ExitStatus, tool: &str) -> Result<()> {
        if status.success() {
            return Ok(());
        }
        Err(format!("{} under {tool}: {status}", self.path.display()))
    }

    fn elf(&self) -> Result<ElfFile64<'_>> {
        ElfFile64::parse(&*self.image).map_err(|e| format!("{}: {e}", self.path.display()))
    }

    /// Where the first executable segment begins, as linked.
    pub fn code_start(&self) -> Result<u64> {
        let elf = self.elf()?;
        let endian = elf.endian();
        let code = elf
            .elf_program_headers()
            .iter()
            .filter(|h| h.p_type(endian) == elf::PT_LOAD && h.p_flags(endian).contains(elf::PF_X));
        code.map(|h| h.p_vaddr(endian))
            .min()
            .ok_or("no executable segment".into())
    }

    fn is_position_independent(&self) -> Result<bool> {
        Ok(self.elf()?.kind() == ObjectKind::Dynamic)
    }

    /// The functions of this program that an object file defines.
    pub fn functions_of(&self, object_file: &Path) -> Result<Vec<Function>> {
        let bytes = std::fs::read(object_file).map_err(|e| format!("{}: {e}", object_file.display()))?;
        let part = ElfFile64::<object::Endianness>::parse(&*bytes).map_err(|e| e.to_string())?;
        let own: Vec<&str> = part
            .symbols()
            .filter(|s| s.kind() == SymbolKind::Text && s.is_definition())
            .filter_map(|s| s.name().ok())
            .collect();
        let elf = self.elf()?;
        let mut functions: Vec<Function> = elf
            .symbols()
            .filter(|s| s.kind() == SymbolKind::Text && s.size() > 0)
            .filter_map(|s| {
                let name = s.name().ok().filter(|n| own.contains(n))?.to_string();
                Some(Function {
                    name,
                    start: s.address(),
                    end: s.address() + s.size(),
                })
            })
            .collect();
        functions.sort_by_key(|f| f.start);
        Ok(functions)
    }

    /// The functions of a stripped program: the ranges that its unwind table describes.
    pub fn functions_from_unwind_table(&self) -> Result<Vec<Function>> {
        let elf = self.elf()?;
        let section = |name: &str| {
            let section = elf.section_by_name(name).ok_or(format!("no {name}"))?;
            Ok::<_, String>((section.address(), section.data().map_err(|e| e.to_string())?))
        };
        let (index_at, index) = section(".eh_frame_hdr")?;
        let (frames_at, frames) = section(".eh_frame")?;
        unwind_ranges(index_at, index, frames_at, frames).ok_or("the unwind table has an unknown encoding".into())
    }
}

/// The index holds, for each function, its start and its description's place, both as signed 32-bit
/// offsets from the index; the description holds the length. Every x86-64 linker writes these
/// encodings.
fn unwind_ranges(index_at: u64, index: &[u8], frames_at: u64, frames: &[u8]) -> Option<Vec<Function>> {
    const VERSION_AND_ENCODINGS: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    if index.get(..4)? != VERSION_AND_ENCODINGS {
        return None;
    }
    let word = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let count = word(index, 8)? as usize;
    let relative = |offset: u32| index_at.wrapping_add_signed(i64::from(offset as i32));
    (0..count)
        .map(|i| {
            let start = relative(word(index, 12 + 8 * i)?);
            let description = relative(word(index, 16 + 8 * i)?).checked_sub(frames_at)? as usize;
            let length = word(frames, description + 12)?;
            Some(Function {
                name: format!("f_{start:x}"),
                start,
                end: start + u64::from(length),
            })
        })
        .collect()
}

/// Where `program` lies in the memory of a running process, less where it was linked.
pub fn load_address(program: &Program, pid: u32) -> Result<u64> {
    if !program.is_position_independent()? {
        return Ok(0);
    }
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|e| format!("maps of {pid}: {e}"))?;
    let name = program.path.display().to_string();
    let line = maps
        .lines()
        .find(|l| l.ends_with(&name))
        .ok_or(format!("{name} is not mapped"))?;
    let start = line.split('-').next().unwrap_or("");
    u64::from_str_radix(start, 16).map_err(|_| format!("maps of {pid}: {line}"))
}

/// Where the kernel puts `program` when it does not randomise: the same in every run. Found by
/// starting it once with an input that does not end.
pub fn unrandomised_load_address(program: &Program) -> Result<u64> {
    if !program.is_position_independent()? {
        return Ok(0);
    }
    let mut command = Command::new("setarch");
    command.arg("-R").arg(&program.path).args(&program.args);
    program.surround(&mut command)?;
    let mut child = command
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|e| format!("setarch: {e}"))?;
    let deadline = Instant::now() + Duration::from_secs(10);
    let found = loop {
        match load_address(program, child.id()) {
            Ok(base) => break Ok(base),
            Err(why) if Instant::now() > deadline => break Err(why),
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    found
}

/// A directory for one test, removed at its end.
pub struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    pub fn new(name: &str) -> Result<Scratch> {
        let dir = std::env::temp_dir().join(format!("memtrail-peers.{}.{name}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        Ok(Scratch { dir })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn compile(&self, options: &[&str], source: &Path, output: &Path) -> Result<()> {
        let mut command = Command::new("cc");
        let status = command.args(options).arg("-o").arg(output).arg(source).status();
        let status = status.map_err(|e| format!("cc: {e}"))?;
        if status.success() {
            return Ok(());
        }
        Err(format!("cc {}: {status}", source.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
