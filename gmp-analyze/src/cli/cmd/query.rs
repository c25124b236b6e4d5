//! `query`: SQL over tables of the trace.

use crate::cli::args::QueryArgs;
use crate::cli::{Failure, Verdict, config};
use crate::render::tables;
use std::io::Write;

pub(super) fn run(args: &QueryArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    match (&args.trace, &args.sql) {
        (Some(trace), Some(sql)) => ask(args, trace, sql, out)?,
        _ => tables::list(out, config::layout(None, None).width)?,
    }
    Ok(Verdict::Fine)
}

#[cfg(feature = "tables")]
use with_sql::ask;

#[cfg(feature = "tables")]
mod with_sql {
    use super::super::{damage, picture, range};
    use super::{Failure, QueryArgs, Write};
    use crate::render::query as render;
    use crate::tables::schema::Table;
    use crate::tables::{Builder, MOST_ROWS, Query, TooLarge};
    use crate::{input, session, units};
    use std::ffi::OsStr;

    pub(super) fn ask(
        args: &QueryArgs,
        trace: &OsStr,
        sql: &str,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let window = range::window(&args.range)?;
        let query = Query::new(sql).map_err(failed)?;
        let mut input = input::open(trace, true)?;
        let builder = Builder::new(query.tables(), window, MOST_ROWS);
        let outcome = session::run(&mut input, builder)?;
        let (facts, span) = (input.facts(), outcome.end.since(outcome.begin));
        let built = outcome.sink.finish(input.tables(), &facts);
        let answer = query.answer(built.map_err(too_large)?).map_err(failed)?;
        damage::note(&input, &outcome.counts);
        range::note(&args.range, &facts.source, input.event_count() > 0, span);
        if facts.of_go && query.tables().contains(&Table::Steals) {
            let what = "a trace of Go does not tell of steals: that table is empty";
            picture::note(&facts.source, what);
        }
        if args.json {
            render::json(out, &facts, &answer)?;
        } else if args.csv {
            render::csv(out, &answer)?;
        } else {
            render::text(out, &answer)?;
        }
        Ok(())
    }

    fn failed(error: crate::tables::Error) -> Failure {
        Failure::Usage(error.to_string())
    }

    fn too_large(error: TooLarge) -> Failure {
        let (rows, most) = (units::count(error.rows), units::count(MOST_ROWS));
        let until = units::duration(error.full_at);
        Failure::Usage(format!(
            "expected at most {most} rows in the tables of a query, found {rows}: ask for a part of the \
             trace with --from and --to (the first {most} end at {until}), or name fewer tables"
        ))
    }
}

#[cfg(not(feature = "tables"))]
fn ask(_: &QueryArgs, _: &std::ffi::OsStr, _: &str, _: &mut dyn Write) -> Result<(), Failure> {
    Err(Failure::Usage(
        "expected to be built with SQL, which is left out unless it is asked for, because it takes \
         minutes to build: cargo build --release -p gmp-analyze --features tables"
            .to_owned(),
    ))
}
