use super::*;
use std::collections::HashMap;

fn frame(function: &str, line: u32) -> StackFrame {
    StackFrame {
        function: function.into(),
        file: "a.c".into(),
        line,
        module: "prog".into(),
    }
}

fn profile() -> Profile {
    let sample = |stack: Vec<StackFrame>, words: &str, values: [u64; 3]| Sample {
        stack,
        words: words.into(),
        object: Some("B".into()),
        thread: Some(7),
        values: values.to_vec(),
    };
    Profile {
        command: "./prog\nx".into(),
        events: ["Reads", "Writes", "L1_misses"].map(String::from).to_vec(),
        samples: vec![
            sample(vec![frame("main", 3), frame("f", 9)], "B[i]", [100, 0, 50]),
            sample(vec![frame("main", 3), frame("f", 10)], "A;[i]", [10, 1, 0]),
            // f calls itself.
            sample(vec![frame("main", 3), frame("f", 9), frame("f", 9)], "B[i]", [1, 0, 1]),
            sample(vec![frame("main", 2)], "x", [5, 5, 5]),
        ],
    }
}

#[test]
fn calls_are_read_as_paths_have_them() {
    assert_eq!(frame_of("main (a.c:3)", "prog+0x10"), frame("main", 3));
    let nameless = StackFrame {
        function: "main".into(),
        file: String::new(),
        line: 0,
        module: "prog".into(),
    };
    assert_eq!(frame_of("main (prog+0x10)", "prog+0x10"), nameless);
    assert_eq!(frame_of("f(int) (a.c:3)", "prog+0x10"), frame("f(int)", 3));
    let signal = StackFrame {
        function: "signal 11".into(),
        file: String::new(),
        line: 0,
        module: String::new(),
    };
    assert_eq!(frame_of("signal 11", "signal 11"), signal);
}

#[test]
fn callgrinds_own_costs_and_calls() {
    let text = callgrind(&profile());
    assert!(text.contains("cmd: ./prog?x\n"), "{text}");
    assert!(text.contains("events: Reads Writes L1_misses\n"));
    assert!(
        text.contains("fn=f\n9 101 0 51\n10 10 1 0\ncob=prog\ncfi=a.c\ncfn=f\ncalls=1 0\n9 1 0 1\n"),
        "{text}"
    );
    assert!(
        text.contains("fn=main\n2 5 5 5\ncob=prog\ncfi=a.c\ncfn=f\ncalls=1 0\n3 111 1 51\n"),
        "{text}"
    );
    assert!(text.ends_with("totals: 116 6 56\n"));
}

#[test]
fn stacks_are_collapsed() {
    assert_eq!(collapsed(&profile(), 2), "main;f;B[i] 50\nmain;f;f;B[i] 1\nmain;x 5\n");
    assert!(collapsed(&profile(), 0).contains("main;f;A,[i] 10\n"));
}

/// Fields of a message, as the wire has them: number, value or bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (&byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = varint(&mut bytes);
        match key & 7 {
            0 => found.push((key >> 3, value, &[][..])),
            2 => {
                let (text, rest) = bytes.split_at(value as usize);
                bytes = rest;
                found.push((key >> 3, value, text));
            }
            wire => panic!("wire type {wire}"),
        }
    }
    found
}

/// Read by a decoder of the wire format that knows `profile.proto` only.
#[test]
fn pprof_has_stacks_values_and_labels() {
    let bytes = pprof(&profile());
    let all = fields(&bytes);
    let of = |number: u64| all.iter().filter(move |(field, ..)| *field == number);
    let strings: Vec<&str> = of(6).map(|(_, _, text)| std::str::from_utf8(text).unwrap()).collect();
    assert_eq!(strings[0], "");
    let get = |message: &[u8], number: u64| fields(message).iter().find(|(field, ..)| *field == number).map(|f| f.1);
    let types: Vec<&str> = of(1).map(|(_, _, m)| strings[get(m, 1).unwrap() as usize]).collect();
    assert_eq!(types, ["Reads", "Writes", "L1_misses"]);
    let functions: HashMap<u64, &str> = of(5)
        .map(|(_, _, m)| (get(m, 1).unwrap(), strings[get(m, 2).unwrap() as usize]))
        .collect();
    let locations: HashMap<u64, (u64, u64)> = of(4)
        .map(|(_, _, m)| {
            let line = fields(m).into_iter().find(|(field, ..)| *field == 4).unwrap().2;
            (get(m, 1).unwrap(), (get(line, 1).unwrap(), get(line, 2).unwrap()))
        })
        .collect();
    let first = of(2).next().unwrap().2;
    let part = |number: u64| {
        fields(first)
            .into_iter()
            .find(|(field, ..)| *field == number)
            .unwrap()
            .2
    };
    let stack: Vec<(&str, u64)> = part(1)
        .iter()
        .map(|id| locations[&u64::from(*id)])
        .map(|(f, line)| (functions[&f], line))
        .collect();
    assert_eq!(stack, [("f", 9), ("main", 3)], "the innermost first");
    assert_eq!(part(2), [100, 0, 50]);
    let labels: Vec<(&str, u64)> = fields(first)
        .into_iter()
        .filter(|(field, ..)| *field == 3)
        .map(|(_, _, m)| (strings[get(m, 1).unwrap() as usize], get(m, 2).or(get(m, 3)).unwrap()))
        .collect();
    assert_eq!(labels[0].0, "reference");
    assert_eq!(strings[labels[0].1 as usize], "B[i]");
    assert_eq!((labels[1].0, strings[labels[1].1 as usize]), ("object", "B"));
    assert_eq!(labels[2], ("thread", 7));
    assert_eq!(of(2).count(), 4);
    let default = of(14).next().unwrap().1;
    assert_eq!(strings[default as usize], "L1_misses");
}
