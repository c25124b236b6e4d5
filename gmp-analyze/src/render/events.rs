//! One event in one line: time, thread, P, goroutine, and what happened in words.

use super::shorten::printable;
use crate::analysis::latency::found_name;
use crate::analysis::names;
use crate::machine::Place;
use crate::units::duration;
use gmp_trace::event::{Scope, StealFrom, Waker};
use gmp_trace::id::{GId, MId, ObjectId, PId};
use gmp_trace::tables::{SiteRef, StackRef, Tables, Text};
use gmp_trace::{Body, Event};
use std::fmt::{self, Write};

/// Appends the line, without its end, to `out`.
pub fn line(out: &mut String, event: &Event, tables: &Tables) {
    // Writing to a string cannot fail.
    let _ = write_line(out, event, tables);
}

fn write_line(out: &mut String, event: &Event, tables: &Tables) -> fmt::Result {
    let ns = event.time.0;
    let sign = if ns < 0 { "-" } else { "" };
    let (seconds, rest) = (
        ns.unsigned_abs() / 1_000_000_000,
        ns.unsigned_abs() % 1_000_000_000,
    );
    write!(out, "{sign}{seconds}.{rest:09}")?;
    context(out, 'M', event.m.map(MId::get), 5)?;
    context(out, 'P', event.p.map(|p| p.get().into()), 4)?;
    context(out, 'G', event.g.map(GId::get), 7)?;
    out.push(' ');
    Words { out, tables }.body(&event.body)
}

/// A letter and a number, or a dash, in at least `width` columns.
fn context(out: &mut String, letter: char, number: Option<u64>, width: usize) -> fmt::Result {
    match number {
        Some(number) => write!(out, " {letter}{number:<0$}", width - 1),
        None => write!(out, " {:<width$}", "-"),
    }
}

/// Writes what happened. The names of events are those of [`Body`].
struct Words<'a> {
    out: &'a mut String,
    tables: &'a Tables,
}

impl Words<'_> {
    fn body(&mut self, body: &Body) -> fmt::Result {
        match *body {
            Body::GoCreate {
                child,
                site,
                stack,
                start_stack,
                runnable,
            } => {
                write!(self.out, "GoCreate child=G{child}")?;
                if !runnable {
                    self.out.push_str(" waiting");
                }
                self.place(" start=", site, start_stack.or(stack))
            }
            Body::GoStart { found } => {
                write!(self.out, "GoStart found={:?}", found_name(found))
            }
            Body::GoYield { stack } => self.named("GoYield", None, stack),
            Body::GoPreempted { how, stack } => {
                write!(self.out, "GoPreempted how={how:?}")?;
                self.place(" at=", None, stack)
            }
            Body::GoPreemptRequested {
                victim,
                goroutine,
                why,
            } => {
                write!(self.out, "GoPreemptRequested victim=P{victim} why={why:?}")?;
                self.goroutine(" goroutine=", goroutine)
            }
            Body::GoPark {
                reason,
                object,
                site,
                stack,
            } => {
                self.text("GoPark reason=", reason)?;
                self.object(object)?;
                self.place(" at=", site, stack)
            }
            Body::GoReady {
                goroutine,
                by,
                stack,
            } => {
                write!(self.out, "GoReady goroutine=G{goroutine}")?;
                if let Some(by) = by {
                    write!(self.out, " by={}", waker(by))?;
                }
                self.place(" at=", None, stack)
            }
            Body::GoExit { how } => match how {
                Some(how) => write!(self.out, "GoExit how={how:?}"),
                None => self.word("GoExit"),
            },
            Body::GoLabel { label } => self.text("GoLabel label=", label),
            Body::GoStatus { .. } => self.status(body),
            Body::SyscallEnter { site, stack } => self.named("SyscallEnter", site, stack),
            Body::SyscallExit => self.word("SyscallExit"),
            Body::SyscallExitBlocked => self.word("SyscallExitBlocked"),
            Body::SyscallImplicit { goroutine, on_m } => {
                write!(
                    self.out,
                    "SyscallImplicit goroutine=G{goroutine} on=M{on_m}"
                )
            }
            _ => self.scheduling(body),
        }
    }

    fn scheduling(&mut self, body: &Body) -> fmt::Result {
        match *body {
            Body::ProcStart => self.word("ProcStart"),
            Body::ProcStop => self.word("ProcStop"),
            Body::ProcSteal {
                victim,
                from_m,
                why,
            } => {
                write!(self.out, "ProcSteal victim=P{victim}")?;
                self.thread(" from=", from_m)?;
                match why {
                    Some(why) => write!(self.out, " why={why:?}"),
                    None => Ok(()),
                }
            }
            Body::ProcHandoff { to_m, why } => {
                write!(self.out, "ProcHandoff why={why:?}")?;
                self.thread(" to=", to_m)
            }
            Body::ProcStatus { proc, state, on_m } => {
                write!(self.out, "ProcStatus proc=P{proc} state={state:?}")?;
                self.thread(" on=", on_m)
            }
            Body::ProcsChange { procs, stack } => {
                write!(self.out, "ProcsChange procs={procs}")?;
                self.place(" at=", None, stack)
            }
            Body::RunWithoutP => self.word("RunWithoutP"),
            Body::Steal { victim, n, what } => self.steal(victim, n, what),
            Body::StealFailed { attempts } => write!(self.out, "StealFailed attempts={attempts}"),
            Body::RunqOverflow { n } => write!(self.out, "RunqOverflow n={n}"),
            Body::GlobalBatch { n } => write!(self.out, "GlobalBatch n={n}"),
            Body::MCreate { child } => write!(self.out, "MCreate child=M{child}"),
            Body::MExit => self.word("MExit"),
            Body::MPark => self.word("MPark"),
            Body::MWake { target } => write!(self.out, "MWake target=M{target}"),
            Body::SpinBegin => self.word("SpinBegin"),
            Body::SpinEnd { found } => write!(self.out, "SpinEnd found={found}"),
            Body::MLock => self.word("MLock"),
            Body::MUnlock => self.word("MUnlock"),
            Body::MCpu { cpu } => write!(self.out, "MCpu cpu={}", duration(cpu)),
            Body::SchedSample { took } => write!(self.out, "SchedSample took={}", duration(took)),
            Body::Netpoll { blocking, ready } => {
                write!(self.out, "Netpoll blocking={blocking} ready={ready}")
            }
            Body::TimerFired { late, goroutine } => {
                write!(self.out, "TimerFired late={}", duration(late))?;
                self.goroutine(" goroutine=", goroutine)
            }
            _ => self.others(body),
        }
    }

    fn others(&mut self, body: &Body) -> fmt::Result {
        match *body {
            Body::StopRequested { kind, stack } => {
                self.text("StopRequested kind=", kind)?;
                self.place(" at=", None, stack)
            }
            Body::SafePoint { how } => write!(self.out, "SafePoint how={how:?}"),
            Body::Stopped => self.word("Stopped"),
            Body::Restarted => self.word("Restarted"),
            Body::RangeBegin {
                name,
                scope,
                already_active,
                ..
            } => {
                self.text("RangeBegin name=", name)?;
                self.scope(scope)?;
                self.word(if already_active {
                    " already active"
                } else {
                    ""
                })
            }
            Body::RangeEnd { name, scope, .. } => {
                self.text("RangeEnd name=", name)?;
                self.scope(scope)
            }
            Body::GcBegin { cycle, .. } => write!(self.out, "GcBegin cycle={cycle}"),
            Body::GcActive { cycle } => write!(self.out, "GcActive cycle={cycle}"),
            Body::GcEnd { cycle, .. } => write!(self.out, "GcEnd cycle={cycle}"),
            Body::Metric { name, value } => {
                self.text("Metric name=", name)?;
                write!(self.out, " value={value}")
            }
            Body::TaskBegin {
                task, parent, name, ..
            } => {
                write!(self.out, "TaskBegin task={}", task.0)?;
                if let Some(parent) = parent {
                    write!(self.out, " parent={}", parent.0)?;
                }
                self.text(" name=", name)
            }
            Body::TaskEnd { task, .. } => write!(self.out, "TaskEnd task={}", task.0),
            Body::RegionBegin { name, .. } => self.text("RegionBegin name=", name),
            Body::RegionEnd { name, .. } => self.text("RegionEnd name=", name),
            Body::Log { key, value, .. } => {
                self.text("Log key=", key)?;
                self.text(" value=", value)
            }
            Body::CpuSample { stack } => self.named("CpuSample", None, stack),
            Body::Sync { generation, .. } => write!(self.out, "Sync generation={generation}"),
            Body::Loss { events } => write!(self.out, "Loss events={events}"),
            Body::Unknown { kind, args } => write!(self.out, "Unknown kind={kind} args={args:?}"),
            // A body that is newer than this list still shows all it has.
            _ => write!(self.out, "{body:?}"),
        }
    }

    fn status(&mut self, body: &Body) -> fmt::Result {
        let Body::GoStatus {
            goroutine,
            state,
            on_m,
            reason,
            object,
            site,
            created_at,
            stack,
            ..
        } = *body
        else {
            return Ok(());
        };
        write!(self.out, "GoStatus goroutine=G{goroutine} state={state:?}")?;
        self.thread(" on=", on_m)?;
        if let Some(reason) = reason {
            self.text(" reason=", reason)?;
        }
        self.object(object)?;
        self.place(" at=", site, stack)?;
        self.place(" start=", created_at, None)
    }

    fn steal(&mut self, victim: PId, n: u32, what: StealFrom) -> fmt::Result {
        write!(self.out, "Steal victim=P{victim} n={n} from={what:?}")
    }

    fn word(&mut self, word: &str) -> fmt::Result {
        self.out.push_str(word);
        Ok(())
    }

    fn text(&mut self, name: &str, text: Text) -> fmt::Result {
        write!(self.out, "{name}{:?}", printable(self.tables.text(text)))
    }

    fn named(&mut self, name: &str, site: Option<SiteRef>, stack: Option<StackRef>) -> fmt::Result {
        self.out.push_str(name);
        self.place(" at=", site, stack)
    }

    fn place(&mut self, name: &str, site: Option<SiteRef>, stack: Option<StackRef>) -> fmt::Result {
        let place = Place::of(site, stack);
        let function = names::function(self.tables, place);
        let position = names::position(self.tables, place);
        if function.is_empty() && position.is_empty() {
            return Ok(());
        }
        write!(self.out, "{name}{}", printable(&function))?;
        if !position.is_empty() {
            write!(self.out, "({})", printable(&position))?;
        }
        Ok(())
    }

    fn object(&mut self, object: Option<ObjectId>) -> fmt::Result {
        match object {
            Some(object) => write!(self.out, " object={:#x}", object.0),
            None => Ok(()),
        }
    }

    fn thread(&mut self, name: &str, thread: Option<MId>) -> fmt::Result {
        match thread {
            Some(thread) => write!(self.out, "{name}M{thread}"),
            None => Ok(()),
        }
    }

    fn goroutine(&mut self, name: &str, goroutine: Option<GId>) -> fmt::Result {
        match goroutine {
            Some(goroutine) => write!(self.out, "{name}G{goroutine}"),
            None => Ok(()),
        }
    }

    fn scope(&mut self, scope: Scope) -> fmt::Result {
        match scope {
            Scope::Goroutine(goroutine) => write!(self.out, " of=G{goroutine}"),
            Scope::Proc(proc) => write!(self.out, " of=P{proc}"),
            Scope::Global => Ok(()),
        }
    }
}

fn waker(by: Waker) -> &'static str {
    match by {
        Waker::Goroutine => "goroutine",
        Waker::Netpoll => "netpoller",
        Waker::Timer => "timer",
        Waker::Sysmon => "sysmon",
        Waker::External => "external",
        Waker::Runtime => "runtime",
    }
}
