//! Build ids, which tell whether a file is still the same.
use object::elf::{FileHeader64, ELF_NOTE_GNU, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{LittleEndian, ReadCache, ReadCacheOps};
use std::fs::File;
use std::path::Path;

/// A longer note segment is not one that a linker made; it is not read.
const MOST_NOTE_BYTES: u64 = 1 << 16;

/// The GNU build id of an ELF file.
pub(crate) fn build_id(path: &Path) -> Option<Vec<u8>> {
    // Opening a fifo would wait for ever.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    read_build_id(File::open(path).ok()?)
}

fn read_build_id(file: impl ReadCacheOps) -> Option<Vec<u8>> {
    let data = &ReadCache::new(file);
    let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let short = segments.iter().filter(|s| s.p_filesz(endian) <= MOST_NOTE_BYTES);
    short.into_iter().find_map(|segment| {
        let mut notes = segment.notes(endian, data).ok()??;
        while let Ok(Some(note)) = notes.next() {
            if note.n_type(endian) == NT_GNU_BUILD_ID && note.name() == ELF_NOTE_GNU {
                return Some(note.desc().to_vec());
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    const HEADER_BYTES: usize = 64;
    const SEGMENT_BYTES: usize = 56;
    const PT_NOTE: u8 = 4;

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

    /// A file of one note segment.
    fn elf(notes: &[u8]) -> Vec<u8> {
        let mut file = vec![0; HEADER_BYTES + SEGMENT_BYTES];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        file[32] = HEADER_BYTES as u8;
        file[54] = SEGMENT_BYTES as u8;
        file[56] = 1;
        let segment = HEADER_BYTES;
        file[segment] = PT_NOTE;
        file[segment + 8] = (HEADER_BYTES + SEGMENT_BYTES) as u8;
        file[segment + 32..segment + 40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        file[segment + 48] = 4;
        file.extend_from_slice(notes);
        file
    }

    fn found(file: &[u8]) -> Option<Vec<u8>> {
        read_build_id(Cursor::new(file))
    }

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let notes = [note(b"GNU\0", 1, &[9; 16]), note(b"GNU\0", 3, &[1, 2, 3, 4, 5])].concat();
        assert_eq!(found(&elf(&notes)), Some(vec![1, 2, 3, 4, 5]));
    }

    #[test]
    fn what_has_none_has_none() {
        assert_eq!(found(&elf(&note(b"Go\0\0", 3, &[1; 20]))), None);
        assert_eq!(build_id(Path::new("/no/such/file")), None);
    }

    #[test]
    fn a_file_cut_short_has_none() {
        let whole = elf(&note(b"GNU\0", 3, &[1; 20]));
        assert_eq!(found(&whole), Some(vec![1; 20]));
        for length in 0..whole.len() {
            assert_eq!(found(&whole[..length]), None, "{length}");
        }
    }

    /// Every byte of the headers takes every value: a wrong answer is allowed, a panic and an id of
    /// more bytes than the file has are not.
    #[test]
    fn damaged_headers_do_no_harm() {
        let whole = elf(&note(b"GNU\0", 3, &[1; 20]));
        let mut lost = 0;
        for at in 0..HEADER_BYTES + SEGMENT_BYTES + 12 {
            for value in 0..=255 {
                let mut file = whole.clone();
                file[at] = value;
                let id = found(&file);
                assert!(id.as_ref().is_none_or(|id| id.len() <= whole.len()), "{at} {value}");
                lost += usize::from(id.is_none());
            }
        }
        // The magic number alone has four bytes with 255 wrong values each.
        assert!(lost > 4 * 255, "{lost}");
    }

    #[test]
    fn a_note_segment_of_gigabytes_is_not_read() {
        let mut file = elf(&note(b"GNU\0", 3, &[1; 20]));
        file[HEADER_BYTES + 32..HEADER_BYTES + 40].copy_from_slice(&(MOST_NOTE_BYTES + 1).to_le_bytes());
        file.resize(2 * MOST_NOTE_BYTES as usize, 0);
        assert_eq!(found(&file), None);
    }
}
