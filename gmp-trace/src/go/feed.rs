//! Decoding ahead of the ordering: on the thread that orders, or for a large generation on a thread
//! of its own.
//!
//! The helper thread fills chunks that were asked for, two for each thread of the trace, and the
//! ordering gives each back when it is used up. So memory is bounded by the number of chunks, and
//! neither side waits while the other keeps up.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::chunk::{Chunk, Then};
use super::clock::Clock;
use super::cursor::{Cursor, Window};
use crate::error::Error;
use crate::input::ReadAt;

/// Events of a chunk where the ordering decodes itself, at most: with the events that are made of
/// them they stay in the first-level cache.
const HERE: usize = 256;

/// Events of all such chunks together, more or less.
const ALL_HERE: usize = 1 << 17;

/// Events of a chunk of the helper, at most: some hundred microseconds of ordering, long against
/// waking a thread, and few enough that all chunks of a thread stay in a second-level cache.
const AHEAD: usize = 16384;

/// Events of all chunks of the helper together, more or less (4.7 MB).
const ALL_AHEAD: usize = 1 << 18;

/// Chunks that are asked for in advance for each thread of the trace.
const DEPTH: usize = 2;

/// Events of a chunk, at least, of a thread that has as many.
const FEWEST: usize = 16;

/// Bytes of the shortest event: its kind and its time.
const MIN_EVENT_BYTES: usize = 2;

/// Bytes of events from which on a helper is worth its thread.
const WORTH_A_THREAD: usize = 2 << 20;

/// The cursors of a generation, and who steps them.
pub(crate) enum Feed {
    /// The thread that orders.
    Here(Decoder),
    /// The helper.
    Ahead(Helper),
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Feed::Here(_) => "Here",
            Feed::Ahead(_) => "Ahead",
        })
    }
}

/// Fills chunks from cursors.
pub(crate) struct Decoder {
    cursors: Vec<Cursor>,
    clock: Clock,
    window: Window,
}

impl Decoder {
    fn fill(&mut self, lane: u32, chunk: &mut Chunk) {
        match self.cursors.get_mut(lane as usize) {
            Some(cursor) => cursor.fill(chunk, self.clock, &mut self.window),
            None => chunk.then = Then::End,
        }
    }
}

/// A thread that decodes ahead.
pub(crate) struct Helper {
    /// Chunks to be filled, with their lanes; the thread ends when nobody can ask any more.
    wanted: Option<Sender<(u32, Chunk)>>,
    filled: Receiver<(u32, Chunk)>,
    /// By lane, the filled chunks that were not used yet.
    ahead: Vec<VecDeque<Chunk>>,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    /// A feed from `cursors`, of which some events are in `file`; with a helper where `threads` allows
    /// one and it is worth it. Returns the empty chunk that each lane begins with, too.
    pub(crate) fn new(
        cursors: Vec<Cursor>,
        clock: Clock,
        file: Option<Arc<dyn ReadAt>>,
        threads: bool,
    ) -> (Feed, Vec<Chunk>) {
        let lanes = cursors.len();
        let bytes: Vec<usize> = cursors.iter().map(Cursor::bytes).collect();
        let window = Window::new(file);
        let decoder = Decoder {
            cursors,
            clock,
            window,
        };
        let room = |all: usize, most: usize| (all / lanes.max(1)).clamp(FEWEST, most);
        // No chunk is larger than what its thread can fill.
        let chunks = |room: usize| {
            bytes
                .iter()
                .map(move |n| Chunk::new(room.min(n / MIN_EVENT_BYTES)))
        };
        if threads && bytes.iter().sum::<usize>() >= WORTH_A_THREAD {
            let room = room(ALL_AHEAD / (DEPTH + 1), AHEAD);
            let asked_for = (0..DEPTH).flat_map(|_| (0..).zip(chunks(room)));
            match Helper::start(decoder, asked_for) {
                Ok(helper) => return (Feed::Ahead(helper), chunks(room).collect()),
                Err(decoder) => return (Feed::Here(decoder), chunks(HERE.min(room)).collect()),
            }
        }
        (Feed::Here(decoder), chunks(room(ALL_HERE, HERE)).collect())
    }

    /// Puts the next events of `lane` into `chunk`, of which everything was used.
    pub(crate) fn next(&mut self, lane: u32, chunk: &mut Chunk) {
        match self {
            Feed::Here(decoder) => decoder.fill(lane, chunk),
            Feed::Ahead(helper) => helper.next(lane, chunk),
        }
    }
}

impl Helper {
    /// Starts a thread with `decoder`, which is given back where there can be none, and asks for chunks
    /// of lanes.
    fn start(
        decoder: Decoder,
        asked_for: impl Iterator<Item = (u32, Chunk)>,
    ) -> Result<Helper, Decoder> {
        let lanes = decoder.cursors.len();
        let (wanted, to_fill) = channel::<(u32, Chunk)>();
        let (give, filled) = channel();
        let (hand_over, taken) = channel::<Decoder>();
        let thread = std::thread::Builder::new()
            .name("gmp-decode".to_owned())
            .spawn(move || {
                let Ok(mut decoder) = taken.recv() else {
                    return;
                };
                while let Ok((lane, mut chunk)) = to_fill.recv() {
                    decoder.fill(lane, &mut chunk);
                    if give.send((lane, chunk)).is_err() {
                        return;
                    }
                }
            });
        let Ok(thread) = thread else {
            return Err(decoder);
        };
        if let Err(back) = hand_over.send(decoder) {
            return Err(back.0);
        }
        for chunk in asked_for {
            // Where the thread is gone, waiting for the chunk tells.
            let _ = wanted.send(chunk);
        }
        Ok(Helper {
            wanted: Some(wanted),
            filled,
            ahead: (0..lanes).map(|_| VecDeque::with_capacity(DEPTH)).collect(),
            thread: Some(thread),
        })
    }

    fn next(&mut self, lane: u32, chunk: &mut Chunk) {
        let next = loop {
            let ready = self.ahead.get_mut(lane as usize);
            if let Some(next) = ready.and_then(VecDeque::pop_front) {
                break next;
            }
            let Ok((of, next)) = self.filled.recv() else {
                let gone = io::Error::other("the thread that decodes has ended");
                chunk.then = Then::Failed(Error::io(0, gone));
                return;
            };
            if let Some(ready) = self.ahead.get_mut(of as usize) {
                ready.push_back(next);
            }
        };
        let used = std::mem::replace(chunk, next);
        if let Some(wanted) = &self.wanted {
            // As above.
            let _ = wanted.send((lane, used));
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            // A panic of its own was told as a failure.
            let _ = thread.join();
        }
    }
}
