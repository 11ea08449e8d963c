//! ELF files: segments, sections, symbols, notes and links to debug files.
//!
//! **Idea.** A file is read piece by piece, as pieces are asked for: of a program whose debug
//! information is never looked at, nothing but headers and the symbol table is read. What was read,
//! or decompressed, stays in the [`Store`] that everything borrows from.
//!
//! **Invariant.** What is allocated is bounded by what the files hold: sizes that a file merely
//! claims are not believed.
use crate::reason::{BuildId, Reason};
use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64, Sym64};
use object::endian::LittleEndian as Le;
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};
use object::read::{ReadCache, ReadRef as _};
use std::io::{Cursor, Read, Seek};
use std::path::{Path, PathBuf};
use typed_arena::Arena;

/// What a file is read through.
pub trait Input: Read + Seek {}
impl<T: Read + Seek> Input for T {}

pub(crate) type Cache = ReadCache<Box<dyn Input>>;

/// Owns the bytes that names are read from. Modules borrow from it, so it lives longest.
#[derive(Default)]
pub struct Store {
    files: Arena<Cache>,
    sections: Arena<Vec<u8>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store {{ files: {} }}", self.files.len())
    }
}

/// A stretch of a module that is loaded into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where the linker put it.
    pub vaddr: u64,
    /// Bytes in memory, with those that are not in the file (`.bss`).
    pub memsz: u64,
    pub offset: u64,
    /// Bytes in the file.
    pub filesz: u64,
    pub writable: bool,
    pub executable: bool,
}

/// The template of a module's thread-local variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tls {
    pub vaddr: u64,
    pub memsz: u64,
    pub align: u64,
}

impl Tls {
    /// Where the block of an *executable* begins, as an offset (negative) from the thread pointer,
    /// `fs:0`. Libraries lie elsewhere.
    pub fn executable_offset(&self) -> i64 {
        let align = self.align.max(1);
        // The ABI wants block and variables aligned alike, even if the template itself is not.
        let size = self.memsz.saturating_add(self.vaddr % align);
        let end = size.checked_next_multiple_of(align).unwrap_or(size) - self.vaddr % align;
        (end as i64).wrapping_neg()
    }
}

/// A function or a variable, as the symbol table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol<'s> {
    pub value: u64,
    pub size: u64,
    pub name: &'s [u8],
    pub kind: SymbolKind,
    pub global: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SymbolKind {
    Function,
    Object,
    Tls,
}

struct Section<'s> {
    name: &'s [u8],
    header: &'s SectionHeader64<Le>,
}

pub(crate) struct Elf<'s> {
    pub path: PathBuf,
    store: &'s Store,
    data: &'s Cache,
    sections: Vec<Section<'s>>,
    pub segments: Vec<Segment>,
    pub tls: Option<Tls>,
    pub build_id: BuildId,
}

/// Ends at the first zero byte.
fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or_default()
}

impl<'s> Elf<'s> {
    pub fn parse(store: &'s Store, path: &Path, input: Box<dyn Input>) -> Result<Elf<'s>, Reason> {
        let data: &'s Cache = store.files.alloc(ReadCache::new(input));
        let damaged = |e: object::read::Error| Reason::Damaged {
            path: path.to_path_buf(),
            what: e.to_string(),
        };
        let magic = data.read_bytes_at(0, 6).unwrap_or_default();
        if magic != b"\x7fELF\x02\x01" {
            return Err(Reason::NotElf(path.to_path_buf()));
        }
        let header = FileHeader64::<Le>::parse(data).map_err(damaged)?;
        let programs = header.program_headers(Le, data).map_err(damaged)?;
        let headers = header.section_headers(Le, data).map_err(damaged)?;
        let names = match header.shstrndx(Le, data).map_err(damaged)? {
            0 => &[][..],
            index => match headers.get(index as usize) {
                Some(strings) => strings.data(Le, data).map_err(damaged)?,
                None => &[][..],
            },
        };
        let sections = headers.iter().map(|header| Section {
            name: names.get(header.sh_name.get(Le) as usize..).map_or(&[], until_zero),
            header,
        });
        let mut elf = Elf {
            path: path.to_path_buf(),
            store,
            data,
            sections: sections.collect(),
            segments: programs.iter().filter_map(segment).collect(),
            tls: None,
            build_id: BuildId::default(),
        };
        let tls = programs.iter().find(|p| p.p_type(Le) == elf::PT_TLS);
        elf.tls = tls.map(|p| Tls {
            vaddr: p.p_vaddr(Le),
            memsz: p.p_memsz(Le),
            align: p.p_align(Le),
        });
        elf.build_id = elf.find_build_id(programs);
        Ok(elf)
    }

    fn find_build_id(&self, programs: &[ProgramHeader64<Le>]) -> BuildId {
        let of_sections = self.sections.iter().filter_map(|s| s.header.notes(Le, self.data).ok()?);
        let of_segments = programs.iter().filter_map(|p| p.notes(Le, self.data).ok()?);
        for mut notes in of_sections.chain(of_segments) {
            while let Ok(Some(note)) = notes.next() {
                if note.name() == elf::ELF_NOTE_GNU && note.n_type(Le) == elf::NT_GNU_BUILD_ID {
                    return BuildId(note.desc().to_vec());
                }
            }
        }
        BuildId::default()
    }

    /// A section that is in the file, if only with no bytes.
    fn find(&self, name: &str) -> Option<&Section<'s>> {
        let mut found = self.sections.iter().filter(|s| s.name == name.as_bytes());
        found.find(|s| s.header.sh_type(Le) != elf::SHT_NOBITS)
    }

    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some() || (name.starts_with(".debug_") && self.find(&old_name(name)).is_some())
    }

    pub fn address_of(&self, name: &str) -> Option<u64> {
        self.find(name).map(|s| s.header.sh_addr(Le))
    }

    /// What is in a section, decompressed. Empty if there is no such section.
    pub fn section(&self, name: &str) -> Result<&'s [u8], Reason> {
        let damaged = |what: String| Reason::Damaged {
            path: self.path.clone(),
            what: format!("{name}: {what}"),
        };
        let Some(section) = self.find(name) else {
            let Some(old) = self.find(&old_name(name)).filter(|_| name.starts_with(".debug_")) else {
                return Ok(&[]);
            };
            let bytes = old.header.data(Le, self.data).map_err(|e| damaged(e.to_string()))?;
            let [b'Z', b'L', b'I', b'B', size @ ..] = bytes else {
                return Err(damaged("no ZLIB header".to_string()));
            };
            let Some((size, packed)) = size.split_first_chunk() else {
                return Err(damaged("cut off".to_string()));
            };
            return self.inflate(packed, u64::from_be_bytes(*size)).map_err(damaged);
        };
        let data = section.header.data(Le, self.data).map_err(|e| damaged(e.to_string()))?;
        let compression = section
            .header
            .compression(Le, self.data)
            .map_err(|e| damaged(e.to_string()))?;
        let Some((header, _, packed)) = compression else {
            return Ok(data);
        };
        let packed = data
            .get(data.len().saturating_sub(packed as usize)..)
            .unwrap_or_default();
        let size = header.ch_size.get(Le);
        match header.ch_type.get(Le) {
            elf::ELFCOMPRESS_ZLIB => self.inflate(packed, size),
            elf::ELFCOMPRESS_ZSTD => zstd::Decoder::new(packed)
                .map_err(|e| e.to_string())
                .and_then(|decoder| self.keep(decoder, packed.len(), size)),
            other => Err(format!("compressed in an unknown way, {other}")),
        }
        .map_err(damaged)
    }

    fn inflate(&self, packed: &[u8], size: u64) -> Result<&'s [u8], String> {
        self.keep(flate2::read::ZlibDecoder::new(packed), packed.len(), size)
    }

    fn keep(&self, decoder: impl Read, packed: usize, size: u64) -> Result<&'s [u8], String> {
        // zlib cannot do better than 1:1032.
        const SMALL: u64 = 16 << 20;
        if size > SMALL.max((packed as u64).saturating_mul(2048)) {
            return Err(format!("{size} bytes announced by {packed}"));
        }
        let mut bytes = Vec::new();
        let read = decoder.take(size).read_to_end(&mut bytes);
        read.map_err(|e| e.to_string())?;
        if bytes.len() as u64 != size {
            return Err(format!("{size} bytes announced, {} there", bytes.len()));
        }
        bytes.shrink_to_fit();
        Ok(self.store.sections.alloc(bytes))
    }

    /// Functions and variables of `.symtab` or `.dynsym`.
    pub fn symbols(&self, table: &str) -> Vec<Symbol<'s>> {
        let Some(section) = self.find(table) else {
            return Vec::new();
        };
        let symbols = section
            .header
            .data_as_array::<Sym64<Le>, _>(Le, self.data)
            .unwrap_or_default();
        let strings = self.sections.get(section.header.sh_link(Le) as usize);
        let strings = strings
            .and_then(|s| s.header.data(Le, self.data).ok())
            .unwrap_or_default();
        let named = symbols.iter().filter_map(|symbol| {
            let kind = match symbol.st_type() {
                _ if symbol.st_shndx(Le) == elf::SHN_UNDEF => return None,
                elf::STT_FUNC | elf::STT_GNU_IFUNC => SymbolKind::Function,
                // Assembler code leaves the type out.
                elf::STT_NOTYPE if self.is_code(symbol.st_shndx(Le)) => SymbolKind::Function,
                elf::STT_OBJECT | elf::STT_COMMON => SymbolKind::Object,
                elf::STT_TLS => SymbolKind::Tls,
                _ => return None,
            };
            Some(Symbol {
                value: symbol.st_value(Le),
                size: symbol.st_size(Le),
                name: strings
                    .get(symbol.st_name(Le) as usize..)
                    .map(until_zero)
                    .filter(|n| !n.is_empty())?,
                kind,
                global: symbol.st_bind() != elf::STB_LOCAL,
            })
        });
        named.collect()
    }

    fn is_code(&self, index: elf::SymbolSection) -> bool {
        let section = self.sections.get(usize::from(index.0));
        section.is_some_and(|s| s.header.sh_flags(Le).contains(elf::SHF_EXECINSTR))
    }

    /// `.gnu_debugdata`: a small ELF file with a symbol table, packed.
    pub fn mini(&self) -> Option<Result<Elf<'s>, Reason>> {
        const LIMIT: u64 = 256 << 20;
        self.find(".gnu_debugdata")?;
        let path = self.path.join(".gnu_debugdata");
        let unpack = || -> Result<Vec<u8>, Reason> {
            let packed = self.section(".gnu_debugdata")?;
            let mut bytes = Vec::new();
            let reader = lzma_rust2::XzReader::new_mem_limit(packed, false, (LIMIT >> 10) as u32);
            let read = reader.take(LIMIT).read_to_end(&mut bytes);
            read.map_err(|e| Reason::Damaged {
                path: path.clone(),
                what: e.to_string(),
            })?;
            Ok(bytes)
        };
        Some(unpack().and_then(|bytes| Elf::parse(self.store, &path, Box::new(Cursor::new(bytes)))))
    }

    /// `.gnu_debuglink`: a file's name and checksum.
    pub fn debuglink(&self) -> Option<(&'s [u8], u32)> {
        let section = self.section(".gnu_debuglink").ok()?;
        let name = until_zero(section);
        let checksum = section.get((name.len() + 4) & !3..)?.first_chunk()?;
        (!name.is_empty()).then_some((name, u32::from_le_bytes(*checksum)))
    }

    /// `.gnu_debugaltlink`: a file's name and build id.
    pub fn altlink(&self) -> Option<(&'s [u8], BuildId)> {
        let section = self.section(".gnu_debugaltlink").ok()?;
        let name = until_zero(section);
        let id = section.get(name.len() + 1..)?;
        (!name.is_empty()).then(|| (name, BuildId(id.to_vec())))
    }

    /// Bytes that are loaded at an address, at most `len`, as many as the file has.
    pub fn bytes_at(&self, vaddr: u64, len: u64) -> Option<&'s [u8]> {
        let inside = |s: &&Segment| s.vaddr <= vaddr && vaddr - s.vaddr < s.filesz;
        let segment = self.segments.iter().find(inside)?;
        let at = vaddr - segment.vaddr;
        let offset = segment.offset.checked_add(at)?;
        self.data.read_bytes_at(offset, len.min(segment.filesz - at)).ok()
    }
}

/// Before ELF had a flag for it, compressed sections had names of their own.
fn old_name(name: &str) -> String {
    name.replacen(".debug_", ".zdebug_", 1)
}

fn segment(header: &ProgramHeader64<Le>) -> Option<Segment> {
    (header.p_type(Le) == elf::PT_LOAD).then(|| Segment {
        vaddr: header.p_vaddr(Le),
        memsz: header.p_memsz(Le),
        offset: header.p_offset(Le),
        filesz: header.p_filesz(Le),
        writable: header.p_flags(Le).contains(elf::PF_W),
        executable: header.p_flags(Le).contains(elf::PF_X),
    })
}
