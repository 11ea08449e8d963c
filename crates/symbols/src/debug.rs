//! The debug information of one module: its sections, its units, and the pieces that lie in other
//! files.
//!
//! **Idea.** Entries refer to each other across units and files. A [`Die`] says where an entry is:
//! in which file (the module's own, the supplementary one, or a split unit), in which unit, at
//! which offset. Units are parsed when they are asked for; a few are kept.
//!
//! **Invariant.** Nothing here is built for the module as a whole but a list of unit offsets, and
//! what `addr2line` needs to find a unit by address.
use crate::elf::{Elf, Tls};
use crate::find::Search;
use crate::reason::Reason;
use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{
    AttributeValue, DebugInfoOffset, DwarfFileType, EndianSlice, LittleEndian, SectionId, UnitHeader, UnitOffset,
};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) type Reader<'s> = EndianSlice<'s, LittleEndian>;
pub(crate) type Dwarf<'s> = gimli::Dwarf<Reader<'s>>;
pub(crate) type Unit<'s> = gimli::Unit<Reader<'s>>;
pub(crate) type Value<'s> = AttributeValue<Reader<'s>>;

/// Index of a file with debug information: [`OWN`], [`SUPPLEMENTARY`], then split units.
pub(crate) type FileIndex = u32;
pub(crate) const OWN: FileIndex = 0;
pub(crate) const SUPPLEMENTARY: FileIndex = 1;

/// Where a unit is within its file: the section, `.debug_info` or `.debug_types`, and the offset
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UnitKey {
    section: SectionId,
    offset: usize,
}

impl UnitKey {
    pub fn of(header: &UnitHeader<Reader<'_>>) -> UnitKey {
        UnitKey {
            section: header.section(),
            offset: header.offset().0,
        }
    }
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Die {
    pub file: FileIndex,
    pub unit: UnitKey,
    pub at: UnitOffset,
}

/// A parsed unit and the file it is in.
pub(crate) struct Parsed<'s> {
    pub file: FileIndex,
    pub dwarf: Arc<Dwarf<'s>>,
    pub unit: Unit<'s>,
}

impl<'s> Parsed<'s> {
    pub fn die(&self, at: UnitOffset) -> Die {
        Die {
            file: self.file,
            unit: UnitKey::of(&self.unit.header),
            at,
        }
    }

    pub fn string(&self, value: Value<'s>) -> Option<Reader<'s>> {
        self.dwarf.attr_string(&self.unit, value).ok()
    }

    pub fn is_fortran(&self) -> bool {
        is_fortran(language(&self.unit))
    }
}

pub(crate) fn language(unit: &Unit<'_>) -> Option<gimli::DwLang> {
    let mut entries = unit.entries();
    match entries.next_dfs().ok()??.attr_value(gimli::DW_AT_language)? {
        AttributeValue::Language(language) => Some(language),
        _ => None,
    }
}

pub(crate) fn is_fortran(language: Option<gimli::DwLang>) -> bool {
    use gimli::{DW_LANG_Fortran03, DW_LANG_Fortran08, DW_LANG_Fortran77, DW_LANG_Fortran90, DW_LANG_Fortran95};
    let all = [
        DW_LANG_Fortran03,
        DW_LANG_Fortran08,
        DW_LANG_Fortran77,
        DW_LANG_Fortran90,
        DW_LANG_Fortran95,
    ];
    language.is_some_and(|l| all.contains(&l))
}

pub(crate) struct Debug<'s> {
    search: Rc<Search<'s>>,
    /// Beside which split units are looked for.
    program: PathBuf,
    tls: Option<Tls>,
    own: Arc<Dwarf<'s>>,
    pub context: Context<Reader<'s>>,
    package: OnceCell<Option<gimli::DwarfPackage<Reader<'s>>>>,
    /// Split units, by id.
    splits: RefCell<HashMap<u64, Option<FileIndex>>>,
    split_files: RefCell<Vec<Arc<Dwarf<'s>>>>,
    /// Where units begin, in the own and the supplementary file.
    offsets: [OnceCell<Vec<usize>>; 2],
    /// Type units by their signature.
    signatures: OnceCell<HashMap<u64, UnitHeader<Reader<'s>>>>,
    recent: RefCell<Vec<Rc<Parsed<'s>>>>,
    /// Split units whose code was asked about, by id.
    split_units: RefCell<HashMap<u64, Option<Rc<Parsed<'s>>>>>,
    /// What is missing.
    pub reasons: RefCell<Vec<Reason>>,
}

/// The sections of one file.
fn load<'s>(elf: &Elf<'s>, kind: DwarfFileType) -> Result<Dwarf<'s>, Reason> {
    gimli::Dwarf::load(|id| {
        let name = match kind {
            DwarfFileType::Main => Some(id.name()),
            DwarfFileType::Dwo => id.dwo_name(),
        };
        let bytes = name.map_or(Ok(&[][..]), |name| elf.section(name))?;
        Ok(EndianSlice::new(bytes, LittleEndian))
    })
}

impl<'s> Debug<'s> {
    /// `elf` has the debug information of `program`, which may be itself.
    pub fn new(search: &Rc<Search<'s>>, program: &Elf<'s>, elf: &Elf<'s>) -> Result<Debug<'s>, Reason> {
        let mut own = load(elf, DwarfFileType::Main)?;
        let mut reasons = Vec::new();
        match search.supplementary(elf) {
            Some(Ok(sup)) => own.set_sup(load(&sup, DwarfFileType::Main)?),
            Some(Err(why)) => reasons.push(why),
            None => {}
        }
        let own = Arc::new(own);
        let context = Context::from_arc_dwarf(own.clone()).map_err(|e| Reason::Damaged {
            path: elf.path.clone(),
            what: e.to_string(),
        })?;
        Ok(Debug {
            search: search.clone(),
            program: program.path.clone(),
            tls: program.tls,
            own,
            context,
            package: OnceCell::new(),
            splits: RefCell::default(),
            split_files: RefCell::default(),
            offsets: Default::default(),
            signatures: OnceCell::new(),
            recent: RefCell::default(),
            split_units: RefCell::default(),
            reasons: RefCell::new(reasons),
        })
    }

    /// An offset in the thread-local block. In split units GCC gives the address in its template
    /// instead.
    pub fn in_tls(&self, value: u64) -> u64 {
        let inside = |tls: &Tls| {
            value
                .checked_sub(tls.vaddr)
                .filter(|&at| at < tls.memsz && value >= tls.memsz)
        };
        self.tls.as_ref().and_then(inside).unwrap_or(value)
    }

    /// Answers `addr2line`'s requests for split units until it is done.
    pub fn drive<L: LookupContinuation<Buf = Reader<'s>>>(&self, mut lookup: LookupResult<L>) -> L::Output {
        loop {
            match lookup {
                LookupResult::Output(output) => return output,
                LookupResult::Load { load, continuation } => lookup = continuation.resume(self.split(&load)),
            }
        }
    }

    fn split(&self, load: &SplitDwarfLoad<Reader<'s>>) -> Option<Arc<Dwarf<'s>>> {
        let dir = load.comp_dir.map_or(&[][..], |dir| dir.slice());
        let path = load.path.map_or(&[][..], |path| path.slice());
        self.dwarf(self.split_file(load.dwo_id, dir, path)?)
    }

    /// The file that a split unit is in.
    fn split_file(&self, id: gimli::DwoId, dir: &[u8], path: &[u8]) -> Option<FileIndex> {
        if let Some(known) = self.splits.borrow().get(&id.0) {
            return *known;
        }
        let found = match self.packed(id) {
            Some(dwarf) => Some(dwarf),
            None => self.unpacked(id, dir, path).map_err(|why| self.miss(why)).ok(),
        };
        let file = found.map(|dwarf| {
            let mut files = self.split_files.borrow_mut();
            files.push(Arc::new(dwarf));
            files.len() as FileIndex + SUPPLEMENTARY
        });
        self.splits.borrow_mut().insert(id.0, file);
        file
    }

    fn miss(&self, why: Reason) {
        const ENOUGH: usize = 64;
        let mut reasons = self.reasons.borrow_mut();
        if reasons.len() < ENOUGH && !reasons.contains(&why) {
            reasons.push(why);
        }
    }

    fn packed(&self, id: gimli::DwoId) -> Option<Dwarf<'s>> {
        let package = self.package.get_or_init(|| {
            let elf = self.search.package(&self.program)?;
            let section = |id: gimli::SectionId| -> Result<Reader<'s>, gimli::Error> {
                let bytes = id
                    .dwo_name()
                    .and_then(|name| elf.section(name).ok())
                    .unwrap_or_default();
                Ok(EndianSlice::new(bytes, LittleEndian))
            };
            gimli::DwarfPackage::load(section, EndianSlice::new(&[], LittleEndian)).ok()
        });
        package.as_ref()?.find_cu(id, &self.own).ok()?
    }

    fn unpacked(&self, id: gimli::DwoId, dir: &[u8], path: &[u8]) -> Result<Dwarf<'s>, Reason> {
        let elf = self.search.split(&self.program, dir, path)?;
        let mut dwarf = load(&elf, DwarfFileType::Dwo)?;
        dwarf.make_dwo(&self.own);
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if dwarf.unit(header).is_ok_and(|unit| unit.dwo_id == Some(id)) {
                return Ok(dwarf);
            }
        }
        Err(Reason::Damaged {
            path: elf.path.clone(),
            what: format!("it has no unit {:016x}", id.0),
        })
    }

    fn dwarf(&self, file: FileIndex) -> Option<Arc<Dwarf<'s>>> {
        match file {
            OWN => Some(self.own.clone()),
            SUPPLEMENTARY => self.own.sup.clone(),
            split => self
                .split_files
                .borrow()
                .get((split - SUPPLEMENTARY - 1) as usize)
                .cloned(),
        }
    }

    /// Every unit with code or variables, split ones in place of their skeletons.
    pub fn for_each_unit(&self, mut visit: impl FnMut(&Parsed<'s>)) {
        let mut headers = self.own.units();
        while let Ok(Some(header)) = headers.next() {
            if matches!(header.type_(), gimli::UnitType::Type { .. }) {
                continue;
            }
            let Ok(unit) = self.own.unit(header) else { continue };
            let skeleton = Parsed {
                file: OWN,
                dwarf: self.own.clone(),
                unit,
            };
            match skeleton.unit.dwo_id {
                Some(id) => {
                    let _ = self.split_of(&skeleton, id).map(|split| visit(&split));
                }
                None => visit(&skeleton),
            }
        }
    }

    fn split_of(&self, skeleton: &Parsed<'s>, id: gimli::DwoId) -> Option<Parsed<'s>> {
        let dir = skeleton.unit.comp_dir.map_or(&[][..], |dir| dir.slice());
        let name = skeleton
            .unit
            .dwo_name()
            .ok()?
            .and_then(|value| skeleton.string(value))?;
        let file = self.split_file(id, dir, name.slice())?;
        let dwarf = self.dwarf(file)?;
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Ok(mut unit) = dwarf.unit(header) else { continue };
            if unit.dwo_id == Some(id) {
                unit.copy_relocated_attributes(&skeleton.unit);
                return Some(Parsed { file, dwarf, unit });
            }
        }
        None
    }

    /// The unit an instruction is in.
    pub fn unit_at(&self, pc: u64) -> Option<Rc<Parsed<'s>>> {
        let unit = self.drive(self.context.find_dwarf_and_unit(pc))?.unit;
        let Some(id) = unit.dwo_id else {
            let (file, unit, at) = (OWN, UnitKey::of(&unit.header), UnitOffset(0));
            return self.unit_of(Die { file, unit, at });
        };
        if let Some(known) = self.split_units.borrow().get(&id.0) {
            return known.clone();
        }
        let mut found = None;
        let mut headers = self.own.units();
        while let (Ok(Some(header)), None) = (headers.next(), &found) {
            let Ok(unit) = self.own.unit(header) else { continue };
            if unit.dwo_id == Some(id) {
                let (file, dwarf) = (OWN, self.own.clone());
                found = self.split_of(&Parsed { file, dwarf, unit }, id).map(Rc::new);
            }
        }
        self.split_units.borrow_mut().insert(id.0, found.clone());
        found
    }

    /// The unit an entry is in.
    pub fn unit_of(&self, die: Die) -> Option<Rc<Parsed<'s>>> {
        const KEPT: usize = 8;
        let mut recent = self.recent.borrow_mut();
        let known = recent
            .iter()
            .position(|p| p.file == die.file && UnitKey::of(&p.unit.header) == die.unit);
        if let Some(index) = known {
            recent[..=index].rotate_right(1);
            return recent.first().cloned();
        }
        let dwarf = self.dwarf(die.file)?;
        let header = match die.unit.section {
            SectionId::DebugTypes => *self.signatures().values().find(|h| UnitKey::of(h) == die.unit)?,
            _ => {
                let offset = DebugInfoOffset(die.unit.offset);
                dwarf.debug_info.header_from_offset(offset).ok()?
            }
        };
        let unit = dwarf.unit(header).ok()?;
        let parsed = Rc::new(Parsed {
            file: die.file,
            dwarf,
            unit,
        });
        recent.truncate(KEPT - 1);
        recent.insert(0, parsed.clone());
        Some(parsed)
    }

    fn signatures(&self) -> &HashMap<u64, UnitHeader<Reader<'s>>> {
        self.signatures.get_or_init(|| {
            let mut found = HashMap::new();
            let mut take = |header: UnitHeader<Reader<'s>>| {
                if let gimli::UnitType::Type { type_signature, .. } = header.type_() {
                    found.insert(type_signature.0, header);
                }
            };
            let mut units = self.own.units();
            while let Ok(Some(header)) = units.next() {
                take(header);
            }
            let mut types = self.own.type_units();
            while let Ok(Some(header)) = types.next() {
                take(header);
            }
            found
        })
    }

    /// What an attribute of an entry in `from` refers to.
    pub fn follow(&self, from: &Parsed<'s>, value: Value<'s>) -> Option<Die> {
        match value {
            AttributeValue::UnitRef(at) => Some(from.die(at)),
            AttributeValue::DebugInfoRef(offset) => self.at_offset(from.file, offset),
            AttributeValue::DebugInfoRefSup(offset) => self.at_offset(SUPPLEMENTARY, offset),
            AttributeValue::DebugTypesRef(signature) => {
                let header = self.signatures().get(&signature.0)?;
                let gimli::UnitType::Type { type_offset, .. } = header.type_() else {
                    return None;
                };
                Some(Die {
                    file: OWN,
                    unit: UnitKey::of(header),
                    at: type_offset,
                })
            }
            _ => None,
        }
    }

    fn at_offset(&self, file: FileIndex, offset: DebugInfoOffset) -> Option<Die> {
        let dwarf = self.dwarf(file)?;
        let all = || {
            let (mut offsets, mut headers) = (Vec::new(), dwarf.units());
            while let Ok(Some(header)) = headers.next() {
                offsets.extend(header.debug_info_offset().map(|o| o.0));
            }
            offsets
        };
        let computed;
        let offsets = match self.offsets.get(file as usize) {
            Some(kept) => kept.get_or_init(all),
            None => {
                computed = all();
                &computed
            }
        };
        let index = offsets.partition_point(|&unit| unit <= offset.0).checked_sub(1)?;
        let unit = *offsets.get(index)?;
        Some(Die {
            file,
            unit: UnitKey {
                section: SectionId::DebugInfo,
                offset: unit,
            },
            at: UnitOffset(offset.0 - unit),
        })
    }
}

/// As text, whatever it is.
pub(crate) fn text(reader: Reader<'_>) -> String {
    reader.to_string_lossy().into_owned()
}
