//! The experiment about allocations (`GODEBUG=traceallocfree=1`): what its events and data mean.
//!
//! A reader gives its events as [`Body::Unknown`]; [`Allocation::of`] says what they are, and
//! [`Allocations`] turns their short ids into addresses.
//!
//! ```no_run
//! use gmp_trace::go::experiment::Allocation;
//!
//! let mut reader = gmp_trace::open(std::fs::File::open("trace.out")?)?;
//! while let Some(event) = reader.next()? {
//!     if let Some(Allocation::ObjectAlloc { id, .. }) = Allocation::of(&event.body) {
//!         println!("{:#x?}", reader.allocations().and_then(|a| a.object_address(id)));
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;

use super::batch::Batch;
use super::fault::Fault;
use super::numbers::Bytes;
use super::spec;
use crate::anomaly::Anomalies;
use crate::event::Body;
use crate::tables::{Tables, Text};
use crate::varint;

/// An event of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// A span of pages that was there when the trace began.
    Span {
        /// Which; [`Allocations::span_address`].
        id: u64,
        /// How many pages.
        pages: u64,
        /// What is in it; `None` for one that is not of the heap.
        class: Option<u64>,
    },
    /// A span of pages was taken.
    SpanAlloc {
        /// Which.
        id: u64,
        /// How many pages.
        pages: u64,
        /// What is in it; `None` for one that is not of the heap.
        class: Option<u64>,
    },
    /// A span of pages was given back.
    SpanFree {
        /// Which.
        id: u64,
    },
    /// An object that was there when the trace began.
    Object {
        /// Which; [`Allocations::object_address`].
        id: u64,
        /// Its type; [`Allocations::type_with`].
        type_id: u64,
    },
    /// An object was made.
    ObjectAlloc {
        /// Which.
        id: u64,
        /// Its type.
        type_id: u64,
    },
    /// An object was freed.
    ObjectFree {
        /// Which.
        id: u64,
    },
    /// A goroutine's stack that was there when the trace began.
    Stack {
        /// Which; [`Allocations::stack_address`].
        id: u64,
        /// Binary logarithm of its size.
        order: u64,
    },
    /// A goroutine's stack was made.
    StackAlloc {
        /// Which.
        id: u64,
        /// Binary logarithm of its size.
        order: u64,
    },
    /// A goroutine's stack was freed.
    StackFree {
        /// Which.
        id: u64,
    },
}

impl Allocation {
    /// What `body` means; `None` where it is no event of this experiment.
    pub fn of(body: &Body) -> Option<Allocation> {
        let Body::Unknown { kind, args } = body else {
            return None;
        };
        let [id, second, third, _] = *args;
        let class = (third & 1 == 0).then_some(third >> 1);
        Some(match u8::try_from(*kind).ok()? {
            spec::SPAN => Allocation::Span {
                id,
                pages: second,
                class,
            },
            spec::SPAN_ALLOC => Allocation::SpanAlloc {
                id,
                pages: second,
                class,
            },
            spec::SPAN_FREE => Allocation::SpanFree { id },
            spec::HEAP_OBJECT => Allocation::Object {
                id,
                type_id: second,
            },
            spec::HEAP_OBJECT_ALLOC => Allocation::ObjectAlloc {
                id,
                type_id: second,
            },
            spec::HEAP_OBJECT_FREE => Allocation::ObjectFree { id },
            spec::GOROUTINE_STACK => Allocation::Stack { id, order: second },
            spec::GOROUTINE_STACK_ALLOC => Allocation::StackAlloc { id, order: second },
            spec::GOROUTINE_STACK_FREE => Allocation::StackFree { id },
            _ => return None,
        })
    }
}

/// A type of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectType {
    /// Address of the type.
    pub address: u64,
    /// Bytes of an object.
    pub size: u64,
    /// Bytes of an object that can hold pointers.
    pub pointer_bytes: u64,
    /// Its name.
    pub name: Text,
}

/// What the experiment's ids stand for, in the generation that was read last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocations {
    layout: Option<Layout>,
    types: BTreeMap<u64, ObjectType>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    lowest: u64,
    page: u64,
    alignment: u64,
    stack: u64,
}

/// Kinds of data that the batches of the experiment hold, by their first byte.
const TYPES: u8 = 0;
const LAYOUT: u8 = 1;

impl Allocations {
    /// The address of a span.
    pub fn span_address(&self, id: u64) -> Option<u64> {
        self.address(id, |layout| layout.page)
    }

    /// The address of an object.
    pub fn object_address(&self, id: u64) -> Option<u64> {
        self.address(id, |layout| layout.alignment)
    }

    /// The lowest address of a stack.
    pub fn stack_address(&self, id: u64) -> Option<u64> {
        self.address(id, |layout| layout.stack)
    }

    fn address(&self, id: u64, unit: impl Fn(&Layout) -> u64) -> Option<u64> {
        let layout = self.layout.as_ref()?;
        id.checked_mul(unit(layout))?.checked_add(layout.lowest)
    }

    /// The type with `id`; 0 is none.
    pub fn type_with(&self, id: u64) -> Option<&ObjectType> {
        self.types.get(&id)
    }

    /// All types by their ids.
    pub fn types(&self) -> impl Iterator<Item = (u64, &ObjectType)> {
        self.types.iter().map(|(id, of)| (*id, of))
    }

    /// The data as it stands in a trace.
    pub(super) fn to_batches(&self, tables: &Tables) -> Vec<Vec<u8>> {
        let mut batches = Vec::new();
        if let Some(layout) = &self.layout {
            let mut data = vec![LAYOUT];
            for number in [layout.lowest, layout.page, layout.alignment, layout.stack] {
                varint::push(&mut data, number);
            }
            batches.push(data);
        }
        let mut data = vec![TYPES];
        for (&id, of) in &self.types {
            let name = tables.text(of.name).as_bytes();
            let mut entry = Vec::new();
            for number in [id, of.address, of.size, of.pointer_bytes, name.len() as u64] {
                varint::push(&mut entry, number);
            }
            entry.extend_from_slice(name);
            if data.len() + entry.len() > spec::MAX_BATCH_BYTES as usize {
                batches.push(std::mem::replace(&mut data, vec![TYPES]));
            }
            data.extend_from_slice(&entry);
        }
        if data.len() > 1 {
            batches.push(data);
        }
        batches
    }

    /// Takes the data of a generation; ids of types are those of this generation from now on.
    pub(super) fn read(
        &mut self,
        batches: &[Batch],
        tables: &mut Tables,
        anomalies: &mut Anomalies,
    ) {
        self.types.clear();
        for batch in batches {
            let mut reader = Bytes::new(batch.data());
            while !reader.is_empty() {
                let at = reader.read();
                if let Err(fault) = self.read_one(&mut reader, at, tables) {
                    let rest = (batch.len() - at) as u64;
                    anomalies.add(fault.kind(), batch.offset + at as u64, rest);
                    break;
                }
            }
        }
    }

    fn read_one(
        &mut self,
        reader: &mut Bytes<'_>,
        at: usize,
        tables: &mut Tables,
    ) -> Result<(), Fault> {
        let what = "the data of the experiment about allocations";
        // The kind of data stands at the beginning of the batch only.
        if at == 0 {
            match reader.byte() {
                Some(TYPES) => return Ok(()),
                Some(LAYOUT) => {}
                found => {
                    return Err(Fault::Misplaced {
                        table: what,
                        found: found.unwrap_or(0),
                    });
                }
            }
            self.layout = Some(Layout {
                lowest: reader.number(what)?,
                page: reader.number(what)?,
                alignment: reader.number(what)?,
                stack: reader.number(what)?,
            });
            return if reader.is_empty() {
                Ok(())
            } else {
                Err(Fault::BadNumber(what))
            };
        }
        let id = reader.number(what)?;
        let address = reader.number(what)?;
        let size = reader.number(what)?;
        let pointer_bytes = reader.number(what)?;
        let length = reader.number(what)?;
        let name = usize::try_from(length)
            .ok()
            .and_then(|length| reader.take(length));
        let name = tables.intern_text(&String::from_utf8_lossy(name.ok_or(Fault::StringCut)?));
        self.types.insert(
            id,
            ObjectType {
                address,
                size,
                pointer_bytes,
                name,
            },
        );
        Ok(())
    }
}
