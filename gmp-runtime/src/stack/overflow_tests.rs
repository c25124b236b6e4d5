//! Overflows in processes of their own: each case first shows that what it does needs more than the small
//! stack has, by doing it on a large one, and then does it on the small one.

#![cfg(not(loom))]

use super::guard::{self, GoroutineFacts, Teller};
use super::{Stack, StackPool};
use crate::sys::signal::{self, AlternateStack};
use crate::test_child;
use corosensei::stack::{Stack as CorosenseiStack, StackPointer};
use std::hint::black_box;
use std::panic::Location;

const SMALL: u8 = 0;
const LARGE: u8 = 7;
const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;

/// What stands for a goroutine in these tests.
struct Goroutine {
    id: u64,
    created_at: &'static Location<'static>,
}

fn describe(goroutine: *mut ()) -> GoroutineFacts {
    // SAFETY: `run_on` put a pointer to a leaked `Goroutine` into the slot.
    let goroutine = unsafe { &*goroutine.cast::<Goroutine>() };
    GoroutineFacts {
        id: goroutine.id,
        created_at: Some(goroutine.created_at),
        created_by: Some(1),
    }
}

struct Borrowed<'a>(&'a Stack);

// SAFETY: the stack is aligned, guarded and used by one thread at a time.
unsafe impl CorosenseiStack for Borrowed<'_> {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.0.top()).unwrap()
    }
    fn limit(&self) -> StackPointer {
        StackPointer::new(self.0.limit()).unwrap()
    }
}

/// Runs `work` on a stack of `class`; the work is told the stack and returns the lowest address it used.
/// The result is how many bytes of stack that were.
fn run_on(class: u8, work: fn(&Stack) -> usize) -> usize {
    let stack = StackPool::global().unwrap().take(class).unwrap();
    let goroutine = Box::leak(Box::new(Goroutine {
        id: 17,
        created_at: Location::caller(),
    }));
    // ordering: Release; pairs with the Acquire load of the fault handler.
    stack.slot().store(
        (&raw mut *goroutine).cast(),
        crate::prim::process_wide::Ordering::Release,
    );
    let lowest = corosensei::on_stack(Borrowed(&stack), || work(&stack));
    stack.top() - lowest
}

fn address_of<T: ?Sized>(value: &T) -> usize {
    (&raw const *value).cast::<u8>() as usize
}

#[inline(never)]
fn recurse(depth: usize) -> usize {
    let mut frame = [0_u8; 256];
    black_box(&mut frame);
    if depth == 0 {
        return address_of(&frame);
    }
    let lowest = recurse(depth - 1);
    black_box(&mut frame);
    lowest
}

fn recursion(_: &Stack) -> usize {
    recurse(1000)
}

fn large_array(_: &Stack) -> usize {
    #[inline(never)]
    fn with_array() -> usize {
        let mut array = [0_u8; 100 << 10];
        black_box(&mut array);
        address_of(&array)
    }
    with_array()
}

/// A call into C near the end of the small stack: Rust's frames fit (said on standard error just before),
/// what the C library's formatting needs does not.
fn inside_libc(stack: &Stack) -> usize {
    #[inline(never)]
    fn format() -> libc::c_int {
        let mut text = [0_u8; 64];
        let len = text.len();
        // SAFETY: the buffer has the length given, and the format takes one double.
        unsafe { libc::snprintf(text.as_mut_ptr().cast(), len, c"%.400f".as_ptr(), 1e300_f64) }
    }
    #[inline(never)]
    fn descend(until: usize) -> usize {
        let mut frame = [0_u8; 64];
        black_box(&mut frame);
        if address_of(&frame) <= until {
            signal::write_stderr(b"calling\n");
            assert!(format() > 400);
            return address_of(&frame);
        }
        let lowest = descend(until);
        black_box(&mut frame);
        lowest
    }
    // On the large stack this leaves room for the call at the depth that ends the small one.
    let small_size = super::arena::stride(SMALL) - guard::size(SMALL) - 31 * 64;
    let depth = small_size.min(stack.size()) - 1500;
    descend(stack.top() - depth)
}

/// The child's side: the same work on a large stack, then on a small one.
fn overflow(work: fn(&Stack) -> usize) {
    let needed = run_on(LARGE, work);
    eprintln!("needed {needed}");
    run_on(SMALL, work);
    eprintln!("survived");
}

fn wild_access(_: &Stack) -> usize {
    // SAFETY: none: the access faults, which is the case. Page zero is never mapped.
    unsafe { black_box(8 as *mut u8).write_volatile(1) };
    0
}

fn access_to_another_guard(_: &Stack) -> usize {
    let other = StackPool::global().unwrap().take(SMALL).unwrap();
    // SAFETY: none: the access faults, which is the case.
    unsafe { black_box((other.limit() - 64) as *mut u8).write_volatile(1) };
    0
}

fn child(case: &str) {
    guard::report_overflows(&Teller {
        describe,
        print_all: |_| signal::write_stderr(b"all goroutines\n"),
    })
    .unwrap();
    let alternate = AlternateStack::install().unwrap();
    match case {
        "recursion" => overflow(recursion),
        "large array" => overflow(large_array),
        "inside libc" => overflow(inside_libc),
        "wild access" => drop(run_on(SMALL, wild_access)),
        "another guard" => drop(run_on(SMALL, access_to_another_guard)),
        _ => unreachable!("{case}"),
    }
    drop(alternate);
}

fn run(case: &str) -> (Option<i32>, String) {
    let output = test_child::run("stack::overflow_tests::an_overflow_is_reported", case);
    (test_child::signal(&output), test_child::stderr(&output))
}

#[test]
fn an_overflow_is_reported() {
    if let Some(case) = test_child::requested_case() {
        return child(&case);
    }
    let small_size = super::arena::stride(SMALL) - guard::size(SMALL);
    for (case, least) in [
        ("recursion", 200_000),
        ("large array", 100_000),
        ("inside libc", 44_000),
    ] {
        let (signal, text) = run(case);
        assert_eq!(signal, Some(SIGABRT), "{case}: {text}");
        let needed: usize = text
            .lines()
            .find_map(|line| line.strip_prefix("needed "))
            .unwrap_or_else(|| panic!("{case} does not run on a large stack: {text}"))
            .parse()
            .unwrap();
        assert!(
            needed > least,
            "{case} needs {needed} bytes, the small stack has {small_size}"
        );
        if case == "inside libc" {
            // Rust's part fits the small stack: the fault is in the call.
            assert!(needed < small_size - 512, "{needed}");
            assert_eq!(text.matches("calling\n").count(), 2, "{text}");
        }
        assert!(!text.contains("survived"), "{text}");
        assert!(
            text.contains("stack of goroutine 17 exceeds its limit of "),
            "{text}"
        );
        assert!(
            text.ends_with("\nfatal error: stack overflow\n\nall goroutines\n"),
            "{text}"
        );
        assert!(
            text.contains("created at gmp-runtime/src/stack/overflow_tests.rs:"),
            "{text}"
        );
        assert!(text.contains(" by goroutine 1\n"), "{text}");
    }
}

#[test]
fn another_fault_is_not_called_an_overflow() {
    for case in ["wild access", "another guard"] {
        let (signal, text) = run(case);
        assert_eq!(signal, Some(SIGSEGV), "{case}: {text}");
        assert!(!text.contains("overflow"), "{case}: {text}");
    }
}
