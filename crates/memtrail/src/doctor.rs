//! `doctor`: can this machine record?
use crate::args::{DoctorArgs, RecordArgs};
use crate::record::{self, Keep};
use memtrail_tracee::{examine, Finding, Verdict};
use serde_json::json;

pub fn command(args: &DoctorArgs) -> anyhow::Result<u8> {
    let mut findings = examine();
    if findings.iter().all(|f| f.verdict != Verdict::Bad) {
        findings.push(trial());
    }
    let able = findings.iter().all(|f| f.verdict != Verdict::Bad);
    if args.json {
        print_json(&findings, able);
    } else {
        print(&findings, able);
    }
    Ok(u8::from(!able))
}

/// The last word: record something very small, and look whether anything came.
fn trial() -> Finding {
    let mut finding = Finding {
        name: "trial",
        verdict: Verdict::Good,
        what: String::new(),
        advice: None,
    };
    let args = RecordArgs::of(vec!["true".into()]);
    finding.what = match record::run(&args, Keep::CountsOnly) {
        Ok(done) if done.totals.accesses > 0 => {
            format!("recorded {} accesses of `true`", done.totals.accesses)
        }
        Ok(_) => "nothing was recorded of `true`".to_string(),
        Err(error) => format!("{error:#}"),
    };
    if !finding.what.starts_with("recorded") {
        finding.verdict = Verdict::Bad;
        finding.advice = Some("this is a bug of memtrail: please report it".to_string());
    }
    finding
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "ok",
        Verdict::Note => "note",
        Verdict::Bad => "BAD",
    }
}

fn print(findings: &[Finding], able: bool) {
    for f in findings {
        println!("{:<5} {:<14} {}", word(f.verdict), f.name, f.what);
        if let Some(advice) = &f.advice {
            println!("{:<20} -> {advice}", "");
        }
    }
    println!(
        "{}",
        if able {
            "This machine can record."
        } else {
            "This machine cannot record, for the reasons marked BAD."
        }
    );
}

fn print_json(findings: &[Finding], able: bool) {
    let row = |f: &Finding| {
        json!({
            "name": f.name,
            "verdict": word(f.verdict).to_lowercase(),
            "what": f.what,
            "advice": f.advice,
        })
    };
    let findings: Vec<_> = findings.iter().map(row).collect();
    println!("{:#}", json!({ "can_record": able, "findings": findings }));
}
