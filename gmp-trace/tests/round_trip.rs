//! What is meant is what is read: over played programs of all shapes.

#![cfg(feature = "testgen")]
#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod support;

use gmp_trace::testgen::{Config, Mix, program};
use support::read;

/// Reads the program of `seed` and compares every event and every table.
fn same_as_meant(seed: u64, config: &Config) -> usize {
    let program = program(seed, config);
    let read = read(&program.bytes).unwrap();
    for (place, (meant, got)) in program.events.iter().zip(&read.events).enumerate() {
        assert_eq!(got, meant, "event {place} of seed {seed}, {config:?}");
    }
    assert_eq!(
        read.events.len(),
        program.events.len(),
        "seed {seed}, {config:?}"
    );
    assert_eq!(read.kinds(), [], "seed {seed}, {config:?}");
    assert_eq!(read.tables.text_count(), program.tables.text_count());
    assert_eq!(read.info.finished, Some(true));
    assert_eq!(read.info.generations, u64::from(config.generations));
    program.events.len()
}

#[test]
fn programs_are_read_as_meant() {
    let mut events = 0;
    for seed in 0..150 {
        let config = Config {
            goroutines: 1 + seed as usize % 40,
            ms: 1 + seed as usize % 5,
            ps: 1 + seed as usize % 4,
            events: 1500,
            generations: 1 + seed as u32 % 4,
            mix: if seed % 5 == 0 {
                Mix::Channels
            } else {
                Mix::Everything
            },
            block_bytes: [500, 1000, 4096, 65_536][seed as usize % 4],
            ..Config::default()
        };
        events += same_as_meant(seed, &config);
    }
    assert!(events > 200_000, "{events}");
}
