//! As much of ELF as counting needs: executable code, and where functions begin.
use anyhow::{bail, Context};

const SHF_EXECINSTR: u64 = 4;
const SHT_NOBITS: u32 = 8;
const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const STT_FUNC: u8 = 2;

/// Code with its address.
pub struct Code<'f> {
    pub addr: u64,
    pub bytes: &'f [u8],
}

/// The executable sections of a file, and the addresses of its functions.
pub struct Elf<'f> {
    pub code: Vec<Code<'f>>,
    pub functions: Vec<u64>,
}

struct Section {
    kind: u32,
    flags: u64,
    addr: u64,
    offset: u64,
    size: u64,
}

fn long(bytes: &[u8], at: usize) -> anyhow::Result<u64> {
    let end = at.checked_add(8).context("an offset is out of range")?;
    let field = bytes.get(at..end).context("the file is too short")?;
    Ok(u64::from_le_bytes(field.try_into()?))
}
fn word(bytes: &[u8], at: usize) -> anyhow::Result<u32> {
    let end = at.checked_add(4).context("an offset is out of range")?;
    let field = bytes.get(at..end).context("the file is too short")?;
    Ok(u32::from_le_bytes(field.try_into()?))
}
fn half(bytes: &[u8], at: usize) -> anyhow::Result<u16> {
    Ok(word(bytes, at)? as u16)
}

fn contents<'f>(file: &'f [u8], s: &Section) -> anyhow::Result<&'f [u8]> {
    let end = s.offset.checked_add(s.size);
    end.and_then(|end| file.get(s.offset as usize..end as usize))
        .context("a section lies outside the file")
}

impl<'f> Elf<'f> {
    pub fn parse(file: &'f [u8]) -> anyhow::Result<Elf<'f>> {
        const ELF64: &[u8] = b"\x7fELF\x02\x01";
        const X86_64: u16 = 62;
        if file.get(..6) != Some(ELF64) || half(file, 18)? != X86_64 {
            bail!("not a 64-bit x86-64 ELF file");
        }
        let table = long(file, 40)? as usize;
        let (size, count) = (half(file, 58)? as usize, half(file, 60)? as usize);
        let mut elf = Elf {
            code: Vec::new(),
            functions: Vec::new(),
        };
        for i in 0..count {
            let at = table.saturating_add(i * size);
            let section = Section {
                kind: word(file, at.saturating_add(4))?,
                flags: long(file, at.saturating_add(8))?,
                addr: long(file, at.saturating_add(16))?,
                offset: long(file, at.saturating_add(24))?,
                size: long(file, at.saturating_add(32))?,
            };
            elf.section(file, &section)?;
        }
        Ok(elf)
    }

    fn section(&mut self, file: &'f [u8], s: &Section) -> anyhow::Result<()> {
        if s.flags & SHF_EXECINSTR != 0 && s.kind != SHT_NOBITS {
            self.code.push(Code {
                addr: s.addr,
                bytes: contents(file, s)?,
            });
        }
        if s.kind == SHT_SYMTAB || s.kind == SHT_DYNSYM {
            let functions = contents(file, s)?
                .chunks_exact(24)
                .filter(|symbol| symbol[4] & 15 == STT_FUNC)
                .filter_map(|symbol| long(symbol, 8).ok());
            self.functions.extend(functions);
        }
        Ok(())
    }
}
