//! What was found, for people: where the walks are, and what to do about them.
use super::found::{Found, Row};
use memtrail_paging::PageSize;
use memtrail_report::format::{bytes, percent, thousands};
use memtrail_report::{Align, Columns, Dimension};
use std::fmt::Write;

/// Translation that takes less of the memory time than this is left alone, in percent.
const WORTH: f64 = 1.0;

fn share(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        _ => 100.0 * part as f64 / whole as f64,
    }
}

pub fn report(found: &Found, top: usize) -> String {
    let mut text = summary(found);
    text += &working_set(found);
    text.push('\n');
    text += &table(found, top);
    if found.by == [Dimension::Object] {
        text.push('\n');
        text += &advice(found);
    }
    text
}

fn summary(found: &Found) -> String {
    let (total, machine) = (&found.total, &found.machine);
    let counts = &total.translations;
    let memory = total.cycles() + total.data_cycles;
    let mut text = format!("TLBs ({}): {}\n", machine.tlb_source, machine.tlbs);
    let levels: Vec<String> = machine.caches.levels.iter().map(ToString::to_string).collect();
    let _ = writeln!(text, "caches ({}): {}", machine.source, levels.join(" "));
    let _ = writeln!(
        text,
        "{} accesses: {} TLB misses, {} walks, {} walk requests, {} of them to memory",
        thousands(found.accesses),
        thousands(counts.misses[0]),
        thousands(counts.walks),
        thousands(counts.requests),
        thousands(total.walks.memory),
    );
    let _ = writeln!(
        text,
        "translation takes {} cycles, {:.1}% of the time for memory",
        thousands(total.cycles()),
        share(total.cycles(), memory)
    );
    text
}

fn working_set(found: &Found) -> String {
    let largest = found.windows.iter().max().copied().unwrap_or(0);
    let arrays = found.machine.tlbs.arrays.iter();
    let small = arrays.filter(|array| array.sizes.contains(&PageSize::SMALL));
    let holds = small.map(|array| u64::from(array.entries)).max().unwrap_or(0);
    format!(
        "working set: {} pages of 4K ({}); up to {} in {} accesses; the largest TLB holds {}\n",
        thousands(found.pages),
        bytes(found.pages * 4096),
        thousands(largest),
        thousands(found.window),
        thousands(holds),
    )
}

fn table(found: &Found, top: usize) -> String {
    let with_huge = found.rows.iter().any(|row| row.huge.is_some());
    let right = |name: &str| (name.to_string(), Align::Right);
    let mut head: Vec<(String, Align)> = found.by.iter().map(|by| (by.word().to_string(), Align::Left)).collect();
    head.extend(["pages", "TLB misses", "walks", "requests", "to memory", "cycles", "%"].map(right));
    if with_huge {
        head.extend(["huge: walks", "cycles saved", "2M pages", "wasted"].map(right));
        let at = head.len() - 2;
        head[at].0 = format!("{} pages", found.page_size);
    }
    let mut columns = Columns::new(head);
    for row in found.rows.iter().take(top) {
        columns.row(cells(row, found, with_huge));
    }
    let mut text = columns.to_string();
    if found.rows.len() > top {
        let _ = writeln!(
            text,
            "… {} more; --top {} shows all",
            found.rows.len() - top,
            found.rows.len()
        );
    }
    text
}

/// Names of objects are cut to this.
const WIDEST: usize = 32;

fn cut(label: &str) -> String {
    match label.chars().count() > WIDEST {
        true => label.chars().take(WIDEST - 1).chain(['…']).collect(),
        false => label.to_string(),
    }
}

fn cells(row: &Row, found: &Found, with_huge: bool) -> Vec<String> {
    let counts = &row.cost.translations;
    let mut cells: Vec<String> = row.label.iter().map(|label| cut(label)).collect();
    cells.extend(
        [
            row.pages,
            counts.misses[0],
            counts.walks,
            counts.requests,
            row.cost.walks.memory,
        ]
        .map(thousands),
    );
    cells.push(thousands(row.cost.cycles()));
    cells.push(percent(row.cost.cycles(), found.total.cycles()));
    if with_huge {
        cells.extend(match &row.huge {
            Some(huge) => [
                thousands(huge.own.translations.walks),
                signed(huge.saved),
                thousands(huge.pages),
                bytes(huge.wasted),
            ],
            None => [const { String::new() }; 4],
        });
    }
    cells
}

fn signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", thousands(number.unsigned_abs()))
}

fn advice(found: &Found) -> String {
    let total = found.total.cycles();
    let memory = total + found.total.data_cycles;
    if share(total, memory) < WORTH {
        return format!(
            "Do not use huge pages here: translation takes {:.2}% of the time for memory.\n",
            share(total, memory)
        );
    }
    if found.asked == 0 {
        return "Do not use huge pages here: none of these objects can be put into them.\n".to_string();
    }
    if found.best.is_empty() {
        let why = match found.budget {
            Some(budget) => format!(" with {budget} huge pages"),
            None => String::new(),
        };
        return format!(
            "Do not use huge pages here: no object that was asked for saves 1% of the {} cycles of translation{why}.\n",
            thousands(total)
        );
    }
    let mut text = format!("Put into pages of {}, in this order", found.page_size);
    text += &match found.budget {
        Some(budget) => format!(" (no more than {budget} such pages):\n"),
        None => ":\n".to_string(),
    };
    for (number, step) in found.best.iter().enumerate() {
        let _ = writeln!(
            text,
            "  {}. {}: saves {} cycles, {:.1}% of translation, {:.1}% of the time for memory",
            number + 1,
            found.rows[step.row].label.join(", "),
            thousands(step.choice.saved),
            share(step.choice.saved, total),
            share(step.choice.saved, memory),
        );
        let left = step.cost.translations.walks;
        let _ = writeln!(
            text,
            "     then {} of {} walks are left; {} pages, {} wasted",
            thousands(left),
            thousands(found.total.translations.walks),
            thousands(step.choice.pages),
            bytes(step.wasted),
        );
    }
    text += &do_not(found);
    text += &how(found);
    text
}

/// Objects that were asked for and are better left alone.
fn do_not(found: &Found) -> String {
    let chosen = |at: usize| found.best.iter().any(|step| step.row == at);
    let left: Vec<&str> = found
        .rows
        .iter()
        .enumerate()
        .filter(|(at, row)| row.huge.is_some() && !chosen(*at))
        .map(|(_, row)| row.label[0].as_str())
        .collect();
    match left.is_empty() {
        true => String::new(),
        false => format!(
            "Do not: {} (less than 1% more, beyond those above{})\n",
            left.join(", "),
            if found.budget.is_some() {
                ", or beyond the budget"
            } else {
                ""
            }
        ),
    }
}

fn how(found: &Found) -> String {
    let size = found.page_size.bytes();
    let pages = found.best.last().map_or(0, |step| step.choice.pages);
    let kind = |kind: &str| {
        found
            .best
            .iter()
            .any(|step| found.rows[step.row].kind.as_deref() == Some(kind))
    };
    let mut text = String::from("How:\n");
    if kind("heap") || kind("anonymous") || kind("named") || kind("allocator") {
        let _ = writeln!(
            text,
            "  p = aligned_alloc({size}, n rounded up to {size}); madvise(p, n, MADV_HUGEPAGE); before the first touch"
        );
    }
    if kind("static") {
        let _ = writeln!(
            text,
            "  a variable: declare it _Alignas({size}), and madvise(&it, sizeof it, MADV_HUGEPAGE) before the first touch"
        );
    }
    let _ = writeln!(
        text,
        "  or mmap(…, MAP_HUGETLB) from a pool: sysctl vm.nr_hugepages={}",
        pages.max(1)
    );
    let _ = writeln!(
        text,
        "  or all of malloc, without a change: GLIBC_TUNABLES=glibc.malloc.hugetlb=1; jemalloc: MALLOC_CONF=thp:always"
    );
    text + "  check: grep -i huge /proc/PID/smaps; /sys/kernel/mm/transparent_hugepage/enabled must not be never\n"
}
