//! Tables: columns with names and units, rows of cells. Text, JSON and CSV are made of the same
//! ones, so that they have the same columns.

use crate::units;
use gmp_trace::time::Nanos;

/// What a column holds. It decides the names of its fields in JSON and CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Words. Field: the column's name.
    Text,
    /// A function. Field: the column's name. Text shows it last, and cuts it to what fits.
    Function,
    /// A place in the source. Field: the column's name. Text shows it beside the function.
    Position,
    /// How many. Field: the column's name.
    Count,
    /// A mean number of things. Field: the column's name.
    Mean,
    /// True or false. Field: the column's name.
    Flag,
    /// A duration, or a time from the begin of the trace. Field: `NAME_ns`.
    Time,
    /// A duration and what part it is of a whole. Fields: `NAME_ns` and `NAME_share`.
    TimeAndShare,
}

impl Unit {
    /// True for names, which text shows last and cuts to what fits.
    pub(super) fn is_name(self) -> bool {
        matches!(self, Unit::Function | Unit::Position)
    }
}

/// When text shows a column. JSON and CSV always have all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Always.
    Always,
    /// Only where some row has a value that is not zero.
    WhenSet,
    /// Only where some row has a value that is not zero, and there is room.
    Wide,
    /// Never: it is for programs, or is said otherwise.
    Never,
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name in JSON and CSV, before the unit.
    pub name: &'static str,
    /// Its heading in text.
    pub heading: &'static str,
    /// What it holds.
    pub unit: Unit,
    /// When text shows it.
    pub show: Show,
    /// What it means.
    pub about: &'static str,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// There is none.
    Nothing,
    /// For [`Unit::Text`], [`Unit::Function`] and [`Unit::Position`].
    Text(String),
    /// For [`Unit::Count`].
    Count(u64),
    /// For [`Unit::Mean`].
    Mean(f64),
    /// For [`Unit::Flag`].
    Flag(bool),
    /// For [`Unit::Time`].
    Time(Nanos),
    /// For [`Unit::TimeAndShare`].
    TimeAndShare(Nanos, f64),
}

impl Cell {
    /// A text; nothing where it is empty.
    pub fn text(text: &str) -> Cell {
        if text.is_empty() {
            Cell::Nothing
        } else {
            Cell::Text(text.to_owned())
        }
    }

    /// True where there is a value that is not zero.
    pub fn is_set(&self) -> bool {
        match self {
            Cell::Nothing => false,
            Cell::Text(text) => !text.is_empty(),
            Cell::Count(count) => *count != 0,
            Cell::Mean(value) => *value != 0.0,
            Cell::Flag(flag) => *flag,
            Cell::Time(time) | Cell::TimeAndShare(time, _) => *time != Nanos::ZERO,
        }
    }

    /// The value as people read it; `compact` leaves shares out beside times.
    pub fn in_words(&self, compact: bool) -> String {
        match self {
            Cell::Nothing => "-".to_owned(),
            Cell::Text(text) => text.clone(),
            Cell::Count(count) => units::count(*count),
            Cell::Mean(value) => format!("{value:.2}"),
            Cell::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
            Cell::Time(time) => units::duration(*time),
            Cell::TimeAndShare(time, _) if compact || *time == Nanos::ZERO => {
                units::duration(*time)
            }
            Cell::TimeAndShare(time, share) => {
                format!("{} {:>5}", units::duration(*time), units::percent(*share))
            }
        }
    }
}

/// Rows under the same columns.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name in JSON and on the command line.
    pub name: &'static str,
    /// Its title in text.
    pub title: &'static str,
    /// A line under the title in text; may be empty.
    pub note: String,
    /// The columns.
    pub columns: &'static [Column],
    /// The rows; each has a cell for every column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// The fields of one row, as JSON and CSV have them: name and value.
    pub fn fields<'a>(
        &self,
        row: &'a [Cell],
    ) -> impl Iterator<Item = (String, Field<'a>)> + use<'a> {
        let columns = self.columns;
        columns
            .iter()
            .zip(row)
            .flat_map(|(column, cell)| fields_of(column, cell))
    }

    /// The names of all fields.
    pub fn field_names(&self) -> Vec<String> {
        self.columns
            .iter()
            .flat_map(|column| fields_of(column, &Cell::Nothing))
            .map(|(name, _)| name)
            .collect()
    }
}

/// A value as a program reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field<'a> {
    /// No value.
    Null,
    /// Words.
    Text(&'a str),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// True or false.
    Flag(bool),
}

/// The fields of a cell under a column.
pub(super) fn fields_of<'a>(column: &Column, cell: &'a Cell) -> Vec<(String, Field<'a>)> {
    let value = match cell {
        Cell::Nothing => Field::Null,
        Cell::Text(text) => Field::Text(text),
        Cell::Count(count) => Field::Integer(i64::try_from(*count).unwrap_or(i64::MAX)),
        Cell::Mean(value) => Field::Number(rounded(*value)),
        Cell::Flag(flag) => Field::Flag(*flag),
        Cell::Time(time) | Cell::TimeAndShare(time, _) => Field::Integer(time.0),
    };
    let name = column.name;
    match column.unit {
        Unit::Text | Unit::Function | Unit::Position | Unit::Count | Unit::Mean | Unit::Flag => {
            vec![(name.to_owned(), value)]
        }
        Unit::Time => vec![(format!("{name}_ns"), value)],
        Unit::TimeAndShare => {
            let share = match cell {
                Cell::TimeAndShare(_, share) => Field::Number(rounded(*share)),
                _ => Field::Null,
            };
            vec![
                (format!("{name}_ns"), value),
                (format!("{name}_share"), share),
            ]
        }
    }
}

/// Six digits after the point are enough for a share, and the same on every machine.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        Column {
            name: "p",
            heading: "P",
            unit: Unit::Count,
            show: Show::Always,
            about: "",
        },
        Column {
            name: "idle",
            heading: "idle",
            unit: Unit::TimeAndShare,
            show: Show::Always,
            about: "",
        },
    ];

    #[test]
    fn a_time_with_its_share_is_two_fields() {
        let row = vec![Cell::Count(3), Cell::TimeAndShare(Nanos(500), 1.0 / 3.0)];
        let table = Table {
            name: "t",
            title: "T",
            note: String::new(),
            columns: COLUMNS,
            rows: vec![row],
        };
        assert_eq!(table.field_names(), ["p", "idle_ns", "idle_share"]);
        let fields: Vec<_> = table
            .fields(&table.rows[0])
            .map(|(_, field)| field)
            .collect();
        assert_eq!(
            fields,
            [
                Field::Integer(3),
                Field::Integer(500),
                Field::Number(0.333_333)
            ]
        );
        assert_eq!(table.rows[0][1].in_words(false), "500ns 33.3%");
        assert_eq!(table.rows[0][1].in_words(true), "500ns");
    }
}
