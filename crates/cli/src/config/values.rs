//! Values that are more than a word: sizes and durations with their unit, copies per data centre,
//! one of several names.
//!
//! The environment can only give texts, so every one of them can be written as text.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use helenus::cassandra::Replication;
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// `4MiB`, `512KiB`, or bytes.
pub(super) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    const UNITS: [(&str, u64); 5] =
        [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("", 1)];
    let Scalar(text) = Scalar::deserialize(deserializer)?;
    let bytes = measured(&text, &UNITS).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| {
        de::Error::custom(format!("'{text}' is not a size; write bytes, KiB or MiB, as in 4MiB"))
    })
}

/// `24h`, `5s`, `250ms`.
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let Scalar(text) = Scalar::deserialize(deserializer)?;
    parse_duration(&text).map_err(de::Error::custom)
}

/// The same from a text.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 5] =
        [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let milliseconds = measured(text, &UNITS).filter(|milliseconds| *milliseconds > 0);
    milliseconds
        .map(Duration::from_millis)
        .ok_or_else(|| format!("'{text}' is not a duration; write ms, s, m, h or d, as in 24h"))
}

/// A number of at least one.
pub(super) fn count<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr + Default + PartialEq,
{
    let Scalar(text) = Scalar::deserialize(deserializer)?;
    let number = text.trim().parse().ok().filter(|number| *number != T::default());
    number.ok_or_else(|| de::Error::custom(format!("'{text}' is not a number of at least 1")))
}

/// `true` or `false`.
pub(super) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let Scalar(text) = Scalar::deserialize(deserializer)?;
    text.trim().parse().map_err(|_| de::Error::custom(format!("'{text}' is not true or false")))
}

/// `["a", "b"]`, as text `a,b`.
pub(super) fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct WordsVisitor;
    impl<'de> Visitor<'de> for WordsVisitor {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list, as [\"one\", \"two\"]")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            let words: Vec<String> = words.map(str::to_owned).collect();
            // Most likely a variable that was never set, where no names may mean all of them.
            if words.is_empty() {
                return Err(E::custom(
                    "an empty text names nothing; leave it out, or write a list",
                ));
            }
            Ok(words)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut words = Vec::new();
            while let Some(word) = list.next_element()? {
                words.push(word);
            }
            Ok(words)
        }
    }
    deserializer.deserialize_any(WordsVisitor)
}

/// Names and values: `{ "a.b" = "c" }`, as text `a.b=c,d=e`.
pub(super) fn pairs<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: From<String>,
{
    struct PairsVisitor;
    impl<'de> Visitor<'de> for PairsVisitor {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("names with their values, as { \"name\" = \"value\" }")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
            let split = pairs.map(|pair| match pair.split_once('=') {
                Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
                None => Err(E::custom(format!("'{pair}' has no value; write name=value"))),
            });
            split.collect()
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = BTreeMap::new();
            while let Some((name, Scalar(value))) = map.next_entry::<String, Scalar>()? {
                pairs.insert(name, value);
            }
            Ok(pairs)
        }
    }
    let pairs = deserializer.deserialize_any(PairsVisitor)?;
    Ok(pairs.into_iter().map(|(name, value)| (name, T::from(value))).collect())
}

fn measured(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// One of the names, as what it stands for.
pub(super) fn named<'de, D, T, const N: usize>(
    deserializer: D,
    names: [(&str, T); N],
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
{
    let text = String::deserialize(deserializer)?;
    let known: Vec<String> = names.iter().map(|(name, _)| (*name).to_owned()).collect();
    let found = names.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim()));
    found
        .map(|(_, value)| value)
        .ok_or_else(|| de::Error::custom(format!("'{text}' is none of {}", known.join(", "))))
}

/// A number, or numbers by data centre: `{ dc1 = 3, dc2 = 2 }`, as text `dc1=3,dc2=2`.
pub(super) fn replication<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Replication, D::Error> {
    deserializer.deserialize_any(ReplicationVisitor)
}

struct ReplicationVisitor;

impl ReplicationVisitor {
    fn copies<E: de::Error>(text: &str) -> Result<u8, E> {
        let copies = text.trim().parse().ok().filter(|copies| *copies > 0);
        copies.ok_or_else(|| E::custom(format!("'{text}' is not a number of copies")))
    }
}

impl<'de> Visitor<'de> for ReplicationVisitor {
    type Value = Replication;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of copies, or { DATA_CENTRE = NUMBER }")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Replication, E> {
        Self::copies(&number.to_string()).map(Replication::Simple)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Replication, E> {
        if !text.contains('=') {
            return Self::copies(text).map(Replication::Simple);
        }
        let centres = text.split(',').map(|pair| {
            let (name, copies) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((name.trim().to_owned(), Self::copies(copies)?))
        });
        Ok(Replication::PerDataCentre(centres.collect::<Result<_, E>>()?))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Replication, A::Error> {
        let mut centres = BTreeMap::new();
        while let Some((name, Scalar(copies))) = map.next_entry::<String, Scalar>()? {
            centres.insert(name, Self::copies(&copies)?);
        }
        if centres.is_empty() {
            return Err(de::Error::invalid_length(0, &self));
        }
        Ok(Replication::PerDataCentre(centres))
    }
}

/// A text, or a number that is taken as one.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number, true or false")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }

            fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Scalar, E> {
                Ok(Scalar(flag.to_string()))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}
