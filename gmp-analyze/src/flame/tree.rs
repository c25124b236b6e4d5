//! Stacks as a tree of named frames. Every walk is a loop: a stack may be as deep as it likes.

use crate::analysis::stacks::Amount;
use crate::machine::GoroutineState;
use gmp_trace::time::Nanos;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;

/// What a frame is. It decides the colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Class {
    /// A start function and where its goroutines were made.
    Group,
    /// A state of a goroutine, or what belongs to one.
    State(GoroutineState),
    /// A function of the program.
    Function,
    /// Something about the picture itself.
    Note,
}

/// What is weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Time in nanoseconds.
    Time,
    /// How often.
    Count,
}

/// The root of every stack: no frame of its own.
pub(super) const ROOT: u32 = 0;

#[derive(Clone, Debug)]
struct Node {
    parent: u32,
    name: u32,
    depth: u32,
    /// What ends here, of the trace and of the one that it is compared with.
    own: [Amount; 2],
}

/// Stacks as a tree. Memory is linear in distinct frames of distinct stacks.
#[derive(Clone, Debug)]
pub struct Tree {
    names: Vec<(String, Class)>,
    name_index: FxHashMap<String, u32>,
    nodes: Vec<Node>,
    children: FxHashMap<(u32, u32), u32>,
    deepest: u32,
    cut: u64,
}

/// What stands for frames that are deeper than the tree goes.
const DEEPER: &str = "(deeper frames)";

impl Tree {
    /// A tree without stacks. Frames beyond `depth` become one.
    pub fn new(depth: u32) -> Tree {
        let nothing = Amount::default();
        let root = Node {
            parent: ROOT,
            name: 0,
            depth: 0,
            own: [nothing; 2],
        };
        Tree {
            names: vec![(String::new(), Class::Note)],
            name_index: FxHashMap::default(),
            nodes: vec![root],
            children: FxHashMap::default(),
            deepest: depth.max(1),
            cut: 0,
        }
    }

    /// The number of the frame called `name`. A name that is met as several classes has the first.
    pub(super) fn name(&mut self, name: &str, class: Class) -> u32 {
        if let Some(&number) = self.name_index.get(name) {
            let known = &mut self.names[number as usize].1;
            *known = (*known).min(class);
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push((name.to_owned(), class));
        self.name_index.insert(name.to_owned(), number);
        number
    }

    /// The node of the frame called `name` (a number from [`Tree::name`]) upon `parent`.
    pub(super) fn enter(&mut self, parent: u32, name: u32) -> u32 {
        let depth = self.nodes[parent as usize].depth + 1;
        if depth > self.deepest {
            // The node itself stands for whatever is deeper.
            return parent;
        }
        let name = if depth == self.deepest {
            self.name(DEEPER, Class::Note)
        } else {
            name
        };
        if let Some(&node) = self.children.get(&(parent, name)) {
            return node;
        }
        let node = self.nodes.len() as u32;
        self.nodes.push(Node {
            parent,
            name,
            depth,
            own: [Amount::default(); 2],
        });
        self.children.insert((parent, name), node);
        node
    }

    /// Adds what ends at `node`, to the first or the second of the two that are compared.
    pub(super) fn add(&mut self, node: u32, amount: Amount, side: usize) {
        let entry = &mut self.nodes[node as usize];
        if entry.depth == self.deepest {
            self.cut += 1;
        }
        let own = &mut entry.own[side];
        own.time = own.time + amount.time;
        own.count = own.count.saturating_add(amount.count);
    }

    /// How many stacks had frames beyond the depth.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Everything together, of the trace and of the one that it is compared with.
    pub fn totals(&self, by: By) -> [u64; 2] {
        let mut totals = [0u64; 2];
        for node in &self.nodes {
            for (total, own) in totals.iter_mut().zip(node.own) {
                *total = total.saturating_add(weight(own, by));
            }
        }
        totals
    }

    /// The stacks that weigh something, each as its frames from the root on with the two weights, in
    /// the order of their frames' names: stacks that share frames are neighbours.
    pub(super) fn stacks(&self, by: By) -> Vec<(Vec<u32>, [u64; 2])> {
        let order = self.name_order();
        let mut stacks: Vec<(Vec<u32>, [u64; 2])> = Vec::new();
        for node in &self.nodes {
            let weights = node.own.map(|own| weight(own, by));
            if weights != [0, 0] && node.depth > 0 {
                stacks.push((self.path(node), weights));
            }
        }
        stacks.sort_by(|(a, _), (b, _)| compare(&order, a, b));
        stacks
    }

    fn path(&self, node: &Node) -> Vec<u32> {
        let mut path = Vec::with_capacity(node.depth as usize);
        let mut node = node;
        while node.depth > 0 {
            path.push(node.name);
            node = &self.nodes[node.parent as usize];
        }
        path.reverse();
        path
    }

    /// For each name its place among all names in the order of the alphabet.
    fn name_order(&self) -> Vec<u32> {
        let mut sorted: Vec<u32> = (0..self.names.len() as u32).collect();
        sorted.sort_by_key(|&name| &self.names[name as usize].0);
        let mut order = vec![0; sorted.len()];
        for (place, &name) in sorted.iter().enumerate() {
            order[name as usize] = place as u32;
        }
        order
    }

    /// The text of a frame.
    pub(super) fn text(&self, name: u32) -> &str {
        &self.names[name as usize].0
    }

    /// Every name but the root's, and its class.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, Class)> {
        let names = self.names.iter().skip(1);
        names.map(|(name, class)| (name.as_str(), *class))
    }
}

/// Nanoseconds, or how often. Time is never negative.
fn weight(amount: Amount, by: By) -> u64 {
    match by {
        By::Time => u64::try_from(amount.time.max(Nanos::ZERO).0).unwrap_or(0),
        By::Count => amount.count,
    }
}

fn compare(order: &[u32], a: &[u32], b: &[u32]) -> Ordering {
    let of = |name: &u32| order[*name as usize];
    a.iter().map(of).cmp(b.iter().map(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn once(time: i64) -> Amount {
        Amount {
            time: Nanos(time),
            count: 1,
        }
    }

    fn path(tree: &mut Tree, names: &[&str]) -> u32 {
        let mut node = ROOT;
        for name in names {
            let name = tree.name(name, Class::Function);
            node = tree.enter(node, name);
        }
        node
    }

    /// Sorted as lines, `a!` would come between `a` and `a;b`, and `a` would be drawn twice.
    #[test]
    fn stacks_that_share_frames_are_neighbours() {
        let mut tree = Tree::new(10);
        for names in [&["a"][..], &["a!", "z"], &["a", "b"], &["a", "b", "a"]] {
            let node = path(&mut tree, names);
            tree.add(node, once(5), 0);
        }
        let stacks = tree.stacks(By::Time);
        let texts: Vec<String> = stacks
            .iter()
            .map(|(names, _)| {
                let names: Vec<_> = names.iter().map(|&name| tree.text(name)).collect();
                names.join(";")
            })
            .collect();
        assert_eq!(texts, ["a", "a;b", "a;b;a", "a!;z"]);
        assert_eq!(tree.totals(By::Time), [20, 0]);
        assert_eq!(tree.totals(By::Count), [4, 0]);
    }

    #[test]
    fn deeper_frames_become_one_and_lose_nothing() {
        let mut tree = Tree::new(3);
        for names in [
            &["a", "b"][..],
            &["a", "b", "c"],
            &["a", "b", "c", "d", "e"],
        ] {
            let node = path(&mut tree, names);
            tree.add(node, once(1), 0);
        }
        let stacks = tree.stacks(By::Time);
        assert_eq!(stacks.len(), 2);
        assert_eq!(stacks[1].1, [2, 0]);
        assert_eq!(tree.text(stacks[1].0[2]), DEEPER);
        assert_eq!(tree.cut(), 2);
        assert_eq!(tree.totals(By::Count), [3, 0]);
    }

    #[test]
    fn a_hundred_thousand_frames() {
        let mut tree = Tree::new(u32::MAX);
        let names: Vec<String> = (0..1000).map(|n| format!("f{n}")).collect();
        let deep: Vec<&str> = names
            .iter()
            .cycle()
            .take(100_000)
            .map(String::as_str)
            .collect();
        let node = path(&mut tree, &deep);
        tree.add(node, once(7), 0);
        let stacks = tree.stacks(By::Time);
        assert_eq!(stacks[0].0.len(), 100_000);
        assert_eq!(tree.text(stacks[0].0[99_999]), "f999");
    }
}
