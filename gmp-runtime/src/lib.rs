//! Goroutines for Rust: a stackful M:N scheduler with Go's design that records what it does.
