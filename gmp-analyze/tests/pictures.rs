//! Timelines and histograms: sums equal the report's, SVG that an XML parser takes, bounded size,
//! empty traces, and pictures compared with the expected ones.

mod common;

use common::expected::{compare, made};
use common::{Script, p};
use gmp_analyze::analysis::breakdown::{Breakdown, By, LatencyTable};
use gmp_analyze::analysis::collect::Collector;
use gmp_analyze::analysis::filter::Filter;
use gmp_analyze::analysis::names::plain_function;
use gmp_analyze::analysis::report::Report;
use gmp_analyze::analysis::timeline::{Chart, Colour, Lanes, Options, Paint, Timeline};
use gmp_analyze::analysis::window::Window;
use gmp_analyze::input::TraceFacts;
use gmp_analyze::machine::{GoroutineState, Machine, Outcome, ProcState, Sink};
use gmp_analyze::plot;
use gmp_analyze::render::breakdown;
use gmp_analyze::render::text::Layout;
use gmp_analyze::session;
use gmp_trace::event::{Found, StealFrom};
use gmp_trace::tables::{Tables, Text};
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};
use std::io::Cursor;
use std::path::Path;
use std::process::Command;

/// Everything that a picture is made of.
struct Trace {
    events: Vec<Event>,
    tables: Tables,
}

impl Trace {
    fn read(bytes: &[u8]) -> Trace {
        let mut reader = gmp_trace::open(Cursor::new(bytes.to_vec())).expect("a trace");
        let mut events = Vec::new();
        reader
            .for_each_event(|event, _| events.push(*event))
            .expect("whole");
        let tables = reader.tables().clone();
        Trace { events, tables }
    }

    fn of(script: &Script) -> Trace {
        Trace {
            events: script.events.clone(),
            tables: script.tables.clone(),
        }
    }

    fn run<S: Sink>(&self, sink: S) -> Outcome<S> {
        let mut machine = Machine::new(sink);
        self.events.iter().for_each(|event| machine.event(event));
        machine.finish()
    }

    fn report(&self) -> Report {
        let outcome = self.run(Collector::new(true));
        Report::new(outcome, TraceFacts::default(), &self.tables, Vec::new())
    }

    fn chart(&self, options: Options) -> Chart {
        let outcome = self.run(Timeline::new(options));
        outcome.sink.finish(outcome.end, &self.tables)
    }

    fn latency(&self, by: By) -> LatencyTable {
        self.latency_within(by, Window::WHOLE)
    }

    fn latency_within(&self, by: By, window: Window) -> LatencyTable {
        let outcome = self.run(Breakdown::new(by, window));
        outcome.sink.finish(&self.tables)
    }
}

fn options(lanes: Lanes, colour: Colour) -> Options {
    Options {
        lanes,
        colour,
        window: Window::WHOLE,
        pixels: plot::timeline::pixels(400, lanes),
    }
}

fn traces() -> Vec<(&'static str, Trace)> {
    let traces = made().into_iter();
    traces
        .map(|(name, bytes)| (name, Trace::read(&bytes)))
        .collect()
}

/// A parser takes it; gives how many elements there are.
fn well_formed(svg: &str) -> usize {
    let mut reader = quick_xml::Reader::from_str(svg);
    reader.config_mut().check_end_names = true;
    let mut elements = 0;
    loop {
        match reader.read_event().expect("XML") {
            quick_xml::events::Event::Eof => break,
            quick_xml::events::Event::Start(start) | quick_xml::events::Event::Empty(start) => {
                for attribute in start.attributes() {
                    let value = attribute.expect("an attribute").value.into_owned();
                    assert!(!value.contains("NaN") && !value.contains("inf"), "{value}");
                }
                elements += 1;
            }
            _ => {}
        }
    }
    let allowed = |c: char| c == '\n' || (!c.is_control() && c != '\u{FFFE}' && c != '\u{FFFF}');
    assert!(svg.chars().all(allowed), "a character that XML forbids");
    elements
}

/// The time of a lane in the paints that `wanted` picks.
fn time(chart: &Chart, label: &str, wanted: impl Fn(Paint) -> bool) -> Nanos {
    let lane = chart.lanes.iter().find(|lane| lane.label == label);
    let lane = lane.unwrap_or_else(|| panic!("no lane {label}"));
    let spans = lane.spans.iter().map(|span| span.paint);
    let mut paints: Vec<Paint> = spans
        .chain(lane.merged.iter().map(|merged| merged.paint))
        .collect();
    paints.sort_unstable();
    paints.dedup();
    let times = paints.into_iter().filter(|paint| wanted(*paint));
    Nanos(times.map(|paint| lane.time(paint).0).sum())
}

#[test]
fn lanes_of_ps_have_the_times_of_the_report() {
    let mut checked = 0;
    for (name, trace) in traces() {
        let report = trace.report();
        for colour in [Colour::Group, Colour::State] {
            let chart = trace.chart(options(Lanes::Procs, colour));
            assert_eq!(chart.lanes.len(), report.procs.len(), "{name}");
            for row in &report.procs {
                let label = format!("P{}", row.times.proc);
                for &state in ProcState::ALL {
                    let drawn = time(&chart, &label, |paint| match paint {
                        Paint::Group(_) | Paint::Others => state == ProcState::Running,
                        paint => paint == Paint::Proc(state),
                    });
                    assert_eq!(drawn, row.times.of(state), "{name} {label} {state:?}");
                    checked += 1;
                }
                let busy = chart.busy.iter().find(|(p, _)| format!("P{p}") == label);
                let busy: i64 = busy.expect("a row").1.iter().sum();
                assert_eq!(Nanos(busy), row.times.of(ProcState::Running));
            }
        }
    }
    assert!(checked > 100);
}

#[test]
fn states_and_legend_have_the_times_of_the_report() {
    let mut checked = 0;
    for (name, trace) in traces() {
        let report = trace.report();
        let chart = trace.chart(options(Lanes::Procs, Colour::Group));
        for &state in GoroutineState::ALL {
            let groups = report.groups.iter().map(|row| row.group.of(state).0);
            let drawn: i64 = chart.states[state as usize].iter().sum();
            assert_eq!(drawn, groups.sum::<i64>(), "{name} {state:?}");
            checked += 1;
        }
        for (entry, row) in chart.legend.iter().zip(&report.groups) {
            assert_eq!(entry.running, row.group.of(GoroutineState::Running));
        }
        let legend: i64 = chart.legend.iter().map(|entry| entry.running.0).sum();
        let running: i64 = chart.states[GoroutineState::Running as usize].iter().sum();
        assert_eq!(legend + chart.others.1.0, running, "{name}");
        let lanes = trace.chart(options(Lanes::Groups, Colour::State)).lanes;
        for row in report.groups.iter().filter(|row| row.group.life > Nanos(0)) {
            let life = Nanos(
                lanes
                    .iter()
                    .filter(|lane| plain_function(&row.name.function).ends_with(&lane.label))
                    .flat_map(|lane| &lane.merged)
                    .map(|merged| merged.pixels.iter().sum::<i64>())
                    .sum(),
            );
            assert_eq!(life, row.group.life, "{name} {:?}", row.name);
        }
    }
    assert!(checked >= 18);
}

/// Two windows that touch hold together what the whole holds.
#[test]
fn windows_cut_without_loss() {
    let mut checked = 0;
    for (name, trace) in traces() {
        let whole = options(Lanes::Procs, Colour::State);
        let chart = trace.chart(whole);
        for share in [3, 7] {
            let cut = Nanos(chart.trace.0 / share);
            let first = trace.chart(Options {
                window: Window {
                    to: cut,
                    ..Window::WHOLE
                },
                ..whole
            });
            let second = trace.chart(Options {
                window: Window {
                    from: cut,
                    ..Window::WHOLE
                },
                ..whole
            });
            assert_eq!(first.to, second.from);
            for lane in &chart.lanes {
                for &state in ProcState::ALL {
                    let of = |chart| time(chart, &lane.label, |paint| paint == Paint::Proc(state));
                    let sum = of(&first) + of(&second);
                    assert_eq!(sum, of(&chart), "{name} {} {state:?}", lane.label);
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 50);
}

/// Of durations as well; a start is in one window with its whole latency.
#[test]
fn windows_of_latency_cut_without_loss() {
    let mut checked = 0;
    for (name, trace) in traces() {
        let length = trace.chart(options(Lanes::Procs, Colour::State)).trace;
        let cut = Nanos(length.0 / 3);
        let before = Window {
            to: cut,
            ..Window::WHOLE
        };
        let after = Window {
            from: cut,
            ..Window::WHOLE
        };
        let parts = [before, after].map(|window| trace.latency_within(By::Group, window));
        let whole = trace.latency(By::Group);
        for &state in GoroutineState::ALL {
            let total = |table: &LatencyTable| table.all[state as usize].total();
            let sum = total(&parts[0]) + total(&parts[1]);
            assert_eq!(sum, total(&whole), "{name} {state:?}");
            checked += usize::from(sum > Nanos::ZERO);
        }
        assert!(parts[0].latency.count() > 0 && parts[1].latency.count() > 0);
        let starts = parts[0].latency.count() + parts[1].latency.count();
        assert_eq!(starts, whole.latency.count(), "{name}");
        let latency = parts[0].latency.total() + parts[1].latency.total();
        assert_eq!(latency, whole.latency.total(), "{name}");
    }
    assert!(checked >= 9, "{checked}");
}

/// A filter leaves the rows of those that it takes as they are, and takes away all others.
#[test]
fn filters_leave_what_they_take_as_it_is() {
    let (mut kept, mut gone) = (0, 0);
    for (name, bytes) in made() {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("filter-{name}.gmpt"));
        std::fs::write(&path, bytes).expect("written");
        let read = |conditions: &[&str]| {
            let conditions: Vec<_> = conditions
                .iter()
                .map(|text| text.parse().expect("a condition"))
                .collect();
            let mut input = gmp_analyze::input::open(path.as_os_str(), false).expect("a trace");
            let sink = (
                Breakdown::new(By::Goroutine, Window::WHOLE),
                Timeline::new(options(Lanes::Procs, Colour::Group)),
            );
            let filter = Filter::new(&conditions);
            let outcome = session::run_filtered(&mut input, &filter, sink).expect("read");
            let (latency, timeline) = outcome.sink;
            let chart = timeline.finish(outcome.end, input.tables());
            (latency.finish(input.tables()), chart)
        };
        let (whole, whole_chart) = read(&[]);
        let (part, chart) = read(&["function=worker"]);
        let figures = |table: &LatencyTable, wanted: bool| {
            let rows = table.rows.iter();
            let rows = rows.filter(|row| row.name.function.contains("worker") == wanted);
            rows.map(|row| {
                let totals = row
                    .states
                    .each_ref()
                    .map(|state| (state.count(), state.total()));
                (row.goroutine, row.name.clone(), totals)
            })
            .collect::<Vec<_>>()
        };
        assert_eq!(figures(&part, true), figures(&whole, true), "{name}");
        assert_eq!(figures(&part, false), [], "{name}");
        kept += figures(&part, true).len();
        gone += figures(&whole, false).len();
        assert!(part.latency.count() > 0 && part.latency.count() < whole.latency.count());
        // Ps stay whole; only what ran on them loses its name.
        assert_eq!(chart.busy, whole_chart.busy, "{name}");
        assert_eq!(chart.queues.is_some(), whole_chart.queues.is_some());
        let running = |chart: &Chart| {
            chart.states[GoroutineState::Running as usize]
                .iter()
                .sum::<i64>()
        };
        assert!(
            running(&chart) < running(&whole_chart) && running(&chart) > 0,
            "{name}"
        );
        let one = part.rows[0].goroutine.expect("a goroutine");
        let (single, _) = read(&[&format!("goroutine={one}"), "function=worker"]);
        assert_eq!(single.rows.len(), 1, "{name}");
        assert_eq!(single.rows[0].goroutine, Some(one));
        assert_eq!(read(&["function=no such function"]).0.rows.len(), 0);
    }
    assert!(kept > 10 && gone > 10, "{kept} kept, {gone} gone");
}

/// The queues hold those who are runnable, and no more.
#[test]
fn derived_queues_hold_the_runnable() {
    let mut checked = 0;
    for (name, trace) in traces() {
        let chart = trace.chart(options(Lanes::Procs, Colour::Group));
        let queues = chart.queues.expect("a trace that tells");
        let sum = |pixels: &[i64]| pixels.iter().sum::<i64>();
        let queued = sum(&queues.global) + queues.local.iter().map(|q| sum(q)).sum::<i64>();
        let runnable = sum(&chart.states[GoroutineState::Runnable as usize]);
        let off = (queued - runnable).abs() as f64 / runnable as f64;
        assert!(off < 0.02, "{name}: {queued} queued, {runnable} runnable");
        checked += 1;
    }
    assert_eq!(checked, 3);
}

#[test]
fn a_steal_moves_goroutines_between_queues() {
    let mut script = Script::new(2);
    script.at(0).create(1, "main", 1).start(1, Found::Local);
    for id in 2..6 {
        script.at(0).create(id, "worker", 2);
    }
    let steal = Body::Steal {
        victim: p(0),
        n: 2,
        what: StealFrom::Ring,
    };
    script.on(1).at(100).proc_start().event(steal);
    script.at(100).start(2, Found::Stolen);
    script.at(200).exit();
    let trace = Trace::of(&script);
    let chart = trace.chart(Options {
        pixels: 200,
        ..options(Lanes::Procs, Colour::Group)
    });
    let queues = chart.queues.expect("a trace that tells");
    // Pixels of a microsecond each: four wait until 100 µs, then two and one.
    let at = |queue: &[i64], us: usize| queue[us] / 1000;
    let (first, second) = (&queues.local[0], &queues.local[1]);
    assert_eq!([at(first, 50), at(first, 150)], [4, 2]);
    assert_eq!([at(second, 50), at(second, 150)], [0, 1]);
    assert_eq!(queues.elsewhere.iter().sum::<i64>(), 0);
    let marks = &chart.lanes[1].marks;
    assert_eq!(marks.len(), 1);
    assert_eq!(marks[0].counts.iter().sum::<u64>(), 1);
}

#[test]
fn latencies_have_the_times_of_the_report() {
    let mut checked = 0;
    for (name, trace) in traces() {
        let report = trace.report();
        let latency = trace.latency(By::Group);
        assert_eq!(latency.rows.len(), report.groups.len(), "{name}");
        for (row, group) in latency.rows.iter().zip(&report.groups) {
            assert_eq!(row.name, group.name, "{name}");
            for &state in GoroutineState::ALL {
                let durations = &row.states[state as usize];
                assert_eq!(durations.total(), group.group.of(state), "{name} {state:?}");
                assert_eq!(durations.count(), group.group.spans[state as usize]);
                checked += 1;
            }
        }
        let one_by_one = trace.latency(By::Goroutine);
        let goroutines = report.goroutines.as_ref().expect("asked for");
        assert_eq!(one_by_one.rows.len(), goroutines.len());
        for &state in GoroutineState::ALL {
            let total = one_by_one.all[state as usize].total();
            assert_eq!(total, latency.all[state as usize].total());
        }
        let causes = trace.latency(By::Cause);
        assert_eq!(causes.latency.total(), report.latency.total());
        assert_eq!(causes.causes.len(), report.causes.len());
    }
    assert!(checked > 50);
}

#[test]
fn pictures_are_as_expected() {
    let mut differences = Vec::new();
    for (name, trace) in traces() {
        let file = format!("{name}.gmpt");
        let chart = trace.chart(options(Lanes::Procs, Colour::Group));
        let svg = plot::timeline::draw(&chart, &file, None).expect("drawn");
        let again = trace.chart(options(Lanes::Procs, Colour::Group));
        let again = plot::timeline::draw(&again, &file, None).expect("drawn");
        assert_eq!(svg, again, "the same trace gives the same bytes");
        assert!(well_formed(&svg) > 50);
        compare(&format!("{name}.timeline.svg"), &svg, &mut differences);
        if name != "pipeline-2p" {
            continue;
        }
        for (by, what) in [(By::Group, "group"), (By::Cause, "cause")] {
            let latency = trace.latency(by);
            let svg = plot::histogram::draw(&latency, &file, 700).expect("drawn");
            assert!(well_formed(&svg) > 50);
            compare(
                &format!("{name}.latency-{what}.svg"),
                &svg,
                &mut differences,
            );
            let mut out = Vec::new();
            let layout = Layout {
                width: 100,
                top: 10,
            };
            breakdown::text(&mut out, &latency, layout).expect("a vector");
            let plain = anstream::adapter::strip_bytes(&out).into_vec();
            let text = String::from_utf8(plain).expect("UTF-8");
            compare(
                &format!("{name}.latency-{what}.txt"),
                &text,
                &mut differences,
            );
            let mut out = Vec::new();
            breakdown::json(&mut out, &TraceFacts::default(), &latency, 10).expect("a vector");
            let json = String::from_utf8(out).expect("UTF-8");
            compare(
                &format!("{name}.latency-{what}.json"),
                &json,
                &mut differences,
            );
            bins_hold_everything(&latency);
        }
    }
    assert!(differences.is_empty(), "\n{}\n", differences.join("\n"));
}

fn bins_hold_everything(latency: &LatencyTable) {
    let mut out = Vec::new();
    breakdown::bins(&mut out, latency).expect("a vector");
    let mut reader = csv::Reader::from_reader(out.as_slice());
    let mut counted = 0;
    for record in reader.records() {
        let record = record.expect("CSV");
        let number = |from_end: usize| -> u64 {
            let field = &record[record.len() - from_end];
            field.parse().expect("a number")
        };
        assert!(number(3) < number(2), "{record:?}");
        counted += number(1);
    }
    let series = latency.series();
    let durations: u64 = series.iter().map(|series| series.durations.count()).sum();
    assert_eq!(counted, durations);
    assert!(counted > 100);
}

#[test]
fn every_kind_of_lane_and_size_is_well_formed() {
    let mut drawn = 0;
    for (name, trace) in traces() {
        for lanes in [Lanes::Procs, Lanes::Threads, Lanes::Groups, Lanes::Tasks] {
            for (width, height) in [(300, None), (1400, Some(100)), (1400, Some(3000))] {
                let chart = trace.chart(Options {
                    pixels: plot::timeline::pixels(width, lanes),
                    ..options(lanes, Colour::Group)
                });
                let svg = plot::timeline::draw(&chart, name, height).expect("drawn");
                assert!(well_formed(&svg) > 10, "{name} {lanes:?}");
                drawn += 1;
            }
        }
    }
    assert_eq!(drawn, 36);
}

/// Names with all that XML, folded text and terminals cannot take.
#[test]
fn hostile_names_are_escaped() {
    let mut script = Script::new(1);
    let name = "a<b>&\"quoted\";\u{1b}[31m\u{0}\u{7f}\u{FFFF}]]>";
    script.at(0).create(1, name, 7).start(1, Found::Local);
    script.at(400).park(Text::SLEEP, 0, 3).ready(1);
    script.at(900).start(1, Found::Timer).at(950).exit();
    let trace = Trace::of(&script);
    for lanes in [Lanes::Procs, Lanes::Groups] {
        let chart = trace.chart(options(lanes, Colour::Group));
        let svg = plot::timeline::draw(&chart, name, None).expect("drawn");
        well_formed(&svg);
        assert!(
            svg.contains("a&lt;b&gt;&amp;"),
            "the name is on the picture"
        );
    }
    let latency = trace.latency(By::Goroutine);
    let svg = plot::histogram::draw(&latency, name, 800).expect("drawn");
    well_formed(&svg);
    assert!(svg.contains("a&lt;b&gt;&amp;"));
}

/// Tasks have lanes with their regions, and what is open when the trace ends is there.
#[test]
fn tasks_and_stops_have_lanes() {
    let mut script = Script::new(1);
    let task = gmp_trace::id::TaskId(5);
    let names = ["request", "parse", "stop"].map(|name| script.tables.intern_text(name));
    script.at(0).create(1, "main", 1).start(1, Found::Local);
    script.at(100).event(Body::TaskBegin {
        task,
        parent: None,
        name: names[0],
        stack: None,
    });
    script.at(200).event(Body::RegionBegin {
        task: Some(task),
        name: names[1],
        stack: None,
    });
    script.at(500).event(Body::RegionEnd {
        task: Some(task),
        name: names[1],
        stack: None,
    });
    script.at(600).event(Body::StopRequested {
        kind: names[2],
        stack: None,
    });
    script.at(700).event(Body::Restarted);
    script.at(1000).exit();
    let trace = Trace::of(&script);
    let chart = trace.chart(options(Lanes::Tasks, Colour::Group));
    let lane = &chart.lanes[0];
    assert_eq!(lane.label, "request 5");
    assert_eq!(lane.time(Paint::Task), Nanos(900_000));
    assert_eq!(lane.time(Paint::Group(0)), Nanos(300_000));
    assert_eq!(chart.legend[0].name, "parse");
    let world = chart.world.as_ref().expect("a stop");
    assert_eq!(world.time(Paint::Stop), Nanos(100_000));
    well_formed(&plot::timeline::draw(&chart, "tasks", None).expect("drawn"));
}

/// Traces of nothing, of one event, without Ps: pictures that say so.
#[test]
fn empty_traces_are_honest() {
    let empty = Trace {
        events: Vec::new(),
        tables: Tables::new(),
    };
    let mut script = Script::new(0);
    script.bare(Body::Sync {
        generation: 1,
        mono: None,
        wall: None,
    });
    let one = Trace::of(&script);
    script.at(500).bare(Body::Sync {
        generation: 2,
        mono: None,
        wall: None,
    });
    let no_p = Trace::of(&script);
    let cases = [
        (empty, "the trace has no events"),
        (one, "no length"),
        (no_p, "the trace tells of no Ps"),
    ];
    for (trace, says) in cases {
        let chart = trace.chart(options(Lanes::Procs, Colour::Group));
        let why = plot::timeline::nothing(&chart).expect("a reason");
        assert!(why.contains(says), "{why}");
        let svg = plot::timeline::draw(&chart, "nothing", None).expect("drawn");
        well_formed(&svg);
        assert!(svg.contains(says));
        let latency = trace.latency(By::Group);
        let svg = plot::histogram::draw(&latency, "nothing", 700).expect("drawn");
        well_formed(&svg);
        assert!(svg.contains("no durations"));
    }
}

/// A picture is as large as its pixels, whatever the trace: many lanes full of short spans.
#[test]
fn size_is_bounded() {
    let mut sizes = Vec::new();
    for (procs, turns) in [(2, 30_000), (64, 1_500), (200, 600)] {
        let mut script = Script::new(procs);
        for proc in 0..procs {
            let id = u64::from(proc) + 1;
            script.on(proc).at(0).proc_start();
            script.create(id, &format!("worker{}", proc % 40), proc);
        }
        for turn in 0..turns {
            for proc in 0..procs {
                let id = u64::from(proc) + 1;
                let at = turn * 40 + i64::from(proc % 7);
                script.on(proc).at(at).start(id, Found::Local);
                script.at(at + 20 + (turn + i64::from(proc)) % 13).yields();
            }
        }
        let trace = Trace::of(&script);
        let chart = trace.chart(Options {
            pixels: plot::timeline::pixels(1400, Lanes::Procs),
            ..options(Lanes::Procs, Colour::Group)
        });
        let svg = plot::timeline::draw(&chart, "large", None).expect("drawn");
        assert!(well_formed(&svg) > 100);
        assert!(svg.len() < 2_000_000, "{procs} Ps: {} bytes", svg.len());
        sizes.push(svg.len());
    }
    assert_eq!(sizes.len(), 3);
}

/// The program itself: exit codes, files, what it says on standard error.
#[test]
fn commands_write_files_and_say_what_is_missing() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures");
    std::fs::create_dir_all(&directory).expect("a directory for tests");
    let trace = directory.join("small.gmpt");
    std::fs::write(&trace, &made()[0].1).expect("written");
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_gmp-analyze"))
            .args(arguments)
            .current_dir(&directory)
            .output()
            .expect("run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said, output.stdout)
    };
    let cases: &[(&[&str], i32, &str)] = &[
        (&["timeline", "small.gmpt", "-o", "a.svg"], 0, ""),
        (
            &["timeline", "small.gmpt", "--from", "1h", "-o", "b.svg"],
            0,
            "nothing of the trace is after 1h00m",
        ),
        (
            &["timeline", "small.gmpt", "--from", "2ms", "--to", "1ms"],
            2,
            "--from has to be before --to",
        ),
        (
            &["timeline", "small.gmpt", "--from", "2"],
            2,
            "expected a number and a unit",
        ),
        (
            &["timeline", "small.gmpt", "-o", "no/such/a.svg"],
            2,
            "cannot be written",
        ),
        (&["timeline", "none.gmpt"], 2, "no such file"),
        (
            &["timeline", "small.gmpt", "--lanes", "task", "-o", "c.svg"],
            0,
            "no tasks",
        ),
        (
            &[
                "latency",
                "small.gmpt",
                "--histogram",
                "d.svg",
                "--bins",
                "d.csv",
            ],
            0,
            "",
        ),
        (&["latency", "small.gmpt", "--by", "cause", "--csv"], 0, ""),
        (
            &["latency", "small.gmpt", "--from", "10us", "--to", "1ms"],
            0,
            "",
        ),
        (
            &["latency", "small.gmpt", "--from", "1h"],
            0,
            "nothing is in the range",
        ),
        (
            &["latency", "small.gmpt", "--filter", "function=worker"],
            0,
            "",
        ),
        (
            &["latency", "small.gmpt", "--filter", "function=none"],
            0,
            "no goroutine to show",
        ),
        (
            &[
                "flamegraph",
                "small.gmpt",
                "--filter",
                "goroutine=2",
                "-o",
                "e.svg",
            ],
            0,
            "",
        ),
        (
            &["timeline", "small.gmpt", "--filter", "p=2", "-o", "e.svg"],
            2,
            "expected function=, made_at= or goroutine=",
        ),
        (
            &["latency", "small.gmpt", "--from", "2ms", "--to", "1ms"],
            2,
            "--from has to be before --to",
        ),
    ];
    for (arguments, code, says) in cases {
        let (actual, said, _) = run(arguments);
        assert_eq!(actual, Some(*code), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
        assert_eq!(says.is_empty(), said.is_empty(), "{arguments:?}: {said}");
    }
    for name in ["a.svg", "b.svg", "c.svg", "d.svg"] {
        let svg = std::fs::read_to_string(directory.join(name)).expect("was written");
        assert!(well_formed(&svg) > 5, "{name}");
    }
    let (_, _, picture) = run(&["timeline", "small.gmpt"]);
    let file = std::fs::read(directory.join("a.svg")).expect("was written");
    assert_eq!(picture, file, "standard output and a file get the same");
}
