//! Whether to spin before waiting, and how long.

use crate::prim::hint;
use crate::prim::process_wide::{AtomicU8, Ordering};
use crate::sched::park;
use crate::sched::refs::GRef;

/// How often a waiter spins before it queues, as in Go.
const ROUNDS: u32 = 4;

/// How many pauses of the processor a round is, as in Go.
const PAUSES: u32 = 30;

/// Whether spinning once more, after `rounds` rounds, may help `me` (a plain thread if `None`): only where
/// the owner can run meanwhile, and nobody else waits for this processor.
pub(super) fn may_help(me: Option<GRef>, rounds: u32) -> bool {
    // A model gains nothing from it.
    if cfg!(loom) || rounds >= ROUNDS || !several_processors() {
        return false;
    }
    me.is_none_or(park::can_spin)
}

/// Spins.
pub(super) fn once() {
    for _ in 0..PAUSES {
        hint::spin_loop();
    }
}

/// Whether the process may use more than one processor, as first asked.
fn several_processors() -> bool {
    /// 0: not asked yet; 1: no; 2: yes.
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    // ordering: Relaxed: the answer is the whole message.
    match ANSWER.load(Ordering::Relaxed) {
        0 => {
            let several = crate::procs::available() > 1;
            // ordering: Relaxed, as above.
            ANSWER.store(1 + u8::from(several), Ordering::Relaxed);
            several
        }
        answer => answer == 2,
    }
}
