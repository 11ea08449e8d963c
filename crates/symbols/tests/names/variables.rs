//! Variables and their types.
use crate::build::{build, function, open};
use memtrail_symbols::{Module, Place, Shape, Store, Variable};

fn variable<'m>(module: &'m Module<'_>, name: &str) -> &'m Variable {
    let found: Vec<&Variable> = module.variables().iter().filter(|v| v.name == name).collect();
    match found[..] {
        [one] => one,
        _ => panic!("{name}: {found:?}"),
    }
}

/// Type's name and size, dimensions if it is an array, and the path to an offset.
fn check(module: &Module<'_>, name: &str, ty: &str, size: u64, dims: &[(i64, u64)]) {
    let variable = variable(module, name);
    let described = variable.ty.as_ref().unwrap_or_else(|| panic!("{name} has no type"));
    assert_eq!((described.name.as_str(), variable.size), (ty, size), "{name}");
    let found: Vec<(i64, u64)> = match &described.shape {
        Shape::Array { dims, .. } => dims.iter().map(|d| (d.lower, d.count.unwrap_or(0))).collect(),
        _ => Vec::new(),
    };
    assert_eq!(found, dims, "{name}");
    if let Place::Static(vaddr) = variable.place {
        let last = vaddr + variable.size - 1;
        assert_eq!(module.variable_at(last).map(|v| v.name.as_str()), Some(name));
    }
}

fn check_shapes(module: &Module<'_>) {
    check(module, "matrix", "double [8][9]", 576, &[(0, 8), (0, 9)]);
    check(module, "grid", "cell_t [3][5]", 480, &[(0, 3), (0, 5)]);
    check(module, "counter", "int", 4, &[]);
    check(module, "message", "char *", 8, &[]);
    check(module, "list", "node *", 8, &[]);
    check(module, "use::calls", "int [2]", 8, &[(0, 2)]);
    check(module, "per_thread", "int", 4, &[]);
    check(module, "another", "double [4]", 32, &[(0, 4)]);
    let grid = variable(module, "grid");
    assert_eq!(grid.describe(0, true), "grid[0][0].id");
    assert_eq!(grid.describe((5 + 2) * 32 + 16, true), "grid[1][2].pos.y");
    assert_eq!(grid.describe((5 + 2) * 32 + 16, false), "grid[][].pos.y");
    assert_eq!(grid.describe((2 * 5 + 4) * 32 + 26, true), "grid[2][4].tag[2]");
    // Padding behind `id`.
    assert_eq!(grid.describe(5, true), "grid[0][0]");
    let cell = grid.ty.as_ref().unwrap().element();
    let Shape::Struct(fields) = &cell.shape else {
        panic!("{cell:?}")
    };
    let fields: Vec<_> = fields
        .iter()
        .map(|f| (f.name.as_str(), f.offset, f.ty.name.as_str(), f.ty.size))
        .collect();
    let expected = [
        ("id", 0, "int", Some(4)),
        ("pos", 8, "point", Some(16)),
        ("tag", 24, "char [4]", Some(4)),
    ];
    assert_eq!((fields, cell.size), (expected.to_vec(), Some(32)));
    assert_eq!(variable(module, "m").describe(512 + 8 * (8 + 3), false), "m.xy[][]");
    assert_eq!(variable(module, "either").describe(0, true), "either.i");
    let nested = variable(module, "nested");
    assert_eq!(
        (nested.describe(4, true), nested.describe(11, true)),
        ("nested.b".into(), "nested.high".into())
    );
    let Shape::Pointer(pointee) = variable(module, "list").ty.as_ref().unwrap().shape else {
        panic!()
    };
    let node = module.pointee(pointee).unwrap();
    assert_eq!(
        (node.path("*list", 8, true), node.size),
        ("*list.value".to_string(), Some(16))
    );
    // The zero-initialised block lies behind the initialised one.
    let tls = module.tls().unwrap();
    assert!(tls.memsz >= 36, "{tls:?}");
    let Place::Tls(at) = variable(module, "another").place else {
        panic!()
    };
    assert_eq!(module.tls_variable_at(at + 8).unwrap().describe(8, true), "another[1]");
    assert!(matches!(variable(module, "per_thread").place, Place::Tls(_)));
}

#[test]
fn shapes_of_c() {
    let kinds: &[(&str, &[&str])] = &[
        ("gcc", &["-g"]),
        ("gcc", &["-gdwarf-4", "-O2"]),
        ("gcc", &["-gdwarf-5", "-static"]),
        ("gcc", &["-gdwarf-4", "-fdebug-types-section"]),
        ("gcc", &["-gdwarf-5", "-fdebug-types-section"]),
        ("gcc", &["-g", "-gsplit-dwarf"]),
        ("gcc", &["-gdwarf-4", "-gsplit-dwarf", "-no-pie"]),
        ("gcc", &["-g", "-shared", "-fPIC"]),
        ("clang", &["-g"]),
        ("clang", &["-g", "-gdwarf-4"]),
    ];
    for (compiler, flags) in kinds {
        println!("{compiler} {flags:?}");
        let built = build("shapes.c", compiler, flags);
        let store = Store::default();
        check_shapes(&open(&store, &built.program));
    }
}

#[test]
fn thread_locals_are_where_the_program_has_them() {
    for flags in [&["-g"][..], &["-g", "-static"], &[]] {
        let built = build("threads.c", "gcc", flags);
        let store = Store::default();
        let module = open(&store, &built.program);
        let block = module.tls().unwrap().executable_offset();
        let output = std::process::Command::new(&built.program).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let told: Vec<(&str, &str)> = output.lines().filter_map(|line| line.split_once(' ')).collect();
        assert_eq!(told.len(), 3);
        for (name, offset) in told {
            let Place::Tls(at) = variable(&module, name).place else {
                panic!("{name}")
            };
            assert_eq!(block + at as i64, offset.parse::<i64>().unwrap(), "{name} {flags:?}");
        }
    }
}

#[test]
fn classes_of_cpp() {
    for (compiler, flags) in [("g++", ["-g"]), ("clang++", ["-g"]), ("g++", ["-gdwarf-4"])] {
        println!("{compiler} {flags:?}");
        let built = build("classes.cpp", compiler, &flags);
        let store = Store::default();
        let module = open(&store, &built.program);
        check(&module, "outer::hidden", "int", 4, &[]);
        check(&module, "outer::Shape::made", "int", 4, &[]);
        check(&module, "outer::Shape::area::asked", "int", 4, &[]);
        check(&module, "outer::box", "Box<int>", 4, &[]);
        check(&module, "outer::shapes", "Shape [2]", 32, &[(0, 2)]);
        let count = variable(&module, "outer::Shape::count");
        assert_eq!((count.size, count.short_name()), (8, "count"));
        let shapes = variable(&module, "outer::shapes");
        assert_eq!(shapes.describe(16, true), "outer::shapes[1].first");
        assert_eq!(shapes.describe(24, false), "outer::shapes[].size");
        for (name, line) in [("outer::Shape::area", 17), ("outer::Box<int>::get", 24), ("main", 31)] {
            let first = module.locate_vaddr(function(&module, name).range.start);
            assert_eq!(first.frames[0].line, Some(line), "{name}");
        }
    }
}

#[test]
fn fields_of_fortran() {
    let built = build("fields.f90", "gfortran", &["-g"]);
    let store = Store::default();
    let module = open(&store, &built.program);
    check(&module, "grid::u", "real(kind=8)(4,6)", 192, &[(1, 4), (0, 6)]);
    check(&module, "grid::steps", "integer(kind=4)", 4, &[]);
    check(&module, "blk::a", "real(kind=8)(10,3)", 240, &[(1, 10), (1, 3)]);
    check(&module, "blk::b", "real(kind=8)", 8, &[]);
    check(&module, "blk::flags", "integer(kind=4)(2)", 8, &[(1, 2)]);
    let u = variable(&module, "grid::u");
    assert_eq!(u.describe(8 * (2 + 4), true), "grid::u(3,1)");
    assert_eq!(u.describe(8, false), "grid::u(,)");
    let work = variable(&module, "grid::work");
    let Shape::Array { descriptor, dims, .. } = &work.ty.as_ref().unwrap().shape else {
        panic!()
    };
    // The descriptor of one dimension.
    assert_eq!((*descriptor, dims.len(), dims[0].count, work.size), (true, 1, None, 64));
    for (name, line) in [("grid::advance", 12), ("touch", 24), ("simulate", 32)] {
        let range = function(&module, name).range;
        let mut all = range.map(|pc| module.locate_vaddr(pc));
        assert!(all.any(|l| l.frames[0].line == Some(line)), "{name}");
    }
}

#[test]
fn statics_of_rust() {
    let built = build("statics.rs", "rustc", &["-g", "-Cpanic=abort"]);
    let store = Store::default();
    let module = open(&store, &built.program);
    check(&module, "statics::deep::TABLE", "u16 [2][3]", 12, &[(0, 2), (0, 3)]);
    check(&module, "statics::deep::PAIRS", "Pair [2]", 16, &[(0, 2)]);
    assert_eq!(
        variable(&module, "statics::deep::PAIRS").describe(12, true),
        "statics::deep::PAIRS[1].right"
    );
    assert_eq!(variable(&module, "statics::HITS").size, 4);
    let range = function(&module, "statics::hit").range;
    let inlined = range.map(|pc| module.locate_vaddr(pc)).find(|l| l.frames.len() > 1);
    let inlined = inlined.expect("fetch_add is inlined at least in part");
    let user = inlined.user_frame().unwrap();
    assert_eq!(user.function.as_deref(), Some("statics::hit"));
    assert!(user.file.as_deref().is_some_and(|f| f.ends_with("statics.rs")));
}
