//! The macro `select!`.

/// Waits for one of several channel operations, and does the one that is possible first; where several
/// are, a random one.
///
/// ```text
/// select! {
///     recv(receiver) -> result => expression,        // result: Result<T, RecvError>
///     send(sender, value) -> result => expression,   // result: Result<(), SendError<T>>
///     default => expression,                         // at the end: do not wait
///     timeout(duration) => expression,               // or: wait at most so long
/// }
/// ```
///
/// There can be any number of `recv` and `send` cases, in any order. The ends of channels, values and the
/// duration are evaluated once, in order, before anything else. A value whose case is not done is dropped.
/// A comma after a block can be left out. Without cases it waits for ever.
///
/// Blocks the goroutine (reason `select`), not its thread.
///
/// # Panics
/// If it would have to wait on a thread that runs no goroutine.
///
/// # Examples
/// ```
/// # use std::time::Duration;
/// # let runtime = gmp_runtime::Runtime::builder().procs(1).build()?;
/// // SAFETY: nothing in here keeps a reference into a thread-local across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         let (numbers, receiver) = gmp_runtime::channel::<u32>(0);
///         let (words, other) = gmp_runtime::channel::<&str>(1);
///         gmp_runtime::go(move || numbers.send(7));
///         let got = gmp_runtime::select! {
///             recv(receiver) -> number => format!("a number: {number:?}"),
///             recv(other) -> word => format!("a word: {word:?}"),
///             timeout(Duration::from_secs(5)) => "nothing".to_owned(),
///         };
///         assert_eq!(got, "a number: Ok(7)");
///         let sent = gmp_runtime::select! {
///             send(words, "hello") -> sent => sent.is_ok(),
///             default => false,
///         };
///         assert!(sent);
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
#[macro_export]
macro_rules! select {
    ($($tokens:tt)*) => {
        $crate::__select!(@cases [] $($tokens)*)
    };
}

/// Collects the cases of [`select!`], then expands them. Each case gets a variable of its own: they have
/// the same name and are different, because each comes from another step.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    // A case with a block.
    (@cases [$($done:tt)*] recv($receiver:expr) -> $result:pat => $body:block, $($rest:tt)*) => {
        $crate::__select!(@cases [$($done)* (case ($crate::select::expansion::ReceiveCase::new(&$receiver)) $result, $body)] $($rest)*)
    };
    (@cases [$($done:tt)*] recv($receiver:expr) -> $result:pat => $body:block $($rest:tt)*) => {
        $crate::__select!(@cases [$($done)* (case ($crate::select::expansion::ReceiveCase::new(&$receiver)) $result, $body)] $($rest)*)
    };
    (@cases [$($done:tt)*] send($sender:expr, $value:expr) -> $result:pat => $body:block, $($rest:tt)*) => {
        $crate::__select!(@cases [$($done)* (case ($crate::select::expansion::SendCase::new(&$sender, $value)) $result, $body)] $($rest)*)
    };
    (@cases [$($done:tt)*] send($sender:expr, $value:expr) -> $result:pat => $body:block $($rest:tt)*) => {
        $crate::__select!(@cases [$($done)* (case ($crate::select::expansion::SendCase::new(&$sender, $value)) $result, $body)] $($rest)*)
    };
    // A case with an expression.
    (@cases [$($done:tt)*] recv($receiver:expr) -> $result:pat => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!(@cases [$($done)* (case ($crate::select::expansion::ReceiveCase::new(&$receiver)) $result, $body)] $($($rest)*)?)
    };
    (@cases [$($done:tt)*] send($sender:expr, $value:expr) -> $result:pat => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!(@cases [$($done)* (case ($crate::select::expansion::SendCase::new(&$sender, $value)) $result, $body)] $($($rest)*)?)
    };
    // The end.
    (@cases [$($done:tt)*] default => $body:expr $(,)?) => {
        $crate::__select!(@expand [$($done)*] ($crate::select::expansion::Until::Now) $body)
    };
    (@cases [$($done:tt)*] timeout($duration:expr) => $body:expr $(,)?) => {
        $crate::__select!(@expand [$($done)*] ($crate::select::expansion::Until::Timeout($duration)) $body)
    };
    (@cases [$($done:tt)*]) => {
        $crate::__select!(@expand [$($done)*] ($crate::select::expansion::Until::Done) ::core::unreachable!("a select without a deadline ends with a case"))
    };
    (@expand [$(($case:ident ($new:expr) $result:pat, $body:expr))*] ($until:expr) $otherwise:expr) => {{
        $(let mut $case = $new;)*
        let done = $crate::select::expansion::run(
            &mut [$(&mut $case as &mut dyn $crate::select::expansion::Case),*],
            $until,
        );
        $crate::__select!(@arms done [0usize] ($otherwise) $(($case $result, $body))*)
    }};
    // One case after the other: `if` and `else`, so that a case can leave a loop around the select.
    (@arms $done:ident [$index:expr] ($otherwise:expr)) => {{
        let _ = $done;
        $otherwise
    }};
    (@arms $done:ident [$index:expr] ($otherwise:expr) ($case:ident $result:pat, $body:expr) $($rest:tt)*) => {
        if $done == ::core::option::Option::Some($index) {
            let $result = $case.finish();
            $body
        } else {
            $crate::__select!(@arms $done [$index + 1] ($otherwise) $($rest)*)
        }
    };
}
