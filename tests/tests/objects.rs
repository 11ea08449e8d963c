//! Whose data was accessed, in programs whose answer is known by construction: what each does is
//! said at its head, in `objects/`.
//!
//! Programs are linked as usual, so the dynamic linker and the C library are part of every
//! recording. Counts of an object are exact and complete; where a library's own code works on it in
//! a way that is its own affair, those of the program's functions are.

use memtrail_tests::subject::{compiled, source_path, Subject, Table};
use memtrail_tests::tools::work_directory;
use serde_json::Value;

const CACHE: [&str; 2] = ["--cache", "L1=32K:64:8"];

fn built(compiler: &str, source: &str, flags: &[&str]) -> std::path::PathBuf {
    let stem = source.split('.').next().unwrap_or(source);
    let path = source_path(&format!("tests/objects/{source}"));
    compiled(compiler, &format!("objects-{stem}"), &path, flags).unwrap_or_else(|why| panic!("{why}"))
}

fn recorded(compiler: &str, source: &str, flags: &[&str], args: &[&str]) -> Subject {
    Subject::record(built(compiler, source, flags), args).unwrap_or_else(|why| panic!("{why}"))
}

/// A program in C, as written.
fn in_c(source: &str, args: &[&str]) -> Subject {
    recorded("gcc", source, &["-O0", "-g", "-pthread"], args)
}

fn table(subject: &Subject, command: &str, options: &[&str]) -> Table {
    let told = subject.table(command, options);
    told.unwrap_or_else(|why| panic!("{why}"))
}

fn objects(subject: &Subject) -> Value {
    table(subject, "objects", &CACHE).found["objects"].clone()
}

fn objects_by_function(subject: &Subject) -> Value {
    let options = [&CACHE[..], &["--by", "object,function"]].concat();
    table(subject, "objects", &options).found["objects"].clone()
}

fn refs(subject: &Subject) -> Value {
    table(subject, "refs", &CACHE).found["refs"].clone()
}

/// Rows in which some keys have these values.
fn rows<'a>(list: &'a Value, keys: &[(&str, &str)]) -> Vec<&'a Value> {
    let list = list.as_array().map_or(&[][..], |list| list);
    let fits = |row: &&Value| keys.iter().all(|(key, value)| row[key] == *value);
    list.iter().filter(fits).collect()
}

/// The only row of this kind.
fn row<'a>(list: &'a Value, keys: &[(&str, &str)]) -> &'a Value {
    match rows(list, keys)[..] {
        [one] => one,
        ref others => panic!("{} rows of {keys:?} in {list:#}", others.len()),
    }
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key} in {row:#}"))
}

/// Reads and writes.
fn counts(row: &Value) -> [u64; 2] {
    ["reads", "writes"].map(|key| number(row, key))
}

/// Kind, reads, writes, blocks, bytes at most, of the only object of a name.
fn object(list: &Value, name: &str) -> (String, [u64; 4]) {
    let row = row(list, &[("name", name)]);
    let kind = row["kind"].as_str().unwrap_or_default().to_string();
    (kind, ["reads", "writes", "blocks", "bytes"].map(|key| number(row, key)))
}

fn is(kind: &str, counts: [u64; 4]) -> (String, [u64; 4]) {
    (kind.to_string(), counts)
}

/// Reads and writes of an object by a function.
fn by(list: &Value, name: &str, function: &str) -> [u64; 2] {
    counts(row(list, &[("name", name), ("function", function)]))
}

/// Where a text stands in a source, as `lists.c:18`.
fn place(source: &str, text: &str) -> String {
    let path = source_path(&format!("tests/objects/{source}"));
    let lines = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let line = lines.lines().position(|line| line.contains(text));
    let line = line.unwrap_or_else(|| panic!("{source}: no {text}"));
    format!("{source}:{}", line + 1)
}

/// All that was recorded, and what of it is in no known object.
fn unknown(list: &Value) -> (u64, u64) {
    let sum = |rows: Vec<&Value>| rows.iter().map(|row| number(row, "accesses")).sum();
    (sum(rows(list, &[])), sum(rows(list, &[("kind", "unknown")])))
}

#[test]
fn lists_of_one_wrapper_are_told_apart_by_their_callers() {
    let found = objects(&in_c("lists.c", &[]));
    let name = |caller| {
        let (asked, from) = (place("lists.c", "fresh = xmalloc"), place("lists.c", caller));
        format!("fresh ({asked}) < main ({from})")
    };
    let (a, b) = (name("a = push"), name("b = push"));
    assert_eq!(object(&found, &a), is("heap", [2000, 2000, 1000, 16_000]));
    assert_eq!(object(&found, &b), is("heap", [3000, 1000, 500, 8000]));
    let a = row(&found, &[("name", &a)]);
    assert_eq!(number(a, "element_bytes"), 16);
    assert_eq!(a["pattern"]["kind"], "pointer chase");
    // The wrapper itself is no part of the path.
    let path = a["path"].as_array().map_or(0, Vec::len);
    assert_eq!(
        a["path"][path - 1],
        format!("push ({})", place("lists.c", "fresh = xmalloc"))
    );
}

/// Inlined functions are on the path as if they had been called, and wrappers among them are seen
/// through.
#[test]
fn inlined_calls_are_on_the_path() {
    let subject = recorded("gcc", "inlined.c", &["-O2", "-g"], &[]);
    let at = |function: &str, text: &str| format!("{function} ({})", place("inlined.c", text));
    let found = objects(&subject);
    for (caller, nodes) in [("a = build", 100), ("b = build", 50)] {
        let name = at("fresh", "fresh = xmalloc") + " < " + &at("main", caller);
        assert_eq!(object(&found, &name), is("heap", [0, 2 * nodes, nodes, 16 * nodes]));
        let path = row(&found, &[("name", &name)])["path"].as_array().cloned();
        let path = path.unwrap_or_else(|| panic!("no path of {name}"));
        let expected = [
            at("main", caller),
            at("build", "list = push"),
            at("push", "fresh = xmalloc"),
        ];
        assert_eq!(path[path.len() - 3..], expected);
    }
    for (variable, longs) in [("one", 1), ("two", 2), ("three", 3), ("four", 4)] {
        let name = at(variable, &format!("*{variable} = obtain"));
        assert_eq!(object(&found, &name), is("heap", [0, 1, 1, 8 * longs]));
    }
    // What `malloc` itself does is done on behalf of all of them, the wrapper included.
    let options = [&CACHE[..], &["--by", "callpath"]].concat();
    let found = table(&subject, "refs", &options).found["refs"].clone();
    let rows = found.as_array().map_or(&[][..], |rows| rows);
    let expected = [
        at("main", "a = build"),
        at("build", "list = push"),
        at("push", "fresh = xmalloc"),
        at("xmalloc", "block = malloc"),
    ];
    let ends = |row: &&Value| {
        let path = row["callpath"].as_array();
        path.is_some_and(|path| path.ends_with(&expected.clone().map(Value::from)))
    };
    let in_malloc: Vec<&Value> = rows.iter().filter(ends).collect();
    assert_eq!(in_malloc.len(), 1, "{found:#}");
}

#[test]
fn patterns_are_those_that_were_programmed() {
    // As written, and with indexes that stay in registers.
    for level in ["-O0", "-O1"] {
        let found = objects(&recorded("gcc", "patterns.c", &[level, "-g"], &[]));
        let pattern = |name: &str| row(&found, &[("name", name)])["pattern"]["kind"].clone();
        let expected = [
            ("index", "regular"),
            ("indexed", "indirect"),
            ("random_only", "irregular"),
            ("both_ways", "mixed"),
            // Whose links are in it: neither indirect nor, as one object, known to be a list.
            ("linked", "irregular"),
        ];
        for (name, expected) in expected {
            assert_eq!(pattern(name), expected, "{name}, {level}");
        }
        let list = format!("fresh ({})", place("patterns.c", "*fresh = malloc"));
        assert_eq!(pattern(&list), "pointer chase", "{level}");
    }
}

/// A program has the name it was started by, after an exec as well; its variables are found all the
/// same.
#[test]
fn programs_are_called_what_they_were_started_by() {
    let program = built("gcc", "linked.c", &["-O0", "-g"]);
    let link = |name: &str| {
        let link = program.with_file_name(name);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&program, &link).unwrap_or_else(|e| panic!("{}: {e}", link.display()));
        link
    };
    let (first, second) = (link("objects-first-name"), link("objects-second-name"));
    let options = [&CACHE[..], &["--by", "object,module,function"]].concat();
    let found = |program: &std::path::Path, args: &[&str]| {
        let subject = Subject::record(program.to_path_buf(), args).unwrap_or_else(|why| panic!("{why}"));
        table(&subject, "objects", &options).found["objects"].clone()
    };
    for (program, name) in [(&first, "objects-first-name"), (&program, "objects-linked")] {
        let found = found(program, &[]);
        let row = row(&found, &[("name", "numbers"), ("function", "main")]);
        assert_eq!((row["module"].as_str(), counts(row)), (Some(name), [0, 100]));
    }
    // The second image is called by the second name.
    let found = found(&first, &[&second.to_string_lossy()]);
    assert!(
        !rows(&found, &[("module", "objects-second-name")]).is_empty(),
        "{found:#}"
    );
    assert!(rows(&found, &[("module", "objects-linked")]).is_empty(), "{found:#}");
}

#[test]
fn an_address_belongs_to_who_has_it() {
    let found = objects(&in_c("recycle.c", &[]));
    let name = |variable: &str| format!("{variable} ({})", place("recycle.c", &format!("*{variable} = malloc")));
    assert_eq!(object(&found, &name("first")), is("heap", [0, 8, 1, 64]));
    assert_eq!(object(&found, &name("second")), is("heap", [5, 5, 1, 64]));
}

#[test]
fn an_object_that_grows_stays_one() {
    let found = objects(&in_c("grow.c", &[]));
    let name = format!("items ({})", place("grow.c", "malloc("));
    assert_eq!(object(&found, &name), is("heap", [4096, 4096, 1, 32_768]));
    assert_eq!(number(row(&found, &[("name", &name)]), "resized"), 9);
}

#[test]
fn variables() {
    let subject = in_c("statics.c", &[]);
    let found = objects(&subject);
    assert_eq!(object(&found, "grid"), is("static", [1200, 1200, 1, 9600]));
    assert_eq!(object(&found, "bodies"), is("static", [200, 100, 1, 2400]));
    assert_eq!(object(&found, "header"), is("static", [1, 11, 1, 88]));
    assert_eq!(object(&found, "tick::ticks"), is("static", [14, 7, 1, 4]));
    assert_eq!(row(&found, &[("name", "grid")])["type"], "double [30][40]");
    assert_eq!(number(row(&found, &[("name", "bodies")]), "element_bytes"), 24);
    // The dynamic linker clears what is thread-local.
    assert_eq!(row(&found, &[("name", "mine")])["kind"], "tls");
    assert_eq!(number(row(&found, &[("name", "mine")]), "bytes"), 128);
    assert_eq!(by(&objects_by_function(&subject), "mine", "main"), [16, 16]);
    fields(&refs(&subject));
}

/// Reference points of `statics.c`: source, variable, reads and writes.
fn fields(found: &Value) {
    let expected = [
        ("grid[i][j]", Some("grid[][]"), vec![[0, 1200], [1200, 0]]),
        ("bodies[i].id", Some("bodies[].id"), vec![[0, 100]]),
        ("bodies[i].mass", Some("bodies[].mass"), vec![[100, 0]]),
        ("bodies[i].at.x", Some("bodies[].at.x"), vec![[100, 0]]),
        ("header.items[i]", Some("header.items[]"), vec![[0, 10]]),
        ("header.count", Some("header.count"), vec![[0, 1], [1, 0]]),
        ("ticks", Some("tick::ticks"), vec![[7, 0], [0, 7], [7, 0]]),
        ("mine[i]", None, vec![[0, 16], [16, 0]]),
    ];
    for (source, variable, expected) in expected {
        let mut rows = rows(found, &[("source", source)]);
        rows.sort_by_key(|row| (number(row, "pc"), number(row, "writes")));
        assert_eq!(
            rows.iter().map(|row| counts(row)).collect::<Vec<_>>(),
            expected,
            "{source}"
        );
        if let Some(variable) = variable {
            assert!(rows.iter().all(|row| row["variable"] == variable), "{rows:#?}");
        }
    }
    let name = |source| row(found, &[("source", source)])["name"].as_str().unwrap_or_default();
    assert!(name("bodies[i].at.x").starts_with("bodies.at.x_Read_"));
    assert!(name("header.items[i]").starts_with("header.items_Write_"));
}

#[test]
fn files_anonymous_memory_and_an_array_on_the_stack() {
    let program = built("gcc", "maps.c", &["-O0", "-g"]);
    let file = program.with_extension("mapped");
    let subject = Subject::record(program, &[&file.to_string_lossy()]).unwrap_or_else(|why| panic!("{why}"));
    let found = objects(&subject);
    assert_eq!(object(&found, "objects-maps.mapped"), is("file", [512, 0, 1, 4096]));
    let scratch = format!("scratch ({})", place("maps.c", "*scratch"));
    assert_eq!(object(&found, &scratch), is("anonymous", [0, 1024, 1, 8192]));
    let found = refs(&subject);
    let mut local = rows(&found, &[("variable", "local[]")]);
    local.sort_by_key(|row| number(row, "pc"));
    assert_eq!(
        local.iter().map(|row| counts(row)).collect::<Vec<_>>(),
        [[0, 256], [256, 0]]
    );
    assert!(local
        .iter()
        .all(|row| row["source"] == "local[i]" && row["function"] == "on_stack"));
}

#[test]
fn blocks_of_eight_threads_that_others_free() {
    let subject = in_c("threads.c", &[]);
    let name = format!("block ({})", place("threads.c", "*block = malloc"));
    let found = objects(&subject);
    assert_eq!(object(&found, &name).1[2..], [1600, 76_800]);
    // What an allocator does to blocks of other threads while they are freed has no certain order.
    assert_eq!(by(&objects_by_function(&subject), &name, "work"), [9600, 9600]);
}

#[test]
fn containers_of_cpp() {
    let subject = recorded("g++", "containers.cpp", &["-O0", "-g"], &[]);
    let name = |variable: &str, text| format!("{variable} ({})", place("containers.cpp", text));
    let numbers = name("numbers", "numbers.reserve");
    let text = name("text", "text.reserve");
    let owned = name("owned", "new long");
    let table = name("table[i]", "table[i] = i");
    let found = objects(&subject);
    assert_eq!(object(&found, &numbers), is("heap", [1000, 1000, 1, 8000]));
    assert_eq!(object(&found, &text), is("heap", [5000, 10_001, 1, 5001]));
    assert_eq!(object(&found, &owned), is("heap", [64, 64, 1, 512]));
    assert_eq!(object(&found, &table).1[2..], [300, 14_400]);
    let found = objects_by_function(&subject);
    assert_eq!(by(&found, &numbers, "numbers_"), [1000, 0]);
    assert_eq!(by(&found, &text, "text_"), [5000, 0]);
    assert_eq!(by(&found, &owned, "owned_"), [64, 64]);
    assert_eq!(by(&found, &table, "table_"), [300, 300]);
}

#[test]
fn collections_of_rust() {
    let subject = recorded("rustc", "owned.rs", &["-g", "-C", "opt-level=0"], &[]);
    let name = |variable: &str| format!("{variable} ({})", place("owned.rs", &format!("let mut {variable}")));
    let (numbers, table) = (name("numbers"), name("table"));
    let found = objects(&subject);
    assert_eq!(object(&found, &numbers), is("heap", [1000, 1000, 1, 8000]));
    assert_eq!(object(&found, &table).1[2..], [1, 512 * 16 + 512 + 16]);
    let found = objects_by_function(&subject);
    assert_eq!(by(&found, &numbers, "owned::numbers"), [1000, 0]);
    assert_eq!(by(&found, &table, "owned::table::{{closure}}"), [400, 0]);
}

#[test]
fn common_blocks_and_allocatable_arrays_of_fortran() {
    let subject = recorded("gfortran", "fields.f90", &["-O0", "-g"], &[]);
    let found = objects(&subject);
    assert_eq!(object(&found, "shared::x"), is("static", [100, 100, 1, 800]));
    assert_eq!(object(&found, "shared::y"), is("static", [0, 50, 1, 400]));
    let matrix = format!("matrix ({})", place("fields.f90", "allocate(matrix"));
    assert_eq!(object(&found, &matrix), is("heap", [600, 600, 1, 4800]));
    let found = refs(&subject);
    for (source, expected) in [
        ("x(i)", vec![[0, 100], [100, 0]]),
        ("matrix(i, j)", vec![[0, 600], [600, 0]]),
    ] {
        let mut rows = rows(&found, &[("source", source)]);
        rows.sort_by_key(|row| number(row, "pc"));
        assert_eq!(
            rows.iter().map(|row| counts(row)).collect::<Vec<_>>(),
            expected,
            "{source}"
        );
    }
}

/// Table II of the object-relative profiling paper, with a last level that is as much smaller than
/// its 4 MB as the arrays are than its 256 MB. The paper's own error is up to 2.04 %.
#[test]
fn read_and_write_ratios_at_the_last_level_are_exact() {
    const MEGABYTES: u64 = 8;
    const LINES: u64 = (MEGABYTES << 20) / 64;
    let subject = in_c("arrays.c", &[&MEGABYTES.to_string()]);
    let caches = [
        "--cache",
        "L1D=4K:64:8",
        "--cache",
        "L2=32K:64:8",
        "--cache",
        "L3=128K:64:16:inclusive:shared",
    ];
    let options = [&caches[..], &["--flush", "--by", "object,function"]].concat();
    let found = table(&subject, "objects", &options).found["objects"].clone();
    for written in 0..5 {
        let name = format!("a{written}");
        let name = format!("{name} ({})", place("arrays.c", &format!("{name} = aligned_alloc")));
        let row = row(&found, &[("name", &name), ("function", "walk")]);
        assert_eq!(counts(row), [LINES / 4 * (4 - written), LINES / 4 * written]);
        assert_eq!((number(row, "bytes"), number(row, "blocks")), (MEGABYTES << 20, 1));
        let last = &row["levels"]["L3"];
        let transfers = ["accesses", "misses", "writebacks"].map(|key| number(last, key));
        assert_eq!(transfers, [LINES, LINES, LINES / 4 * written], "{name}");
    }
}

/// Of real programs next to nothing is of no known object.
#[test]
fn everything_belongs_to_something() {
    let input = work_directory().join("objects-input");
    let words = (0..150_000u64).map(|i| format!("{} ", i * i % 997));
    std::fs::write(&input, words.collect::<String>()).unwrap_or_else(|e| panic!("{e}"));
    let query = "create table t(a, b);
        with recursive c(x) as (select 1 union all select x + 1 from c where x < 2000) insert into t select x, x * x % 97 from c;
        select b, count(*), sum(a) from t group by b order by 2, 1;";
    let script = "print(sum(len(str(i)) for i in range(20000)), sorted({i * i % 97: i for i in range(1000)}))";
    let programs: [(&str, &[&str]); 3] = [
        ("gzip", &["-6", "-n", "-c", &input.to_string_lossy()]),
        ("sqlite3", &["-batch", ":memory:", query]),
        ("python3", &["-c", script]),
    ];
    let of_system = |(name, args): (&str, &[&str])| {
        let recording = work_directory().join(format!("objects-{name}.mtr"));
        let program = std::path::Path::new("/usr/bin").join(name);
        Subject::record_to(recording, program, args)
    };
    let mut subjects: Vec<_> = programs.into_iter().map(of_system).collect();
    let kernel = source_path("tests/guests/fortran_array_loops.f90");
    let built = compiled("gfortran", "objects-kernel", &kernel, &["-O2", "-g"]);
    subjects.push(built.and_then(|program| Subject::record(program, &[])));
    for subject in subjects {
        let subject = subject.unwrap_or_else(|why| panic!("{why}"));
        let told = table(&subject, "objects", &CACHE).found;
        let (all, unknown) = unknown(&told["objects"]);
        assert_eq!(all, number(&told, "accesses"), "{}", subject.program.display());
        assert!(
            unknown * 1000 < all,
            "{}: {unknown} of {all}",
            subject.program.display()
        );
    }
}
