//! The figures of Go's own reader and summarizer for a fixture.

use std::collections::BTreeMap;

use serde_json::Value;

/// What the file beside a trace says.
pub(crate) struct Oracle {
    value: Value,
}

impl Oracle {
    /// The expectation of the trace with `name`.
    pub(crate) fn read(name: &str) -> Oracle {
        let path = super::fixtures().join(format!("{name}.json"));
        let text = std::fs::read_to_string(path).expect("an expectation");
        Oracle {
            value: serde_json::from_str(&text).expect("JSON"),
        }
    }

    pub(crate) fn number(&self, key: &str) -> i64 {
        self.value[key]
            .as_i64()
            .unwrap_or_else(|| panic!("no number {key}"))
    }

    /// The object of numbers with `key`.
    pub(crate) fn numbers(&self, key: &str) -> BTreeMap<String, i64> {
        numbers(&self.value[key])
    }

    pub(crate) fn goroutines(&self) -> Vec<Goroutine> {
        let list = self.value["goroutines"].as_array().expect("goroutines");
        list.iter()
            .map(|value| Goroutine {
                value: value.clone(),
            })
            .collect()
    }

    /// Tasks: id, name, complete, duration, parent, logs, regions.
    pub(crate) fn tasks(&self) -> Vec<(i64, String, bool, i64, i64, i64, i64)> {
        let number = |value: &Value, key: &str| value[key].as_i64().expect("a number");
        let Some(list) = self.value["tasks"].as_array() else {
            return Vec::new();
        };
        list.iter()
            .map(|t| {
                (
                    number(t, "id"),
                    t["name"].as_str().expect("a name").to_owned(),
                    t["complete"].as_bool().expect("complete"),
                    number(t, "duration_ns"),
                    number(t, "parent"),
                    number(t, "logs"),
                    number(t, "regions"),
                )
            })
            .collect()
    }
}

/// The expectation for one goroutine.
pub(crate) struct Goroutine {
    value: Value,
}

impl Goroutine {
    pub(crate) fn name(&self) -> &str {
        self.value["name"].as_str().expect("a name")
    }

    pub(crate) fn number(&self, key: &str) -> i64 {
        self.value[key]
            .as_i64()
            .unwrap_or_else(|| panic!("no number {key}"))
    }

    pub(crate) fn numbers(&self, key: &str) -> BTreeMap<String, i64> {
        numbers(&self.value[key])
    }
}

fn numbers(value: &Value) -> BTreeMap<String, i64> {
    let Some(object) = value.as_object() else {
        return BTreeMap::new();
    };
    object
        .iter()
        .map(|(key, n)| (key.clone(), n.as_i64().expect("a number")))
        .collect()
}
