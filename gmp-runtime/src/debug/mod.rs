pub(crate) mod config;
pub(crate) mod schedtrace;
