//! Runs a measured program as a process of its own and gives back what it printed.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::outcome::Outcome;

/// How long one run may take. The longest row needs a few seconds.
const LIMIT: Duration = Duration::from_secs(120);
/// How often the harness looks whether the program has ended: rarely, to leave it the processors.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How much of what the program wrote to standard error goes into a message, in bytes.
const QUOTED: usize = 200;

/// Runs `command` to its end and reads the result line that it printed.
///
/// Fails when it cannot be started, takes too long, ends with an error or prints no result.
pub(crate) fn outcome_of(command: &mut Command) -> Result<Outcome, String> {
    Outcome::parse(&output_of(command)?)
}

/// Runs `command` to its end and gives back its standard output.
///
/// Fails when it cannot be started, takes too long or ends with an error.
pub(crate) fn output_of(command: &mut Command) -> Result<String, String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
    let output = read_aside(child.stdout.take());
    let complaints = read_aside(child.stderr.take());
    let ended = wait(&mut child);
    let output = output.join().unwrap_or_default();
    let complaints = complaints.join().unwrap_or_default();
    match ended? {
        status if status.success() => Ok(output),
        status => Err(format!("{status}{}", quote(&complaints))),
    }
}

/// Reads a pipe in a thread, so that a program that writes much does not block on a full pipe.
fn read_aside(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child) -> Result<std::process::ExitStatus, String> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if started.elapsed() < LIMIT => thread::sleep(LOOK_EVERY),
            Ok(None) => {
                let killed = child.kill().and_then(|()| child.wait());
                let note = killed.err().map(|e| format!(", and not killed: {e}"));
                return Err(format!(
                    "not finished after {} s{}",
                    LIMIT.as_secs(),
                    note.unwrap_or_default()
                ));
            }
            Err(error) => return Err(format!("cannot wait for the program: {error}")),
        }
    }
}

/// The first words of `complaints` in one line, for a message.
fn quote(complaints: &str) -> String {
    let words: Vec<_> = complaints.split_whitespace().map(shorten).collect();
    let line = words.join(" ");
    if line.is_empty() {
        return String::new();
    }
    let end = (0..=line.len().min(QUOTED)).rfind(|&at| line.is_char_boundary(at));
    let shown = &line[..end.unwrap_or(0)];
    let more = if shown.len() < line.len() { "…" } else { "" };
    format!(": {shown}{more}")
}

/// The last parts of a word that is an absolute path: where a machine keeps its sources is no news.
fn shorten(word: &str) -> String {
    let parts: Vec<_> = word.split('/').collect();
    match parts.as_slice() {
        ["", .., crate_name, folder, file] => format!("{crate_name}/{folder}/{file}"),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_that_prints_a_result_is_read() {
        let outcome = outcome_of(&mut shell(
            "echo result operations=1 checksum=2 elapsed_ns=3; echo noise >&2",
        ));
        assert_eq!(outcome.map(|outcome| outcome.elapsed_ns), Ok(3));
    }

    #[test]
    fn a_program_that_fails_says_why_even_if_it_printed_a_result() {
        let error = outcome_of(&mut shell(
            "echo result operations=1 checksum=2 elapsed_ns=3; echo no room >&2; exit 7",
        ))
        .unwrap_err();
        assert!(error.contains("7") && error.contains("no room"), "{error}");
        let missing = outcome_of(&mut Command::new("/no/such/program")).unwrap_err();
        assert!(missing.contains("cannot start"), "{missing}");
    }

    #[test]
    fn more_output_than_a_pipe_holds_does_not_block() {
        let output = output_of(&mut shell("yes | head -c 300000 >&2; yes | head -c 300000"));
        assert_eq!(output.map(|output| output.len()), Ok(300_000));
    }

    #[test]
    fn a_long_complaint_is_cut_between_characters() {
        let quoted = quote(&"é".repeat(500));
        assert!(quoted.ends_with('…') && quoted.len() < 220, "{quoted}");
        assert_eq!(quote(" \n"), "");
    }

    #[test]
    fn a_path_is_shortened_to_its_end() {
        let quoted = quote("panicked at /a/b/maybe-1.0/src/stack.rs:3:5:\nno room");
        assert_eq!(quoted, ": panicked at maybe-1.0/src/stack.rs:3:5: no room");
    }
}
