//! Modules: the files code was mapped from, and the build ids that tell whether a file is still the same.
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// A file that was mapped executable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Module {
    /// As the target's kernel names it.
    pub path: Vec<u8>,
    /// The GNU build id; `None` if the file has none or could not be read.
    pub build_id: Option<Vec<u8>>,
}

const ELF64: &[u8] = b"\x7fELF\x02\x01";
const PT_NOTE: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;
const OWNER: &[u8] = b"GNU\0";
/// Longer notes, and more segments, are no notes and segments of ours.
const MOST_NOTE_BYTES: u64 = 1 << 16;
const PROGRAM_HEADER_BYTES: usize = 56;

/// The GNU build id of an ELF file.
pub(crate) fn build_id(path: &Path) -> Option<Vec<u8>> {
    // Opening a fifo would wait for ever.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    read_build_id(&mut File::open(path).ok()?)
}

fn read_build_id(file: &mut (impl Read + Seek)) -> Option<Vec<u8>> {
    let head = read(file, 0, 64)?;
    if !head.starts_with(ELF64) {
        return None;
    }
    let (table, size, count) = (long(&head, 32)?, half(&head, 54)?, half(&head, 56)?);
    if usize::from(size) != PROGRAM_HEADER_BYTES {
        return None;
    }
    let headers = read(file, table, u64::from(size) * u64::from(count))?;
    headers.chunks_exact(PROGRAM_HEADER_BYTES).find_map(|header| {
        if word(header, 0)? != PT_NOTE {
            return None;
        }
        let notes = read(file, long(header, 8)?, long(header, 32)?)?;
        let align = if long(header, 48)? == 8 { 8 } else { 4 };
        in_notes(&notes, align)
    })
}

fn in_notes(mut notes: &[u8], align: usize) -> Option<Vec<u8>> {
    loop {
        let (owner, bytes, kind) = (word(notes, 0)? as usize, word(notes, 4)? as usize, word(notes, 8)?);
        let begin = 12usize.checked_add(owner)?.checked_next_multiple_of(align)?;
        let end = begin.checked_add(bytes)?;
        if kind == NT_GNU_BUILD_ID && notes.get(12..)?.starts_with(OWNER) && owner == OWNER.len() {
            return notes.get(begin..end).map(<[u8]>::to_vec);
        }
        notes = notes.get(end.checked_next_multiple_of(align)?..)?;
    }
}

fn read(file: &mut (impl Read + Seek), at: u64, bytes: u64) -> Option<Vec<u8>> {
    if bytes > MOST_NOTE_BYTES {
        return None;
    }
    file.seek(SeekFrom::Start(at)).ok()?;
    let mut buffer = vec![0; bytes as usize];
    file.read_exact(&mut buffer).ok()?;
    Some(buffer)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn note(owner: &[u8], kind: u32, bytes: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for field in [owner.len() as u32, bytes.len() as u32, kind] {
            note.extend_from_slice(&field.to_le_bytes());
        }
        note.extend_from_slice(owner);
        note.extend_from_slice(bytes);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    fn elf(notes: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 64 + PROGRAM_HEADER_BYTES];
        file[..6].copy_from_slice(ELF64);
        file[32] = 64;
        file[54] = PROGRAM_HEADER_BYTES as u8;
        file[56] = 1;
        file[64] = PT_NOTE as u8;
        file[64 + 8] = 120;
        file[64 + 32..64 + 40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        file.extend_from_slice(notes);
        file
    }

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let notes = [note(b"GNU\0", 1, &[9; 16]), note(b"GNU\0", 3, &[1, 2, 3, 4, 5])].concat();
        let found = read_build_id(&mut Cursor::new(elf(&notes)));
        assert_eq!(found, Some(vec![1, 2, 3, 4, 5]));
    }

    #[test]
    fn what_has_none_has_none() {
        let whole = elf(&note(b"GNU\0", 3, &[1; 20]));
        for length in 0..whole.len() {
            assert_eq!(read_build_id(&mut Cursor::new(&whole[..length])), None, "{length}");
        }
        assert_eq!(
            read_build_id(&mut Cursor::new(elf(&note(b"Go\0\0", 3, &[1; 20])))),
            None
        );
        assert_eq!(build_id(Path::new("/no/such/file")), None);
    }
}
