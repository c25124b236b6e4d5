//! The strings that Go's reader adds to a trace: names of metrics and ranges, reasons.

use crate::tables::{Tables, Text};

macro_rules! words {
    ($($name:ident $text:literal;)*) => {
        /// Strings that no trace holds and that events refer to.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Words {
            $(pub(crate) $name: Text,)*
        }

        impl Words {
            pub(crate) fn new(tables: &mut Tables) -> Words {
                Words { $($name: tables.intern_text($text),)* }
            }
        }
    };
}

words! {
    heap_objects "/memory/classes/heap/objects:bytes";
    heap_goal "/gc/heap/goal:bytes";
    sweep "GC incremental sweep";
    mark_assist "GC mark assist";
    forever "forever";
    network "network";
    sync "sync";
    cond "sync.(*Cond).Wait";
    assist_wait "GC mark assist wait for work";
}
