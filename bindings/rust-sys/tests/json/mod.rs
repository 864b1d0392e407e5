// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the JSON that C writes: objects, arrays, plain texts, whole numbers.

use std::collections::BTreeMap;

#[derive(Debug)]
pub enum Value {
    Object(BTreeMap<String, Value>),
    Array(Vec<Value>),
    Text(String),
    Number(i64),
}

impl Value {
    pub fn get(&self, key: &str) -> &Value {
        self.object().get(key).unwrap_or_else(|| panic!("there is no {key}"))
    }

    pub fn object(&self) -> &BTreeMap<String, Value> {
        match self {
            Value::Object(members) => members,
            other => panic!("an object was expected, not {other:?}"),
        }
    }

    pub fn array(&self) -> &[Value] {
        match self {
            Value::Array(items) => items,
            other => panic!("an array was expected, not {other:?}"),
        }
    }

    pub fn string(&self) -> &str {
        match self {
            Value::Text(text) => text,
            other => panic!("a text was expected, not {other:?}"),
        }
    }
}

pub fn parse(text: &str) -> Option<Value> {
    let (value, rest) = value(text)?;
    rest.trim().is_empty().then_some(value)
}

fn value(text: &str) -> Option<(Value, &str)> {
    let text = text.trim_start();
    match text.chars().next()? {
        '{' => {
            let (members, rest) = list(&text[1..], '}', |text| {
                let (key, rest) = string(text.trim_start())?;
                let (value, rest) = value(rest.trim_start().strip_prefix(':')?)?;
                Some(((key, value), rest))
            })?;
            Some((Value::Object(members.into_iter().collect()), rest))
        }
        '[' => list(&text[1..], ']', value).map(|(items, rest)| (Value::Array(items), rest)),
        '"' => string(text).map(|(text, rest)| (Value::Text(text), rest)),
        _ => {
            let end = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
            Some((Value::Number(text[..end].parse().ok()?), &text[end..]))
        }
    }
}

/// Items between commas, up to the closing bracket.
fn list<'t, T>(
    mut text: &'t str,
    close: char,
    item: impl Fn(&'t str) -> Option<(T, &'t str)>,
) -> Option<(Vec<T>, &'t str)> {
    let mut items = Vec::new();
    loop {
        text = text.trim_start();
        if let Some(rest) = text.strip_prefix(close) {
            return Some((items, rest));
        }
        if !items.is_empty() {
            text = text.strip_prefix(',')?;
        }
        let (value, rest) = item(text)?;
        items.push(value);
        text = rest;
    }
}

/// A text without escapes, which names have none of.
fn string(text: &str) -> Option<(String, &str)> {
    let (string, rest) = text.strip_prefix('"')?.split_once('"')?;
    Some((string.to_string(), rest))
}
