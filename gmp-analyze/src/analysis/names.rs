//! Names of functions and places, out of the trace's tables.

use crate::machine::Place;
use gmp_trace::event::ExitHow;
use gmp_trace::tables::{Tables, Text};
use std::collections::HashMap;

/// What stands for a function that the trace does not name.
pub const UNKNOWN_FUNCTION: &str = "(unknown)";

/// What stands for the start function of goroutines that were made before the trace, where it does
/// not tell.
pub const BEFORE_TRACE: &str = "(made before the trace)";

/// The function at `place`; empty where the trace does not tell.
pub fn function(tables: &Tables, place: Place) -> String {
    let text = match place {
        Place::Unknown => None,
        Place::Site(site) => tables.site(site).map(|site| site.function),
        Place::Stack(stack) => tables.stack(stack).first().map(|frame| frame.function),
    };
    text.map_or(String::new(), |text| tables.text(text).to_owned())
}

/// The place as `file:line:column`, without what is not known; empty where nothing is.
pub fn position(tables: &Tables, place: Place) -> String {
    let (file, line, column) = match place {
        Place::Unknown => return String::new(),
        Place::Site(site) => match tables.site(site) {
            Some(site) => (site.file, site.line, site.column),
            None => return String::new(),
        },
        Place::Stack(stack) => match tables.stack(stack).first() {
            Some(frame) => (frame.file, frame.line, 0),
            None => return String::new(),
        },
    };
    let mut position = tables.text(file).to_owned();
    for number in [line, column] {
        if number == 0 || position.is_empty() {
            break;
        }
        position.push(':');
        position.push_str(&number.to_string());
    }
    position
}

/// The wait reason in Go's words; `waiting` where the trace does not tell.
pub fn reason(tables: &Tables, reason: Text) -> String {
    match tables.text(reason) {
        "" => "waiting".to_owned(),
        text => text.to_owned(),
    }
}

/// How a goroutine ended, in a word.
pub const fn exit(how: ExitHow) -> &'static str {
    match how {
        ExitHow::Returned => "returned",
        ExitHow::Panicked => "panicked",
        ExitHow::Goexit => "goexit",
        ExitHow::Cancelled => "cancelled",
    }
}

/// A function as people call it: without type arguments, and without saying that it is a closure,
/// which most start functions are and the position beside it tells as well.
pub fn plain_function(function: &str) -> String {
    let mut plain = String::with_capacity(function.len());
    let mut depth = 0_usize;
    let mut previous = ' ';
    for c in function.chars() {
        match c {
            // Arguments of a path or of a method, not `<T as Trait>` at the begin of one.
            '<' if depth > 0 || previous.is_alphanumeric() || previous == ':' => depth += 1,
            // Not the arrow of a function type.
            '>' if depth > 0 && previous != '-' => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
        previous = c;
    }
    let plain = plain.replace("::{{closure}}", "").replace("::::", "::");
    plain.trim_end_matches("::").to_owned()
}

/// The file without its directories, and the line; `None` where the trace does not tell.
fn file_and_line(tables: &Tables, place: Place) -> Option<(&str, u32)> {
    let (file, line) = match place {
        Place::Unknown => None,
        Place::Site(site) => tables.site(site).map(|site| (site.file, site.line)),
        Place::Stack(stack) => tables
            .stack(stack)
            .first()
            .map(|frame| (frame.file, frame.line)),
    }?;
    let file = tables.text(file);
    (!file.is_empty() && line > 0).then(|| (file.rsplit('/').next().unwrap_or(file), line))
}

/// A short name for each place: the last parts of its function, and the line where two would be the
/// same.
pub fn short_names(tables: &Tables, places: &[Place]) -> Vec<String> {
    let short = |place: &Place| match plain_function(&function(tables, *place)).as_str() {
        "" if *place == Place::Unknown => BEFORE_TRACE.to_owned(),
        "" => UNKNOWN_FUNCTION.to_owned(),
        plain => match plain.rmatch_indices("::").nth(1) {
            Some((at, _)) => plain[at + 2..].to_owned(),
            None => plain.to_owned(),
        },
    };
    let names: Vec<String> = places.iter().map(short).collect();
    let mut count: HashMap<&str, usize> = HashMap::new();
    for name in &names {
        *count.entry(name).or_default() += 1;
    }
    // Two of one name are told apart by the line, and by the column where that is the same as well.
    let lines: Vec<String> = places
        .iter()
        .map(|place| match file_and_line(tables, *place) {
            Some((file, line)) => format!("{file}:{line}"),
            None => String::new(),
        })
        .collect();
    let mut count_of_lines: HashMap<(&str, &str), usize> = HashMap::new();
    for (name, line) in names.iter().zip(&lines) {
        *count_of_lines.entry((name, line)).or_default() += 1;
    }
    let distinct = |number: usize| {
        let (name, line) = (names[number].as_str(), lines[number].as_str());
        if count[name] == 1 || line.is_empty() {
            name.to_owned()
        } else if count_of_lines[&(name, line)] == 1 {
            format!("{name} {line}")
        } else {
            let position = position(tables, places[number]);
            format!("{name} {}", position.rsplit('/').next().unwrap_or_default())
        }
    };
    (0..places.len()).map(distinct).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_called_by_their_plain_names() {
        let cases = [
            ("logpipe::pipeline::{{closure}}", "logpipe::pipeline"),
            (
                "a::Runtime::run<b::main::{{closure}}, Result<(), E>>::{{closure}}",
                "a::Runtime::run",
            ),
            (
                "core::iter::map::<fn() -> u8>::call",
                "core::iter::map::call",
            ),
            ("<T as Trait>::method", "<T as Trait>::method"),
            ("main.(*Server).handle", "main.(*Server).handle"),
            ("main.Map[go.shape.int]", "main.Map[go.shape.int]"),
            ("", ""),
        ];
        for (function, plain) in cases {
            assert_eq!(plain_function(function), plain);
        }
    }
}
