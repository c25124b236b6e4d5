//! Both backends against the contract, without a scheduler.

use std::cell::Cell;
use std::ptr;

use super::*;

const STACK: usize = 256 * 1024;

/// A stack of the heap: enough for a test of the switch.
struct TestStack(*mut u8);

impl TestStack {
    fn new() -> TestStack {
        // SAFETY: the layout is not empty.
        TestStack(unsafe { std::alloc::alloc(Self::layout()) })
    }

    fn layout() -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(STACK, 4096).unwrap()
    }

    fn top(&self) -> *mut u8 {
        self.0.wrapping_add(STACK)
    }
}

impl Drop for TestStack {
    fn drop(&mut self) {
        // SAFETY: from `alloc` with this layout.
        unsafe { std::alloc::dealloc(self.0, Self::layout()) }
    }
}

/// What the flows of control of one test share.
struct Shared {
    scheduler: Context,
    a: Context,
    b: Context,
    log: std::cell::RefCell<Vec<&'static str>>,
    count: Cell<u64>,
}

thread_local! {
    static SHARED: Cell<*const Shared> = const { Cell::new(ptr::null()) };
}

#[inline(never)]
fn shared() -> &'static Shared {
    // SAFETY: set by the test that is running on this thread, whose frame holds the value.
    SHARED.with(|s| unsafe { &*s.get() })
}

extern "C" fn run_a() -> ! {
    let s = shared();
    s.log.borrow_mut().push("a begins");
    // SAFETY: a runs; b is prepared; the M waits in `enter`.
    unsafe { switch(&s.a, &s.b) };
    s.log.borrow_mut().push("a again");
    let caught = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(7u32)));
    assert_eq!(*caught.unwrap_err().downcast::<u32>().unwrap(), 7);
    // SAFETY: as above.
    unsafe { back(&s.a, &s.scheduler) };
    s.log.borrow_mut().push("a ends");
    // SAFETY: as above.
    unsafe { leave(&s.a, &s.b) }
}

extern "C" fn run_b() -> ! {
    let s = shared();
    s.log.borrow_mut().push("b begins");
    // SAFETY: b runs; a is suspended.
    unsafe { switch(&s.b, &s.a) };
    s.log.borrow_mut().push("b ends");
    // SAFETY: b runs; the M waits in `enter`.
    unsafe { leave_to_scheduler(&s.b, &s.scheduler) }
}

#[test]
fn control_goes_where_the_contract_says() {
    let (stack_a, stack_b) = (TestStack::new(), TestStack::new());
    let shared = Shared {
        scheduler: Context::new(),
        a: Context::new(),
        b: Context::new(),
        log: Default::default(),
        count: Cell::new(0),
    };
    SHARED.with(|s| s.set(&raw const shared));
    // SAFETY: the stacks are fresh and live to the end of the test; each context is entered while it
    // is suspended.
    unsafe {
        shared.a.prepare(stack_a.top(), stack_a.0, run_a);
        shared.b.prepare(stack_b.top(), stack_b.0, run_b);
        enter(&shared.scheduler, &shared.a);
        shared.log.borrow_mut().push("scheduler");
        enter(&shared.scheduler, &shared.a);
    }
    let log = shared.log.borrow();
    let expected = [
        "a begins",
        "b begins",
        "a again",
        "scheduler",
        "a ends",
        "b ends",
    ];
    assert_eq!(*log, expected);
    // The coroutines have not returned; with the portable backend dropping one would unwind a stack
    // that has ended.
    drop(log);
    std::mem::forget(shared);
}

extern "C" fn count_a() -> ! {
    let s = shared();
    // Values that live across the switch, integer and floating point.
    let mut sum = 0u64;
    let mut scale = 1.0f64;
    for i in 0..10_000u64 {
        sum += i;
        scale += 0.5;
        // SAFETY: a runs; b is prepared or suspended in `count_b`.
        unsafe { switch(&s.a, &s.b) };
    }
    assert_eq!(sum, 10_000 * 9_999 / 2);
    assert_eq!(scale, 5_001.0);
    // SAFETY: the M waits in `enter`.
    unsafe { leave_to_scheduler(&s.a, &s.scheduler) }
}

extern "C" fn count_b() -> ! {
    let s = shared();
    loop {
        s.count.set(s.count.get() + 1);
        // SAFETY: b runs; a is suspended in `count_a`.
        unsafe { switch(&s.b, &s.a) };
    }
}

#[test]
fn values_survive_many_switches() {
    let (stack_a, stack_b) = (TestStack::new(), TestStack::new());
    let shared = Shared {
        scheduler: Context::new(),
        a: Context::new(),
        b: Context::new(),
        log: Default::default(),
        count: Cell::new(0),
    };
    SHARED.with(|s| s.set(&raw const shared));
    // SAFETY: as in the test above.
    unsafe {
        shared.a.prepare(stack_a.top(), stack_a.0, count_a);
        shared.b.prepare(stack_b.top(), stack_b.0, count_b);
        enter(&shared.scheduler, &shared.a);
    }
    assert_eq!(shared.count.get(), 10_000);
    std::mem::forget(shared);
}

extern "C" fn place_a() -> ! {
    let s = shared();
    let local = 0_u8;
    s.count.set(&raw const local as u64);
    assert_eq!(s.a.in_use_from(), None, "it runs");
    // SAFETY: a runs; b is prepared.
    unsafe { switch(&s.a, &s.b) };
    unreachable!("nobody comes back")
}

extern "C" fn place_b() -> ! {
    let s = shared();
    if !cfg!(any(gmp_portable_switch, not(target_arch = "x86_64"))) {
        // The trampoline of the portable backend fills the place before it resumes b.
        assert!(s.a.in_use_from().is_some(), "a was left");
    }
    assert_eq!(s.b.in_use_from(), None, "it runs");
    // SAFETY: b runs; the M waits in `enter`.
    unsafe { back(&s.b, &s.scheduler) };
    unreachable!("nobody comes back")
}

#[test]
fn a_suspended_stack_is_in_use_down_to_its_place() {
    let (stack_a, stack_b) = (TestStack::new(), TestStack::new());
    let shared = Shared {
        scheduler: Context::new(),
        a: Context::new(),
        b: Context::new(),
        log: Default::default(),
        count: Cell::new(0),
    };
    assert_eq!(shared.a.in_use_from(), None, "nothing is suspended there");
    SHARED.with(|s| s.set(&raw const shared));
    // SAFETY: as in the tests above.
    unsafe {
        shared.a.prepare(stack_a.top(), stack_a.0, place_a);
        shared.b.prepare(stack_b.top(), stack_b.0, place_b);
        enter(&shared.scheduler, &shared.a);
    }
    let local = shared.count.get() as usize;
    for (context, stack, local) in [
        (&shared.a, &stack_a, local),
        (&shared.b, &stack_b, stack_b.top() as usize),
    ] {
        let place = context.in_use_from().unwrap();
        assert!(place > stack.0 as usize && place < local, "{place:#x}");
        // A small frame: what is reported in use is not the whole stack either.
        assert!(stack.top() as usize - place < 16 << 10, "{place:#x}");
    }
    std::mem::forget(shared);
}

extern "C" fn backtrace_a() -> ! {
    let s = shared();
    let trace = std::backtrace::Backtrace::force_capture().to_string();
    assert!(
        trace.contains("backtrace_a"),
        "the goroutine's own frame is there:\n{trace}"
    );
    assert!(
        !trace.contains("a_backtrace_ends_at_the_entry"),
        "the host is not:\n{trace}"
    );
    s.count.set(1);
    // SAFETY: the M waits in `enter`.
    unsafe { leave_to_scheduler(&s.a, &s.scheduler) }
}

#[test]
fn a_backtrace_ends_at_the_entry() {
    // corosensei links the goroutine's stack to the one that resumed it, by design.
    if cfg!(any(gmp_portable_switch, not(target_arch = "x86_64"))) {
        return;
    }
    let stack = TestStack::new();
    let shared = Shared {
        scheduler: Context::new(),
        a: Context::new(),
        b: Context::new(),
        log: Default::default(),
        count: Cell::new(0),
    };
    SHARED.with(|s| s.set(&raw const shared));
    // SAFETY: as in the tests above.
    unsafe {
        shared.a.prepare(stack.top(), stack.0, backtrace_a);
        enter(&shared.scheduler, &shared.a);
    }
    assert_eq!(shared.count.get(), 1);
    std::mem::forget(shared);
}
