//! From text to bytes.

use std::fmt;

use crate::block::BlockKind;
use crate::header::{HeaderInfo, arities, encode_with};
use crate::id::{GId, MId, PId};
use crate::limits::{FIRST_STRING, MAX_ARGUMENTS, MAX_BLOCK_BYTES, MAX_RECORD_BYTES};
use crate::spec::{ARITY_LENGTH, ARITY_UNDEFINED, ArgType, HEADS, SPECS, Spec, Tail, arg_type};
use crate::tables::KNOWN_TEXTS;
use crate::text::BLOCK_KINDS;
use crate::varint::{self, zigzag};
use crate::write::raw::RawBlock;

/// Why a text is no trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    line: usize,
    message: String,
}

impl TextError {
    /// Which line, from 1.
    pub fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for TextError {}

/// What a line says is wrong with it.
type Line<T> = Result<T, String>;

/// The trace that `text` describes.
///
/// # Errors
///
/// At the first line that is not as the [text form](crate::text) has it.
pub fn from_text(text: &str) -> Result<Vec<u8>, TextError> {
    let mut writer = TextReader {
        info: HeaderInfo::new(0),
        arities: arities(),
        began: false,
        bytes: Vec::new(),
        block: None,
    };
    let mut last = 0;
    for (place, line) in text.lines().enumerate() {
        last = place + 1;
        writer.line(line).map_err(|message| TextError {
            line: last,
            message,
        })?;
    }
    writer.finish().map_err(|message| TextError {
        line: last,
        message,
    })
}

struct TextReader {
    info: HeaderInfo,
    arities: [u8; 256],
    /// Whether the first line was read.
    began: bool,
    /// The trace from its first block on.
    bytes: Vec<u8>,
    block: Option<OpenBlock>,
}

struct OpenBlock {
    kind: BlockKind,
    generation: u32,
    sequence: u32,
    m: Option<MId>,
    base_time: u64,
    g: Option<GId>,
    p: Option<PId>,
    open: bool,
    payload: Vec<u8>,
    events: u32,
    last_goroutine: u64,
}

impl TextReader {
    fn line(&mut self, line: &str) -> Line<()> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let tokens = tokens(line)?;
        let words: Vec<&str> = tokens.iter().map(|t| &*t.word).collect();
        match (words.as_slice(), &self.block) {
            (["gmp", "trace", version], _) if !self.began => {
                let (major, minor) = version
                    .split_once('.')
                    .ok_or("expected a version like 1.0")?;
                self.info.version = (number(major)?, number(minor)?);
                self.began = true;
            }
            _ if !self.began => return Err("expected `gmp trace 1.0` first".into()),
            (["clock", rate], None) => self.info.ticks_per_second = number(rate)?,
            (["start", ticks], None) => self.info.start = number(ticks)?,
            (["process", id], None) => self.info.process_id = number(id)?,
            (["arity", head, count], None) => {
                let head: u8 = number(head)?;
                let count: u8 = number(count)?;
                if count > ARITY_LENGTH || head == 0 {
                    return Err("expected a head from 1 and an arity up to 15".into());
                }
                self.arities[head as usize] = count;
            }
            (["block", kind, attributes @ ..], _) => {
                self.close_block()?;
                self.block = Some(OpenBlock::new(kind, attributes)?);
            }
            (_, Some(_)) => self.record(&tokens)?,
            _ => return Err(format!("expected a block before `{}`", words[0])),
        }
        Ok(())
    }

    fn finish(mut self) -> Line<Vec<u8>> {
        self.close_block()?;
        if self.info.ticks_per_second == 0 {
            return Err("expected a line like `clock 62500000`".into());
        }
        let mut bytes = encode_with(&self.info, &self.arities).to_vec();
        bytes.append(&mut self.bytes);
        Ok(bytes)
    }

    fn close_block(&mut self) -> Line<()> {
        let Some(block) = self.block.take() else {
            return Ok(());
        };
        if block.payload.len() > MAX_BLOCK_BYTES - crate::block::BLOCK_HEADER_BYTES {
            return Err(format!(
                "the block before has more than {MAX_BLOCK_BYTES} bytes"
            ));
        }
        let raw = RawBlock {
            kind: block.kind,
            generation: block.generation,
            sequence: block.sequence,
            m: block.m,
            base_time: block.base_time,
            g: block.g,
            p: block.p,
            stored: &block.payload,
            raw_length: None,
            events: (!block.open).then_some(block.events),
        };
        self.bytes.extend(raw.to_bytes());
        Ok(())
    }

    fn record(&mut self, tokens: &[Token]) -> Line<()> {
        let Some(([first], rest)) = tokens.split_at_checked(1) else {
            return Ok(());
        };
        let (name, value) = match first.word.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (&*first.word, None),
        };
        let Some(block) = &mut self.block else {
            return Ok(());
        };
        if name == "Unknown" {
            let head: u8 = number(value.ok_or("expected `Unknown:` and a head")?)?;
            let events = HEADS[head as usize].as_ref().map_or(1, |head| head.events);
            return block.unknown(head, self.arities[head as usize], events, rest);
        }
        let spec = SPECS
            .iter()
            .find(|spec| spec.name == name)
            .ok_or_else(|| format!("expected the name of a record, found `{name}`"))?;
        let value = match value {
            None => 0,
            Some(value) => match spec.values.iter().position(|known| *known == value) {
                Some(place) => place as u8,
                None => number(value)?,
            },
        };
        block.known(spec, value, &self.arities, rest)
    }
}

impl OpenBlock {
    fn new(kind: &str, attributes: &[&str]) -> Line<OpenBlock> {
        let kind = BLOCK_KINDS
            .iter()
            .find(|(_, name)| *name == kind)
            .ok_or_else(|| format!("expected a kind of block, found `{kind}`"))?
            .0;
        let mut block = OpenBlock {
            kind,
            generation: 0,
            sequence: 0,
            m: None,
            base_time: 0,
            g: None,
            p: None,
            open: false,
            payload: Vec::new(),
            events: 0,
            last_goroutine: 0,
        };
        for attribute in attributes {
            match attribute.split_once('=').unwrap_or((attribute, "")) {
                ("generation", n) => block.generation = number(n)?,
                ("sequence", n) => block.sequence = number(n)?,
                ("m", n) => block.m = MId::new(number(n)?),
                ("base", n) => block.base_time = number(n)?,
                ("g", n) => block.g = GId::new(number(n)?),
                ("p", n) => block.p = PId::new(number(n)?),
                ("open", "") => block.open = true,
                _ => {
                    return Err(format!(
                        "expected an attribute of a block, found `{attribute}`"
                    ));
                }
            }
        }
        block.last_goroutine = block.g.map_or(0, GId::get);
        Ok(block)
    }

    fn known(&mut self, spec: &Spec, value: u8, arities: &[u8; 256], rest: &[Token]) -> Line<()> {
        let with_seq = spec.seq_form && rest.iter().any(|t| t.word.starts_with("seq="));
        let place = if spec.seq_form {
            u16::from(value) * 2 + u16::from(with_seq)
        } else {
            value.into()
        };
        if place >= u16::from(spec.width) {
            return Err(format!("{} has no value {value}", spec.name));
        }
        let head = spec.kind.head(value, with_seq);
        let names = if with_seq || !spec.seq_form {
            spec.args
        } else {
            &spec.args[..spec.args.len() - 1]
        };
        let mut numbers = Vec::new();
        for (place, name) in names.iter().enumerate() {
            let token = rest
                .get(place)
                .ok_or_else(|| format!("expected `{name}=…`"))?;
            let given = token
                .word
                .strip_prefix(name)
                .and_then(|after| after.strip_prefix('='))
                .ok_or_else(|| format!("expected `{name}=…`, found `{}`", token.word))?;
            let of = arg_type(name);
            varint::push(&mut numbers, self.argument(of, given, token)?);
        }
        let rest = rest.get(names.len()..).unwrap_or_default();
        self.events += u32::from(spec.events);
        match spec.tail {
            Some(tail) => {
                push_tail(&mut numbers, tail, rest)?;
                self.push_long(head, &numbers)
            }
            None => {
                let mut count = names.len();
                for token in rest {
                    let more = token.word.strip_prefix('+');
                    let more = more.ok_or_else(|| format!("what is `{}`?", token.word))?;
                    varint::push(&mut numbers, number(more)?);
                    count += 1;
                }
                let declared = arities[head as usize];
                if count != usize::from(declared) {
                    return Err(format!("expected {declared} numbers, found {count}"));
                }
                self.payload.push(head);
                self.payload.extend(numbers);
                Ok(())
            }
        }
    }

    fn argument(&mut self, of: Option<ArgType>, given: &str, token: &Token) -> Line<u64> {
        match of {
            Some(ArgType::G) => {
                let g: u64 = number(given)?;
                let difference = g.wrapping_sub(self.last_goroutine) as i64;
                self.last_goroutine = g;
                Ok(zigzag(difference))
            }
            Some(ArgType::Text) => match (&token.quoted, given.strip_prefix('#')) {
                (Some(text), _) => KNOWN_TEXTS
                    .iter()
                    .position(|known| known.as_bytes() == text)
                    .map(|place| place as u64)
                    .ok_or_else(|| "no reader knows this text: define it, and say `#0`".into()),
                (None, Some(id)) => Ok(number::<u64>(id)?.saturating_add(FIRST_STRING.into())),
                (None, None) => number(given),
            },
            _ => number(given),
        }
    }

    fn unknown(&mut self, head: u8, arity: u8, events: u8, rest: &[Token]) -> Line<()> {
        self.events += u32::from(events);
        if arity == ARITY_UNDEFINED || head == 0 {
            return Err(format!(
                "no length of 0x{head:02x}: expected `arity 0x{head:02x} 2`"
            ));
        }
        if arity == ARITY_LENGTH {
            let mut bytes = Vec::new();
            push_tail(&mut bytes, Tail::Bytes, rest)?;
            return self.push_long(head, &bytes);
        }
        if rest.len() != usize::from(arity) || rest.len() > MAX_ARGUMENTS {
            return Err(format!("expected {arity} numbers, found {}", rest.len()));
        }
        self.payload.push(head);
        for token in rest {
            varint::push(&mut self.payload, number(&token.word)?);
        }
        Ok(())
    }

    fn push_long(&mut self, head: u8, bytes: &[u8]) -> Line<()> {
        if bytes.len() > MAX_RECORD_BYTES {
            return Err(format!("a record of more than {MAX_RECORD_BYTES} bytes"));
        }
        self.payload.push(head);
        varint::push(&mut self.payload, bytes.len() as u64);
        self.payload.extend_from_slice(bytes);
        Ok(())
    }
}

fn push_tail(bytes: &mut Vec<u8>, tail: Tail, rest: &[Token]) -> Line<()> {
    match (tail, rest) {
        (
            Tail::Bytes,
            [
                Token {
                    quoted: Some(text),
                    word,
                },
            ],
        ) if word.is_empty() => {
            bytes.extend_from_slice(text);
        }
        (Tail::Bytes, _) => return Err("expected a text between quotes at the end".into()),
        (Tail::Addresses, addresses) => {
            for address in addresses {
                varint::push(bytes, number(&address.word)?);
            }
        }
    }
    Ok(())
}

/// A word of a line, and what stood between quotes at its end.
struct Token {
    word: String,
    quoted: Option<Vec<u8>>,
}

fn tokens(line: &str) -> Line<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let end = rest.find([' ', '\t', '"']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let mut token = Token {
            word: word.to_owned(),
            quoted: None,
        };
        rest = after;
        if let Some(inside) = rest.strip_prefix('"') {
            let (text, after) = unquote(inside)?;
            token.quoted = Some(text);
            rest = after;
        }
        tokens.push(token);
        rest = rest.trim_start();
    }
    Ok(tokens)
}

/// The bytes up to the closing quote, and what follows it.
fn unquote(text: &str) -> Line<(Vec<u8>, &str)> {
    let mut bytes = Vec::new();
    let mut places = text.char_indices();
    while let Some((place, c)) = places.next() {
        match c {
            '"' => return Ok((bytes, &text[place + 1..])),
            '\\' => match places.next() {
                Some((_, 'x')) => {
                    let digits: String = places.by_ref().take(2).map(|(_, c)| c).collect();
                    let byte = u8::from_str_radix(&digits, 16);
                    bytes.push(byte.map_err(|_| format!("what is `\\x{digits}`?"))?);
                }
                Some((_, c)) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                None => break,
            },
            c => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Err("expected a closing quote".into())
}

/// A number in decimal, or in hexadecimal after `0x`.
fn number<T: TryFrom<u64>>(text: &str) -> Line<T> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed
        .ok()
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("expected a number of this size, found `{text}`"))
}
