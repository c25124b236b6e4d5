//! What the played threads do, one action at a time.

use crate::event::{
    Body, ExitHow, Found, GState, HandoffReason, PreemptReason, Preemption, RetakeReason,
    StealFrom, Waker,
};
use crate::id::{GId, MId, ObjectId, PId, TaskId};
use crate::tables::Text;
use crate::testgen::Mix;
use crate::testgen::scheduler::{Scheduler, site, stack, text};
use crate::time::Nanos;
use crate::write::Wait;

fn g_id(place: usize) -> GId {
    match GId::new(place as u64 + 1) {
        Some(g) => g,
        None => unreachable!("goroutines are numbered from 1"),
    }
}

fn p_id(place: usize) -> PId {
    match PId::new(place as u32) {
        Some(p) => p,
        None => unreachable!("few Ps are played"),
    }
}

fn m_id(place: usize) -> MId {
    match MId::new(place as u64) {
        Some(m) => m,
        None => unreachable!("few Ms are played"),
    }
}

impl Scheduler {
    /// Lets `thread` do one thing.
    pub(super) fn act(&mut self, thread: usize) {
        self.pass_time();
        let goroutine = self.threads[thread].g;
        let in_syscall = goroutine.is_some_and(|g| self.goroutines[g].state == GState::Syscall);
        match (self.threads[thread].p, goroutine) {
            (_, Some(g)) if in_syscall => self.return_from_syscall(thread, g),
            (Some(p), Some(g)) => self.run(thread, p, g),
            (Some(p), None) => self.find_work(thread, p),
            (None, _) => self.acquire(thread),
        }
    }

    fn acquire(&mut self, thread: usize) {
        let Some(p) = self.procs.iter().position(|p| p.m.is_none()) else {
            return self.retake(thread);
        };
        self.touch_thread(thread);
        self.touch_proc(thread, p);
        let seq = self.next_proc_seq(p);
        self.write(thread, |e, c, now| e.proc_start(c, now, p as u32, seq));
        self.threads[thread].p = Some(p);
        self.procs[p].m = Some(thread);
        self.expect(thread, Body::ProcStart);
        if self.below(3) == 0 {
            self.write(thread, |e, c, now| e.spin_begin(c, now));
            self.expect(thread, Body::SpinBegin);
        }
    }

    /// Takes the P of a thread in a system call, if there is one.
    fn retake(&mut self, thread: usize) {
        let Some(p) = self.procs.iter().position(|p| p.syscall) else {
            return;
        };
        let Some(from) = self.procs[p].m else { return };
        self.touch_thread(thread);
        self.touch_proc(thread, p);
        let seq = self.next_proc_seq(p);
        let why = RetakeReason::Syscall;
        self.write(thread, |e, c, now| {
            e.proc_steal(c, now, (p as u32, seq), Some(from as u64), why);
        });
        let body = Body::ProcSteal {
            victim: p_id(p),
            from_m: Some(m_id(from)),
            why: Some(why),
        };
        self.expect(thread, body);
        self.threads[from].p = None;
        self.procs[p].m = None;
        self.procs[p].syscall = false;
    }

    fn return_from_syscall(&mut self, thread: usize, g: usize) {
        self.touch_thread(thread);
        if let Some(p) = self.threads[thread].p {
            self.write(thread, |e, c, now| e.syscall_exit(c, now));
            self.expect(thread, Body::SyscallExit);
            self.procs[p].syscall = false;
            self.goroutines[g].state = GState::Running;
            return;
        }
        self.write(thread, |e, c, now| e.syscall_exit_blocked(c, now));
        self.expect(thread, Body::SyscallExitBlocked);
        self.stop(thread, g, GState::Runnable);
        self.global.push_back(g);
    }

    fn stop(&mut self, thread: usize, g: usize, state: GState) {
        self.threads[thread].g = None;
        self.goroutines[g].state = state;
        self.goroutines[g].on_m = None;
    }

    fn begin(&mut self, thread: usize, g: usize) {
        self.threads[thread].g = Some(g);
        self.goroutines[g].state = GState::Running;
        self.goroutines[g].on_m = Some(thread);
    }

    fn find_work(&mut self, thread: usize, p: usize) {
        self.touch_thread(thread);
        if let Some(g) = self.procs[p].queue.pop_front() {
            return self.start(thread, g, Found::Local);
        }
        if let Some(g) = self.global.pop_front() {
            self.write(thread, |e, c, now| e.global_batch(c, now, 1));
            self.expect(thread, Body::GlobalBatch { n: 1 });
            return self.start(thread, g, Found::Global);
        }
        if let Some(victim) = (0..self.procs.len()).find(|v| !self.procs[*v].queue.is_empty()) {
            return self.steal(thread, p, victim);
        }
        if let Some(g) = self.sleeping.pop() {
            self.write(thread, |e, c, now| e.timer_fired(c, now, 5, g as u64 + 1));
            let goroutine = Some(g_id(g));
            self.expect(
                thread,
                Body::TimerFired {
                    late: Nanos(5 * 16),
                    goroutine,
                },
            );
            self.ready(thread, g, Waker::Timer);
            return self.start(thread, g, Found::Timer);
        }
        let others_run = self.goroutines.iter().any(|g| g.on_m.is_some());
        if self.alive == 0 {
            let g = self.create(thread, 0);
            self.start(thread, g, Found::Global)
        } else if !others_run && let Some(g) = self.waiting.pop() {
            self.write(thread, |e, c, now| e.netpoll(c, now, true, 1));
            self.expect(
                thread,
                Body::Netpoll {
                    blocking: true,
                    ready: 1,
                },
            );
            self.ready(thread, g, Waker::Netpoll);
            self.start(thread, g, Found::Netpoll)
        } else {
            self.give_up(thread, p);
        }
    }

    fn give_up(&mut self, thread: usize, p: usize) {
        self.write(thread, |e, c, now| e.steal_failed(c, now, 4));
        self.expect(thread, Body::StealFailed { attempts: 4 });
        self.write(thread, |e, c, now| e.spin_end(c, now, false));
        self.expect(thread, Body::SpinEnd { found: false });
        if self.below(4) == 0 {
            let to = self.below(self.threads.len() as u64);
            let why = HandoffReason::Locked;
            self.write(thread, |e, c, now| e.proc_handoff(c, now, Some(to), why));
            self.expect(
                thread,
                Body::ProcHandoff {
                    to_m: MId::new(to),
                    why,
                },
            );
        } else {
            self.write(thread, |e, c, now| e.proc_stop(c, now));
            self.expect(thread, Body::ProcStop);
        }
        self.threads[thread].p = None;
        self.procs[p].m = None;
        self.write(thread, |e, c, now| e.m_park(c, now));
        self.expect(thread, Body::MPark);
    }

    fn steal(&mut self, thread: usize, p: usize, victim: usize) {
        let n = self.procs[victim].queue.len().div_ceil(2);
        self.write(thread, |e, c, now| {
            e.steal(c, now, victim as u32, n as u32, StealFrom::Ring);
        });
        let body = Body::Steal {
            victim: p_id(victim),
            n: n as u32,
            what: StealFrom::Ring,
        };
        self.expect(thread, body);
        let queue = &mut self.procs[victim].queue;
        let mut stolen = queue.split_off(queue.len() - n);
        if let Some(g) = stolen.pop_front() {
            self.start(thread, g, Found::Stolen);
        }
        self.procs[p].queue.extend(stolen);
    }

    fn start(&mut self, thread: usize, g: usize, found: Found) {
        self.touch(thread, g);
        let seq = self.next_seq(g, thread);
        self.write(thread, |e, c, now| {
            e.start(c, now, g as u64 + 1, found, seq)
        });
        self.begin(thread, g);
        self.expect(thread, Body::GoStart { found: Some(found) });
    }

    fn ready(&mut self, thread: usize, g: usize, by: Waker) {
        self.touch(thread, g);
        let seq = self.next_seq(g, thread);
        self.write(thread, |e, c, now| e.ready(c, now, g as u64 + 1, by, seq));
        let goroutine = g_id(g);
        self.expect(
            thread,
            Body::GoReady {
                goroutine,
                by: Some(by),
                stack: None,
            },
        );
        self.goroutines[g].state = GState::Runnable;
        self.goroutines[g].wait = None;
    }

    fn create(&mut self, thread: usize, creator: u64) -> usize {
        let which = self.below(self.sites.len() as u64) as usize;
        let number = self.sites[which];
        let g = self.add_goroutine(thread, creator, number);
        self.write(thread, |e, c, now| e.create(c, now, g as u64 + 1, number));
        let body = Body::GoCreate {
            child: g_id(g),
            site: site(number),
            stack: None,
            start_stack: None,
            runnable: true,
        };
        self.expect(thread, body);
        g
    }

    /// Lets the goroutine of `thread` do one thing.
    fn run(&mut self, thread: usize, p: usize, g: usize) {
        self.touch_thread(thread);
        let choice = match self.config.mix {
            Mix::Channels if self.alive >= self.config.goroutines => self.below(42),
            Mix::Channels => 50,
            Mix::Everything => self.below(100),
        };
        match choice {
            0..40 => self.send(thread, p, g),
            40..48 => self.yields(thread, p, g),
            48..60 if self.alive < self.config.goroutines => {
                let child = self.create(thread, g as u64 + 1);
                self.procs[p].queue.push_back(child);
            }
            48..64 if self.alive > 1 => self.exit(thread, p, g),
            64..70 => self.syscall(thread, p, g),
            70..74 => self.preempt(thread, g),
            74..80 => self.sleep(thread, g),
            80..90 => self.user_event(thread, g),
            _ => self.runtime_event(thread, choice),
        }
    }

    /// Readies somebody who waits, and waits in turn.
    fn send(&mut self, thread: usize, p: usize, g: usize) {
        let mut readied = None;
        if !self.waiting.is_empty() && self.below(8) != 0 {
            let place = self.below(self.waiting.len() as u64) as usize;
            let other = self.waiting.swap_remove(place);
            self.ready(thread, other, Waker::Goroutine);
            self.procs[p].queue.push_front(other);
            readied = Some(other);
        }
        let reason = if self.below(2) == 0 {
            Text::CHAN_RECEIVE
        } else {
            Text::CHAN_SEND
        };
        let object = 0x1000 + self.below(4) * 64;
        let wait = Wait {
            reason: reason.0,
            site: self.sites[1],
            object,
        };
        let park = Body::GoPark {
            reason,
            object: ObjectId::new(object),
            site: site(wait.site),
            stack: None,
        };
        self.waiting.push(g);
        self.goroutines[g].wait = Some(wait);
        let Some(next) = self.procs[p].queue.pop_front() else {
            self.write(thread, |e, c, now| e.park(c, now, wait));
            self.expect(thread, park);
            return self.stop(thread, g, GState::Waiting);
        };
        self.touch(thread, next);
        let found = if readied == Some(next) {
            Found::Runnext
        } else {
            Found::Local
        };
        let seq = self.next_seq(next, thread);
        self.write(thread, |e, c, now| {
            e.park_start(c, now, wait, next as u64 + 1, (found, seq));
        });
        self.expect(thread, park);
        self.stop(thread, g, GState::Waiting);
        self.begin(thread, next);
        self.expect(thread, Body::GoStart { found: Some(found) });
    }

    fn yields(&mut self, thread: usize, p: usize, g: usize) {
        self.procs[p].queue.push_back(g);
        let Some(next) = self.procs[p].queue.pop_front() else {
            return;
        };
        self.touch(thread, next);
        let seq = self.next_seq(next, thread);
        // Now and then it is known where; only the first of the two events happened there.
        let at = if self.below(4) == 0 {
            self.stacks[1]
        } else {
            0
        };
        self.write(thread, |e, c, now| {
            if at != 0 {
                e.at_stack(c, at);
            }
            e.yield_start(c, now, next as u64 + 1, Found::Local, seq);
        });
        self.expect(thread, Body::GoYield { stack: stack(at) });
        self.stop(thread, g, GState::Runnable);
        self.begin(thread, next);
        self.expect(
            thread,
            Body::GoStart {
                found: Some(Found::Local),
            },
        );
    }

    fn exit(&mut self, thread: usize, p: usize, g: usize) {
        self.alive -= 1;
        self.goroutines[g].dead = true;
        let Some(next) = self.procs[p].queue.pop_front() else {
            let how = ExitHow::Panicked;
            self.write(thread, |e, c, now| e.exit(c, now, how));
            self.expect(thread, Body::GoExit { how: Some(how) });
            return self.stop(thread, g, GState::Waiting);
        };
        self.touch(thread, next);
        let seq = self.next_seq(next, thread);
        self.write(thread, |e, c, now| {
            e.exit_start(c, now, next as u64 + 1, Found::Local, seq);
        });
        self.expect(
            thread,
            Body::GoExit {
                how: Some(ExitHow::Returned),
            },
        );
        self.stop(thread, g, GState::Waiting);
        self.begin(thread, next);
        self.expect(
            thread,
            Body::GoStart {
                found: Some(Found::Local),
            },
        );
    }

    fn syscall(&mut self, thread: usize, p: usize, g: usize) {
        let (at, number) = (self.stacks[0], self.sites[2]);
        self.write(thread, |e, c, now| e.syscall_enter(c, now, number, at));
        self.expect(
            thread,
            Body::SyscallEnter {
                site: site(number),
                stack: stack(at),
            },
        );
        self.procs[p].syscall = true;
        self.next_proc_seq(p);
        self.goroutines[g].state = GState::Syscall;
    }

    fn preempt(&mut self, thread: usize, g: usize) {
        let how = Preemption::Signal;
        self.write(thread, |e, c, now| e.preempted(c, now, how));
        self.expect(thread, Body::GoPreempted { how, stack: None });
        self.stop(thread, g, GState::Runnable);
        self.global.push_back(g);
    }

    fn sleep(&mut self, thread: usize, g: usize) {
        let wait = Wait {
            reason: Text::SLEEP.0,
            site: 0,
            object: 0,
        };
        self.write(thread, |e, c, now| e.park(c, now, wait));
        self.expect(
            thread,
            Body::GoPark {
                reason: Text::SLEEP,
                object: None,
                site: None,
                stack: None,
            },
        );
        self.goroutines[g].wait = Some(wait);
        self.stop(thread, g, GState::Waiting);
        self.sleeping.push(g);
    }

    fn user_event(&mut self, thread: usize, g: usize) {
        let which = self.below(3) as usize;
        let name = self.texts[which];
        let (task, parent) = (1 + self.below(9), self.below(3));
        let optional = |task: u64| (task != 0).then_some(TaskId(task));
        match self.below(6) {
            0 => {
                self.write(thread, |e, c, now| e.task_begin(c, now, task, parent, name));
                let (task, parent) = (TaskId(task), optional(parent));
                let name = text(name);
                self.expect(
                    thread,
                    Body::TaskBegin {
                        task,
                        parent,
                        name,
                        stack: None,
                    },
                );
            }
            1 => {
                self.write(thread, |e, c, now| e.task_end(c, now, task));
                self.expect(
                    thread,
                    Body::TaskEnd {
                        task: TaskId(task),
                        stack: None,
                    },
                );
            }
            2 => {
                let at = self.stacks[which];
                self.write(thread, |e, c, now| {
                    e.at_stack(c, at);
                    e.region_begin(c, now, parent, name);
                });
                let (task, name) = (optional(parent), text(name));
                self.expect(
                    thread,
                    Body::RegionBegin {
                        task,
                        name,
                        stack: stack(at),
                    },
                );
            }
            3 => {
                self.write(thread, |e, c, now| e.region_end(c, now, parent, name));
                let (task, name) = (optional(parent), text(name));
                self.expect(
                    thread,
                    Body::RegionEnd {
                        task,
                        name,
                        stack: None,
                    },
                );
            }
            4 => {
                let message = "x".repeat(self.below(300) as usize);
                self.write_log(thread, parent, name, &message);
                let value = self.tables.intern_text(&message);
                let (task, key) = (optional(parent), text(name));
                self.expect(
                    thread,
                    Body::Log {
                        task,
                        key,
                        value,
                        stack: None,
                    },
                );
            }
            _ => {
                self.write(thread, |e, c, now| e.label(c, now, name));
                self.expect(thread, Body::GoLabel { label: text(name) });
                self.goroutines[g].label = name;
            }
        }
    }

    fn runtime_event(&mut self, thread: usize, choice: u64) {
        let n = self.below(1000);
        let small = n as u32;
        let how = Preemption::Cooperative;
        match choice {
            90 => {
                let number = self.texts[3];
                self.write(thread, |e, c, now| e.stop_requested(c, now, number));
                self.expect(
                    thread,
                    Body::StopRequested {
                        kind: text(number),
                        stack: None,
                    },
                );
                self.write(thread, |e, c, now| e.safe_point(c, now, how));
                self.expect(thread, Body::SafePoint { how });
                self.write(thread, |e, c, now| e.stopped(c, now));
                self.expect(thread, Body::Stopped);
                self.write(thread, |e, c, now| e.restarted(c, now));
                self.expect(thread, Body::Restarted);
            }
            91 => {
                self.write(thread, |e, c, now| e.gc_begin(c, now, n));
                self.expect(
                    thread,
                    Body::GcBegin {
                        cycle: n,
                        stack: None,
                    },
                );
                self.write(thread, |e, c, now| e.gc_active(c, now, n));
                self.expect(thread, Body::GcActive { cycle: n });
                self.write(thread, |e, c, now| e.gc_end(c, now, n, (7, 8)));
                self.expect(
                    thread,
                    Body::GcEnd {
                        cycle: n,
                        pages: Some(7),
                        stacks: Some(8),
                    },
                );
            }
            92 => {
                let number = self.texts[4];
                self.write(thread, |e, c, now| e.metric(c, now, number, n << 40));
                self.expect(
                    thread,
                    Body::Metric {
                        name: text(number),
                        value: n << 40,
                    },
                );
            }
            93 => {
                let at = self.stacks[2];
                self.write_sample(thread, at);
                self.expect(thread, Body::CpuSample { stack: stack(at) });
            }
            94 => {
                let (child, target) = (MId::new(n + 50), MId::new(n + 51));
                let (Some(child), Some(target)) = (child, target) else {
                    return;
                };
                self.write(thread, |e, c, now| e.m_create(c, now, n + 50));
                self.expect(thread, Body::MCreate { child });
                self.write(thread, |e, c, now| e.m_wake(c, now, n + 51));
                self.expect(thread, Body::MWake { target });
            }
            95 => {
                self.write(thread, |e, c, now| e.m_lock(c, now));
                self.expect(thread, Body::MLock);
                self.write(thread, |e, c, now| e.m_unlock(c, now));
                self.expect(thread, Body::MUnlock);
            }
            96 => {
                self.write(thread, |e, c, now| e.m_cpu(c, now, n * 1000));
                self.expect(
                    thread,
                    Body::MCpu {
                        cpu: Nanos(n as i64 * 1000),
                    },
                );
                self.write(thread, |e, c, now| e.sched_sample(c, now, n));
                self.expect(
                    thread,
                    Body::SchedSample {
                        took: Nanos(n as i64 * 16),
                    },
                );
            }
            97 => {
                let procs = self.procs.len() as u32;
                self.write(thread, |e, c, now| e.procs_change(c, now, procs));
                self.expect(thread, Body::ProcsChange { procs, stack: None });
            }
            98 => {
                let why = PreemptReason::Slice;
                self.write(thread, |e, c, now| e.preempt_request(c, now, 0, n, why));
                let (victim, goroutine) = (p_id(0), GId::new(n));
                self.expect(
                    thread,
                    Body::GoPreemptRequested {
                        victim,
                        goroutine,
                        why,
                    },
                );
            }
            _ => {
                self.write(thread, |e, c, now| e.overflow(c, now, small));
                self.expect(thread, Body::RunqOverflow { n: small });
                self.write(thread, |e, c, _| e.loss(c, n));
                self.expect(thread, Body::Loss { events: n });
            }
        }
    }
}
