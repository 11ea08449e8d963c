//! Where code comes from: modules, images of them, and code addresses.
//!
//! **Problem.** An address says nothing about which code it is: after an exec, in another process,
//! or where code was unloaded or generated anew, other instructions stand there; and a library
//! stands at another address in every process.
//!
//! **Idea.** Code is identified by its *module* (a file, with its build id) and the offset in it. A
//! module in memory is an *image*: whoever collects knows the process of every block and what is
//! mapped in it at that moment, and says of each piece of a block which image it lies in. Code that
//! is of no file belongs to a *generated* module, one for each program that a process runs.
//!
//! A *code address* is a module and an offset in one number, so that whatever compares, sorts or
//! cuts addresses (points, call sites, loops) works with code addresses as it would with others.
//! The upper 16 bits are the number of the module and 1, the lower 48 the offset; in generated
//! modules that is the address. Code of no known image, such as that of imported traces, has its
//! address.
//!
//! **Invariants.** Code addresses of one module keep distances. Two modules have none in common, as
//! long as there are no more than [`MOST_MODULES`]; those beyond share one number.
use crate::{DecodeError, Message};
use std::fmt;

/// The number of an image; [`ImageId::UNKNOWN`] if it is not known where code comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct ImageId(pub u32);

impl ImageId {
    pub const UNKNOWN: ImageId = ImageId(0);
}

/// Modules that code addresses tell apart. The uppermost numbers are left to whoever needs
/// something that is no code address.
pub const MOST_MODULES: usize = 0xfffd;

const OFFSET_BITS: u32 = 48;
const OFFSET: u64 = (1 << OFFSET_BITS) - 1;

/// What code comes from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Module {
    /// As the target's kernel names it; empty if it is no file.
    pub path: Vec<u8>,
    /// The GNU build id; `None` if the file has none or could not be read.
    pub build_id: Option<Vec<u8>>,
    /// Its code was made by the program: only its bytes tell which code it is.
    pub generated: bool,
}

impl Module {
    /// The path's last part.
    pub fn name(&self) -> String {
        let name = self.path.rsplit(|&b| b == b'/').next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }
}

/// A module in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Image {
    /// Index into [`Images::modules`].
    pub module: u32,
    /// Where the module's first byte is, or would be if it were mapped whole, modulo 2^64; 0 in
    /// generated modules.
    pub base: u64,
}

/// Where an instruction comes from. Displayed as `libc.so.6+0x9a3b0`, or as its address if it is of
/// no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'i> {
    /// `None` if that is not known.
    pub module: Option<&'i Module>,
    /// In the file; the address, if it is of none.
    pub offset: u64,
}

impl<'i> Place<'i> {
    /// The module, if it is a file.
    pub fn file(&self) -> Option<&'i Module> {
        self.module.filter(|module| !module.path.is_empty())
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.file() {
            Some(module) => write!(f, "{}+{:#x}", module.name(), self.offset),
            None => write!(f, "{:#x}", self.offset),
        }
    }
}

/// All modules and images of a recording.
#[derive(Clone, Debug, Default)]
pub struct Images {
    modules: Vec<Module>,
    /// The first has number 1.
    images: Vec<Image>,
}

impl Images {
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The number of images.
    pub fn count(&self) -> usize {
        self.images.len()
    }

    /// Takes what is said of modules and images, in order: each has the next number.
    pub fn learn(&mut self, message: &Message) -> Result<(), DecodeError> {
        match message {
            Message::Module(module) => self.modules.push(module.clone()),
            Message::Image(image) => {
                let modules = self.modules.len();
                if image.module as usize >= modules {
                    let module = image.module;
                    return Err(DecodeError::UnknownModule { module, modules });
                }
                self.images.push(*image);
            }
            _ => {}
        }
        Ok(())
    }

    /// An image; an error if it has not been told of. `None` if it is not known where code comes
    /// from.
    pub fn get(&self, id: ImageId) -> Result<Option<&Image>, DecodeError> {
        let Some(index) = (id.0 as usize).checked_sub(1) else {
            return Ok(None);
        };
        let images = self.images.len();
        let unknown = DecodeError::UnknownImage { image: id.0, images };
        self.images.get(index).map(Some).ok_or(unknown)
    }

    /// The code address of an address in an image.
    pub fn code_address(&self, id: ImageId, pc: u64) -> Result<u64, DecodeError> {
        let Some(image) = self.get(id)? else { return Ok(pc) };
        let number = (image.module as usize).min(MOST_MODULES - 1) as u64 + 1;
        Ok(number << OFFSET_BITS | pc.wrapping_sub(image.base) & OFFSET)
    }

    /// The number of the module of a code address.
    fn module_of(&self, code: u64) -> Option<usize> {
        let index = (code >> OFFSET_BITS).checked_sub(1)? as usize;
        (index < self.modules.len()).then_some(index)
    }

    /// Whether code was made by the program, so that only its bytes tell which code it is.
    pub fn is_generated(&self, code: u64) -> bool {
        self.module_of(code)
            .is_some_and(|module| self.modules[module].generated)
    }

    /// Where code comes from.
    pub fn place(&self, code: u64) -> Place<'_> {
        match self.module_of(code) {
            None => Place {
                module: None,
                offset: code,
            },
            Some(module) => {
                let module = &self.modules[module];
                let offset = match module.path.is_empty() {
                    // An address: its upper half is one of the kernel's.
                    true => ((code << (64 - OFFSET_BITS)) as i64 >> (64 - OFFSET_BITS)) as u64,
                    false => code & OFFSET,
                };
                Place {
                    module: Some(module),
                    offset,
                }
            }
        }
    }

    /// Where code stands in memory: in the first image of its module.
    pub fn address(&self, code: u64) -> u64 {
        let place = self.place(code);
        let module = self.module_of(code).filter(|_| place.file().is_some());
        let image = self.images.iter().find(|image| Some(image.module as usize) == module);
        place.offset.wrapping_add(image.map_or(0, |image| image.base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> Message {
        Message::Module(Module {
            path: path.into(),
            build_id: None,
            generated: false,
        })
    }

    fn generated() -> Message {
        Message::Module(Module {
            path: Vec::new(),
            build_id: None,
            generated: true,
        })
    }

    fn image(module: u32, base: u64) -> Message {
        Message::Image(Image { module, base })
    }

    fn images(messages: &[Message]) -> Images {
        let mut images = Images::default();
        messages.iter().for_each(|message| images.learn(message).unwrap());
        images
    }

    #[test]
    fn a_module_at_two_addresses_has_one_code_address() {
        let images = images(&[file("/lib/c"), image(0, 0x7000), image(0, 0x9000)]);
        let [one, other] = [(1, 0x7123), (2, 0x9123)].map(|(id, pc)| images.code_address(ImageId(id), pc).unwrap());
        assert_eq!(one, other);
        assert_eq!(images.place(one).to_string(), "c+0x123");
        assert_eq!(images.address(one), 0x7123);
        assert!(!images.is_generated(one));
    }

    #[test]
    fn two_modules_at_one_address_have_two() {
        let images = images(&[
            file("/a"),
            file("/b"),
            image(0, 0x40_0000),
            image(1, 0x40_0000),
            generated(),
            image(2, 0),
        ]);
        let codes = [1, 2, 3, 0].map(|id| images.code_address(ImageId(id), 0x40_1000).unwrap());
        let names = codes.map(|code| images.place(code).to_string());
        assert_eq!(names, ["a+0x1000", "b+0x1000", "0x401000", "0x401000"]);
        assert_eq!(codes.map(|code| images.is_generated(code)), [false, false, true, false]);
        assert_eq!(codes.map(|code| images.address(code)), [0x40_1000; 4]);
        assert_eq!(codes.iter().collect::<std::collections::HashSet<_>>().len(), 4);
    }

    #[test]
    fn addresses_of_the_kernel_are_found_again() {
        let images = images(&[generated(), image(0, 0)]);
        let code = images.code_address(ImageId(1), 0xffff_ffff_ff60_0400).unwrap();
        assert_eq!(images.place(code).offset, 0xffff_ffff_ff60_0400);
    }

    #[test]
    fn what_was_not_told_of_is_an_error() {
        let mut images = images(&[file("/a"), image(0, 0)]);
        assert_eq!(
            images.code_address(ImageId(2), 0),
            Err(DecodeError::UnknownImage { image: 2, images: 1 })
        );
        assert_eq!(
            images.learn(&image(1, 0)),
            Err(DecodeError::UnknownModule { module: 1, modules: 1 })
        );
    }
}
