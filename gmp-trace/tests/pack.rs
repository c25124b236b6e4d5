//! Packing: fewer bytes, the same events.

#![cfg(feature = "testgen")]
#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod support;

use std::io::Cursor;

use gmp_trace::anomaly::AnomalyKind;
use gmp_trace::pack::pack;
use gmp_trace::testgen::{Config, Mix, killed_program, program};
use support::{blocks, read};

fn packed(bytes: &[u8]) -> (Vec<u8>, gmp_trace::pack::Packed) {
    let mut out = Vec::new();
    let packed = pack(Cursor::new(bytes.to_vec()), &mut out).unwrap();
    (out, packed)
}

#[test]
fn a_packed_trace_says_the_same_in_fewer_bytes() {
    let config = Config {
        events: 50_000,
        block_bytes: 65_536,
        ..Config::default()
    };
    for mix in [Mix::Channels, Mix::Everything] {
        let program = program(4, &Config { mix, ..config });
        let (bytes, report) = packed(&program.bytes);
        assert_eq!(report.bytes_in, program.bytes.len() as u64);
        assert_eq!(report.bytes_out, bytes.len() as u64);
        assert_eq!(report.blocks, blocks(&bytes).len() as u64);
        assert!(report.anomalies.is_empty());
        assert!(bytes.len() * 10 < program.bytes.len() * 8, "{report:?}");
        let read = read(&bytes).unwrap();
        assert!(read.events == program.events);
        assert_eq!(read.kinds(), []);
        assert_eq!(packed(&bytes).0, bytes, "packed is packed");
    }
}

#[test]
fn open_blocks_are_closed_after_their_last_event() {
    let program = killed_program(
        9,
        &Config {
            events: 900,
            ..Config::default()
        },
    );
    let before = read(&program.bytes).unwrap();
    let (bytes, report) = packed(&program.bytes);
    assert!(report.anomalies.count(AnomalyKind::UnsealedBlock) > 0);
    assert!(bytes.len() < program.bytes.len());
    let after = read(&bytes).unwrap();
    assert!(after.events == before.events);
    assert_eq!(after.anomalies.count(AnomalyKind::UnsealedBlock), 0);
    assert_eq!(after.anomalies.count(AnomalyKind::NotFinished), 1);
    assert_eq!(after.anomalies.count(AnomalyKind::CountMismatch), 0);
}

#[test]
fn a_damaged_block_is_missing_in_the_packed_trace() {
    let mut bytes = program(2, &Config::default()).bytes;
    let block = blocks(&bytes)[1].clone();
    bytes[block.start + 90] ^= 1;
    let (out, report) = packed(&bytes);
    assert_eq!(report.anomalies.count(AnomalyKind::BadChecksum), 1);
    let read = read(&out).unwrap();
    assert!(
        read.anomalies.count(AnomalyKind::MissingBlock) >= 1,
        "{:?}",
        read.kinds()
    );
}
