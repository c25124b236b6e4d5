//! Names of functions and places, out of the trace's tables.

use crate::machine::Place;
use gmp_trace::tables::{Tables, Text};

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
