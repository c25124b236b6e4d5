//! Go's own tools, where there is a Go toolchain: `go tool trace`, and the validator of Go's tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Programs of Go that were built for the tests.
#[derive(Debug)]
pub(crate) struct Tool {
    trace: PathBuf,
    validate: PathBuf,
    /// Inputs of the tests of Go's reader.
    pub(crate) testdata: PathBuf,
}

/// The tools; `None`, and said so, where there is no Go.
///
/// Go is the program that the variable `GO` names, else `go` of the path.
pub(crate) fn tool() -> Option<&'static Tool> {
    static TOOL: OnceLock<Option<Tool>> = OnceLock::new();
    let tool = TOOL.get_or_init(|| match build() {
        Ok(tool) => Some(tool),
        Err(why) => {
            eprintln!("no tools of Go ({why}): what they would say was not looked at; set GO");
            None
        }
    });
    tool.as_ref()
}

fn build() -> Result<Tool, String> {
    let go = std::env::var("GO").unwrap_or_else(|_| "go".to_owned());
    let root = run(Command::new(&go).args(["env", "GOROOT"]))?;
    let sources = Path::new(root.trim()).join("src/cmd");
    if !sources.join("../internal/trace/testtrace").is_dir() {
        return Err(format!("{} has no validator", sources.display()));
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    // As if it stood among the commands of Go, which alone may use the validator.
    let main = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go_support/validate.go");
    let overlay = folder.join(format!("overlay-{}.json", std::process::id()));
    let place = sources.join("gmpvalidate/main.go");
    let replace = format!("{{\"Replace\": {{{place:?}: {main:?}}}}}");
    std::fs::write(&overlay, replace).map_err(|error| error.to_string())?;
    let tool = Tool {
        trace: folder.join("trace"),
        validate: folder.join("validate"),
        testdata: sources.join("../internal/trace/testdata"),
    };
    for (package, program) in [("./trace", &tool.trace), ("./gmpvalidate", &tool.validate)] {
        let mut command = Command::new(&go);
        command
            .current_dir(&sources)
            .env("GOTOOLCHAIN", "local")
            .env("GOFLAGS", "")
            .env("GOCACHE", folder.join("cache"))
            .args(["build", "-overlay"])
            .arg(&overlay)
            .arg("-o")
            .arg(program)
            .arg(package);
        run(&mut command)?;
    }
    Ok(tool)
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(said),
    }
}

/// A file that goes with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(bytes: &[u8]) -> Scratch {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // ordering: only the number has to be new.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}.trace", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, bytes).expect("a file in the target directory");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Tool {
    /// What `go tool trace -d=parsed` prints, times from the first one on, clocks left out.
    pub(crate) fn parsed(&self, bytes: &[u8]) -> Vec<String> {
        let file = Scratch::new(bytes);
        let mut command = Command::new(&self.trace);
        let text = run(command.arg("-d=parsed").arg(&file.0)).expect("Go's tool prints it");
        let mut first = None;
        text.lines().map(|line| plain(line, &mut first)).collect()
    }

    /// As [`Tool::parsed`], each event with the lines that belong to it, without times and by thread: of
    /// events at one time Go takes any first.
    pub(crate) fn parsed_by_thread(&self, bytes: &[u8]) -> Vec<String> {
        let mut events: Vec<String> = Vec::new();
        for line in self.parsed(bytes) {
            let words = line.split(' ').filter(|word| !word.starts_with("Time="));
            let line = words.collect::<Vec<_>>().join(" ");
            match events.last_mut() {
                Some(event) if !line.starts_with("M=") => *event += &format!("\n{line}"),
                _ => events.push(line),
            }
        }
        let thread = |event: &String| event.split(' ').next().map(str::to_owned);
        events.sort_by_key(thread);
        events
    }

    /// What Go's reader says against a trace, if it does.
    pub(crate) fn refusal(&self, bytes: &[u8]) -> Option<String> {
        let file = Scratch::new(bytes);
        run(Command::new(&self.trace).arg("-d=parsed").arg(&file.0)).err()
    }

    /// The profile of kind `kind`, packed as Go writes it.
    pub(crate) fn profile(&self, kind: &str, bytes: &[u8]) -> Vec<u8> {
        let file = Scratch::new(bytes);
        let mut command = Command::new(&self.trace);
        let output = command
            .arg(format!("-pprof={kind}"))
            .arg(&file.0)
            .output()
            .expect("Go's tool");
        assert!(output.status.success(), "{kind}");
        output.stdout
    }

    /// How many events Go's validator sees.
    pub(crate) fn validate(&self, bytes: &[u8], what: &str) -> u64 {
        let file = Scratch::new(bytes);
        let said = run(Command::new(&self.validate).arg(&file.0));
        let said = said.unwrap_or_else(|error| panic!("{what}: {error}"));
        said.trim().parse().expect("a number")
    }
}

fn plain(line: &str, first: &mut Option<i64>) -> String {
    let line = match line.find(" Sync ") {
        Some(_) => line.split(" Trace=").next().unwrap_or(line),
        None => line,
    };
    let Some((before, rest)) = line.split_once(" Time=") else {
        return line.to_owned();
    };
    let end = rest.find(' ').unwrap_or(rest.len());
    let time: i64 = rest[..end].parse().expect("a time");
    let first = *first.get_or_insert(time);
    format!("{before} Time={}{}", time - first, &rest[end..])
}
