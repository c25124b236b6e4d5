//! Flame graphs: stacks with names, as folded text and as pictures.
//!
//! Frames go from the root to the leaf:
//!
//! | kind | frames |
//! |---|---|
//! | wall | group, state, reason and place |
//! | cpu | group, what ended the run and where; with samples group, frames |
//! | block | reason, group, place |
//! | sched | group, what made it runnable, how it was found |
//! | syscall | group, place, and whether the P was taken away |
//! | create | the chain of creators' groups |
//!
//! A place is one frame where the trace has a site, and all frames of the stack where it has one.

mod captions;
mod folded;
mod names;
mod picture;
mod tree;

pub use captions::{Captions, Part, Weighed, weighed};
pub use folded::{folded, folded_difference};
pub use names::Namer;
pub use picture::picture;
pub use tree::{By, Tree};
