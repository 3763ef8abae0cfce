//! The configuration as it is in effect, for others to see: every key, no secret.

use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use super::{Config, keys, secret};

/// What is shown instead of a value that may be a secret.
const HIDDEN: &str = "***";

/// Defaults, file and environment laid over each other, secrets taken out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Effective(Json);

impl Default for Effective {
    fn default() -> Self {
        Effective::of(&Table::new())
    }
}

impl Effective {
    /// The defaults, under what the file and the environment say.
    pub(super) fn of(configured: &Table) -> Self {
        let mut table: Table = keys::template().parse().unwrap_or_default();
        lay_over(&mut table, configured);
        let mut json = serde_json::to_value(&table).unwrap_or_default();
        hide(&mut json);
        Effective(json)
    }
}

fn lay_over(below: &mut Table, above: &Table) {
    for (name, value) in above {
        match (below.get_mut(name), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay_over(below, above),
            _ => {
                below.insert(name.clone(), value.clone());
            }
        }
    }
}

impl Config {
    /// Every key with the value that counts; passwords and tokens by where they are, settings of
    /// Kafka's client by their names.
    pub(crate) fn shown(&self) -> Json {
        let mut json = self.effective.0.clone();
        // As the parsed ones show themselves, without a password, and as arguments may have them.
        let urls = [
            ("store", Some(self.store.url.to_string())),
            ("broker", Some(self.broker.url.to_string())),
            ("metadata", Some(self.metadata.url.to_string())),
            ("target", self.target.url.as_ref().map(ToString::to_string)),
            ("registry", self.registry.url.as_ref().map(ToString::to_string)),
            ("capture", self.capture.url.as_ref().map(ToString::to_string)),
        ];
        let urls = urls.map(|(section, url)| (section, "url", url));
        let address = Some(self.serve.listen.to_string());
        for (section, key, value) in urls.into_iter().chain([("serve", "listen", address)]) {
            let section = json.get_mut(section).and_then(Json::as_object_mut);
            if let (Some(section), Some(value)) = (section, value) {
                section.insert(key.to_owned(), value.into());
            }
        }
        json
    }
}

fn hide(json: &mut Json) {
    let Json::Object(keys) = json else { return };
    for (name, value) in keys {
        match name.as_str() {
            "settings" => *value = names_only(value),
            // A password may be in it.
            "url" => *value = HIDDEN.into(),
            name if secret::KEYS.contains(&name) => {
                if value.get(secret::GIVEN).is_some() {
                    *value = HIDDEN.into();
                }
            }
            _ => hide(value),
        }
    }
}

/// Names with their values hidden, however they were written.
fn names_only(settings: &Json) -> Json {
    let hidden = |name: &str| (name.trim().to_owned(), HIDDEN.into());
    let names: Map<String, Json> = match settings {
        Json::Object(pairs) => pairs.keys().map(|name| hidden(name)).collect(),
        Json::String(text) => text
            .split(',')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, _)| hidden(name))
            .collect(),
        _ => Map::new(),
    };
    names.into()
}
