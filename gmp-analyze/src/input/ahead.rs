//! Reading on a thread of its own, ahead of the analysis.

use gmp_trace::{Error, Event, Reader};
use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::thread;

/// Events that change threads together: some ten microseconds of analysis, long against waking a
/// thread.
const BATCH: usize = 2048;

/// Batches that may wait for the analysis.
const AHEAD: usize = 4;

/// Calls `each` for every event that is left of `reader`, which another thread reads where there can
/// be one and a processor for it.
pub(super) fn for_each_event(
    reader: &mut Reader,
    mut each: impl FnMut(&Event),
) -> Result<(), Error> {
    if thread::available_parallelism().is_ok_and(|processors| processors.get() < 2) {
        return reader.for_each_event(|event, _| each(event));
    }
    let (full, batches) = sync_channel::<Vec<Event>>(AHEAD);
    let (give_back, used) = channel::<Vec<Event>>();
    let ahead = &mut *reader;
    let read = thread::scope(|scope| {
        let reading = thread::Builder::new().name("gmp-read".to_owned());
        let reading = reading.spawn_scoped(scope, move || {
            let mut batch = Vec::with_capacity(BATCH);
            let result = ahead.for_each_event(|event, _| {
                if batch.len() == BATCH {
                    let mut next = used
                        .try_recv()
                        .unwrap_or_else(|_| Vec::with_capacity(BATCH));
                    next.clear();
                    give(&full, std::mem::replace(&mut batch, next));
                }
                batch.push(*event);
            });
            give(&full, batch);
            result
        });
        let reading = reading.ok()?;
        for batch in batches {
            batch.iter().for_each(&mut each);
            // Nobody wants it back once everything was read.
            let _ = give_back.send(batch);
        }
        match reading.join() {
            Ok(result) => Some(result),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    read.unwrap_or_else(|| reader.for_each_event(|event, _| each(event)))
}

fn give(full: &SyncSender<Vec<Event>>, batch: Vec<Event>) {
    // Where the analysis has panicked nobody wants it.
    let _ = full.send(batch);
}
