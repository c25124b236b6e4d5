//! SVG elements that are written by hand, and names made fit for them.

use std::fmt::Write;

/// Text as XML can hold it: markup is escaped, characters that XML forbids are replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            c => escaped.push(allowed(c)),
        }
    }
    escaped
}

/// Text without what XML forbids, for plotters, which escapes markup itself.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(allowed).collect()
}

/// `c`, or what stands for characters that XML forbids or that would break a line.
fn allowed(c: char) -> char {
    match c {
        c if c.is_control() => '\u{FFFD}',
        '\u{FFFE}' | '\u{FFFF}' => '\u{FFFD}',
        c => c,
    }
}

/// About how many pixels wide `text` is in letters of `size` pixels; rather too much.
pub(super) fn width_of(text: &str, size: u32) -> u32 {
    let wide = unicode_width::UnicodeWidthStr::width(text) as f64;
    (wide * f64::from(size) * 0.57).ceil() as u32
}

/// `text` in at most `width` pixels; the end is what is kept, since names differ there.
pub(super) fn cut(text: &str, width: u32, size: u32) -> String {
    if width_of(text, size) <= width {
        return text.to_owned();
    }
    let mut kept: Vec<char> = Vec::new();
    for c in text.chars().rev() {
        kept.push(c);
        let so_far: String = kept.iter().rev().collect();
        if width_of(&so_far, size) + size > width {
            kept.pop();
            break;
        }
    }
    std::iter::once('…').chain(kept.into_iter().rev()).collect()
}

/// A number of pixels with one digit after the point, and none where it is zero.
pub(super) fn number(value: f64) -> String {
    let tenths = (value * 10.0).round() as i64;
    let (whole, rest) = (tenths / 10, (tenths % 10).abs());
    let sign = if tenths < 0 && whole == 0 { "-" } else { "" };
    if rest == 0 {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{rest}")
    }
}

/// A rectangle on the picture, in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    fn attributes(&self) -> String {
        format!(
            "x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
            number(self.x),
            number(self.y),
            number(self.width),
            number(self.height)
        )
    }
}

/// Where a text stands in relation to its point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// SVG as it is written.
#[derive(Debug, Default)]
pub(super) struct Svg {
    out: String,
}

impl Svg {
    /// Begins a group with these attributes.
    pub(super) fn open(&mut self, attributes: &str) {
        let _ = writeln!(self.out, "<g {attributes}>");
    }

    /// Ends the group.
    pub(super) fn close(&mut self) {
        self.out.push_str("</g>\n");
    }

    /// Markup as it is.
    pub(super) fn raw(&mut self, markup: &str) {
        self.out.push_str(markup);
        self.out.push('\n');
    }

    /// A rectangle with more attributes, as `fill`, and a text under the pointer where `title` is
    /// not empty.
    pub(super) fn rect(&mut self, area: Area, attributes: &str, title: &str) {
        let _ = write!(self.out, "<rect {}", area.attributes());
        if !attributes.is_empty() {
            let _ = write!(self.out, " {attributes}");
        }
        if title.is_empty() {
            self.out.push_str("/>\n");
        } else {
            let _ = writeln!(self.out, "><title>{}</title></rect>", escaped(title));
        }
    }

    /// A path with more attributes; nothing where it is empty.
    pub(super) fn path(&mut self, data: &str, attributes: &str) {
        if !data.is_empty() {
            let _ = writeln!(self.out, "<path {attributes} d=\"{data}\"/>");
        }
    }

    /// A text; `title` shows under the pointer.
    pub(super) fn text(&mut self, at: (f64, f64), anchor: Anchor, attributes: &str, text: &str) {
        self.titled_text(at, anchor, attributes, text, "");
    }

    /// A text and what shows under the pointer, where that is not empty.
    pub(super) fn titled_text(
        &mut self,
        (x, y): (f64, f64),
        anchor: Anchor,
        attributes: &str,
        text: &str,
        title: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y) = (number(x), number(y));
        let _ = write!(
            self.out,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" {attributes}>"
        );
        if !title.is_empty() {
            let _ = write!(self.out, "<title>{}</title>", escaped(title));
        }
        let _ = writeln!(self.out, "{}</text>", escaped(text));
    }

    /// What was written.
    pub(super) fn into_string(self) -> String {
        self.out
    }
}

/// Rectangles of one colour as the data of one path: much shorter than elements.
#[derive(Debug, Default)]
pub(super) struct Rects {
    data: String,
}

impl Rects {
    pub(super) fn add(&mut self, area: Area) {
        let width = number(area.width);
        let _ = write!(
            self.data,
            "M{} {}h{width}v{}h-{width}z",
            number(area.x),
            number(area.y),
            number(area.height),
        );
    }

    pub(super) fn data(&self) -> &str {
        &self.data
    }
}

/// Puts what was written by hand over what plotters drew, and gives the whole a title.
pub(super) fn over(drawn: &str, title: &str, written: &str) -> String {
    let (begin, rest) = drawn.split_once('\n').unwrap_or((drawn, ""));
    let body = rest.trim_end().strip_suffix("</svg>").unwrap_or(rest);
    format!(
        "{begin}\n<title>{}</title>\n{body}{written}</svg>\n",
        escaped(title)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_text_that_xml_can_hold() {
        let name = "a<b>&\"c';\u{1b}[31m\u{0}\n\u{FFFF}ü";
        assert_eq!(
            escaped(name),
            "a&lt;b&gt;&amp;&quot;c&apos;;\u{FFFD}[31m\u{FFFD}\u{FFFD}\u{FFFD}ü"
        );
        assert_eq!(plain("a\u{7}b"), "a\u{FFFD}b");
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (12.04, "12"),
            (12.06, "12.1"),
            (-0.3, "-0.3"),
            (-5.0, "-5"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn long_names_keep_their_end() {
        let cut = cut("a_very_long_module::of_a_program::worker", 120, 11);
        assert!(cut.starts_with('…') && cut.ends_with("::worker"), "{cut}");
        assert!(width_of(&cut, 11) <= 130, "{cut}");
        assert_eq!(super::cut("P0", 120, 11), "P0");
    }

    #[test]
    fn what_is_written_comes_last() {
        let picture = over("<svg a=\"b\">\n<rect/>\n</svg>\n", "T<", "<g/>\n");
        assert_eq!(
            picture,
            "<svg a=\"b\">\n<title>T&lt;</title>\n<rect/>\n<g/>\n</svg>\n"
        );
    }
}
