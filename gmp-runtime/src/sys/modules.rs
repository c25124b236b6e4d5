//! The program and the libraries that are loaded, and where their unwind tables are in memory.

use std::ops::Range;

/// A loaded program or library with unwind tables.
#[derive(Debug, Clone)]
pub(crate) struct LoadedModule {
    /// Its addresses, from the first to the last loaded segment.
    pub(crate) range: Range<usize>,
    /// What is added to the addresses of its file.
    pub(crate) bias: usize,
    /// The index of the unwind table (`.eh_frame_hdr`).
    pub(crate) index: &'static [u8],
    /// The unwind table (`.eh_frame`) and what follows it in its segment: the table's end is in it.
    pub(crate) table: &'static [u8],
}

/// Everything that is loaded now. The tables stay as long as nobody unloads the library.
pub(crate) fn loaded() -> Vec<LoadedModule> {
    let mut modules: Vec<LoadedModule> = Vec::new();
    // SAFETY: the callback has the signature that the function asks for, and gets the vector, which outlives
    // the call.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut modules).cast()) };
    modules
}

/// Adds one module to the vector at `modules`.
unsafe extern "C" fn add(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    modules: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the loader passes a valid description, and `loaded` passed the vector.
    let (info, modules) = unsafe { (&*info, &mut *modules.cast::<Vec<LoadedModule>>()) };
    // SAFETY: the description says how many headers there are.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    if let Some(module) = describe(info.dlpi_addr as usize, headers) {
        modules.push(module);
    }
    0
}

fn describe(bias: usize, headers: &[libc::Elf64_Phdr]) -> Option<LoadedModule> {
    let segments = || {
        headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD)
            .map(|header| {
                let start = bias.wrapping_add(header.p_vaddr as usize);
                start..start.wrapping_add(header.p_memsz as usize)
            })
    };
    let start = segments().map(|segment| segment.start).min()?;
    let end = segments().map(|segment| segment.end).max()?;
    let header = headers
        .iter()
        .find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
    let index_start = bias.wrapping_add(header.p_vaddr as usize);
    let index_end = index_start.wrapping_add(header.p_memsz as usize);
    let within = |address: usize| segments().find(|segment| segment.contains(&address));
    if within(index_start)?.end < index_end {
        return None;
    }
    // SAFETY: the range is inside a segment that the loader has mapped for reading.
    let index = unsafe { bytes(index_start..index_end) };
    let table_start = table_start(index_start, index)?;
    let table_end = within(table_start)?.end;
    Some(LoadedModule {
        range: start..end,
        bias,
        index,
        // SAFETY: as above.
        table: unsafe { bytes(table_start..table_end) },
    })
}

/// Where the table is, by its index: version 1, the address as a 32-bit offset from itself. Linkers write
/// nothing else.
fn table_start(index_start: usize, index: &[u8]) -> Option<usize> {
    const VERSION: u8 = 1;
    const RELATIVE_SIGNED_32: u8 = 0x1b;
    let [VERSION, RELATIVE_SIGNED_32, _, _, a, b, c, d, ..] = *index else {
        return None;
    };
    let offset = i32::from_le_bytes([a, b, c, d]);
    Some((index_start + 4).wrapping_add_signed(offset as isize))
}

/// # Safety
/// The range is mapped for reading, and stays as it is while the result is used.
unsafe fn bytes(range: Range<usize>) -> &'static [u8] {
    // SAFETY: the caller's contract.
    unsafe { std::slice::from_raw_parts(range.start as *const u8, range.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_and_the_c_library_have_tables() {
        let modules = loaded();
        let mut found = 0;
        for address in [
            this_program_and_the_c_library_have_tables as *const () as usize,
            libc::getpid as *const () as usize,
        ] {
            let module = modules
                .iter()
                .find(|module| module.range.contains(&address))
                .unwrap();
            assert!(module.range.contains(&(module.index.as_ptr() as usize)));
            assert!(module.range.contains(&(module.table.as_ptr() as usize)));
            assert!(module.table.len() > 16 && module.index.len() > 8);
            found += 1;
        }
        assert_eq!(found, 2);
    }

    #[test]
    fn an_index_of_another_form_is_refused() {
        let index = [1, 0x1b, 3, 0x3b, 0xfc, 0xff, 0xff, 0xff, 9];
        assert_eq!(table_start(0x1000, &index), Some(0x1000));
        assert_eq!(table_start(0x1000, &[2, 0x1b, 3, 0x3b, 0, 0, 0, 0]), None);
        assert_eq!(table_start(0x1000, &[1, 0x50, 3, 0x3b, 0, 0, 0, 0]), None);
        assert_eq!(table_start(0x1000, &[1, 0x1b, 3]), None);
    }
}
