//! What a call of the encoder writes, byte by byte, and that it stays within its room.

#![cfg(feature = "write")]

use gmp_trace::event::{Found, Waker};
use gmp_trace::id::{GId, MId, PId};
use gmp_trace::tables::Text;
use gmp_trace::write::{
    BLOCK_HEADER_BYTES, BlockHead, BlockKind, Encoder, MIN_CHUNK_BYTES, Seq, Wait, finish_block,
    tighten_block,
};

fn head() -> BlockHead {
    BlockHead {
        kind: BlockKind::Events,
        generation: 1,
        sequence: 0,
        m: MId::new(3),
        base_time: 1000,
        g: GId::new(7),
        p: PId::new(0),
    }
}

const WAIT: Wait = Wait {
    reason: Text::CHAN_RECEIVE.0,
    site: 1,
    object: 0x40,
};

#[test]
fn a_switch_to_a_known_wait_takes_four_bytes() {
    let mut chunk = vec![0; 4096];
    let mut encoder = Encoder::new();
    encoder.begin(&mut chunk, &head());
    encoder.park_start(&mut chunk, 1001, WAIT, 8, (Found::Runnext, Seq::Local));
    let after_definition = encoder.used();
    encoder.park_start(&mut chunk, 1003, WAIT, 7, (Found::Local, Seq::Local));
    assert_eq!(encoder.used() - after_definition, 4);
    let record = &chunk[after_definition..encoder.used()];
    assert_eq!(
        record[0], 0x03,
        "ParkStart, found locally, without a number"
    );
    assert_eq!(record[1], 2, "units since the last stamp");
    assert_eq!(record[3], 1, "one less than the last goroutine, zigzag");
    assert_eq!(encoder.events(), 4);
    let before = encoder.used();
    encoder.ready(&mut chunk, 1003, 8, Waker::Goroutine, Seq::Local);
    assert_eq!(encoder.used() - before, 3);
    assert_eq!(encoder.events(), 5);
    assert_eq!(encoder.refused(), 0);
}

#[test]
fn time_never_goes_back_within_a_block() {
    let mut chunk = vec![0; 4096];
    let mut encoder = Encoder::new();
    encoder.begin(&mut chunk, &head());
    encoder.yields(&mut chunk, 1010);
    encoder.yields(&mut chunk, 1005);
    encoder.yields(&mut chunk, 1011);
    let payload = &chunk[BLOCK_HEADER_BYTES..encoder.used()];
    assert_eq!(payload, [0x41, 10, 0x41, 0, 0x41, 1]);
}

#[test]
fn no_call_writes_beyond_the_chunk_or_without_room() {
    let mut calls = 0;
    for size in [
        0,
        1,
        BLOCK_HEADER_BYTES,
        MIN_CHUNK_BYTES - 1,
        MIN_CHUNK_BYTES,
        1000,
    ] {
        let mut chunk = vec![0; size];
        let mut encoder = Encoder::new();
        encoder.begin(&mut chunk, &head());
        assert_eq!(encoder.has_room(&chunk), size >= MIN_CHUNK_BYTES, "{size}");
        for n in 0..2000u64 {
            let had_room = encoder.has_room(&chunk);
            let before = encoder.refused();
            let wait = Wait {
                reason: u32::MAX - 1,
                site: u32::MAX,
                object: u64::MAX - n,
            };
            let to = (Found::Local, Seq::Remote(u32::MAX));
            encoder.park_start(&mut chunk, u64::MAX, wait, u64::MAX / 2 * (n % 2), to);
            assert!(
                !had_room || encoder.refused() == before,
                "refused though there was room"
            );
            calls += 1;
        }
        assert!(encoder.refused() > 0);
        assert!(encoder.used() <= size);
        encoder.seal(&mut chunk, true);
        assert!(!encoder.has_room(&chunk));
        assert_eq!(finish_block(&mut chunk), size >= MIN_CHUNK_BYTES);
        assert_eq!(tighten_block(&mut chunk).is_some(), size >= MIN_CHUNK_BYTES);
    }
    assert_eq!(calls, 12_000);
}
