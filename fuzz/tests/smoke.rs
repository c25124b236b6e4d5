//! The targets on a stable toolchain: over fixtures, mutations of them, and generated input.

use std::path::Path;

use gmp_fuzz::{Compared, TARGETS, go_trace, native_text, order_check};

/// A small generator of numbers: the same on every machine.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// The files of `folders` of the fixtures whose names end in `extension`, in the order of their names.
fn fixtures(folders: &[&str], extension: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let mut paths = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(root.join(folder)).expect("fixtures");
        let found = entries.map(|entry| entry.expect("an entry").path());
        paths.extend(found.filter(|path| path.extension().is_some_and(|e| e == extension)));
    }
    paths.sort();
    let read = |path| std::fs::read(path).expect("a fixture");
    paths.iter().map(read).collect()
}

/// `bytes` with one to three changes.
fn mutated(bytes: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=numbers.below(3) {
        let at = numbers.below(bytes.len());
        match numbers.below(3) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << numbers.below(8),
            1 => bytes.truncate(at),
            _ => bytes.insert(at, numbers.next() as u8),
        }
    }
    bytes
}

#[test]
fn fixtures_and_mutations_of_them() {
    let fixtures = fixtures(&["gmp", "bad"], "gmpt");
    assert!(fixtures.len() >= 14, "{}", fixtures.len());
    let (mut numbers, mut compared, mut runs) = (Numbers(1), 0, 0);
    for fixture in &fixtures {
        compared += u32::from(native_text(fixture) == Compared::Yes);
        for _ in 0..60 {
            let bytes = mutated(fixture, &mut numbers);
            compared += u32::from(native_text(&bytes) == Compared::Yes);
            runs += 1;
        }
    }
    assert!(
        runs >= 840 && compared > 200,
        "{runs} runs, {compared} compared"
    );
}

#[test]
fn traces_of_go_and_mutations_of_them() {
    let fixtures = fixtures(&["go"], "trace");
    assert!(fixtures.len() >= 19, "{}", fixtures.len());
    let (mut numbers, mut whole, mut runs) = (Numbers(3), 0, 0);
    for fixture in &fixtures {
        whole += u32::from(go_trace(fixture) == Compared::Yes);
        // The time that a large one takes goes to the small ones.
        for _ in 0..400_000 / fixture.len().max(4000) {
            go_trace(&mutated(fixture, &mut numbers));
            runs += 1;
        }
    }
    assert!(whole >= 17 && runs > 200, "{whole} whole, {runs} runs");
}

/// What fuzzers have kept: each file once reached something that no other one did.
#[test]
fn the_corpus() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut runs = 0;
    for (name, target) in TARGETS {
        let files = std::fs::read_dir(root.join(name)).expect("a corpus of each target");
        for file in files {
            let path = file.expect("an entry").path();
            target(&std::fs::read(&path).expect("a file of the corpus"));
            runs += 1;
        }
    }
    assert!(runs > 300, "{runs} files");
}

#[test]
fn what_ms_may_do() {
    let (mut numbers, mut possible, mut runs) = (Numbers(2), 0, 0);
    for _ in 0..4000 {
        let length = 3 * (1 + numbers.below(8));
        let data: Vec<u8> = (0..length).map(|_| numbers.next() as u8).collect();
        possible += u32::from(order_check(&data) == Compared::Yes);
        runs += 1;
    }
    assert!(
        runs == 4000 && possible > 20,
        "{runs} runs, {possible} possible"
    );
}

#[test]
fn a_scheduler_that_is_possible_is_compared() {
    // M0 makes G1 and starts it; it parks; M1 readies it with number 2.
    let create = 7 * 3;
    let start = 0;
    let park = 4 * 3;
    let ready_on_m1 = 2 * 3 + 1;
    let data = [
        create,
        0,
        0,
        start,
        0,
        0,
        park,
        0,
        0,
        ready_on_m1,
        0,
        128 + 2,
    ];
    assert_eq!(order_check(&data), Compared::Yes);
    // Without the park nobody can be readied.
    let data = [create, 0, 0, start, 0, 0, ready_on_m1, 0, 128 + 2];
    assert_eq!(order_check(&data), Compared::No);
}
