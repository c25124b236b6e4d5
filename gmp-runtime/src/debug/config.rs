//! What the environment variable `GMPDEBUG` asks for.
//!
//! The value is a list of `name=value`, separated by commas. Nothing in it ever stops a program: a name
//! that is not known, a value that is not one, and a name whose effect this version does not have give one
//! warning line each and are passed over. Parsing is a pure function of the text.

use std::fmt;
use std::path::PathBuf;

/// The name of the environment variable.
pub(crate) const VARIABLE: &str = "GMPDEBUG";

/// What was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Config {
    /// Print a line about the scheduler every so many milliseconds; never zero.
    pub(crate) schedtrace_ms: Option<u64>,
    /// Add a line for each P, M and goroutine to it.
    pub(crate) scheddetail: bool,
    /// Record into this file.
    pub(crate) trace: Option<PathBuf>,
    /// Record whole stacks with events.
    pub(crate) tracestacks: bool,
    /// Put the names of functions into the trace at its end.
    pub(crate) tracesymbols: bool,
    /// Keep the last so many bytes of the recording in memory; never zero.
    pub(crate) flightrecorder_bytes: Option<u64>,
    /// Take so many samples of the stack in each second of processor time; never zero.
    pub(crate) cpuprofile_hz: Option<u32>,
    /// Print a line about each collection cycle.
    pub(crate) gctrace: bool,
    /// Preempt goroutines only where they call the runtime.
    pub(crate) asyncpreemptoff: bool,
}

/// A part of the text that had no effect, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Warning {
    /// There is no such name.
    UnknownName(String),
    /// The part has no `=`.
    NoValue(String),
    /// The whole value is not UTF-8, so nothing of it counts.
    NotText,
    /// The name is known, the value is not one for it.
    BadValue {
        /// The name.
        name: &'static str,
        /// What was found.
        value: String,
        /// What a value looks like.
        expected: &'static str,
    },
    /// The name and the value are fine, but this version does nothing with them.
    NotSupported(&'static str),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "warning: {VARIABLE}: ")?;
        match self {
            Warning::UnknownName(name) => write!(f, "unknown name {}", Shortened(name))?,
            Warning::NoValue(part) => {
                write!(f, "{} has no value, write name=value", Shortened(part))?;
            }
            Warning::BadValue {
                name,
                value,
                expected,
            } => {
                write!(
                    f,
                    "{name}={} is not a value, expected {expected}",
                    Shortened(value)
                )?;
            }
            Warning::NotText => f.write_str("the value is not UTF-8 and is ignored")?,
            Warning::NotSupported(name) => {
                return write!(f, "{name} is not supported by this version");
            }
        }
        f.write_str("; valid names are ")?;
        for (index, setting) in SETTINGS.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", setting.name)?;
        }
        Ok(())
    }
}

/// Somebody else's text in quotes, of bounded length and on one line.
struct Shortened<'a>(&'a str);

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 60;
        match self.0.char_indices().nth(LONGEST) {
            Some((end, _)) => write!(f, "{:?}…", self.0.get(..end).unwrap_or_default()),
            None => write!(f, "{:?}", self.0),
        }
    }
}

/// One name: what its values look like, and how one gets into a [`Config`] (`None`: it is not a value).
struct Setting {
    name: &'static str,
    expected: &'static str,
    apply: fn(&mut Config, &str) -> Option<()>,
}

/// All names there are. Order: as the warnings list them.
const SETTINGS: &[Setting] = &[
    Setting {
        name: "schedtrace",
        expected: "milliseconds between lines, at least 1",
        apply: |config, value| set(&mut config.schedtrace_ms, positive(value)),
    },
    Setting {
        name: "scheddetail",
        expected: SWITCH,
        apply: |config, value| switch(&mut config.scheddetail, value),
    },
    Setting {
        name: "trace",
        expected: "the name of a file",
        apply: |config, value| {
            set(
                &mut config.trace,
                (!value.is_empty()).then(|| PathBuf::from(value)),
            )
        },
    },
    Setting {
        name: "tracestacks",
        expected: SWITCH,
        apply: |config, value| switch(&mut config.tracestacks, value),
    },
    Setting {
        name: "tracesymbols",
        expected: SWITCH,
        apply: |config, value| switch(&mut config.tracesymbols, value),
    },
    Setting {
        name: "flightrecorder",
        expected: "a number of bytes such as 10000000, 10000k, 10m or 1g",
        apply: |config, value| set(&mut config.flightrecorder_bytes, bytes(value)),
    },
    Setting {
        name: "cpuprofile",
        expected: "samples per second, 1 to 10000",
        apply: |config, value| {
            let hz = positive(value).filter(|&hz| hz <= 10_000);
            set(
                &mut config.cpuprofile_hz,
                hz.and_then(|hz| u32::try_from(hz).ok()),
            )
        },
    },
    Setting {
        name: "gctrace",
        expected: SWITCH,
        apply: |config, value| switch(&mut config.gctrace, value),
    },
    Setting {
        name: "asyncpreemptoff",
        expected: SWITCH,
        apply: |config, value| switch(&mut config.asyncpreemptoff, value),
    },
];

const SWITCH: &str = "0 or 1";

/// What the environment of the process asks for: see [`parse`].
pub(crate) fn from_environment(supported: &[&str]) -> (Config, Vec<Warning>) {
    match std::env::var(VARIABLE) {
        Ok(text) => parse(&text, supported),
        Err(std::env::VarError::NotPresent) => (Config::default(), Vec::new()),
        Err(std::env::VarError::NotUnicode(_)) => (Config::default(), vec![Warning::NotText]),
    }
}

/// Reads a value of [`VARIABLE`]. `supported` are the names that this version has an effect for; others
/// that are valid get a [`Warning::NotSupported`] and stay as by default. A name that comes twice counts
/// the second time.
pub(crate) fn parse(text: &str, supported: &[&str]) -> (Config, Vec<Warning>) {
    let mut config = Config::default();
    let mut warnings = Vec::new();
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        if let Err(warning) = parse_part(part, supported, &mut config) {
            warnings.push(warning);
        }
    }
    (config, warnings)
}

fn parse_part(part: &str, supported: &[&str], config: &mut Config) -> Result<(), Warning> {
    let Some((name, value)) = part.split_once('=') else {
        return Err(Warning::NoValue(part.to_owned()));
    };
    let (name, value) = (name.trim(), value.trim());
    let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
        return Err(Warning::UnknownName(name.to_owned()));
    };
    let mut changed = config.clone();
    if (setting.apply)(&mut changed, value).is_none() {
        return Err(Warning::BadValue {
            name: setting.name,
            value: value.to_owned(),
            expected: setting.expected,
        });
    }
    if !supported.contains(&setting.name) {
        return Err(Warning::NotSupported(setting.name));
    }
    *config = changed;
    Ok(())
}

fn set<T>(place: &mut Option<T>, value: Option<T>) -> Option<()> {
    *place = Some(value?);
    Some(())
}

fn switch(place: &mut bool, value: &str) -> Option<()> {
    *place = match value {
        "0" => false,
        "1" => true,
        _ => return None,
    };
    Some(())
}

fn positive(value: &str) -> Option<u64> {
    // `parse` would take a sign.
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|&number| digits && number > 0)
}

/// A number with an optional `k`, `m` or `g` for powers of 1024.
fn bytes(value: &str) -> Option<u64> {
    let (number, shift) = match value.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (&value[..value.len() - 1], 10),
        b'm' => (&value[..value.len() - 1], 20),
        b'g' => (&value[..value.len() - 1], 30),
        _ => (value, 0),
    };
    positive(number)?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_names() -> Vec<&'static str> {
        SETTINGS.iter().map(|setting| setting.name).collect()
    }

    fn parse_all(text: &str) -> (Config, Vec<Warning>) {
        parse(text, &all_names())
    }

    #[test]
    fn nothing_asks_for_nothing() {
        for text in ["", ",", " , ,"] {
            assert_eq!(parse_all(text), (Config::default(), Vec::new()), "{text:?}");
        }
    }

    #[test]
    fn every_name_has_its_effect() {
        let text = "schedtrace=1000, scheddetail=1,trace=a dir/x=y.gmpt,tracestacks=1,tracesymbols=1,\
                    flightrecorder=10m,cpuprofile=100,gctrace=1,asyncpreemptoff=1";
        let expected = Config {
            schedtrace_ms: Some(1000),
            scheddetail: true,
            trace: Some(PathBuf::from("a dir/x=y.gmpt")),
            tracestacks: true,
            tracesymbols: true,
            flightrecorder_bytes: Some(10 << 20),
            cpuprofile_hz: Some(100),
            gctrace: true,
            asyncpreemptoff: true,
        };
        assert_eq!(parse_all(text), (expected, Vec::new()));
        for name in all_names() {
            assert!(text.contains(&format!("{name}=")), "the test lacks {name}");
        }
    }

    #[test]
    fn the_last_of_two_counts() {
        let (config, warnings) = parse_all("gctrace=1,schedtrace=5,gctrace=0,schedtrace=7");
        assert_eq!((config.gctrace, config.schedtrace_ms), (false, Some(7)));
        assert!(warnings.is_empty());
    }

    #[test]
    fn what_is_wrong_is_passed_over_and_the_rest_counts() {
        let (config, warnings) =
            parse_all("shedtrace=1,gctrace,scheddetail=yes,schedtrace=0,gctrace=1");
        assert_eq!(
            config,
            Config {
                gctrace: true,
                ..Config::default()
            }
        );
        let lines: Vec<String> = warnings.iter().map(Warning::to_string).collect();
        const NAMES: &str = "; valid names are schedtrace, scheddetail, trace, tracestacks, \
                             tracesymbols, flightrecorder, cpuprofile, gctrace, asyncpreemptoff";
        assert_eq!(
            lines,
            [
                format!("warning: GMPDEBUG: unknown name \"shedtrace\"{NAMES}"),
                format!("warning: GMPDEBUG: \"gctrace\" has no value, write name=value{NAMES}"),
                format!(
                    "warning: GMPDEBUG: scheddetail=\"yes\" is not a value, expected 0 or 1{NAMES}"
                ),
                format!(
                    "warning: GMPDEBUG: schedtrace=\"0\" is not a value, expected milliseconds \
                     between lines, at least 1{NAMES}"
                ),
            ]
        );
    }

    #[test]
    fn bad_values_of_every_name() {
        let mut checked = 0;
        for part in [
            "schedtrace=",
            "schedtrace=-1",
            "schedtrace=+1",
            "schedtrace=1s",
            "schedtrace=18446744073709551616",
            "scheddetail=2",
            "trace=",
            "tracestacks=on",
            "tracesymbols=",
            "flightrecorder=",
            "flightrecorder=m",
            "flightrecorder=0",
            "flightrecorder=17179869184g",
            "flightrecorder=1é",
            "cpuprofile=0",
            "cpuprofile=10001",
            "gctrace=01",
            "asyncpreemptoff=true",
        ] {
            let (config, warnings) = parse_all(part);
            assert_eq!(config, Config::default(), "{part}");
            assert!(
                matches!(warnings[..], [Warning::BadValue { .. }]),
                "{part}: {warnings:?}"
            );
            checked += 1;
        }
        assert_eq!(checked, 18);
    }

    #[test]
    fn a_name_without_effect_says_so_and_has_none() {
        let (config, warnings) = parse("gctrace=1,schedtrace=10,gctrace=2", &["schedtrace"]);
        assert_eq!(
            config,
            Config {
                schedtrace_ms: Some(10),
                ..Config::default()
            }
        );
        assert_eq!(warnings.len(), 2);
        assert_eq!(
            warnings[0].to_string(),
            "warning: GMPDEBUG: gctrace is not supported by this version"
        );
        assert!(matches!(
            warnings[1],
            Warning::BadValue {
                name: "gctrace",
                ..
            }
        ));
    }

    #[test]
    fn a_warning_is_one_line_of_bounded_length() {
        let (_, warnings) = parse_all(&format!("{}\n=1", "ä".repeat(5000)));
        let line = warnings[0].to_string();
        assert_eq!(line.lines().count(), 1);
        assert!(line.chars().count() < 300, "{line}");
    }
}
