//! Threads and ranks: what mpirun starts becomes one recording, which replays as each rank's own does
//! and hardly grows with their number.
mod common;

use common::{memtrail, stderr};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::{tempdir, TempDir};

/// Threads that add vectors and multiply matrices, each its own part.
const WORK: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#define N 1024
static double *a, *b, *c, *m;
static void *work(void *p) {
    long t = (long)p;
    for (int r = 0; r < 3; r++)
        for (long i = t * N; i < (t + 1) * N; i++) c[i] = a[i] + b[i];
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 8; k++) m[t * 64 + i * 8 + j] += a[i * 8 + k] * b[k * 8 + j];
    return 0;
}
int main(int argc, char **argv) {
    long n = atoi(argv[1]);
    a = calloc(n * N, 8), b = calloc(n * N, 8), c = calloc(n * N, 8), m = calloc(n * 64, 8);
    pthread_t *t = malloc(n * sizeof *t);
    for (long i = 0; i < n; i++) pthread_create(&t[i], 0, work, (void *)i);
    for (long i = 0; i < n; i++) pthread_join(t[i], 0);
    return 0;
}
"#;

/// Ranks that talk to each other, and one that forks besides.
const MPI: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 1) {
        if (!fork()) _exit(0);
        wait(0);
    }
    if (rank == 0) printf("sum %d\n", sum);
    return 0;
}
"#;

fn compile(dir: &TempDir, compiler: &str, name: &str, source: &str) {
    let file = format!("{name}.c");
    fs::write(dir.path().join(&file), source).unwrap();
    let args = ["-O1", "-pthread", "-o", name, &file];
    let done = Command::new(compiler).current_dir(dir.path()).args(args).status();
    assert!(done.unwrap().success());
}

fn ok(dir: &TempDir, args: &[&str]) -> String {
    let output = memtrail(dir, args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn info(dir: &TempDir, file: &str) -> Value {
    serde_json::from_str(&ok(dir, &["info", "--json", file])).unwrap()
}

/// Every access of every thread is the one that was recorded.
fn verify(dir: &TempDir, file: &str) {
    let said = ok(dir, &["check", "--deep", file]);
    assert!(
        said.contains("every access is the one that was recorded: the hashes agree"),
        "{said}"
    );
}

fn size(dir: &TempDir, file: &str) -> u64 {
    fs::metadata(dir.path().join(file)).unwrap().len()
}

fn mpirun(dir: &TempDir, ranks: u32, args: &[&str]) -> Output {
    Command::new("mpirun")
        .args(["--allow-run-as-root", "--oversubscribe", "-n", &ranks.to_string()])
        .arg(env!("CARGO_BIN_EXE_memtrail"))
        .args(args)
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn threads_that_do_the_same_take_the_room_of_a_few() {
    let dir = tempdir().unwrap();
    compile(&dir, "gcc", "work", WORK);
    let mut sizes = Vec::new();
    for threads in ["4", "16", "64"] {
        ok(
            &dir,
            &["record", "--verify", "-o", "plain.mtr", "-f", "--", "./work", threads],
        );
        ok(&dir, &["merge", "plain.mtr", "-f", "-o", "merged.mtr"]);
        verify(&dir, "merged.mtr");
        assert_eq!(
            info(&dir, "merged.mtr")["accesses"],
            info(&dir, "plain.mtr")["accesses"]
        );
        // Without the hashes, which only those ask for who check.
        ok(&dir, &["record", "-o", "plain.mtr", "-f", "--", "./work", threads]);
        ok(&dir, &["merge", "plain.mtr", "-f", "-o", "merged.mtr"]);
        sizes.push(size(&dir, "merged.mtr"));
    }
    // 9% in most runs, 45% before merging; how threads begin differs from run to run.
    assert!(sizes[2] * 100 < sizes[0] * 125, "{sizes:?}");
}

#[test]
fn ranks_at_other_addresses_take_the_room_of_a_few() {
    let dir = tempdir().unwrap();
    compile(&dir, "gcc", "work", WORK);
    let files: Vec<String> = (0..16).map(|i| format!("{i}.mtr")).collect();
    for file in &files {
        ok(&dir, &["record", "--verify", "-o", file, "--", "./work", "4"]);
    }
    let mut sizes = Vec::new();
    for ranks in [1, 3, 5, 6, 7, 12, 16] {
        let names: Vec<&str> = files[..ranks].iter().map(String::as_str).collect();
        ok(&dir, &[&["merge", "-f", "-o", "m.mtr"], &names[..]].concat());
        verify(&dir, "m.mtr");
        let info = info(&dir, "m.mtr");
        assert_eq!((&info["ranks"], &info["threads"]), (&ranks.into(), &(5 * ranks).into()));
        sizes.push(size(&dir, "m.mtr"));
    }
    // 12 to 22% in most runs, of which 0.3 KB a rank are its threads' hashes; sixteen files one by
    // one would be sixteen times as large.
    assert!(sizes[6] * 100 < sizes[0] * 135, "{sizes:?}");
}

#[test]
fn what_mpirun_starts_is_one_recording() {
    let dir = tempdir().unwrap();
    compile(&dir, "mpicc", "ranks", MPI);
    let output = mpirun(&dir, 2, &["record", "--verify", "-o", "run.mtr", "--", "./ranks"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "sum 1\n");
    let names = || fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name());
    let left = names().filter(|n| n.to_string_lossy().starts_with("run."));
    assert_eq!(left.collect::<Vec<_>>(), ["run.mtr"]);
    verify(&dir, "run.mtr");
    let info = info(&dir, "run.mtr");
    assert_eq!((&info["ranks"], &info["processes"]), (&2.into(), &3.into()));
    // What the job forks beside the ranks is the rank's that forked it.
    let processes: Vec<&Value> = info["rank_list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| &r["processes"])
        .collect();
    assert_eq!(processes, [1, 2]);
}

#[test]
fn any_program_and_any_number_of_ranks_will_do() {
    let dir = tempdir().unwrap();
    compile(&dir, "gcc", "work", WORK);
    let output = mpirun(&dir, 5, &["record", "--verify", "-o", "five.mtr", "--", "./work", "2"]);
    assert!(output.status.success(), "{}", stderr(&output));
    verify(&dir, "five.mtr");
    assert_eq!(info(&dir, "five.mtr")["ranks"], 5);
    let cache = ["--cache", "L1=32K:64:8", "--json"];
    let by = |more: &[&str]| {
        let args = [&["refs", "--by", "rank"], &cache[..], more, &["five.mtr"]].concat();
        let table: Value = serde_json::from_str(&ok(&dir, &args)).unwrap();
        let rows = table["refs"].as_array().or(table["rows"].as_array()).unwrap().clone();
        let mut ranks: Vec<(u64, u64)> = rows
            .iter()
            .map(|r| (r["rank"].as_u64().unwrap(), r["reads"].as_u64().unwrap()))
            .collect();
        ranks.sort_unstable();
        ranks
    };
    let all = by(&[]);
    assert_eq!(all.iter().map(|r| r.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(by(&["--rank", "3"]), [all[3]]);
    let none = memtrail(&dir, &["dump", "--rank", "9", "five.mtr"]);
    assert_eq!(none.status.code(), Some(125));
    assert!(stderr(&none).starts_with("memtrail: --rank 9: the recording has nothing of this rank"));
    // A name with the rank in it is one file a rank.
    let output = mpirun(&dir, 2, &["record", "-o", "own.%r.mtr", "--", "./work", "2"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        [0, 1].map(|r| info(&dir, &format!("own.{r}.mtr"))["rank_list"][0]["rank"].clone()),
        [0, 1]
    );
    assert!(!Path::new(&dir.path().join("own.%r.mtr")).exists());
}

#[test]
fn what_cannot_be_merged_is_said() {
    let dir = tempdir().unwrap();
    let fails = |args: &[&str], message: &str| {
        let output = memtrail(&dir, args);
        assert_eq!(output.status.code(), Some(125));
        assert_eq!(stderr(&output), format!("memtrail: {message}\n"));
    };
    fs::write(dir.path().join("a.mtr"), "x").unwrap();
    fails(
        &["merge", "a.mtr", "-o", "a.mtr"],
        "a.mtr exists; use -f to overwrite it",
    );
    fails(
        &["merge", "a.mtr", "-o", "b.mtr"],
        "cannot merge: a.mtr: not a memtrail recording",
    );
    fails(
        &["record", "--rank-var", "NO_SUCH_RANK", "--", "true"],
        "--rank-var NO_SUCH_RANK: there is no such variable in the environment",
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
