//! Flame graphs as SVG, drawn by inferno, which takes folded text and splits it by rules of its own.
//!
//! A name may hold what those rules would split at. Such characters go through as characters that no
//! name has (private use), and are put back in the picture; what XML cannot hold at all becomes
//! U+FFFD.

use super::captions::Captions;
use super::folded::trailing_number;
use super::tree::{By, Class, Tree};
use crate::analysis::names::plain_function;
use crate::machine::GoroutineState as G;
use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{self, Options, TextTruncateDirection};
use std::io;

/// Stand-ins for `;`, a space, and `]`.
const STAND_INS: [(char, &str); 3] = [('\u{E000}', ";"), ('\u{E001}', " "), ('\u{E002}', "]")];

/// Characters of a line of the width of the picture, about.
const LINE: usize = 150;

/// Draws the stacks of `tree`, or with `difference` those of the trace in the colours of how much
/// more (red) or less (blue) they weigh than in the trace that is compared with. A tree without
/// weight draws a picture that says so.
///
/// # Errors
///
/// What `out` fails with.
pub fn picture(
    out: &mut dyn io::Write,
    tree: &Tree,
    by: By,
    difference: bool,
    captions: &Captions,
) -> io::Result<()> {
    let total = tree.totals(by)[0];
    if total == 0 {
        return out.write_all(empty(captions).as_bytes());
    }
    let lines = lines(tree, by, difference);
    let mut palette = palette(tree);
    let (factor, unit) = unit(total, by, captions.counted);
    let mut options = Options::default();
    options.title = xml_text(&captions.title);
    options.subtitle = Some(short(&xml_text(&captions.subtitle)));
    options.count_name = unit.to_owned();
    options.name_type = "Frame:".to_owned();
    options.factor = factor;
    options.deterministic = true;
    options.palette_map = Some(&mut palette);
    // What is neither more nor less than before is nearly white.
    let background = if difference { GREY } else { WHITE };
    options.bgcolors = Some(BackgroundColor::Flat(background));
    options.text_truncate_direction = TextTruncateDirection::Right;
    // A little more than characters of usual fonts take, so that no label leaves its frame.
    options.font_width = 0.62;
    // Its "flame chart" takes lines in the order in which they come, the last one first.
    options.flame_chart = true;
    let mut svg = Vec::new();
    let lines = lines.iter().rev().map(String::as_str);
    flamegraph::from_lines(&mut options, lines, &mut svg)?;
    let svg = String::from_utf8(svg)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let mut svg = with_named_root(svg);
    for (stand_in, text) in STAND_INS {
        if svg.contains(stand_in) {
            svg = svg.replace(stand_in, text);
        }
    }
    out.write_all(svg.as_bytes())?;
    out.write_all(b"\n")
}

/// A line for each stack, as inferno splits them, in the order in which they are drawn.
fn lines(tree: &Tree, by: By, difference: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (names, [new, old]) in tree.stacks(by) {
        let mut line = String::new();
        for (place, &name) in names.iter().enumerate() {
            if place > 0 {
                line.push(';');
            }
            line.push_str(&drawn(&short_name(tree.text(name))));
        }
        if difference {
            line.push_str(&format!(" {old} {new}"));
        } else {
            line.push_str(&format!(" {new}"));
        }
        lines.push(line);
    }
    lines
}

/// A name as it goes through inferno.
fn drawn(name: &str) -> String {
    let name = xml_text(name);
    let begin = name.len() - name.trim_start().len();
    let number = trailing_number(&name);
    // The last character of what would be taken for an annotation, and cut off.
    let annotated = ["_[k]", "_[w]", "_[i]", "_[j]"];
    let annotation = annotated.iter().any(|end| name.ends_with(end));
    let mut drawn = String::with_capacity(name.len());
    for (place, c) in name.char_indices() {
        let edge = place < begin || place >= number || (place == 1 && name.starts_with('#'));
        drawn.push(match c {
            ';' => '\u{E000}',
            c if edge && c.is_whitespace() => '\u{E001}',
            ']' if annotation && place + 1 == name.len() => '\u{E002}',
            c => c,
        });
    }
    drawn
}

/// `text` without characters that XML cannot hold, and without the stand-ins.
fn xml_text(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\u{FFFE}' | '\u{FFFF}' | '\u{E000}'..='\u{E002}' => '\u{FFFD}',
            c if c.is_control() => '\u{FFFD}',
            c => c,
        })
        .collect()
}

/// `text` cut to what fits into a line; the begin is what is kept.
fn short(text: &str) -> String {
    if text.chars().count() <= LINE {
        return text.to_owned();
    }
    text.chars().take(LINE - 1).chain(['…']).collect()
}

/// What weights are multiplied with to be shown, and in which unit they are then.
fn unit(total: u64, by: By, counted: &'static str) -> (f64, &'static str) {
    match (by, total) {
        (By::Count, _) => (1.0, counted),
        (By::Time, 0..100_000) => (1.0, "ns"),
        (By::Time, 100_000..10_000_000_000) => (1e-3, "µs"),
        (By::Time, _) => (1e-6, "ms"),
    }
}

const WHITE: Color = Color {
    r: 255,
    g: 255,
    b: 255,
};

const GREY: Color = Color {
    r: 218,
    g: 218,
    b: 218,
};

/// A colour for every name: its class's, a little lighter or darker from name to name.
fn palette(tree: &Tree) -> PaletteMap {
    let mut palette = PaletteMap::default();
    // The root has no name.
    palette.insert("", shade(Class::Note, ""));
    for (name, class) in tree.names() {
        palette.insert(drawn(&short_name(name)), shade(class, name));
    }
    palette
}

/// Colours that people with any kind of colour vision can tell apart (Okabe and Ito's, lighter, so
/// that black text can be read on them).
fn base(class: Class, hash: u32) -> [u8; 3] {
    match class {
        Class::Group => GROUPS[hash as usize % GROUPS.len()],
        Class::State(G::Running) => [90, 200, 165],
        Class::State(G::Runnable) => [240, 175, 70],
        Class::State(G::Waiting) => [130, 195, 235],
        Class::State(G::Syscall) => [215, 155, 190],
        Class::State(G::SyscallWithoutP) => [225, 130, 90],
        Class::State(G::Unknown) => [190, 190, 190],
        Class::Function => [232, 208, 165],
        Class::Note => [215, 215, 215],
    }
}

/// Groups stand side by side, and have to be told apart.
const GROUPS: [[u8; 3]; 6] = [
    [240, 230, 140],
    [224, 208, 180],
    [214, 225, 160],
    [236, 212, 120],
    [222, 214, 214],
    [240, 215, 190],
];

/// The colour of the class a little lighter or darker, by the name alone: the same name has the same
/// colour in every picture.
fn shade(class: Class, name: &str) -> Color {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in name.bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    let step = (hash >> 16) % 31;
    let moved = |part: u8| (u32::from(part) + step).saturating_sub(15).min(255) as u8;
    let [r, g, b] = base(class, hash >> 8).map(moved);
    Color { r, g, b }
}

/// The picture with a name in the lowest frame, which has all of them: without scripts it has none.
fn with_named_root(mut svg: String) -> String {
    let root = svg.find("<title>all (");
    let text = root.and_then(|root| svg[root..].find("></text>").map(|text| root + text + 1));
    if let Some(text) = text {
        svg.insert_str(text, "all");
    }
    svg
}

/// A name without what takes room and tells little: type arguments, and directories of files.
fn short_name(name: &str) -> String {
    // What does not close is no list of type arguments.
    let opened = name.matches('<').count();
    let closed = name.matches('>').count() - name.matches("->").count();
    let plain = if opened == closed {
        plain_function(name)
    } else {
        name.to_owned()
    };
    let parts = plain.split_inclusive([' ', '(', ')']);
    parts.map(without_directories).collect()
}

/// Files that are called alike everywhere: their directory tells more.
const CALLED_ALIKE: [&str; 4] = ["main.rs", "lib.rs", "mod.rs", "main.go"];

/// `path/to/file.rs:12` without its directories; `word` itself where it is no position.
fn without_directories(word: &str) -> &str {
    let Some((path, line)) = word.split_once(':') else {
        return word;
    };
    let mut parts = path.rmatch_indices('/');
    let (Some((last, _)), true) = (parts.next(), line.starts_with(|c: char| c.is_ascii_digit()))
    else {
        return word;
    };
    match parts.next() {
        Some((before, _)) if CALLED_ALIKE.contains(&&path[last + 1..]) => &word[before + 1..],
        None if CALLED_ALIKE.contains(&&path[last + 1..]) => word,
        _ => &word[last + 1..],
    }
}

/// A picture of nothing.
fn empty(captions: &Captions) -> String {
    let escape = |text: &str| {
        xml_text(text)
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    };
    let title = escape(&captions.title);
    let subtitle = escape(&short(&captions.subtitle));
    format!(
        r##"<?xml version="1.0" standalone="no"?>
<svg version="1.1" width="1200" height="120" viewBox="0 0 1200 120" xmlns="http://www.w3.org/2000/svg">
<rect x="0" y="0" width="100%" height="120" fill="#ffffff"/>
<text x="50%" y="24" text-anchor="middle" font-family="monospace" font-size="17">{title}</text>
<text x="50%" y="48" text-anchor="middle" font-family="monospace" font-size="12" fill="#a0a0a0">{subtitle}</text>
<text x="50%" y="88" text-anchor="middle" font-family="monospace" font-size="14">nothing of this kind is in the trace</text>
</svg>
"##
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_through_whole() {
        let back = |name: &str| {
            let mut text = drawn(name);
            for (stand_in, real) in STAND_INS {
                text = text.replace(stand_in, real);
            }
            text
        };
        let mut checked = 0;
        for name in ["a;b 3", "f_[k]", "# x", " edge ", "plain", "[u8; 8]", "3"] {
            let text = drawn(name);
            assert!(!text.contains(';'), "{text:?}");
            assert!(!text.starts_with("# "), "{text:?}");
            assert_eq!(text.trim(), text);
            assert_eq!(back(name), name);
            checked += 1;
        }
        assert_eq!(checked, 7);
        assert_eq!(
            drawn("a\u{1b}\u{FFFF}\u{E000}b"),
            "a\u{FFFD}\u{FFFD}\u{FFFD}b"
        );
    }

    #[test]
    fn directories_are_left_out() {
        let cases = [
            (
                "join @ gmp-runtime/examples/logpipe.rs:78:10",
                "join @ logpipe.rs:78:10",
            ),
            ("f (made at a/b/src/main.rs:1)", "f (made at src/main.rs:1)"),
            ("f (made at src/main.rs:1)", "f (made at src/main.rs:1)"),
            (
                "net/http.(*conn).serve (net/http/server.go:1949)",
                "net/http.(*conn).serve (server.go:1949)",
            ),
            ("a/b::c", "a/b::c"),
            ("x.rs:3", "x.rs:3"),
        ];
        for (name, expected) in cases {
            assert_eq!(short_name(name), expected);
        }
    }

    #[test]
    fn type_arguments_are_left_out() {
        let cases = [
            ("map<Vec<T>, fn(u8) -> R<u8>>::next", "map::next"),
            ("<T as Iterator>::next", "<T as Iterator>::next"),
            (
                "parse::{{closure}} (made at a.rs:1)",
                "parse (made at a.rs:1)",
            ),
            ("a<b", "a<b"),
            ("a->b>c", "a->b>c"),
        ];
        for (name, expected) in cases {
            assert_eq!(short_name(name), expected);
        }
    }

    #[test]
    fn units_keep_three_digits_of_what_can_be_seen() {
        assert_eq!(unit(99_999, By::Time, "spans").1, "ns");
        assert_eq!(unit(100_000, By::Time, "spans").1, "µs");
        assert_eq!(unit(9_999_999_999, By::Time, "spans").1, "µs");
        assert_eq!(unit(10_000_000_000, By::Time, "spans").1, "ms");
        assert_eq!(unit(7, By::Count, "spans"), (1.0, "spans"));
    }
}
