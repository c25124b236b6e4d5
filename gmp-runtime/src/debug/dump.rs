//! Every goroutine in Go's form: the header, its frames or what is known instead of them, who made it.
//!
//! First all are looked at, and then, when the world goes on, named and written: names are found in files, which
//! allocates and takes locks. The world is stopped by the caller, if it can be. Looking does not need that: of a
//! goroutine that does not run it reads a few words and the stack, and looks again afterwards: what changed meanwhile is
//! read again. Of one that runs on another thread there are no frames, as in Go.

use std::fmt::{self, Write};
use std::ops::Range;
use std::panic::Location;

use crate::debug::symbols::{Line, Symbols};
use crate::debug::walk::{Address, MOST_FRAMES, Walker};
use crate::fatal;
use crate::sched::Sched;
use crate::sched::g::{G, GState, Wait};
use crate::sched::refs::GRef;
use crate::sys::clock::monotonic_ns;

/// What finds and names frames. It allocates and takes locks.
#[derive(Debug)]
pub(crate) struct Frames {
    walker: Walker,
    symbols: Symbols,
}

impl Frames {
    /// For the modules that are loaded now.
    pub(crate) fn new() -> Frames {
        Frames {
            walker: Walker::new(),
            symbols: Symbols::default(),
        }
    }
}

/// So many frames of a goroutine have room on average.
const ROOM_FOR_FRAMES: usize = 32;

/// Goroutines that are made while a snapshot is being prepared have room, so many at least.
const ROOM_FOR_MORE: usize = 1024;

/// The goroutines of one scheduler, as they were found.
#[derive(Debug)]
pub(crate) struct Snapshot {
    goroutines: Vec<Found>,
    /// Of all of them, one after another.
    addresses: Vec<Address>,
}

/// A goroutine of a [`Snapshot`].
#[derive(Debug)]
struct Found {
    entry: Entry,
    stack: Stack,
    frames: Range<usize>,
}

impl Snapshot {
    /// An empty one with room for the goroutines of `sched`. Memory that is not needed is not touched.
    pub(crate) fn with_room_for(sched: &Sched) -> Snapshot {
        let most = sched.table.len() + ROOM_FOR_MORE;
        let mut addresses = Vec::new();
        // Where there is no memory for them there are no frames.
        let _ = addresses.try_reserve_exact(most * ROOM_FOR_FRAMES);
        Snapshot {
            goroutines: Vec::with_capacity(most),
            addresses,
        }
    }

    /// Looks at every goroutine of `sched`, that of the caller, `me`, first. Allocates nothing and takes no lock: what
    /// finds no room is left out.
    pub(crate) fn take(&mut self, sched: &Sched, me: Option<GRef>, frames: &mut Frames) {
        let now = monotonic_ns();
        if let Some(me) = me {
            let begin = self.addresses.len();
            frames.walker.own_frames(&me, &mut self.addresses);
            self.put(Entry::look(&me, now), Stack::Known, begin);
        }
        for index in 0..sched.table.len() {
            let g = sched.table.get(index);
            let begin = self.addresses.len();
            if me != Some(g)
                && let Some(entry) = look_steadily(&g, now, Some((frames, &mut self.addresses)))
            {
                self.put(entry, entry.stack(), begin);
            }
        }
    }

    fn put(&mut self, entry: Entry, stack: Stack, begin: usize) {
        if self.goroutines.len() < self.goroutines.capacity() {
            let frames = begin..self.addresses.len();
            self.goroutines.push(Found {
                entry,
                stack,
                frames,
            });
        }
    }

    /// Writes it.
    pub(crate) fn write(&self, frames: &mut Frames, out: &mut dyn Write) -> fmt::Result {
        for (index, found) in self.goroutines.iter().enumerate() {
            if index != 0 {
                out.write_str("\n")?;
            }
            let addresses = &self.addresses[found.frames.clone()];
            found
                .entry
                .write(addresses, found.stack, Some(frames), out)?;
        }
        Ok(())
    }
}

/// Prints every goroutine of `sched` to standard error, that of the caller, `me`, first, without frames. Allocates
/// nothing and takes no lock: for signal handlers.
pub(crate) fn print_without_frames(sched: &Sched, me: GRef) {
    fatal::report_by(|out| {
        let now = monotonic_ns();
        Entry::look(&me, now).write(&[], Stack::Known, None, out)?;
        for index in 0..sched.table.len() {
            let g = sched.table.get(index);
            if me != g
                && let Some(entry) = look_steadily(&g, now, None)
            {
                out.write_str("\n")?;
                entry.write(&[], entry.stack(), None, out)?;
            }
        }
        Ok(())
    });
}

/// What is to be said of `g`; `None` if nobody uses it. Its frames are appended to those that are given. Looks until it
/// has not changed meanwhile; one that keeps changing is said to run.
fn look_steadily(
    g: &G,
    now: u64,
    mut frames: Option<(&mut Frames, &mut Vec<Address>)>,
) -> Option<Entry> {
    const TRIES: u32 = 8;
    for _ in 0..TRIES {
        let entry = Entry::look(g, now);
        if !entry.is_alive() {
            return None;
        }
        let begin = frames.as_ref().map_or(0, |(_, addresses)| addresses.len());
        if entry.is_suspended()
            && let Some((frames, addresses)) = &mut frames
        {
            frames.walker.frames_of(g, addresses);
        }
        if Entry::look(g, now) == entry {
            return Some(entry);
        }
        if let Some((_, addresses)) = &mut frames {
            addresses.truncate(begin);
        }
    }
    Some(Entry {
        state: GState::Running as u32,
        wait: None,
        ..Entry::look(g, now)
    })
}

/// What can be said of the frames of a goroutine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stack {
    /// They are those that were found.
    Known,
    /// It runs on another thread.
    Elsewhere,
}

/// What is known of one goroutine besides its frames.
#[derive(Debug, Clone, Copy)]
struct Entry {
    id: u64,
    state: u32,
    /// What it waits for, and for how many nanoseconds so far.
    wait: Option<(Wait, u64)>,
    /// Whether it is locked to its thread.
    is_locked: bool,
    start: Option<fn() -> &'static str>,
    created_at: Option<&'static Location<'static>>,
    creator: u64,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        let wait_of = |entry: &Entry| {
            entry
                .wait
                .map(|(wait, waited)| (wait.reason, wait.object, wait.site, waited))
        };
        (self.id, self.state, self.created_at) == (other.id, other.state, other.created_at)
            && wait_of(self) == wait_of(other)
    }
}

impl Entry {
    /// `now` is the time of the dump.
    fn look(g: &G, now: u64) -> Entry {
        let state = g.state();
        Entry {
            id: g.id.get(),
            state,
            wait: (state == GState::Waiting as u32)
                .then(|| g.wait.look())
                .flatten()
                .map(|(wait, since)| (wait, now.saturating_sub(since))),
            is_locked: g.locked_to().is_some(),
            start: g.routine.get().map(|routine| routine.name),
            created_at: g.created_at.get(),
            creator: g.creator.get(),
        }
    }

    fn is_alive(&self) -> bool {
        self.state != GState::Idle as u32 && self.state != GState::Dead as u32
    }

    fn stack(&self) -> Stack {
        match self.state {
            state if state == GState::Running as u32 => Stack::Elsewhere,
            _ => Stack::Known,
        }
    }

    /// Whether its registers are in memory.
    fn is_suspended(&self) -> bool {
        self.state == GState::Waiting as u32 || self.state == GState::Runnable as u32
    }

    /// Writes header, frames and origin.
    fn write(
        &self,
        addresses: &[Address],
        stack: Stack,
        frames: Option<&mut Frames>,
        out: &mut dyn Write,
    ) -> fmt::Result {
        self.write_header(out)?;
        let has_frames = match frames {
            Some(frames) => self.write_frames(addresses, &mut frames.symbols, out)?,
            None => false,
        };
        if stack == Stack::Elsewhere {
            writeln!(
                out,
                "\tgoroutine running on other thread; stack unavailable"
            )?;
        } else if !has_frames && let Some(start) = self.start {
            writeln!(out, "{}(...)", start())?;
            if let Some((wait, _)) = self.wait {
                write!(out, "\t{}:{}", wait.site.file(), wait.site.line())?;
                self.write_wait(out)?;
                writeln!(out)?;
            }
        }
        self.write_origin(out)
    }

    /// `goroutine 18 [chan receive, 5 minutes]:`
    fn write_header(&self, out: &mut dyn Write) -> fmt::Result {
        let status = match self.wait {
            Some((wait, _)) => wait.reason.name(),
            None => GState::name(self.state),
        };
        write!(out, "goroutine {} [{status}", self.id)?;
        let minutes = self.wait.map_or(0, |(_, waited)| waited / 60_000_000_000);
        if minutes >= 1 {
            write!(out, ", {minutes} minutes")?;
        }
        if self.is_locked {
            out.write_str(", locked to thread")?;
        }
        writeln!(out, "]:")
    }

    /// Writes the frames that are the program's; whether there are any.
    fn write_frames(
        &self,
        addresses: &[Address],
        symbols: &mut Symbols,
        out: &mut dyn Write,
    ) -> Result<bool, fmt::Error> {
        let lines: Vec<_> = addresses
            .iter()
            .take(MOST_FRAMES)
            .map(|&address| symbols.lines(address))
            .collect();
        let lines: Vec<&Line> = lines.iter().flat_map(|lines| lines.iter()).collect();
        // Without names there is no telling the runtime's own frames from the program's.
        let is_program = |line: &&Line| !line.is_machinery();
        let Some(first) = lines.iter().position(is_program) else {
            return Ok(false);
        };
        let is_whole = addresses.len() <= MOST_FRAMES;
        let end = match lines.iter().rposition(is_program) {
            Some(last) if is_whole => last + 1,
            _ => lines.len(),
        };
        for (index, line) in lines[first..end].iter().enumerate() {
            write!(out, "{line}")?;
            if index == 0 {
                self.write_wait(out)?;
            }
            writeln!(out)?;
        }
        if !is_whole {
            writeln!(out, "...additional frames elided...")?;
        }
        Ok(true)
    }

    /// ` waits 12.3s for 0xc000`
    fn write_wait(&self, out: &mut dyn Write) -> fmt::Result {
        let Some((wait, waited)) = self.wait else {
            return Ok(());
        };
        let tenths = waited / 100_000_000;
        write!(out, " waits {}.{}s", tenths / 10, tenths % 10)?;
        if wait.object != 0 {
            write!(out, " for {:#x}", wait.object)?;
        }
        Ok(())
    }

    /// Who made it, and where. The creator's function is known when it wrote the closure that runs.
    fn write_origin(&self, out: &mut dyn Write) -> fmt::Result {
        let Some(site) = self.created_at else {
            return Ok(());
        };
        out.write_str("created by ")?;
        match self.creator {
            0 => out.write_str("gmp_runtime::Runtime::run")?,
            creator => {
                let start = self.start.map_or("", |start| start());
                let function = start
                    .strip_suffix("::{{closure}}")
                    .unwrap_or("(unknown function)");
                write!(out, "{function} in goroutine {creator}")?;
            }
        }
        writeln!(out, "\n\t{}:{}", site.file(), site.line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::g::WaitReason;

    fn entry(waited_ns: u64) -> Entry {
        let here = Location::caller();
        let wait = Wait {
            reason: WaitReason::ChanReceive,
            object: 0xc000,
            site: here,
        };
        Entry {
            id: 18,
            state: GState::Waiting as u32,
            wait: Some((wait, waited_ns)),
            is_locked: false,
            start: Some(|| "program::serve::{{closure}}"),
            created_at: Some(here),
            creator: 1,
        }
    }

    fn text(entry: &Entry, stack: Stack) -> String {
        let mut text = String::new();
        entry.write(&[], stack, None, &mut text).unwrap();
        text
    }

    #[test]
    fn the_header_is_gos() {
        const MINUTE: u64 = 60_000_000_000;
        let header = |waited_ns| {
            let text = text(&entry(waited_ns), Stack::Known);
            text.lines().next().unwrap().to_owned()
        };
        assert_eq!(
            header(MINUTE - 5_000_000_000),
            "goroutine 18 [chan receive]:"
        );
        assert_eq!(
            header(5 * MINUTE + 1),
            "goroutine 18 [chan receive, 5 minutes]:"
        );
        let locked = Entry {
            is_locked: true,
            ..entry(2 * MINUTE)
        };
        assert!(
            text(&locked, Stack::Known)
                .starts_with("goroutine 18 [chan receive, 2 minutes, locked to thread]:\n")
        );
    }

    #[test]
    fn without_frames_the_start_the_site_and_the_origin_are_told() {
        let entry = entry(12_345_000_000);
        let site = entry.created_at.unwrap();
        let (file, line) = (site.file(), site.line());
        assert_eq!(
            text(&entry, Stack::Known),
            format!(
                "goroutine 18 [chan receive]:\nprogram::serve::{{{{closure}}}}(...)\n\
                 \t{file}:{line} waits 12.3s for 0xc000\n\
                 created by program::serve in goroutine 1\n\t{file}:{line}\n"
            )
        );
        let running = Entry {
            state: GState::Running as u32,
            wait: None,
            start: Some(|| "program::work"),
            ..entry
        };
        assert_eq!(
            text(&running, Stack::Elsewhere),
            format!(
                "goroutine 18 [running]:\n\
                 \tgoroutine running on other thread; stack unavailable\n\
                 created by (unknown function) in goroutine 1\n\t{file}:{line}\n"
            )
        );
    }
}
