//! Least, mean and largest of every figure of `SCHED` lines.

use super::Moment;

/// Fields and Ps that are kept; a text with more of them is no schedtrace.
const MOST_FIELDS: usize = 64;
const MOST_PROCS: usize = 1 << 16;

/// One figure over all lines.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldSummary {
    /// Its name.
    pub name: String,
    /// Lines that have it.
    pub lines: u64,
    /// The least.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: u64,
    /// That of the first line.
    pub first: u64,
    /// That of the last line.
    pub last: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    lines: u64,
    sum: u128,
    min: u64,
    max: u64,
    first: u64,
    last: u64,
}

impl Sum {
    fn add(&mut self, value: u64) {
        if self.lines == 0 {
            (self.min, self.first) = (value, value);
        }
        self.lines += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.last = value;
    }

    fn summary(&self, name: String) -> FieldSummary {
        FieldSummary {
            name,
            lines: self.lines,
            min: self.min,
            mean: self.sum as f64 / self.lines.max(1) as f64,
            max: self.max,
            first: self.first,
            last: self.last,
        }
    }
}

/// Collects figures. Memory is linear in fields and Ps, not in lines.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    fields: Vec<(String, Sum)>,
    queues: Sum,
    by_proc: Vec<(Sum, Sum)>,
    left_out: u64,
}

impl Summary {
    /// The figure called `name` of one line.
    pub fn add(&mut self, name: &str, value: u64) {
        let known = self.fields.iter().position(|(field, _)| field == name);
        let place = match known {
            Some(place) => place,
            None if self.fields.len() < MOST_FIELDS => {
                self.fields.push((name.to_owned(), Sum::default()));
                self.fields.len() - 1
            }
            None => {
                self.left_out += 1;
                return;
            }
        };
        self.fields[place].1.add(value);
    }

    /// The queues and the ticks of the Ps of one line.
    pub fn add_procs(&mut self, queues: &[u64], ticks: &[u64]) {
        if !queues.is_empty() {
            self.queues
                .add(queues.iter().fold(0, |a, b| a.saturating_add(*b)));
        }
        for (proc, &queue) in queues.iter().enumerate() {
            self.add_queue(proc, queue);
        }
        for (proc, &ticks) in ticks.iter().enumerate() {
            self.add_ticks(proc, ticks);
        }
    }

    /// The queue of one P in one line.
    pub(super) fn add_queue(&mut self, proc: usize, queue: u64) {
        if let Some((sum, _)) = self.proc(proc) {
            sum.add(queue);
        }
    }

    /// The time slices of one P in one line.
    pub(super) fn add_ticks(&mut self, proc: usize, ticks: u64) {
        if let Some((_, sum)) = self.proc(proc) {
            sum.add(ticks);
        }
    }

    fn proc(&mut self, proc: usize) -> Option<&mut (Sum, Sum)> {
        if proc >= MOST_PROCS {
            self.left_out += 1;
            return None;
        }
        if proc >= self.by_proc.len() {
            self.by_proc.resize(proc + 1, Default::default());
        }
        self.by_proc.get_mut(proc)
    }

    /// A moment rebuilt from a trace; always true.
    pub fn moment(&mut self, moment: &Moment) -> bool {
        for (name, value) in moment.fields() {
            self.add(name, value);
        }
        let queues: Vec<u64> = moment.procs.iter().map(|proc| proc.queue).collect();
        let ticks: Vec<u64> = moment.procs.iter().map(|proc| proc.sched_ticks).collect();
        self.add_procs(&queues, &ticks);
        true
    }

    /// Figures that had no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Every figure: those with names in the order in which they appeared, all rings together, then P
    /// by P.
    pub fn fields(&self) -> Vec<FieldSummary> {
        let mut fields: Vec<FieldSummary> = self
            .fields
            .iter()
            .map(|(name, sum)| sum.summary(name.clone()))
            .collect();
        if self.queues.lines > 0 {
            fields.push(self.queues.summary("queues".to_owned()));
        }
        let of_procs = self.by_proc.iter().enumerate();
        let queues = of_procs
            .clone()
            .map(|(proc, (queue, _))| (format!("queue[{proc}]"), queue));
        let ticks = of_procs.map(|(proc, (_, ticks))| (format!("schedticks[{proc}]"), ticks));
        for (name, sum) in queues.chain(ticks) {
            if sum.lines > 0 {
                fields.push(sum.summary(name));
            }
        }
        fields
    }
}

impl Moment {
    /// The figures that have names of their own, in the order of Go's line; those that the trace
    /// cannot tell are not there.
    pub fn fields(&self) -> Vec<(&'static str, u64)> {
        let mut fields = vec![
            ("gomaxprocs", self.procs.len() as u64),
            ("idleprocs", self.idle_procs),
            ("threads", self.threads),
        ];
        if let Some(spinning) = self.spinning {
            fields.push(("spinningthreads", spinning));
        }
        if let Some(idle) = self.idle_threads {
            fields.push(("idlethreads", idle));
        }
        fields.push(("runqueue", self.global_queue));
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_without_room_are_counted() {
        let mut summary = Summary::default();
        for number in 0..MOST_FIELDS + 3 {
            summary.add(&format!("f{number}"), 1);
        }
        summary.add_queue(MOST_PROCS, 1);
        summary.add_ticks(usize::MAX, 1);
        assert_eq!(summary.left_out(), 5);
        assert_eq!(summary.fields().len(), MOST_FIELDS);
    }

    #[test]
    fn the_mean_of_large_figures_is_right() {
        let mut summary = Summary::default();
        summary.add("x", u64::MAX);
        summary.add("x", u64::MAX - 2);
        let fields = summary.fields();
        assert_eq!((fields[0].min, fields[0].max), (u64::MAX - 2, u64::MAX));
        assert!((fields[0].mean / 1.844_674_407_370_955e19 - 1.0).abs() < 1e-9);
    }
}
