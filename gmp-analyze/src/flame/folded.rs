//! Folded text: a line for each stack, its frames with `;` between them, and its weight.
//!
//! # What is escaped
//!
//! A frame's name may hold anything, and whoever reads the text splits at `;`, at line ends, and at
//! spaces before numbers. So these are written as `\xNN` (`\u{NNNN}` beyond two digits):
//!
//! * `;`, and control characters;
//! * white space at the begin or the end of a name, and before digits that a name ends in;
//! * `#` at the begin of a name, which would make a line a comment.
//!
//! `\` itself is `\\`. Nothing else is touched, and what was escaped can be had back.

use super::tree::{By, Tree};
use std::io;

/// Writes a line for each stack of `tree`.
///
/// # Errors
///
/// What `out` fails with.
pub fn folded(out: &mut dyn io::Write, tree: &Tree, by: By) -> io::Result<()> {
    write(out, tree, by, |[weight, _]| match weight {
        0 => None,
        weight => Some(weight.to_string()),
    })
}

/// Writes a line for each stack with two weights: of the trace that is compared with, and of the
/// trace.
///
/// # Errors
///
/// What `out` fails with.
pub fn folded_difference(out: &mut dyn io::Write, tree: &Tree, by: By) -> io::Result<()> {
    write(out, tree, by, |[new, old]| Some(format!("{old} {new}")))
}

fn write(
    out: &mut dyn io::Write,
    tree: &Tree,
    by: By,
    weight: impl Fn([u64; 2]) -> Option<String>,
) -> io::Result<()> {
    let mut line = String::new();
    for (names, weights) in tree.stacks(by) {
        let Some(weight) = weight(weights) else {
            continue;
        };
        line.clear();
        for (place, &name) in names.iter().enumerate() {
            if place > 0 {
                line.push(';');
            }
            escape(&mut line, tree.text(name));
        }
        line.push(' ');
        line.push_str(&weight);
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// Where the digits that `name` ends in, and the white space before them, begin; the length of
/// `name` where there are none.
pub(super) fn trailing_number(name: &str) -> usize {
    let before = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if before.len() < name.len() && before.ends_with(char::is_whitespace) {
        before.trim_end().len()
    } else {
        name.trim_end().len()
    }
}

fn escape(line: &mut String, name: &str) {
    let begin = name.len() - name.trim_start().len();
    let number = trailing_number(name);
    for (place, c) in name.char_indices() {
        let edge = place < begin || place >= number;
        match c {
            '\\' => line.push_str("\\\\"),
            '#' if place == 0 => escape_char(line, c),
            ';' => escape_char(line, c),
            c if c.is_control() || (edge && c.is_whitespace()) => escape_char(line, c),
            c => line.push(c),
        }
    }
}

fn escape_char(line: &mut String, c: char) {
    let number = u32::from(c);
    if number < 0x100 {
        line.push_str(&format!("\\x{number:02x}"));
    } else {
        line.push_str(&format!("\\u{{{number:x}}}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_only_where_they_must_be() {
        let cases = [
            ("main::run", "main::run"),
            (
                "chan receive @ src/main.rs:12:9",
                "chan receive @ src/main.rs:12:9",
            ),
            ("[u8; 8]", "[u8\\x3b 8]"),
            ("a;b 3", "a\\x3bb\\x203"),
            ("a 3 4", "a 3\\x204"),
            ("version 1.5", "version\\x201.5"),
            ("a 3b", "a 3b"),
            (" both ", "\\x20both\\x20"),
            ("\u{a0}x\u{2003}", "\\xa0x\\u{2003}"),
            ("a\u{1b}[31m\n", "a\\x1b[31m\\x0a"),
            ("C:\\x", "C:\\\\x"),
            ("# comment", "\\x23 comment"),
            ("7", "7"),
            (" 7", "\\x207"),
        ];
        for (name, expected) in cases {
            let mut line = String::new();
            escape(&mut line, name);
            assert_eq!(line, expected, "{name:?}");
        }
    }
}
