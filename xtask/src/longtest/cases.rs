//! The real programs, as data. To add one, add an entry.
//!
//! A case must be deterministic in what it compares: fixed seeds, no times, no
//! process ids, no addresses. `SRC` is `xtask/programs`, where the sources are.

use crate::packages::Package;

/// What is compared besides the exit status and `files`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Status,
    Stdout,
    Both,
}

/// Recorded into a file, checked and counted; or, where that file would fill a disk, thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    File,
    Discard,
}

pub struct Case {
    pub name: &'static str,
    pub packages: &'static [Package],
    /// bash, run once before both runs, in their starting directory.
    pub setup: &'static str,
    pub argv: &'static [&'static str],
    pub output: Output,
    /// Files, relative to the case's directory, that must be equal.
    pub files: &'static [&'static str],
    /// bash, run natively after each run; its output must be equal.
    pub after: &'static str,
    /// bash, run natively beside each run; its output must be equal.
    pub driver: &'static str,
    pub how: How,
    /// Seconds.
    pub timeout: u64,
}

impl Case {
    /// The verdict of a case that passed: exactly what was compared.
    pub fn promise(&self) -> &'static str {
        match (
            self.output,
            self.files.is_empty() && self.after.is_empty() && self.driver.is_empty(),
        ) {
            (Output::Status, true) => "same status",
            (Output::Status, false) => "same status, files",
            (Output::Stdout, true) => "same status, stdout",
            (Output::Stdout, false) => "same status, stdout, files",
            (Output::Both, true) => "same status, stdout, stderr",
            (Output::Both, false) => "same status, stdout, stderr, files",
        }
    }
}

/// What most cases have in common.
const PLAIN: Case = Case {
    name: "",
    packages: &[],
    setup: "",
    argv: &[],
    output: Output::Both,
    files: &[],
    after: "",
    driver: "",
    how: How::File,
    timeout: 300,
};

/// 20,000 lines of text, the same every time; 1.3 MB.
const TEXT: &str = r#"mawk 'BEGIN { s = 1; for (i = 0; i < 20000; i++) { line = i
    for (j = 0; j < 9; j++) { s = (s * 16807) % 2147483647; line = line " w" (s % 997) }
    print line } }' > input
"#;

/// What `--quick` runs: pipes and children, threads, signals at any instruction, generated code, a
/// program without a dynamic linker, and some that do much.
pub const QUICK: &[&str] = &[
    "ls",
    "gzip",
    "xz-T2",
    "sqlite3",
    "perl",
    "bash",
    "git-gc",
    "python3",
    "static-pie",
    "threads-200",
    "timers-1khz",
    "generated",
];

pub const CASES: &[Case] = &[
    Case { name: "ls", argv: &["ls", "-lR", "/usr/include", "/etc"], output: Output::Stdout, ..PLAIN },
    Case {
        name: "tar",
        packages: &[("tar", "tar")],
        setup: "mkdir -p tree/{a,b,c}/{d,e}; for d in tree/*/*; do for i in {1..40}; do seq $i $((i * 20)) > $d/$i; done; done",
        argv: &["bash", "-c", "tar --sort=name --mtime=@0 -cf out.tar tree && mkdir x && tar -xvf out.tar -C x | sort && diff -r tree x/tree"],
        files: &["out.tar"],
        ..PLAIN
    },
    Case {
        name: "gzip",
        packages: &[("gzip", "gzip")],
        setup: TEXT,
        argv: &["gzip", "-6", "-n", "-k", "-v", "input"],
        files: &["input.gz"],
        ..PLAIN
    },
    Case {
        name: "bzip2",
        packages: &[("bzip2", "bzip2")],
        setup: TEXT,
        argv: &["bzip2", "-k", "input"],
        files: &["input.bz2"],
        ..PLAIN
    },
    Case {
        name: "xz-d",
        packages: &[("xz-utils", "xz")],
        setup: "seq 1 200000 > input; xz -k input; mv input original",
        argv: &["xz", "-d", "-k", "input.xz"],
        files: &["input"],
        ..PLAIN
    },
    Case {
        name: "xz-T2",
        packages: &[("xz-utils", "xz")],
        setup: TEXT,
        argv: &["xz", "-2", "-T2", "--block-size=256KiB", "-k", "input"],
        files: &["input.xz"],
        ..PLAIN
    },
    Case {
        name: "sqlite3",
        packages: &[("sqlite3", "sqlite3")],
        setup: "cat > script.sql <<'END'
CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER, c TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
INSERT INTO t SELECT i, (i * 7919) % 10007, 'row ' || ((i * 31) % 1009) FROM n;
CREATE INDEX tb ON t(b);
UPDATE t SET b = b + 1 WHERE a % 3 = 0;
DELETE FROM t WHERE a % 7 = 0;
SELECT c, count(*), sum(b) FROM t GROUP BY c ORDER BY 2 DESC, 1 LIMIT 10;
SELECT count(*) FROM t x JOIN t y ON x.b = y.b AND x.a < y.a;
SELECT nonsense FROM t;
END",
        argv: &["sqlite3", "-batch", "db.sqlite", ".read script.sql"],
        files: &["db.sqlite"],
        ..PLAIN
    },
    Case { name: "perl", packages: &[("perl", "perl")], setup: "cp $SRC/work.pl .", argv: &["perl", "work.pl"], ..PLAIN },
    Case {
        name: "bash",
        setup: "cat > script <<'END'
seq 1 3000 | grep 7 | sed 's/7/x/g' | sort -r | uniq -c | head -5
trap 'echo trapped' USR1; kill -USR1 $$
(exit 3) & wait $!; echo $?
for i in {1..20}; do echo $((i * i)); done | while read n; do [ $((n % 2)) = 0 ] && echo $n; done | tail -1
cat <(echo one) <(echo two); echo $(( $(wc -l < script) > 3 ))
read -r x < <(sleep 0.1; echo late); echo $x; yes | head -c 100000 | md5sum
ls /nonexistent; exit 5
END",
        argv: &["bash", "script"],
        ..PLAIN
    },
    Case {
        name: "awk",
        packages: &[("mawk", "mawk")],
        setup: TEXT,
        argv: &["mawk", "{ for (i = 2; i <= NF; i++) n[$i] += $1 } END { for (w in n) print w, n[w] }", "input"],
        ..PLAIN
    },
    Case {
        name: "sort",
        setup: "mawk 'BEGIN { s = 1; for (i = 0; i < 300000; i++) { s = (s * 16807) % 2147483647; print s } }' > input",
        argv: &["sort", "--parallel=2", "-n", "-S", "8M", "-o", "sorted", "input"],
        files: &["sorted"],
        ..PLAIN
    },
    Case { name: "git-log", packages: GIT, setup: GIT_SETUP, argv: &["git", "-C", "repo", "log", "--stat", "-p"], ..PLAIN },
    Case {
        name: "git-gc",
        packages: GIT,
        setup: GIT_SETUP,
        argv: &["git", "-C", "repo", "-c", "pack.threads=2", "-c", "gc.autoDetach=false", "gc", "--prune=now", "--quiet"],
        after: "cd repo; git fsck --strict; git count-objects -v | grep -E '^(count|in-pack|packs)'
git rev-list --objects --all | cut -d' ' -f1 | git cat-file --batch-check | sort",
        ..PLAIN
    },
    Case {
        name: "gcc",
        packages: &[("gcc", "gcc")],
        setup: "mawk -f $SRC/big.awk > big.c; [ $(wc -l < big.c) -ge 5000 ]",
        argv: &["gcc", "-O1", "-Wall", "-o", "big", "big.c", "-save-temps"],
        files: &["big", "big.o", "big.s"],
        after: "./big",
        how: How::Discard,
        timeout: 600,
        ..PLAIN
    },
    Case {
        name: "python3",
        packages: &[("python3", "python3")],
        setup: "cp $SRC/threads.py .",
        argv: &["/usr/bin/python3", "threads.py"],
        ..PLAIN
    },
    Case {
        name: "numpy",
        packages: &[("python3", "python3"), ("python3-numpy", "")],
        setup: "cp $SRC/arrays.py .",
        argv: &["/usr/bin/python3", "arrays.py"],
        how: How::Discard,
        ..PLAIN
    },
    Case {
        name: "openssl",
        packages: &[("openssl", "openssl")],
        argv: &["openssl", "speed", "-seconds", "1", "-bytes", "1024", "sha256", "aes-128-cbc"],
        output: Output::Status,
        how: How::Discard,
        ..PLAIN
    },
    Case {
        name: "node",
        packages: &[("nodejs", "node")],
        setup: "cp $SRC/jit.js .",
        argv: &["node", "jit.js"],
        how: How::Discard,
        ..PLAIN
    },
    Case {
        name: "java",
        packages: &[("default-jdk-headless", "javac")],
        setup: "javac -d . $SRC/Jit.java",
        argv: &["java", "-Xshare:auto", "-Xmx256m", "-cp", ".", "Jit"],
        how: How::Discard,
        timeout: 600,
        ..PLAIN
    },
    Case {
        name: "redis",
        packages: &[("redis-server", "redis-server"), ("redis-tools", "redis-benchmark")],
        argv: &["redis-server", "--port", "16399", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", "."],
        driver: "c='redis-cli -p 16399'
for i in {1..300}; do $c ping >/dev/null 2>&1 && break; sleep 0.1; done
end=$((SECONDS + 11))
while [ $SECONDS -lt $end ]; do redis-benchmark -p 16399 -q -n 5000 -t set,get,incr,lpush,zadd,hset -r 1000 >/dev/null; done
$c flushall; $c set k v; $c get k; $c incrby n 41; $c incr n; $c eval 'return redis.call(\"get\", \"n\")' 0; $c dbsize
$c shutdown nosave || true",
        output: Output::Status,
        how: How::Discard,
        timeout: 120,
        ..PLAIN
    },
    Case {
        name: "go",
        packages: &[("golang-go", "go")],
        setup: "cp $SRC/main.go .; HOME=$PWD GOCACHE=$PWD/cache GO111MODULE=off CGO_ENABLED=0 go build -o main main.go; rm -rf cache",
        argv: &["./main"],
        // The goroutine dump of an uncaught fault would hold addresses; this one is recovered, so
        // nothing is printed.
        ..PLAIN
    },
    Case {
        name: "static-pie",
        packages: &[("gcc", "gcc"), ("libc6-dev", "")],
        setup: "cc -O2 -w -static-pie -o prog $SRC/static.c -lm",
        argv: &["./prog"],
        ..PLAIN
    },
    Case {
        name: "threads-200",
        packages: &[("gcc", "gcc")],
        setup: "cc -O2 -pthread -o prog $SRC/threads200.c",
        argv: &["./prog"],
        ..PLAIN
    },
    Case {
        name: "timers-1khz",
        packages: &[("gcc", "gcc")],
        setup: "cc -O2 -o prog $SRC/timers.c",
        argv: &["./prog"],
        ..PLAIN
    },
    Case {
        name: "generated",
        packages: &[("gcc", "gcc")],
        setup: "cc -O2 -o prog $SRC/generated.c",
        argv: &["./prog"],
        ..PLAIN
    },
];

const GIT: &[Package] = &[("git", "git")];

/// 60 commits on two branches with a merge, none of them packed.
const GIT_SETUP: &str = "git init -q -b main repo; cd repo; git config gc.auto 0
for i in {1..60}; do
    for j in {1..5}; do seq $((i * j)) $((i * j + 200)) > f$j; done
    git add -A; git commit -q -m \"commit $i\"
    [ $i = 30 ] && git branch side
done
git checkout -q side; echo x > only-here; git add -A; git commit -q -m side; git merge -q -m merge main -X theirs
git tag -a -m tag v1";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::FOR_TESTS;

    #[test]
    fn quick_cases_need_nothing_but_what_the_tests_need() {
        for name in QUICK {
            let case = CASES.iter().find(|c| c.name == *name).expect(name);
            assert!(case.packages.iter().all(|p| FOR_TESTS.contains(p)), "{name}");
        }
    }

    #[test]
    fn names_are_unique_and_commands_given() {
        for (i, case) in CASES.iter().enumerate() {
            assert!(!case.argv.is_empty(), "{}", case.name);
            assert!(
                CASES[i + 1..].iter().all(|other| other.name != case.name),
                "{}",
                case.name
            );
        }
    }
}
