//! A recording in memory.
use crate::group::Grouped;
use memtrail_decode::{Definition, Images, Message, Table};
use memtrail_ring::record::FIRST_BLOCK;
use memtrail_trace::{set, Ending, Error, Header, Known, Leaves, Ranks, Reader, ThreadHash, Totals, Writer, SETS};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Seek, Write};

pub use memtrail_decode::ImageId;

/// Why recordings cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error(transparent)]
    Trace(#[from] Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{path}: {source}")]
    Of { path: String, source: Box<MergeError> },
    #[error("it is not whole, and stays a recording of its own: memtrail info reads it")]
    NotWhole,
    #[error("they were recorded on processors that save their state differently")]
    OtherProcessor,
    #[error("rank {rank} is in both of them")]
    SameRank { rank: u32 },
    #[error("their blocks have more ids than a recording can have")]
    TooManyIds,
    #[error(transparent)]
    Block(#[from] memtrail_decode::DecodeError),
    #[error(transparent)]
    Files(#[from] memtrail_merge::DirectoryError),
}

/// Which images stand in the place of which, for the blocks that a rank has.
pub(crate) type Instance = HashMap<ImageId, ImageId>;

/// Everything that is in a recording.
#[derive(Debug)]
pub struct Whole {
    pub(crate) header: Header,
    /// Rank, processes and threads of each, in the order of their serials.
    pub(crate) ranks: Vec<(u32, u32, u32)>,
    /// All that was told but for blocks and their copies.
    pub(crate) messages: Vec<(u32, Message)>,
    /// Blocks of which others may be copies.
    pub(crate) blocks: Vec<Definition>,
    pub(crate) images: Images,
    /// Copies of the blocks; the first is the blocks themselves. [`Member::ids`] is a number here.
    ///
    /// [`Member::ids`]: memtrail_trace::Member::ids
    pub(crate) instances: Vec<Instance>,
    pub(crate) sets: Vec<Grouped>,
    pub(crate) totals: Totals,
    pub(crate) hashes: Option<Vec<ThreadHash>>,
}

impl Whole {
    /// Reads a recording. If it does not say which rank it is, it is rank `unless_said`.
    pub fn read<R: Read + Seek>(reader: &mut Reader<R>, unless_said: Option<u32>) -> Result<Whole, MergeError> {
        let known = Known::read(reader)?;
        let Ending::Complete(totals) = known.ending else {
            return Err(MergeError::NotWhole);
        };
        let mut whole = Whole {
            header: reader.header().clone(),
            ranks: Vec::new(),
            blocks: known.own_blocks().iter().map(|b| b.definition()).collect(),
            images: known.table.images().clone(),
            messages: Vec::new(),
            instances: vec![Instance::new()],
            sets: Vec::new(),
            totals,
            hashes: reader.hashes().map(<[ThreadHash]>::to_vec),
        };
        let mut instance_of = HashMap::from([(0, 0)]);
        for (process, message) in &known.messages {
            match message {
                Message::Relocated { ids, images } => {
                    instance_of.insert(*ids, whole.instances.len() as u32);
                    whole.instances.push(images.iter().copied().collect());
                }
                message => whole.messages.push((*process, message.clone())),
            }
        }
        whole.read_sets(reader, &known, &instance_of)?;
        whole.find_ranks(&known.ranks, unless_said);
        Ok(whole)
    }

    fn read_sets<R: Read + Seek>(
        &mut self,
        reader: &mut Reader<R>,
        known: &Known,
        instance_of: &HashMap<u32, u32>,
    ) -> Result<(), MergeError> {
        let mut chunks_of: BTreeMap<u32, u32> = BTreeMap::new();
        for chunk in &known.streams {
            let ordinal = chunks_of.entry(chunk.head.stream.thread).or_default();
            *ordinal += 1;
            if chunk.member.is_some_and(|m| m != 0) {
                continue;
            }
            let mut members = set(reader, known, chunk)?;
            for member in &mut members.members {
                let unknown = Error::Damaged {
                    at: chunk.at,
                    what: "a set refers to copies of blocks that nothing tells of",
                };
                member.ids = *instance_of.get(&member.ids).ok_or(unknown)?;
            }
            self.sets.push(Grouped::new(*ordinal, members));
        }
        Ok(())
    }

    fn find_ranks(&mut self, said: &Ranks, unless_said: Option<u32>) {
        let (processes, threads) = (self.next_process(), self.next_thread());
        let most = processes as usize + 1;
        self.ranks = said
            .iter(most)
            .map(|r| (r.rank, r.processes.min(processes), r.threads.min(threads)))
            .collect();
        if let (true, Some(rank)) = (self.ranks.is_empty(), unless_said) {
            self.ranks.push((rank, processes, threads));
        }
    }

    /// The first number that no process has.
    pub(crate) fn next_process(&self) -> u32 {
        let told = self.messages.iter().map(|(process, message)| match message {
            Message::Process { process: p, .. } => *process.max(p),
            _ => *process,
        });
        let members = self.members().map(|m| m.head.process);
        told.chain(members).max().map_or(0, |p| p.saturating_add(1))
    }

    /// The first number that no thread has.
    pub(crate) fn next_thread(&self) -> u32 {
        let told = self.messages.iter().filter_map(|(_, message)| match message {
            Message::Thread { thread, .. } => Some(*thread),
            _ => None,
        });
        let members = self.members().map(|m| m.head.thread);
        told.chain(members).max().map_or(0, |t| t.saturating_add(1))
    }

    fn members(&self) -> impl Iterator<Item = &memtrail_trace::Member> {
        self.sets.iter().flat_map(|s| s.members.members.iter())
    }

    /// The first number that no text has, and the first that no hook has.
    pub(crate) fn next_names(&self) -> (u32, u32) {
        let mut next = (0, 0);
        for (_, message) in &self.messages {
            match message {
                Message::Text { id, .. } => next.0 = next.0.max(id.saturating_add(1)),
                Message::Hook { id, .. } => next.1 = next.1.max(id.saturating_add(1)),
                _ => {}
            }
        }
        next
    }

    /// The first id that no block has.
    pub(crate) fn next_id(&self) -> u32 {
        let ends = self.blocks.iter().map(|b| b.id.saturating_add(b.plan.ids()));
        ends.max().unwrap_or(FIRST_BLOCK as u32)
    }

    /// The blocks, ready to be written, and the leaves that they are.
    pub(crate) fn table(&self) -> Result<(Table, Leaves), MergeError> {
        let mut table = Table::counting();
        for (_, message) in &self.messages {
            table.learn(message)?;
        }
        for block in &self.blocks {
            table.insert_definition(block.clone())?;
        }
        let mut leaves = Leaves::default();
        table.blocks().iter().for_each(|b| leaves.add(b));
        Ok((table, leaves))
    }

    /// Puts threads together that do the same.
    pub fn fold_threads(&mut self) -> Result<(), MergeError> {
        let (_, leaves) = self.table()?;
        let mut groups: Vec<Grouped> = Vec::new();
        for set in std::mem::take(&mut self.sets) {
            crate::group::add(&mut groups, set, &leaves);
        }
        self.sets = groups;
        Ok(())
    }

    /// Writes the recording. Returns the size of the file.
    pub fn write<W: Write>(&self, out: W) -> Result<(W, u64), MergeError> {
        let mut header = self.header.clone();
        header.features = vec![SETS.into()];
        header.ranks = Ranks::default();
        for &(rank, processes, threads) in &self.ranks {
            header.ranks.push(rank, processes, threads);
        }
        let mut writer = Writer::new(out, &header)?;
        for (process, message) in &self.messages {
            writer.message(*process, message)?;
        }
        let (table, leaves) = self.table()?;
        writer.blocks(table.blocks())?;
        writer.write_definitions()?;
        let step = self.next_id() - FIRST_BLOCK as u32;
        let ids = |instance: u32| instance.checked_mul(step).ok_or(MergeError::TooManyIds);
        for (i, instance) in self.instances.iter().enumerate().skip(1) {
            let mut images: Vec<(ImageId, ImageId)> = instance.iter().map(|(&a, &b)| (a, b)).collect();
            images.sort_unstable();
            let ids = ids(i as u32)?;
            writer.message(0, &Message::Relocated { ids, images })?;
        }
        let mut sets: Vec<&Grouped> = self.sets.iter().collect();
        sets.sort_by_key(|s| (s.ordinal, s.first_thread()));
        for set in sets {
            let mut members = set.members.clone();
            for member in &mut members.members {
                member.ids = ids(member.ids)?;
            }
            writer.set(members.raw_bytes(), &members.encode(&leaves))?;
        }
        Ok(writer.finish_verified(&self.totals, self.hashes.as_deref())?)
    }
}
