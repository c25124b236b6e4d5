//! Numbers as people read them: durations, shares, counts, bytes.

use gmp_trace::time::Nanos;

/// A duration with three significant digits: `0`, `950ns`, `1.23µs`, `45.6ms`, `1.50s`, `2m05s`,
/// `3h12m`.
pub fn duration(time: Nanos) -> String {
    let ns = time.0;
    if ns < 0 {
        return format!("-{}", duration(Nanos(ns.checked_neg().unwrap_or(i64::MAX))));
    }
    if ns == 0 {
        return "0".to_owned();
    }
    if ns < 1_000 {
        return format!("{ns}ns");
    }
    for (unit, size) in [("µs", 1e3), ("ms", 1e6), ("s", 1e9)] {
        let value = three_digits(ns as f64 / size);
        // The largest unit of this loop goes to a minute, the others to a thousand; what rounds up
        // to the limit belongs to the next unit.
        let limit = if unit == "s" { 60.0 } else { 1000.0 };
        if value.1 < limit {
            return format!("{}{unit}", value.0);
        }
    }
    let seconds = ns.saturating_add(500_000_000) / 1_000_000_000;
    if seconds < 3600 {
        return format!("{}m{:02}s", seconds / 60, seconds % 60);
    }
    let minutes = (seconds + 30) / 60;
    format!("{}h{:02}m", minutes / 60, minutes % 60)
}

/// `value` with three significant digits, and the value that they say.
fn three_digits(value: f64) -> (String, f64) {
    let text = if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    };
    let said = text.parse().unwrap_or(value);
    (text, said)
}

/// A share of one as a percentage: `0%`, `<0.1%`, `4.2%`, `57.3%`, `100%`.
pub fn percent(share: f64) -> String {
    if !share.is_finite() || share <= 0.0 {
        return "0%".to_owned();
    }
    let percent = share * 100.0;
    if percent < 0.05 {
        "<0.1%".to_owned()
    } else if percent >= 99.95 {
        format!("{percent:.0}%")
    } else {
        format!("{percent:.1}%")
    }
}

/// `part` as a share of `whole`; zero where there is no whole.
pub fn share(part: Nanos, whole: Nanos) -> f64 {
    if whole.0 <= 0 {
        0.0
    } else {
        part.0 as f64 / whole.0 as f64
    }
}

/// A count with its thousands apart: `12 345 678`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A count and its noun: `1 event`, `2 events`, `2 searches`.
pub fn counted(n: u64, noun: &str) -> String {
    let plural = match n {
        1 => "",
        _ if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {noun}{plural}", count(n))
}

/// A number of bytes: `812 B`, `1.23 kB`, `45.6 MB`.
pub fn bytes(n: u64) -> String {
    if n < 1_000 {
        return format!("{n} B");
    }
    let mut value = n as f64;
    for unit in ["kB", "MB", "GB"] {
        value /= 1000.0;
        let (text, said) = three_digits(value);
        if said < 1000.0 {
            return format!("{text} {unit}");
        }
    }
    format!("{:.0} TB", value / 1000.0)
}

/// A duration as people write it: a number and its unit, `10ms`, `1.5s`, `250us`, `0`.
///
/// # Errors
///
/// What was expected and what was found instead.
pub fn parse_duration(text: &str) -> Result<Nanos, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    let size = match unit {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        "" if number == "0" => 1.0,
        _ => return Err(not_a_duration(text)),
    };
    match number.parse::<f64>() {
        Ok(value) if (value * size) < i64::MAX as f64 => Ok(Nanos((value * size).round() as i64)),
        _ => Err(not_a_duration(text)),
    }
}

fn not_a_duration(text: &str) -> String {
    format!(
        "expected a number and a unit (ns, us, ms, s, m, h), as in 10ms or 1.5s, found {text:?}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let cases = [
            (0, "0"),
            (999, "999ns"),
            (1_000, "1.00µs"),
            (1_234, "1.23µs"),
            (9_996, "10.0µs"),
            (45_600, "45.6µs"),
            (999_499, "999µs"),
            (999_600, "1.00ms"),
            (1_500_000_000, "1.50s"),
            (59_960_000_000, "1m00s"),
            (125_000_000_000, "2m05s"),
            (11_520_000_000_000, "3h12m"),
            (-1_234, "-1.23µs"),
        ];
        for (ns, text) in cases {
            assert_eq!(duration(Nanos(ns)), text, "{ns}");
        }
        assert!(duration(Nanos(i64::MIN)).starts_with('-'));
    }

    #[test]
    fn durations_that_people_write() {
        let cases = [
            ("0", 0),
            ("17ns", 17),
            ("250us", 250_000),
            ("250µs", 250_000),
            ("10ms", 10_000_000),
            ("1.5s", 1_500_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
        ];
        for (text, ns) in cases {
            assert_eq!(parse_duration(text), Ok(Nanos(ns)), "{text}");
        }
        for text in [
            "",
            "10",
            "ms",
            "-1ms",
            "1.2.3s",
            "10 ms",
            "1e3s",
            "99999999999h",
            "1d",
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains("as in 10ms"), "{text}: {error}");
        }
    }

    #[test]
    fn shares() {
        let cases = [
            (0.0, "0%"),
            (0.0004, "<0.1%"),
            (0.0421, "4.2%"),
            (0.9996, "100%"),
            (1.0, "100%"),
        ];
        for (share, text) in cases {
            assert_eq!(percent(share), text, "{share}");
        }
        assert_eq!(percent(f64::NAN), "0%");
        assert_eq!(share(Nanos(1), Nanos(0)), 0.0);
        assert_eq!(share(Nanos(1), Nanos(4)), 0.25);
    }

    #[test]
    fn counts_and_bytes() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1 000");
        assert_eq!(count(12_345_678), "12 345 678");
        assert_eq!(counted(1, "event"), "1 event");
        assert_eq!(counted(2_000, "event"), "2 000 events");
        assert_eq!(counted(2, "search"), "2 searches");
        assert_eq!(bytes(812), "812 B");
        assert_eq!(bytes(1_234), "1.23 kB");
        assert_eq!(bytes(999_999), "1.00 MB");
        assert_eq!(bytes(u64::MAX), "18446744 TB");
    }
}
