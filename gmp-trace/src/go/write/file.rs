//! The bytes of a trace: batches that are being filled, written when they are full.

use std::io::{self, Write};

use crate::go::header::{HEADER_BYTES, Version};
use crate::go::spec;
use crate::varint;

/// The id that stands for no thread.
pub(super) const NO_THREAD: u64 = u64::MAX;

/// Records of one thread, or of one table, that were not written yet.
#[derive(Debug)]
pub(super) struct Batch {
    m: u64,
    /// What the data of every batch begins with, if anything.
    first: Option<u8>,
    data: Vec<u8>,
    base: u64,
    last: u64,
}

impl Batch {
    /// Events of thread `m`.
    pub(super) fn of_thread(m: u64) -> Batch {
        Batch {
            m,
            first: None,
            data: Vec::new(),
            base: 0,
            last: 0,
        }
    }

    /// A table, whose batches begin with `first`.
    pub(super) fn of_table(first: u8) -> Batch {
        Batch {
            first: Some(first),
            ..Batch::of_thread(NO_THREAD)
        }
    }

    /// Adds an event. One that is earlier than the one before begins another batch, because the time
    /// between two events of a batch is not negative.
    pub(super) fn event<W: Write>(
        &mut self,
        file: &mut File<W>,
        time: u64,
        kind: u8,
        args: &[u64],
    ) {
        if time < self.last {
            file.batch(self);
        }
        self.make_room(file, time, spec::MAX_EVENT_BYTES);
        self.data.push(kind);
        varint::push(&mut self.data, time - self.last);
        for &arg in args {
            varint::push(&mut self.data, arg);
        }
        self.last = time;
    }

    /// Adds a record of a table; `time` is that of the table.
    pub(super) fn record<W: Write>(&mut self, file: &mut File<W>, time: u64, record: &[u8]) {
        self.make_room(file, time, record.len());
        self.data.extend_from_slice(record);
    }

    fn make_room<W: Write>(&mut self, file: &mut File<W>, time: u64, bytes: usize) {
        if self.data.len() + bytes > spec::MAX_BATCH_BYTES as usize {
            file.batch(self);
        }
        if self.data.is_empty() {
            (self.base, self.last) = (time, time);
            self.data.extend(self.first);
        }
    }
}

/// Where the bytes go. The first error is kept, and nothing is written after it.
#[derive(Debug)]
pub(super) struct File<W> {
    out: W,
    /// The generation that is being written.
    pub(super) generation: u64,
    /// Bytes so far.
    pub(super) bytes: u64,
    error: Option<io::Error>,
}

impl<W: Write> File<W> {
    pub(super) fn new(out: W) -> File<W> {
        File {
            out,
            generation: 0,
            bytes: 0,
            error: None,
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            self.error = self.out.write_all(bytes).err();
            self.bytes += bytes.len() as u64;
        }
    }

    pub(super) fn header(&mut self, version: Version) {
        let mut header = format!("{version} trace").into_bytes();
        header.resize(HEADER_BYTES, 0);
        self.write(&header);
    }

    /// Writes `batch`, which is empty then.
    pub(super) fn batch(&mut self, batch: &mut Batch) {
        if batch.data.is_empty() {
            return;
        }
        let mut head = vec![spec::EVENT_BATCH];
        self.head(&mut head, batch.m, batch.base, batch.data.len());
        self.write(&head);
        self.write(&batch.data);
        batch.data.clear();
        batch.last = 0;
    }

    /// Writes `data` of `experiment`.
    pub(super) fn experiment(&mut self, experiment: u8, time: u64, data: &[u8]) {
        let mut head = vec![spec::EXPERIMENTAL_BATCH, experiment];
        self.head(&mut head, NO_THREAD, time, data.len());
        self.write(&head);
        self.write(data);
    }

    fn head(&self, head: &mut Vec<u8>, m: u64, time: u64, size: usize) {
        for number in [self.generation, m, time, size as u64] {
            varint::push(head, number);
        }
    }

    /// Writes the end of the generation.
    pub(super) fn end_of_generation(&mut self) {
        self.write(&[spec::END_OF_GENERATION]);
    }

    /// The first error; from then on another one of its kind, since what follows a gap is no trace.
    pub(super) fn result(&mut self) -> io::Result<()> {
        let Some(error) = self.error.take() else {
            return Ok(());
        };
        let again = "the trace could not be written any further";
        self.error = Some(io::Error::new(error.kind(), again));
        Err(error)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.result()?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_goes_back_begins_another_batch() {
        let mut bytes = Vec::new();
        let mut file = File::new(&mut bytes);
        file.generation = 3;
        let mut batch = Batch::of_thread(7);
        batch.event(&mut file, 100, spec::PROC_STOP, &[]);
        batch.event(&mut file, 105, spec::PROC_STOP, &[]);
        batch.event(&mut file, 104, spec::PROC_STOP, &[]);
        file.batch(&mut batch);
        file.end_of_generation();
        file.flush().expect("a vector");
        assert_eq!(file.bytes, 17);
        let expected = [1, 3, 7, 100, 4, 11, 0, 11, 5, 1, 3, 7, 104, 2, 11, 0, 52];
        assert_eq!(bytes, expected);
    }

    /// Has room for some bytes at a time, until it is told to give way.
    struct Full {
        room: usize,
        taken: usize,
    }

    impl Write for &mut Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if bytes.len() > self.room {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.taken += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nothing_is_written_after_an_error() {
        let mut full = Full { room: 50, taken: 0 };
        let mut file = File::new(&mut full);
        file.header(Version(26));
        file.experiment(1, 1, &[0; 100]);
        let error = file.result().expect_err("no room");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        // Now there would be room for what comes.
        file.end_of_generation();
        for _ in 0..2 {
            let error = file.flush().expect_err("not the whole trace");
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
        let head_of_experiment = 1 + 1 + 1 + 10 + 1 + 1;
        assert_eq!(full.taken, HEADER_BYTES + head_of_experiment);
    }

    #[test]
    fn batches_are_as_long_as_they_may_be() {
        let mut bytes = Vec::new();
        let mut file = File::new(&mut bytes);
        let mut batch = Batch::of_table(spec::STRINGS);
        for _ in 0..100 {
            batch.record(&mut file, 1, &[0; 1000]);
            assert!(batch.data.len() as u64 <= spec::MAX_BATCH_BYTES);
        }
        file.batch(&mut batch);
        assert!(bytes.len() > 100_000 && bytes.len() < 100_050);
    }
}
