//! The frames of a goroutine that does not run: from its saved registers, by the unwind tables of the
//! loaded modules, without leaving its stack.
//!
//! The walk reads the stack of a goroutine that may be resumed meanwhile. It reads inside the goroutine's
//! own stack only, where memory stays mapped, so the worst of that is a wrong list of frames; whoever asked
//! looks afterwards whether the goroutine still waits, and throws the list away if not.
//!
//! On processors that are not known here, and with the portable switch, there are no registers to begin
//! with, and so no frames.

use crate::sched::g::G;
use crate::switch::{self, Registers};

/// No more frames than this are shown (Go: 100).
pub(crate) const MOST_FRAMES: usize = 100;

/// Where code is in the middle of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    /// It goes on there.
    Next(usize),
    /// A call returns there: the call itself is just before.
    Return(usize),
}

/// Walks over stacks. Made once for a dump.
pub(crate) struct Walker {
    tables: tables::Tables,
}

impl Walker {
    /// For the modules that are loaded now.
    pub(crate) fn new() -> Walker {
        Walker {
            tables: tables::Tables::of_loaded_modules(),
        }
    }

    /// Appends the frames of `g`, which does not run: the innermost first. None if there is no telling. Allocates
    /// nothing: what finds no room is left out.
    pub(crate) fn frames_of(&mut self, g: &G, frames: &mut Vec<Address>) {
        if let Some(stack) = StackOf::at(g.context.stack_pointer(), g)
            && let Some(registers) = g.context.suspended_at(|address| stack.word(address))
        {
            self.tables.walk(registers, &stack, frames);
        }
    }

    /// Appends the frames of the caller, which is the goroutine `g`, in the same way.
    #[inline(never)]
    pub(crate) fn own_frames(&mut self, g: &G, frames: &mut Vec<Address>) {
        if let Some(registers) = switch::registers()
            && let Some(stack) = StackOf::at(registers.sp, g)
        {
            self.tables.walk(registers, &stack, frames);
        }
    }
}

impl std::fmt::Debug for Walker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walker").finish_non_exhaustive()
    }
}

/// The used part of a goroutine's stack.
struct StackOf {
    lowest: usize,
    top: usize,
}

impl StackOf {
    /// That of `g`, if `sp` is on it.
    fn at(sp: usize, g: &G) -> Option<StackOf> {
        let stack = crate::stack::arena::stack_at(sp)?;
        // ordering: Relaxed: a snapshot; whoever asked looks again afterwards.
        let owner = stack.slot().load(crate::prim::atomic::Ordering::Relaxed);
        let is_its_own = std::ptr::eq(owner.cast_const().cast::<G>(), g);
        (is_its_own && sp >= stack.limit()).then(|| StackOf {
            lowest: sp,
            top: stack.top(),
        })
    }

    /// The word at `address`.
    fn word(&self, address: usize) -> Option<usize> {
        let is_inside = address >= self.lowest
            && address.is_multiple_of(align_of::<usize>())
            && address.checked_add(size_of::<usize>())? <= self.top;
        // SAFETY: inside a stack, which is never unmapped. Its goroutine may be storing there: then the
        // value is of no use, and whoever asked throws it away.
        is_inside.then(|| unsafe { (address as *const usize).read_volatile() })
    }
}

#[cfg(target_arch = "x86_64")]
mod tables {
    use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
    use framehop::{
        ExplicitModuleSectionInfo, FrameAddress, Module, MustNotAllocateDuringUnwind, Unwinder,
    };

    use super::{Address, MOST_FRAMES, Registers, StackOf};
    use crate::sys::modules;

    pub(super) struct Tables {
        unwinder: UnwinderX86_64<&'static [u8], MustNotAllocateDuringUnwind>,
        cache: CacheX86_64<MustNotAllocateDuringUnwind>,
    }

    impl Tables {
        pub(super) fn of_loaded_modules() -> Tables {
            let mut unwinder = UnwinderX86_64::new();
            for module in modules::loaded() {
                let in_file = |bytes: &[u8]| {
                    let start = (bytes.as_ptr() as usize).wrapping_sub(module.bias) as u64;
                    start..start + bytes.len() as u64
                };
                unwinder.add_module(Module::new(
                    String::new(),
                    module.range.start as u64..module.range.end as u64,
                    module.bias as u64,
                    ExplicitModuleSectionInfo {
                        base_svma: 0,
                        eh_frame_svma: Some(in_file(module.table)),
                        eh_frame: Some(module.table),
                        eh_frame_hdr_svma: Some(in_file(module.index)),
                        eh_frame_hdr: Some(module.index),
                        ..Default::default()
                    },
                ));
            }
            Tables {
                unwinder,
                cache: CacheX86_64::new_in(),
            }
        }

        pub(super) fn walk(&mut self, from: Registers, stack: &StackOf, frames: &mut Vec<Address>) {
            let registers = UnwindRegsX86_64::new(from.pc as u64, from.sp as u64, from.fp as u64);
            let mut word = |address: u64| {
                stack
                    .word(address as usize)
                    .map(|word| word as u64)
                    .ok_or(())
            };
            let mut iterator =
                self.unwinder
                    .iter_frames(from.pc as u64, registers, &mut self.cache, &mut word);
            let most = frames.capacity().min(frames.len() + MOST_FRAMES + 1);
            // An error is the end of what can be told.
            while frames.len() < most
                && let Ok(Some(frame)) = iterator.next()
            {
                frames.push(match frame {
                    FrameAddress::InstructionPointer(pc) => Address::Next(pc as usize),
                    FrameAddress::ReturnAddress(pc) => Address::Return(pc.get() as usize),
                });
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod tables {
    use super::{Address, Registers, StackOf};

    pub(super) struct Tables;

    impl Tables {
        pub(super) fn of_loaded_modules() -> Tables {
            Tables
        }

        pub(super) fn walk(&mut self, _: Registers, _: &StackOf, _: &mut Vec<Address>) {}
    }
}
