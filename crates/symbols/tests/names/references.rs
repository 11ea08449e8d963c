//! Reference points of compiled kernels, named as in the METRIC paper.
use crate::build::{build, function, open, symbols};
use memtrail_symbols::code::Role;
use memtrail_symbols::reference::Access;
use memtrail_symbols::{Module, Options, Place, Seen, Store, Target, RBP, RSP};

/// The points of a function. What they access is told from the operands alone, which is enough where globals are addressed directly.
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
        assert_eq!(
            pointed,
            ["*q++", "p->next", "p->value[2]"],
            "{compiler} {flags}: {found:?}"
        );
    }
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
