//! Programs of all shapes.

use gmp_trace::testgen::{Config, Mix};
use proptest::prelude::*;

/// Any small program, whose clocks agree.
pub(crate) fn any_config() -> impl Strategy<Value = Config> {
    let shape = (1..40usize, 1..6usize, 1..5usize, 1..900u64, 1..4u32);
    (shape, any::<bool>()).prop_map(|(shape, channels)| {
        let (goroutines, ms, ps, events, generations) = shape;
        let mix = if channels {
            Mix::Channels
        } else {
            Mix::Everything
        };
        Config {
            goroutines,
            ms,
            ps,
            events,
            generations,
            mix,
            ..Config::default()
        }
    })
}
