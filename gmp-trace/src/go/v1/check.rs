//! What Go demands of the ordered events of a trace up to Go 1.21.

use std::collections::HashMap;

use super::kinds;
use super::parse::Raw;
use crate::anomaly::Anomalies;
use crate::error::Error;
use crate::go::fault::Fault;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Status {
    #[default]
    Dead,
    Runnable,
    Running,
    Waiting,
}

#[derive(Debug, Default)]
struct Goroutine {
    status: Status,
    mark_assist: bool,
    regions: Vec<(u64, u64)>,
}

#[derive(Debug, Default)]
struct Proc {
    running: bool,
    g: u64,
    sweeping: bool,
}

#[derive(Debug, Default)]
struct Checker {
    goroutines: HashMap<u64, Goroutine>,
    procs: HashMap<i32, Proc>,
    tasks: std::collections::HashSet<u64>,
    collecting: bool,
    stopped: bool,
}

/// Checks `events`, which are in order.
///
/// # Errors
///
/// What a strict reader finds wrong first; another one counts it all.
pub(super) fn check(events: &[Raw], strict: bool, anomalies: &mut Anomalies) -> Result<(), Error> {
    let mut checker = Checker::default();
    checker.goroutine(0).status = Status::Running;
    for event in events {
        if let Err(fault) = checker.event(event) {
            if strict {
                return Err(fault.into_error(event.offset));
            }
            anomalies.add(fault.kind(), event.offset, 0);
        }
    }
    Ok(())
}

impl Checker {
    fn goroutine(&mut self, id: u64) -> &mut Goroutine {
        self.goroutines.entry(id).or_default()
    }

    fn proc(&mut self, p: i32) -> &mut Proc {
        self.procs.entry(p).or_default()
    }

    /// The event's goroutine runs on its P.
    fn running(&mut self, event: &Raw, also_none: bool) -> Result<(), Fault> {
        let runs = self.goroutine(event.g).status == Status::Running;
        if !runs || self.proc(event.p).g != event.g || (!also_none && event.g == 0) {
            return Err(Fault::GoroutineNotRunning(event.g));
        }
        Ok(())
    }

    /// The event's goroutine leaves its P.
    fn leaves(&mut self, event: &Raw, to: Status) -> Result<(), Fault> {
        let legal = self.running(event, false);
        self.goroutine(event.g).status = to;
        self.proc(event.p).g = 0;
        legal
    }

    /// Goroutine `id` turns from one status to another.
    fn turn(
        &mut self,
        id: u64,
        from: Status,
        to: Status,
        wrong: &'static str,
    ) -> Result<(), Fault> {
        let goroutine = self.goroutine(id);
        let legal = goroutine.status == from;
        goroutine.status = to;
        if legal {
            Ok(())
        } else {
            Err(Fault::Legacy(wrong))
        }
    }

    fn event(&mut self, event: &Raw) -> Result<(), Fault> {
        let first = event.args[0];
        match event.kind {
            kinds::PROC_START => {
                let before = std::mem::replace(&mut self.proc(event.p).running, true);
                must(!before, "the start of a P that runs")
            }
            kinds::PROC_STOP => {
                let proc = self.proc(event.p);
                let legal = proc.running && proc.g == 0;
                proc.running = false;
                must(
                    legal,
                    "the stop of a P that does not run, or runs a goroutine",
                )
            }
            kinds::GO_WAITING | kinds::GO_IN_SYSCALL => {
                let wrong = "a goroutine that is not runnable and said to wait";
                self.turn(event.g, Status::Runnable, Status::Waiting, wrong)
            }
            kinds::GO_CREATE => {
                let legal = self.running(event, true);
                let new = !self.goroutines.contains_key(&first);
                self.goroutine(first).status = Status::Runnable;
                legal?;
                if new {
                    Ok(())
                } else {
                    Err(Fault::GoroutineExists(first))
                }
            }
            kinds::GO_START | kinds::GO_START_LOCAL | kinds::GO_START_LABEL => {
                let free = std::mem::replace(&mut self.proc(event.p).g, event.g) == 0;
                let wrong = "the start of a goroutine that is not runnable";
                self.turn(event.g, Status::Runnable, Status::Running, wrong)?;
                must(free, "the start of a goroutine on a P that runs another")
            }
            kinds::GO_END | kinds::GO_STOP => {
                let legal = self.leaves(event, Status::Dead);
                self.goroutine(event.g).regions.clear();
                legal
            }
            kinds::GO_SCHED | kinds::GO_PREEMPT => self.leaves(event, Status::Runnable),
            kinds::GO_UNBLOCK | kinds::GO_UNBLOCK_LOCAL => {
                let legal = self.goroutine(event.g).status == Status::Running;
                let wrong = "the waking of a goroutine that does not wait";
                self.turn(first, Status::Waiting, Status::Runnable, wrong)?;
                if legal {
                    Ok(())
                } else {
                    Err(Fault::GoroutineNotRunning(event.g))
                }
            }
            kinds::GO_SYS_CALL => self.running(event, false),
            kinds::GO_SYS_EXIT | kinds::GO_SYS_EXIT_LOCAL => {
                let wrong = "the end of a system call of a goroutine that is in none";
                self.turn(event.g, Status::Waiting, Status::Runnable, wrong)
            }
            kind if kinds::blocks(kind) => self.leaves(event, Status::Waiting),
            _ => self.span(event),
        }
    }

    fn span(&mut self, event: &Raw) -> Result<(), Fault> {
        let [first, second, third, _] = event.args;
        match event.kind {
            kinds::GC_START => {
                let before = std::mem::replace(&mut self.collecting, true);
                if before {
                    Err(Fault::GcRunning)
                } else {
                    Ok(())
                }
            }
            kinds::GC_DONE => {
                let before = std::mem::replace(&mut self.collecting, false);
                if before {
                    Ok(())
                } else {
                    Err(Fault::GcNotRunning)
                }
            }
            kinds::STW_START => {
                let before = std::mem::replace(&mut self.stopped, true);
                if before {
                    Err(Fault::RangeBegunTwice("a stop of the world"))
                } else {
                    Ok(())
                }
            }
            kinds::STW_DONE => {
                let before = std::mem::replace(&mut self.stopped, false);
                if before {
                    Ok(())
                } else {
                    Err(Fault::RangeNotBegun("a stop of the world"))
                }
            }
            kinds::GC_SWEEP_START => {
                let before = std::mem::replace(&mut self.proc(event.p).sweeping, true);
                if before {
                    Err(Fault::RangeBegunTwice("a sweep"))
                } else {
                    Ok(())
                }
            }
            kinds::GC_SWEEP_DONE => {
                let before = std::mem::replace(&mut self.proc(event.p).sweeping, false);
                if before {
                    Ok(())
                } else {
                    Err(Fault::RangeNotBegun("a sweep"))
                }
            }
            kinds::GC_MARK_ASSIST_START => {
                let before = std::mem::replace(&mut self.goroutine(event.g).mark_assist, true);
                if before {
                    Err(Fault::RangeBegunTwice("a mark assist"))
                } else {
                    Ok(())
                }
            }
            kinds::GC_MARK_ASSIST_DONE => {
                // One may have begun before the trace.
                self.goroutine(event.g).mark_assist = false;
                Ok(())
            }
            kinds::USER_TASK_CREATE if !self.tasks.insert(first) => {
                Err(Fault::TaskBegunTwice(first))
            }
            kinds::USER_TASK_END => {
                self.tasks.remove(&first);
                Ok(())
            }
            kinds::USER_REGION => self.region(event.g, second, (first, third)),
            _ => Ok(()),
        }
    }

    fn region(&mut self, g: u64, mode: u64, region: (u64, u64)) -> Result<(), Fault> {
        let regions = &mut self.goroutine(g).regions;
        match (mode, regions.last()) {
            (0, _) => regions.push(region),
            (1, None) => {}
            (1, Some(innermost)) if *innermost == region => {
                regions.pop();
            }
            (1, Some(_)) => return Err(Fault::RegionMisuse(g)),
            _ => return Err(Fault::Legacy("a region that neither begins nor ends")),
        }
        Ok(())
    }
}

fn must(legal: bool, wrong: &'static str) -> Result<(), Fault> {
    if legal {
        Ok(())
    } else {
        Err(Fault::Legacy(wrong))
    }
}
