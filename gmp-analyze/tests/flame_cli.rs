//! `flamegraph` and `schedtrace` as programs: what they write where, and what they say about traces that
//! have nothing to show.

mod common;

use common::golden;
use common::pipeline::Pipeline;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gmp-analyze"));
    command.env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
    command.args(arguments).output().expect("runs")
}

fn file(name: &str, bytes: &[u8]) -> String {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("flame_cli");
    fs::create_dir_all(&directory).expect("a directory for tests");
    let path = directory.join(name);
    fs::write(&path, bytes).expect("written");
    path.display().to_string()
}

fn trace() -> Vec<u8> {
    let program = Pipeline {
        seed: 5,
        procs: 2,
        workers: 4,
        lines: 200,
        stuck: 2,
    };
    program.record().0
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// Parses a picture to its end; gives its text.
fn parsed(svg: &str) -> String {
    let mut reader = quick_xml::Reader::from_str(svg);
    let mut text = String::new();
    loop {
        match reader.read_event().expect("well-formed") {
            quick_xml::events::Event::Eof => return text,
            quick_xml::events::Event::Text(part) => {
                text.push_str(&part);
                text.push('\n');
            }
            _ => {}
        }
    }
}

#[test]
fn a_picture_and_folded_text() {
    let path = file("plain.gmpt", &trace());
    let svg = run(&["flamegraph", &path]);
    assert_eq!((svg.status.code(), err(&svg).as_str()), (Some(0), ""));
    let text = parsed(&out(&svg));
    assert!(text.contains("Time of goroutines"), "{text}");
    assert!(text.contains("of plain.gmpt"), "{text}");
    let to = file("to.svg", b"");
    let quiet = run(&["flamegraph", &path, "-o", &to]);
    assert_eq!((out(&quiet).as_str(), err(&quiet).as_str()), ("", ""));
    assert_eq!(
        fs::read_to_string(&to).expect("written"),
        out(&svg),
        "the same bytes"
    );
    let folded = run(&["flamegraph", &path, "--kind", "block", "--folded"]);
    assert!(
        out(&folded).starts_with("chan receive;log_stats::"),
        "{}",
        out(&folded)
    );
    let counted = run(&[
        "flamegraph",
        &path,
        "--kind",
        "block",
        "--folded",
        "--by",
        "count",
    ]);
    assert_eq!(out(&counted).lines().count(), out(&folded).lines().count());
    assert_ne!(out(&counted), out(&folded));
}

#[test]
fn several_traces_add_up_and_two_are_compared() {
    let path = file("several.gmpt", &trace());
    let sum = |output: &Output| -> u64 {
        let weights = out(output);
        let weights = weights
            .lines()
            .map(|line| line.rsplit(' ').next().expect("a weight"));
        weights
            .map(|weight| weight.parse::<u64>().expect("a number"))
            .sum()
    };
    let one = run(&["flamegraph", "--folded", &path]);
    let two = run(&["flamegraph", "--folded", &path, &path]);
    assert_eq!(sum(&two), 2 * sum(&one));
    let same = run(&["flamegraph", "--folded", &path, "--diff", &path]);
    for line in out(&same).lines() {
        let mut weights = line.rsplit(' ');
        assert_eq!(weights.next(), weights.next(), "{line}");
    }
    let svg = run(&["flamegraph", &path, "--diff", &path]);
    assert!(parsed(&out(&svg)).contains("before: "), "{}", out(&svg));
}

#[test]
fn nothing_to_show_is_an_honest_picture_and_a_line() {
    let events = trace();
    let path = file("something.gmpt", &events);
    // The header and the first block: no more than a few events.
    let header = file("header.gmpt", &events[..events.len().min(600)]);
    let cases: Vec<(Vec<&str>, &str)> = vec![
        (
            vec!["flamegraph", &path, "--kind", "syscall"],
            "no time in system calls",
        ),
        (
            vec!["flamegraph", &path, "--from", "1h"],
            "nothing is in the range",
        ),
        (
            vec!["flamegraph", &path, "--from", "1h", "--to", "2h"],
            "the trace ends at",
        ),
        (vec!["flamegraph", &header], "gmp-analyze: "),
    ];
    for (arguments, part) in &cases {
        let output = run(arguments);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}",
            err(&output)
        );
        assert!(
            err(&output).contains(part),
            "{arguments:?}: {}",
            err(&output)
        );
        parsed(&out(&output));
        let folded: Vec<&str> = arguments.iter().copied().chain(["--folded"]).collect();
        assert_eq!(run(&folded).status.code(), Some(0));
    }
    let empty = run(&["flamegraph", &path, "--kind", "syscall"]);
    assert!(parsed(&out(&empty)).contains("nothing of this kind"));
    let outside = run(&["schedtrace", &path, "--from", "1h"]);
    assert_eq!(
        (outside.status.code(), out(&outside).as_str()),
        (Some(0), "")
    );
    assert!(
        err(&outside).contains("nothing is in the range"),
        "{}",
        err(&outside)
    );
    for command in ["flamegraph", "schedtrace"] {
        let backwards = run(&[command, &path, "--from", "2s", "--to", "1s"]);
        assert_eq!(backwards.status.code(), Some(2), "{command}");
        let bad = run(&[command, &file("bad", b"\x00\x01\x02")]);
        assert_eq!(bad.status.code(), Some(2), "{command}: {}", err(&bad));
        assert!(err(&bad).contains("expected"), "{command}: {}", err(&bad));
    }
}

/// Every fixture that is damaged gives a picture and lines, or a clear error.
#[test]
fn damaged_traces_are_drawn_or_refused() {
    let mut checked = 0;
    for entry in fs::read_dir(golden::fixtures().join("bad")).expect("the fixtures") {
        let path = entry.expect("an entry").path().display().to_string();
        for arguments in [vec!["flamegraph", &path], vec!["schedtrace", &path]] {
            let output = run(&arguments);
            let message = err(&output);
            match output.status.code() {
                Some(0) => assert!(
                    message.contains("gmp-analyze: "),
                    "{arguments:?}: {message}"
                ),
                Some(2) => assert!(message.contains("expected"), "{arguments:?}: {message}"),
                other => panic!("{arguments:?}: {other:?} {message}"),
            }
            checked += 1;
        }
    }
    assert!(checked >= 10);
}

const CAPTURED: &str = "\u{1b}[32mstarting\u{1b}[0m\n\
    SCHED 0ms: gomaxprocs=4 idleprocs=2 threads=6 spinningthreads=1 idlethreads=2 runqueue=0 [1 0 0 2]\n\
    SCHED 1004ms: gomaxprocs=4 idleprocs=0 threads=7 spinningthreads=0 needspinning=1 idlethreads=1 runqueue=12 [9 3 0 2]\n\
    request served in 3ms\n\
    SCHED 2010ms: gomaxprocs=4 idleprocs=1 threads=7 spinningthreads=0 needspinning=0 idlethreads=1 runqueue=3 [ 4 0 0 0 ] schedticks=[ 51 40 39 60 ]\n\
    SCHED 3011ms: gomaxprocs=4 idlepro";

#[test]
fn captured_lines_are_summed_up_from_files_pipes_and_gzip() {
    let plain = file("sched.txt", CAPTURED.as_bytes());
    let output = run(&["schedtrace", &plain]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(
        err(&output).contains("1 line cut or garbled, the first is line 6"),
        "{}",
        err(&output)
    );
    let difference = golden::difference("captured.schedtrace.txt", &out(&output));
    assert!(difference.is_empty(), "\n{difference}");
    let mut child = Command::new(env!("CARGO_BIN_EXE_gmp-analyze"))
        .args(["schedtrace", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("runs");
    let mut pipe = child.stdin.take().expect("piped");
    pipe.write_all(CAPTURED.as_bytes()).expect("taken");
    drop(pipe);
    assert_eq!(out(&child.wait_with_output().expect("ends")), out(&output));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(CAPTURED.as_bytes()).expect("a vector");
    let packed = file("sched.txt.gz", &encoder.finish().expect("a vector"));
    assert_eq!(out(&run(&["schedtrace", &packed])), out(&output));
    let json: serde_json::Value =
        serde_json::from_slice(&run(&["schedtrace", "--json", &plain]).stdout).expect("JSON");
    let fields = json["fields"].as_array().expect("a list");
    let runqueue = fields
        .iter()
        .find(|field| field["field"] == "runqueue")
        .expect("there");
    assert_eq!(
        (&runqueue["max"], &runqueue["mean"]),
        (&12.into(), &5.0.into())
    );
    let csv = out(&run(&["schedtrace", "--csv", &plain]));
    assert_eq!(
        csv.lines().next(),
        Some("field,lines,min,mean,max,first,last")
    );
    assert!(csv.contains("\nrunqueue,3,0,5,12,0,3\n"), "{csv}");
}

#[test]
fn text_without_lines_is_refused_with_advice() {
    let output = run(&["schedtrace", &file("log.txt", b"hello\nworld\n")]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(err(&output).lines().count(), 1, "{}", err(&output));
    assert!(
        err(&output).contains("found 2 lines without one"),
        "{}",
        err(&output)
    );
    assert!(err(&output).contains("GMPDEBUG=schedtrace=1000"));
}

#[test]
fn lines_of_a_trace() {
    let path = file("lines.gmpt", &trace());
    let output = run(&["schedtrace", &path, "--every", "100us"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        err(&output).lines().count(),
        1,
        "said once: {}",
        err(&output)
    );
    assert!(err(&output).contains("needspinning"), "{}", err(&output));
    let lines = out(&output);
    assert!(lines.lines().count() > 3);
    for line in lines.lines() {
        assert!(line.starts_with("SCHED ") && line.ends_with(" ]"), "{line}");
        assert!(line.contains(": gomaxprocs=2 idleprocs="), "{line}");
    }
    let back = run(&["schedtrace", &file("lines.txt", lines.as_bytes())]);
    let again = run(&["schedtrace", &path, "--every", "100us", "--summary"]);
    let body = |output: &Output| out(output).lines().skip(2).collect::<Vec<_>>().join("\n");
    assert_eq!(body(&back), body(&again));
    let csv = out(&run(&["schedtrace", &path, "--every", "100us", "--csv"]));
    assert_eq!(csv.lines().count(), lines.lines().count() + 1);
    for every in ["0", "0s", "ten", "-1ms"] {
        let refused = run(&["schedtrace", &path, &format!("--every={every}")]);
        assert_eq!(refused.status.code(), Some(2), "{every}");
    }
}
