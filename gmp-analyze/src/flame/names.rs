//! Names for stacks: what was collected becomes frames of a [`Tree`], with the words of reports.

use super::tree::{Class, ROOT, Tree};
use crate::analysis::latency::found_name;
use crate::analysis::names;
use crate::analysis::stacks::{Detail, RunEnd, StackGroup, StackKey, StackKind, Stacks};
use crate::machine::{Cause, GoroutineState as G, Place};
use gmp_trace::tables::{Frame, StackRef, Tables};
use rustc_hash::FxHashMap;

/// Names the stacks of one trace.
#[derive(Debug)]
pub struct Namer<'a> {
    tables: &'a Tables,
    /// 0 for the trace, 1 for the one that it is compared with.
    side: usize,
    /// Stacks of the trace that were entered before, by the node below.
    entered: FxHashMap<(u32, StackRef), u32>,
}

impl<'a> Namer<'a> {
    /// Names with `tables`, for the trace or the one that it is compared with.
    pub fn new(tables: &'a Tables, compared_with: bool) -> Namer<'a> {
        Namer {
            tables,
            side: usize::from(compared_with),
            entered: FxHashMap::default(),
        }
    }

    /// Adds `stacks` to `tree`: samples of the CPU profiler where `samples` says so, else spans.
    pub fn add(&mut self, tree: &mut Tree, stacks: &Stacks, samples: bool) {
        let groups: Vec<u32> = stacks
            .groups
            .iter()
            .map(|group| tree.name(&self.group(group), Class::Group))
            .collect();
        if stacks.kind == StackKind::Create {
            return self.add_lineages(tree, stacks, &groups);
        }
        let sums = if samples {
            &stacks.samples
        } else {
            &stacks.sums
        };
        for (key, amount) in sums {
            let node = self.stack(tree, stacks.kind, key, &groups);
            tree.add(node, *amount, self.side);
        }
    }

    fn add_lineages(&mut self, tree: &mut Tree, stacks: &Stacks, groups: &[u32]) {
        let mut nodes: Vec<u32> = Vec::with_capacity(stacks.lineages.len());
        for lineage in &stacks.lineages {
            // A creator stands before what it made.
            let creator = lineage
                .creator
                .and_then(|creator| nodes.get(creator as usize));
            let parent = creator.copied().unwrap_or(ROOT);
            nodes.push(tree.enter(parent, groups[lineage.group as usize]));
        }
        for (key, amount) in &stacks.sums {
            let node = key.group.and_then(|lineage| nodes.get(lineage as usize));
            tree.add(node.copied().unwrap_or(ROOT), *amount, self.side);
        }
    }

    /// The node of the leaf of one stack.
    fn stack(&mut self, tree: &mut Tree, kind: StackKind, key: &StackKey, groups: &[u32]) -> u32 {
        let group = match key.group {
            Some(group) => groups[group as usize],
            None => tree.name("(no goroutine)", Class::Note),
        };
        match key.detail {
            Detail::State(state) => {
                let node = tree.enter(ROOT, group);
                let class = Class::State(state);
                let node = frame(tree, node, state.name(), class);
                self.place(tree, node, key.place, class)
            }
            Detail::Wait(reason) if kind == StackKind::Block => {
                let class = Class::State(G::Waiting);
                let node = frame(tree, ROOT, &names::reason(self.tables, reason), class);
                let node = tree.enter(node, group);
                self.place(tree, node, key.place, class)
            }
            Detail::Wait(reason) => {
                let class = Class::State(G::Waiting);
                let node = tree.enter(ROOT, group);
                let node = frame(tree, node, G::Waiting.name(), class);
                let reason = names::reason(self.tables, reason);
                self.at(tree, node, &reason, key.place, class)
            }
            Detail::Run(end) => self.run(tree, group, end, key.place),
            Detail::Queue(cause, found) => {
                let node = tree.enter(ROOT, group);
                let class = Class::State(G::Runnable);
                let node = frame(tree, node, cause_words(cause), class);
                match found {
                    Some(_) => frame(tree, node, &format!("found: {}", found_name(found)), class),
                    // A trace of Go never tells.
                    None => node,
                }
            }
            Detail::Syscall(taken) => {
                let node = tree.enter(ROOT, group);
                let node = self.place(tree, node, key.place, Class::State(G::Syscall));
                if taken {
                    let class = Class::State(G::SyscallWithoutP);
                    frame(tree, node, "P taken away", class)
                } else {
                    node
                }
            }
            Detail::Sample | Detail::Ancestry => {
                let node = tree.enter(ROOT, group);
                self.place(tree, node, key.place, Class::Function)
            }
        }
    }

    fn run(&mut self, tree: &mut Tree, group: u32, end: RunEnd, place: Place) -> u32 {
        let node = tree.enter(ROOT, group);
        let words = match end {
            RunEnd::Wait(reason) => format!("until {}", names::reason(self.tables, reason)),
            RunEnd::Yield => "until yield".to_owned(),
            RunEnd::Preemption => "until preemption".to_owned(),
            RunEnd::Exit => "until exit".to_owned(),
            RunEnd::Syscall => "until syscall".to_owned(),
            RunEnd::TraceEnd => "until the trace ends".to_owned(),
            RunEnd::Unknown => "until (unknown)".to_owned(),
        };
        self.at(tree, node, &words, place, Class::State(G::Running))
    }

    /// `words` and a place: one frame where the place is a site, the words and then every frame of
    /// the stack where it is a stack.
    fn at(&mut self, tree: &mut Tree, node: u32, words: &str, place: Place, class: Class) -> u32 {
        match place {
            Place::Stack(stack) => {
                let node = frame(tree, node, words, class);
                self.frames(tree, node, stack)
            }
            place => {
                let site = self.site(place);
                if site.is_empty() {
                    frame(tree, node, words, class)
                } else {
                    frame(tree, node, &format!("{words} @ {site}"), class)
                }
            }
        }
    }

    /// A place alone.
    fn place(&mut self, tree: &mut Tree, node: u32, place: Place, class: Class) -> u32 {
        match place {
            Place::Stack(stack) => self.frames(tree, node, stack),
            place => {
                let site = self.site(place);
                if site.is_empty() {
                    node
                } else {
                    frame(tree, node, &site, class)
                }
            }
        }
    }

    /// Every frame of a stack; the leaf is the last one entered.
    fn frames(&mut self, tree: &mut Tree, below: u32, stack: StackRef) -> u32 {
        if let Some(&node) = self.entered.get(&(below, stack)) {
            return node;
        }
        let mut node = below;
        for frame_of in self.tables.stack(stack).iter().rev() {
            let name = tree.name(&self.function(frame_of), Class::Function);
            node = tree.enter(node, name);
        }
        self.entered.insert((below, stack), node);
        node
    }

    fn function(&self, frame: &Frame) -> String {
        match (self.tables.text(frame.function), frame.pc) {
            ("", 0) => names::UNKNOWN_FUNCTION.to_owned(),
            ("", pc) => format!("(unknown {pc:#x})"),
            (function, _) => function.to_owned(),
        }
    }

    /// Function and position of a site, without what is not known.
    fn site(&self, place: Place) -> String {
        let function = names::function(self.tables, place);
        let position = names::position(self.tables, place);
        match (function.is_empty(), position.is_empty()) {
            (_, true) => function,
            (true, false) => position,
            (false, false) => format!("{function} {position}"),
        }
    }

    fn group(&self, group: &StackGroup) -> String {
        let function = names::function(self.tables, group.made_at);
        let position = names::position(self.tables, group.made_at);
        let function = if !function.is_empty() {
            function
        } else if group.existed && !group.made && group.made_at == Place::Unknown {
            names::BEFORE_TRACE.to_owned()
        } else {
            names::UNKNOWN_FUNCTION.to_owned()
        };
        match group.made_at {
            _ if position.is_empty() => function,
            Place::Stack(_) => format!("{function} ({position})"),
            _ => format!("{function} (made at {position})"),
        }
    }
}

fn frame(tree: &mut Tree, node: u32, text: &str, class: Class) -> u32 {
    let name = tree.name(text, class);
    tree.enter(node, name)
}

/// What made a goroutine runnable, so that it reads after "runnable".
fn cause_words(cause: Option<Cause>) -> &'static str {
    match cause {
        None => "did not start in this trace",
        Some(Cause::Before) => "runnable before the trace",
        Some(Cause::Created) => "created",
        Some(Cause::Goroutine) => "woken by a goroutine",
        Some(Cause::Netpoll) => "woken by the netpoller",
        Some(Cause::Timer) => "woken by a timer",
        Some(Cause::Sysmon) => "woken by sysmon",
        Some(Cause::External) => "woken by an external thread",
        Some(Cause::Runtime) => "woken by the runtime",
        Some(Cause::Woken) => "woken",
        Some(Cause::Yielded) => "after a yield",
        Some(Cause::Preempted) => "after a preemption",
        Some(Cause::SyscallReturn) => "after a system call",
    }
}
