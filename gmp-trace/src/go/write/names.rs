//! Strings and stacks: written when they are first used in a generation, and what names get that the
//! trace does not have.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use super::file::{Batch, File};
use crate::go::spec;
use crate::tables::{Frame, SiteRef, StackRef, Tables, Text};
use crate::varint;

/// What a stack is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shape {
    /// A stack of the trace.
    Stack(StackRef),
    /// One frame: the start function of a goroutine that was made at this site.
    Start(SiteRef),
    /// One frame: the place where a goroutine was made, in a function that is not known.
    Made(SiteRef),
    /// One frame: the place where a goroutine waits or enters a system call.
    Place(SiteRef),
    /// The place where a goroutine is, as far as it is known, and its start function below.
    Status(Option<StackRef>, Option<SiteRef>, SiteRef),
}

/// A frame as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Written {
    function: Name,
    file: Name,
    line: u32,
    /// The address that the trace has; 0 where it has none.
    pc: u64,
}

/// A string of the trace, or one that was made for want of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Name {
    Text(Text),
    Made(String),
}

/// Names of a generation, and addresses of the whole trace.
#[derive(Debug)]
pub(super) struct Names {
    /// Whether the trace may lack functions, files and addresses, which Go's tools want.
    fill: bool,
    /// Time of the generation's tables.
    time: u64,
    texts: HashMap<Text, u64>,
    made: HashMap<String, u64>,
    stacks: HashMap<Shape, u64>,
    strings: Batch,
    stack_batch: Batch,
    /// Addresses of frames: Go's tools tell frames apart by nothing else, over all generations.
    addresses: HashMap<Written, u64>,
    taken: HashSet<u64>,
    next_address: u64,
    /// Strings and stacks that were longer than Go's limits.
    pub(super) cut_strings: u64,
    pub(super) cut_stacks: u64,
}

impl Names {
    pub(super) fn new(fill: bool) -> Names {
        Names {
            fill,
            time: 0,
            texts: HashMap::new(),
            made: HashMap::new(),
            stacks: HashMap::new(),
            strings: Batch::of_table(spec::STRINGS),
            stack_batch: Batch::of_table(spec::STACKS),
            addresses: HashMap::new(),
            taken: HashSet::new(),
            next_address: 1,
            cut_strings: 0,
            cut_stacks: 0,
        }
    }

    /// A generation begins: nothing was defined in it yet.
    pub(super) fn begin(&mut self, time: u64) {
        self.time = time;
        self.texts.clear();
        self.made.clear();
        self.stacks.clear();
    }

    /// A generation ends.
    pub(super) fn end<W: Write>(&mut self, file: &mut File<W>) {
        file.batch(&mut self.strings);
        file.batch(&mut self.stack_batch);
    }

    /// The id of `text` in this generation.
    pub(super) fn text<W: Write>(
        &mut self,
        text: Text,
        tables: &Tables,
        file: &mut File<W>,
    ) -> u64 {
        if text == Text::EMPTY {
            return 0;
        }
        if let Some(&id) = self.texts.get(&text) {
            return id;
        }
        let id = self.define(tables.text(text), file);
        self.texts.insert(text, id);
        id
    }

    /// The id of `string`, which the trace does not have.
    pub(super) fn string<W: Write>(&mut self, string: &str, file: &mut File<W>) -> u64 {
        if let Some(&id) = self.made.get(string) {
            return id;
        }
        let id = self.define(string, file);
        self.made.insert(string.to_owned(), id);
        id
    }

    fn define<W: Write>(&mut self, string: &str, file: &mut File<W>) -> u64 {
        let id = (self.texts.len() + self.made.len()) as u64 + 1;
        let mut length = string.len().min(spec::MAX_STRING_BYTES as usize);
        while !string.is_char_boundary(length) {
            length -= 1;
        }
        self.cut_strings += u64::from(length < string.len());
        let mut record = vec![spec::STRING];
        varint::push(&mut record, id);
        varint::push(&mut record, length as u64);
        record.extend_from_slice(string.get(..length).unwrap_or_default().as_bytes());
        self.strings.record(file, self.time, &record);
        id
    }

    /// The id of the stack of `shape` in this generation; 0 is none.
    pub(super) fn stack<W: Write>(
        &mut self,
        shape: Option<Shape>,
        tables: &Tables,
        file: &mut File<W>,
    ) -> u64 {
        let Some(shape) = shape else { return 0 };
        if let Some(&id) = self.stacks.get(&shape) {
            return id;
        }
        let mut frames = self.frames(shape, tables);
        if frames.len() as u64 > spec::MAX_FRAMES {
            self.cut_stacks += 1;
            frames.truncate(spec::MAX_FRAMES as usize);
        }
        let id = self.stacks.len() as u64 + 1;
        let mut record = vec![spec::STACK];
        varint::push(&mut record, id);
        varint::push(&mut record, frames.len() as u64);
        for frame in frames {
            let function = self.name(&frame.function, tables, file);
            let name = self.name(&frame.file, tables, file);
            let line = u64::from(frame.line);
            for number in [self.address(frame), function, name, line] {
                varint::push(&mut record, number);
            }
        }
        self.stack_batch.record(file, self.time, &record);
        self.stacks.insert(shape, id);
        id
    }

    fn name<W: Write>(&mut self, name: &Name, tables: &Tables, file: &mut File<W>) -> u64 {
        match name {
            Name::Text(text) => self.text(*text, tables, file),
            Name::Made(string) => self.string(string, file),
        }
    }

    fn frames(&self, shape: Shape, tables: &Tables) -> Vec<Written> {
        let start = |site| self.place(site, true, tables);
        let place = |site| self.place(site, false, tables);
        let stack = |stack| tables.stack(stack).iter().map(|frame| self.frame(frame));
        match shape {
            Shape::Stack(of) => stack(of).collect(),
            Shape::Start(site) => start(site).into_iter().collect(),
            Shape::Made(site) => {
                let nameless = |frame: Written| Written {
                    function: Name::Made(short_place(site, tables)),
                    ..frame
                };
                place(site).map(nameless).into_iter().collect()
            }
            Shape::Place(site) => place(site).into_iter().collect(),
            Shape::Status(Some(of), _, below) => stack(of).chain(start(below)).collect(),
            Shape::Status(None, at, below) => {
                at.and_then(place).into_iter().chain(start(below)).collect()
            }
        }
    }

    fn frame(&self, frame: &Frame) -> Written {
        let mut written = Written {
            function: Name::Text(frame.function),
            file: Name::Text(frame.file),
            line: frame.line,
            pc: frame.pc,
        };
        if self.fill {
            if frame.function == Text::EMPTY {
                written.function = Name::Made(format!("{:#x}", frame.pc));
            }
            self.fill_place(&mut written);
        }
        written
    }

    /// The frame of a site; its function is the start function of a goroutine, or the function there.
    fn place(&self, site: SiteRef, start: bool, tables: &Tables) -> Option<Written> {
        let at = tables.site(site)?;
        let mut written = Written {
            function: Name::Text(at.function),
            file: Name::Text(at.file),
            line: at.line,
            pc: 0,
        };
        if at.function == Text::EMPTY {
            let place = short_place(site, tables);
            written.function = Name::Made(if start {
                format!("goroutine made at {place}")
            } else {
                place
            });
        }
        self.fill_place(&mut written);
        Some(written)
    }

    /// Go's tools want a file and a line from 1.
    fn fill_place(&self, frame: &mut Written) {
        if frame.file == Name::Text(Text::EMPTY) {
            frame.file = Name::Made("?".to_owned());
        }
        frame.line = frame.line.max(1);
    }

    /// The address of `frame`: its own, unless another frame has that already.
    fn address(&mut self, frame: Written) -> u64 {
        if let Some(&address) = self.addresses.get(&frame) {
            return address;
        }
        let known = frame.pc != 0 || !self.fill;
        let address = if known && self.taken.insert(frame.pc) {
            frame.pc
        } else {
            while !self.taken.insert(self.next_address) {
                self.next_address += 1;
            }
            self.next_address
        };
        self.addresses.insert(frame, address);
        address
    }
}

/// The last part of the file of `site`, and its line.
fn short_place(site: SiteRef, tables: &Tables) -> String {
    let Some(site) = tables.site(site) else {
        return String::new();
    };
    let file = tables.text(site.file);
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    format!("{name}:{}", site.line)
}
