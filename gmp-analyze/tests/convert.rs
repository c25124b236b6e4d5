//! `convert`: a recorded program as a trace of Go.

#![allow(clippy::unwrap_used)] // a test: where something is missing it fails

use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Output};

use gmp_runtime::{Runtime, channel, go, sleep, yield_now};
use gmp_trace::{Body, Options};

fn convert(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gmp-analyze"));
    command.arg("convert").args(arguments).output().unwrap()
}

/// A program of senders, a receiver and a sleeper, recorded at `path`.
fn record(path: &Path) {
    let runtime = Runtime::builder().procs(2).build().unwrap();
    let into = path.to_path_buf();
    // SAFETY: nothing that belongs to a thread lives across a call that may park.
    unsafe {
        runtime.run(move || {
            gmp_runtime::trace::start(into).unwrap();
            let (sender, receiver) = channel::<u64>(0);
            let senders: Vec<_> = (0..3u64)
                .map(|n| {
                    let sender = sender.clone();
                    go(move || {
                        for i in 0..20 {
                            sender.send(n * 100 + i).unwrap();
                            yield_now();
                        }
                        sleep(std::time::Duration::from_millis(1));
                    })
                })
                .collect();
            drop(sender);
            assert_eq!(receiver.into_iter().count(), 60);
            senders
                .into_iter()
                .for_each(|sender| sender.join().unwrap());
            gmp_runtime::trace::stop().unwrap();
        });
    }
}

#[test]
fn a_recorded_program_is_a_trace_of_go() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let recorded = folder.join("convert.gmpt");
    record(&recorded);
    let path = recorded.to_str().unwrap();
    let output = convert(&[path, "--to", "go"]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("Go has nothing like them"), "{said}");
    assert!(!said.contains("added"), "{said}");
    let mut ours = gmp_trace::open(std::fs::File::open(&recorded).unwrap()).unwrap();
    let strict = Options::new().strict();
    let mut back = strict.open(Cursor::new(output.stdout.clone())).unwrap();
    let count = |reader: &mut gmp_trace::Reader| {
        let mut counts = [0; 5];
        let count = reader.for_each_event(|event, _| {
            let place = match event.body {
                Body::GoCreate { .. } => 0,
                Body::GoStart { .. } => 1,
                Body::GoPark { .. } => 2,
                Body::GoReady { .. } => 3,
                Body::GoYield { .. } => 4,
                _ => return,
            };
            counts[place] += 1;
        });
        count.unwrap();
        counts
    };
    let counts = count(&mut ours);
    assert_eq!(counts, count(&mut back));
    assert!(
        counts[0] >= 3 && counts.iter().all(|&n| n > 0),
        "{counts:?}"
    );
    let again = folder.join("convert.out");
    let file = again.to_str().unwrap();
    assert!(convert(&[path, "--to", "go", "-o", file]).status.success());
    assert_eq!(std::fs::read(&again).unwrap(), output.stdout);
}

/// A trace is not written over while it is read, by whatever name the output is called.
#[test]
fn a_trace_is_not_converted_onto_itself() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/gmp/channels.gmpt");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (copy, link) = (folder.join("itself.gmpt"), folder.join("itself.link"));
    let whole = std::fs::read(trace).unwrap();
    std::fs::write(&copy, &whole).unwrap();
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&copy, &link).unwrap();
    let (copy, link) = (copy.to_str().unwrap(), link.to_str().unwrap());
    let from_input = |output: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gmp-analyze"));
        command.args(["convert", "-", "--to", "go", "-o", output]);
        command.stdin(std::fs::File::open(copy).unwrap());
        command.output().unwrap()
    };
    for output in [
        convert(&[copy, "--to", "go", "-o", copy]),
        convert(&[copy, "--to", "go", "-o", link]),
        convert(&[link, "--to", "go", "-o", copy]),
        from_input(copy),
    ] {
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("is the trace itself"), "{said}");
        assert_eq!(std::fs::read(copy).unwrap(), whole);
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/gmp/channels.gmpt");
    for (arguments, code, words) in [
        (
            &[trace, "--to", "go", "-o", "/nowhere/x"][..],
            2,
            "/nowhere/x cannot be written",
        ),
        (&[trace], 2, "--to"),
        (&[trace, "--to", "java"], 2, "java"),
    ] {
        let output = convert(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
