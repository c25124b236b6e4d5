//! A goroutine in a report: Go's header, where it waits, who made it.

use std::fmt;
use std::panic::Location;

use crate::sched::g::{G, GState};

/// What is printed of one goroutine.
#[derive(Debug)]
pub(crate) struct Entry {
    id: u64,
    /// The wait reason of one that waits, else the state.
    status: &'static str,
    object: u64,
    waits_at: Option<&'static Location<'static>>,
    start: Option<&'static str>,
    created_at: Option<&'static Location<'static>>,
    creator: u64,
}

/// What is to be said of `g`.
///
/// # Safety
/// Nobody changes `g` meanwhile.
pub(crate) unsafe fn entry(g: &G) -> Entry {
    let wait = g.wait.get().filter(|_| g.state() == GState::Waiting as u32);
    Entry {
        id: g.id.get(),
        status: wait.map_or_else(|| GState::name(g.state()), |wait| wait.reason.name()),
        object: wait.map_or(0, |wait| wait.object),
        waits_at: wait.map(|wait| wait.site),
        start: g.routine.get().map(|routine| (routine.name)()),
        created_at: g.created_at.get(),
        creator: g.creator.get(),
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "goroutine {} [{}]:", self.id, self.status)?;
        if let Some(start) = self.start {
            writeln!(f, "{start}(...)")?;
        }
        if let Some(site) = self.waits_at {
            write!(f, "\t{}:{}", site.file(), site.line())?;
            if self.object != 0 {
                write!(f, " waits for {:#x}", self.object)?;
            }
            writeln!(f)?;
        }
        if let Some(site) = self.created_at {
            write!(f, "created by ")?;
            match self.creator {
                0 => write!(f, "the runtime")?,
                creator => write!(f, "goroutine {creator}")?,
            }
            writeln!(f, "\n\t{}:{}", site.file(), site.line())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_go_s() {
        let here = Location::caller();
        let entry = Entry {
            id: 18,
            status: "chan receive",
            object: 0xc000,
            waits_at: Some(here),
            start: Some("program::worker"),
            created_at: Some(here),
            creator: 1,
        };
        let (file, line) = (here.file(), here.line());
        assert_eq!(
            entry.to_string(),
            format!(
                "goroutine 18 [chan receive]:\nprogram::worker(...)\n\t{file}:{line} waits for 0xc000\n\
                 created by goroutine 1\n\t{file}:{line}\n"
            )
        );
    }
}
