//! Golden recordings as the ranks of jobs: merged by files and by the ranks themselves, and replayed.
use memtrail_merge::Directory;
use memtrail_ranks::{gather, merge, own_file, Gathered};
use memtrail_replay::check_deep;
use memtrail_trace::{Reader, ThreadHash};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::tempdir;

fn golden() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/valid");
    let recordings = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<PathBuf> = recordings
        .filter(|p| p.extension().is_some_and(|e| e == "mtr"))
        .collect();
    all.retain(|p| Reader::open(File::open(p).unwrap()).is_ok_and(|mut r| check_deep(&mut r).is_ok()));
    all.sort();
    assert!(all.len() >= 3, "{all:?}");
    all
}

/// The hashes of all threads, by expanding every access.
fn hashes(path: &Path) -> Vec<ThreadHash> {
    let mut reader = Reader::open(File::open(path).unwrap()).unwrap();
    check_deep(&mut reader).unwrap().hashes
}

/// Those of several recordings, one after the other, without the serials.
fn accesses(files: &[PathBuf]) -> Vec<(u64, u64)> {
    let of = |file: &PathBuf| hashes(file).into_iter().map(|h| (h.accesses, h.hash));
    files.iter().flat_map(of).collect()
}

fn merged(files: &[PathBuf], out: &Path) -> u64 {
    merge(files, File::create(out).unwrap()).unwrap().1
}

#[test]
fn each_rank_replays_as_it_was_recorded() {
    let dir = tempdir().unwrap();
    let all = golden();
    for ranks in [1, 2, 3, 5, 6, 7, 12] {
        let files: Vec<PathBuf> = (0..ranks).map(|i| all[i % all.len()].clone()).collect();
        let out = dir.path().join(format!("{ranks}.mtr"));
        merged(&files, &out);
        let found: Vec<(u64, u64)> = hashes(&out).into_iter().map(|h| (h.accesses, h.hash)).collect();
        assert_eq!(found, accesses(&files), "{ranks} ranks");
        let reader = Reader::open(File::open(&out).unwrap()).unwrap();
        let said = &reader.header().ranks;
        assert_eq!(said.len(), if ranks == 1 { 0 } else { ranks as u64 });
        // Merging what is merged changes nothing that is replayed.
        let again = dir.path().join("again.mtr");
        merged(&[out], &again);
        assert_eq!(hashes(&again).len(), found.len());
    }
}

#[test]
fn equal_ranks_take_little_more_than_one() {
    let dir = tempdir().unwrap();
    for file in golden() {
        let size = |ranks: usize| merged(&vec![file.clone(); ranks], &dir.path().join("out.mtr"));
        let (two, twelve) = (size(2), size(12));
        // Of the hashes of the threads' accesses each takes 60.
        assert!(twelve < two + 10 * 85, "{file:?}: {two} {twelve}");
    }
}

/// Every rank in a thread of its own; those in `dead` join, and are gone.
fn job(dir: &Path, files: &[PathBuf], dead: &[u32]) -> (PathBuf, Vec<Gathered>) {
    let out = dir.join("job.mtr");
    let patience = Duration::from_millis(200);
    let join = |rank: u32| Directory::join(&out, rank, patience).unwrap();
    let directories: Vec<(u32, Directory)> = (0..files.len() as u32).map(|r| (r, join(r))).collect();
    for (rank, file) in files.iter().enumerate() {
        fs::copy(file, own_file(&out, rank as u32)).unwrap();
    }
    let ranks = files.len() as u32;
    let done = std::thread::scope(|scope| {
        let out = &out;
        let start = |(rank, directory)| {
            let dies = dead.contains(&rank);
            scope.spawn(move || match dies {
                true => {
                    drop(directory);
                    Gathered::default()
                }
                false => gather(directory, out, rank, ranks).unwrap(),
            })
        };
        let running: Vec<_> = directories.into_iter().map(start).collect();
        running.into_iter().map(|t| t.join().unwrap()).collect()
    });
    (out, done)
}

#[test]
fn ranks_that_merge_among_themselves_make_the_same_bytes() {
    let all = golden();
    for ranks in [1, 3, 6, 7] {
        let dir = tempdir().unwrap();
        let files: Vec<PathBuf> = (0..ranks).map(|i| all[(i + 1) % all.len()].clone()).collect();
        let (out, done) = job(dir.path(), &files, &[]);
        let bytes = fs::read(&out).unwrap();
        assert_eq!(done[0].size, Some(bytes.len() as u64));
        assert!(done.iter().all(|g| g.lost.is_empty()) && done[1..].iter().all(|g| g.size.is_none()));
        if ranks > 1 {
            let offline = dir.path().join("offline.mtr");
            merged(&files, &offline);
            assert!(fs::read(&offline).unwrap() == bytes, "{ranks} ranks");
            fs::remove_file(offline).unwrap();
        }
        let left: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(left, ["job.mtr"]);
    }
}

#[test]
fn a_rank_that_dies_leaves_its_recording_and_hangs_nobody() {
    let all = golden();
    let files: Vec<PathBuf> = (0..6).map(|i| all[i % all.len()].clone()).collect();
    for dead in [1, 2, 4, 5] {
        let dir = tempdir().unwrap();
        let (out, done) = job(dir.path(), &files, &[dead]);
        let lost: Vec<u32> = done.iter().flat_map(|g| g.lost.clone()).collect();
        assert_eq!(lost, [dead]);
        assert_eq!(
            fs::read(own_file(&out, dead)).unwrap(),
            fs::read(&files[dead as usize]).unwrap()
        );
        let reader = Reader::open(File::open(&out).unwrap()).unwrap();
        let mut ranks: Vec<u32> = reader.header().ranks.iter(100).map(|r| r.rank).collect();
        ranks.sort_unstable();
        assert_eq!(ranks, (0..6).filter(|&r| r != dead).collect::<Vec<_>>());
        assert_eq!(
            hashes(&out).len(),
            files.iter().map(|f| hashes(f).len()).sum::<usize>() - hashes(&files[dead as usize]).len()
        );
    }
}

#[test]
fn what_is_not_whole_is_named() {
    let dir = tempdir().unwrap();
    let bytes = fs::read(&golden()[0]).unwrap();
    let cut = dir.path().join("cut.mtr");
    fs::write(&cut, &bytes[..bytes.len() - 20]).unwrap();
    let error = merge(std::slice::from_ref(&cut), Vec::new()).unwrap_err().to_string();
    assert!(
        error.ends_with("it is not whole, and stays a recording of its own: memtrail info reads it"),
        "{error}"
    );
    assert!(error.starts_with(&cut.display().to_string()));
}
