//! Traces of other versions, and what is no trace at all.

#![cfg(feature = "text")]
#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod support;

use gmp_trace::Body;
use gmp_trace::anomaly::AnomalyKind;
use gmp_trace::header::{HEADER_BYTES, HEADER_COPY_BYTES};
use gmp_trace::info::TraceFormat;
use gmp_trace::text::from_text;
use support::{blocks, read};

/// A trace of a version that knows one more event, and says more about a yield.
const NEWER: &str = "gmp trace 1.7
clock 1000000000
arity 0xbf 3
arity 0xbe 15
arity 0x41 2
block events generation=1 sequence=0 m=0 base=10 g=1 p=0
GoStatus:running dt=0 g=1 on_optional_m=1 reason_text=0 object=0 wait_site=0 created_site=0 \
creator_goroutine=0 label_text=0
Unknown:0xbf 4 77 78
Yield dt=1 +99
Unknown:0xbe \"\\x02rest\"
Start:15 dt=1 g=1
";

#[test]
fn a_newer_minor_version_is_read_as_far_as_it_is_known() {
    let read = read(&from_text(NEWER).unwrap()).unwrap();
    assert_eq!(read.info.format, TraceFormat::Native { major: 1, minor: 7 });
    assert_eq!(read.anomalies.count(AnomalyKind::UnknownKind), 2);
    assert_eq!(read.anomalies.count(AnomalyKind::BadRecord), 0);
    let events: Vec<_> = read.events.iter().map(|e| (e.time.0, e.body)).collect();
    assert_eq!(events.len(), 6);
    assert_eq!(
        events[2],
        (
            4,
            Body::Unknown {
                kind: 0xbf,
                args: [4, 77, 78, 0]
            }
        )
    );
    assert_eq!(events[3], (5, Body::GoYield { stack: None }));
    assert!(matches!(
        events[4],
        (
            7,
            Body::Unknown {
                kind: 0xbe,
                args: [2, ..]
            }
        )
    ));
    assert_eq!(
        events[5],
        (8, Body::GoStart { found: None }),
        "found in a way that is new"
    );
}

#[test]
fn a_newer_major_version_is_refused_by_its_name() {
    for version in ["2.0", "3.9", "0.1"] {
        let bytes = from_text(&format!("gmp trace {version}\nclock 1\n")).unwrap();
        let error = read(&bytes).unwrap_err();
        assert!(error.is_unsupported_version(), "{error}");
        assert!(
            error.to_string().contains(&format!("version {version}")),
            "{error}"
        );
        assert!(error.to_string().contains("version 1"), "{error}");
    }
}

#[test]
fn a_header_that_lacks_arguments_is_refused() {
    let bytes = from_text("gmp trace 1.0\nclock 1\narity 0x30 1\n").unwrap();
    let error = read(&bytes).unwrap_err();
    assert!(
        error.is_corrupt() && error.to_string().contains("2 arguments of Ready"),
        "{error}"
    );
}

#[test]
fn one_good_copy_of_the_header_is_enough() {
    let bytes = from_text(NEWER).unwrap();
    let whole = read(&bytes).unwrap();
    for copy in 0..2 {
        let mut damaged = bytes.clone();
        damaged[copy * HEADER_COPY_BYTES..][..HEADER_COPY_BYTES].fill(0x55);
        let read = read(&damaged).unwrap();
        assert_eq!(read.events, whole.events);
        assert_eq!(read.anomalies.count(AnomalyKind::DamagedHeader), 1);
    }
    let mut damaged = bytes;
    damaged[20] ^= 1;
    damaged[HEADER_COPY_BYTES + 20] ^= 1;
    assert!(read(&damaged).unwrap_err().is_corrupt());
}

#[test]
fn what_is_no_trace_is_said_in_one_line() {
    let cases: [(&[u8], &str); 3] = [
        (b"", "an empty file"),
        (b"PK\x03\x04 something that is compressed", "50, 4b"),
        (b"# a text", "23, 20"),
    ];
    for (bytes, word) in cases {
        let error = read(bytes).unwrap_err();
        assert!(error.is_not_a_trace(), "{error}");
        let text = error.to_string();
        assert!(text.contains(word) && !text.contains('\n'), "{text}");
    }
    let error = read(b"\x8Egmp\r").unwrap_err();
    assert!(error.is_truncated(), "{error}");
}

/// Sets a field of the block's header and makes its first checksum right.
fn set(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn a_small_block_cannot_become_a_large_one() {
    use std::io::Write;
    let bytes = from_text(NEWER).unwrap();
    let block = blocks(&bytes)[0].start;
    let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    deflate.write_all(&vec![0x41; 40 << 20]).unwrap();
    let bomb = deflate.finish().unwrap();
    assert!(bomb.len() < 100_000);
    for raw_length in [1000, u32::MAX] {
        let mut damaged = bytes[..block + 80].to_vec();
        damaged.extend_from_slice(&bomb);
        set(&mut damaged, block + 8, 80 + bomb.len() as u32);
        set(&mut damaged, block + 60, 3);
        set(&mut damaged, block + 64, bomb.len() as u32);
        set(&mut damaged, block + 68, raw_length);
        let checksum = crc32fast::hash(&damaged[block..block + 56]);
        set(&mut damaged, block + 56, checksum);
        let mut told = 0;
        let memory = allocation_counter::measure(|| {
            told = read(&damaged)
                .unwrap()
                .anomalies
                .count(AnomalyKind::BadChecksum);
        });
        assert_eq!(told, 1, "{raw_length}");
        let most = 400_000 + 3 * (raw_length as usize).min(gmp_trace::limits::MAX_PAYLOAD_BYTES);
        assert!(
            memory.bytes_max < most as u64,
            "{raw_length}: {} bytes",
            memory.bytes_max
        );
    }
}

#[test]
fn enormous_lengths_take_no_memory() {
    let bytes = from_text(NEWER).unwrap();
    let block = blocks(&bytes)[0].start;
    let mut cases = Vec::new();
    // Length, length before compression, events: fields of the seal, with and without "compressed".
    for field in [64, 68, 72] {
        for flags in [1, 3] {
            let mut damaged = bytes.clone();
            set(&mut damaged, block + field, u32::MAX);
            set(&mut damaged, block + 60, flags);
            cases.push(damaged);
        }
    }
    // The capacity, with the right checksum of the header.
    let mut damaged = bytes.clone();
    set(&mut damaged, block + 8, u32::MAX);
    let checksum = crc32fast::hash(&damaged[block..block + 56]);
    set(&mut damaged, block + 56, checksum);
    cases.push(damaged);
    // A block that is said to be as large as one may be, of which there is little.
    let mut damaged = bytes.clone();
    set(&mut damaged, block + 8, 4 << 20);
    set(&mut damaged, block + 60, 1);
    set(&mut damaged, block + 64, (4 << 20) - 80);
    let checksum = crc32fast::hash(&damaged[block..block + 56]);
    set(&mut damaged, block + 56, checksum);
    cases.push(damaged);
    // A record with a length of 2^63, in a block that is not checked.
    let mut damaged = bytes[..block + 80].to_vec();
    damaged.extend([
        0xb4, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 1, 2, 3,
    ]);
    set(&mut damaged, block + 60, 1);
    set(&mut damaged, block + 64, 14);
    set(&mut damaged, block + 8, 80 + 14);
    let checksum = crc32fast::hash(&damaged[block..block + 56]);
    set(&mut damaged, block + 56, checksum);
    assert_eq!(
        read(&damaged)
            .unwrap()
            .anomalies
            .count(AnomalyKind::BadRecord),
        1
    );
    cases.push(damaged);
    assert_eq!(cases.len(), 9);
    assert_eq!(HEADER_BYTES, block);
    for (place, damaged) in cases.iter().enumerate() {
        let mut anomalies = 0;
        let memory = allocation_counter::measure(|| {
            anomalies = read(damaged).unwrap().kinds().len();
        });
        assert!(anomalies > 0, "case {place}");
        assert!(
            memory.bytes_max < 300_000,
            "case {place}: {} bytes",
            memory.bytes_max
        );
    }
}
