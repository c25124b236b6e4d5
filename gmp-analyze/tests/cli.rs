//! The program itself: what it says, where, and with which exit code.

mod common;

use common::pipeline::Pipeline;
use flate2::write::GzEncoder;
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gmp-analyze"));
    command
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("runs")
}

/// A file of this test program.
fn file(name: &str, bytes: &[u8]) -> String {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cli");
    fs::create_dir_all(&directory).expect("a directory for tests");
    let path = directory.join(name);
    fs::write(&path, bytes).expect("written");
    path.display().to_string()
}

fn trace() -> Vec<u8> {
    Pipeline {
        seed: 5,
        procs: 2,
        workers: 4,
        lines: 200,
        stuck: 2,
    }
    .record()
    .0
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("a vector");
    encoder.finish().expect("a vector")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn report_of(bytes: &[u8], name: &str) -> String {
    let output = run(&["report", &file(name, bytes)]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(err(&output), "");
    // The first line has the name of the file.
    out(&output).lines().skip(1).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_no_trace_is_one_clear_line_and_exit_code_2() {
    let trace = trace();
    let mut newer = trace.clone();
    for copy in [0, 192] {
        newer[copy + 8] = 99;
    }
    let directory = env!("CARGO_TARGET_TMPDIR").to_owned();
    let cases: Vec<(String, Vec<&str>)> = vec![
        (
            "no-such-file.gmpt".to_owned(),
            vec!["no such file", "check the name"],
        ),
        (directory, vec!["found a directory"]),
        (file("empty", b""), vec!["found an empty file"]),
        (
            file("text", b"hello world\nsecond line\n"),
            vec!["text that begins \"hello world\""],
        ),
        (
            file("page.html", b"<!DOCTYPE html><html>"),
            vec!["found a web page"],
        ),
        (file("json", b"{\"traceEvents\": []}"), vec!["found JSON"]),
        (
            file("gzip-of-text.gz", &packed(b"hello world")),
            vec!["gzip of text"],
        ),
        (
            file("gzip-of-nothing.gz", &packed(b"")),
            vec!["gzip of an empty file"],
        ),
        (file("cut.gz", &packed(&trace)[..11]), vec!["damaged gzip"]),
        (file("go-cut", b"go 1.22 tr"), vec!["expected"]),
        (
            file("bytes", b"\x00\x01\x02\xFF"),
            vec!["bytes that begin 00 01 02 ff"],
        ),
        (file("only-magic", &trace[..8]), vec!["expected"]),
        (file("half-a-header", &trace[..100]), vec!["expected"]),
    ];
    let mut checked = 0;
    for command in ["report", "check", "events"] {
        for (path, parts) in &cases {
            let output = run(&[command, path]);
            let message = err(&output);
            assert_eq!(output.status.code(), Some(2), "{command} {path}: {message}");
            assert_eq!(message.lines().count(), 1, "{command} {path}: {message}");
            assert!(message.starts_with("gmp-analyze: "), "{message}");
            assert!(message.contains("expected"), "{message}");
            for part in parts {
                assert!(message.contains(part), "{command} {path}: {message}");
            }
            assert_eq!(out(&output), "", "{command} {path}");
            checked += 1;
        }
    }
    assert!(checked > 30);
}

#[test]
fn gzip_and_standard_input_give_the_same_report() {
    let trace = trace();
    let plain = report_of(&trace, "plain.gmpt");
    assert!(plain.contains("log_stats::parse::worker"));
    assert_eq!(report_of(&packed(&trace), "packed.gmpt.gz"), plain);
    let mut child = program()
        .args(["report", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(&trace)
        .expect("taken");
    let output = child.wait_with_output().expect("ends");
    let text = out(&output);
    assert!(text.starts_with("standard input · gmp trace"), "{text}");
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>().join("\n"), plain);
}

#[test]
fn cut_gzip_is_reported_as_far_as_it_goes() {
    let trace = packed(&trace());
    let text = report_of(&trace[..trace.len() / 2], "half.gmpt.gz");
    assert!(text.contains("damaged-gzip"), "{text}");
    assert!(text.contains("lost-events"), "{text}");
}

/// Whatever the output has no room for goes to the standard error.
#[test]
fn every_command_says_that_a_trace_is_not_whole() {
    let trace = packed(&trace());
    let cut = file("half-for-all.gmpt.gz", &trace[..trace.len() / 2]);
    let svg = file("half.svg", b"");
    for command in [
        vec!["timeline", &cut, "-o", &svg],
        vec!["flamegraph", &cut, "-o", &svg],
        vec!["latency", &cut],
        vec!["schedtrace", &cut],
    ] {
        let output = run(&command);
        let said = String::from_utf8_lossy(&output.stderr);
        let told = said.contains("not whole") && said.contains("damaged-gzip");
        assert!(told, "{command:?}: {said}");
    }
}

/// Go's traces do not tell how goroutines were found: no figure is not the figure 0.
#[test]
fn what_a_trace_of_go_cannot_tell_is_null() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/go/");
    let output = run(&["report", "--json", &format!("{fixtures}go1.27-http.trace")]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let summary = &value["summary"];
    assert!(summary["switches"].as_u64().expect("a count") > 0);
    for name in ["steals", "spinning_ns", "overflows", "timers_fired"] {
        assert_eq!(summary.get(name), Some(&serde_json::Value::Null), "{name}");
    }
}

#[test]
fn json_is_one_object_with_nanoseconds() {
    let path = file("json.gmpt", &trace());
    let output = run(&["report", "--json", "--goroutines", &path]);
    assert_eq!(output.status.code(), Some(0));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["schema"], 1);
    assert!(
        value["summary"]["span_ns"]
            .as_i64()
            .is_some_and(|span| span > 0)
    );
    let mut checked = 0;
    for goroutine in value["goroutines"].as_array().expect("a list") {
        let field = |name: &str| {
            goroutine[name]
                .as_i64()
                .unwrap_or_else(|| panic!("no {name}"))
        };
        let states = [
            "exec_ns",
            "sched_wait_ns",
            "syscall_ns",
            "syscall_block_ns",
            "block_ns",
        ];
        let sum: i64 = states.into_iter().map(field).sum::<i64>() + field("unknown_ns");
        assert_eq!(sum, field("total_ns"), "{goroutine}");
        let reasons = goroutine["block_ns_by_reason"]
            .as_object()
            .expect("an object");
        let blocked: i64 = reasons.values().filter_map(serde_json::Value::as_i64).sum();
        assert_eq!(blocked, field("block_ns"), "{goroutine}");
        assert!(
            goroutine["name"]
                .as_str()
                .is_some_and(|name| name.starts_with("log_stats"))
        );
        assert!(field("id") > 0);
        checked += 1;
    }
    assert_eq!(checked, 10);
    assert!(value["goroutines"].as_array().is_some());
    let without: serde_json::Value =
        serde_json::from_slice(&run(&["report", "--json", &path]).stdout).expect("JSON");
    assert!(without.get("goroutines").is_none());
}

#[test]
fn csv_has_a_line_of_names_and_a_line_for_each_row() {
    let path = file("csv.gmpt", &trace());
    for (table, rows) in [("procs", 2), ("goroutines", 10), ("summary", 1)] {
        let output = run(&["report", "--csv", table, &path]);
        assert_eq!(output.status.code(), Some(0));
        let text = out(&output);
        assert_eq!(text.lines().count(), rows + 1, "{text}");
        let fields = text.lines().next().expect("names").split(',').count();
        assert!(
            text.lines().all(|line| line.split(',').count() >= fields),
            "{text}"
        );
    }
    let output = run(&["report", "--csv", "prox", &path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("procs"),
        "a suggestion: {}",
        err(&output)
    );
}

#[test]
fn denied_findings_are_exit_code_1() {
    let bytes = Pipeline {
        seed: 5,
        procs: 2,
        workers: 4,
        lines: 2000,
        stuck: 2,
    }
    .record()
    .0;
    let path = file("deny.gmpt", &bytes);
    let code = |arguments: &[&str]| run(arguments).status.code();
    assert_eq!(code(&["report", &path]), Some(0));
    assert_eq!(code(&["report", "--deny", "long-run", &path]), Some(0));
    assert_eq!(
        code(&["report", "--deny", "blocked-forever", &path]),
        Some(1)
    );
    assert_eq!(
        code(&[
            "report",
            "--deny",
            "long-run",
            "--deny",
            "blocked-forever",
            &path
        ]),
        Some(1)
    );
    assert_eq!(code(&["report", "--json", "--deny", "all", &path]), Some(1));
    let unknown = run(&["report", "--deny", "blocked-for-ever", &path]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        err(&unknown).contains("blocked-forever"),
        "{}",
        err(&unknown)
    );
}

#[test]
fn check_tells_sound_from_cut() {
    let trace = trace();
    let sound = run(&["check", &file("sound.gmpt", &trace)]);
    assert_eq!(sound.status.code(), Some(0), "{}", out(&sound));
    let cut = run(&["check", &file("cut.gmpt", &trace[..trace.len() - 700])]);
    assert_eq!(cut.status.code(), Some(1), "{}", out(&cut));
    assert!(out(&cut).contains("first at byte"), "{}", out(&cut));
}

#[test]
fn events_are_one_line_each() {
    let path = file("events.gmpt", &trace());
    let text = out(&run(&["events", &path]));
    let json: serde_json::Value =
        serde_json::from_slice(&run(&["report", "--json", &path]).stdout).expect("JSON");
    assert_eq!(
        json["summary"]["events"].as_u64(),
        Some(text.lines().count() as u64)
    );
    let part = "GoPark reason=\"chan send\" object=0x63 at=log_stats::audit::send_copy(";
    assert_eq!(text.matches(part).count(), 2, "{text}");
}

#[test]
fn raw_events_are_the_records_of_the_file() {
    let trace = trace();
    let text = out(&run(&["events", "--raw", &file("raw.gmpt", &trace)]));
    assert!(text.starts_with("gmp trace "), "{text}");
    // The text makes the same events again.
    let again = gmp_trace::text::from_text(&text).expect("the text form");
    let events = |name: &str, bytes: &[u8]| out(&run(&["events", &file(name, bytes)]));
    assert_eq!(events("again.gmpt", &again), events("raw.gmpt", &trace));
    let go = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../fixtures/go/go1.27-leak.trace"
    );
    let text = out(&run(&["events", "--raw", go]));
    assert!(text.contains("GoCreate"), "{text}");
}

/// Damaged traces of the repository: a report or one clear line, never a panic.
#[test]
fn damaged_traces_are_reported_or_refused() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/bad");
    let (mut reported, mut refused) = (0, 0);
    for entry in fs::read_dir(directory).expect("the fixtures") {
        let path = entry.expect("an entry").path().display().to_string();
        let output = run(&["report", &path]);
        match output.status.code() {
            Some(0) => {
                reported += 1;
                let text = out(&output);
                assert!(text.contains("Anomalies of the trace"), "{path}: {text}");
                assert_ne!(run(&["check", &path]).status.code(), Some(0), "{path}");
            }
            code => {
                refused += 1;
                assert_eq!(code, Some(2), "{path}");
                assert_eq!(err(&output).lines().count(), 1, "{path}: {}", err(&output));
            }
        }
    }
    assert!(reported >= 3 && refused >= 3, "{reported} {refused}");
}

/// Whoever reads the output may stop at any time.
#[test]
fn a_closed_pipe_is_quiet() {
    let trace = Pipeline {
        seed: 5,
        procs: 2,
        workers: 4,
        lines: 5000,
        stuck: 2,
    }
    .record()
    .0;
    let path = file("pipe.gmpt", &trace);
    let mut child = program()
        .args(["events", &path])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("runs");
    let mut pipe = child.stdout.take().expect("piped");
    let mut first = [0; 10];
    pipe.read_exact(&mut first).expect("a beginning");
    drop(pipe);
    let output = child.wait_with_output().expect("ends");
    assert_eq!(err(&output), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn colours_only_where_they_are_wanted() {
    let path = file("colours.gmpt", &trace());
    assert!(
        !out(&run(&["report", &path])).contains('\u{1b}'),
        "a pipe is no terminal"
    );
    let forced = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = program();
        command.args(arguments).env("CLICOLOR_FORCE", "1");
        for (name, value) in variables {
            command.env(name, value);
        }
        out(&command.output().expect("runs"))
    };
    assert!(forced(&["report", &path], &[]).contains('\u{1b}'));
    assert!(!forced(&["report", "--no-color", &path], &[]).contains('\u{1b}'));
    assert!(
        !forced(
            &["report", &path],
            &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "0")]
        )
        .contains('\u{1b}')
    );
}

#[test]
fn columns_and_rules_are_explained() {
    let text = out(&run(&["explain"]));
    for part in [
        "blocked-forever",
        "sched_wait_ns",
        "running_ns, running_share",
        "p999_ns",
    ] {
        assert!(text.contains(part), "{part}");
    }
    assert!(text.lines().count() > 100);
}

/// Every prefix of a trace gives a report or a clear line, never a panic.
#[test]
fn any_prefix_is_reported_or_refused() {
    let trace = Pipeline {
        seed: 5,
        procs: 2,
        workers: 2,
        lines: 20,
        stuck: 1,
    }
    .record()
    .0;
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("prefix.gmpt");
    let mut reported = 0;
    for length in (0..trace.len()).step_by(7) {
        fs::write(&directory, &trace[..length]).expect("written");
        match gmp_analyze::session::report(directory.as_os_str(), true, false) {
            Ok(report) => {
                reported += 1;
                assert!(
                    !report.findings.is_empty(),
                    "{length} bytes and nothing to say"
                );
            }
            Err(error) => assert!(error.to_string().contains("expected"), "{length}: {error}"),
        }
    }
    assert!(reported > 10, "{reported}");
}

/// A build without SQL says how to get it, and still lists the tables.
#[cfg(not(feature = "tables"))]
#[test]
fn a_build_without_sql_says_how_to_get_it() {
    let output = run(&["query", "trace.gmpt", "SELECT 1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("--features tables"),
        "{}",
        err(&output)
    );
    let tables = out(&run(&["query", "--tables"]));
    assert!(tables.contains("g_spans") && tables.contains("latency_ns"));
    assert_eq!(out(&run(&["query", "some.trace", "--tables"])), tables);
}

/// A line that is too long to keep is not cut in silence.
#[test]
fn captured_lines_that_are_too_long_are_told_of() {
    let line = "SCHED 0ms: gomaxprocs=2 idleprocs=1 threads=3 spinningthreads=0 idlethreads=1 runqueue=0 [0 0]";
    let long = "x".repeat((1 << 20) + 1);
    for (name, text, told) in [
        ("whole.log", format!("{line}\nshort\n"), false),
        ("long.log", format!("{line}\n{long}\n"), true),
    ] {
        let output = run(&["schedtrace", &file(name, text.as_bytes())]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let says = err(&output).contains("1 line longer than 1 MiB, cut there");
        assert_eq!(says, told, "{}", err(&output));
    }
}
