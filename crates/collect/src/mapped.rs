//! What is mapped where in each process: which image the code of a block lies in.
//!
//! **Problem.** A block comes with its address. Which code that is depends on the process it comes
//! from, and on when it came: the process may have had something else there before, and may be
//! another program by now.
//!
//! **Idea.** A process tells of a mapping before it tells of a block in it, in one and the same
//! sequence, also after a fork; so what was mapped last over an address, when the block is told of,
//! is what it lies in. Modules and images are numbered as they are met.
//!
//! **Which module.** Files with a build id are the same if path and build id are. A file without is
//! the same as long as it was not changed. What is of no file, or of a file that only lives in
//! memory, is generated code; it belongs to the program that a process runs: from its exec, or the
//! beginning, on, forked processes included.
use crate::build_id::build_id;
use crate::hooks::{version, Mapping, Version};
use memtrail_decode::{Image, ImageId, Message, Module};
use std::collections::{BTreeMap, HashMap};

/// Code of the kernel: no file, but the same in all processes.
const VDSO: &[u8] = b"[vdso]";

/// What makes a module.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Identity {
    File {
        path: Vec<u8>,
        build_id: Option<Vec<u8>>,
        /// Only without a build id.
        version: Option<Version>,
    },
    Generated {
        path: Vec<u8>,
        program: u32,
    },
}

/// A process.
#[derive(Debug, Default)]
struct Space {
    /// The number of the program it runs.
    program: u32,
    /// By first address: the first address behind, and the image. These do not overlap.
    ranges: BTreeMap<u64, (u64, ImageId)>,
}

impl Space {
    /// Maps something over what was there.
    fn map(&mut self, begin: u64, end: u64, image: ImageId) {
        while let Some((&at, &(old_end, old))) = self.ranges.range(..end).next_back().filter(|(_, r)| r.0 > begin) {
            self.ranges.remove(&at);
            if old_end > end {
                self.ranges.insert(end, (old_end, old));
            }
            if at < begin {
                self.ranges.insert(at, (begin, old));
            }
        }
        if begin < end {
            self.ranges.insert(begin, (end, image));
        }
    }
}

/// All processes, modules and images.
#[derive(Debug, Default)]
pub(crate) struct Mapped {
    spaces: HashMap<u32, Space>,
    programs: u32,
    modules: HashMap<Identity, u32>,
    images: HashMap<Image, ImageId>,
    build_ids: HashMap<Version, Option<Vec<u8>>>,
}

impl Mapped {
    /// A process begins; it is a copy of `parent`, or runs a program of its own.
    pub fn begins(&mut self, process: u32, parent: Option<u32>) {
        let inherited = parent
            .and_then(|parent| self.spaces.get(&parent))
            .map(|space| space.program);
        let program = inherited.unwrap_or_else(|| {
            self.programs += 1;
            self.programs
        });
        let ranges = BTreeMap::new();
        self.spaces.insert(process, Space { program, ranges });
    }

    /// A process told of a mapping. Returns what is to be said of the module and the image, if they
    /// are new.
    pub fn map(&mut self, process: u32, mapping: &Mapping<'_>) -> Vec<Message> {
        let mut messages = Vec::new();
        let program = self.spaces.entry(process).or_default().program;
        let identity = self.identity(program, mapping);
        let next = self.modules.len() as u32;
        let module = *self.modules.entry(identity.clone()).or_insert(next);
        if module == next {
            messages.push(Message::Module(match identity {
                Identity::File { path, build_id, .. } => Module {
                    path,
                    build_id,
                    generated: false,
                },
                Identity::Generated { path, .. } => Module {
                    path,
                    build_id: None,
                    generated: true,
                },
            }));
        }
        let image = Image {
            module,
            base: match mapping.path.starts_with(b"/") || mapping.path == VDSO {
                true => mapping.addr.wrapping_sub(mapping.offset),
                false => 0,
            },
        };
        let next = ImageId(self.images.len() as u32 + 1);
        let id = *self.images.entry(image).or_insert(next);
        if id == next {
            messages.push(Message::Image(image));
        }
        let end = mapping.addr.saturating_add(mapping.len);
        self.spaces.entry(process).or_default().map(mapping.addr, end, id);
        messages
    }

    fn identity(&mut self, program: u32, mapping: &Mapping<'_>) -> Identity {
        let path = mapping.path.to_vec();
        if path != VDSO && (!path.starts_with(b"/") || path.starts_with(b"/memfd:")) {
            // Where it lies in memory is all there is to know; names of areas say nothing of what
            // is in them.
            return Identity::Generated {
                path: if path.starts_with(b"/") { path } else { Vec::new() },
                program,
            };
        }
        // What is no file any more, or a fifo, has no build id.
        let found = mapping.files().into_iter().find_map(|file| {
            let meta = file.metadata().ok().filter(|meta| meta.is_file())?;
            Some((file, version(&meta)))
        });
        let build_id = found.as_ref().and_then(|(file, version)| {
            let read = || build_id(file);
            self.build_ids.entry(*version).or_insert_with(read).clone()
        });
        Identity::File {
            version: found.map(|(_, version)| version).filter(|_| build_id.is_none()),
            path,
            build_id,
        }
    }

    /// The image of what a process has at an address.
    pub fn image(&self, process: u32, pc: u64) -> ImageId {
        let ranges = self.spaces.get(&process).map(|space| &space.ranges);
        let range = ranges.and_then(|ranges| ranges.range(..=pc).next_back());
        range.filter(|(_, r)| pc < r.0).map_or(ImageId::UNKNOWN, |(_, r)| r.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn mapping(addr: u64, len: u64, offset: u64, path: &str) -> Mapping<'_> {
        Mapping {
            pid: std::process::id(),
            addr,
            len,
            offset,
            path: path.as_bytes(),
        }
    }

    /// Modules and images that are told of, as texts.
    fn told(messages: &[Message]) -> Vec<String> {
        let one = |message: &Message| match message {
            Message::Module(module) => format!("{} {}", String::from_utf8_lossy(&module.path), module.generated),
            Message::Image(image) => format!("{} at {:#x}", image.module, image.base),
            other => panic!("{other:?}"),
        };
        messages.iter().map(one).collect()
    }

    #[test]
    fn an_exec_puts_another_module_at_the_same_address() {
        let mut mapped = Mapped::default();
        mapped.begins(0, None);
        let first = mapped.map(0, &mapping(0x40_1000, 0x1000, 0x1000, "/no/such/a"));
        assert_eq!(told(&first), ["/no/such/a false", "0 at 0x400000"]);
        assert_eq!(mapped.image(0, 0x40_1fff), ImageId(1));
        assert_eq!(mapped.image(0, 0x40_2000), ImageId::UNKNOWN);
        mapped.begins(0, None);
        assert_eq!(mapped.image(0, 0x40_1000), ImageId::UNKNOWN);
        let second = mapped.map(0, &mapping(0x40_1000, 0x1000, 0x1000, "/no/such/b"));
        assert_eq!(told(&second), ["/no/such/b false", "1 at 0x400000"]);
        assert_eq!(mapped.image(0, 0x40_1000), ImageId(2));
    }

    #[test]
    fn a_library_elsewhere_is_another_image_of_the_same_module() {
        let mut mapped = Mapped::default();
        mapped.begins(0, None);
        mapped.begins(1, None);
        mapped.map(0, &mapping(0x7000, 0x1000, 0, "/no/such/c"));
        assert_eq!(
            told(&mapped.map(1, &mapping(0x9000, 0x1000, 0, "/no/such/c"))),
            ["0 at 0x9000"]
        );
        assert_eq!(mapped.map(1, &mapping(0x7000, 0x1000, 0, "/no/such/c")), []);
        assert_eq!(mapped.image(1, 0x7000), mapped.image(0, 0x7000));
    }

    #[test]
    fn a_file_that_was_built_again_is_another_module() {
        let directory = std::env::temp_dir().join(format!("memtrail-mapped-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("program");
        let name = path.to_str().unwrap();
        let mut mapped = Mapped::default();
        mapped.begins(0, None);
        fs::write(&path, "one").unwrap();
        assert_eq!(mapped.map(0, &mapping(0x1000, 0x1000, 0, name)).len(), 2);
        assert_eq!(mapped.map(0, &mapping(0x1000, 0x1000, 0, name)).len(), 0);
        fs::write(&path, "another").unwrap();
        assert_eq!(mapped.map(0, &mapping(0x1000, 0x1000, 0, name)).len(), 2);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn generated_code_is_of_the_program_and_its_forks() {
        let mut mapped = Mapped::default();
        mapped.begins(0, None);
        assert_eq!(
            told(&mapped.map(0, &mapping(0x5000, 0x1000, 0, ""))),
            [" true", "0 at 0x0"]
        );
        mapped.begins(1, Some(0));
        assert_eq!(mapped.map(1, &mapping(0x5000, 0x1000, 0, "")), []);
        assert_eq!(mapped.map(1, &mapping(0x8000, 0x1000, 0, "[heap]")), []);
        mapped.begins(1, None);
        assert_eq!(
            told(&mapped.map(1, &mapping(0x5000, 0x1000, 0, ""))),
            [" true", "1 at 0x0"]
        );
        let shared = mapped.map(1, &mapping(0x6000, 0x1000, 0x3000, "/memfd:jit (deleted)"));
        assert_eq!(told(&shared), ["/memfd:jit (deleted) true", "2 at 0x3000"]);
    }

    #[test]
    fn the_latest_mapping_covers_what_was_there() {
        let mut mapped = Mapped::default();
        mapped.begins(0, None);
        mapped.map(0, &mapping(0x1000, 0x4000, 0, "/no/such/old"));
        mapped.map(0, &mapping(0x2000, 0x1000, 0, "/no/such/new"));
        let images = [0x1fff, 0x2000, 0x2fff, 0x3000, 0x4fff, 0x5000].map(|pc| mapped.image(0, pc).0);
        assert_eq!(images, [1, 2, 2, 1, 1, 0]);
        mapped.map(0, &mapping(u64::MAX - 1, 5, 7, "/no/such/end"));
        assert_eq!(mapped.image(0, u64::MAX - 1), ImageId(3));
        mapped.map(0, &mapping(0x2000, 0, 0, "/no/such/empty"));
        assert_eq!(mapped.image(0, 0x2000), ImageId(2));
    }
}
