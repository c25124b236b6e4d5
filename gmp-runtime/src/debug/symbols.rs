//! What functions and lines addresses belong to: names for the frames of a dump.
//!
//! Reads the symbol tables and line tables of the loaded files, which allocates and takes locks: never in a
//! signal handler.

use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use crate::debug::walk::Address;

/// One function that code is in the middle of. A frame of the stack has several when functions were
/// inlined into one another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The function, or its address where there are no symbols.
    pub(crate) function: String,
    /// File and line, where there are line tables.
    pub(crate) place: Option<(String, u32)>,
}

impl Line {
    /// Whether the function is the runtime's own, or what std calls closures and catches panics with.
    pub(crate) fn is_machinery(&self) -> bool {
        const PREFIXES: &[&str] = &[
            "gmp_runtime::",
            "std::panic::",
            "std::panicking::",
            "core::panic::",
            "core::ops::function::",
            "__rust_try",
        ];
        let name = self.function.trim_start_matches('<');
        PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    }
}

impl fmt::Display for Line {
    /// As Go's two lines of a frame, without the end of the second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(...)\n\t", self.function)?;
        match &self.place {
            Some((file, line)) => write!(f, "{file}:{line}"),
            None => f.write_str("?"),
        }
    }
}

/// Looks addresses up, each once.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    known: HashMap<Address, Rc<[Line]>>,
}

impl Symbols {
    /// The functions that `address` is in, the innermost first; at least one.
    pub(crate) fn lines(&mut self, address: Address) -> Rc<[Line]> {
        Rc::clone(
            self.known
                .entry(address)
                .or_insert_with(|| look_up(address).into()),
        )
    }
}

fn look_up(address: Address) -> Vec<Line> {
    // The library takes what it is given for a return address, and looks one byte before it.
    let (pc, asked) = match address {
        Address::Next(pc) => (pc, pc.wrapping_add(1)),
        Address::Return(pc) => (pc, pc),
    };
    let mut lines = Vec::new();
    backtrace::resolve(asked as *mut std::ffi::c_void, |symbol| {
        let function = match symbol.name() {
            Some(name) => format!("{name:#}"),
            None => format!("{pc:#x}"),
        };
        let place = symbol
            .filename()
            .zip(symbol.lineno())
            .map(|(file, line)| (file.display().to_string(), line));
        lines.push(Line { function, place });
    });
    if lines.is_empty() {
        lines.push(Line {
            function: format!("{pc:#x}"),
            place: None,
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_this_program_has_name_file_and_line() {
        let mut symbols = Symbols::default();
        let address = Address::Next(look_up as *const () as usize);
        let lines = symbols.lines(address);
        let outermost = lines.last().unwrap();
        assert!(outermost.function.contains("look_up"), "{lines:?}");
        let (file, line) = outermost.place.as_ref().unwrap();
        assert!(file.ends_with("debug/symbols.rs") && *line > 1, "{lines:?}");
        assert!(outermost.is_machinery());
        assert!(Rc::ptr_eq(&lines, &symbols.lines(address)), "found again");
    }

    #[test]
    fn an_address_of_nothing_is_shown_as_such() {
        let lines = look_up(Address::Return(0x17));
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].to_string(), "0x17(...)\n\t?");
        assert!(!lines[0].is_machinery());
    }
}
