use super::*;

const MM: &str = "for (k = 0; k < MAT_DIM; k++)\n    xx[i][j]=xy[i][k]*xz[k][j]+xx[i][j];\n";
const ADI: &str = "\
for (i = 2; i < N; i++)
    x[i][k] = x[i][k] - x[i-1][k] * a[i][k] / b[i-1][k];
for (i = 2; i < N; i++)
    b[i][k] = b[i][k] - a[i][k] * a[i][k] / b[i-1][k];
";

fn point(access: Access, pattern: &str, line: u32) -> Point {
    let pattern = pattern.to_string();
    Point {
        access,
        data: Data::Variable { pattern, direct: false },
        position: None,
        file: Some("kernel.c".to_string()),
        line: Some(line),
        column: None,
    }
}

fn read(pattern: &str, line: u32) -> Point {
    point(Access::Read, pattern, line)
}

fn write(pattern: &str, line: u32) -> Point {
    point(Access::Write, pattern, line)
}

fn at(mut point: Point, at: i64) -> Point {
    point.position = Some(Position { key: 0, at });
    point
}

fn pointed(access: Access, line: u32, column: Option<u32>) -> Point {
    Point {
        data: Data::Object {
            name: None,
            pointer: None,
        },
        column,
        ..point(access, "", line)
    }
}

/// Name, source, and `?` if it is not certain.
fn named(points: &[Point], source: &str) -> Vec<String> {
    let text = |_: &str| Some(Rc::from(source));
    let show = |r: &Reference| {
        let open = if r.certain { "" } else { "?" };
        format!("{} {}{open}", r.name, r.source.as_deref().unwrap_or("-"))
    };
    references(points, text).iter().map(show).collect()
}

#[test]
fn the_paper_s_matrix_product() {
    let points = [
        read("xy[][]", 2),
        read("xz[][]", 2),
        read("xx[][]", 2),
        write("xx[][]", 2),
    ];
    let expected = [
        "xy_Read_0 xy[i][k]",
        "xz_Read_1 xz[k][j]",
        "xx_Read_2 xx[i][j]",
        "xx_Write_3 xx[i][j]",
    ];
    assert_eq!(named(&points, MM), expected);
    // Unrolled twice: the same again.
    let twice = [&points[..], &points[..]].concat();
    assert_eq!(named(&twice, MM)[5], "xz_Read_5 xz[k][j]");
}

#[test]
fn the_paper_s_adi_integration() {
    let points = [
        at(read("x[][]", 2), 0),
        read("a[][]", 2),
        read("b[][]", 2),
        at(read("x[][]", 2), 6400),
        write("x[][]", 2),
        read("a[][]", 4),
        read("a[][]", 4),
        at(read("b[][]", 4), 100),
        at(read("b[][]", 4), 6500),
        write("b[][]", 4),
    ];
    let expected = [
        "x_Read_0 x[i-1][k]",
        "a_Read_1 a[i][k]",
        "b_Read_2 b[i-1][k]",
        "x_Read_3 x[i][k]",
        "x_Write_4 x[i][k]",
        "a_Read_5 a[i][k]",
        "a_Read_6 a[i][k]",
        "b_Read_7 b[i-1][k]",
        "b_Read_8 b[i][k]",
        "b_Write_9 b[i][k]",
    ];
    assert_eq!(named(&points, ADI), expected);
    // One of the two was kept in a register: which, is open, unless the column tells.
    let mut one = read("x[][]", 2);
    assert_eq!(named(&[one.clone()], ADI), ["x_Read_0 x[i][k] | x[i-1][k]?"]);
    one.column = Some(31);
    assert_eq!(named(&[one], ADI), ["x_Read_0 x[i-1][k]"]);
    // Without positions: in the order of evaluation.
    let two = [read("x[][]", 2), read("x[][]", 2)];
    assert_eq!(named(&two, ADI), ["x_Read_0 x[i][k]?", "x_Read_1 x[i-1][k]?"]);
    // Moved out of the loop, to the line of the loop.
    assert_eq!(
        named(&[read("a[][]", 1), read("b[][]", 2)], ADI),
        ["a_Read_0 a[i][k]?", "b_Read_1 b[i-1][k]"]
    );
    assert_eq!(
        named(&[read("a[][]", 1), read("b[][]", 4)], ADI)[0],
        "a_Read_0 a[i][k]?"
    );
}

#[test]
fn scalars_and_loops_without_optimisation() {
    let scalar = |access, name: &str, line| Point {
        data: Data::Variable {
            pattern: name.to_string(),
            direct: true,
        },
        ..point(access, "", line)
    };
    let points = [
        scalar(Access::Write, "k", 1),
        scalar(Access::Read, "i", 2),
        scalar(Access::Read, "k", 2),
        read("xy[][]", 2),
        scalar(Access::Read, "k", 1),
        scalar(Access::Write, "k", 1),
    ];
    let expected = [
        "k_Write_0 k",
        "i_Read_1 i",
        "k_Read_2 k",
        "xy_Read_3 xy[i][k]",
        "k_Read_4 k",
        "k_Write_5 k",
    ];
    assert_eq!(named(&points, MM), expected);
}

#[test]
fn through_pointers() {
    let list = "n += p->v[2] + *q++; p = p->next;\n";
    // Columns as GCC gives them: of the bracket, the star and the arrow.
    let points = [
        pointed(Access::Read, 1, Some(10)),
        pointed(Access::Read, 1, Some(16)),
        pointed(Access::Read, 1, Some(27)),
    ];
    assert_eq!(
        named(&points, list),
        ["p->v_Read_0 p->v[2]", "q_Read_1 *q++", "p->next_Read_2 p->next"]
    );
    // No column, but the registers hold `p` and `q`.
    let through = |pointer: &str| Point {
        data: Data::Object {
            name: None,
            pointer: Some(pointer.to_string()),
        },
        ..pointed(Access::Read, 1, None)
    };
    let points = [through("p.next"), through("q"), through("p.value[]"), through("p.v[]")];
    let found = named(&points, list);
    assert_eq!(
        (found[0].as_str(), found[1].as_str()),
        ("p->next_Read_0 p->next", "q_Read_1 *q++")
    );
    assert_eq!(found[3], "p->v_Read_3 p->v[2]");
    // A vector's own fields are behind its name; a method's object is not named at all.
    let vector = "s += ps[i].y * w[i] + cells[i];\n";
    let points = [through("ps._M_impl._M_start"), through("this.cells"), through("w")];
    let expected = ["ps_Read_0 ps", "cells_Read_1 cells", "w_Read_2 w[i]"];
    assert_eq!(named(&points, vector), expected);
    assert_eq!(
        named(&[pointed(Access::Read, 1, None)], "s += n.v;\n"),
        ["n.v_Read_0 n.v"]
    );
    let rows = "s += rows[i][j];\n";
    // Two loads, of the row and of the element, as clang gives them; and one of a true array.
    let start = [pointed(Access::Read, 1, Some(6)), pointed(Access::Read, 1, Some(6))];
    assert_eq!(named(&start, rows), ["rows_Read_0 rows[i]?", "rows_Read_1 rows[i][j]?"]);
    assert_eq!(named(&start[..1], rows), ["rows_Read_0 rows[i][j]"]);
    // A global, reached through a pointer; a member, through `this`.
    let alias = "total += p->pos.x + size;\n";
    assert_eq!(
        named(&[read("grid[][].pos.x", 1)], alias),
        ["grid.pos.x_Read_0 p->pos.x"]
    );
    assert_eq!(
        named(&[read("outer::shapes[].size", 1)], alias),
        ["shapes.size_Read_0 size"]
    );
}

#[test]
fn without_a_source() {
    let none = |_: &str| None;
    let mut points = vec![read("m.xz[][]", 9), pointed(Access::Write, 9, None)];
    points.push(Point {
        data: Data::Stack,
        ..read("", 9)
    });
    points.push(Point {
        data: Data::Object {
            name: Some("heap:node".to_string()),
            pointer: None,
        },
        file: None,
        ..read("", 9)
    });
    for data in [Data::Constant, Data::Other] {
        points.push(Point { data, ..read("", 9) });
    }
    let found = references(&points, none);
    let names: Vec<&str> = found.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "m.xz_Read_0",
            "ref_Write_1",
            "stack_Read_2",
            "heap:node_Read_3",
            "const_Read_4",
            "ref_Read_5"
        ]
    );
    assert_eq!(found[0].variable.as_deref(), Some("m.xz[][]"));
    assert!(found.iter().all(|r| r.source.is_none() && !r.certain));
}

#[test]
fn fortran_arrays() {
    let source = "u(i, j) = u(i-1, j) + v(i, j)\n";
    let fortran = |mut p: Point| {
        p.file = Some("kernel.f90".to_string());
        p
    };
    let points = [
        fortran(read("grid::u(,)", 1)),
        fortran(read("v(,)", 1)),
        fortran(write("grid::u(,)", 1)),
    ];
    let expected = ["u_Read_0 u(i-1, j)", "v_Read_1 v(i, j)", "u_Write_2 u(i, j)"];
    assert_eq!(named(&points, source), expected);
}
