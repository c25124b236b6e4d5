//! Explains scheduler traces: events become spans, spans become answers.
