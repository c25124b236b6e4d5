//! Functions of other languages than Rust, which nothing may unwind through.
//!
//! Those of other files than the program's are: libraries are C's. In the program's own file they are known by the names
//! of its symbol table, which have the form of no Rust compiler; of one without symbols there is no telling.

use std::fs::File;
use std::ops::Range;
use std::sync::OnceLock;

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol, ReadCache, SymbolKind};

use super::modules;

/// Whether the code at `address` is of another language, as far as that is known. The first call reads symbols, which
/// takes milliseconds.
pub(crate) fn is_foreign(address: usize) -> bool {
    static PROGRAM: OnceLock<Option<Program>> = OnceLock::new();
    let program = PROGRAM.get_or_init(Program::read).as_ref();
    program.is_some_and(|program| program.has_foreign(address))
}

/// The file that this code is in.
#[derive(Debug)]
struct Program {
    range: Range<usize>,
    /// Functions of other languages, by address.
    foreign: Vec<Range<usize>>,
}

impl Program {
    fn read() -> Option<Program> {
        let here = is_foreign as *const () as usize;
        let modules = modules::loaded();
        let index = modules
            .iter()
            .position(|module| module.range.contains(&here))?;
        // The loader tells of the program first; where this is a library, its symbols are not looked for.
        let foreign = match index {
            0 => foreign_functions(modules[0].bias).unwrap_or_default(),
            _ => Vec::new(),
        };
        let range = modules[index].range.clone();
        Some(Program { range, foreign })
    }

    fn has_foreign(&self, address: usize) -> bool {
        if !self.range.contains(&address) {
            return true;
        }
        let after = self
            .foreign
            .partition_point(|function| function.start <= address);
        after > 0 && self.foreign[after - 1].contains(&address)
    }
}

/// The functions of the program's file that are not Rust's, at their places in memory.
fn foreign_functions(bias: usize) -> Option<Vec<Range<usize>>> {
    let file = ReadCache::new(File::open("/proc/self/exe").ok()?);
    let file: ElfFile64<'_, Endianness, _> = ElfFile64::parse(&file).ok()?;
    let mut functions: Vec<_> = file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
        .filter(|symbol| symbol.name_bytes().is_ok_and(|name| !is_rusts(name)))
        .map(|symbol| {
            let start = bias.wrapping_add(symbol.address() as usize);
            start..start.wrapping_add(symbol.size() as usize)
        })
        .collect();
    functions.sort_unstable_by_key(|function| function.start);
    Some(functions)
}

/// Whether a name is one that a Rust compiler gives: of the newer form, or of the older one, which ends with a hash.
fn is_rusts(name: &[u8]) -> bool {
    const HASH: usize = b"17h0123456789abcdefE".len();
    let is_hash = |part: &[u8]| {
        part.starts_with(b"17h")
            && part[3..HASH - 1].iter().all(u8::is_ascii_hexdigit)
            && part.ends_with(b"E")
    };
    // Compilers and linkers append words of their own (`.llvm.123`).
    let has_hash = || {
        name.windows(HASH)
            .enumerate()
            .any(|(at, part)| is_hash(part) && matches!(name.get(at + HASH), None | Some(b'.')))
    };
    // What the compiler itself makes of catching a panic.
    name == b"__rust_try" || name.starts_with(b"_R") || name.starts_with(b"_ZN") && has_hash()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[unsafe(no_mangle)]
    extern "C" fn gmp_test_that_is_named_as_c_names() -> usize {
        std::hint::black_box(1)
    }

    #[test]
    fn functions_of_c_are_told_from_rusts() {
        let of_library = libc::qsort as *const () as usize;
        assert!(is_foreign(of_library));
        let in_program = gmp_test_that_is_named_as_c_names as *const () as usize;
        assert!(is_foreign(in_program) && is_foreign(in_program + 1));
        let of_rust = functions_of_c_are_told_from_rusts as *const () as usize;
        assert!(!is_foreign(of_rust));
        let generic = Vec::<Range<usize>>::push as *const () as usize;
        assert!(!is_foreign(generic));
    }

    #[test]
    fn names_are_those_of_compilers() {
        assert!(is_rusts(b"_ZN3std4main17h0123456789abcdefE"));
        assert!(is_rusts(b"_ZN3std4main17h0123456789abcdefE.llvm.12345"));
        assert!(is_rusts(b"_RNvCs1234_7mycrate3foo"));
        for of_another in [&b"_ZN3std4mainE"[..], b"_ZN3std4mainEv", b"qsort", b"E"] {
            assert!(!is_rusts(of_another));
        }
    }
}
