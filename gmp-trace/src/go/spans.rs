//! The rules of the ordering that are about ranges, regions, tasks and what happens at one instant.

use super::chunk::RawEvent;
use super::fault::Fault;
use super::order::{Order, Out, Step, Verdict};
use super::spec;
use super::states::{NOBODY, Spans, Thread};
use crate::event::{Body, Scope};
use crate::id::{GId, TaskId};
use crate::tables::Text;

const SWEEP: &str = "an incremental sweep";
const ASSIST: &str = "a mark assist";
const STOP: &str = "a stop of the world";

/// How many open spans of one goroutine are looked through for one that ends out of turn.
const LOOK_AT_MOST: usize = 64;

/// A range that begins or is said to be active.
struct Range {
    name: Text,
    scope: Scope,
    /// What faults call it.
    in_faults: &'static str,
    /// Whether it was known before.
    was: bool,
    active: bool,
}

impl Order {
    /// Events that change no state of a goroutine, P or thread.
    pub(super) fn annotation(
        &mut self,
        event: &RawEvent,
        thread: u32,
        out: &mut Out<'_>,
    ) -> Verdict {
        let context = self.threads[thread as usize];
        let body = match event.kind {
            spec::STW_BEGIN | spec::STW_END => self.stop_the_world(event, &context, out)?,
            spec::GC_SWEEP_BEGIN | spec::GC_SWEEP_END | spec::GC_SWEEP_ACTIVE => {
                self.sweep(event, &context, out)?
            }
            spec::GC_MARK_ASSIST_BEGIN | spec::GC_MARK_ASSIST_END | spec::GC_MARK_ASSIST_ACTIVE => {
                self.mark_assist(event, &context, out)?
            }
            spec::HEAP_ALLOC | spec::HEAP_GOAL => {
                self.on_a_proc(&context, out)?;
                let name = match event.kind {
                    spec::HEAP_ALLOC => out.words.heap_objects,
                    _ => out.words.heap_goal,
                };
                Body::Metric {
                    name,
                    value: event.args[0],
                }
            }
            spec::PROCS_CHANGE => {
                self.in_user_code(&context, out)?;
                let procs = u32::try_from(event.args[0]).unwrap_or(u32::MAX);
                Body::ProcsChange {
                    procs,
                    stack: self.stack(event.args[1], out)?,
                }
            }
            spec::GO_LABEL => {
                self.in_user_code(&context, out)?;
                Body::GoLabel {
                    label: self.text(event.args[0], out)?,
                }
            }
            spec::USER_TASK_BEGIN | spec::USER_TASK_END => self.task(event, &context, out)?,
            spec::USER_REGION_BEGIN | spec::USER_REGION_END => self.region(event, &context, out)?,
            spec::USER_LOG => {
                self.in_user_code(&context, out)?;
                let [task, key, value, stack] = event.args;
                Body::Log {
                    task: task_id(task),
                    key: self.text(key, out)?,
                    value: self.text(value, out)?,
                    stack: self.stack(stack, out)?,
                }
            }
            kind => {
                if context.m.is_none() {
                    return Err(Fault::NeedsThread);
                }
                let mut args = event.args;
                let count = spec::TIMED_ARGS[kind as usize] as usize;
                args.iter_mut().skip(count).for_each(|arg| *arg = 0);
                Body::Unknown {
                    kind: u16::from(kind),
                    args,
                }
            }
        };
        out.give(event.time, &context, body);
        Ok(Step::Done)
    }

    /// The string with `id`.
    #[inline(always)]
    pub(super) fn text(&mut self, id: u64, out: &mut Out<'_>) -> Result<Text, Fault> {
        match out.names.text(id) {
            Some(text) => Ok(text),
            None => {
                self.tolerate(Fault::NoSuchString(id), out)?;
                Ok(Text::EMPTY)
            }
        }
    }

    fn on_a_proc(&mut self, context: &Thread, out: &mut Out<'_>) -> Result<(), Fault> {
        if context.m.is_none() {
            return Err(Fault::NeedsThread);
        }
        if context.p_slot == NOBODY {
            self.tolerate(Fault::NeedsProc, out)?;
        }
        Ok(())
    }

    fn spans(&mut self, slot: u32) -> &mut Spans {
        self.goroutines[slot as usize].spans.get_or_insert_default()
    }

    fn stop_the_world(
        &mut self,
        event: &RawEvent,
        context: &Thread,
        out: &mut Out<'_>,
    ) -> Result<Body, Fault> {
        self.in_user_code(context, out)?;
        if event.kind == spec::STW_END {
            if self.spans(context.g_slot).stops.pop().is_none() {
                self.tolerate(Fault::RangeNotBegun(STOP), out)?;
            }
            return Ok(Body::Restarted);
        }
        let kind = self.text(event.args[0], out)?;
        let stack = self.stack(event.args[1], out)?;
        let stops = &mut self.spans(context.g_slot).stops;
        if stops.contains(&kind) || stops.len() >= LOOK_AT_MOST {
            self.tolerate(Fault::RangeBegunTwice(STOP), out)?;
        } else {
            stops.push(kind);
        }
        Ok(Body::StopRequested { kind, stack })
    }

    fn sweep(
        &mut self,
        event: &RawEvent,
        context: &Thread,
        out: &mut Out<'_>,
    ) -> Result<Body, Fault> {
        let active = event.kind == spec::GC_SWEEP_ACTIVE;
        let slot = if active {
            self.find_proc(event.args[0])
                .ok_or(Fault::NoSuchProc(event.args[0]))?
        } else {
            self.on_a_proc(context, out)?;
            if context.p_slot == NOBODY {
                return Err(Fault::NeedsProc);
            }
            context.p_slot
        };
        let proc = &mut self.procs[slot as usize];
        let was = proc.sweeping;
        let scope = Scope::Proc(proc.id);
        proc.sweeping = event.kind != spec::GC_SWEEP_END;
        let name = out.words.sweep;
        if event.kind == spec::GC_SWEEP_END {
            if !was {
                self.tolerate(Fault::RangeNotBegun(SWEEP), out)?;
            }
            let figures = Some((event.args[0], event.args[1]));
            return Ok(Body::RangeEnd {
                name,
                scope,
                figures,
            });
        }
        let range = Range {
            name,
            scope,
            in_faults: SWEEP,
            was,
            active,
        };
        self.range_begins(event, range, out)
    }

    fn mark_assist(
        &mut self,
        event: &RawEvent,
        context: &Thread,
        out: &mut Out<'_>,
    ) -> Result<Body, Fault> {
        let active = event.kind == spec::GC_MARK_ASSIST_ACTIVE;
        let slot = if active {
            let id = event.args[0];
            let slot = self.find_goroutine(id).filter(|&slot| self.is_known(slot));
            slot.ok_or(Fault::NoSuchGoroutine(id))?
        } else {
            self.in_user_code(context, out)?;
            context.g_slot
        };
        let goroutine = self.goroutines[slot as usize].id;
        let spans = self.spans(slot);
        let was = spans.mark_assist;
        spans.mark_assist = event.kind != spec::GC_MARK_ASSIST_END;
        let (name, scope) = (out.words.mark_assist, Scope::Goroutine(goroutine));
        if event.kind == spec::GC_MARK_ASSIST_END {
            if !was {
                self.tolerate(Fault::RangeNotBegun(ASSIST), out)?;
            }
            return Ok(Body::RangeEnd {
                name,
                scope,
                figures: None,
            });
        }
        let range = Range {
            name,
            scope,
            in_faults: ASSIST,
            was,
            active,
        };
        self.range_begins(event, range, out)
    }

    fn is_known(&self, slot: u32) -> bool {
        self.goroutines[slot as usize].status != super::states::GStatus::Unknown
    }

    /// A range begins, or is said to be active: it must be new, or, in a later generation, known.
    fn range_begins(
        &mut self,
        event: &RawEvent,
        range: Range,
        out: &mut Out<'_>,
    ) -> Result<Body, Fault> {
        let confirms = range.active && !self.first;
        match (range.was, confirms) {
            (true, false) => self.tolerate(Fault::RangeBegunTwice(range.in_faults), out)?,
            (false, true) => self.tolerate(Fault::RangeNotBegun(range.in_faults), out)?,
            _ => {}
        }
        let stack = if range.active {
            None
        } else {
            self.stack(event.args[0], out)?
        };
        Ok(Body::RangeBegin {
            name: range.name,
            scope: range.scope,
            stack,
            already_active: range.active,
        })
    }

    fn task(
        &mut self,
        event: &RawEvent,
        context: &Thread,
        out: &mut Out<'_>,
    ) -> Result<Body, Fault> {
        let id = event.args[0];
        let task = TaskId(id);
        if event.kind == spec::USER_TASK_END {
            self.in_user_code(context, out)?;
            self.tasks.remove(&id);
            return Ok(Body::TaskEnd {
                task,
                stack: self.stack(event.args[1], out)?,
            });
        }
        let [_, parent, name, stack] = event.args;
        if !self.tasks.insert(id) {
            self.tolerate(Fault::TaskBegunTwice(id), out)?;
        }
        let name = self.text(name, out)?;
        self.in_user_code(context, out)?;
        let stack = self.stack(stack, out)?;
        Ok(Body::TaskBegin {
            task,
            parent: task_id(parent),
            name,
            stack,
        })
    }

    fn region(
        &mut self,
        event: &RawEvent,
        context: &Thread,
        out: &mut Out<'_>,
    ) -> Result<Body, Fault> {
        self.in_user_code(context, out)?;
        let [id, name, stack, _] = event.args;
        let task = task_id(id);
        let name = self.text(name, out)?;
        let stack = self.stack(stack, out)?;
        let region = (id, name);
        if event.kind == spec::USER_REGION_BEGIN {
            self.spans(context.g_slot).regions.push(region);
            return Ok(Body::RegionBegin { task, name, stack });
        }
        let regions = &mut self.spans(context.g_slot).regions;
        // One that is not there may have begun before the trace.
        match regions.last() {
            None => {}
            Some(&innermost) if innermost == region => {
                regions.pop();
            }
            Some(_) => {
                let near = regions.len().saturating_sub(LOOK_AT_MOST);
                let open = regions.get(near..).unwrap_or_default();
                if let Some(place) = open.iter().rposition(|&open| open == region) {
                    regions.remove(near + place);
                }
                let g = context.g.map_or(0, GId::get);
                self.tolerate(Fault::RegionMisuse(g), out)?;
            }
        }
        Ok(Body::RegionEnd { task, name, stack })
    }
}

/// The task with `id`; 0 is the background, which is no task.
fn task_id(id: u64) -> Option<TaskId> {
    (id != 0).then_some(TaskId(id))
}
