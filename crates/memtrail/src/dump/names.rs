//! Names for code without looking at sources: module and offset.
use memtrail_collect::Message;
use memtrail_trace::Known;

/// A piece of code in memory.
struct Mapped {
    process: u32,
    addr: u64,
    end: u64,
    offset: u64,
    name: String,
}

/// All code that was ever mapped.
pub struct Names {
    /// The latest first.
    mapped: Vec<Mapped>,
}

impl Names {
    pub fn new(known: &Known) -> Names {
        let mapped = |(process, message): &(u32, Message)| match message {
            Message::Map {
                addr,
                len,
                offset,
                path,
                ..
            } => {
                let path = String::from_utf8_lossy(path);
                let name = path.rsplit('/').next().unwrap_or_default();
                (!name.is_empty()).then(|| Mapped {
                    process: *process,
                    addr: *addr,
                    end: addr.saturating_add(*len),
                    offset: *offset,
                    name: name.to_string(),
                })
            }
            _ => None,
        };
        let mut mapped: Vec<Mapped> = known.messages.iter().filter_map(mapped).collect();
        mapped.reverse();
        Names { mapped }
    }

    /// `module+offset` (an offset in the file), or the address if no module is there. A forked process has its parent's code.
    pub fn of(&self, process: u32, pc: u64) -> String {
        match self.place(Some(process), pc) {
            Some((module, offset)) => format!("{module}+{offset:#x}"),
            None => format!("{pc:#x}"),
        }
    }

    /// Module and offset in its file; as this process has it, if one is given and has any.
    pub fn place(&self, process: Option<u32>, pc: u64) -> Option<(&str, u64)> {
        let there = |m: &&Mapped| (m.addr..m.end).contains(&pc);
        let own = self.mapped.iter().filter(|m| Some(m.process) == process).find(there);
        let mapped = own.or_else(|| self.mapped.iter().find(there))?;
        Some((&mapped.name, pc - mapped.addr + mapped.offset))
    }
}
