//! The object-relative memory trace of paper 004: what gets to memory behind the last cache, walks
//! and write-backs included, with where it is from.
//!
//! Caches are indexed by physical address here, and a reverse page table made of the updates of our
//! own page tables leads back to virtual ones, as it does for a trace that was snooped.
use crate::config::{PagingConfig, PagingError};
use crate::mmu::{Mmu, MmuOptions, PHYSICAL};
use crate::reverse::{Placed, ReverseTable};
use crate::tables::TableUpdate;
use memtrail_model::{Access, AccessSink, Event, Reply, Thread, Wants};
use memtrail_simulate::{Hierarchy, Options, Simulator};

/// One request to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRecord {
    /// The number of the access that caused it, from 0.
    pub time: u64,
    /// Of a line.
    pub paddr: u64,
    pub write: bool,
    /// The address space it belongs to.
    pub space: u32,
    /// Of a walk: the address that is translated.
    pub vaddr: u64,
    /// The reference point that asked for it; of a write-back, the one that brought the line in.
    pub point: u32,
    /// It reads a page table.
    pub walk: bool,
}

/// What a trace is made of, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryEvent {
    Update(TableUpdate),
    Request(MemoryRecord),
}

/// Makes a memory trace of accesses.
#[derive(Debug)]
pub struct MemoryTrace<F> {
    mmu: Mmu<Simulator>,
    reverse: ReverseTable,
    time: u64,
    spaces: Vec<u32>,
    emit: F,
    events: Vec<MemoryEvent>,
}

#[derive(Debug, thiserror::Error)]
pub enum MemoryTraceError {
    #[error(transparent)]
    Caches(#[from] memtrail_simulate::ConfigError),
    #[error(transparent)]
    Tlbs(#[from] PagingError),
}

impl<F: FnMut(&MemoryEvent)> MemoryTrace<F> {
    pub fn new(
        tlbs: &PagingConfig,
        caches: &Hierarchy,
        options: MmuOptions,
        emit: F,
    ) -> Result<MemoryTrace<F>, MemoryTraceError> {
        let memory = Options {
            memory: true,
            ..Options::default()
        };
        let physical = MmuOptions {
            physical: true,
            ..options
        };
        let mut mmu = Mmu::new(tlbs, physical, Simulator::new(caches, memory)?)?;
        mmu.tables().updates = Some(Vec::new());
        Ok(MemoryTrace {
            mmu,
            reverse: ReverseTable::default(),
            time: 0,
            spaces: Vec::new(),
            emit,
            events: Vec::new(),
        })
    }

    /// Writes back what is dirty at the end.
    pub fn flush(&mut self) {
        self.mmu.sink().flush();
        self.drain(None);
    }

    fn space(&self, thread: Thread) -> u32 {
        self.spaces.get(thread.0 as usize).copied().unwrap_or(0)
    }

    /// What came of an access, or of something else.
    fn drain(&mut self, access: Option<(u32, &Access)>) {
        for update in self
            .mmu
            .tables()
            .updates
            .iter_mut()
            .flat_map(|updates| updates.drain(..))
        {
            self.reverse.update(&update);
            self.events.push(MemoryEvent::Update(update));
        }
        for request in self.mmu.sink().memory_requests() {
            let (paddr, point) = (request.addr & !PHYSICAL, request.point / 2);
            let asking = access.map(|(space, _)| space);
            let (space, vaddr, walk) = match (self.reverse.find(paddr, asking), access) {
                (Some(Placed::Table { .. }), Some((space, access))) => (space, access.addr, true),
                (Some(Placed::Table { space, vaddr }), None) => (space, vaddr, true),
                (Some(Placed::Data { space, vaddr }), _) => (space, vaddr, false),
                // Every frame that is used was told of.
                (None, _) => (asking.unwrap_or(0), 0, false),
            };
            self.events.push(MemoryEvent::Request(MemoryRecord {
                time: self.time,
                paddr,
                write: request.write,
                space,
                vaddr,
                point,
                walk,
            }));
        }
        self.events.drain(..).for_each(|event| (self.emit)(&event));
    }
}

impl<F: FnMut(&MemoryEvent)> AccessSink for MemoryTrace<F> {
    fn accesses(&mut self, batch: &[Access]) {
        for access in batch {
            let space = self.space(access.thread);
            self.mmu.accesses(std::slice::from_ref(access));
            self.drain(Some((space, access)));
            self.time += 1;
        }
    }

    fn wants(&self) -> Wants {
        Wants {
            notes: true,
            ..Wants::default()
        }
    }

    fn event(&mut self, event: Event<'_>) -> Reply {
        if let Event::Space { thread, space } = event {
            let at = thread.0 as usize;
            if self.spaces.len() <= at {
                self.spaces.resize(at + 1, 0);
            }
            self.spaces[at] = space;
        }
        self.mmu.event(event);
        self.drain(None);
        Reply::NOTHING
    }
}
