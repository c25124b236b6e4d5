//! Pictures as SVG: the timeline and histograms of durations.
//!
//! plotters draws what has axes: meshes, labels, areas, lines. Spans, marks and whatever has a text
//! that shows under the pointer are written by [`svg`], which is more compact and knows `<title>`.
//! The same answer gives the same bytes.

pub mod histogram;
pub mod timeline;

mod axis;
mod palette;
mod svg;

use plotters::drawing::DrawingAreaErrorKind;
use std::fmt;

/// A picture that could not be drawn: an error of the program, not of the trace.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the picture cannot be drawn: {}", self.0)
    }
}

impl std::error::Error for Error {}

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for Error {
    fn from(error: DrawingAreaErrorKind<E>) -> Error {
        Error(error.to_string())
    }
}

/// The font of all text.
const FONT: &str = "Helvetica, Arial, sans-serif";

/// plotters writes 1/1.24 of the size that it is given; this gives `pixels`.
fn font(pixels: u32) -> (&'static str, f64) {
    (FONT, f64::from(pixels) * 1.24)
}
