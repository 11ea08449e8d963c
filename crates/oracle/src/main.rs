//! `memtrail-oracle [options] -- program args`: prints every access of a program, by
//! single-stepping it.

use memtrail_oracle::{run, Ending, Options};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

const USAGE: &str = "usage: memtrail-oracle [-o FILE] [--limit N] [--only-exe] [--no-aslr] [--cpu N] [--stats] \
-- PROGRAM [ARGS]

  -o FILE      write lines `thread pc K addr size` to FILE (default: stderr)
  --limit N    stop after N accesses, killing the program
  --only-exe   drop accesses by code outside the main executable
  --no-aslr    run the program without address randomisation
  --cpu N      run program and oracle on CPU N only (faster; visible to the program)
  --stats      say at the end how many steps, accesses and threads there were";

struct Arguments {
    options: Options,
    output: Option<String>,
    stats: bool,
    command: Vec<String>,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut parsed = Arguments {
        options: Options::default(),
        output: None,
        stats: false,
        command: Vec::new(),
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("not a number: {text}"));
        match arg.as_str() {
            "-o" => parsed.output = Some(value()?),
            "--limit" => parsed.options.limit = Some(number(value()?)?),
            "--only-exe" => parsed.options.only_exe = true,
            "--no-aslr" => parsed.options.launch.no_aslr = true,
            "--cpu" => parsed.options.launch.cpu = Some(number(value()?)? as usize),
            "--stats" => parsed.stats = true,
            "--" => {
                parsed.command = args.collect();
                break;
            }
            other if other.starts_with('-') => return Err(format!("unknown option {other}")),
            _ => {
                parsed.command = std::iter::once(arg).chain(args).collect();
                break;
            }
        }
    }
    if parsed.command.is_empty() {
        return Err("no program given".into());
    }
    Ok(parsed)
}

fn trace(arguments: &Arguments) -> io::Result<Ending> {
    let file: Box<dyn Write> = match &arguments.output {
        Some(path) => Box::new(File::create(path)?),
        None => Box::new(io::stderr()),
    };
    let mut out = BufWriter::new(file);
    let summary = run(&arguments.command, &arguments.options, &mut |access| {
        writeln!(out, "{access}")
    })?;
    out.flush()?;
    if arguments.stats {
        eprintln!(
            "{} steps, {} accesses, {} threads",
            summary.steps, summary.accesses, summary.threads
        );
    }
    Ok(summary.ending)
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("memtrail-oracle: {message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match trace(&arguments) {
        Ok(Ending::Exited(code)) => ExitCode::from(code as u8),
        Ok(Ending::Signaled(signal)) => ExitCode::from(128 + signal as u8),
        Ok(Ending::Limited) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("memtrail-oracle: {error}");
            ExitCode::from(125)
        }
    }
}
