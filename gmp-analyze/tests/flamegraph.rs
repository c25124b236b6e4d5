//! Flame graphs: their sums are the report's to the nanosecond, names of any kind come out right, and
//! the pictures are XML.

mod common;

use common::pipeline::Pipeline;
use common::{Script, expected, golden};
use gmp_analyze::analysis::report::Report;
use gmp_analyze::analysis::stacks::{StackCollector, StackKind, Stacks};
use gmp_analyze::analysis::window::Window;
use gmp_analyze::flame::{self, By, Captions, Part, Tree, Weighed};
use gmp_analyze::machine::{GoroutineState as State, Machine};
use gmp_analyze::{input, session};
use gmp_trace::event::{Found, Waker};
use gmp_trace::tables::{Frame, Tables, Text};
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};
use quick_xml::events::Event as Xml;
use std::path::{Path, PathBuf};

const DEPTH: u32 = 512;

/// Stacks of `kind` in the file at `path`.
fn part_of(path: &Path, kind: StackKind, window: Window) -> Part {
    let mut input = input::open(path.as_os_str(), false).expect("a trace");
    let outcome =
        session::run(&mut input, StackCollector::new(kind, window)).expect("read to its end");
    Part {
        source: path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned(),
        tables: input.tables().clone(),
        stacks: outcome.sink.into_stacks(),
        span: outcome.end.since(outcome.begin),
        compared_with: false,
    }
}

fn stacks_of(events: &[Event], kind: StackKind) -> Stacks {
    let mut machine = Machine::new(StackCollector::new(kind, Window::WHOLE));
    events.iter().for_each(|event| machine.event(event));
    machine.finish().sink.into_stacks()
}

fn part(events: &[Event], tables: &Tables, kind: StackKind) -> Part {
    Part {
        source: "script".to_owned(),
        tables: tables.clone(),
        stacks: stacks_of(events, kind),
        span: Nanos(1_000_000),
        compared_with: false,
    }
}

fn tree_of(parts: &[Part], by: By) -> Tree {
    let mut tree = Tree::new(DEPTH);
    let samples = false;
    for part in parts {
        part.add_to(&mut tree, Weighed { by, samples });
    }
    tree
}

fn folded(tree: &Tree, by: By) -> String {
    let mut out = Vec::new();
    flame::folded(&mut out, tree, by).expect("a vector");
    String::from_utf8(out).expect("UTF-8")
}

fn svg_of(parts: &[Part], kind: StackKind, by: By) -> String {
    let tree = tree_of(parts, by);
    let samples = false;
    let difference = parts.iter().any(|part| part.compared_with);
    let captions = Captions::new(parts, &tree, kind, Weighed { by, samples });
    let mut out = Vec::new();
    flame::picture(&mut out, &tree, by, difference, &captions).expect("a vector");
    String::from_utf8(out).expect("UTF-8")
}

/// A line of folded text read back by other code than wrote it: frames and weights.
fn unfold(line: &str) -> (Vec<String>, u64) {
    let (stack, weight) = line.rsplit_once(' ').expect("a weight");
    (
        stack.split(';').map(unescape).collect(),
        weight.parse().expect("a number"),
    )
}

fn unescape(text: &str) -> String {
    let mut name = String::new();
    let mut rest = text;
    while let Some(place) = rest.find('\\') {
        name.push_str(&rest[..place]);
        let escape = &rest[place + 1..];
        let (digits, after) = match escape.as_bytes()[0] {
            b'\\' => {
                name.push('\\');
                rest = &escape[1..];
                continue;
            }
            b'x' => escape[1..].split_at(2),
            b'u' => escape[2..].split_once('}').expect("closed"),
            other => panic!("{other}"),
        };
        let number = u32::from_str_radix(digits, 16).expect("hexadecimal");
        name.push(char::from_u32(number).expect("a character"));
        rest = after;
    }
    name + rest
}

/// What a picture has in it: titles of frames with their weights, and what is written on them.
struct Drawn {
    titles: Vec<String>,
    widths: Vec<u64>,
    texts: Vec<String>,
}

/// Reads a picture with an XML parser, which fails on anything that is not well-formed.
fn drawn(svg: &str) -> Drawn {
    let mut reader = quick_xml::Reader::from_str(svg);
    reader.config_mut().check_end_names = true;
    let mut drawn = Drawn {
        titles: Vec::new(),
        widths: Vec::new(),
        texts: Vec::new(),
    };
    let (mut open, mut text) = (Vec::new(), String::new());
    loop {
        match reader.read_event().expect("well-formed") {
            Xml::Eof => break,
            Xml::Start(tag) => {
                open.push(tag.name().as_ref().to_owned());
                text.clear();
            }
            Xml::Empty(tag) => {
                let width = tag.try_get_attribute("fg:w").expect("attributes");
                if let Some(width) = width {
                    drawn.widths.push(width.value.parse().expect("a number"));
                }
            }
            Xml::Text(part) => text.push_str(&part),
            Xml::GeneralRef(reference) => text.push(match &*reference {
                "lt" => '<',
                "gt" => '>',
                "amp" => '&',
                "quot" => '"',
                "apos" => '\'',
                other => panic!("{other}"),
            }),
            Xml::End(_) => match open.pop().as_deref() {
                Some("title") => drawn.titles.push(std::mem::take(&mut text)),
                Some("text") => drawn.texts.push(std::mem::take(&mut text)),
                _ => {}
            },
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    for c in svg.chars() {
        let allowed =
            matches!(c, '\t' | '\n' | '\r') || (c >= ' ' && !matches!(c, '\u{FFFE}' | '\u{FFFF}'));
        assert!(allowed, "{c:?} is no character of XML");
        assert!(
            !('\u{E000}'..='\u{E002}').contains(&c),
            "a stand-in is left"
        );
    }
    drawn
}

/// What the report says that graphs of `kind` add up to.
fn total_of(report: &Report, kind: StackKind, by: By) -> u64 {
    let times = |states: &[State]| -> i64 {
        let groups = report.groups.iter();
        groups
            .flat_map(|row| states.iter().map(|&state| row.group.of(state).0))
            .sum()
    };
    let spans = |states: &[State]| -> u64 {
        let groups = report.groups.iter();
        groups
            .flat_map(|row| states.iter().map(|&state| row.group.spans[state as usize]))
            .sum()
    };
    let states: &[State] = match kind {
        StackKind::Wall => State::ALL,
        StackKind::Cpu | StackKind::Create => &[State::Running],
        StackKind::Block => &[State::Waiting],
        StackKind::Sched => &[State::Runnable],
        StackKind::Syscall => &[State::Syscall, State::SyscallWithoutP],
    };
    match by {
        By::Time => times(states) as u64,
        By::Count => spans(states),
    }
}

fn check_sums(name: &str, path: &Path) {
    let report = session::report(path.as_os_str(), false, false).expect("a trace");
    let waits: i64 = report.blocking.iter().map(|row| row.waits.total().0).sum();
    let lives: i64 = report.groups.iter().map(|row| row.group.life.0).sum();
    for &kind in StackKind::ALL {
        let parts = [part_of(path, kind, Window::WHOLE)];
        let tree = tree_of(&parts, By::Time);
        for by in [By::Time, By::Count] {
            let total = tree.totals(by)[0];
            let lines = folded(&tree, by);
            let sum: u64 = lines.lines().map(|line| unfold(line).1).sum();
            assert_eq!(sum, total, "{name} {kind:?} {by:?}: the lines add up");
            let expected = total_of(&report, kind, by);
            if kind == StackKind::Syscall && by == By::Count {
                // A call that loses its P has two spans.
                assert!(
                    report.summary.syscalls <= total && total <= expected,
                    "{name}"
                );
            } else {
                assert_eq!(total, expected, "{name} {kind:?} {by:?}");
            }
            let picture = drawn(&svg_of(&parts, kind, by));
            let whole = picture.widths.iter().max().copied().unwrap_or(0);
            assert_eq!(
                whole, total,
                "{name} {kind:?} {by:?}: the picture is as wide"
            );
        }
        let time = tree.totals(By::Time)[0] as i64;
        match kind {
            StackKind::Wall => assert_eq!(time, lives, "{name}"),
            StackKind::Block => assert_eq!(time, waits, "{name}"),
            _ => {}
        }
    }
}

#[test]
fn sums_are_the_reports_to_the_nanosecond() {
    let mut checked = 0;
    for (name, path) in golden::traces() {
        check_sums(&name, &path);
        checked += 1;
    }
    for (name, bytes) in expected::made() {
        check_sums(name, &file(name, &bytes));
        checked += 1;
    }
    assert!(checked > 20, "{checked}");
}

#[test]
fn sums_of_a_recorded_program_are_the_reports() {
    let path = file("recorded", b"");
    let into = path.clone();
    let runtime = gmp_runtime::Runtime::builder()
        .procs(2)
        .build()
        .expect("a runtime");
    // SAFETY: nothing of a thread lives across a call that may park.
    unsafe {
        runtime.run(move || {
            gmp_runtime::trace::start(into).expect("a file");
            let (send, receive) = gmp_runtime::channel(1);
            let sum = gmp_runtime::go(move || receive.into_iter().sum::<u64>());
            for part in 0..4 {
                let send = send.clone();
                gmp_runtime::go(move || (0..50).for_each(|n| send.send(n * part).expect("open")));
            }
            drop(send);
            assert_eq!(sum.join().expect("no panic"), 7350);
            gmp_runtime::trace::stop().expect("written");
        });
    }
    check_sums("recorded", &path);
}

#[test]
fn parts_of_a_trace_add_up_to_the_whole() {
    let mut checked = 0;
    for (name, path) in golden::traces() {
        for &kind in StackKind::ALL {
            let whole = part_of(&path, kind, Window::WHOLE);
            let middle = Nanos(whole.span.0 / 3);
            let before = Window {
                to: middle,
                ..Window::WHOLE
            };
            let after = Window {
                from: middle,
                ..Window::WHOLE
            };
            let time = |part: &Part| part.stacks.total().time.0;
            let sum = time(&part_of(&path, kind, before)) + time(&part_of(&path, kind, after));
            assert_eq!(sum, time(&whole), "{name} {kind:?}");
            checked += 1;
        }
    }
    assert!(checked > 100);
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("flamegraph");
    std::fs::create_dir_all(&directory).expect("a directory for tests");
    let path = directory.join(format!("{name}.gmpt"));
    std::fs::write(&path, bytes).expect("written");
    path
}

#[test]
fn graphs_are_as_expected() {
    let mut differences = String::new();
    let mut compared = 0;
    for (name, bytes) in expected::made() {
        let path = file(&format!("golden-{name}"), &bytes);
        for &kind in StackKind::ALL {
            let mut parts = [part_of(&path, kind, Window::WHOLE)];
            parts[0].source = format!("{name}.gmpt");
            let text = folded(&tree_of(&parts, By::Time), By::Time);
            differences += &golden::difference(&format!("{name}.{}.folded", kind.name()), &text);
            compared += 1;
            if (name, kind) == ("pipeline-2p", StackKind::Wall) {
                let svg = svg_of(&parts, kind, By::Time);
                differences += &golden::difference(&format!("{name}.wall.svg"), &svg);
                assert_eq!(svg, svg_of(&parts, kind, By::Time), "the same bytes again");
            }
        }
    }
    let path = golden::fixtures().join("go/go1.27-pipeline.trace");
    for kind in [StackKind::Wall, StackKind::Create] {
        let parts = [part_of(&path, kind, Window::WHOLE)];
        let text = folded(&tree_of(&parts, By::Time), By::Time);
        let name = format!("go1.27-pipeline.{}.folded", kind.name());
        differences += &golden::difference(&name, &text);
        compared += 1;
    }
    assert!(differences.is_empty(), "\n{differences}");
    assert_eq!(compared, 20);
}

/// A missing or different golden is noticed.
#[test]
fn differences_are_noticed() {
    if std::env::var_os("GMP_BLESS").is_none() {
        assert!(golden::difference("no-such-file", "x").contains("GMP_BLESS"));
        let name = "pipeline-2p.wall.svg";
        let expected = std::fs::read_to_string(golden::fixtures().join("expected").join(name));
        let expected = expected.expect("there");
        assert_eq!(golden::difference(name, &expected), "");
        assert!(golden::difference(name, &expected.replace("µs", "ms")).contains("line"));
        assert!(golden::difference(name, &format!("{expected}more")).contains("line"));
    }
}

/// Names that have broken flame graphs before.
const HOSTILE: &[&str] = &[
    "a;b 3",
    "<u8 as \"quoted\">::f&g",
    "red \u{1b}[31mtext\u{1b}[0m",
    "two\nlines\r\n",
    "annotated_[k]",
    "# a comment",
    " edges \u{a0}",
    "[u8; 8]",
    "7",
    "1.5 2.5",
    "C:\\x41;",
    "日本語のラベル",
    "broken \u{FFFD} UTF-8",
    "]]>",
    "\u{FFFF}\u{E000}",
    "tab\tnul\0",
    "all",
];

/// A goroutine for each hostile name: made there, waits there, 1 µs each.
fn hostile() -> Script {
    let mut script = Script::new(1);
    script.at(0).create(1, "main", 1).start(1, Found::Local);
    for (number, name) in HOSTILE.iter().enumerate() {
        script.create(10 + number as u64, name, 7);
    }
    script.at(1).exit();
    for number in 0..HOSTILE.len() {
        let now = 2 + 2 * number as i64;
        script.at(now).start(10 + number as u64, Found::Local);
        script.at(now + 1).exit();
    }
    script
}

#[test]
fn hostile_names_come_out_right() {
    let script = hostile();
    let parts = [part(&script.events, &script.tables, StackKind::Create)];
    let tree = tree_of(&parts, By::Time);
    let text = folded(&tree, By::Time);
    assert_eq!(text.lines().count(), HOSTILE.len() + 1, "{text}");
    let stacks: Vec<_> = text.lines().map(unfold).collect();
    let picture = drawn(&svg_of(&parts, StackKind::Create, By::Time));
    assert_eq!(
        picture.titles.len(),
        HOSTILE.len() + 2,
        "{:?}",
        picture.titles
    );
    for name in HOSTILE {
        let frame = format!("{name} (made at src/main.rs:7:5)");
        let found = stacks
            .iter()
            .filter(|(frames, _)| frames[1..] == [frame.as_str()]);
        assert_eq!(
            found.map(|(_, weight)| *weight).collect::<Vec<_>>(),
            [1000],
            "{name:?}\n{text}"
        );
        let visible: String = frame
            .chars()
            .map(|c| match c {
                c if c.is_control() => '\u{FFFD}',
                '\u{FFFF}' | '\u{E000}' => '\u{FFFD}',
                c => c,
            })
            .collect();
        let begin = format!("{visible} (1,000 ns, ");
        let titles = picture
            .titles
            .iter()
            .filter(|title| title.starts_with(&begin));
        assert_eq!(titles.count(), 1, "{begin:?} in {:?}", picture.titles);
    }
}

/// As reasons and functions of stacks, names stand at every place of a line.
#[test]
fn hostile_names_of_frames_come_out_right() {
    let mut script = hostile();
    let mut expected = Vec::new();
    for (number, name) in HOSTILE.iter().enumerate() {
        let now = 1000 + 10 * number as i64;
        let (reason, function) = (
            script.tables.intern_text(name),
            script.tables.intern_text(name),
        );
        let frame = |pc| Frame {
            pc,
            function,
            file: Text::EMPTY,
            line: 0,
        };
        let stack = Some(script.tables.intern_stack(&[frame(2), frame(1)]));
        script
            .at(now)
            .create(500 + number as u64, name, 9)
            .start(500 + number as u64, Found::Local);
        let body = Body::GoPark {
            reason,
            object: None,
            site: None,
            stack,
        };
        script.at(now + 1).event(body);
        let group = format!("{name} (made at src/main.rs:9:5)");
        expected.push([
            group,
            "waiting".to_owned(),
            (*name).to_owned(),
            (*name).to_owned(),
            (*name).to_owned(),
        ]);
    }
    script.at(10_000).bare(Body::Loss { events: 0 });
    let parts = [part(&script.events, &script.tables, StackKind::Wall)];
    let text = folded(&tree_of(&parts, By::Time), By::Time);
    let stacks: Vec<_> = text.lines().map(unfold).collect();
    assert_eq!(expected.len(), HOSTILE.len());
    for frames in &expected {
        let found = stacks.iter().filter(|(stack, _)| stack == frames).count();
        assert_eq!(found, 1, "{frames:?} in\n{text}");
    }
    drawn(&svg_of(&parts, StackKind::Wall, By::Time));
}

/// Bytes of a trace that are no UTF-8: the old format of Go has no checksum over its strings.
#[test]
fn invalid_utf_8_is_replaced_and_drawn() {
    let path = golden::fixtures().join("go/go1.21-pipeline.trace");
    let mut bytes = std::fs::read(path).expect("a fixture");
    let mut changed = 0;
    for place in 0..bytes.len() - 9 {
        if &bytes[place..place + 9] == b"main.main" {
            bytes[place + 5..place + 7].copy_from_slice(b"\xFF\xFE");
            changed += 1;
        }
    }
    assert!(changed > 0);
    let path = file("invalid-utf-8", &bytes);
    let parts = [part_of(&path, StackKind::Wall, Window::WHOLE)];
    let picture = drawn(&svg_of(&parts, StackKind::Wall, By::Time));
    let replaced = picture
        .titles
        .iter()
        .filter(|title| title.contains("main.\u{FFFD}\u{FFFD}in"));
    assert!(replaced.count() > 0, "{:?}", picture.titles);
}

/// A goroutine that waits 1 ms with this stack, leaf first.
fn waits_with(frames: &[(&str, u64)]) -> Script {
    let mut script = Script::new(1);
    let frames: Vec<Frame> = frames
        .iter()
        .map(|&(function, pc)| Frame {
            pc,
            function: script.tables.intern_text(function),
            file: Text::EMPTY,
            line: 1,
        })
        .collect();
    let stack = Some(script.tables.intern_stack(&frames));
    let site = Some(script.site("not_this", "src/site.rs", 3));
    script.at(0).create(1, "main", 1).start(1, Found::Local);
    let reason = Text::MUTEX_LOCK;
    script.at(10).event(Body::GoPark {
        reason,
        object: None,
        site,
        stack,
    });
    let by = Some(Waker::Sysmon);
    script.at(1010).bare(Body::GoReady {
        goroutine: common::g(1),
        by,
        stack: None,
    });
    script
}

#[test]
fn stacks_are_drawn_where_there_are_any() {
    let script = waits_with(&[("lock", 3), ("", 0xab), ("work", 2), ("work", 2), ("", 0)]);
    let text = |kind| {
        folded(
            &tree_of(&[part(&script.events, &script.tables, kind)], By::Time),
            By::Time,
        )
    };
    let frames = "(unknown);work;work;(unknown 0xab);lock";
    let group = "main (made at src/main.rs:1:5)";
    assert_eq!(
        text(StackKind::Block),
        format!("sync.Mutex.Lock;{group};{frames} 1000000\n")
    );
    assert!(text(StackKind::Wall).contains(&format!(
        "{group};waiting;sync.Mutex.Lock;{frames} 1000000\n"
    )));
    assert_eq!(
        text(StackKind::Cpu),
        format!("{group};until sync.Mutex.Lock;{frames} 10000\n")
    );
}

#[test]
fn a_stack_of_a_hundred_thousand_frames() {
    let names: Vec<String> = (0..100).map(|n| format!("f{n}")).collect();
    let frames: Vec<(&str, u64)> = (0..100_000).map(|n| (names[n % 100].as_str(), 1)).collect();
    let script = waits_with(&frames);
    let parts = [part(&script.events, &script.tables, StackKind::Block)];
    let mut tree = Tree::new(u32::MAX);
    let weighed = Weighed {
        by: By::Time,
        samples: false,
    };
    parts[0].add_to(&mut tree, weighed);
    let text = folded(&tree, By::Time);
    assert_eq!(unfold(text.trim_end()).0.len(), 100_002);
    let tree = tree_of(&parts, By::Time);
    assert_eq!((tree.cut(), tree.totals(By::Time)[0]), (1, 1_000_000));
    let picture = drawn(&svg_of(&parts, StackKind::Block, By::Time));
    assert!(
        picture
            .titles
            .iter()
            .any(|title| title.starts_with("(deeper frames)"))
    );
    assert_eq!(picture.titles.len(), DEPTH as usize + 1);
}

/// Each goroutine makes the next: a chain of creators as deep as the trace is long.
#[test]
fn a_chain_of_a_hundred_thousand_creators() {
    let mut script = Script::new(1);
    let chain = 100_000;
    script.at(0).create(1, "link", 1);
    for id in 1..=chain {
        script.at(id as i64).start(id, Found::Local);
        if id < chain {
            script.create(id + 1, "link", 2);
        }
        script.at(id as i64 + 1).exit();
    }
    let parts = [part(&script.events, &script.tables, StackKind::Create)];
    let tree = tree_of(&parts, By::Time);
    assert_eq!(tree.totals(By::Time)[0], chain * 1000);
    let text = folded(&tree, By::Time);
    assert_eq!(text.lines().count(), DEPTH as usize);
    assert!(text.len() < 10 << 20, "{}", text.len());
    let deepest = text.lines().map(|line| unfold(line).0.len()).max();
    assert_eq!(deepest, Some(DEPTH as usize));
}

#[test]
fn creators_stand_below_what_they_made() {
    let mut script = Script::new(1);
    script.at(0).create(1, "main", 1).start(1, Found::Local);
    script.at(1).create(2, "server", 2).at(3).exit();
    script.at(4).start(2, Found::Local);
    script
        .at(5)
        .create(3, "request", 3)
        .create(4, "request", 3)
        .at(6)
        .exit();
    for id in [3, 4] {
        script
            .at(10 * id as i64)
            .start(id, Found::Local)
            .at(10 * id as i64 + 5)
            .exit();
    }
    // A goroutine that was there before, and one that it made.
    let body = Body::GoStatus {
        goroutine: common::g(77),
        state: gmp_trace::event::GState::Runnable,
        on_m: None,
        reason: None,
        object: None,
        site: None,
        created_at: None,
        creator: None,
        label: None,
        stack: None,
    };
    script.at(60).bare(body).start(77, Found::Global);
    script.create(78, "child", 9).at(61).exit();
    script.at(62).start(78, Found::Local).at(63).exit();
    let parts = [part(&script.events, &script.tables, StackKind::Create)];
    let text = folded(&tree_of(&parts, By::Time), By::Time);
    let (main, server) = (
        "main (made at src/main.rs:1:5)",
        "server (made at src/main.rs:2:5)",
    );
    let expected = [
        "(made before the trace) 1000".to_owned(),
        "(made before the trace);child (made at src/main.rs:9:5) 1000".to_owned(),
        format!("{main} 3000"),
        format!("{main};{server} 2000"),
        format!("{main};{server};request (made at src/main.rs:3:5) 10000"),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn differences_are_coloured_and_have_two_weights() {
    let path = file("pipeline-difference", &expected::made()[0].1);
    let other = file("pipeline-other", &expected::made()[1].1);
    let kind = StackKind::Wall;
    let mut before = part_of(&other, kind, Window::WHOLE);
    before.compared_with = true;
    let parts = [part_of(&path, kind, Window::WHOLE), before];
    let tree = tree_of(&parts, By::Time);
    let mut out = Vec::new();
    flame::folded_difference(&mut out, &tree, By::Time).expect("a vector");
    let text = String::from_utf8(out).expect("UTF-8");
    let (mut old_sum, mut new_sum) = (0, 0);
    for line in text.lines() {
        let (rest, new) = line.rsplit_once(' ').expect("two weights");
        let (_, old) = rest.rsplit_once(' ').expect("two weights");
        old_sum += old.parse::<u64>().expect("a number");
        new_sum += new.parse::<u64>().expect("a number");
    }
    assert_eq!([new_sum, old_sum], tree.totals(By::Time));
    assert!(new_sum > 0 && old_sum > new_sum);
    let svg = svg_of(&parts, kind, By::Time);
    let picture = drawn(&svg);
    assert_eq!(picture.widths.iter().max(), Some(&new_sum));
    assert!(
        picture.titles.iter().any(|title| title.contains("%; -")),
        "{:?}",
        picture.titles
    );
    assert!(
        picture.texts.iter().any(|text| text.contains("before: ")),
        "{:?}",
        picture.texts
    );
}

/// Ten times the events of the same program make no more stacks.
#[test]
fn memory_follows_stacks_and_not_events() {
    let stacks = |lines| {
        let program = Pipeline {
            seed: 4,
            procs: 2,
            workers: 8,
            lines,
            stuck: 1,
        };
        let path = file(&format!("pipeline-{lines}"), &program.record().0);
        let part = part_of(&path, StackKind::Wall, Window::WHOLE);
        (part.stacks.sums.len(), part.stacks.total().count)
    };
    let (short, long) = (stacks(1_000), stacks(10_000));
    assert!(long.1 > 5 * short.1);
    assert_eq!(long.0, short.0);
}

/// The cause of a wait for a P comes with the start; what never starts is said to.
#[test]
fn waits_for_a_p_have_their_causes() {
    let mut script = Script::new(1);
    script.at(0).create(1, "main", 1).start(1, Found::Local);
    script.at(5).create(2, "other", 2).at(6).yields();
    script.at(16).start(2, Found::Runnext).at(20).exit();
    script
        .at(21)
        .start(1, Found::Local)
        .at(22)
        .create(3, "late", 3)
        .at(30)
        .exit();
    let parts = [part(&script.events, &script.tables, StackKind::Sched)];
    let text = folded(&tree_of(&parts, By::Time), By::Time);
    let expected = [
        "late (made at src/main.rs:3:5);did not start in this trace 8000",
        "main (made at src/main.rs:1:5);after a yield;found: local queue 15000",
        "other (made at src/main.rs:2:5);created;found: runnext 11000",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn samples_of_go_are_drawn_with_their_stacks() {
    let path = golden::fixtures().join("go/go1.27-hogs-cpu.trace");
    let parts = [part_of(&path, StackKind::Cpu, Window::WHOLE)];
    assert!(!parts[0].stacks.samples.is_empty());
    let weighed = flame::weighed(&parts, None);
    assert_eq!(
        weighed,
        Weighed {
            by: By::Count,
            samples: true
        }
    );
    let mut input = input::open(path.as_os_str(), false).expect("a trace");
    let mut samples = 0;
    input
        .for_each_event(|event, _| {
            samples += u64::from(matches!(event.body, Body::CpuSample { .. }))
        })
        .expect("read");
    let mut tree = Tree::new(DEPTH);
    parts[0].add_to(&mut tree, weighed);
    assert!(samples > 0);
    assert_eq!(tree.totals(By::Count)[0], samples);
    let asked = flame::weighed(&parts, Some(By::Time));
    assert!(!asked.samples, "samples have no time");
}
