//! The two folders of a node: segments grow in one and are linked into the other.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use helenus_commitlog::{Header, Step, Walker};

pub(crate) const PLAIN: &[u8] = include_bytes!("../../../commitlog/tests/fixtures/plain.log");
/// Of the same node, later and compressed.
pub(crate) const LATER: &[u8] = include_bytes!("../../../commitlog/tests/fixtures/lz4.log");
pub(crate) const SCHEMA: &str = include_str!("../../../commitlog/tests/fixtures/schema.json");

/// A node's folders, and the agent's beside them.
pub(crate) struct Folders {
    dir: tempfile::TempDir,
}

impl Folders {
    pub(crate) fn new() -> Self {
        let folders = Folders { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(folders.cdc_raw()).unwrap();
        fs::create_dir(folders.path("commitlog")).unwrap();
        folders
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn cdc_raw(&self) -> PathBuf {
        self.path("cdc_raw")
    }

    /// Begins a segment as a node does: full length, header, linked, no index.
    pub(crate) fn begin(&self, bytes: &[u8]) -> Growing {
        let header = Header::parse(bytes).unwrap();
        let name = format!("CommitLog-7-{}", header.id);
        let own = self.path("commitlog").join(format!("{name}.log"));
        fs::write(&own, vec![0; bytes.len()]).unwrap();
        let log = self.cdc_raw().join(format!("{name}.log"));
        fs::hard_link(&own, &log).unwrap();
        let index = self.cdc_raw().join(format!("{name}_cdc.idx"));
        let growing =
            Growing { own, index, bytes: bytes.to_vec(), written: 0, sections: ends(bytes) };
        growing.write_to(0, header.length);
        growing
    }

    /// Somebody removes everything from `cdc_raw`.
    pub(crate) fn empty_raw(&self) {
        for name in self.raw_files() {
            fs::remove_file(self.cdc_raw().join(name)).unwrap();
        }
    }

    pub(crate) fn raw_files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.cdc_raw()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// A segment that is being written.
pub(crate) struct Growing {
    pub(crate) own: PathBuf,
    pub(crate) index: PathBuf,
    bytes: Vec<u8>,
    written: usize,
    /// Where each section ends.
    pub(crate) sections: Vec<usize>,
}

impl Growing {
    /// Writes up to the end of section `number`, without telling.
    pub(crate) fn write(&mut self, number: usize) {
        let end = self.sections[number];
        self.write_to(self.written, end);
        self.written = end;
    }

    /// Tells that everything up to the end of section `number` is durable.
    pub(crate) fn sync(&self, number: usize) {
        fs::write(&self.index, self.sections[number].to_string()).unwrap();
    }

    /// Tells that nothing more will be written.
    pub(crate) fn complete(&mut self) {
        self.write(self.sections.len() - 1);
        fs::write(&self.index, format!("{}\nCOMPLETED", self.bytes.len())).unwrap();
    }

    fn write_to(&self, from: usize, to: usize) {
        let file = OpenOptions::new().write(true).open(&self.own).unwrap();
        file.write_all_at(&self.bytes[from..to], from as u64).unwrap();
    }
}

fn ends(bytes: &[u8]) -> Vec<usize> {
    let mut walker = Walker::new(Header::parse(bytes).unwrap());
    let mut ends = Vec::new();
    loop {
        let at = usize::try_from(walker.position().file).unwrap();
        let Step::Section(section) = walker.step(&bytes[at..], bytes.len() as u64, None) else {
            return ends;
        };
        ends.push(usize::try_from(section.end.file).unwrap());
    }
}
