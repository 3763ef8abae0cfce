//! What a policy hides.

use super::*;
use crate::change::json::Treatment;

fn policy<const N: usize>(masks: [(&str, Treatment); N], salt: &[u8]) -> Policy {
    Policy::new(masks.map(|(column, treatment)| (column.to_owned(), treatment)).into(), salt)
}

#[test]
fn masked_columns_are_hashed_or_left_out() {
    let catalog = catalog(true);
    let table = table(&catalog);
    let secret = ColumnUpdate::Simple(column(table, "v1"), live(b"secret"));
    let hidden = ColumnUpdate::Simple(column(table, "v2"), live(b"hidden"));
    let events =
        split(update(table, vec![Item::Row(row(vec![secret, hidden]))]), &Origin::default());
    let policy = Policy::new(
        [("ks.t.v1".to_owned(), Treatment::Hash), ("ks.t.v2".to_owned(), Treatment::Drop)].into(),
        b"salt",
    );
    let mut text = String::new();
    json::write(&events.unwrap()[0], &policy, &mut text);
    assert!(!text.contains("secret") && !text.contains("686964") && !text.contains("v2"), "{text}");
    assert!(text.contains(&format!("{{\"$hash\":\"{}\"}}", policy.hash(b"secret").simple())));
    assert_ne!(policy.hash(b"secret"), Policy::new([].into(), b"pepper").hash(b"secret"));
    assert!(json::read(&text, &catalog).is_err(), "what was masked cannot be read back");
}

#[test]
fn ids_of_masked_content_cannot_be_found_by_trying_values() {
    let catalog = catalog(true);
    let table = table(&catalog);
    let pin = ColumnUpdate::Simple(column(table, "v1"), live(b"1234"));
    let events = split(update(table, vec![Item::Row(row(vec![pin]))]), &Origin::default()).unwrap();
    let shown = |salt: &[u8]| {
        let masks = [("ks.t.v1".to_owned(), Treatment::Drop)];
        let mut text = String::new();
        json::write(&events[0], &Policy::new(masks.into(), salt), &mut text);
        text
    };
    let told = |text: &str, id: uuid::Uuid| {
        text.contains(&id.to_string()) || text.contains(&id.simple().to_string())
    };
    let (event_id, trace_id) = (events[0].event_id, events[0].trace_id);
    assert!(!told(&shown(b"salt"), event_id) && !told(&shown(b"salt"), trace_id));
    assert_eq!(shown(b"salt"), shown(b"salt"), "the same on every replica");
    assert_ne!(shown(b"salt"), shown(b"pepper"));
    let mut plain = String::new();
    json::write(&events[0], &Policy::default(), &mut plain);
    assert!(told(&plain, event_id) && told(&plain, trace_id));
}

#[test]
fn all_columns_but_the_named_ones_are_left_out() {
    let catalog = catalog(true);
    let table = table(&catalog);
    let masks = [("ks.t.*", Treatment::Drop), ("ks.t.v1", Treatment::Keep)];
    let masks = masks.map(|(name, treatment)| (name.to_owned(), treatment));
    let policy = Policy::new(masks.into(), b"");
    assert_eq!(policy.treatment(table, column(table, "v1")), Treatment::Keep);
    assert_eq!(policy.treatment(table, column(table, "v2")), Treatment::Drop);
    let key = &table.partition_key[0];
    assert_eq!(policy.treatment(table, key), Treatment::Keep, "keys only by their names");
    assert_eq!(policy.unknown(&catalog), (vec![], vec![]));
    let misspelt = [("ks.t.w1", Treatment::Hash), ("ks.u.v1", Treatment::Hash)];
    let misspelt = misspelt.map(|(name, treatment)| (name.to_owned(), treatment));
    let unknown = Policy::new(misspelt.into(), b"").unknown(&catalog);
    assert_eq!(unknown, (vec!["ks.t.w1".to_owned()], vec!["ks.u".to_owned()]));
    let other = Policy::new([("ks.other.*".to_owned(), Treatment::Drop)].into(), b"");
    assert_eq!(other.treatment(table, column(table, "v2")), Treatment::Keep);
}

/// A collection's column, and its one element as path and value; what is secret says so.
const COLLECTIONS: [(&str, &[u8], &[u8]); 4] = [
    ("v12", &[0x11; 16], b"secret value"),
    ("v13", b"secret element", b""),
    ("v14", b"secret key", b"secret value"),
    ("v11", &[0, 0], b"secret street"),
];

/// The collections as one row writes them: replaced if there is a deletion before them.
fn collections(table: &Table, replaced: Option<Deletion>) -> String {
    let columns = COLLECTIONS.map(|(name, path, value)| {
        ColumnUpdate::Complex(column(table, name), replaced, vec![(path, live(value))])
    });
    let events = split(update(table, vec![Item::Row(row(columns.into()))]), &Origin::default());
    let mut text = String::new();
    let policy = policy([("ks.t.*", Treatment::Hash)], b"salt");
    json::write(&events.unwrap()[0], &policy, &mut text);
    text
}

#[test]
fn nothing_of_a_masked_collection_is_shown() {
    let catalog = catalog(true);
    let table = table(&catalog);
    for text in [collections(table, None), collections(table, Some(deletion(4)))] {
        assert!(!text.contains("secret") && !text.contains("736563726574"), "{text}");
    }
}

#[test]
fn each_part_of_a_masked_collection_has_its_hash() {
    let catalog = catalog(true);
    let text = collections(table(&catalog), Some(deletion(4)));
    let event: serde_json::Value = serde_json::from_str(&text).unwrap();
    let policy = policy([("ks.t.*", Treatment::Hash)], b"salt");
    let hash = |bytes: &[u8]| serde_json::json!({"$hash": policy.hash(bytes).simple().to_string()});
    let (key, value) = (hash(b"secret key"), hash(b"secret value"));
    assert_eq!(
        event["after_data"],
        serde_json::json!({
            "v11": {"street": hash(b"secret street")},
            "v12": [value],
            "v13": [hash(b"secret element")],
            // No object, although the keys are text: they are not any more.
            "v14": [[key, value]],
        })
    );
    assert_eq!(event["columns"]["v14"]["elements"][0]["path"], key);
}

#[test]
fn masks_of_key_columns_and_of_former_ones_are_known() {
    let catalog = catalog(true);
    let masks = [("ks.t.p2", Treatment::Hash), ("ks.t.C1", Treatment::Hash)];
    assert_eq!(policy(masks, b"").unknown(&catalog), (vec![], vec![]));
    let former = Column { current: false, ..column(table(&catalog), "v1").clone() };
    let key = table(&catalog).partition_key.clone();
    let columns = key.into_iter().chain([former]).collect();
    let catalog = Catalog::new([Table::new(table(&catalog).id, "ks", "t", columns)]);
    assert_eq!(policy([("ks.t.v1", Treatment::Drop)], b"").unknown(&catalog), (vec![], vec![]));
    let missing = policy([("ks.t.C1", Treatment::Hash)], b"").unknown(&catalog).0;
    assert_eq!(missing, ["ks.t.C1"]);
}
