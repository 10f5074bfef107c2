//! Containers and their long specs, which lie in two tables.

use super::containers::{self as table, ContainerRow};
use super::long_specs::{LONG, has_table, is_mark};
use super::{Db, Durability, Flush, failed};

fn row(id: &str, slot: u32) -> ContainerRow {
    let name = format!("name-{id}");
    ContainerRow { id: id.into(), slot, name, created_ns: 1, image_id: "i".into(), error: String::new() }
}

#[test]
fn a_long_spec_is_found_changed_and_removed_with_its_container() {
    let root = std::env::temp_dir().join(format!("coracle-long-{}", std::process::id()));
    std::fs::create_dir_all(&root).unwrap();
    let db = Db::open(&root, Durability::Off).unwrap();
    let long = |letter: &str, auto: &str| format!("{{\"a\":\"{}\"{auto}}}", letter.repeat(LONG));
    let spec = |id: &str| db.read(|tx| table::find(tx, id, &mut |_, text| Ok(text.to_owned()))).unwrap();
    let apart = || {
        let count = "SELECT count(*) FROM long_specs";
        db.read(|tx| tx.query_row(count, [], |row| row.get::<_, i64>(0)).map_err(failed)).unwrap()
    };
    let set = |id: &str, text: &str| db.write(Flush::Lazy, |tx| table::set_spec(tx, id, text)).unwrap();
    db.write(Flush::Lazy, |tx| table::insert(tx, &row("ab", 1), "{}".into())).unwrap();
    set("ab", "{\"b\":1}");
    assert_eq!((spec("ab"), db.read(has_table).unwrap()), ("{\"b\":1}".into(), false));

    db.write(Flush::Lazy, |tx| table::insert(tx, &row("cd", 2), long("x", ",\"AutoRemove\":true"))).unwrap();
    assert_eq!((spec("cd"), apart()), (long("x", ",\"AutoRemove\":true"), 1));
    assert_eq!(db.read(table::auto_removed).unwrap(), ["cd"]);
    let stored = "SELECT spec FROM containers WHERE id = 'cd'";
    let stored = db.read(|tx| tx.query_row(stored, [], |row| row.get::<_, String>(0)).map_err(failed)).unwrap();
    assert!(is_mark(&stored) && stored.len() < 40, "{stored}");
    let all = db.read(|tx| table::each(tx, |row, text| Ok((row.id, text.len())))).unwrap();
    assert_eq!(all, [("ab".to_owned(), 7), ("cd".to_owned(), spec("cd").len())]);

    set("cd", &long("y", ""));
    assert_eq!((spec("cd"), apart(), db.read(table::auto_removed).unwrap().len()), (long("y", ""), 1, 0));
    set("cd", "{}");
    assert_eq!((spec("cd"), apart()), ("{}".into(), 0));
    set("cd", &long("z", ""));
    // Of a container that is gone nothing stays, and nothing comes back.
    db.write(Flush::Lazy, |tx| table::delete(tx, "cd")).unwrap();
    set("cd", &long("z", ""));
    assert_eq!(apart(), 0);
    std::fs::remove_dir_all(&root).unwrap();
}
