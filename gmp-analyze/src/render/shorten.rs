//! Names of functions and files cut to what fits, from the side that tells least.

use crate::analysis::names::plain_function;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A name as a terminal can show it: control characters, which could do anything to a terminal, are
/// replaced.
pub(super) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{FFFD}' } else { c })
        .collect()
}

/// A function and a position in at most `width` columns: first whole, then without the leading
/// parts of the paths, then cut.
pub(super) fn name(function: &str, position: &str, width: usize) -> String {
    let (function, position) = (plain_function(&printable(function)), printable(position));
    let joined = |function: &str, position: &str| match (function, position) {
        (function, "") => function.to_owned(),
        ("", position) => position.to_owned(),
        (function, position) => format!("{function}  {position}"),
    };
    let line = without_column(&position);
    let candidates = [
        joined(&function, &position),
        joined(&function, last_parts(&position, "/", 2)),
        joined(
            last_parts(&function, "::", 3),
            last_parts(&position, "/", 2),
        ),
        joined(last_parts(&function, "::", 3), last_parts(line, "/", 2)),
        joined(last_parts(&function, "::", 2), last_parts(line, "/", 1)),
        joined(last_parts(&function, "::", 1), last_parts(line, "/", 1)),
    ];
    for candidate in &candidates {
        if candidate.width() <= width {
            return candidate.clone();
        }
    }
    cut(&candidates[candidates.len() - 1], width)
}

/// `file:line` of `file:line:column`.
fn without_column(position: &str) -> &str {
    match position.rsplit_once(':') {
        Some((rest, _)) if rest.contains(':') => rest,
        _ => position,
    }
}

/// The last `parts` parts of a path.
fn last_parts<'a>(path: &'a str, separator: &str, parts: usize) -> &'a str {
    match path.rmatch_indices(separator).nth(parts - 1) {
        Some((place, _)) => &path[place + separator.len()..],
        None => path,
    }
}

/// `text` in at most `width` columns; the end is what is kept.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = Vec::new();
    let mut used = 1;
    for c in text.chars().rev() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(c);
    }
    std::iter::once('…').chain(kept.into_iter().rev()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_tells_least_first() {
        let function = "my_server::pipeline::parse::worker";
        let position = "examples/log/src/pipeline.rs:120:9";
        let cases = [
            (
                80,
                "my_server::pipeline::parse::worker  examples/log/src/pipeline.rs:120:9",
            ),
            (
                60,
                "my_server::pipeline::parse::worker  src/pipeline.rs:120:9",
            ),
            (50, "pipeline::parse::worker  src/pipeline.rs:120:9"),
            (45, "pipeline::parse::worker  src/pipeline.rs:120"),
            (36, "parse::worker  pipeline.rs:120"),
            (25, "worker  pipeline.rs:120"),
            (12, "…line.rs:120"),
        ];
        for (width, expected) in cases {
            let name = name(function, position, width);
            assert_eq!(name, expected);
            assert!(name.width() <= width, "{name}");
        }
        assert_eq!(name("main", "", 80), "main");
        assert_eq!(name("", "a.rs:1", 80), "a.rs:1");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\nc"), "a\u{FFFD}[31mb\u{FFFD}c");
        assert_eq!(cut("日本語のラベル", 7), "…ラベル");
    }
}
