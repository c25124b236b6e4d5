//! Events that change no state of a goroutine, P or thread: ranges, regions, tasks, figures, samples.

use std::io::Write;

use super::Writer;
use super::file::NO_THREAD;
use super::legal::At;
use super::names::Shape;
use super::world::NO_SLOT;
use crate::event::{Body, Event, Scope};
use crate::go::spec;
use crate::go::states::{GStatus, NOBODY, PStatus};
use crate::id::{GId, MId, TaskId};
use crate::tables::{StackRef, Tables, Text};
use crate::varint;

impl<W: Write> Writer<W> {
    /// Events that change no state of a goroutine, P or thread.
    pub(super) fn annotation(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        match event.body {
            Body::CpuSample { stack } => {
                let stack = self.stack(stack.map(Shape::Stack), tables);
                let mut record = vec![spec::CPU_SAMPLE];
                let m = event.m.map_or(NO_THREAD, MId::get);
                let p = event.p.map_or(u64::MAX, |p| u64::from(p.get()));
                let g = event.g.map_or(0, GId::get);
                for number in [at.time, m, p, g, stack] {
                    varint::push(&mut record, number);
                }
                self.samples.record(&mut self.file, at.time, &record);
                true
            }
            Body::RangeBegin { .. } | Body::RangeEnd { .. } => self.range(event, at, tables),
            Body::GcBegin { .. } | Body::GcActive { .. } | Body::GcEnd { .. } => {
                self.collector(event, at, tables)
            }
            Body::ProcsChange { procs, stack } => {
                let stack = self.stack(stack.map(Shape::Stack), tables);
                let Some(at) = self.anywhere(at, true) else {
                    return false;
                };
                self.put(at, spec::PROCS_CHANGE, &[u64::from(procs), stack]);
                true
            }
            Body::Metric { name, value } => {
                let kind = match tables.text(name) {
                    "/memory/classes/heap/objects:bytes" => spec::HEAP_ALLOC,
                    "/gc/heap/goal:bytes" => spec::HEAP_GOAL,
                    _ => return false,
                };
                let Some(at) = self.anywhere(at, false) else {
                    return false;
                };
                self.put(at, kind, &[value]);
                true
            }
            Body::Unknown { kind, args } => self.experimental(kind, &args, at),
            _ => self.in_goroutine(event, at, tables),
        }
    }

    fn experimental(&mut self, kind: u16, args: &[u64], at: At) -> bool {
        let spec = u8::try_from(kind).ok().and_then(spec::spec);
        let known = spec.filter(|spec| spec.form == spec::Form::Experimental);
        match known {
            Some(spec) if self.of_go && at.m != NO_SLOT => {
                let count = spec.args.len() - 1;
                self.put(at, spec.number, args.get(..count).unwrap_or_default());
                true
            }
            _ => false,
        }
    }

    fn collector(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        let (kind, cycle, stack) = match event.body {
            Body::GcBegin { cycle, stack } => (spec::GC_BEGIN, cycle, stack),
            Body::GcActive { cycle } => (spec::GC_ACTIVE, cycle, None),
            Body::GcEnd { cycle, .. } => (spec::GC_END, cycle, None),
            _ => return false,
        };
        let stack = self.stack(stack.map(Shape::Stack), tables);
        let kind = match (kind, self.collecting) {
            (spec::GC_END | spec::GC_ACTIVE, Some(true)) if !self.first => kind,
            (spec::GC_END, Some(true)) => kind,
            // It was not seen to begin.
            (spec::GC_ACTIVE, None) if self.first => kind,
            (spec::GC_BEGIN | spec::GC_ACTIVE, None | Some(false)) => spec::GC_BEGIN,
            _ => return false,
        };
        // Go's reader takes any number for the first one. Where clocks differ it would take this one,
        // unless all that was written up to the first one comes before this by time too.
        if kind == spec::GC_BEGIN && self.collecting.is_some() && at.time <= self.collector_known {
            return false;
        }
        let place = self.anywhere(at, true);
        let at = match place {
            Some(at) => at,
            None if self.collecting.is_none() => at,
            None => return false,
        };
        self.collector_sequence = match self.collecting {
            None => cycle,
            Some(_) => self.collector_sequence.wrapping_add(1),
        };
        let args = [self.collector_sequence, stack];
        let count = if kind == spec::GC_BEGIN { 2 } else { 1 };
        self.put(at, kind, args.get(..count).unwrap_or_default());
        if self.collecting.is_none() {
            self.collector_known = self.latest;
        }
        self.collecting = Some(kind != spec::GC_END);
        true
    }

    fn range(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        let (name, scope, begin) = match event.body {
            Body::RangeBegin {
                name,
                scope,
                stack,
                already_active,
            } => (name, scope, Some((stack, already_active))),
            Body::RangeEnd { name, scope, .. } => (name, scope, None),
            _ => return false,
        };
        let active = begin.is_some_and(|(_, active)| active);
        let (open, id, kinds) = match (tables.text(name), scope) {
            ("GC incremental sweep", Scope::Proc(proc)) => {
                let p = self.world.proc(proc);
                let on = self.world.p(p).thread;
                let status = self.world.p(p).status;
                if active && status == PStatus::Unknown || !active && (on == NOBODY || on != at.m) {
                    return false;
                }
                self.state_proc(p, at);
                let proc = self.world.p(p);
                let kinds = [
                    spec::GC_SWEEP_ACTIVE,
                    spec::GC_SWEEP_BEGIN,
                    spec::GC_SWEEP_END,
                ];
                (&mut proc.sweeping, u64::from(proc.id.get()), kinds)
            }
            ("GC mark assist", Scope::Goroutine(goroutine)) => {
                let g = self.world.goroutine(goroutine);
                let known = self.world.g(g).status != GStatus::Unknown;
                if active && !known
                    || !active && (event.g != Some(goroutine) || !self.in_user_code(at, event))
                {
                    return false;
                }
                self.state(g, at);
                let kinds = [
                    spec::GC_MARK_ASSIST_ACTIVE,
                    spec::GC_MARK_ASSIST_BEGIN,
                    spec::GC_MARK_ASSIST_END,
                ];
                let goroutine = self.world.g(g);
                let id = goroutine.id.get();
                (&mut goroutine.spans().mark_assist, id, kinds)
            }
            _ => return false,
        };
        let confirms = active && !self.first;
        let expected = confirms || begin.is_none();
        if *open != expected {
            return false;
        }
        *open = begin.is_some();
        let [is_active, begins, ends] = kinds;
        match (begin, event.body) {
            (Some((_, true)), _) => self.put(at, is_active, &[id]),
            (Some((stack, false)), _) => {
                let stack = self.stack(stack.map(Shape::Stack), tables);
                self.put(at, begins, &[stack]);
            }
            (None, Body::RangeEnd { figures, .. }) if ends == spec::GC_SWEEP_END => {
                let (swept, reclaimed) = figures.unwrap_or_default();
                self.put(at, ends, &[swept, reclaimed]);
            }
            _ => self.put(at, ends, &[]),
        }
        true
    }

    /// What a goroutine says while it runs.
    fn in_goroutine(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        let fits = match event.body {
            Body::StopRequested { .. }
            | Body::Restarted
            | Body::TaskEnd { .. }
            | Body::RegionBegin { .. }
            | Body::RegionEnd { .. }
            | Body::Log { .. } => true,
            Body::GoLabel { label } => label != Text::EMPTY || self.of_go,
            Body::TaskBegin { task, .. } => {
                !matches!(task.0, 0 | u64::MAX) && !self.world.tasks.contains(&task.0)
            }
            _ => false,
        };
        if !fits || !self.in_user_code(at, event) {
            return false;
        }
        let Some(g) = self.goroutine_of(at) else {
            return false;
        };
        let id = |task: Option<TaskId>| task.map_or(0, |task| task.0);
        let stack_of = |stack: Option<StackRef>| stack.map(Shape::Stack);
        match event.body {
            Body::StopRequested { kind, stack } => {
                if self.world.g(g).stops().contains(&kind) {
                    return false;
                }
                self.world.g(g).spans().stops.push(kind);
                let args = [self.text(kind, tables), self.stack(stack_of(stack), tables)];
                self.put(at, spec::STW_BEGIN, &args);
            }
            Body::Restarted => {
                if self.world.g(g).spans().stops.pop().is_none() {
                    return false;
                }
                self.put(at, spec::STW_END, &[]);
            }
            Body::GoLabel { label } => {
                let label = self.text(label, tables);
                self.put(at, spec::GO_LABEL, &[label]);
            }
            Body::TaskBegin {
                task,
                parent,
                name,
                stack,
            } => {
                self.world.tasks.insert(task.0);
                let name = self.text(name, tables);
                let stack = self.stack(stack_of(stack), tables);
                self.put(
                    at,
                    spec::USER_TASK_BEGIN,
                    &[task.0, id(parent), name, stack],
                );
            }
            Body::TaskEnd { task, stack } => {
                if self.world.tasks.contains(&task.0) {
                    self.world.ended_tasks.push(task.0);
                }
                let stack = self.stack(stack_of(stack), tables);
                self.put(at, spec::USER_TASK_END, &[task.0, stack]);
            }
            Body::RegionBegin { task, name, stack } => {
                let region = (id(task), name);
                self.world.g(g).spans().regions.push(region);
                let name = self.text(name, tables);
                let stack = self.stack(stack_of(stack), tables);
                self.put(at, spec::USER_REGION_BEGIN, &[region.0, name, stack]);
            }
            Body::RegionEnd { task, name, stack } => {
                let region = (id(task), name);
                let regions = &mut self.world.g(g).spans().regions;
                // One that is not there may have begun before the trace; Go's reader refuses one that
                // is not the innermost.
                if regions.last().is_some_and(|innermost| *innermost != region) {
                    return false;
                }
                regions.pop();
                let name = self.text(name, tables);
                let stack = self.stack(stack_of(stack), tables);
                self.put(at, spec::USER_REGION_END, &[region.0, name, stack]);
            }
            Body::Log {
                task,
                key,
                value,
                stack,
            } => {
                let (key, value) = (self.text(key, tables), self.text(value, tables));
                let stack = self.stack(stack_of(stack), tables);
                self.put(at, spec::USER_LOG, &[id(task), key, value, stack]);
            }
            _ => return false,
        }
        true
    }
}
