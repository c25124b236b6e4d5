//! Giving memory of stacks back to the system: what a suspended goroutine does not use, and free stacks.

use super::arena::{self, CLASSES, Stack};
use super::guard;
use super::pool::StackPool;
use crate::sys::memory;
use std::io;

/// Pages that are asked about at once: at least those of the largest stack.
const PAGES_AT_ONCE: usize = 16 << 10;

/// Free stacks that are outside the pool at once while their pages are given back.
const STACKS_AT_ONCE: usize = 32;

/// What was given back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Released {
    /// Pages of memory.
    pub(crate) pages: u64,
    /// Stacks that they were of.
    pub(crate) stacks: u64,
}

impl Released {
    pub(crate) fn add(&mut self, other: Released) {
        self.pages += other.pages;
        self.stacks += other.stacks;
    }
}

/// Gives memory back. Its room is taken when it is made; nothing here allocates.
#[derive(Debug)]
pub(crate) struct Releaser {
    pages: Box<[u8]>,
    page_size: usize,
}

impl Releaser {
    pub(crate) fn new() -> Releaser {
        Releaser {
            pages: vec![0; PAGES_AT_ONCE].into(),
            page_size: memory::page_size(),
        }
    }

    /// How many pages below `in_use` of the stack that it is inside of are in memory; none on a stack that is not
    /// ours. A snapshot.
    pub(crate) fn resident_below(&mut self, in_use: usize) -> u64 {
        let below = arena::stack_at(in_use).and_then(|stack| stack.pages_below(in_use));
        below.map_or(0, |(address, len)| self.resident(address, len))
    }

    fn resident(&mut self, address: std::ptr::NonNull<u8>, len: usize) -> u64 {
        memory::resident_pages(address, len, &mut self.pages).unwrap_or(0) as u64
    }

    /// Gives back the pages below `in_use` of the stack that it is inside of.
    ///
    /// # Errors
    /// When the kernel refuses, as for locked memory.
    ///
    /// # Safety
    /// `in_use` is the lowest address of the stack that anybody needs, and nobody runs there.
    pub(crate) unsafe fn release_below(in_use: usize) -> io::Result<()> {
        match arena::stack_at(in_use).and_then(|stack| stack.pages_below(in_use)) {
            // SAFETY: whole pages of the reservation, a private mapping; the caller's contract for the rest.
            Some((address, len)) => unsafe { memory::discard(address, len) },
            None => Ok(()),
        }
    }

    /// Gives back all pages of the stacks that are free in `pool`.
    pub(crate) fn trim(&mut self, pool: &StackPool) -> Released {
        let mut released = Released::default();
        for class in 0..CLASSES as u8 {
            released.add(self.trim_class(pool, class));
        }
        released
    }

    fn trim_class(&mut self, pool: &StackPool, class: u8) -> Released {
        let mut released = Released::default();
        let mut batch: [u32; STACKS_AT_ONCE] = [0; STACKS_AT_ONCE];
        // Those that come back meanwhile have just been used.
        let mut left = pool.used_and_free(class);
        while left > 0 {
            let most = left.min(STACKS_AT_ONCE);
            let taken = pool.take_to_trim(class, &mut batch[..most]);
            for &index in &batch[..taken] {
                released.add(self.empty(&Stack::new(class, index)));
            }
            pool.put_trimmed(class, &batch[..taken]);
            left = if taken < most { 0 } else { left - taken };
        }
        released
    }

    /// Gives back all pages of a stack that nobody has.
    fn empty(&mut self, stack: &Stack) -> Released {
        let (address, len) = stack.all_pages();
        let pages = self.resident(address, len);
        // SAFETY: whole pages of the reservation, of a stack that is outside the pool and nobody's.
        if pages == 0 || unsafe { memory::discard(address, len) }.is_err() {
            return Released::default();
        }
        Released { pages, stacks: 1 }
    }

    /// Bytes of all stacks of the process that are in memory. A snapshot.
    pub(crate) fn resident_stack_bytes(&mut self, pool: &StackPool) -> u64 {
        let mut pages = 0;
        for class in 0..CLASSES as u8 {
            let pages_each = arena::stride(class) / self.page_size;
            let guards = guard::size(class) / self.page_size;
            let at_once = (PAGES_AT_ONCE / pages_each).max(1) as u32;
            let made = pool.made(class);
            let mut index = 0;
            while index < made {
                let count = (made - index).min(at_once);
                let start = Stack::new(class, index).guard_start();
                let len = count as usize * arena::stride(class);
                if memory::resident_pages(start, len, &mut self.pages).is_some() {
                    let stacks = self.pages.chunks(pages_each).take(count as usize);
                    pages += stacks
                        .flat_map(|stack| stack.iter().skip(guards))
                        .map(|page| u64::from(page & 1))
                        .sum::<u64>();
                }
                index += count;
            }
        }
        pages * self.page_size as u64
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    // A class that no other test uses.
    const CLASS: u8 = 0;

    /// Touches every usable page of a stack.
    fn fill(stack: &Stack, value: u8) {
        // SAFETY: the stack is ours.
        unsafe { (stack.limit() as *mut u8).write_bytes(value, stack.top() - stack.limit()) };
    }

    fn byte(address: usize) -> u8 {
        // SAFETY: an address of a stack that a test has.
        unsafe { (address as *const u8).read() }
    }

    #[test]
    fn what_is_below_and_what_is_free_is_given_back_and_nothing_else() {
        let pool = StackPool::global().unwrap();
        let mut releaser = Releaser::new();
        let page = releaser.page_size;
        let stack = pool.take(CLASS).unwrap();
        let usable = (arena::stride(CLASS) - guard::size(CLASS)) / page;
        fill(&stack, 7);
        // In the middle of a page, five pages from the top.
        let in_use = (stack.top() & !(page - 1)) - 5 * page + 100;
        let below = ((in_use - stack.limit()) / page) as u64;
        assert!((4..usable as u64).contains(&below));
        assert_eq!(releaser.resident_below(in_use), below);
        // SAFETY: the test needs nothing below that address.
        unsafe { Releaser::release_below(in_use) }.unwrap();
        assert_eq!(releaser.resident_below(in_use), 0);
        assert!((in_use - 100..stack.top()).all(|address| byte(address) == 7));
        assert_eq!(byte(in_use - 101), 0);
        assert_eq!(byte(stack.limit()), 0);

        // An address of another stack: nothing to release.
        let local = 0_u8;
        assert_eq!(releaser.resident_below(&raw const local as usize), 0);

        let before = releaser.resident_stack_bytes(pool);
        fill(&stack, 8);
        let full = releaser.resident_stack_bytes(pool);
        // Two of these pages were read above. Other tests use stacks meanwhile, but give no memory back.
        let grown = (below - 2) * page as u64;
        assert!(full >= before + grown, "{before} {full}");

        let (low, top) = (stack.limit(), stack.top());
        pool.put(stack);
        let released = releaser.trim_class(pool, CLASS);
        assert!(released.pages >= usable as u64, "{released:?}");
        assert!(released.stacks >= 1);
        // It is still there to be used, once, and has nothing in it.
        let mut taken = Vec::new();
        let again = loop {
            let stack = pool.take(CLASS).unwrap();
            if stack.limit() == low {
                break stack;
            }
            taken.push(stack);
            assert!(taken.len() < 1000, "the stack is lost");
        };
        assert_eq!((byte(low), byte(top - 1)), (0, 0));
        let found = releaser.resident_below(top);
        assert!(found <= 2, "{found} pages are back");
        for stack in taken.into_iter().chain([again]) {
            pool.put(stack);
        }
    }
}
