//! Writes comparisons as an aligned table, as Markdown and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::compare::{Comparison, PeerResult};
use crate::peers::Peer;
use crate::statistics::{Spread, advantage};

/// How a run was made, which every form states above or beside the figures.
#[derive(Debug)]
pub(crate) struct Setting {
    /// How many rounds.
    pub(crate) rounds: usize,
    /// The peer that the others are compared with.
    pub(crate) reference: Peer,
    /// Name and value of each fact about the machine and the programs.
    pub(crate) facts: Vec<(&'static str, String)>,
}

/// The heading of the aligned table.
pub(crate) fn text_heading(setting: &Setting) -> String {
    let mut text = String::new();
    for (name, value) in &setting.facts {
        line(&mut text, format_args!("{name}: {value}"));
    }
    line(
        &mut text,
        format_args!(
            "{} rounds, peers in turn; median (smallest to largest); the last column says how many \
             times better {} is, from pairs of neighbours",
            setting.rounds,
            setting.reference.name()
        ),
    );
    text
}

/// One row of the aligned table: its title and a line for each peer.
pub(crate) fn text_row(setting: &Setting, comparison: &Comparison) -> String {
    let row = comparison.row;
    let mut text = String::new();
    let unit = row.measure.unit();
    line(
        &mut text,
        format_args!("\n{} [{unit}] ({})", row.title, row.name),
    );
    for result in &comparison.results {
        let name = result.peer.name();
        match spread(result) {
            Err(reason) => line(&mut text, format_args!("  {name:<22} none: {reason}")),
            Ok(figures) => {
                let range = format!("({} to {})", number(figures.min), number(figures.max));
                let better = better(setting.reference, comparison, result).map(|ratio| {
                    format!(
                        "{} ({} to {})",
                        times(ratio.median),
                        times(ratio.min),
                        times(ratio.max)
                    )
                });
                line(
                    &mut text,
                    format_args!(
                        "  {name:<22} {:>9} {range:>22}  {}",
                        number(figures.median),
                        better.unwrap_or_default()
                    ),
                );
            }
        }
    }
    // Alignment leaves blanks at the ends of lines.
    text.lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// The whole as Markdown: one line a row, one column a peer, then the notes.
pub(crate) fn markdown(setting: &Setting, comparisons: &[Comparison], peers: &[Peer]) -> String {
    let mut text = String::new();
    for (name, value) in &setting.facts {
        line(&mut text, format_args!("* {name}: {value}"));
    }
    line(
        &mut text,
        format_args!("* rounds: {}, peers in turn\n", setting.rounds),
    );
    let mut heading = "| row | unit |".to_owned();
    let mut rule = "|---|---|".to_owned();
    for peer in peers {
        heading += &format!(" {} |", peer.name());
        rule += "---|";
    }
    line(&mut text, format_args!("{heading}\n{rule}"));
    let mut failures = Vec::new();
    for comparison in comparisons {
        let row = comparison.row;
        let cells: String = peers
            .iter()
            .map(|&peer| {
                format!(
                    " {} |",
                    markdown_cell(setting, comparison, peer, &mut failures)
                )
            })
            .collect();
        line(
            &mut text,
            format_args!("| {} | {} |{cells}", row.title, row.measure.unit()),
        );
    }
    line(
        &mut text,
        format_args!(
            "\nA cell: median (smallest to largest of the rounds), then how many times better {} \
             is, the median over pairs of neighbouring runs.\n",
            setting.reference.name()
        ),
    );
    for peer in peers {
        line(
            &mut text,
            format_args!("* {}: {}", peer.name(), peer.remark()),
        );
    }
    for failure in failures {
        line(&mut text, format_args!("* {failure}"));
    }
    text
}

/// The whole as JSON, with every single figure.
pub(crate) fn json(setting: &Setting, comparisons: &[Comparison]) -> Value {
    let facts: serde_json::Map<String, Value> = setting
        .facts
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    let rows: Vec<Value> = comparisons
        .iter()
        .map(|comparison| json_row(setting, comparison))
        .collect();
    json!({
        "rounds": setting.rounds,
        "reference": setting.reference.name(),
        "machine": facts,
        "rows": rows,
    })
}

fn json_row(setting: &Setting, comparison: &Comparison) -> Value {
    let row = comparison.row;
    let results: Vec<Value> = comparison
        .results
        .iter()
        .map(|result| match spread(result) {
            Err(reason) => json!({ "peer": result.peer.name(), "failure": reason }),
            Ok(figures) => json!({
                "peer": result.peer.name(),
                "median": figures.median,
                "min": figures.min,
                "max": figures.max,
                "figures": result.figures.as_deref().unwrap_or_default(),
                "reference_better": better(setting.reference, comparison, result).map(json_spread),
            }),
        })
        .collect();
    json!({
        "row": row.name,
        "title": row.title,
        "unit": row.measure.unit(),
        "procs": row.procs,
        "operations": comparison.operations,
        "results": results,
    })
}

fn json_spread(spread: Spread) -> Value {
    json!({ "median": spread.median, "min": spread.min, "max": spread.max })
}

fn markdown_cell(
    setting: &Setting,
    comparison: &Comparison,
    peer: Peer,
    failures: &mut Vec<String>,
) -> String {
    let Some(result) = comparison.result(peer) else {
        return "–".to_owned();
    };
    match spread(result) {
        Err(reason) => {
            failures.push(format!(
                "{}, {}: none, {reason}",
                comparison.row.title,
                peer.name()
            ));
            "none".to_owned()
        }
        Ok(figures) => {
            let ratio = better(setting.reference, comparison, result)
                .map(|ratio| format!(", {}", times(ratio.median)))
                .unwrap_or_default();
            format!(
                "{} ({}–{}){ratio}",
                number(figures.median),
                number(figures.min),
                number(figures.max)
            )
        }
    }
}

fn spread(result: &PeerResult) -> Result<Spread, String> {
    let figures = result.figures.as_ref().map_err(Clone::clone)?;
    Spread::of(figures).ok_or_else(|| "no round was run".to_owned())
}

/// How many times better `reference` is than the peer of `result`: nothing for itself.
fn better(reference: Peer, comparison: &Comparison, result: &PeerResult) -> Option<Spread> {
    let ours = comparison
        .result(reference)
        .filter(|_| result.peer != reference)?;
    advantage(
        ours.figures.as_ref().ok()?,
        result.figures.as_ref().ok()?,
        comparison.row.measure.larger_is_better(),
    )
}

/// Three digits that matter; more would be noise.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

fn times(ratio: f64) -> String {
    format!("{}×", number(ratio))
}

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = writeln!(text, "{what}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Row;

    fn setting() -> Setting {
        Setting {
            rounds: 3,
            reference: Peer::Tokio,
            facts: vec![("processor", "a quick one".to_owned())],
        }
    }

    fn comparison() -> Comparison {
        let result = |peer, figures| PeerResult { peer, figures };
        Comparison {
            row: Row::find("yield-1p").unwrap(),
            operations: 7,
            results: vec![
                result(Peer::Go, Ok(vec![60.0, 66.0, 63.0])),
                result(Peer::May, Err("exit status: 1: no room".to_owned())),
                result(Peer::Tokio, Ok(vec![10.0, 11.0, 10.5])),
            ],
        }
    }

    #[test]
    fn the_text_shows_median_range_ratio_and_failures() {
        let text = text_heading(&setting()) + &text_row(&setting(), &comparison());
        let wanted = [
            "processor: a quick one",
            "3 rounds",
            "63.0",
            "(60.0 to 66.0)",
            "6.00× (6.00× to 6.00×)",
            "none: exit status: 1: no room",
        ];
        for piece in wanted {
            assert!(text.contains(piece), "{piece:?} is missing in\n{text}");
        }
    }

    #[test]
    fn the_markdown_has_a_cell_for_every_peer() {
        let text = markdown(&setting(), &[comparison()], Peer::ALL);
        let columns = Peer::ALL.len() + 2;
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(lines.len(), 3, "{text}");
        for line in lines {
            assert_eq!(line.matches('|').count(), columns + 1, "{line}");
        }
        assert!(
            text.contains("| 63.0 (60.0–66.0), 6.00× | none | 10.5 (10.0–11.0) |"),
            "{text}"
        );
        assert!(
            text.contains("may: none, exit status: 1: no room"),
            "{text}"
        );
    }

    #[test]
    fn the_json_keeps_every_figure() {
        let value = json(&setting(), &[comparison()]);
        let results = &value["rows"][0]["results"];
        assert_eq!(results[0]["figures"], json!([60.0, 66.0, 63.0]));
        assert_eq!(results[0]["reference_better"]["median"], json!(6.0));
        assert_eq!(results[1]["failure"], json!("exit status: 1: no room"));
        assert_eq!(results[2]["reference_better"], Value::Null);
    }
}
