//! Traces of Go written again: read back they say the same, and Go's own tools open them.

mod go_support;

use gmp_trace::event::RetakeReason;
use gmp_trace::go::write::Writer;
use gmp_trace::tables::Tables;
use gmp_trace::{Body, Event, Options};
use go_support::made::{G1, P0, generation, parse};
use go_support::written::{frames, text, write, write_what_is_left};
use go_support::{drain, strict, tool, traces};

/// The event with everything that it refers to.
fn whole(event: &Event, tables: &Tables) -> String {
    let mut said = format!(
        "{:?} {:?} {:?} {:?} ",
        event.time, event.m, event.p, event.g
    );
    let stack = |stack| frames(stack, tables);
    let text = |word| text(word, tables);
    said += &match event.body {
        Body::GoCreate {
            child,
            stack: made,
            start_stack,
            runnable,
            ..
        } => format!(
            "GoCreate {child:?} {:?} {:?} {runnable}",
            stack(start_stack),
            stack(made)
        ),
        Body::GoPark {
            reason, stack: at, ..
        } => format!("GoPark {:?} {:?}", text(reason), stack(at)),
        Body::GoYield { stack: at } => format!("GoYield {:?}", stack(at)),
        Body::GoPreempted { how, stack: at } => format!("GoPreempted {how:?} {:?}", stack(at)),
        Body::GoReady {
            goroutine,
            by,
            stack: at,
        } => format!("GoReady {goroutine:?} {by:?} {:?}", stack(at)),
        Body::GoStatus {
            goroutine,
            state,
            on_m,
            stack: at,
            ..
        } => format!("GoStatus {goroutine:?} {state:?} {on_m:?} {:?}", stack(at)),
        Body::SyscallEnter { stack: at, .. } => format!("SyscallEnter {:?}", stack(at)),
        Body::ProcsChange { procs, stack: at } => format!("ProcsChange {procs} {:?}", stack(at)),
        Body::StopRequested { kind, stack: at } => {
            format!("StopRequested {:?} {:?}", text(kind), stack(at))
        }
        Body::RangeBegin {
            name,
            scope,
            stack: at,
            already_active,
        } => format!(
            "RangeBegin {:?} {scope:?} {:?} {already_active}",
            text(name),
            stack(at)
        ),
        Body::RangeEnd {
            name,
            scope,
            figures,
        } => format!("RangeEnd {:?} {scope:?} {figures:?}", text(name)),
        Body::GcBegin { cycle, stack: at } => format!("GcBegin {cycle} {:?}", stack(at)),
        Body::Metric { name, value } => format!("Metric {:?} {value}", text(name)),
        Body::GoLabel { label } => format!("GoLabel {:?}", text(label)),
        Body::TaskBegin {
            task,
            parent,
            name,
            stack: at,
        } => format!(
            "TaskBegin {task:?} {parent:?} {:?} {:?}",
            text(name),
            stack(at)
        ),
        Body::TaskEnd { task, stack: at } => format!("TaskEnd {task:?} {:?}", stack(at)),
        Body::RegionBegin {
            task,
            name,
            stack: at,
        } => format!("RegionBegin {task:?} {:?} {:?}", text(name), stack(at)),
        Body::RegionEnd {
            task,
            name,
            stack: at,
        } => format!("RegionEnd {task:?} {:?} {:?}", text(name), stack(at)),
        Body::Log {
            task,
            key,
            value,
            stack: at,
        } => format!(
            "Log {task:?} {:?} {:?} {:?}",
            text(key),
            text(value),
            stack(at)
        ),
        Body::CpuSample { stack: at } => format!("CpuSample {:?}", stack(at)),
        other => format!("{other:?}"),
    };
    said
}

/// What a trace up to Go 1.21 does not tell and one since 1.22 has to, or the other way round.
fn as_newer(event: &Event) -> Event {
    let mut event = *event;
    match &mut event.body {
        // Where a status is told, and on which thread a call was that began before the trace.
        Body::GoStatus { on_m, .. } => {
            *on_m = None;
            (event.m, event.p, event.g) = (None, None, None);
        }
        Body::ProcStatus { .. } => (event.m, event.p, event.g) = (None, None, None),
        // Where a call ended.
        Body::SyscallExitBlocked => (event.m, event.p) = (None, None),
        Body::ProcSteal { why, .. } => {
            (event.p, event.g) = (None, None);
            *why = Some(RetakeReason::Syscall);
        }
        // The thread may have a goroutine that is in a call.
        Body::ProcStart | Body::ProcStop => event.g = None,
        // The newer format numbers ends too.
        Body::GcBegin { cycle, .. } | Body::GcEnd { cycle, .. } => *cycle = 0,
        _ => {}
    }
    event
}

#[test]
fn a_trace_of_go_read_and_written_is_the_same_trace() {
    let mut checked = 0;
    for (name, bytes) in traces() {
        let written = write(&bytes, &name);
        assert!(written.outcome.left_out.is_empty(), "{name}");
        assert!(written.outcome.added.is_empty(), "{name}");
        assert_eq!(written.events.len(), written.back.len(), "{name}");
        let old = name.starts_with("go1.21");
        let same = |event: &Event| if old { as_newer(event) } else { *event };
        let sort = |events: &[Event], tables: &Tables| {
            let mut said: Vec<_> = events
                .iter()
                .map(|event| whole(&same(event), tables))
                .collect();
            // At one time events of several threads come in any order.
            if old {
                said.sort();
            }
            said
        };
        let meant = sort(&written.events, &written.tables);
        let got = sort(&written.back, &written.back_tables);
        for (place, (meant, got)) in meant.iter().zip(&got).enumerate() {
            assert_eq!(meant, got, "{name}: {place}");
        }
        let has_clock = matches!(written.events[0].body, Body::Sync { wall: Some(_), .. });
        assert_eq!(written.outcome.version, if has_clock { 26 } else { 23 });
        checked += got.len();
    }
    assert!(checked > 190_000, "{checked}");
}

#[test]
fn the_experiment_about_allocations_is_kept() {
    let written = write(&go_support::trace("go1.27-locked-allocfree"), "allocations");
    let types = |bytes: &[u8]| {
        let mut reader = strict(bytes).expect("a trace");
        drain(&mut reader);
        let allocations = reader.allocations().expect("some");
        let named = allocations.types().map(|(id, of)| {
            (
                id,
                of.address,
                of.size,
                reader.tables().text(of.name).to_owned(),
            )
        });
        (allocations.object_address(1000), named.collect::<Vec<_>>())
    };
    let meant = types(&go_support::trace("go1.27-locked-allocfree"));
    assert!(meant.1.len() > 5);
    assert_eq!(types(&written.bytes), meant);
}

/// A goroutine more in each generation, which ends in it.
fn short_lives(generations: u64) -> Vec<u8> {
    let one = |number| {
        let made = number + 1;
        let events = format!(
            "{P0}\n{G1}\nGoCreate dt=1 new_g={made} new_stack=0 stack=0\n\
             GoBlock dt=1 reason_string=0 stack=0\nGoStart dt=1 g={made} g_seq=1\n\
             GoUnblock dt=1 g=1 g_seq=1 stack=0\nGoDestroy dt=1\nGoStart dt=1 g=1 g_seq=2"
        );
        generation(number, &[(0, &events)])
    };
    parse(&(1..=generations).map(one).collect::<String>())
}

#[test]
fn memory_does_not_grow_with_what_has_ended() {
    let peak = |generations: u64| {
        let bytes = short_lives(generations);
        let mut events = 0;
        let memory = allocation_counter::measure(|| {
            let mut reader = Options::new().open_at(bytes).expect("a trace");
            let mut writer = Writer::new(std::io::sink(), reader.info().format);
            while let Some(event) = reader.next().expect("whole") {
                writer.event(&event, reader.tables()).expect("a sink");
            }
            events = writer.finish(reader.tables()).expect("a sink").events;
        });
        assert_eq!(events, generations * 9);
        memory.bytes_max
    };
    let (few, many) = (peak(20), peak(2000));
    assert!(many < few + 4096, "{few} bytes, {many}");
}

/// Damage of all kinds: whatever a lenient reader makes of it, a strict one reads what is written.
#[test]
fn what_is_left_of_a_damaged_trace_is_written_whole() {
    let mut checked = 0;
    for name in [
        "go1.21-tasks",
        "go1.22-hogs",
        "go1.23-tasks",
        "go1.27-tasks",
    ] {
        let bytes = go_support::trace(name);
        for place in (16..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[place] ^= (place as u8).wrapping_mul(37) | 1;
            checked += write_what_is_left(&damaged, &format!("{name} damaged at {place}"));
        }
    }
    assert!(checked > 100_000, "{checked}");
}

#[test]
fn go_prints_the_same_of_a_trace_and_of_what_is_written() {
    let Some(tool) = tool::tool() else { return };
    let mut checked = 0;
    for (name, bytes) in traces() {
        let written = write(&bytes, &name).bytes;
        tool.validate(&written, &name);
        if name.starts_with("go1.21") {
            continue;
        }
        let (meant, got) = match &*name {
            // So many threads that some events are at one time.
            "go1.27-gc" => (
                tool.parsed_by_thread(&bytes),
                tool.parsed_by_thread(&written),
            ),
            _ => (tool.parsed(&bytes), tool.parsed(&written)),
        };
        assert_eq!(meant.len(), got.len(), "{name}");
        for (meant, got) in meant.iter().zip(&got) {
            assert_eq!(meant, got, "{name}");
        }
        checked += got.len();
    }
    assert!(checked > 500_000, "{checked} lines");
}
