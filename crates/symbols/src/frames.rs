//! Where the frame of a function is, at each of its instructions.
//!
//! **Idea.** The *canonical frame address* (CFA) is the value of the stack pointer before the call,
//! and stays the same throughout it. The unwind tables tell, for each instruction, by which
//! register it is found. They also tell where functions begin and end, even if nothing else does.
use crate::debug::Reader;
use crate::elf::Elf;
use gimli::{BaseAddresses, Reader as _, UnwindSection};
use std::ops::Range;

/// Numbers of registers as DWARF counts them.
pub const RBP: u16 = 6;
pub const RSP: u16 = 7;

/// The CFA is what a register holds, and `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cfa {
    pub register: u16,
    pub offset: i64,
}

/// Unwind tables, by the code they are of.
pub(crate) struct Unwind<'s> {
    section: Tables<'s>,
    bases: BaseAddresses,
    /// First address, first address behind, where in the section.
    index: Vec<(u64, u64, usize)>,
}

enum Tables<'s> {
    Eh(gimli::EhFrame<Reader<'s>>),
    Debug(gimli::DebugFrame<Reader<'s>>),
}

fn index<'s, S: UnwindSection<Reader<'s>>>(section: &S, bases: &BaseAddresses) -> Vec<(u64, u64, usize)>
where
    S::Offset: gimli::UnwindOffset<usize>,
{
    let mut found = Vec::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(S::cie_from_offset) else {
            continue;
        };
        if fde.len() > 0 {
            found.push((fde.initial_address(), fde.end_address(), fde.offset()));
        }
    }
    found.sort_unstable();
    found
}

fn rule<'s, S: UnwindSection<Reader<'s>>>(section: &S, bases: &BaseAddresses, at: usize, pc: u64) -> Option<Cfa>
where
    S::Offset: gimli::UnwindOffset<usize>,
{
    let fde = section.fde_from_offset(bases, at.into(), S::cie_from_offset).ok()?;
    let mut context = gimli::UnwindContext::new();
    let row = fde.unwind_info_for_address(section, bases, &mut context, pc).ok()?;
    match row.cfa() {
        gimli::CfaRule::RegisterAndOffset { register, offset } => Some(Cfa {
            register: register.0,
            offset: *offset,
        }),
        gimli::CfaRule::Expression(_) => None,
    }
}

impl<'s> Unwind<'s> {
    /// `debug`: the file with debug information, which may have tables that the program lacks.
    pub fn new(elf: &Elf<'s>, debug: Option<&Elf<'s>>) -> Unwind<'s> {
        let read = |elf: &Elf<'s>, name| Reader::new(elf.section(name).unwrap_or_default(), gimli::LittleEndian);
        let eh = read(elf, ".eh_frame");
        let at = |name| elf.address_of(name).unwrap_or(0);
        let bases = BaseAddresses::default()
            .set_eh_frame(at(".eh_frame"))
            .set_text(at(".text"));
        if !eh.is_empty() {
            let section = gimli::EhFrame::from(eh);
            let index = index(&section, &bases);
            let section = Tables::Eh(section);
            return Unwind { section, bases, index };
        }
        let section = gimli::DebugFrame::from(read(debug.unwrap_or(elf), ".debug_frame"));
        let index = index(&section, &bases);
        let section = Tables::Debug(section);
        Unwind { section, bases, index }
    }

    fn find(&self, pc: u64) -> Option<(u64, u64, usize)> {
        let index = self.index.partition_point(|&(begin, ..)| begin <= pc).checked_sub(1)?;
        self.index.get(index).copied().filter(|&(_, end, _)| pc < end)
    }

    /// The function, or the part of one, around an instruction.
    pub fn range(&self, pc: u64) -> Option<Range<u64>> {
        self.find(pc).map(|(begin, end, _)| begin..end)
    }

    pub fn cfa(&self, pc: u64) -> Option<Cfa> {
        let (_, _, at) = self.find(pc)?;
        match &self.section {
            Tables::Eh(section) => rule(section, &self.bases, at, pc),
            Tables::Debug(section) => rule(section, &self.bases, at, pc),
        }
    }
}
