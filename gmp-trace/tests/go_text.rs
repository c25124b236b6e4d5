//! The text form of Go traces: what is printed is read back as the same records.

mod go_support;

use gmp_trace::Error;
use gmp_trace::go::experiment::Allocation;
use gmp_trace::go::text::{from_text, to_text};

use go_support::{drain, strict, trace, traces};

fn printed(bytes: &[u8]) -> Result<String, Error> {
    let mut text = Vec::new();
    to_text(bytes, &mut text)?;
    Ok(String::from_utf8(text).expect("text"))
}

#[test]
fn real_traces_there_and_back() {
    let mut checked = 0;
    for (name, bytes) in traces() {
        if name.starts_with("go1.21") {
            let error = printed(&bytes).expect_err("the older format");
            assert!(error.is_unsupported_version(), "{name}: {error}");
            continue;
        }
        let text = printed(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.starts_with("Trace Go1."), "{name}");
        let again = from_text(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(printed(&again).expect("printed"), text, "{name}");
        // Sizes of batches are written shorter than they were; a trace with open sizes has them right.
        let open = text.lines().map(open_size).collect::<Vec<_>>().join("\n");
        let again = from_text(&open).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut first = strict(&bytes).expect("a trace");
        let mut second = strict(&again).expect("a trace");
        let (mut first, mut second) = (drain(&mut first), drain(&mut second));
        assert!(
            first.1.is_none() && second.1.is_none(),
            "{name}: {:?}",
            second.1
        );
        assert_eq!(first.0.len(), second.0.len(), "{name}");
        assert_eq!(first.0.pop(), second.0.pop(), "{name}");
        checked += first.0.len();
    }
    assert!(checked > 100_000);
}

fn open_size(line: &str) -> String {
    match line.split_once(" size=") {
        Some((head, _)) if line.starts_with("EventBatch") => format!("{head} size=?"),
        _ => line.to_owned(),
    }
}

#[test]
fn a_cut_trace_is_printed_as_far_as_it_goes() {
    let bytes = trace("go1.27-tasks");
    let whole = printed(&bytes).expect("printed");
    let mut text = Vec::new();
    let error = to_text(&bytes[..bytes.len() - 200], &mut text).expect_err("cut");
    assert!(
        error.is_corrupt() && error.offset() < bytes.len() as u64,
        "{error}"
    );
    let text = String::from_utf8(text).expect("text");
    assert!(text.len() > 1000 && whole.starts_with(&text));
}

#[test]
fn the_experiment_about_allocations_is_decoded() {
    let bytes = trace("go1.27-locked-allocfree");
    let mut reader = strict(&bytes).expect("a trace");
    let (mut spans, mut objects, mut stacks, mut named) = (0, 0, 0, 0);
    while let Some(event) = reader.next().expect("a whole trace") {
        let Some(allocation) = Allocation::of(&event.body) else {
            continue;
        };
        let ids = reader.allocations().expect("the ids");
        match allocation {
            Allocation::Span { id, pages, .. } | Allocation::SpanAlloc { id, pages, .. } => {
                let address = ids.span_address(id).expect("an address");
                assert_eq!(address % 8192, 0);
                assert!(pages > 0);
                spans += 1;
            }
            Allocation::Object { id, type_id } | Allocation::ObjectAlloc { id, type_id } => {
                assert_eq!(ids.object_address(id).expect("an address") % 8, 0);
                if let Some(of) = ids.type_with(type_id) {
                    assert!(!reader.tables().text(of.name).is_empty());
                    assert!(of.pointer_bytes <= of.size);
                    named += 1;
                }
                objects += 1;
            }
            Allocation::Stack { id, order } | Allocation::StackAlloc { id, order } => {
                assert_eq!(ids.stack_address(id).expect("an address") % 2048, 0);
                assert!(order >= 11, "{order}");
                stacks += 1;
            }
            _ => {}
        }
    }
    assert!(
        spans > 10 && objects > 100 && stacks > 3 && named > 10,
        "{spans} {objects} {stacks} {named}"
    );
    assert!(
        reader
            .allocations()
            .is_some_and(|ids| ids.types().count() > 5)
    );
}
