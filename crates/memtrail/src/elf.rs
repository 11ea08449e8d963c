//! As much of ELF as counting needs: executable code, and where functions begin.
use anyhow::{bail, Context};
use object::elf::{FileHeader64, Sym64, EM_X86_64, SHF_EXECINSTR, SHT_DYNSYM, SHT_NOBITS, SHT_SYMTAB, STT_FUNC};
use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};
use object::LittleEndian;

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

impl<'f> Elf<'f> {
    pub fn parse(file: &'f [u8]) -> anyhow::Result<Elf<'f>> {
        let header = FileHeader64::<LittleEndian>::parse(file).ok();
        let header = header.and_then(|h| Some((h, h.endian().ok()?)));
        let Some((header, endian)) = header.filter(|(h, e)| h.e_machine(*e) == EM_X86_64) else {
            bail!("not a 64-bit x86-64 ELF file");
        };
        let sections = header.section_headers(endian, file).context("the section headers")?;
        let mut elf = Elf {
            code: Vec::new(),
            functions: Vec::new(),
        };
        for (index, section) in sections.iter().enumerate() {
            let kind = section.sh_type(endian);
            if section.sh_flags(endian).contains(SHF_EXECINSTR) && kind != SHT_NOBITS {
                let bytes = section.data(endian, file).with_context(|| format!("section {index}"))?;
                let addr = section.sh_addr(endian);
                if addr.checked_add(bytes.len() as u64).is_none() {
                    bail!("section {index} at {addr:#x} ends beyond the address space");
                }
                elf.code.push(Code { addr, bytes });
            }
            if kind == SHT_SYMTAB || kind == SHT_DYNSYM {
                let symbols: &[Sym64<LittleEndian>] = section
                    .data_as_array(endian, file)
                    .with_context(|| format!("the symbol table in section {index}"))?;
                let functions = symbols.iter().filter(|symbol| symbol.st_type() == STT_FUNC);
                elf.functions.extend(functions.map(|symbol| symbol.st_value(endian)));
            }
        }
        Ok(elf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER_BYTES: usize = 64;
    const SECTION_BYTES: usize = 64;
    const CODE_AT: usize = HEADER_BYTES + 3 * SECTION_BYTES;

    fn set(file: &mut [u8], at: usize, value: u64) {
        file[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Sections: none, code of 3 bytes at 0x1000, symbols (a function at 0x1001, an object at
    /// 0x2000).
    fn elf() -> Vec<u8> {
        let symbols_at = CODE_AT + 8;
        let mut file = vec![0; symbols_at + 48];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        file[18] = 62;
        set(&mut file, 40, HEADER_BYTES as u64);
        file[58] = SECTION_BYTES as u8;
        file[60] = 3;
        let section = |file: &mut [u8], index: usize, fields: [u64; 5]| {
            let at = HEADER_BYTES + index * SECTION_BYTES;
            file[at + 4] = fields[0] as u8;
            for (i, field) in fields[1..].iter().enumerate() {
                set(file, at + 8 + 8 * i, *field);
            }
        };
        section(&mut file, 1, [1, 4, 0x1000, CODE_AT as u64, 3]);
        section(&mut file, 2, [2, 0, 0, symbols_at as u64, 48]);
        file[CODE_AT..CODE_AT + 3].copy_from_slice(&[0x90, 0x90, 0xc3]);
        file[symbols_at + 4] = 2;
        set(&mut file, symbols_at + 8, 0x1001);
        file[symbols_at + 24 + 4] = 1;
        set(&mut file, symbols_at + 24 + 8, 0x2000);
        file
    }

    #[test]
    fn code_and_functions_are_found() {
        let file = elf();
        let elf = Elf::parse(&file).unwrap();
        assert_eq!(elf.code.len(), 1);
        assert_eq!((elf.code[0].addr, elf.code[0].bytes), (0x1000, &[0x90, 0x90, 0xc3][..]));
        assert_eq!(elf.functions, [0x1001]);
    }

    fn error(file: &[u8]) -> String {
        Elf::parse(file).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn damage_is_told() {
        let whole = elf();
        for length in 0..whole.len() {
            assert_ne!(error(&whole[..length]), "", "{length}");
        }
        let with = |at: usize, value: u64| {
            let mut file = whole.clone();
            set(&mut file, at, value);
            error(&file)
        };
        assert_eq!(with(18, 183), "not a 64-bit x86-64 ELF file");
        let code = HEADER_BYTES + SECTION_BYTES;
        assert_eq!(with(code + 24, u64::MAX), "section 1");
        assert_eq!(
            with(code + 16, u64::MAX - 1),
            "section 1 at 0xfffffffffffffffe ends beyond the address space"
        );
        assert_eq!(with(code + SECTION_BYTES + 32, 47), "the symbol table in section 2");
    }

    #[test]
    fn no_byte_of_the_headers_can_do_harm() {
        let whole = elf();
        let mut told = 0;
        for at in 0..CODE_AT {
            for value in 0..=255 {
                let mut file = whole.clone();
                file[at] = value;
                told += usize::from(Elf::parse(&file).is_err());
            }
        }
        assert!(told > 4 * 255, "{told}");
    }
}
