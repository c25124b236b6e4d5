//! Signals: alternate stacks, the handler of bad memory accesses, and writing from inside a handler.

use super::check;
use super::memory::Reservation;
use crate::prim::process_wide::{AtomicPtr, AtomicU32, Ordering};
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, PoisonError};

/// Bytes of an alternate stack: a handler that freezes a goroutine, formats a report or walks frames needs
/// room beyond the kernel's minimum, which alone is 11 kB where registers are wide.
pub(crate) const ALTERNATE_STACK_SIZE: usize = 64 << 10;

/// The stack on which the calling thread runs its signal handlers while this value lives.
///
/// Without it a handler for a stack overflow would run on the stack that has just overflowed.
#[derive(Debug)]
pub(crate) struct AlternateStack {
    /// Unmapped when it is out of use.
    _memory: Reservation,
    previous: libc::stack_t,
}

impl AlternateStack {
    /// Gives the calling thread an alternate stack of [`ALTERNATE_STACK_SIZE`] bytes above a guard page.
    ///
    /// Drop it on the same thread, which puts the previous one back.
    ///
    /// # Errors
    ///
    /// When there is no memory for it or the thread runs on an alternate stack right now.
    pub(crate) fn install() -> io::Result<AlternateStack> {
        let guard = super::memory::page_size();
        let memory = Reservation::reserve(guard + ALTERNATE_STACK_SIZE)?;
        // SAFETY: the first page is part of the reservation made above, and nothing is stored there.
        unsafe { super::memory::install_guard(memory.base(), guard)? };
        let wanted = libc::stack_t {
            ss_sp: memory.base().as_ptr().wrapping_add(guard).cast(),
            ss_flags: 0,
            ss_size: memory.len() - guard,
        };
        let mut previous = disabled_stack();
        // SAFETY: `wanted` describes memory that `memory` owns and that Drop takes out of use first.
        check(unsafe { libc::sigaltstack(&wanted, &mut previous) })?;
        Ok(AlternateStack {
            _memory: memory,
            previous,
        })
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        // SAFETY: the previous stack belongs to whoever installed it, and was valid when we replaced it.
        let result = unsafe { libc::sigaltstack(&self.previous, null_mut()) };
        if result != 0 {
            // Its owner unmapped it or it is too small by now: no alternate stack is the safe choice.
            // SAFETY: disabling touches no memory.
            unsafe { libc::sigaltstack(&disabled_stack(), null_mut()) };
        }
    }
}

fn disabled_stack() -> libc::stack_t {
    libc::stack_t {
        ss_sp: null_mut(),
        ss_flags: libc::SS_DISABLE,
        ss_size: 0,
    }
}

/// A memory access that the processor refused, as a handler sees it.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The address that was accessed; zero where the processor did not tell.
    pub(crate) address: usize,
    /// The stack pointer of the interrupted code; zero where the architecture is not known here.
    pub(crate) stack_pointer: usize,
}

/// Looks at a fault. It may end the process; when it returns, the previous handler gets the fault. It runs
/// on the alternate stack and may do only what is async-signal-safe.
pub(crate) type FaultHandler = fn(&Fault);

static HANDLER: AtomicPtr<()> = AtomicPtr::new(null_mut());
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());

/// Calls `handler` for every SIGSEGV of the process, before the handler that was there. Later calls replace
/// `handler` only.
///
/// # Errors
///
/// When the kernel refuses.
pub(crate) fn install_fault_handler(handler: FaultHandler) -> io::Result<()> {
    // ordering: AcqRel; the Release half pairs with the Acquire load in `on_fault`, the Acquire half with
    // an earlier call of this function.
    let first = HANDLER.swap(handler as *mut (), Ordering::AcqRel).is_null();
    if !first {
        return Ok(());
    }
    // SAFETY: all-zero is a valid `sigaction`: the default handler, no flags, an empty mask.
    let mut previous: Box<libc::sigaction> = Box::new(unsafe { std::mem::zeroed() });
    // SAFETY: a null new action only reads the present one into a value that is ours.
    check(unsafe { libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut *previous) })?;
    // ordering: Release; pairs with the Acquire load in `on_fault`. Never freed: a handler may run any time.
    PREVIOUS.store(Box::into_raw(previous), Ordering::Release);
    // SAFETY: all-zero is valid, as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_fault as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `on_fault` has the signature that SA_SIGINFO asks for and is async-signal-safe.
    check(unsafe { libc::sigaction(libc::SIGSEGV, &action, null_mut()) }).map(drop)
}

/// The handler in the kernel's calling convention.
extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: errno belongs to this thread; the interrupted code must find it as it left it.
    let errno = unsafe { *libc::__errno_location() };
    // ordering: Acquire; pairs with the swap in `install_fault_handler`.
    let handler = HANDLER.load(Ordering::Acquire);
    if !handler.is_null() {
        // SAFETY: the pointer was stored from a `FaultHandler` and from nothing else.
        let handler: FaultHandler = unsafe { std::mem::transmute(handler) };
        // SAFETY: the kernel passes a valid information block and context to an SA_SIGINFO handler.
        let fault = unsafe {
            Fault {
                address: if (*info).si_code > 0 {
                    (*info).si_addr() as usize
                } else {
                    0
                },
                stack_pointer: stack_pointer_of(context.cast()),
            }
        };
        handler(&fault);
    }
    call_previous(signal, info, context);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Hands a fault to the handler that was there before ours, or lets the default action happen.
fn call_previous(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // ordering: Acquire; pairs with the store in `install_fault_handler`.
    let Some(previous) = NonNull::new(PREVIOUS.load(Ordering::Acquire)) else {
        return;
    };
    // SAFETY: the value is written before it is published and never changed or freed.
    let previous = unsafe { previous.as_ref() };
    if !call_handler(previous, signal, info, context) {
        // The access is tried again when we return, and then kills the process as it would have
        // without us. (The kernel does not let a fault be ignored either.)
        // SAFETY: all-zero is a valid action: the default one.
        unsafe {
            let default: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, &default, null_mut());
        }
    }
}

/// Calls the handler of `action`; false if it has none.
fn call_handler(
    action: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) -> bool {
    match action.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => return false,
        handler if action.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: whoever installed it with SA_SIGINFO gave a function of this signature.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: whoever installed it without SA_SIGINFO gave a function of this signature.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
    true
}

/// The signal that asks a thread for its P, unless the program chooses another one (Go's).
pub(crate) const PREEMPTION: i32 = libc::SIGURG;

/// The largest number of a signal.
const LAST_SIGNAL: i32 = 64;

/// Whether a program can do without `signal`, so that it may ask threads for their Ps.
pub(crate) fn can_preempt(signal: i32) -> bool {
    const USED: [i32; 13] = [
        libc::SIGKILL,
        libc::SIGSTOP,
        libc::SIGCONT,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGSYS,
        libc::SIGQUIT,
        // The C library's own.
        32,
        33,
    ];
    (1..=LAST_SIGNAL).contains(&signal) && !USED.contains(&signal)
}

/// Looks at a signal; false if it is not one of the scheduler's. It runs on the alternate stack, may do only what is
/// async-signal-safe, and may take long.
pub(crate) type PreemptionHandler = fn() -> bool;

static PREEMPTION_HANDLER: AtomicPtr<()> = AtomicPtr::new(null_mut());
/// By the numbers of the signals.
static PREEMPTION_PREVIOUS: [AtomicPtr<libc::sigaction>; LAST_SIGNAL as usize + 1] =
    [const { AtomicPtr::new(null_mut()) }; LAST_SIGNAL as usize + 1];

/// Calls `handler`, the same for all signals, for every `signal` of the process, and the handler that was there for
/// those that are not its own. Interrupted system calls go on where the kernel can do that. Once for a signal is
/// enough; more do no harm.
///
/// # Errors
///
/// When the kernel refuses.
pub(crate) fn install_preemption(signal: i32, handler: PreemptionHandler) -> io::Result<()> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _one = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    // ordering: Release; pairs with the Acquire load in `on_preemption`.
    PREEMPTION_HANDLER.store(handler as *mut (), Ordering::Release);
    let place = &PREEMPTION_PREVIOUS[signal as usize];
    // ordering: Acquire; pairs with the store below.
    if !place.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    // SAFETY: all-zero is a valid `sigaction`.
    let mut previous: Box<libc::sigaction> = Box::new(unsafe { std::mem::zeroed() });
    // SAFETY: a null new action only reads the present one into a value that is ours.
    check(unsafe { libc::sigaction(signal, std::ptr::null(), &mut *previous) })?;
    // ordering: Release; pairs with the Acquire load in `on_preemption`. Never freed.
    place.store(Box::into_raw(previous), Ordering::Release);
    // SAFETY: all-zero is valid, as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_preemption as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: `on_preemption` has the signature that SA_SIGINFO asks for and is async-signal-safe.
    check(unsafe { libc::sigaction(signal, &action, null_mut()) }).map(drop)
}

extern "C" fn on_preemption(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: errno belongs to this thread; the interrupted code must find it as it left it.
    let errno = unsafe { *libc::__errno_location() };
    // ordering: Acquire; pairs with the store in `install_preemption`.
    let handler = PREEMPTION_HANDLER.load(Ordering::Acquire);
    // SAFETY: the pointer was stored from a `PreemptionHandler` and from nothing else.
    let handler: Option<PreemptionHandler> = unsafe { std::mem::transmute(handler) };
    if !handler.is_some_and(|handler| handler()) {
        // ordering: Acquire; pairs with the store in `install_preemption`.
        let previous = PREEMPTION_PREVIOUS[signal as usize].load(Ordering::Acquire);
        // SAFETY: null, or written before it was published, and never changed or freed.
        if let Some(previous) = unsafe { previous.as_ref() } {
            pass_on(previous, signal, info, context);
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Does what `signal` did before it was ours.
fn pass_on(
    previous: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let is_ignored = previous.sa_sigaction == libc::SIG_IGN
        || matches!(signal, libc::SIGURG | libc::SIGCHLD | libc::SIGWINCH);
    if !call_handler(previous, signal, info, context) && !is_ignored {
        // The default ends or stops the process, as soon as this handler has returned.
        // SAFETY: the action is the kernel's own default, and the signal goes to this thread.
        unsafe {
            libc::sigaction(signal, previous, null_mut());
            libc::raise(signal);
        }
    }
}

/// While this lives the calling thread takes one signal, whatever its creator blocked.
#[derive(Debug)]
pub(crate) struct Unblocked {
    signal: i32,
    /// Whether the signal is to be blocked again.
    was_blocked: bool,
}

impl Unblocked {
    pub(crate) fn new(signal: i32) -> Unblocked {
        Unblocked {
            signal,
            was_blocked: change_mask(libc::SIG_UNBLOCK, signal),
        }
    }
}

impl Drop for Unblocked {
    fn drop(&mut self) {
        if self.was_blocked {
            change_mask(libc::SIG_BLOCK, self.signal);
        }
    }
}

/// Blocks or unblocks the signal for the calling thread; whether it was blocked.
fn change_mask(how: libc::c_int, signal: i32) -> bool {
    // SAFETY: the sets are local variables, for which all-zero is valid.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(how, &set, &mut before);
        libc::sigismember(&before, signal) == 1
    }
}

/// # Safety
///
/// `context` is what the kernel passed to a handler.
unsafe fn stack_pointer_of(context: *const libc::ucontext_t) -> usize {
    // SAFETY: the caller's promise.
    let machine = unsafe { &(*context).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    return machine.gregs[libc::REG_RSP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    return machine.sp as usize;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = machine;
        0
    }
}

static QUIT_WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
static QUIT_BIT: AtomicU32 = AtomicU32::new(0);

/// From now on SIGQUIT sets `bit` in `word` and wakes whoever sleeps on it, once: the second one does what it
/// does by default. Where the program has a handler, or ignores the signal, nothing changes.
///
/// # Errors
///
/// When the kernel refuses.
pub(crate) fn wake_on_quit(word: &'static AtomicU32, bit: u32) -> io::Result<()> {
    // SAFETY: all-zero is a valid `sigaction`.
    let mut present: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only reads the present one into a local variable.
    check(unsafe { libc::sigaction(libc::SIGQUIT, std::ptr::null(), &mut present) })?;
    if present.sa_sigaction != libc::SIG_DFL {
        return Ok(());
    }
    // ordering: Release; pairs with the Acquire load in `on_quit`.
    QUIT_WORD.store(std::ptr::from_ref(word).cast_mut(), Ordering::Release);
    // ordering: Relaxed: the handler is installed after this.
    QUIT_BIT.store(bit, Ordering::Relaxed);
    // SAFETY: all-zero is valid, as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_quit as *const () as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK | libc::SA_RESETHAND;
    // SAFETY: `on_quit` has the signature of a handler and is async-signal-safe.
    check(unsafe { libc::sigaction(libc::SIGQUIT, &action, null_mut()) }).map(drop)
}

extern "C" fn on_quit(_signal: libc::c_int) {
    // SAFETY: errno belongs to this thread.
    let errno = unsafe { *libc::__errno_location() };
    // ordering: Acquire; pairs with the store in `wake_on_quit`.
    let word = QUIT_WORD.load(Ordering::Acquire);
    // SAFETY: null, or from a reference that lives as long as the process.
    if let Some(word) = unsafe { word.as_ref() } {
        // ordering: Release; pairs with the Acquire load of whoever sleeps on the word. Relaxed for the bit,
        // which was stored before this handler was installed.
        word.fetch_or(QUIT_BIT.load(Ordering::Relaxed), Ordering::Release);
        super::futex::wake_process_wide(word);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// SIGQUIT does again what it does by default, if it is still [`wake_on_quit`]'s.
pub(crate) fn stop_waking_on_quit() {
    // SAFETY: all-zero is a valid `sigaction`: the default one.
    let (mut present, default): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: both actions are local variables.
    unsafe {
        if libc::sigaction(libc::SIGQUIT, std::ptr::null(), &mut present) == 0
            && present.sa_sigaction == on_quit as *const () as usize
        {
            libc::sigaction(libc::SIGQUIT, &default, null_mut());
        }
    }
}

/// Sends SIGQUIT to the process.
pub(crate) fn raise_quit() {
    // SAFETY: numbers only.
    unsafe { libc::kill(libc::getpid(), libc::SIGQUIT) };
}

/// Writes all bytes to standard error as far as it takes them. Async-signal-safe; keeps `errno`.
pub(crate) fn write_stderr(mut bytes: &[u8]) {
    // SAFETY: errno belongs to this thread.
    let errno = unsafe { *libc::__errno_location() };
    while !bytes.is_empty() {
        // SAFETY: the pointer and length are those of a slice.
        let written =
            unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
        if written > 0 {
            bytes = bytes.get(written as usize..).unwrap_or_default();
        } else if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            break; // closed or full: there is no better place to say so
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Ends the process with SIGABRT, whoever handles or blocks it. Async-signal-safe.
pub(crate) fn abort() -> ! {
    // SAFETY: abort has no preconditions.
    unsafe { libc::abort() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_child;

    #[test]
    fn handlers_run_on_the_alternate_stack_and_the_previous_one_comes_back() {
        let current = || {
            let mut now = disabled_stack();
            // SAFETY: a null new stack only reads the present one.
            assert_eq!(unsafe { libc::sigaltstack(std::ptr::null(), &mut now) }, 0);
            now
        };
        let before = current();
        let stack = AlternateStack::install().unwrap();
        let during = current();
        assert_ne!(during.ss_sp, before.ss_sp);
        assert_eq!(during.ss_size, ALTERNATE_STACK_SIZE);
        drop(stack);
        let after = current();
        assert_eq!(
            (before.ss_sp, before.ss_flags),
            (after.ss_sp, after.ss_flags)
        );
    }

    #[test]
    fn a_fault_is_shown_to_the_handler_and_then_to_the_previous_one() {
        use crate::prim::process_wide::AtomicUsize;
        static PAGE: AtomicUsize = AtomicUsize::new(0);
        static SEEN: AtomicUsize = AtomicUsize::new(0);
        static PREVIOUS_SEEN: AtomicUsize = AtomicUsize::new(0);

        // The previous handler repairs the page, so that the access succeeds when it is tried again.
        extern "C" fn repair(_: libc::c_int) {
            // ordering: Relaxed; the same thread wrote and reads.
            let page = PAGE.load(Ordering::Relaxed);
            PREVIOUS_SEEN.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the test's own page.
            unsafe { libc::mprotect(page as *mut _, 4096, libc::PROT_READ | libc::PROT_WRITE) };
        }
        // In a process of its own: other tests have handlers too.
        const NAME: &str =
            "sys::signal::tests::a_fault_is_shown_to_the_handler_and_then_to_the_previous_one";
        if test_child::requested_case().is_none() {
            let output = test_child::run(NAME, "fault");
            assert!(output.status.success(), "{output:?}");
            assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
            return;
        }
        let page = Reservation::reserve(4096).unwrap();
        // ordering: Relaxed; the same thread reads, in its handlers.
        PAGE.store(page.base().as_ptr() as usize, Ordering::Relaxed);
        let value = std::thread::spawn(move || {
            // SAFETY: the action and the page are valid; the handler only calls mprotect.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = repair as *const () as usize;
                assert_eq!(libc::sigaction(libc::SIGSEGV, &action, null_mut()), 0);
                assert_eq!(
                    libc::mprotect(page.base().as_ptr().cast(), 4096, libc::PROT_NONE),
                    0
                );
            }
            install_fault_handler(|fault| {
                // ordering: Relaxed; as above.
                SEEN.store(fault.address, Ordering::Relaxed);
            })
            .unwrap();
            let _stack = AlternateStack::install().unwrap();
            // SAFETY: the page is ours; the fault is repaired by the handler.
            unsafe {
                page.base().write_volatile(3);
                page.base().read_volatile()
            }
        })
        .join()
        .unwrap();
        assert_eq!(value, 3);
        // ordering: Relaxed; the join ordered everything.
        assert_eq!(SEEN.load(Ordering::Relaxed), PAGE.load(Ordering::Relaxed));
        assert_eq!(PREVIOUS_SEEN.load(Ordering::Relaxed), 1);
    }
}
