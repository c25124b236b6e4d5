//! Lanes of tasks: the life of each task, and the regions of goroutines that are part of it.

use super::lane::{Kept, Lane, paint_of};
use super::{STOP, Timeline};
use gmp_trace::id::{GId, TaskId};
use gmp_trace::tables::Text;
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};
use rustc_hash::FxHashMap;

/// Tasks that get a lane of their own, the first ones; others share one more.
pub(super) const OWN_LANES: usize = 40;

/// The state number of a task's life.
pub(super) const LIFE: u8 = STOP;

/// A region that is under way.
#[derive(Clone, Copy, Debug)]
struct Region {
    name: Text,
    lane: usize,
    begin: Nanos,
}

/// The tasks while the trace is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks {
    /// Lane and begin of those that have not ended.
    open: FxHashMap<TaskId, (usize, Nanos)>,
    /// Regions that are under way, by goroutine.
    regions: FxHashMap<GId, Vec<Region>>,
    /// By lane: number and name.
    pub(super) named: Vec<(TaskId, Text)>,
    /// Tasks in the lane that is shared.
    pub(super) sharing: u64,
    /// Groups are names of regions here.
    group_of: FxHashMap<Text, u32>,
    pub(super) region_names: Vec<Text>,
}

impl Timeline {
    /// An event about a task or a region; others are none of this.
    pub(super) fn task_event(&mut self, event: &Event) {
        match event.body {
            Body::TaskBegin { task, name, .. } => {
                let lane = self.tasks.named.len().min(OWN_LANES);
                if lane < OWN_LANES {
                    self.tasks.named.push((task, name));
                } else {
                    self.tasks.sharing += 1;
                }
                while self.lanes.len() <= lane {
                    self.lanes.push(Lane::new(true));
                }
                self.tasks.open.insert(task, (lane, event.time));
            }
            Body::TaskEnd { task, .. } => {
                if let Some((lane, begin)) = self.tasks.open.remove(&task) {
                    self.task_span(lane, begin, event.time, None, None);
                }
            }
            Body::RegionBegin { task, name, .. } => {
                let lane = task.and_then(|task| self.tasks.open.get(&task));
                if let (Some(&(lane, _)), Some(goroutine)) = (lane, event.g) {
                    self.tasks
                        .regions
                        .entry(goroutine)
                        .or_default()
                        .push(Region {
                            name,
                            lane,
                            begin: event.time,
                        });
                }
            }
            Body::RegionEnd { name, .. } => {
                if let Some(goroutine) = event.g {
                    self.region_ends(goroutine, name, event.time);
                }
            }
            _ => {}
        }
    }

    fn region_ends(&mut self, goroutine: GId, name: Text, time: Nanos) {
        let Some(regions) = self.tasks.regions.get_mut(&goroutine) else {
            return;
        };
        // Regions that are not nested: the innermost of that name ends.
        if let Some(place) = regions.iter().rposition(|region| region.name == name) {
            let region = regions.remove(place);
            if regions.is_empty() {
                self.tasks.regions.remove(&goroutine);
            }
            self.region_span(goroutine, region, time);
        }
    }

    fn region_span(&mut self, goroutine: GId, region: Region, end: Nanos) {
        let next = self.tasks.region_names.len() as u32;
        let group = *self.tasks.group_of.entry(region.name).or_insert(next);
        if group == next {
            self.tasks.region_names.push(region.name);
            self.slots.appear(group);
        }
        let time = self.task_span(region.lane, region.begin, end, Some(group), Some(goroutine));
        self.group_ran(group, time);
    }

    /// Gives a span to a task's lane; its length inside the window.
    fn task_span(
        &mut self,
        lane: usize,
        begin: Nanos,
        end: Nanos,
        group: Option<u32>,
        goroutine: Option<GId>,
    ) -> i64 {
        let Some((begin, end)) = self.window.clip(begin, end) else {
            return 0;
        };
        let kept = Kept {
            begin,
            end,
            state: LIFE,
            group,
            by_group: group.is_some(),
            goroutine,
        };
        self.reach(end);
        let paint = paint_of(&kept, self.slots.of_groups());
        self.lanes[lane].add(&self.scale, kept, paint);
        end.0 - begin.0
    }

    /// The trace ends at `end` before its tasks and regions do.
    pub(super) fn finish_tasks(&mut self, end: Nanos) {
        let mut open: Vec<_> = std::mem::take(&mut self.tasks.open).into_iter().collect();
        open.sort_unstable_by_key(|(task, _)| task.0);
        for (_, (lane, begin)) in open {
            self.task_span(lane, begin, end, None, None);
        }
        let mut regions: Vec<_> = std::mem::take(&mut self.tasks.regions)
            .into_iter()
            .collect();
        regions.sort_unstable_by_key(|(goroutine, _)| *goroutine);
        for (goroutine, regions) in regions {
            for region in regions {
                self.region_span(goroutine, region, end);
            }
        }
    }
}
