//! Reference points of compiled kernels, named as in the METRIC paper.
use crate::build::{build, function, open, symbols};
use memtrail_symbols::code::Role;
use memtrail_symbols::reference::Access;
use memtrail_symbols::{Module, Options, Place, Seen, Shape, Store, Target, RBP, RSP};

/// The points of a function. What they access is told from the operands alone, which is enough
/// where globals are addressed directly.
fn seen(module: &Module<'_>, name: &str) -> Vec<Seen> {
    let range = function(module, name).range;
    let (mut pc, mut found) = (range.start, Vec::new());
    while pc < range.end {
        let instruction = module.instruction_at(pc).expect("code");
        for operand in &instruction.operands {
            let target = match operand.base {
                Some(RBP | RSP) => Target::Stack,
                _ if instruction.role != Role::Data => Target::Stack,
                _ => match module.variable_at(operand.displacement as u64) {
                    Some(_) => Target::Static(operand.displacement as u64),
                    None => Target::Object(None),
                },
            };
            for (does, access) in [(operand.read, Access::Read), (operand.write, Access::Write)] {
                let target = target.clone();
                found.extend(does.then_some(Seen {
                    pc,
                    access,
                    target,
                    lowest: None,
                }));
            }
        }
        pc += instruction.len as u64;
    }
    found
}

/// Names and sources, of points other than scalars on the stack.
fn named(compiler: &str, flags: &[&str], name: &str, scalars: bool) -> Vec<String> {
    let built = build("kernels.c", compiler, flags);
    let store = Store::default();
    let module = open(&store, &built.program);
    let symbols = symbols(&store, Options::default());
    let all = symbols.references(&module, &seen(&module, name));
    let show = |r: &memtrail_symbols::reference::Reference| {
        let open = if r.certain || r.source.is_none() { "" } else { "?" };
        format!("{} {}{open}", r.name, r.source.as_deref().unwrap_or("-"))
    };
    let wanted = all
        .iter()
        .filter(|r| scalars || r.source.as_deref().is_none_or(|s| s.contains(['[', '*', '>'])));
    wanted.map(show).collect()
}

const STATIC: &[&str] = &["-g", "-no-pie", "-fno-pie"];

#[test]
fn matrix_product_without_optimisation() {
    let found = named("gcc", &[STATIC, &["-O0"]].concat(), "mm", true);
    let expected = [
        "stack_Write_0 -",
        "i_Write_1 i",
        "j_Write_2 j",
        "k_Write_3 k",
        "k_Read_4 k",
        "i_Read_5 i",
        "xy_Read_6 xy[i][k]",
        "j_Read_7 j",
        "k_Read_8 k",
        "xz_Read_9 xz[k][j]",
        "j_Read_10 j",
        "i_Read_11 i",
        "xx_Read_12 xx[i][j]",
        "j_Read_13 j",
        "i_Read_14 i",
        "xx_Write_15 xx[i][j]",
        "k_Read_16 k",
        "k_Write_17 k",
    ];
    assert_eq!(found[..expected.len()], expected);
}

#[test]
fn adi_without_optimisation() {
    let arrays = |found: Vec<String>| -> Vec<String> {
        let sources = found.iter().filter(|name| name.contains('['));
        sources
            .map(|name| name.split_once(' ').unwrap().1.to_string())
            .collect()
    };
    let found = arrays(named("gcc", &[STATIC, &["-O0"]].concat(), "adi", false));
    let expected = [
        "x[i][k]",
        "x[i-1][k]",
        "a[i][k]",
        "b[i-1][k]",
        "x[i][k]",
        "b[i][k]",
        "a[i][k]",
        "a[i][k]",
        "b[i-1][k]",
        "b[i][k]",
    ];
    assert_eq!(found, expected);
}

#[test]
fn list_through_pointers() {
    for (compiler, flags) in [("gcc", "-O0"), ("gcc", "-O1"), ("clang", "-O0")] {
        let found = named(compiler, &[STATIC, &[flags]].concat(), "sum", false);
        let mut pointed: Vec<&str> = found
            .iter()
            .filter_map(|name| name.split_once(' '))
            .map(|(_, s)| s)
            .filter(|s| *s != "-")
            .collect();
        pointed.sort_unstable();
        // Clang gives the load of `*q++` the column of the addition, so that the order has to tell.
        let expected = match compiler {
            "clang" => ["*q++?", "p->next", "p->value[2]?"],
            _ => ["*q++", "p->next", "p->value[2]"],
        };
        assert_eq!(pointed, expected, "{compiler} {flags}: {found:?}");
    }
}

/// The guests of the cache tests, whose matrices are in one struct: `fields` in the order in which
/// the kernel's code accesses them.
fn guest(source: &str, flags: &[&str], fields: &[&str]) -> Vec<String> {
    let built = build(source, "gcc", flags);
    let store = Store::default();
    let module = open(&store, &built.program);
    let m = module.variables().iter().find(|v| v.name == "m").expect("the struct");
    let (Place::Static(begin), Shape::Struct(all)) = (m.place, &m.ty.as_ref().unwrap().shape) else {
        panic!()
    };
    let offset = |field: &str| all.iter().find(|f| f.name == field).expect(field).offset;
    let mut seen: Vec<Seen> = seen(&module, "kernel")
        .into_iter()
        .filter(|s| s.target != Target::Stack)
        .collect();
    assert_eq!(seen.len(), fields.len());
    for (seen, field) in seen.iter_mut().zip(fields) {
        // Rows before the current one are told by a mark, and lie lower.
        let (row, field) = field.strip_prefix('-').map_or((1, *field), |field| (0, field));
        seen.target = Target::Static(begin + offset(field));
        seen.lowest = Some(begin + offset(field) + row * 6400);
    }
    let symbols = symbols(&store, Options::default());
    let named = symbols.references(&module, &seen);
    named
        .iter()
        .map(|r| format!("{} {}", r.name, r.source.as_deref().unwrap_or("-")))
        .collect()
}

#[test]
fn the_guests_of_the_cache_tests() {
    let flags = ["-g", "-O1", "-static", "-fno-pie", "-no-pie"];
    let found = guest("../../../tests/metric/mm.c", &flags, &["xy", "xz", "xx", "xx"]);
    let expected = [
        "m.xy_Read_0 m.xy[i][k]",
        "m.xz_Read_1 m.xz[k][j]",
        "m.xx_Read_2 m.xx[i][j]",
        "m.xx_Write_3 m.xx[i][j]",
    ];
    assert_eq!(found, expected);
    let fields = ["-x", "a", "-b", "x", "x", "a", "a", "-b", "b", "b"];
    let found = guest(
        "../../../tests/metric/adi.c",
        &[&flags[..], &["-DFUSED"]].concat(),
        &fields,
    );
    let expected = [
        "m.x_Read_0 m.x[i - 1][k]",
        "m.a_Read_1 m.a[i][k]",
        "m.b_Read_2 m.b[i - 1][k]",
        "m.x_Read_3 m.x[i][k]",
        "m.x_Write_4 m.x[i][k]",
        "m.a_Read_5 m.a[i][k]",
        "m.a_Read_6 m.a[i][k]",
        "m.b_Read_7 m.b[i - 1][k]",
        "m.b_Read_8 m.b[i][k]",
        "m.b_Write_9 m.b[i][k]",
    ];
    assert_eq!(found, expected);
}

#[test]
fn globals_have_places() {
    let built = build("kernels.c", "gcc", STATIC);
    let store = Store::default();
    let module = open(&store, &built.program);
    let arrays = module
        .variables()
        .iter()
        .filter(|v| v.size == 3200 && matches!(v.place, Place::Static(_)));
    let mut names: Vec<&str> = arrays.map(|v| v.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b", "x", "xx", "xy", "xz"]);
}
