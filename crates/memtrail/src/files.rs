//! Where names come from: the disk, and the source of the example, which we carry with us.
use memtrail_symbols::{Disk, Files, Input};
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

/// What is not on the disk may be the example's source.
pub struct Bundled;

impl Files for Bundled {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Input>> {
        match Disk.open(path) {
            Err(_) if path.ends_with(memtrail_demo::PATH) => Ok(Box::new(Cursor::new(memtrail_demo::SOURCE))),
            other => other,
        }
    }

    fn real(&self, path: &Path) -> PathBuf {
        Disk.real(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_known_wherever_it_was_built() {
        let read = |path: &str| Bundled.open(Path::new(path)).and_then(io::read_to_string);
        let elsewhere = format!("/no/such/directory/{}", memtrail_demo::PATH);
        assert_eq!(read(&elsewhere).unwrap(), memtrail_demo::SOURCE);
        assert!(read("/no/such/directory/lib.rs").is_err());
    }
}
