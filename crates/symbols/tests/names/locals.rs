//! Locals and parameters, and the stack accesses that are to them.
use crate::build::{build, function, open};
use memtrail_symbols::{Home, Local, Module, Store};

/// The accesses of a function to its own locals, in the order of the code: `p R`, `calls[1] W`.
fn stack_accesses(module: &Module<'_>, name: &str) -> Vec<String> {
    let range = function(module, name).range;
    let (mut pc, mut found) = (range.start, Vec::new());
    while pc < range.end {
        let instruction = module.instruction_at(pc).expect("code");
        for operand in instruction.operands.iter().filter(|o| !o.implicit) {
            let Some((local, at)) = module.local_of(pc, operand) else {
                continue;
            };
            let path = local.ty.as_ref().map(|ty| ty.path(&local.name, at, true));
            let path = path.unwrap_or(local.name);
            if operand.read {
                found.push(format!("{path} R"));
            }
            if operand.write {
                found.push(format!("{path} W"));
            }
        }
        pc += instruction.len as u64;
    }
    found
}

#[test]
fn scalars_on_the_stack() {
    // Without optimisation the compilers agree on what is done, not on how often it is loaded.
    let built = build("shapes.c", "gcc", &["-g", "-O0"]);
    let store = Store::default();
    let module = open(&store, &built.program);
    let expected = [
        "p W", "n W", "sum W", "i W", "i R", "p R", "sum R", "a W", "b W", "a R", "b R", "sum W", "i R", "i W", "i R",
        "n R", "n R", "sum R",
    ];
    let found = stack_accesses(&module, "use");
    // The increment may be one instruction or two.
    assert_eq!(found, expected);
    let main = stack_accesses(&module, "main");
    let initialised: Vec<&str> = main
        .iter()
        .map(String::as_str)
        .filter(|a| a.starts_with("local["))
        .collect();
    assert_eq!(initialised, ["local[0] W", "local[1] W", "local[2] W", "local[3] W"]);
    assert!(
        main.contains(&"here.x W".to_string()) && main.contains(&"here.y R".to_string()),
        "{main:?}"
    );
}

#[test]
fn frames_of_every_kind() {
    let kinds: [(&str, &[&str]); 5] = [
        ("gcc", &["-g", "-O0"]),
        ("gcc", &["-g", "-O0", "-fomit-frame-pointer"]),
        ("clang", &["-g", "-O0"]),
        ("gcc", &["-gdwarf-4", "-gsplit-dwarf"]),
        ("clang", &["-g", "-O0", "-fomit-frame-pointer"]),
    ];
    for (compiler, flags) in kinds {
        let built = build("shapes.c", compiler, flags);
        let store = Store::default();
        let module = open(&store, &built.program);
        let accesses = stack_accesses(&module, "use");
        for access in ["p W", "n W", "sum W", "i W", "i R", "p R", "b W", "a R", "n R", "sum R"] {
            assert!(
                accesses.contains(&access.to_string()),
                "{compiler} {flags:?}: {access} in {accesses:?}"
            );
        }
        let main = function(&module, "main").range;
        // In the body, where frame and blocks are set up.
        let locals = module.locals_at(main.start + (main.end - main.start) / 2);
        let named = |name: &str| -> &Local { locals.iter().find(|l| l.name == name).expect(name) };
        assert_eq!(
            (named("local").size, named("here").size, named("argc").parameter),
            (16, 16, true)
        );
        let Home::Frame(at) = named("local").home else {
            panic!("{compiler} {flags:?}: {locals:?}")
        };
        assert!((-200..0).contains(&at), "{at}");
    }
}

#[test]
fn locals_of_optimised_code_are_in_registers() {
    let built = build("shapes.c", "gcc", &["-g", "-O2"]);
    let store = Store::default();
    let module = open(&store, &built.program);
    let start = function(&module, "use").range.start;
    let locals = module.locals_at(start);
    // rdi and rsi, as DWARF numbers them.
    let homes: Vec<(&str, Home)> = locals
        .iter()
        .filter(|l| l.parameter)
        .map(|l| (l.name.as_str(), l.home))
        .collect();
    assert_eq!(homes, [("p", Home::Register(5)), ("n", Home::Register(4))]);
    let calls = locals.iter().find(|l| l.name == "calls").unwrap();
    assert!(matches!(calls.home, Home::Fixed(_)), "{calls:?}");
}
