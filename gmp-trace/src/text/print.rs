//! From bytes to text.

use std::fmt::Write as _;
use std::io::{self, Read, Write};

use crate::anomaly::{Anomalies, AnomalyKind};
use crate::error::Error;
use crate::header::arities;
use crate::id::{GId, MId, PId};
use crate::input::Input;
use crate::limits::FIRST_STRING;
use crate::native::blocks::{Block, BlockState, Blocks};
use crate::native::parse::{self, Args, RawRecord, Stop};
use crate::spec::{ARITY_LENGTH, ArgType, HEADS, Head, Tail, arg_type};
use crate::tables::KNOWN_TEXTS;
use crate::text::BLOCK_KINDS;
use crate::varint::unzigzag;

/// Writes the trace in `source` to `sink` as text. What is wrong with it is told in remarks and in
/// the anomalies.
///
/// # Errors
///
/// When `source` is no trace or cannot be read, or `sink` cannot be written to.
pub fn to_text(
    source: impl Read + Send + 'static,
    sink: &mut impl Write,
) -> Result<Anomalies, Error> {
    let mut anomalies = Anomalies::default();
    let (mut blocks, head) = Blocks::open(Input::Stream(Box::new(source)), &mut anomalies)?;
    let (major, minor) = head.version;
    let mut text = format!(
        "gmp trace {major}.{minor}\nclock {}\n",
        head.ticks_per_second
    );
    if head.process_id != 0 {
        let _ = writeln!(text, "process {}", head.process_id);
    }
    if let Some(start) = head.start {
        let _ = writeln!(text, "start {start}");
    }
    let usual = arities();
    for (byte, (arity, usual)) in blocks.arities().iter().zip(usual).enumerate() {
        if *arity != usual {
            let _ = writeln!(text, "arity 0x{byte:02x} {arity}");
        }
    }
    let failed = |error: io::Error| Error::io(0, error);
    sink.write_all(text.as_bytes()).map_err(failed)?;
    while let Some(block) = blocks.next(&mut anomalies)? {
        text.clear();
        print_block(&block, blocks.arities(), &mut text, &mut anomalies);
        sink.write_all(text.as_bytes()).map_err(failed)?;
    }
    sink.flush().map_err(failed)?;
    Ok(anomalies)
}

fn print_block(block: &Block, arities: &[u8; 256], text: &mut String, anomalies: &mut Anomalies) {
    if block.state == BlockState::Damaged {
        let _ = writeln!(text, "\n# the block at byte {} is damaged", block.offset);
        return;
    }
    let kind = BLOCK_KINDS
        .iter()
        .find(|(kind, _)| *kind == block.kind)
        .map_or("", |(_, name)| name);
    let _ = write!(
        text,
        "\nblock {kind} generation={} sequence={}",
        block.generation, block.sequence
    );
    if let Some(m) = block.m.map(MId::get) {
        let _ = write!(text, " m={m}");
    }
    let _ = write!(text, " base={}", block.base_time);
    if let Some(g) = block.g.map(GId::get) {
        let _ = write!(text, " g={g}");
    }
    if let Some(p) = block.p.map(PId::get) {
        let _ = write!(text, " p={p}");
    }
    text.push_str(if block.state == BlockState::Open {
        " open\n"
    } else {
        "\n"
    });

    let mut last_goroutine = block.g.map_or(0, GId::get);
    let (mut rest, mut args) = (block.payload.as_slice(), [0; 16]);
    loop {
        match parse::record(rest, arities, &mut args) {
            Ok(record) => {
                rest = record.rest;
                print_record(&record, arities, &mut args, &mut last_goroutine, text);
            }
            Err(stop) => {
                let open = block.state == BlockState::Open && stop != Stop::Bad;
                if !rest.is_empty() && !open {
                    anomalies.add(AnomalyKind::BadRecord, block.offset, rest.len() as u64);
                    let _ = writeln!(text, "# {} bytes cannot be decoded", rest.len());
                }
                return;
            }
        }
    }
}

fn print_record(
    record: &RawRecord<'_>,
    arities: &[u8; 256],
    args: &mut Args,
    last_goroutine: &mut u64,
    text: &mut String,
) {
    let arity = arities[record.head as usize];
    let Some(head) = &HEADS[record.head as usize] else {
        return print_unknown(record, arity, args, text);
    };
    let spec = head.kind.spec();
    let mut tail = record.tail;
    if spec.tail.is_some() {
        match parse::leading_numbers(tail, spec.args.len(), args) {
            Some(after) => tail = after,
            None => return print_unknown(record, arity, args, text),
        }
    }
    text.push_str(spec.name);
    print_value(head, text);
    let known = if arity == ARITY_LENGTH {
        spec.args.len()
    } else {
        usize::from(head.arity)
    };
    for (name, number) in spec.args.iter().zip(*args).take(known) {
        let _ = write!(text, " {name}=");
        print_number(arg_type(name), number, last_goroutine, text);
    }
    match spec.tail {
        None => {
            let more = usize::from(arity).max(known);
            for number in args.get(known..more).unwrap_or_default() {
                let _ = write!(text, " +{number}");
            }
        }
        Some(Tail::Bytes) => {
            text.push(' ');
            print_quoted(tail, text);
        }
        Some(Tail::Addresses) => {
            while let Some(rest) = parse::leading_numbers(tail, 1, args) {
                tail = rest;
                let _ = write!(text, " 0x{:x}", args[0]);
            }
        }
    }
    text.push('\n');
}

fn print_value(head: &Head, text: &mut String) {
    let spec = head.kind.spec();
    match spec
        .values
        .get(head.value as usize)
        .filter(|name| !name.is_empty())
    {
        Some(name) => {
            let _ = write!(text, ":{name}");
        }
        None if spec.values.is_empty() => {}
        None => {
            let _ = write!(text, ":{}", head.value);
        }
    }
}

fn print_number(of: Option<ArgType>, number: u64, last_goroutine: &mut u64, text: &mut String) {
    let _ = match of {
        Some(ArgType::G) => {
            *last_goroutine = last_goroutine.wrapping_add_signed(unzigzag(number));
            write!(text, "{last_goroutine}")
        }
        Some(ArgType::Address) => write!(text, "0x{number:x}"),
        Some(ArgType::Text) => match number.checked_sub(u64::from(FIRST_STRING)) {
            Some(id) => write!(text, "#{id}"),
            None => match KNOWN_TEXTS.get(number as usize) {
                Some(known) => {
                    print_quoted(known.as_bytes(), text);
                    Ok(())
                }
                None => write!(text, "{number}"),
            },
        },
        _ => write!(text, "{number}"),
    };
}

fn print_unknown(record: &RawRecord<'_>, arity: u8, args: &Args, text: &mut String) {
    let _ = write!(text, "Unknown:0x{:02x}", record.head);
    if arity == ARITY_LENGTH {
        text.push(' ');
        print_quoted(record.tail, text);
    } else {
        for number in args.iter().take(usize::from(arity)) {
            let _ = write!(text, " {number}");
        }
    }
    text.push('\n');
}

/// Bytes between quotes; what is not printable ASCII, a quote or a backslash stands as `\x5c`.
fn print_quoted(bytes: &[u8], text: &mut String) {
    text.push('"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => {
                text.push('\\');
                text.push(char::from(byte));
            }
            b' '..=b'~' => text.push(char::from(byte)),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text.push('"');
}
