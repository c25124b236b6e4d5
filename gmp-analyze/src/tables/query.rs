//! SQL over the tables, through polars.

use super::columns::{Columns, NO_WORD, NULL, Values};
use super::schema::{Table, Unit};
use polars::prelude::{
    AnyValue, BooleanChunked, ChunkTake, Column, DataFrame, IdxCa, Int64Chunked, IntoColumn,
    IntoLazy, NewChunkedArray, PolarsResult, StringChunked,
};
use polars::sql::{SQLContext, extract_table_identifiers};
use std::fmt;

/// Why a query cannot be answered: what was expected, what was found, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// A query that names only what there is.
#[derive(Clone, Debug)]
pub struct Query {
    sql: String,
    tables: Vec<Table>,
}

impl Query {
    /// Reads `sql`, and asks it of empty tables, so that whoever mistypes a name learns of it before the
    /// trace is read.
    ///
    /// # Errors
    ///
    /// When it is no SQL, or names what there is not.
    pub fn new(sql: &str) -> Result<Query, Error> {
        let named = extract_table_identifiers(sql, false, true);
        let named = named.map_err(|error| explained(&error.to_string(), Table::ALL))?;
        let named = |table: &&Table| named.iter().any(|name| name == table.name());
        let query = Query {
            sql: sql.to_owned(),
            tables: Table::ALL.iter().filter(named).copied().collect(),
        };
        query.answer(Vec::new())?;
        Ok(query)
    }

    /// The tables that it reads.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The answer from `built`; tables that are not among them are empty.
    ///
    /// # Errors
    ///
    /// When polars cannot evaluate it.
    pub fn answer(&self, built: Vec<Columns>) -> Result<Answer, Error> {
        let mut context = SQLContext::new();
        let answered = register(&mut context, built)
            .and_then(|()| context.execute(&self.sql)?.collect())
            .map(|mut frame| {
                frame.rechunk_mut();
                Answer { frame }
            });
        answered.map_err(|error| explained(&error.to_string(), &self.tables))
    }
}

/// Makes every table known; those that were not built are empty.
fn register(context: &mut SQLContext, mut built: Vec<Columns>) -> PolarsResult<()> {
    for &table in Table::ALL {
        let place = built.iter().position(|columns| columns.table == table);
        let frame = match place {
            Some(place) => frame(built.swap_remove(place))?,
            None => empty(table)?,
        };
        context.register(table.name(), frame.lazy());
    }
    Ok(())
}

fn empty(table: Table) -> PolarsResult<DataFrame> {
    let values = |unit| match unit {
        Unit::Text => Values::Words([].into(), [].into()),
        Unit::Flag => Values::Flags(Vec::new()),
        _ => Values::Numbers(Vec::new()),
    };
    let columns = table.columns().iter();
    frame(Columns {
        table,
        columns: columns.map(|column| values(column.unit)).collect(),
    })
}

fn frame(columns: Columns) -> PolarsResult<DataFrame> {
    let named = columns.table.columns().iter().zip(columns.columns);
    let columns: Vec<Column> = named
        .map(|(column, values)| series(column.name, values))
        .collect::<PolarsResult<_>>()?;
    let height = columns.first().map_or(0, Column::len);
    DataFrame::new(height, columns)
}

fn series(name: &'static str, values: Values) -> PolarsResult<Column> {
    let name = name.into();
    Ok(match values {
        Values::Numbers(numbers) if !numbers.contains(&NULL) => {
            Int64Chunked::from_vec(name, numbers).into_column()
        }
        Values::Numbers(numbers) => {
            let numbers = numbers.iter().map(|&of| (of != NULL).then_some(of));
            Int64Chunked::from_iter_options(name, numbers).into_column()
        }
        Values::Flags(flags) => {
            BooleanChunked::from_iter_options(name, flags.into_iter()).into_column()
        }
        Values::Words(words, numbers) => {
            // One more, so that there is something to take no word of.
            let words = words.iter().map(Option::as_deref).chain([None]);
            let words = StringChunked::from_iter_options(name, words);
            let numbers = numbers.iter().map(|&of| (of != NO_WORD).then_some(of));
            // Takes references to the words: a row does not have the text itself.
            words
                .take(&IdxCa::from_iter_options("".into(), numbers))?
                .into_column()
        }
    })
}

/// What a query found.
#[derive(Clone, Debug)]
pub struct Answer {
    frame: DataFrame,
}

/// One value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// None.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// Words, and whatever else SQL can make.
    Text(String),
    /// True or false.
    Flag(bool),
    /// Several.
    List(Vec<Value>),
}

impl Answer {
    /// The names of the columns.
    pub fn names(&self) -> Vec<String> {
        let names = self.frame.columns().iter();
        names.map(|column| column.name().to_string()).collect()
    }

    /// True for columns of numbers.
    pub fn numeric(&self) -> Vec<bool> {
        let columns = self.frame.columns().iter();
        columns
            .map(|column| column.dtype().is_primitive_numeric())
            .collect()
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.frame.height()
    }

    /// The values of row `row`; none where there is no such row.
    pub fn row(&self, row: usize) -> Vec<Value> {
        let columns = self.frame.columns().iter();
        columns
            .filter_map(|column| column.get(row).ok())
            .map(|value| value_of(&value))
            .collect()
    }
}

fn value_of(value: &AnyValue<'_>) -> Value {
    match value {
        AnyValue::Null => Value::Null,
        AnyValue::Boolean(flag) => Value::Flag(*flag),
        AnyValue::String(text) => Value::Text((*text).to_owned()),
        AnyValue::StringOwned(text) => Value::Text(text.to_string()),
        AnyValue::Float32(number) => Value::Number((*number).into()),
        AnyValue::List(values) => {
            Value::List(values.iter().map(|value| value_of(&value)).collect())
        }
        AnyValue::Float64(number) => Value::Number(*number),
        other => match other.extract::<i64>() {
            Some(number) if other.is_integer() => Value::Integer(number),
            _ => Value::Text(other.to_string()),
        },
    }
}

/// The message of polars for users: what was not found, what is like it, where to look.
fn explained(message: &str, tables: &[Table]) -> Error {
    let quoted_after = |begin: &str, end: char| {
        let rest = message.split_once(begin)?.1;
        Some(rest.split_once(end)?.0.to_owned())
    };
    if let Some(name) = quoted_after("relation '", '\'') {
        let names = Table::ALL.iter().map(|table| table.name());
        let all: Vec<&str> = names.clone().collect();
        let like = suggestion(&name, names);
        return Error(format!(
            "expected one of the tables {}, found {name}{like}",
            all.join(", ")
        ));
    }
    let column = quoted_after("unable to find column \"", '"')
        .or_else(|| quoted_after("no column named '", '\''));
    if let Some(name) = column {
        let columns = tables.iter().flat_map(|table| table.columns());
        let like = suggestion(&name, columns.map(|column| column.name));
        let tables: Vec<&str> = tables.iter().map(|table| table.name()).collect();
        return Error(format!(
            "expected a column of {}, found {name}{like}; gmp-analyze query --tables lists them",
            tables.join(", ")
        ));
    }
    if let Some(name) = quoted_after("duplicate output name '", '\'') {
        return Error(format!(
            "two columns of the answer would be called {name}: give them names of their own with AS"
        ));
    }
    let line = message.lines().next().unwrap_or_default();
    match line.strip_prefix("sql parser error: ") {
        Some(what) => Error(format!("the query is not SQL: {what}")),
        None => Error(format!("the query cannot be answered: {line}")),
    }
}

/// How alike names must be, from 0 to 1, for one to be suggested for the other.
const ALIKE: f64 = 0.7;

/// The one of `names` that is most like `name`, as a question; empty where none is like it.
fn suggestion<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let name = name.to_lowercase();
    let alike = |other: &str| strsim::jaro_winkler(&name, other);
    let best = names.max_by(|a, b| alike(a).total_cmp(&alike(b)));
    match best {
        Some(best) if alike(best) >= ALIKE => format!(": did you mean {best}?"),
        _ => String::new(),
    }
}
