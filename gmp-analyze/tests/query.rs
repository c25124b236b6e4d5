//! SQL over tables: its figures are the report's, null is what a trace cannot tell, and whoever mistypes
//! is told what there is.

mod common;

use common::expected::{compare, fixtures, made};
use common::golden;
use gmp_analyze::analysis::names;
use gmp_analyze::analysis::report::{Name, Report};
use gmp_analyze::analysis::window::Window;
use gmp_analyze::machine::{GoroutineState, ProcState};
use gmp_analyze::render::query as render;
use gmp_analyze::tables::schema::{Table, Unit};
use gmp_analyze::tables::{Answer, Builder, MOST_ROWS, Query, TooLarge, Value};
use gmp_analyze::{input, session};
use gmp_trace::time::Nanos;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Traces of ours and of Go: those in the repository and those made here.
fn traces() -> Vec<(String, PathBuf)> {
    let mut traces = golden::traces();
    traces.push(("pipeline-8p".to_owned(), pipeline()));
    traces
}

/// A trace of ours with eight Ps, goroutines that are stuck, steals.
fn pipeline() -> PathBuf {
    static FILE: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    let file = FILE.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("query");
        std::fs::create_dir_all(&directory).expect("a directory for tests");
        let path = directory.join("pipeline-8p.gmpt");
        let mut made = made();
        std::fs::write(&path, made.pop().expect("a trace").1).expect("written");
        path
    });
    file.clone()
}

fn ask_for(path: &Path, sql: &str, window: Window, most: u64) -> Result<Answer, TooLarge> {
    let query = Query::new(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut input = input::open(path.as_os_str(), false).expect("a trace");
    let builder = Builder::new(query.tables(), window, most);
    let outcome = session::run(&mut input, builder).expect("read");
    let built = outcome.sink.finish(input.tables(), &input.facts())?;
    Ok(query
        .answer(built)
        .unwrap_or_else(|error| panic!("{sql}: {error}")))
}

fn rows(path: &Path, sql: &str) -> Vec<Vec<Value>> {
    let answer = ask_for(path, sql, Window::WHOLE, MOST_ROWS).expect("room");
    (0..answer.rows()).map(|row| answer.row(row)).collect()
}

fn whole(value: &Value) -> i64 {
    match value {
        Value::Integer(number) => *number,
        other => panic!("expected a whole number, found {other:?}"),
    }
}

fn words(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Null => None,
        other => panic!("expected words, found {other:?}"),
    }
}

/// An answer of `K` columns of words and `N` of whole numbers: the numbers by the words.
fn figures<const K: usize, const N: usize>(
    path: &Path,
    sql: &str,
) -> BTreeMap<[Option<String>; K], [i64; N]> {
    let all = rows(path, sql);
    let found: BTreeMap<_, _> = all
        .iter()
        .map(|row| {
            assert_eq!(row.len(), K + N, "{sql}");
            let key = std::array::from_fn(|place| words(&row[place]));
            let numbers = std::array::from_fn(|place| whole(&row[K + place]));
            (key, numbers)
        })
        .collect();
    assert_eq!(found.len(), all.len(), "{sql}: a key twice");
    found
}

fn report(path: &Path) -> Report {
    session::report(path.as_os_str(), true, false).expect("a trace")
}

#[test]
fn figures_of_ps_are_those_of_the_report() {
    let mut figures = 0;
    for (name, path) in traces() {
        let report = report(&path);
        let mut expected = BTreeMap::new();
        let mut switches = BTreeMap::new();
        for row in &report.procs {
            let p = i64::from(row.times.proc.get());
            for &state in ProcState::ALL {
                if row.times.of(state) > Nanos::ZERO {
                    expected.insert((p, state.name().to_owned()), row.times.of(state).0);
                }
            }
            if row.switches > 0 {
                switches.insert(p, row.switches as i64);
            }
        }
        figures += expected.len();
        let sql = "SELECT p, state, SUM(duration_ns) FROM p_spans GROUP BY p, state";
        let found: BTreeMap<_, _> = rows(&path, sql)
            .iter()
            .map(|row| {
                let state = words(&row[1]).expect("a state");
                ((whole(&row[0]), state), whole(&row[2]))
            })
            .collect();
        assert_eq!(found, expected, "{name}");
        let sql = "SELECT p, COUNT(*) FROM wakes WHERE p IS NOT NULL GROUP BY p";
        let found: BTreeMap<_, _> = rows(&path, sql)
            .iter()
            .map(|row| (whole(&row[0]), whole(&row[1])))
            .collect();
        assert_eq!(found, switches, "{name}: switches");
        let all = rows(&path, "SELECT COUNT(*) FROM wakes");
        assert_eq!(whole(&all[0][0]) as u64, report.summary.switches, "{name}");
    }
    assert!(figures > 50, "{figures}");
}

#[test]
fn figures_of_steals_are_those_of_the_report() {
    let mut steals = 0;
    for (name, path) in traces() {
        let report = report(&path);
        let expected: Vec<[i64; 5]> = report
            .steals
            .pairs
            .iter()
            .map(|(&(thief, victim), pair)| {
                let thief = thief.map_or(-1, |p| i64::from(p.get()));
                let counts = [pair.steals, pair.goroutines, pair.runnext].map(|n| n as i64);
                let [steals, goroutines, runnext] = counts;
                [thief, i64::from(victim.get()), steals, goroutines, runnext]
            })
            .collect();
        let sql =
            "SELECT COALESCE(thief, -1) AS thief, victim, COUNT(*), COALESCE(SUM(goroutines), 0),
                          SUM(CASE WHEN what = 'runnext' THEN 1 ELSE 0 END) AS runnext
                   FROM steals GROUP BY thief, victim ORDER BY thief, victim";
        let found: Vec<[i64; 5]> = rows(&path, sql)
            .iter()
            .map(|row| std::array::from_fn(|place| whole(&row[place])))
            .collect();
        let sorted = |mut rows: Vec<[i64; 5]>| {
            rows.sort_unstable();
            rows
        };
        assert_eq!(sorted(found), sorted(expected), "{name}");
        steals += report.steals.total().steals;
    }
    assert!(steals > 10, "{steals}");
}

/// Function and position as SQL has them: null where the report has a stand-in.
fn key(name: &Name) -> [Option<String>; 2] {
    let stand_ins = [names::UNKNOWN_FUNCTION, names::BEFORE_TRACE, ""];
    let known = |text: &str| (!stand_ins.contains(&text)).then(|| text.to_owned());
    [known(&name.function), known(&name.position)]
}

#[test]
fn figures_of_groups_are_those_of_the_report() {
    let mut groups = 0;
    for (name, path) in traces() {
        let report = report(&path);
        let mut expected: BTreeMap<_, [i64; 8]> = BTreeMap::new();
        for row in &report.groups {
            let group = &row.group;
            let sums = expected.entry(key(&row.name)).or_default();
            let more = [
                group.goroutines() as i64,
                group.existed as i64,
                group.alive as i64,
                group.of(GoroutineState::Running).0,
                group.of(GoroutineState::Runnable).0,
                group.of(GoroutineState::Waiting).0,
                group.life.0,
            ];
            for (sum, more) in sums.iter_mut().zip(more) {
                *sum += more;
            }
            sums[7] = sums[7].max(group.most_running.0);
        }
        let sql = "SELECT function, made_at, COUNT(*) AS goroutines,
                          SUM(CASE WHEN existed THEN 1 ELSE 0 END) AS existed,
                          SUM(CASE WHEN alive THEN 1 ELSE 0 END) AS alive,
                          SUM(running_ns) AS running, SUM(runnable_ns) AS runnable,
                          SUM(waiting_ns) AS waiting, SUM(end_ns - begin_ns) AS life,
                          MAX(running_ns) AS most_running
                   FROM goroutines GROUP BY function, made_at";
        let found = figures::<2, 8>(&path, sql);
        assert_eq!(found, expected, "{name}");
        groups += found.len();
    }
    assert!(groups > 50, "{groups}");
}

#[test]
fn spans_and_starts_of_groups_are_those_of_the_report() {
    let mut spans = 0;
    for (name, path) in traces() {
        let report = report(&path);
        let mut expected = BTreeMap::new();
        let mut latencies = BTreeMap::new();
        for row in &report.groups {
            for &state in GoroutineState::ALL {
                let count = row.group.spans[state as usize] as i64;
                if count > 0 {
                    let [function, position] = key(&row.name);
                    let of_state = [function, position, Some(state.name().to_owned())];
                    let sums: &mut [i64; 2] = expected.entry(of_state).or_default();
                    sums[0] += count;
                    sums[1] += row.group.of(state).0;
                }
            }
            let latency = &row.group.latency;
            if latency.count() > 0 {
                let sums: &mut [i64; 2] = latencies.entry(key(&row.name)).or_default();
                sums[0] += latency.count() as i64;
                sums[1] += latency.total().0;
            }
        }
        let sql =
            "SELECT g.function, g.made_at, s.state, COUNT(*) AS spans, SUM(s.duration_ns) AS time
                   FROM g_spans s JOIN goroutines g ON s.goroutine = g.goroutine
                   GROUP BY g.function, g.made_at, s.state";
        let found = figures::<3, 2>(&path, sql);
        assert_eq!(found, expected, "{name}");
        spans += found.values().map(|sums| sums[0]).sum::<i64>();
        let sql = "SELECT g.function, g.made_at, COUNT(*) AS wakes, SUM(w.latency_ns) AS latency
                   FROM wakes w JOIN goroutines g ON w.goroutine = g.goroutine
                   WHERE w.latency_ns IS NOT NULL GROUP BY g.function, g.made_at";
        let found = figures::<2, 2>(&path, sql);
        assert_eq!(found, latencies, "{name}");
        // Without the join: the function is in every row where the goroutine is known.
        let sql = "SELECT COUNT(*) FROM g_spans s JOIN goroutines g ON s.goroutine = g.goroutine
                   WHERE s.function <> g.function
                      OR (s.function IS NULL) <> (g.function IS NULL)";
        assert_eq!(whole(&rows(&path, sql)[0][0]), 0, "{name}");
    }
    assert!(spans > 10_000, "{spans}");
}

#[test]
fn causes_of_latency_are_those_of_the_report() {
    let mut causes = 0;
    for (name, path) in traces() {
        let report = report(&path);
        let expected: BTreeMap<_, [i64; 3]> = report
            .causes
            .iter()
            .map(|row| {
                let found = row
                    .found
                    .map(|_| gmp_analyze::analysis::latency::found_name(row.found).to_owned());
                let latency = &row.latency;
                let figures = [latency.count() as i64, latency.total().0, latency.max().0];
                ([found, Some(row.cause.name().to_owned())], figures)
            })
            .collect();
        let sql = "SELECT found, cause, COUNT(*), SUM(latency_ns), MAX(latency_ns) AS longest
                   FROM wakes WHERE cause IS NOT NULL GROUP BY found, cause";
        let found = figures::<2, 3>(&path, sql);
        assert_eq!(found, expected, "{name}");
        causes += found.len();
    }
    assert!(causes > 20, "{causes}");
}

#[test]
fn the_trace_is_one_row() {
    for (name, path) in traces() {
        let report = report(&path);
        let sql = "SELECT span_ns, events, lost_events, bytes, generations, format FROM trace";
        let rows = rows(&path, sql);
        assert_eq!(rows.len(), 1, "{name}");
        let numbers: Vec<i64> = rows[0][..5].iter().map(whole).collect();
        let (summary, trace) = (&report.summary, &report.trace);
        let counts = [
            summary.events,
            summary.lost_events,
            trace.bytes,
            trace.generations,
        ];
        let mut expected = vec![summary.span.0];
        expected.extend(counts.map(|count| count as i64));
        assert_eq!(numbers, expected, "{name}");
        assert_eq!(words(&rows[0][5]).as_deref(), Some(trace.format.as_str()));
    }
}

/// What a format does not tell is null; a sum over nothing is null as well, and no query makes a zero of
/// it.
#[test]
fn what_a_trace_cannot_tell_is_null() {
    let go = fixtures().join("go/go1.27-pipeline.trace");
    let count = |path: &Path, what: &str| whole(&rows(path, what)[0][0]);
    let wakes = count(&go, "SELECT COUNT(*) FROM wakes");
    assert!(wakes > 100, "{wakes}");
    assert_eq!(count(&go, "SELECT COUNT(found) FROM wakes"), 0);
    assert_eq!(count(&go, "SELECT COUNT(*) FROM steals"), 0);
    let sum = rows(&go, "SELECT SUM(goroutines) FROM steals");
    assert_eq!(sum, [[Value::Null]]);
    // A goroutine that was runnable before the trace has no latency.
    let sql = "SELECT COUNT(*) FROM wakes WHERE ready_ns IS NULL
               AND (latency_ns IS NOT NULL OR cause IS NOT NULL OR waker IS NOT NULL)";
    assert_eq!(count(&go, sql), 0);
    let ours = pipeline();
    assert!(count(&ours, "SELECT COUNT(found) FROM wakes") > 100);
    let sql = "SELECT COUNT(*) FROM g_spans WHERE state NOT IN ('running', 'syscall')
               AND p IS NOT NULL";
    assert_eq!(count(&ours, sql), 0);
    let sql = "SELECT COUNT(*) FROM g_spans WHERE state <> 'waiting'
               AND (reason IS NOT NULL OR object IS NOT NULL)";
    assert_eq!(count(&ours, sql), 0);
    let sql = "SELECT COUNT(*) FROM g_spans WHERE state = 'waiting' AND reason IS NULL";
    assert_eq!(count(&ours, sql), 0, "ours tells every reason");
    let sql = "SELECT COUNT(exit) FROM goroutines WHERE alive";
    assert_eq!(count(&ours, sql), 0);
}

/// Two windows that meet make the whole.
#[test]
fn windows_add_up() {
    let sql = [
        "SELECT state, SUM(duration_ns) FROM g_spans GROUP BY state ORDER BY state",
        "SELECT state, SUM(duration_ns) FROM p_spans GROUP BY state ORDER BY state",
        "SELECT 'starts' AS what, COUNT(*) FROM wakes",
        "SELECT 'steals' AS what, COUNT(*) FROM steals",
        "SELECT 'running' AS what, SUM(running_ns) FROM goroutines",
    ];
    let path = pipeline();
    let span = report(&path).summary.span;
    let cut = Nanos(span.0 / 3);
    let (before, after) = (
        Window {
            to: cut,
            ..Window::WHOLE
        },
        Window {
            from: cut,
            ..Window::WHOLE
        },
    );
    for sql in sql {
        let sums = |window| {
            let answer = ask_for(&path, sql, window, MOST_ROWS).expect("room");
            let rows = (0..answer.rows()).map(|row| answer.row(row));
            rows.map(|row| (words(&row[0]), whole(&row[1])))
                .collect::<BTreeMap<_, _>>()
        };
        let (whole, mut parts) = (sums(Window::WHOLE), sums(before));
        assert_ne!(whole, parts, "{sql}");
        for (what, more) in sums(after) {
            *parts.entry(what).or_default() += more;
        }
        assert_eq!(parts, whole, "{sql}");
    }
    let sql = "SELECT MIN(begin_ns), MAX(end_ns) FROM g_spans";
    let answer = ask_for(&path, sql, after, MOST_ROWS).expect("room");
    let edges: Vec<i64> = answer.row(0).iter().map(whole).collect();
    assert_eq!(edges, [cut.0, span.0]);
}

#[test]
fn rows_are_bounded_and_only_those_of_named_tables_count() {
    let path = pipeline();
    let count = |table: &str| {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        whole(&rows(&path, &sql)[0][0]) as u64
    };
    let (spans, wakes) = (count("g_spans"), count("wakes"));
    assert!(spans > wakes && wakes > 100);
    let ask = |sql: &str, most| ask_for(&path, sql, Window::WHOLE, most);
    assert!(ask("SELECT COUNT(*) FROM wakes", wakes).is_ok());
    let error = ask("SELECT COUNT(*) FROM wakes", wakes / 2).expect_err("no room");
    assert_eq!(error.rows, wakes);
    let span = report(&path).summary.span;
    assert!(error.full_at > Nanos::ZERO && error.full_at < span);
    // What was said to have room has it.
    let before = Window {
        to: error.full_at,
        ..Window::WHOLE
    };
    assert!(ask_for(&path, "SELECT COUNT(*) FROM wakes", before, wakes / 2).is_ok());
    let both = "SELECT COUNT(*) FROM wakes w JOIN g_spans s ON w.goroutine = s.goroutine";
    assert_eq!(ask(both, spans).expect_err("no room").rows, spans + wakes);
}

#[test]
fn mistakes_are_explained() {
    let cases = [
        (
            "SELECT stat FROM g_spans",
            "expected a column of g_spans, found stat: did you mean state?; gmp-analyze query --tables",
        ),
        (
            "SELECT SUM(duration) FROM p_spans",
            "found duration: did you mean duration_ns?",
        ),
        (
            "SELECT w.latency FROM wakes w",
            "found latency: did you mean latency_ns?",
        ),
        (
            "SELECT g.Goroutine FROM goroutines g",
            "found Goroutine: did you mean goroutine?",
        ),
        (
            "SELECT zzz FROM wakes",
            "expected a column of wakes, found zzz;",
        ),
        (
            "SELECT * FROM goroutine",
            "expected one of the tables goroutines, g_spans, p_spans, wakes, steals, trace, found \
             goroutine: did you mean goroutines?",
        ),
        ("SELECT * FROM spans", "found spans: did you mean"),
        ("SELEC 1", "the query is not SQL: Expected"),
        ("SELECT 1 FROM", "the query is not SQL: Expected"),
        (
            "SELECT MIN(start_ns), MAX(start_ns) FROM wakes",
            "two columns of the answer would be called start_ns: give them names of their own with AS",
        ),
        ("", "the query"),
        ("SELECT 1; SELECT 2", "the query cannot be answered: one"),
        (
            "SELECT no_such(goroutine) FROM wakes",
            "the query cannot be answered: unsupported function 'no_such'",
        ),
        (
            "SELECT state, duration_ns FROM g_spans GROUP BY state",
            "the query cannot be answered: 'duration_ns' should participate in the GROUP BY",
        ),
        (
            "SELECT state + 1 FROM g_spans WHERE state > 5",
            "the query cannot be answered",
        ),
        ("DELETE FROM nothing", "found nothing"),
    ];
    for (sql, says) in cases {
        let error = Query::new(sql).map(|_| ()).expect_err(sql);
        assert!(error.to_string().contains(says), "{sql}: {error}");
        assert!(!error.to_string().contains('\n'), "{sql}: {error}");
    }
    let query = Query::new("WITH w AS (SELECT * FROM wakes) SELECT COUNT(*) FROM w").expect("SQL");
    assert_eq!(query.tables(), [Table::Wakes]);
}

const PAGE: &str = "docs/tables.md";

/// The page of the documentation has every table and column as they are.
#[test]
fn the_page_of_tables_is_as_the_schema() {
    let mut page = String::from(
        "# Tables\n\nWhat `gmp-analyze query TRACE \"SQL\"` can be asked over. Of tables that a query does not name \
         nothing is kept.\nWhat a trace cannot tell is null. `gmp-analyze query --tables` prints this page.\n",
    );
    for table in Table::ALL {
        page += &format!("\n## `{}`\n\n{}\n\n", table.name(), table.about());
        page += "| column | type | unit | meaning |\n|---|---|---|---|\n";
        for column in table.columns() {
            let (of_type, unit) = (column.unit.sql_type(), column.unit.words());
            page += &format!(
                "| `{}` | {of_type} | {unit} | {} |\n",
                column.name, column.about
            );
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PAGE);
    if std::env::var_os("GMP_BLESS").is_some_and(|bless| bless == "1") {
        std::fs::write(&path, &page).expect("written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "{PAGE} differs: GMP_BLESS=1 writes it anew"
    );
}

/// The types of the columns are those of the schema.
#[test]
fn columns_have_the_types_of_the_schema() {
    let path = pipeline();
    let mut values = 0;
    for table in Table::ALL {
        let answer = ask_for(
            &path,
            &format!("SELECT * FROM {} LIMIT 500", table.name()),
            Window::WHOLE,
            MOST_ROWS,
        );
        let answer = answer.expect("room");
        let names: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
        assert_eq!(answer.names(), names);
        for row in (0..answer.rows()).map(|row| answer.row(row)) {
            for (value, column) in row.iter().zip(table.columns()) {
                let fits = match value {
                    Value::Null => true,
                    Value::Text(_) => column.unit == Unit::Text,
                    Value::Flag(_) => column.unit == Unit::Flag,
                    Value::Integer(_) => column.unit.sql_type() == "BIGINT",
                    Value::Number(_) | Value::List(_) => false,
                };
                assert!(fits, "{}.{}: {value:?}", table.name(), column.name);
                values += 1;
            }
        }
    }
    assert!(values > 5_000, "{values}");
}

fn program(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gmp-analyze"));
    command.args(arguments).env_remove("CLICOLOR_FORCE");
    command.output().expect("runs")
}

#[test]
fn answers_are_as_expected() {
    let trace = fixtures().join("gmp/channels.gmpt").display().to_string();
    let sql = "SELECT function, COUNT(*) AS goroutines, SUM(running_ns) AS running_ns,
                      AVG(waiting_ns) AS mean_waiting_ns, MIN(creator) AS creator
               FROM goroutines GROUP BY function ORDER BY running_ns DESC";
    let mut differences = Vec::new();
    for (form, name) in [
        (None, "txt"),
        (Some("--csv"), "csv"),
        (Some("--json"), "json"),
    ] {
        let mut arguments = vec!["query", &trace, sql];
        arguments.extend(form);
        let output = program(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.as_ref()), (Some(0), ""));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let text = text.replace(&trace, "channels.gmpt");
        compare(&format!("query.{name}"), &text, &mut differences);
    }
    let tables = program(&["query", "--tables"]);
    assert_eq!(tables.status.code(), Some(0));
    let text = String::from_utf8(tables.stdout).expect("UTF-8");
    compare("query.tables.txt", &text, &mut differences);
    assert!(differences.is_empty(), "\n{}\n", differences.join("\n"));
}

#[test]
fn the_command_says_what_is_wrong() {
    let ours = pipeline().display().to_string();
    let go = fixtures().join("go/go1.27-pipeline.trace");
    let go = go.display().to_string();
    let steals = "SELECT COUNT(*) FROM steals";
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["query", &ours, "SELECT stat FROM g_spans"],
            2,
            "did you mean state?",
        ),
        (
            &["query", "none.gmpt", "SELECT stat FROM g_spans"],
            2,
            "did you mean",
        ),
        (
            &["query", "none.gmpt", "SELECT state FROM g_spans"],
            2,
            "no such file",
        ),
        (&["query", &ours], 2, "<SQL>"),
        (&["query", &go, steals], 0, "does not tell of steals"),
        (&["query", &ours, steals], 0, ""),
        (
            &["query", &ours, steals, "--from", "2ms", "--to", "1ms"],
            2,
            "--from has to be",
        ),
        (
            &["query", &ours, steals, "--from", "9h"],
            0,
            "nothing is in the range",
        ),
    ];
    for (arguments, code, says) in cases {
        let output = program(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
        assert_eq!(says.is_empty(), said.is_empty(), "{arguments:?}: {said}");
    }
}

/// What is not a scalar, and what a terminal must not get.
#[test]
fn odd_values_are_shown() {
    let sql = "SELECT 1.5 AS number, 'a\u{7}' AS bell, 1 > 2 AS flag, NULL AS none,
                      9223372036854775807 AS large FROM trace";
    let path = pipeline();
    let answer = ask_for(&path, sql, Window::WHOLE, MOST_ROWS).expect("room");
    let mut out = Vec::new();
    render::text(&mut out, &answer).expect("a vector");
    let text = anstream::adapter::strip_str(&String::from_utf8(out).expect("UTF-8")).to_string();
    let lines: Vec<&str> = text.lines().collect();
    let cells: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(
        cells,
        ["1.5", "a\u{FFFD}", "false", "-", "9223372036854775807"]
    );
    assert_eq!(lines[2], "(1 row)");
    // All of a list, however long.
    let listed = "SELECT ARRAY_AGG(goroutine) AS list FROM goroutines";
    let answer = ask_for(&path, listed, Window::WHOLE, MOST_ROWS).expect("room");
    let goroutines = whole(&rows(&path, "SELECT COUNT(*) FROM goroutines")[0][0]);
    let mut out = Vec::new();
    render::csv(&mut out, &answer).expect("a vector");
    let text = String::from_utf8(out).expect("UTF-8");
    assert_eq!(text.split(", ").count() as i64, goroutines);
    assert!(goroutines > 50, "{goroutines}");
    // More rows than text shows.
    let many = "SELECT goroutine FROM g_spans";
    let answer = ask_for(&path, many, Window::WHOLE, MOST_ROWS).expect("room");
    let mut out = Vec::new();
    render::text(&mut out, &answer).expect("a vector");
    let text = String::from_utf8(out).expect("UTF-8");
    assert_eq!(text.lines().count(), 1_002);
    assert!(
        text.contains("1 000 shown"),
        "{}",
        text.lines().last().unwrap_or("")
    );
}
