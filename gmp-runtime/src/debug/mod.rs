pub(crate) mod config;
pub(crate) mod dump;
pub(crate) mod schedtrace;
