//! The one line that a measured program prints, and how the harness reads it back.

use std::fmt;
use std::time::Instant;

/// What one run of a measured program did, by its own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// How many operations it counted.
    pub(crate) operations: u64,
    /// A sum over what the operations produced.
    pub(crate) checksum: u64,
    /// How long they took, in nanoseconds, without starting and ending the program.
    pub(crate) elapsed_ns: u64,
}

impl Outcome {
    /// The outcome of work that began at `started` and ends now.
    pub(crate) fn since(started: Instant, operations: u64, checksum: u64) -> Outcome {
        let elapsed = started.elapsed().as_nanos();
        Outcome {
            operations,
            checksum,
            elapsed_ns: u64::try_from(elapsed).unwrap_or(u64::MAX),
        }
    }

    /// The outcome in what a program printed.
    ///
    /// Fails when there is no `result` line, more than one, or one that lacks a field.
    pub(crate) fn parse(output: &str) -> Result<Outcome, String> {
        let mut lines = output.lines().filter(|line| line.starts_with("result "));
        let line = lines
            .next()
            .ok_or("expected a line that begins with \"result\", found none")?;
        if lines.next().is_some() {
            return Err("expected one result line, found several".to_owned());
        }
        Ok(Outcome {
            operations: field(line, "operations")?,
            checksum: field(line, "checksum")?,
            elapsed_ns: field(line, "elapsed_ns")?,
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "result operations={} checksum={} elapsed_ns={}",
            self.operations, self.checksum, self.elapsed_ns
        )
    }
}

fn field(line: &str, name: &str) -> Result<u64, String> {
    let value = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        .ok_or_else(|| format!("expected {name}= in the result line, found {line:?}"))?;
    value
        .parse()
        .map_err(|_| format!("expected a number after {name}=, found {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTCOME: Outcome = Outcome {
        operations: 12,
        checksum: 34,
        elapsed_ns: 56,
    };

    #[test]
    fn what_is_printed_is_read_back() {
        let printed = format!("a warning\n{OUTCOME}\nanother line\n");
        assert_eq!(Outcome::parse(&printed), Ok(OUTCOME));
    }

    #[test]
    fn output_without_a_whole_result_is_refused() {
        for (output, complaint) in [
            ("", "found none"),
            ("result operations=1 checksum=2", "expected elapsed_ns="),
            ("result operations=x checksum=2 elapsed_ns=3", "found \"x\""),
            (
                "result operations=1 checksum=-2 elapsed_ns=3",
                "found \"-2\"",
            ),
        ] {
            let error = Outcome::parse(output).unwrap_err();
            assert!(error.contains(complaint), "{output:?} gave {error:?}");
        }
        let twice = format!("{OUTCOME}\n{OUTCOME}\n");
        assert!(Outcome::parse(&twice).unwrap_err().contains("several"));
    }
}
