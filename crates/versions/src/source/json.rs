//! JSON lines: an object a line.
//!
//! Objects need not have the same keys. The list of names grows with the keys that are met, and
//! the visitor is told when it has; a record has nulls where its object has nothing.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::ops::ControlFlow;

use serde_json::{Map, Value};

use super::{Event, File, SourceError, Visitor, partition_fields};
use crate::row::Field;

/// Bytes of one line.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

pub(super) fn read(
    file: &File,
    mut text: Box<dyn BufRead>,
    visitor: &mut Visitor<'_>,
) -> Result<ControlFlow<()>, SourceError> {
    let mut names = Names::default();
    let partitions = partition_fields(file);
    let mut bytes = Vec::new();
    for line in 1_u64.. {
        bytes.clear();
        let mut bounded = (&mut text).take(LINE_BYTES_MAX);
        let count = bounded.read_until(b'\n', &mut bytes).map_err(SourceError::io(file))?;
        if count == 0 {
            break;
        }
        if count as u64 == LINE_BYTES_MAX {
            return Err(SourceError::malformed(file, format!("line {line} is over 16 MiB")));
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let told = match serde_json::from_slice::<Map<String, Value>>(&bytes) {
            Ok(object) => {
                if names.take_in(&object) {
                    let mut all = names.list.clone();
                    all.extend(file.partitions.iter().map(|partition| partition.name.clone()));
                    let partitions = file.partitions.len();
                    let event = Event::Fields { names: &all, partitions, types: &[], open: true };
                    if visitor(file, event).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                let mut fields = names.fields(&object);
                fields.extend(partitions.iter().cloned());
                visitor(file, Event::Record { line, fields: &fields })
            }
            Err(error) => {
                let reason = format!("it is not a JSON object: {error}");
                let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
                visitor(file, Event::Bad { line, reason, text })
            }
        };
        if told.is_break() {
            return Ok(told);
        }
    }
    Ok(ControlFlow::Continue(()))
}

#[derive(Default)]
struct Names {
    list: Vec<String>,
    places: HashMap<String, usize>,
}

impl Names {
    /// Whether the object brought a name that was not known.
    fn take_in(&mut self, object: &Map<String, Value>) -> bool {
        let before = self.list.len();
        for name in object.keys() {
            if !self.places.contains_key(name) {
                self.places.insert(name.clone(), self.list.len());
                self.list.push(name.clone());
            }
        }
        self.list.len() > before
    }

    fn fields<'a>(&self, object: &'a Map<String, Value>) -> Vec<Field<'a>> {
        let mut fields = vec![Field::Null; self.list.len()];
        for (name, value) in object {
            let place = self.places.get(name).and_then(|place| fields.get_mut(*place));
            if let Some(place) = place {
                *place = match value {
                    Value::String(text) => Field::Text(Cow::Borrowed(text)),
                    Value::Null => Field::Null,
                    other => Field::Json(Cow::Borrowed(other)),
                };
            }
        }
        fields
    }
}
