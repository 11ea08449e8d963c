//! ELF files: the runtime's image, and what the headers of programs say.
use crate::Error;
use memtrail_ring::PAGE;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader};
use object::LittleEndian as Le;

type Header = FileHeader64<Le>;

/// One loadable part. Addresses count from the beginning of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub address: u64,
    pub offset: u64,
    pub file_bytes: u64,
    pub memory_bytes: u64,
    pub prot: i32,
}

impl Segment {
    pub fn page(&self) -> u64 {
        page_floor(self.address)
    }
    /// Bytes from [`Segment::page`] to the end of what the file holds.
    pub fn file_span(&self) -> u64 {
        self.address - self.page() + self.file_bytes
    }
    pub fn memory_span(&self) -> u64 {
        self.address - self.page() + self.memory_bytes
    }
    /// Where in the file the eight bytes at `address` stand, if they are in this segment.
    fn word_at(&self, address: u64) -> Option<usize> {
        let within = address.checked_sub(self.address)?;
        let inside = within.checked_add(8)? <= self.file_bytes;
        inside.then_some((self.offset + within) as usize)
    }
}

/// The runtime's image: linked to address 0, to lie anywhere.
#[derive(Debug)]
pub(crate) struct Image {
    file: &'static [u8],
    pub entry: u64,
    pub segments: Vec<Segment>,
    /// Words that hold an address of the image: where in the file, and which.
    addresses: Vec<(usize, u64)>,
}

pub(crate) fn page_floor(v: u64) -> u64 {
    v & !(PAGE as u64 - 1)
}
pub(crate) fn page_ceil(v: u64) -> u64 {
    page_floor(v + PAGE as u64 - 1)
}

impl Image {
    pub fn parse(file: &'static [u8]) -> Result<Image, Error> {
        let bad = |_| Error::BadImage("it is not an ELF file, or not a whole one");
        let header = Header::parse(file).map_err(bad)?;
        let endian = header.endian().map_err(bad)?;
        let mut segments = Vec::new();
        for p in header.program_headers(endian, file).map_err(bad)? {
            if p.p_type(endian) == elf::PT_LOAD {
                segments.push(loadable(p, file)?);
            }
        }
        if segments.is_empty() {
            return Err(Error::BadImage("it has nothing to load"));
        }
        let mut addresses = Vec::new();
        for section in header.section_headers(endian, file).map_err(bad)? {
            if section.sh_type(endian) == elf::SHT_REL {
                return Err(Error::BadImage("it has relocations without addends"));
            }
            let Some((relocations, _)) = section.rela(endian, file).map_err(bad)? else {
                continue;
            };
            for r in relocations {
                if r.r_type(endian, false) != elf::R_X86_64_RELATIVE {
                    return Err(Error::BadImage("a relocation needs more than the image's address"));
                }
                let at = segments.iter().find_map(|s| s.word_at(r.r_offset(endian)));
                let at = at.ok_or(Error::BadImage("a relocation lies outside the image"))?;
                addresses.push((at, r.r_addend(endian) as u64));
            }
        }
        Ok(Image {
            file,
            entry: header.e_entry(endian),
            segments,
            addresses,
        })
    }

    /// Bytes of address space that the image takes.
    pub fn span(&self) -> u64 {
        let ends = self.segments.iter().map(|s| s.page() + page_ceil(s.memory_span()));
        ends.max().unwrap_or(0)
    }

    /// The file as it must be mapped for an image that lies at `base`: nothing is left to relocate.
    pub fn placed_at(&self, base: u64) -> Vec<u8> {
        let mut file = self.file.to_vec();
        for &(at, address) in &self.addresses {
            file[at..at + 8].copy_from_slice(&(base + address).to_le_bytes());
        }
        file
    }
}

fn loadable(p: &elf::ProgramHeader64<Le>, file: &[u8]) -> Result<Segment, Error> {
    let segment = Segment {
        offset: p.p_offset(Le),
        address: p.p_vaddr(Le),
        file_bytes: p.p_filesz(Le),
        memory_bytes: p.p_memsz(Le),
        prot: prot(p.p_flags(Le)),
    };
    let page = PAGE as u64;
    let file_end = segment.offset.checked_add(segment.file_bytes);
    if segment.offset % page != segment.address % page
        || segment.file_bytes > segment.memory_bytes
        || file_end.is_none_or(|end| end > file.len() as u64)
    {
        return Err(Error::BadImage("a segment cannot be mapped"));
    }
    Ok(segment)
}

fn prot(flags: elf::ProgramFlags) -> i32 {
    let mut prot = 0;
    for (flag, bit) in [
        (elf::PF_R, libc::PROT_READ),
        (elf::PF_W, libc::PROT_WRITE),
        (elf::PF_X, libc::PROT_EXEC),
    ] {
        if flags.0 & flag.0 != 0 {
            prot |= bit;
        }
    }
    prot
}

pub(crate) const NOT_ELF: &str = "not an ELF program";

/// The loader (PT_INTERP) that a 64-bit ELF file names.
pub(crate) fn loader(file: &[u8]) -> Option<&[u8]> {
    if wrong_machine(file).is_some() {
        return None;
    }
    let header = Header::parse(file).ok()?;
    let segments = header.program_headers(Le, file).ok()?;
    let path = segments.iter().find_map(|p| p.interpreter(Le, file).ok()?)?;
    (!path.is_empty()).then_some(path)
}

/// Why a program's ELF header says that it cannot be recorded.
pub(crate) fn wrong_machine(header: &[u8]) -> Option<String> {
    if header.get(..4) != Some(&elf::ELFMAG) {
        return Some(NOT_ELF.to_string());
    }
    let class = header.get(4).map(|&b| elf::FileClass(b));
    let machine = header
        .get(18..20)
        .map(|b| elf::Machine(u16::from_le_bytes([b[0], b[1]])));
    match (class, machine) {
        (Some(elf::ELFCLASS64), Some(elf::EM_X86_64)) => None,
        (_, Some(elf::EM_386)) => Some("a 32-bit program".to_string()),
        (_, machine) => Some(format!(
            "a program for another machine (ELF machine {})",
            machine.map_or(0, |m| m.0)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_runtime_can_be_mapped() {
        let image = Image::parse(crate::IMAGE).unwrap();
        let holds_entry = |s: &&Segment| (s.address..s.address + s.file_bytes).contains(&image.entry);
        let text = image.segments.iter().find(holds_entry).unwrap();
        assert_ne!(text.prot & libc::PROT_EXEC, 0);
        for s in &image.segments {
            assert!(s.address + s.memory_bytes <= image.span());
            assert_ne!(
                s.prot & (libc::PROT_WRITE | libc::PROT_EXEC),
                libc::PROT_WRITE | libc::PROT_EXEC
            );
        }
    }

    #[test]
    fn a_placed_image_holds_its_own_addresses() {
        let image = Image::parse(crate::IMAGE).unwrap();
        assert!(
            image.addresses.len() > 100,
            "vtables and tables of texts hold addresses"
        );
        let base = 0x5500_0000_0000;
        let placed = image.placed_at(base);
        assert_eq!(placed.len(), crate::IMAGE.len());
        let mut changed = 0;
        for (at, address) in &image.addresses {
            let word = u64::from_le_bytes(placed[*at..at + 8].try_into().unwrap());
            assert_eq!(word, base + address);
            assert!(*address <= image.span());
            changed += 8;
        }
        let different = placed.iter().zip(crate::IMAGE).filter(|(a, b)| a != b).count();
        assert!(different <= changed, "{different} bytes differ, {changed} may");
    }

    #[test]
    fn damaged_images_are_refused_at_every_length() {
        for n in 0..crate::IMAGE.len().min(120) {
            assert!(Image::parse(&crate::IMAGE[..n]).is_err(), "{n} bytes");
        }
    }

    #[test]
    fn headers_of_other_machines_are_named() {
        let mut h = [0u8; 64];
        assert!(wrong_machine(&h).unwrap().contains("not an ELF"));
        h[..4].copy_from_slice(b"\x7fELF");
        h[4] = 1;
        h[18] = 3;
        assert_eq!(wrong_machine(&h).unwrap(), "a 32-bit program");
        h[4] = 2;
        h[18] = 62;
        assert_eq!(wrong_machine(&h), None);
    }
}
