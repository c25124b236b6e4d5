//! Every program of the harness does its work right: each row is run once, at a small count.

use std::process::Command;

use serde_json::Value;

/// Peers whose programs are part of the harness. Go's needs a toolchain that may not be there.
const PEERS: &[&str] = &["gmp", "may", "tokio", "tokio-current-thread"];

/// Rows that a test cannot run: a million at once takes too long, the others need a second harness
/// and Go.
const LEFT_OUT: &[&str] = &["spawn-1m-1p", "tracer-off", "read-go-pingpong"];

/// Rows whose figure is a difference of two times, which noise can turn below zero.
const DIFFERENCES: &[&str] = &["record-yield", "record-pingpong"];

fn gmp_bench(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_gmp-bench"))
        .args(arguments)
        .output()
        .expect("the harness starts")
}

fn row_names() -> Vec<String> {
    let listed = gmp_bench(&["list"]);
    assert!(listed.status.success());
    String::from_utf8(listed.stdout)
        .expect("names of rows are text")
        .lines()
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect()
}

#[test]
fn every_peer_completes_every_row_that_it_takes_part_in() {
    let directory = env!("CARGO_TARGET_TMPDIR");
    let json = format!("{directory}/programs.json");
    let markdown = format!("{directory}/programs.md");
    let names = row_names();
    let rows = names
        .iter()
        .filter(|name| !LEFT_OUT.contains(&name.as_str()));
    let mut arguments = vec!["compare", "--rounds", "1", "--scale", "0.002"];
    let peers = PEERS.join(",");
    arguments.extend(["--peers", &peers, "--json", &json, "--markdown", &markdown]);
    arguments.extend(rows.map(String::as_str));
    let run = gmp_bench(&arguments);
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );

    let report: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let mut figures = 0;
    for row in report["rows"].as_array().unwrap() {
        for result in row["results"].as_array().unwrap() {
            assert_eq!(result["failure"], Value::Null, "{}: {result}", row["row"]);
            let median = result["median"].as_f64().unwrap();
            let difference = DIFFERENCES.contains(&row["row"].as_str().unwrap());
            assert!(difference || median > 0.0, "{}: {result}", row["row"]);
            figures += 1;
        }
    }
    // Thirteen timed rows, of which the one-thread flavour of tokio leaves out the six of two Ps and may the two
    // about the outside world; five rows in which only we and Go take part, and six about traces, which are ours
    // alone.
    assert_eq!(figures, 13 * PEERS.len() - 6 - 2 + 5 + 6);
    assert!(
        std::fs::read_to_string(&markdown)
            .unwrap()
            .contains("| may |")
    );
}

#[test]
fn an_unknown_row_is_refused_with_the_names() {
    let run = gmp_bench(&["compare", "no-such-row"]);
    assert_eq!(run.status.code(), Some(2));
    let message = String::from_utf8_lossy(&run.stderr);
    assert!(message.contains("yield-1p"), "{message}");
}
