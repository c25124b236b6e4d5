//! `GMPMAXPROCS` and `GMPDEBUG`, in processes of their own.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::collections::HashSet;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use common::{child, child_case, stderr, succeed};
use gmp_runtime::{Runtime, go, park, sleep, yield_now};

/// The number of Ps is how many goroutines can wait for each other without giving up theirs.
fn ps_in_use(expected: usize) -> usize {
    let runtime = Runtime::new().unwrap();
    // SAFETY: nothing of a thread lives across calls that may park.
    let all = unsafe {
        runtime.run(|| {
            let running = Arc::new(AtomicUsize::new(0));
            let handles: Vec<_> = (0..expected)
                .map(|_| {
                    let running = Arc::clone(&running);
                    go(move || {
                        running.fetch_add(1, SeqCst);
                        while running.load(SeqCst) < expected {
                            thread::yield_now();
                        }
                        thread::current().id()
                    })
                })
                .collect();
            handles
                .into_iter()
                .map(|handle| handle.join().unwrap())
                .collect::<HashSet<_>>()
        })
    };
    all.len()
}

fn run_case(test: &str, case: &str, set: &[(&str, &str)]) -> Output {
    let mut command: Command = child(test, case);
    command.envs(set.iter().copied());
    succeed(&mut command)
}

#[test]
fn the_number_of_ps_comes_from_the_environment() {
    const NAME: &str = "the_number_of_ps_comes_from_the_environment";
    if let Some(case) = child_case() {
        let expected: usize = case.parse().unwrap();
        assert_eq!(ps_in_use(expected), expected);
        let debug = format!("{:?}", Runtime::new().unwrap());
        assert!(debug.contains(&format!("procs: {expected}")), "{debug}");
        return;
    }
    let mut checked = 0;
    for procs in ["1", "2", "3", "8"] {
        let output = run_case(NAME, procs, &[("GMPMAXPROCS", procs)]);
        assert!(!stderr(&output).contains("warning"), "{}", stderr(&output));
        checked += 1;
    }
    // What a runtime says of itself where nothing is set.
    let debug = run_case("says_its_default", "say", &[]);
    let said = String::from_utf8_lossy(&debug.stdout).into_owned();
    let (_, after) = said.split_once("procs: ").unwrap();
    let default: String = after.chars().take_while(char::is_ascii_digit).collect();
    for bad in ["0", "-1", "two", "4097", "1,2", " 2", "1e3"] {
        let output = run_case(NAME, &default, &[("GMPMAXPROCS", bad)]);
        let text = stderr(&output);
        // The case makes two runtimes, each of which says it once.
        assert_eq!(
            text.matches("gmp: warning: GMPMAXPROCS: ").count(),
            2,
            "{bad}: {text}"
        );
        assert!(
            text.contains(&format!("{bad:?} is not a number from 1 to 4096")),
            "{text}"
        );
        checked += 1;
    }
    run_case(NAME, &default, &[("GMPMAXPROCS", "")]);
    assert_eq!(checked, 11);
}

#[test]
fn says_its_default() {
    let debug = format!("{:?}", Runtime::new().unwrap());
    assert!(debug.contains("procs: "));
    println!("{debug}");
}

#[test]
fn what_gmpdebug_does_not_understand_is_said_and_stops_nothing() {
    const NAME: &str = "what_gmpdebug_does_not_understand_is_said_and_stops_nothing";
    if child_case().is_some() {
        let runtime = Runtime::builder().procs(1).build().unwrap();
        // SAFETY: nothing of a thread lives across calls that may park.
        println!("ran {}", unsafe {
            runtime.run(|| go(|| 7).join().unwrap())
        });
        return;
    }
    let mut checked = 0;
    for (value, says) in [
        (
            "nonsense=1",
            vec!["unknown name \"nonsense\"", "valid names are schedtrace, "],
        ),
        ("schedtrace", vec!["\"schedtrace\" has no value"]),
        (
            "schedtrace=0",
            vec!["schedtrace=\"0\" is not a value, expected milliseconds"],
        ),
        (
            "schedtrace=x,nonsense=1",
            vec!["schedtrace=\"x\"", "unknown name \"nonsense\""],
        ),
        ("trace=", vec!["trace=\"\" is not a value"]),
        (
            "cpuprofile=100",
            vec!["cpuprofile is not supported by this version"],
        ),
        ("", vec![]),
        (",,", vec![]),
    ] {
        let output = run_case(NAME, "run", &[("GMPDEBUG", value)]);
        let text = stderr(&output);
        for says in &says {
            assert!(text.contains(says), "{value}: {text}");
        }
        let lines = text
            .lines()
            .filter(|l| l.starts_with("gmp: warning: GMPDEBUG: "))
            .count();
        assert_eq!(
            lines,
            value.split(',').filter(|part| !part.is_empty()).count(),
            "{text}"
        );
        assert!(String::from_utf8_lossy(&output.stdout).contains("ran 7"));
        checked += 1;
    }
    assert_eq!(checked, 8);
}

/// What a line of the detailed form has after `  P0:`, in this order.
const P_FIELDS: &[&str] = &[
    "status",
    "schedtick",
    "syscalltick",
    "m",
    "runqsize",
    "gfreecnt",
    "timerslen",
];
const M_FIELDS: &[&str] = &[
    "p",
    "curg",
    "mallocing",
    "throwing",
    "preemptoff",
    "locks",
    "dying",
    "spinning",
    "blocked",
    "lockedg",
];
const G_FIELDS: &[&str] = &["status", "m", "lockedm"];
const SCHED_FIELDS: &[&str] = &[
    "gomaxprocs",
    "idleprocs",
    "threads",
    "spinningthreads",
    "needspinning",
    "idlethreads",
    "runqueue",
    "gcwaiting",
    "nmidlelocked",
    "stopwait",
    "sysmonwait",
];

/// The values of `names` in `text`, which has them in this order and nothing else.
fn fields<'a>(text: &'a str, names: &[&str]) -> Option<Vec<&'a str>> {
    let mut rest = text;
    let mut values = Vec::new();
    for (index, name) in names.iter().enumerate() {
        rest = rest.strip_prefix(name)?.strip_prefix('=')?;
        let end = match names.get(index + 1) {
            Some(next) => rest.find(&format!(" {next}="))?,
            None => rest.len(),
        };
        values.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    rest.is_empty().then_some(values)
}

#[test]
fn scheddetail_prints_every_p_m_and_goroutine_as_go_does() {
    const NAME: &str = "scheddetail_prints_every_p_m_and_goroutine_as_go_does";
    if child_case().is_some() {
        let runtime = Runtime::builder().procs(2).build().unwrap();
        // SAFETY: nothing of a thread lives across calls that may park.
        unsafe {
            runtime.run(|| {
                go(park);
                let (_sender, receiver) = gmp_runtime::channel::<u8>(0);
                go(move || receiver.recv());
                sleep(Duration::from_millis(200));
            });
        }
        return;
    }
    let output = run_case(NAME, "run", &[("GMPDEBUG", "schedtrace=20,scheddetail=1")]);
    let text = stderr(&output);
    let mut counts = (0, 0, 0, 0);
    for line in text.lines() {
        let parsed = if let Some(rest) = line.strip_prefix("SCHED ") {
            counts.0 += 1;
            let (ms, rest) = rest.split_once("ms: ").unwrap();
            assert!(ms.parse::<u64>().is_ok());
            fields(rest, SCHED_FIELDS)
        } else {
            let (who, rest) = line.split_once(": ").unwrap();
            let (count, names) = match &who[..3] {
                "  P" => (&mut counts.1, P_FIELDS),
                "  M" => (&mut counts.2, M_FIELDS),
                "  G" => (&mut counts.3, G_FIELDS),
                _ => panic!("{line}"),
            };
            *count += 1;
            assert!(who[3..].parse::<u64>().is_ok(), "{line}");
            fields(rest, names)
        };
        assert!(parsed.is_some(), "{line}");
    }
    assert!(counts.0 >= 3, "{text}");
    assert_eq!(counts.1, 2 * counts.0, "two Ps each time: {text}");
    assert!(counts.2 >= counts.0 && counts.3 >= counts.0, "{text}");
    // Once all three wait, they are shown so.
    for status in [
        "status=4(park)",
        "status=4(chan receive)",
        "status=4(sleep)",
    ] {
        assert!(text.contains(status), "{status} in {text}");
    }
    assert!(text.contains("  G1: status="), "{text}");
    assert!(text.contains(" timerslen=1"), "{text}");
}

/// A line of schedtrace.
#[derive(Debug)]
struct SchedLine {
    ms: u64,
    procs: usize,
    idle_procs: usize,
    threads: u64,
    idle_threads: u64,
    queues: Vec<u64>,
    ticks: Vec<u64>,
}

/// Reads a line by the words of Go's, one after the other, with single spaces.
fn parse_sched_line(line: &str) -> Option<SchedLine> {
    fn field(rest: &mut &str, name: &str) -> Option<u64> {
        *rest = rest.strip_prefix(name)?;
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (digits, after) = rest.split_at(end);
        *rest = after;
        if digits.len() > 1 && digits.starts_with('0') {
            return None;
        }
        digits.parse().ok()
    }
    fn list(rest: &mut &str, name: &str) -> Option<Vec<u64>> {
        *rest = rest.strip_prefix(name)?;
        let end = rest.find(" ]")?;
        let (inside, after) = rest.split_at(end);
        *rest = &after[2..];
        inside
            .strip_prefix(' ')?
            .split(' ')
            .map(|number| number.parse().ok())
            .collect()
    }
    let rest = &mut &*line;
    let ms = field(rest, "SCHED ")?;
    let procs = field(rest, "ms: gomaxprocs=")? as usize;
    let idle_procs = field(rest, " idleprocs=")? as usize;
    let threads = field(rest, " threads=")?;
    let _spinning = field(rest, " spinningthreads=")?;
    let need_spinning = field(rest, " needspinning=")?;
    let idle_threads = field(rest, " idlethreads=")?;
    let _run_queue = field(rest, " runqueue=")?;
    let queues = list(rest, " [")?;
    let ticks = list(rest, " schedticks=[")?;
    (rest.is_empty() && need_spinning <= 1).then_some(SchedLine {
        ms,
        procs,
        idle_procs,
        threads,
        idle_threads,
        queues,
        ticks,
    })
}

#[test]
fn schedtrace_prints_gos_line() {
    const NAME: &str = "schedtrace_prints_gos_line";
    let go_s = "SCHED 1004ms: gomaxprocs=2 idleprocs=0 threads=4 spinningthreads=0 needspinning=1 \
                idlethreads=1 runqueue=3 [ 0 12 ] schedticks=[ 5 77 ]";
    let parsed = parse_sched_line(go_s).unwrap();
    assert_eq!(
        (parsed.ms, parsed.queues, parsed.ticks),
        (1004, vec![0, 12], vec![5, 77])
    );
    assert!(parse_sched_line(&go_s.replace("[ 0", "[0")).is_none());
    assert!(parse_sched_line(&go_s.replace(" runqueue", "  runqueue")).is_none());
    if child_case().is_some() {
        let runtime = Runtime::builder().procs(3).build().unwrap();
        // SAFETY: nothing of a thread lives across calls that may park.
        unsafe {
            runtime.run(|| {
                for _ in 0..4 {
                    let work: Vec<_> = (0..20)
                        .map(|_| go(|| (0..50).for_each(|_| yield_now())))
                        .collect();
                    work.into_iter().for_each(|handle| handle.join().unwrap());
                    sleep(Duration::from_millis(40));
                }
            });
        }
        return;
    }
    let output = run_case(NAME, "run", &[("GMPDEBUG", "schedtrace=10")]);
    let text = stderr(&output);
    let lines: Vec<SchedLine> = text
        .lines()
        .filter(|line| line.starts_with("SCHED"))
        .map(|line| parse_sched_line(line).unwrap_or_else(|| panic!("not Go's: {line}")))
        .collect();
    // 160 ms of sleep at least.
    assert!(lines.len() >= 2, "{text}");
    assert!(lines.is_sorted_by_key(|line| line.ms));
    for line in &lines {
        assert_eq!((line.procs, line.queues.len(), line.ticks.len()), (3, 3, 3));
        assert!(
            line.idle_procs <= 3 && line.idle_threads < line.threads,
            "{line:?}"
        );
    }
    let ticks = |line: &SchedLine| line.ticks.iter().sum::<u64>();
    assert!(lines.is_sorted_by_key(ticks));
    assert!(lines.last().map(ticks) > Some(100), "{text}");
    // The first line comes at once: of an hour's interval it is the only one.
    let output = run_case(NAME, "run", &[("GMPDEBUG", "schedtrace=3600000")]);
    assert_eq!(stderr(&output).matches("SCHED ").count(), 1);
}
