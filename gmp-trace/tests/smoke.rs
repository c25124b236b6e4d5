//! One small trace of two Ms, written record by record and read again: what each event says.

#![cfg(all(feature = "read", feature = "write"))]
#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

use std::io::Cursor;

use gmp_trace::event::{Found, GState, PState, Waker};
use gmp_trace::id::{GId, MId, ObjectId, PId};
use gmp_trace::tables::Text;
use gmp_trace::time::Nanos;
use gmp_trace::write::{
    ClockPair, Context, GoroutineStatus, HeaderInfo, Module, Recorder, Seq, Wait,
};
use gmp_trace::{Body, Event, open};

fn m(number: u64) -> MId {
    MId::new(number).unwrap()
}

fn g(number: u64) -> GId {
    GId::new(number).unwrap()
}

fn context(p: Option<u32>, goroutine: Option<u64>) -> Context {
    Context {
        p: p.and_then(PId::new),
        g: goroutine.and_then(GId::new),
    }
}

/// M0 runs G1, which makes G2 and waits; M1, whose clock is late, steals and runs G2, which readies
/// G1.
fn trace() -> Vec<u8> {
    let mut recorder = Recorder::new(Vec::new(), &HeaderInfo::new(1_000_000_000), 4096).unwrap();
    let module = Module {
        start: 0x1000,
        end: 0x2000,
        offset: 64,
        path: recorder.text("/bin/program"),
        build_id: 0,
    };
    recorder.module(module);
    recorder.module(module);
    recorder
        .begin_generation(ClockPair {
            ticks: 1000,
            mono: 77,
            wall: 5_000_000,
        })
        .unwrap();
    let site = recorder.site("main::worker", "main.rs", 10, 5);
    let status = GoroutineStatus {
        g: 1,
        state: GState::Running,
        on_m: Some(0),
        reason: 0,
        object: 0,
        site: 0,
        created_at: site,
        creator: 0,
        label: 0,
    };
    let wait = Wait {
        reason: Text::CHAN_RECEIVE.0,
        site,
        object: 9,
    };
    recorder
        .record(m(0), 1010, context(Some(0), Some(1)), |e, c| {
            e.proc_status(c, 1010, 0, PState::Running, Some(0));
            e.proc_status(c, 1010, 1, PState::Idle, None);
            e.go_status(c, 1010, &status);
            e.create(c, 1020, 2, site);
            e.park(c, 1050, wait);
        })
        .unwrap();
    recorder
        .record(m(1), 1005, context(None, None), |e, c| {
            e.proc_start(c, 1005, 1, 1);
            e.start(c, 1012, 2, Found::Stolen, Seq::Remote(1));
            e.ready(c, 1014, 1, Waker::Goroutine, Seq::Remote(1));
        })
        .unwrap();
    recorder
        .record(m(0), 1060, context(Some(0), None), |e, c| {
            e.start(c, 1060, 1, Found::Global, Seq::Remote(2));
        })
        .unwrap();
    recorder.finish().unwrap()
}

#[test]
fn events_come_in_the_order_of_cause_with_their_recorded_time() {
    let mut reader = open(Cursor::new(trace())).unwrap();
    let mut events: Vec<Event> = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        events.push(event);
    }
    let names: Vec<String> = events
        .iter()
        .map(|e| {
            let body = format!("{:?}", e.body);
            let name = body.split([' ', '(']).next().unwrap_or_default().to_owned();
            format!("{} {name} {:?} {:?} {:?}", e.time.0, e.m, e.p, e.g)
        })
        .collect();
    let expected = [
        "0 Sync None None None",
        "10 ProcStatus Some(M0) Some(P0) Some(G1)",
        "10 ProcStatus Some(M0) Some(P0) Some(G1)",
        "5 ProcStart Some(M1) Some(P1) None",
        "10 GoStatus Some(M0) Some(P0) Some(G1)",
        "20 GoCreate Some(M0) Some(P0) Some(G1)",
        "12 GoStart Some(M1) Some(P1) Some(G2)",
        "50 GoPark Some(M0) Some(P0) Some(G1)",
        "14 GoReady Some(M1) Some(P1) Some(G2)",
        "60 GoStart Some(M0) Some(P0) Some(G1)",
    ];
    assert_eq!(names, expected);
    assert!(
        events
            .iter()
            .enumerate()
            .all(|(place, e)| e.order == place as u64)
    );
    let tables = reader.tables();
    let Body::GoPark {
        reason,
        object,
        site,
        ..
    } = events[7].body
    else {
        panic!("no park")
    };
    assert_eq!(tables.text(reason), "chan receive");
    assert_eq!(object, ObjectId::new(9));
    let site = tables.site(site.unwrap()).unwrap();
    assert_eq!(
        (tables.text(site.function), site.line, site.column),
        ("main::worker", 10, 5)
    );
    let Body::GoReady { goroutine, by, .. } = events[8].body else {
        panic!("no ready")
    };
    assert_eq!((goroutine, by), (g(1), Some(Waker::Goroutine)));
    let info = reader.info();
    assert_eq!(info.finished, Some(true));
    assert_eq!(info.wall_start, Some(Nanos(5_000_000)));
    assert_eq!((info.generations, info.events), (1, 10));
    assert_eq!(info.modules.len(), 1, "told twice");
    let module = &info.modules[0];
    assert_eq!(
        (module.start, module.end, module.offset),
        (0x1000, 0x2000, 64)
    );
    let names = (tables.text(module.path), tables.text(module.build_id));
    assert_eq!(names, ("/bin/program", ""));
    let kinds: Vec<_> = reader
        .anomalies()
        .iter()
        .map(|a| (a.kind, a.count, a.amount))
        .collect();
    assert_eq!(kinds, [(gmp_trace::anomaly::AnomalyKind::ClockSkew, 3, 36)]);
}
