//! Finds a Go toolchain, builds the Go programs and starts them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::json;

use crate::child;
use crate::files;
use crate::rows::{Row, Work};

/// The Go programs, built.
#[derive(Debug)]
pub(crate) struct Toolchain {
    /// What `go version` says, without the words before the version.
    pub(crate) version: String,
    workloads: PathBuf,
    reader: PathBuf,
}

/// The toolchain of this machine, found and used once.
///
/// Fails with the reason for the table, every time the same, when there is none or a build fails.
pub(crate) fn toolchain() -> Result<&'static Toolchain, String> {
    static FOUND: OnceLock<Result<Toolchain, String>> = OnceLock::new();
    FOUND.get_or_init(build).as_ref().map_err(Clone::clone)
}

impl Toolchain {
    /// The command that does the work of `row`.
    pub(crate) fn workload(&self, row: &Row, operations: u64) -> Command {
        let (name, detail) = match row.work {
            Work::Yield => ("yield", Work::yielders(row.procs)),
            Work::Spawn { batch } => ("spawn", batch),
            Work::FanOut { batch } => ("fanout", batch),
            Work::PingPong => ("pingpong", 0),
            Work::Buffered { capacity } => ("bufchan", capacity),
            Work::Select => ("select", 0),
            Work::Mutex { goroutines } => ("mutex", goroutines),
            Work::Fib { n } => ("fib", n),
            Work::Echo { connections } => ("echo", connections),
            Work::Sleep { micros } => ("sleep", micros),
        };
        let mut command = Command::new(&self.workloads);
        command
            .args([name, &operations.to_string(), &detail.to_string()])
            .env("GOMAXPROCS", row.procs.to_string())
            .env_remove("GODEBUG")
            .env_remove("TRACE");
        command
    }

    /// The command that reads the trace at `path` with Go's own reader and counts its events.
    pub(crate) fn read(&self, path: &Path) -> Command {
        let mut command = Command::new(&self.reader);
        command.arg(path).env_remove("GOMAXPROCS");
        command
    }
}

/// Makes `command`, a workload, record itself into the file at `path`.
pub(crate) fn record(command: &mut Command, path: &Path) {
    command.env("TRACE", path);
}

fn build() -> Result<Toolchain, String> {
    let go = std::env::var_os("GO").unwrap_or_else(|| "go".into());
    let version = child::output_of(Command::new(&go).arg("version"))
        .map_err(|_| "Go not present (set GO, or put go into PATH)".to_owned())?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/go");
    let directory = files::directory()?;
    let workloads = directory.join("gobench");
    let reader = directory.join("goreader");

    let mut command = offline(&go);
    command
        .current_dir(&sources)
        .arg("build")
        .arg("-o")
        .arg(&workloads)
        .arg(".");
    child::output_of(&mut command).map_err(|error| format!("go build failed: {error}"))?;

    let overlay = write_overlay(&go, &sources, &directory)?;
    let mut command = offline(&go);
    command
        .args(["build", "-tags", "gmpreader", "-overlay"])
        .arg(overlay);
    command.arg("-o").arg(&reader).arg("cmd/gmpreader");
    child::output_of(&mut command)
        .map_err(|error| format!("go build of the reader failed: {error}"))?;

    Ok(Toolchain {
        version: version.trim().trim_start_matches("go version ").to_owned(),
        workloads,
        reader,
    })
}

/// The reader's package is private to Go's tree: this file makes our source appear inside it.
fn write_overlay(
    go: &std::ffi::OsStr,
    sources: &Path,
    directory: &Path,
) -> Result<PathBuf, String> {
    let root = child::output_of(Command::new(go).args(["env", "GOROOT"]))
        .map_err(|error| format!("go env GOROOT failed: {error}"))?;
    let place = Path::new(root.trim()).join("src/cmd/gmpreader/main.go");
    let source = sources.join("reader/main.go");
    let overlay = json!({ "Replace": { place.to_string_lossy(): source.to_string_lossy() } });
    let path = directory.join("overlay.json");
    std::fs::write(&path, overlay.to_string())
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(path)
}

/// The programs need nothing but Go itself, so a build that wants the network is a mistake.
fn offline(go: &std::ffi::OsStr) -> Command {
    let mut command = Command::new(go);
    command
        .env("GOTOOLCHAIN", "local")
        .env("GOPROXY", "off")
        .env("GOFLAGS", "")
        .env("GOWORK", "off");
    command
}
