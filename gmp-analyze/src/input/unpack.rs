//! Gzip that may be cut: what was unpacked before the damage is kept, the damage is remembered.

use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

/// Whether the gzip was damaged, and how; shared with the reader that unpacks.
#[derive(Clone, Debug, Default)]
pub(super) struct Damage(Arc<OnceLock<String>>);

impl Damage {
    /// What was wrong; `None` where nothing was so far.
    pub(super) fn message(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// Unpacks; the end of what can be unpacked is the end of the file.
#[derive(Debug)]
pub(super) struct Unpacked<R> {
    inner: R,
    damage: Damage,
}

impl<R> Unpacked<R> {
    pub(super) fn new(inner: R) -> Unpacked<R> {
        Unpacked {
            inner,
            damage: Damage::default(),
        }
    }

    pub(super) fn damage(&self) -> Damage {
        self.damage.clone()
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.damage.message().is_some() {
            return Ok(0);
        }
        match self.inner.read(buffer) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::UnexpectedEof
                        | io::ErrorKind::InvalidData
                        | io::ErrorKind::InvalidInput
                ) =>
            {
                // The first damage is what is remembered; there is no second one.
                let _ = self.damage.0.set(error.to_string());
                Ok(0)
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::{GzEncoder, MultiGzDecoder};

    #[test]
    fn cut_gzip_gives_what_is_there() {
        let text: Vec<u8> = (0..100_000_u32).flat_map(|n| n.to_le_bytes()).collect();
        let mut packed = Vec::new();
        let level = flate2::Compression::fast();
        GzEncoder::new(text.as_slice(), level)
            .read_to_end(&mut packed)
            .expect("packs");
        for length in [packed.len(), packed.len() / 2, packed.len() - 3, 20] {
            let mut unpacked = Unpacked::new(MultiGzDecoder::new(&packed[..length]));
            let damage = unpacked.damage();
            let mut bytes = Vec::new();
            unpacked.read_to_end(&mut bytes).expect("no error");
            assert!(text.starts_with(&bytes));
            assert_eq!(
                damage.message().is_some(),
                length < packed.len(),
                "{length}"
            );
        }
    }
}
