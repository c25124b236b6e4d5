//! Captured `SCHED` lines, of Go or of ours, in each of their shapes, among whatever else the program
//! printed.
//!
//! | shape | what it has |
//! |---|---|
//! | old | no `needspinning`, no `schedticks`; queues as `[0 3]` |
//! | newer | `needspinning` |
//! | newest | `needspinning` and `schedticks=[ … ]` |
//! | detailed | no queues; a line for each P, M and G follows |

use super::summary::Summary;

/// What stands at the begin of every line.
const MARK: &str = "SCHED ";

/// One captured line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedLine<'a> {
    /// Milliseconds since the program began to print.
    pub ms: u64,
    /// Figures with their names, in the order of the line; `true` is 1, `false` is 0.
    pub fields: Vec<(&'a str, u64)>,
    /// Lengths of the Ps' queues.
    pub queues: Vec<u64>,
    /// Time slices of the Ps.
    pub sched_ticks: Vec<u64>,
}

impl<'a> CapturedLine<'a> {
    /// The line, which may have something before `SCHED`; `None` where there is no `SCHED` with a
    /// time in it.
    ///
    /// # Errors
    ///
    /// When the line is cut, or garbled by what other threads printed.
    pub fn parse(line: &'a str) -> Option<Result<CapturedLine<'a>, Garbled>> {
        let place = line.find(MARK)?;
        let (ms, rest) = line[place + MARK.len()..].split_once("ms: ")?;
        let ms = ms.parse().ok()?;
        Some(Self::fields(ms, rest))
    }

    fn fields(ms: u64, rest: &'a str) -> Result<CapturedLine<'a>, Garbled> {
        let mut line = CapturedLine {
            ms,
            fields: Vec::new(),
            queues: Vec::new(),
            sched_ticks: Vec::new(),
        };
        let mut rest = rest.trim();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                rest = numbers(after, &mut line.queues)?;
            } else if let Some(after) = rest.strip_prefix("schedticks=[") {
                rest = numbers(after, &mut line.sched_ticks)?;
            } else {
                let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
                line.fields.push(field(word)?);
                rest = after;
            }
            rest = rest.trim_start();
        }
        // The detailed form has more fields, the others have queues: without either the line was cut.
        let is_whole = !line.queues.is_empty() || line.get("gcwaiting").is_some();
        if is_whole && line.get("gomaxprocs").is_some() {
            Ok(line)
        } else {
            Err(Garbled)
        }
    }

    /// The figure called `name`.
    pub fn get(&self, name: &str) -> Option<u64> {
        let field = self.fields.iter().find(|(field, _)| *field == name);
        field.map(|(_, value)| *value)
    }
}

/// A line that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbled;

fn field(word: &str) -> Result<(&str, u64), Garbled> {
    let (name, value) = word.split_once('=').ok_or(Garbled)?;
    let value = match value {
        "true" => 1,
        "false" => 0,
        value => value.parse().map_err(|_| Garbled)?,
    };
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase());
    if is_name {
        Ok((name, value))
    } else {
        Err(Garbled)
    }
}

/// Numbers up to `]`; what comes after it.
fn numbers<'a>(text: &'a str, numbers: &mut Vec<u64>) -> Result<&'a str, Garbled> {
    let (inside, after) = text.split_once(']').ok_or(Garbled)?;
    for number in inside.split_ascii_whitespace() {
        numbers.push(number.parse().map_err(|_| Garbled)?);
    }
    Ok(after)
}

/// Everything that a text with captured lines says.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// The figures.
    pub summary: Summary,
    /// Lines of the text, of any kind.
    pub lines: u64,
    /// `SCHED` lines that could be used.
    pub sched_lines: u64,
    /// Lines about one P, M or G that belong to detailed lines.
    pub detail_lines: u64,
    /// `SCHED` lines that are cut or garbled.
    pub garbled: u64,
    /// The number of the first of those, from 1.
    pub first_garbled: Option<u64>,
    /// Lines whose time is earlier than that of the line before: of another program, or of another
    /// run.
    pub restarts: u64,
    /// The time of the first and the last line.
    pub between_ms: Option<(u64, u64)>,
    in_detail: bool,
}

impl Captured {
    /// One more line, without its end.
    pub fn line(&mut self, line: &str) {
        self.lines += 1;
        match CapturedLine::parse(line) {
            Some(Ok(sched)) => self.sched(&sched),
            Some(Err(Garbled)) => {
                self.garbled += 1;
                self.first_garbled.get_or_insert(self.lines);
                self.in_detail = false;
            }
            None if self.in_detail && is_detail(line) => {
                self.detail_lines += 1;
                self.detail(line);
            }
            None => {}
        }
    }

    fn sched(&mut self, line: &CapturedLine<'_>) {
        self.sched_lines += 1;
        self.in_detail = line.queues.is_empty();
        let (first, last) = self.between_ms.unwrap_or((line.ms, line.ms));
        self.restarts += u64::from(line.ms < last);
        self.between_ms = Some((first, line.ms));
        for &(name, value) in &line.fields {
            self.summary.add(name, value);
        }
        self.summary.add_procs(&line.queues, &line.sched_ticks);
    }

    /// The queue of a P is in the line of the P.
    fn detail(&mut self, line: &str) {
        let Some((proc, rest)) = line.trim_start().split_once(": ") else {
            return;
        };
        let Some(Ok(proc)) = proc.strip_prefix('P').map(str::parse::<usize>) else {
            return;
        };
        for word in rest.split_ascii_whitespace() {
            match field(word) {
                Ok(("runqsize", value)) => self.summary.add_queue(proc, value),
                Ok(("schedtick", value)) => self.summary.add_ticks(proc, value),
                _ => {}
            }
        }
    }
}

/// True for `  P0: …`, `  M12: …`, `  G7: …`.
fn is_detail(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("  ") else {
        return false;
    };
    let Some((name, _)) = rest.split_once(": ") else {
        return false;
    };
    let digits = name.strip_prefix(['P', 'M', 'G']);
    digits.is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> CapturedLine<'_> {
        CapturedLine::parse(line).expect("SCHED").expect("whole")
    }

    #[test]
    fn every_shape_of_the_line() {
        let old = "SCHED 0ms: gomaxprocs=2 idleprocs=1 threads=5 spinningthreads=0 idlethreads=3 \
                   runqueue=0 [0 3]";
        let newer = "SCHED 1003ms: gomaxprocs=2 idleprocs=1 threads=5 spinningthreads=0 \
                     needspinning=1 idlethreads=3 runqueue=7 [0 3]";
        let newest = "SCHED 2004ms: gomaxprocs=2 idleprocs=0 threads=5 spinningthreads=1 \
                      needspinning=0 idlethreads=2 runqueue=1 [ 4 0 ] schedticks=[ 41 4294967295 ]";
        assert_eq!(parsed(old).get("needspinning"), None);
        assert_eq!((parsed(old).queues, parsed(old).ms), (vec![0, 3], 0));
        assert_eq!(parsed(newer).get("needspinning"), Some(1));
        assert_eq!(parsed(newest).sched_ticks, [41, 4_294_967_295]);
        assert_eq!(parsed(newest).fields.len(), 7);
        let detailed = "SCHED 5ms: gomaxprocs=1 idleprocs=0 threads=3 spinningthreads=0 \
                        needspinning=0 idlethreads=1 runqueue=2 gcwaiting=true nmidlelocked=0 \
                        stopwait=0 sysmonwait=false";
        assert_eq!(parsed(detailed).get("gcwaiting"), Some(1));
        assert!(parsed(detailed).queues.is_empty());
    }

    #[test]
    fn what_stands_around_a_line_is_no_matter() {
        let line = "2026-01-02T03:04:05Z app[7]: SCHED 9ms: gomaxprocs=1 runqueue=0 [ 0 ]\r";
        assert_eq!(parsed(line).ms, 9);
        for other in ["", "hello", "SCHED", "SCHED soon: x", "SCHEDULE 1ms: a=1"] {
            assert_eq!(CapturedLine::parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_line_cut_anywhere_is_garbled_or_none() {
        let line = "SCHED 2004ms: gomaxprocs=2 idleprocs=0 threads=5 spinningthreads=1 \
                    needspinning=0 idlethreads=2 runqueue=1 [ 4 0 ] schedticks=[ 41 42 ]";
        let mut cuts = 0;
        for length in 0..line.len() {
            match CapturedLine::parse(&line[..length]) {
                None | Some(Err(Garbled)) => cuts += 1,
                // What looks like an older shape is taken for one.
                Some(Ok(parsed)) => assert_eq!(parsed.queues, [4, 0], "{length}"),
            }
        }
        assert!(cuts > 100);
    }

    #[test]
    fn a_text_is_summed_up_line_by_line() {
        let text = "starting\n\
            SCHED 0ms: gomaxprocs=2 idleprocs=1 threads=4 runqueue=0 [ 0 0 ] schedticks=[ 1 2 ]\n\
            SCHED 10ms: gomaxprocs=2 idleprocs=0 threads=5 runqu\n\
            SCHED 20ms: gomaxprocs=2 idleprocs=0 threads=6 runqueue=8 [ 5 1 ] schedticks=[ 9 4 ]\n\
            P1: no detail\n\
            SCHED 3ms: gomaxprocs=2 runqueue=1 gcwaiting=false sysmonwait=false\n  \
              P0: status=1 schedtick=11 syscalltick=0 m=0 runqsize=3 gfreecnt=0 timerslen=0\n  \
              M0: p=0 curg=nil mallocing=0 preemptoff= locks=0 lockedg=nil\n\
            bye\n";
        let mut captured = Captured::default();
        text.lines().for_each(|line| captured.line(line));
        assert_eq!((captured.lines, captured.sched_lines), (9, 3));
        assert_eq!((captured.garbled, captured.first_garbled), (1, Some(3)));
        assert_eq!((captured.detail_lines, captured.restarts), (2, 1));
        assert_eq!(captured.between_ms, Some((0, 3)));
        let fields = captured.summary.fields();
        let of = |name: &str| {
            fields
                .iter()
                .find(|field| field.name == name)
                .expect("there")
        };
        let threads = of("threads");
        assert_eq!(
            (threads.lines, threads.min, threads.max, threads.last),
            (2, 4, 6, 6)
        );
        assert_eq!(of("queue[0]").max, 5);
        assert_eq!(of("queue[0]").last, 3);
        assert_eq!(of("schedticks[1]").last, 4);
        assert_eq!(of("queues").max, 6, "all rings together");
    }
}
