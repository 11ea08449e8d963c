use super::*;

fn expressions(text: &str, line: u32, language: Language) -> Vec<Expression> {
    Source::new(text, language).expressions(line)
}

/// `text R`, `text W` or `text RW`, prefixes in parentheses.
fn scan(language: Language, line: &str) -> Vec<String> {
    let show = |e: &Expression| {
        let uses = [(e.reads, "R"), (e.writes, "W")]
            .iter()
            .filter(|u| u.0)
            .map(|u| u.1)
            .collect::<String>();
        match e.partial {
            true => format!("({})", e.text),
            false => format!("{} {uses}", e.text),
        }
    };
    expressions(line, 1, language).iter().map(show).collect()
}

fn c(line: &str) -> Vec<String> {
    scan(Language::C, line)
}

#[test]
fn the_kernels_of_the_metric_paper() {
    assert_eq!(
        c("    xx[i][j]=xy[i][k]*xz[k][j]+xx[i][j];"),
        [
            "(xx)",
            "i R",
            "(xx[i])",
            "j R",
            "(xy)",
            "i R",
            "(xy[i])",
            "k R",
            "xy[i][k] R",
            "(xz)",
            "k R",
            "(xz[k])",
            "j R",
            "xz[k][j] R",
            "(xx)",
            "i R",
            "(xx[i])",
            "j R",
            "xx[i][j] R",
            "xx[i][j] W"
        ]
    );
    let line = "x[i][k] = x[i][k] - x[i-1][k] * a[i][k] / b[i - 1][k];";
    let whole: Vec<Expression> = expressions(line, 1, Language::C);
    let arrays: Vec<_> = whole.iter().filter(|e| e.constants.len() == 2).collect();
    let shown: Vec<_> = arrays
        .iter()
        .map(|e| (e.text.as_str(), e.skeleton.as_str(), &e.constants[..]))
        .collect();
    assert_eq!(
        shown,
        [
            ("x[i][k]", "x[i][k]", &[0, 0][..]),
            ("x[i-1][k]", "x[i][k]", &[-1, 0]),
            ("a[i][k]", "a[i][k]", &[0, 0]),
            ("b[i - 1][k]", "b[i][k]", &[-1, 0]),
            ("x[i][k]", "x[i][k]", &[0, 0]),
        ]
    );
    assert_eq!((arrays[1].columns.clone(), &line[20..29]), (21..30, "x[i-1][k]"));
    assert!(arrays[4].writes && !arrays[4].reads && !arrays[0].writes);
}

#[test]
fn pointers_members_and_calls() {
    assert_eq!(c("p = p->next;"), ["p R", "p->next R", "p W"]);
    assert_eq!(
        c("n += p->v[2] + *q++;"),
        ["n R", "p R", "(p->v)", "p->v[2] R", "q RW", "*q++ R", "n W"]
    );
    assert_eq!(
        c("(*p).x = grid[i].pos.y;"),
        ["p R", "(grid)", "i R", "grid[i].pos.y R", "(*p).x W"]
    );
    assert_eq!(expressions("(*p).x = 1;", 1, Language::C)[1].pattern, "p->x");
    assert_eq!(
        c("f(a[0], &b[j], sizeof(c[1]), (double)d);"),
        ["(a)", "a[0] R", "(b)", "j R", "d R"]
    );
    assert_eq!(
        c("++count; --*p; (*p)++;"),
        ["count RW", "p R", "*p RW", "p R", "*p RW"]
    );
    assert_eq!(c("for (int i = 0; i < n; i++)"), ["i W", "i R", "n R", "i RW"]);
    assert_eq!(
        c("double y = m.xy[i][k]; // z[1]"),
        ["(m.xy)", "i R", "(m.xy[i])", "k R", "m.xy[i][k] R", "y W"]
    );
    assert_eq!(
        c("return a && *b == c[1] /* d */ ? e : 'x';"),
        ["a R", "b R", "*b R", "(c)", "c[1] R", "e R"]
    );
    assert_eq!(
        c("((struct node *)q)->value = 3;"),
        ["q R", "((struct node *)q)->value W"]
    );
    assert_eq!(
        c("x *= y[1]; x <<= 2; b = x <= 3;"),
        ["x R", "(y)", "y[1] R", "x W", "x R", "x W", "x R", "b W"]
    );
    assert_eq!(c("items.push_back(v[i]);"), ["items RW", "(v)", "i R", "v[i] R"]);
    assert_eq!(
        c("get(a)->next[1] = 2;"),
        ["a R", "(get(a)->next)", "get(a)->next[1] W"]
    );
    assert_eq!(
        c("outer::shapes[0].first += 1;"),
        [
            "(outer::shapes)",
            "outer::shapes[0].first R",
            "outer::shapes[0].first W"
        ]
    );
    assert_eq!(
        expressions("outer::shapes[0].first = 1;", 1, Language::C)[1].pattern,
        "shapes[].first"
    );
}

#[test]
fn rust_lines() {
    let found = c("self.data[i * n + j] = other.data[j] as f64;");
    assert_eq!(
        found,
        [
            "(self.data)",
            "i R",
            "n R",
            "j R",
            "(other.data)",
            "j R",
            "other.data[j] R",
            "self.data[i * n + j] W"
        ]
    );
    assert_eq!(c("let mut s: &'a str = &names[0..n];"), ["(names)", "n R", "s W"]);
    assert_eq!(
        c("sum += v.iter().map(|x| x.0 * table[x.1]).sum::<f64>();")
            .last()
            .unwrap(),
        "sum W"
    );
    assert_eq!(c("*slot = Some(x);"), ["slot R", "x R", "*slot W"]);
}

#[test]
fn fortran_lines() {
    let f = |line| scan(Language::Fortran, line);
    assert_eq!(
        f("  u(i, 1) = u(I, 0) + 1 ! v(2)"),
        ["(u)", "i R", "(u)", "I R", "u(I, 0) R", "u(i, 1) W"]
    );
    assert_eq!(
        f("if (a%b(k) .gt. c) call touch(d(3), 'x(1)')"),
        ["(a%b)", "k R", "a%b(k) R", "c R", "(d)", "d(3) R"]
    );
    assert_eq!(f("do i = 1, n"), ["i W", "n R"]);
    let two = "x(i) = y(i) + &\n    & z(i-1)\n";
    let at_second = expressions(two, 2, Language::Fortran);
    let arrays: Vec<_> = at_second
        .iter()
        .filter(|e| !e.constants.is_empty())
        .map(|e| (e.text.as_str(), e.line))
        .collect();
    assert_eq!(arrays, [("y(i)", 1), ("z(i-1)", 2), ("x(i)", 1)]);
    assert_eq!(at_second.iter().find(|e| e.text == "z(i-1)").unwrap().pattern, "z()");
    let fixed = "      x(i) = y(i)\n     & + z(i)\nC     w(1) = 2\n";
    let found = expressions(fixed, 1, Language::FixedFortran);
    assert!(found.iter().any(|e| e.text == "z(i)") && !found.iter().any(|e| e.text == "w(1)"));
}

#[test]
fn statements_over_several_lines() {
    let source = "    a[i] = b[i]\n        + c[i];\n    d[i] = 1;\n";
    let of = |line| {
        let found = expressions(source, line, Language::C);
        found
            .into_iter()
            .filter(|e| !e.constants.is_empty())
            .map(|e| (e.text, e.line))
            .collect::<Vec<_>>()
    };
    let first = [
        ("b[i]".to_string(), 1),
        ("c[i]".to_string(), 2),
        ("a[i]".to_string(), 1),
    ];
    assert_eq!(of(1), first);
    assert_eq!(of(2), first);
    assert_eq!(of(3), [("d[i]".to_string(), 3)]);
    assert_eq!((of(0), of(9)), (vec![], vec![]));
}

#[test]
fn any_text_is_scanned() {
    for text in [
        "((((((",
        "]]]",
        "a[",
        "*",
        "&&&&",
        "a->",
        "a.",
        "'",
        "\"",
        "sizeof(",
        "x = = =",
        "é[ü] = ß;",
        "call",
        "/*",
        "a(",
        "--",
    ] {
        for language in [Language::C, Language::Fortran, Language::FixedFortran] {
            let _ = expressions(text, 1, language);
        }
    }
    let deep = "a[".repeat(5000);
    let _ = expressions(&deep, 1, Language::C);
    let _ = expressions(&"(".repeat(5000), 1, Language::C);
    let _ = expressions(&"*".repeat(5000), 1, Language::C);
}
