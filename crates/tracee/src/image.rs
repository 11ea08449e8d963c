//! The runtime's ELF image: which parts go where.
use crate::Error;
use memtrail_ring::PAGE;

const PT_LOAD: u32 = 1;
const PF_X: u32 = 1;
const PF_W: u32 = 2;
const PF_R: u32 = 4;

/// One loadable part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub vaddr: u64,
    pub offset: u64,
    pub file_bytes: u64,
    pub memory_bytes: u64,
    pub prot: i32,
}

impl Segment {
    pub fn page(&self) -> u64 {
        page_floor(self.vaddr)
    }
    /// Bytes from [`Segment::page`] to the end of what the file holds.
    pub fn file_span(&self) -> u64 {
        self.vaddr - self.page() + self.file_bytes
    }
    pub fn memory_span(&self) -> u64 {
        self.vaddr - self.page() + self.memory_bytes
    }
}

#[derive(Debug)]
pub(crate) struct Image {
    pub entry: u64,
    pub segments: Vec<Segment>,
}

pub(crate) fn page_floor(v: u64) -> u64 {
    v & !(PAGE as u64 - 1)
}
pub(crate) fn page_ceil(v: u64) -> u64 {
    page_floor(v + PAGE as u64 - 1)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Error> {
    bytes
        .get(at..at.saturating_add(N))
        .and_then(|s| s.try_into().ok())
        .ok_or(Error::BadImage("it is too short"))
}
fn half(bytes: &[u8], at: usize) -> Result<u16, Error> {
    Ok(u16::from_le_bytes(field(bytes, at)?))
}
fn word(bytes: &[u8], at: usize) -> Result<u32, Error> {
    Ok(u32::from_le_bytes(field(bytes, at)?))
}
fn long(bytes: &[u8], at: usize) -> Result<u64, Error> {
    Ok(u64::from_le_bytes(field(bytes, at)?))
}

impl Image {
    pub fn parse(bytes: &[u8]) -> Result<Image, Error> {
        if bytes.get(..4) != Some(b"\x7fELF") {
            return Err(Error::BadImage("it is not an ELF file"));
        }
        let table = long(bytes, 32)? as usize;
        let (size, count) = (half(bytes, 54)? as usize, half(bytes, 56)? as usize);
        let mut segments = Vec::new();
        for i in 0..count {
            let at = table + i * size;
            if word(bytes, at)? != PT_LOAD {
                continue;
            }
            let flags = word(bytes, at + 4)?;
            let segment = Segment {
                offset: long(bytes, at + 8)?,
                vaddr: long(bytes, at + 16)?,
                file_bytes: long(bytes, at + 32)?,
                memory_bytes: long(bytes, at + 40)?,
                prot: prot(flags),
            };
            let page = PAGE as u64;
            if segment.offset % page != segment.vaddr % page || segment.file_bytes > segment.memory_bytes {
                return Err(Error::BadImage("a segment cannot be mapped"));
            }
            segments.push(segment);
        }
        if segments.is_empty() {
            return Err(Error::BadImage("it has nothing to load"));
        }
        Ok(Image {
            entry: long(bytes, 24)?,
            segments,
        })
    }
}

fn prot(flags: u32) -> i32 {
    let mut prot = 0;
    for (flag, bit) in [
        (PF_R, libc::PROT_READ),
        (PF_W, libc::PROT_WRITE),
        (PF_X, libc::PROT_EXEC),
    ] {
        if flags & flag != 0 {
            prot |= bit;
        }
    }
    prot
}

pub(crate) const NOT_ELF: &str = "not an ELF program";

/// The loader (PT_INTERP) that a 64-bit ELF file names.
pub(crate) fn loader(file: &[u8]) -> Option<&[u8]> {
    const PT_INTERP: u32 = 3;
    if wrong_machine(file).is_some() {
        return None;
    }
    let table = long(file, 32).ok()? as usize;
    let (size, count) = (half(file, 54).ok()? as usize, half(file, 56).ok()? as usize);
    let headers = (0..count).map(|i| table.saturating_add(i * size));
    let at = headers.into_iter().find(|&at| word(file, at).ok() == Some(PT_INTERP))?;
    let offset = long(file, at + 8).ok()? as usize;
    let path = file.get(offset..)?.split(|&b| b == 0).next()?;
    (!path.is_empty()).then_some(path)
}

/// Why a program's ELF header says that it cannot be recorded.
pub(crate) fn wrong_machine(header: &[u8]) -> Option<String> {
    const CLASS_64: u8 = 2;
    const X86_64: u16 = 62;
    const I386: u16 = 3;
    if header.get(..4) != Some(b"\x7fELF") {
        return Some(NOT_ELF.to_string());
    }
    match (header.get(4), half(header, 18).ok()) {
        (Some(&CLASS_64), Some(X86_64)) => None,
        (_, Some(I386)) => Some("a 32-bit program".to_string()),
        (_, machine) => Some(format!(
            "a program for another machine (ELF machine {})",
            machine.unwrap_or(0)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_runtime_can_be_mapped() {
        let image = Image::parse(crate::IMAGE).unwrap();
        assert!(image
            .segments
            .iter()
            .any(|s| s.prot & libc::PROT_EXEC != 0 && s.vaddr <= image.entry));
        for s in &image.segments {
            assert!(s.vaddr >= memtrail_ring::IMAGE_BASE);
            assert!(s.vaddr + s.memory_bytes <= memtrail_ring::BOOT_BASE);
            assert_ne!(
                s.prot & (libc::PROT_WRITE | libc::PROT_EXEC),
                libc::PROT_WRITE | libc::PROT_EXEC
            );
        }
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
