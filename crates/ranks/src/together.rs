//! Two recordings as one.
use crate::group;
use crate::names::Numbers;
use crate::whole::{ImageId, Instance, MergeError, Whole};
use memtrail_decode::{Definition, Images, Message, Module};
use memtrail_merge::Mapped;
use memtrail_trace::Members;
use std::collections::HashMap;

impl Whole {
    /// Adds the ranks of another recording behind those of this one.
    pub fn unite(mut self, mut other: Whole) -> Result<Whole, MergeError> {
        let (ours, theirs) = (&self.header, &other.header);
        if (ours.xcr0, &ours.xsave) != (theirs.xcr0, &theirs.xsave) {
            return Err(MergeError::OtherProcessor);
        }
        if let Some(&(rank, ..)) = self.ranks.iter().find(|r| other.ranks.iter().any(|o| o.0 == r.0)) {
            return Err(MergeError::SameRank { rank });
        }
        let first_image = count_images(&self.messages);
        let mut numbers = Numbers {
            hooks: self.next_names().1,
            processes: self.next_process(),
            threads: self.next_thread(),
            ..Numbers::default()
        };
        self.take_messages(&mut other, &mut numbers, first_image)?;
        let like = self.images_alike(first_image);
        let sides = Sides { first_image, like };
        let copies: Vec<Copies> = other.instances.iter().map(|i| sides.copies(i, &other.images)).collect();
        numbers.heads = self.take_blocks(&other.blocks, &sides, &copies)?;
        let instances = copies
            .into_iter()
            .map(|c| self.instance(c.of_ours))
            .collect::<Result<Vec<u32>, _>>()?;
        let (_, leaves) = self.table()?;
        for set in other.sets {
            let mut members = set.members.members;
            for member in &mut members {
                member.head.thread += numbers.threads;
                member.head.process += numbers.processes;
                member.ids = instances[member.ids as usize];
                member.state = std::mem::take(&mut member.state).renamed(|key| numbers.key(key));
            }
            let set_of = set.members.set.mapped(&numbers);
            let renamed = Members { members, set: set_of };
            group::add(&mut self.sets, group::Grouped::new(set.ordinal, renamed), &leaves);
        }
        self.ranks.extend(other.ranks);
        self.add_totals(&other.totals);
        self.hashes = self.hashes.zip(other.hashes).map(|(mut ours, theirs)| {
            let renumbered = theirs.into_iter().map(|mut hash| {
                hash.thread += numbers.threads;
                hash
            });
            ours.extend(renumbered);
            ours
        });
        Ok(self)
    }

    /// Adds what the other's processes told, with new numbers.
    fn take_messages(&mut self, other: &mut Whole, numbers: &mut Numbers, first_image: u32) -> Result<(), MergeError> {
        let mut next_text = self.next_names().0;
        let mut texts: HashMap<Vec<u8>, u32> = HashMap::new();
        for (_, message) in &self.messages {
            if let Message::Text { id, text } = message {
                texts.entry(text.clone()).or_insert(*id);
            }
        }
        let mut modules: Vec<u32> = Vec::new();
        let mut known: HashMap<Module, u32> = HashMap::new();
        for (i, module) in self.images.modules().iter().enumerate() {
            known.entry(module.clone()).or_insert(i as u32);
        }
        debug_assert_eq!(count_images(&self.messages), first_image);
        for (process, mut message) in std::mem::take(&mut other.messages) {
            match &mut message {
                Message::Process { process, parent, .. } => {
                    *process += numbers.processes;
                    *parent = parent.checked_add(1).map_or(u32::MAX, |_| *parent + numbers.processes);
                }
                Message::Thread { thread, .. } | Message::ThreadEnd { thread, .. } => *thread += numbers.threads,
                Message::Text { id, text } => {
                    let new = *texts.entry(text.clone()).or_insert(next_text);
                    numbers.texts.insert(*id, new);
                    *id = new;
                    if new != next_text {
                        continue;
                    }
                    next_text += 1;
                }
                Message::Hook { id, text, .. } => {
                    *id = id.wrapping_add(numbers.hooks);
                    *text = numbers.texts.get(text).copied().unwrap_or(*text);
                }
                Message::Module(module) => {
                    if let Some(&number) = known.get(module) {
                        modules.push(number);
                        continue;
                    }
                    let number = self.images.modules().len() as u32;
                    known.insert(module.clone(), number);
                    modules.push(number);
                }
                Message::Image(image) => {
                    let missing = || memtrail_decode::DecodeError::UnknownModule {
                        module: image.module,
                        modules: modules.len(),
                    };
                    image.module = *modules.get(image.module as usize).ok_or_else(missing)?;
                }
                _ => {}
            }
            self.images.learn(&message)?;
            self.messages.push((process + numbers.processes, message));
        }
        Ok(())
    }

    /// For each of the other's images, the one of ours that it takes the place of: the one of the same
    /// module, by its place among those.
    fn images_alike(&self, first_image: u32) -> HashMap<ImageId, ImageId> {
        let mut ours: HashMap<u32, Vec<ImageId>> = HashMap::new();
        let mut used: HashMap<u32, usize> = HashMap::new();
        let mut alike = HashMap::new();
        let images = self.messages.iter().filter_map(|(_, message)| match message {
            Message::Image(image) => Some(image.module),
            _ => None,
        });
        for (i, module) in images.enumerate() {
            let id = ImageId(i as u32 + 1);
            let of_module = ours.entry(module).or_default();
            if (i as u32) < first_image {
                of_module.push(id);
                continue;
            }
            let place = used.entry(module).or_default();
            if let Some(&own) = of_module.get(*place) {
                alike.insert(id, own);
            }
            *place += 1;
        }
        alike
    }

    /// Adds the other's blocks that are none of ours. For each head of theirs the one it gets.
    fn take_blocks(
        &mut self,
        theirs: &[Definition],
        sides: &Sides,
        copies: &[Copies],
    ) -> Result<HashMap<u32, u32>, MergeError> {
        let mut next = self.next_id();
        let mut ours: HashMap<Vec<u64>, Vec<usize>> = HashMap::new();
        for (i, block) in self.blocks.iter().enumerate() {
            ours.entry(code_starts(&self.images, block)?).or_default().push(i);
        }
        let mut heads = HashMap::new();
        for block in theirs {
            let mut block = block.clone();
            block
                .images
                .iter_mut()
                .for_each(|image| *image = sides.renumbered(*image));
            // Where it would stand if its images were ours, if all copies of that are what they are.
            let here = block.relocated(&self.images, |image| sides.ours(image))?;
            let mut canonical = block;
            if let Some(here) = here {
                if self.copies_agree(&here, &canonical, copies)? {
                    canonical = here;
                }
            }
            let places = ours.entry(code_starts(&self.images, &canonical)?).or_default();
            let same = |&&i: &&usize| {
                Definition {
                    id: canonical.id,
                    ..self.blocks[i].clone()
                } == canonical
            };
            let id = match places.iter().find(same) {
                Some(&i) => self.blocks[i].id,
                None => {
                    places.push(self.blocks.len());
                    let id = next;
                    let ids = canonical.plan.ids();
                    next = next.checked_add(ids).ok_or(MergeError::TooManyIds)?;
                    self.blocks.push(Definition {
                        id,
                        ..canonical.clone()
                    });
                    id
                }
            };
            heads.extend((0..canonical.plan.ids()).map(|n| (canonical.id + n, id + n)));
        }
        Ok(heads)
    }

    /// Whether each copy of a block of ours is the copy of theirs.
    fn copies_agree(&self, ours: &Definition, theirs: &Definition, copies: &[Copies]) -> Result<bool, MergeError> {
        for copy in copies {
            let there = theirs.relocated(&self.images, |image| found(&copy.of_theirs, image))?;
            let here = ours.relocated(&self.images, |image| found(&copy.of_ours, image))?;
            if there.is_some() && here != there {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The number of an instance. One that has all images where they are is the first.
    fn instance(&mut self, instance: Instance) -> Result<u32, MergeError> {
        let mut moves = false;
        for (&from, &to) in &instance {
            moves |= self.images.get(from)? != self.images.get(to)?;
        }
        if !moves {
            return Ok(0);
        }
        self.instances.push(instance);
        Ok(self.instances.len() as u32 - 1)
    }

    fn add_totals(&mut self, other: &memtrail_trace::Totals) {
        let t = &mut self.totals;
        t.accesses += other.accesses;
        t.reads += other.reads;
        t.writes += other.writes;
        t.prefetches += other.prefetches;
        t.bytes += other.bytes;
        t.instructions += other.instructions;
        t.blocks += other.blocks;
        t.threads += other.threads;
        t.processes += other.processes;
        t.ring_words += other.ring_words;
        t.lost_tail += other.lost_tail;
        t.gaps += other.gaps;
        // The first that failed, as those who start jobs report it.
        t.exit_status = match (t.exit_status, other.exit_status) {
            (Some(0), other) => other,
            (own, _) => own,
        };
    }
}

fn count_images(messages: &[(u32, Message)]) -> u32 {
    messages.iter().filter(|(_, m)| matches!(m, Message::Image(_))).count() as u32
}

/// The code addresses that a block's pieces begin at.
fn code_starts(images: &Images, block: &Definition) -> Result<Vec<u64>, MergeError> {
    let pieces = block.plan.pieces.iter().map(|p| p.pc);
    let starts = std::iter::once(block.plan.pc).chain(pieces).zip(&block.images);
    let starts = starts.map(|(pc, &image)| images.code_address(image, pc));
    Ok(starts.collect::<Result<_, _>>()?)
}

/// The images of two recordings in one numbering: theirs come behind ours.
struct Sides {
    first_image: u32,
    /// Of theirs, the one of ours in whose place it is.
    like: HashMap<ImageId, ImageId>,
}

impl Sides {
    fn renumbered(&self, theirs: ImageId) -> ImageId {
        match theirs {
            ImageId::UNKNOWN => theirs,
            ImageId(number) => ImageId(number + self.first_image),
        }
    }

    /// The image of ours that one of theirs takes the place of.
    fn ours(&self, image: ImageId) -> Option<ImageId> {
        found(&self.like, image)
    }

    /// Where an instance of theirs has the images of their blocks, and of ours that theirs are like.
    fn copies(&self, theirs: &Instance, images: &Images) -> Copies {
        let mut copies = Copies::default();
        for image in (1..=images.count() as u32).map(ImageId) {
            // The first instance is the blocks themselves.
            let to = match theirs.is_empty() {
                true => Some(image),
                false => theirs.get(&image).copied(),
            };
            let Some(to) = to.map(|to| self.renumbered(to)) else {
                continue;
            };
            let image = self.renumbered(image);
            copies.of_theirs.insert(image, to);
            copies.of_ours.insert(image, to);
        }
        for (image, own) in &self.like {
            if let Some(&to) = copies.of_theirs.get(image) {
                copies.of_ours.insert(*own, to);
            }
        }
        copies
    }
}

/// Where a rank of theirs has the images of blocks.
#[derive(Default)]
struct Copies {
    of_theirs: Instance,
    /// With those of ours that theirs are like.
    of_ours: Instance,
}

fn found(images: &Instance, image: ImageId) -> Option<ImageId> {
    match image {
        ImageId::UNKNOWN => Some(image),
        image => images.get(&image).copied(),
    }
}
