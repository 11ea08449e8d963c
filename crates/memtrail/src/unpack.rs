//! Traces as other tools leave them: compressed.
use anyhow::{bail, Context};
use flate2::bufread::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use zip::ZipArchive;

/// What is in a compressed input. `how` is what it looks like, `from` its bytes from the first on.
pub fn unpacked(how: &str, path: &Path, from: Box<dyn BufRead>) -> anyhow::Result<Box<dyn BufRead>> {
    let name = || path.display().to_string();
    Ok(match how {
        "gzip" => Box::new(BufReader::new(MultiGzDecoder::new(from))),
        "lz4" => Box::new(BufReader::new(FrameDecoder::new(from))),
        "zstd" => Box::new(BufReader::new(zstd::Decoder::with_buffer(from).with_context(name)?)),
        "zip" if path == Path::new("-") => bail!("a zip archive has to be a file: its list of contents is at its end"),
        "zip" => Box::new(Entries::open(path).with_context(name)?),
        how => bail!(
            "{}: it is compressed with {how}; unpack it first, or pipe it into -",
            name()
        ),
    })
}

/// The files in an archive, one behind the other, in the order of their names: drmemtrace cuts a
/// thread's trace into such pieces.
struct Entries {
    archive: ZipArchive<BufReader<File>>,
    /// Those that are left, the last first.
    names: Vec<String>,
    current: Cursor<Vec<u8>>,
}

impl Entries {
    fn open(path: &Path) -> anyhow::Result<Entries> {
        let archive = ZipArchive::new(BufReader::new(File::open(path)?))?;
        let mut names: Vec<String> = archive.file_names().map(str::to_string).collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Entries {
            archive,
            names,
            current: Cursor::default(),
        })
    }
}

impl Read for Entries {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(buffer)?;
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for Entries {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.current.position() >= self.current.get_ref().len() as u64 {
            let Some(name) = self.names.pop() else { break };
            let mut bytes = Vec::new();
            self.archive
                .by_name(&name)
                .map_err(io::Error::other)?
                .read_to_end(&mut bytes)?;
            self.current = Cursor::new(bytes);
        }
        self.current.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        self.current.consume(n);
    }
}
