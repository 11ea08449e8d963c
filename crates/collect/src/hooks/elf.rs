//! The functions of an ELF file that have certain names.
use super::names::{rank, Allocators};
use super::Found;
use object::elf::{FileHeader64, Sym64, SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{slice_from_all_bytes, LittleEndian, ReadCache, ReadRef};
use std::collections::BTreeMap;
use std::fs::File;

type Header = FileHeader64<LittleEndian>;

/// Longer symbol tables, in bytes, are left aside.
const MOST: u64 = 1 << 30;

/// One for each address; `None` if it is no such file. Functions that only choose others (ifuncs)
/// and those of other files are none.
pub(super) fn functions(file: File, allocators: &Allocators) -> Option<Vec<Found>> {
    let cache = ReadCache::new(file);
    let data = &cache;
    let header = Header::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let offset_of = |address: u64| {
        segments.iter().find_map(|s| {
            let inside = address.checked_sub(s.p_vaddr(endian))?;
            let loaded = s.p_type(endian) == object::elf::PT_LOAD && inside < s.p_filesz(endian);
            loaded.then(|| s.p_offset(endian).checked_add(inside)).flatten()
        })
    };
    let mut found: BTreeMap<u64, Found> = BTreeMap::new();
    let sections = header.section_headers(endian, data).ok()?;
    let tables = sections
        .iter()
        .filter(|s| matches!(s.sh_type(endian), SHT_DYNSYM | SHT_SYMTAB));
    for section in tables {
        let read = |offset: u64, bytes: u64| data.read_bytes_at(offset, bytes).ok().filter(|_| bytes <= MOST);
        let Some(strings) = sections.get(section.sh_link(endian) as usize) else {
            continue;
        };
        let (Some(symbols), Some(strings)) = (
            read(section.sh_offset(endian), section.sh_size(endian)),
            read(strings.sh_offset(endian), strings.sh_size(endian)),
        ) else {
            continue;
        };
        let whole = symbols.len() - symbols.len() % size_of::<Sym64<LittleEndian>>();
        let Ok(symbols) = slice_from_all_bytes::<Sym64<LittleEndian>>(&symbols[..whole]) else {
            continue;
        };
        for symbol in symbols {
            if symbol.st_type() != STT_FUNC || symbol.st_shndx(endian) == SHN_UNDEF {
                continue;
            }
            let Some((name, function)) =
                name_at(strings, symbol.st_name(endian)).and_then(|name| Some((name, allocators.find(name)?)))
            else {
                continue;
            };
            let Some(offset) = offset_of(symbol.st_value(endian)) else {
                continue;
            };
            let new = Found {
                offset,
                name: name.to_owned(),
                function,
            };
            let key = |f: &Found| (!f.function.by_user, rank(&f.name).0, f.name.len(), f.name.clone());
            match found.get_mut(&offset) {
                Some(old) if key(old) <= key(&new) => {}
                Some(old) => *old = new,
                None => drop(found.insert(offset, new)),
            }
        }
    }
    Some(found.into_values().collect())
}

/// The name of a symbol, if it is long enough and short enough to be one of ours.
fn name_at(strings: &[u8], at: u32) -> Option<&str> {
    const LONGEST: usize = 1024;
    let rest = strings.get(at as usize..)?;
    let rest = &rest[..rest.len().min(LONGEST)];
    let end = rest.iter().position(|&b| b == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_ring::hook::Action;

    /// This program, which has a function `main` and uses the C library.
    fn own() -> File {
        File::open(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn defined_functions_are_found_by_their_names() {
        let mut allocators = Allocators::none();
        allocators.allocates("main", 1);
        // Undefined here: it is another file's.
        allocators.frees("free", 1);
        let found = functions(own(), &allocators).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "main");
        assert_eq!(found[0].function.action, Action::Allocate);
    }

    #[test]
    fn what_is_no_program_has_none() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert_eq!(functions(File::open(path).unwrap(), &Allocators::standard()), None);
    }
}
