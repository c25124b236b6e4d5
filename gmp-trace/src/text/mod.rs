//! The text form of a trace: one record a line, both ways.
//!
//! ```text
//! gmp trace 1.0
//! clock 62500000
//! start 1000
//!
//! block events generation=1 sequence=0 m=0 base=1000 g=1 p=0
//! WaitDef wait_slot=3 reason_text="chan receive" object=64 wait_site=1
//! ParkStart:runnext dt=5 wait_slot=3 g=8 seq=4
//! Log dt=1 task=0 key_text=#2 "as it was said"
//! ```
//!
//! * A line that begins with `#` is a remark; empty lines mean nothing.
//! * A block has the attributes of its header; `m`, `g` and `p` are left out where there is none, and
//!   `open` stands at the end of one that was not closed.
//! * Records have the names, values and arguments of [`SPECS`](crate::spec::SPECS), in order. Goroutines
//!   are absolute, texts are the string itself where every reader knows it and `#` with the number of
//!   the string where the trace defines it; other numbers stand as they are in the file. A value that
//!   has no name is a number, and so is the head of a record that this version does not know:
//!   `Unknown:0xf0 1 2`. Numbers that a newer version added follow with a `+`.
//! * `arity 0xf0 2` at the top says how many numbers follow a head, where that is not as in this
//!   version; 14 is none, 15 a length of its own.
//!
//! Checksums, sizes and compression are not in the text: they are made anew.

mod parse;
mod print;

pub use parse::{TextError, from_text};
pub use print::to_text;

use crate::block::BlockKind;

/// Names of the kinds of blocks.
const BLOCK_KINDS: [(BlockKind, &str); 4] = [
    (BlockKind::Events, "events"),
    (BlockKind::Table, "table"),
    (BlockKind::Control, "control"),
    (BlockKind::Samples, "samples"),
];
