//! Measures gmp beside its peers: Go, may and tokio, in turn, on one machine.
//!
//! `gmp-bench compare` is the harness. It starts every measured program as a process of its own, so
//! that no runtime disturbs another, round after round, and prints medians, ranges and ratios.
//! `gmp-bench run PEER ROW` is such a program. What is measured is in [`rows`], who takes part and
//! with which settings in [`peers`].

mod arguments;
mod child;
mod compare;
mod files;
mod machine;
mod outcome;
mod peers;
mod render;
mod rows;
mod statistics;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command, Compare, Run};
use crate::compare::{Plan, compare};
use crate::peers::Peer;
use crate::render::Setting;
use crate::rows::{ROWS, Row};

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Compare(arguments) => run_comparison(&arguments),
        Command::Read { trace } => peers::gmp::read(&trace).map(|outcome| println!("{outcome}")),
        Command::Run(arguments) => run_once(&arguments),
        Command::List => {
            for row in ROWS {
                println!("{:<16} {} [{}]", row.name, row.title, row.measure.unit());
            }
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gmp-bench: {error}");
            ExitCode::from(2)
        }
    }
}

fn run_comparison(arguments: &Compare) -> Result<(), String> {
    let rows: Vec<&'static Row> = match arguments.rows.as_slice() {
        [] => ROWS.iter().collect(),
        chosen => chosen.to_vec(),
    };
    let peers = match arguments.peers.as_slice() {
        [] => Peer::ALL,
        chosen => chosen,
    };
    let setting = Setting {
        rounds: usize::from(arguments.rounds),
        reference: arguments.reference,
        facts: machine::facts(),
    };
    let plan = Plan {
        peers,
        rounds: setting.rounds,
        scale: arguments.scale,
        untraced: arguments.untraced.as_deref(),
    };
    print!("{}", render::text_heading(&setting));
    let mut comparisons = Vec::with_capacity(rows.len());
    for row in rows {
        let comparison = compare(row, &plan);
        print!("{}", render::text_row(&setting, &comparison));
        comparisons.push(comparison);
    }
    if let Some(path) = &arguments.json {
        write(
            path,
            &format!("{:#}\n", render::json(&setting, &comparisons)),
        )?;
    }
    if let Some(path) = &arguments.markdown {
        write(path, &render::markdown(&setting, &comparisons, peers))?;
    }
    Ok(())
}

fn run_once(arguments: &Run) -> Result<(), String> {
    let row = arguments.row;
    let wanted = arguments.operations.unwrap_or(row.operations);
    let operations = row.work.whole(wanted, row.procs);
    let outcome = arguments.peer.run_here(row.work, row.procs, operations)?;
    println!("{outcome}");
    Ok(())
}

fn write(path: &Path, content: &str) -> Result<(), String> {
    std::fs::write(path, content)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}
