//! From what was named to the files that are read, with what their paths say.

use std::path::{Component, Path, PathBuf};

use super::{Compression, Entry, Format, ReadOptions, SourceError, Standard, Storage};

/// Everything a run reads, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// The files.
    pub files: Vec<File>,
    /// What has been read of standard input already.
    pub standard: Standard,
}

/// A file of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path; `-` for standard input.
    pub path: PathBuf,
    /// Where it is; `None` for standard input.
    pub entry: Option<Entry>,
    /// How its records are written.
    pub format: Format,
    /// How it is compressed.
    pub compression: Compression,
    /// What its directories say: `dt=2026-11-15`.
    pub partitions: Vec<Partition>,
}

/// One directory of a partition tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The column.
    pub name: String,
    /// Its value; `None` for Hive's name of null.
    pub value: Option<String>,
}

/// What Hive calls the directory of rows without a value.
const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";

impl Input {
    /// Bytes to read; `None` if standard input is among it.
    pub fn bytes(&self) -> Option<u64> {
        self.files.iter().map(|file| file.entry.as_ref().map(|entry| entry.bytes)).sum()
    }

    /// Whether standard input is among it.
    pub fn has_standard(&self) -> bool {
        self.files.iter().any(|file| file.entry.is_none())
    }

    /// What tells this input from another: names and lengths, in order.
    pub fn describe(&self) -> String {
        let describe = |file: &File| match &file.entry {
            Some(entry) => format!("{} ({} bytes)", file.path.display(), entry.bytes),
            None => "standard input".to_owned(),
        };
        match self.files.as_slice() {
            [one] => describe(one),
            files => {
                let all: Vec<String> = files.iter().map(describe).collect();
                // A tree of thousands of files must not fill the catalog.
                let hash = helenus_cql::token::Token::of(all.join("\n").as_bytes()).0;
                let bytes = self.bytes().unwrap_or(0);
                format!(
                    "{} files from {} on ({bytes} bytes, names {hash:016x})",
                    files.len(),
                    all.first().map_or("nothing", String::as_str)
                )
            }
        }
    }
}

/// Finds the files of what was named: files, trees, or `-` for standard input.
pub fn find(
    sources: &[PathBuf],
    storage: &dyn Storage,
    options: &ReadOptions,
) -> Result<Input, SourceError> {
    let mut input = Input::default();
    for source in sources {
        if source.as_os_str() == "-" {
            if input.has_standard() {
                return Err(SourceError::Standard {
                    reason: "can be read once, and is named twice",
                });
            }
            let format = options.format.unwrap_or(Format::Csv);
            if format == Format::Parquet {
                return Err(SourceError::Standard { reason: "cannot be Parquet" });
            }
            input.files.push(File {
                path: source.clone(),
                entry: None,
                format,
                compression: Compression::None,
                partitions: Vec::new(),
            });
            continue;
        }
        let found = storage
            .list(source)
            .map_err(|error| SourceError::Io { path: source.clone(), source: error })?;
        if found.is_empty() {
            return Err(SourceError::Empty { path: source.clone() });
        }
        for entry in found {
            input.files.push(file(source, entry, options)?);
        }
    }
    Ok(input)
}

fn file(root: &Path, entry: Entry, options: &ReadOptions) -> Result<File, SourceError> {
    let path = entry.path.clone();
    let (format, compression) = recognised(&path);
    let format = options.format.or(format);
    let format = format.ok_or_else(|| SourceError::Format { path: path.clone() })?;
    // Of a file that was named itself, the directories above it are not part of the data.
    let below = path.strip_prefix(root).unwrap_or(Path::new(""));
    let mut partitions: Vec<Partition> = below.parent().into_iter().flat_map(partitions).collect();
    if let Some(own) = root.file_name().and_then(|name| partition(&name.to_string_lossy())) {
        partitions.insert(0, own);
    }
    Ok(File { path, entry: Some(entry), format, compression, partitions })
}

fn partitions(directory: &Path) -> Vec<Partition> {
    let names = directory.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy()),
        _ => None,
    });
    names.filter_map(|name| partition(&name)).collect()
}

fn partition(name: &str) -> Option<Partition> {
    let (name, value) = name.split_once('=')?;
    if name.is_empty() {
        return None;
    }
    let value = (value != HIVE_NULL).then(|| unescaped(value));
    Some(Partition { name: unescaped(name), value })
}

/// Hive writes what cannot stand in a path as `%3A`.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.first_chunk::<2>().filter(|_| *first == b'%');
        let hex = hex.and_then(|pair| std::str::from_utf8(pair).ok());
        match hex.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a file's name says.
fn recognised(path: &Path) -> (Option<Format>, Compression) {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase());
    let name = name.unwrap_or_default();
    let (name, compression) = if let Some(name) = name.strip_suffix(".gz") {
        (name, Compression::Gzip)
    } else if let Some(name) = name.strip_suffix(".zst").or_else(|| name.strip_suffix(".zstd")) {
        (name, Compression::Zstd)
    } else {
        (name.as_str(), Compression::None)
    };
    let format = match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("csv") => Some(Format::Csv),
        Some("jsonl" | "ndjson" | "json") => Some(Format::JsonLines),
        Some("parquet" | "pq") => Some(Format::Parquet),
        _ => None,
    };
    (format, compression)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::LocalFiles;

    #[test]
    fn a_tree_is_found_in_order_with_its_partitions() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("features");
        for (path, text) in [
            ("dt=2026-11-15/country=de%2Fat/b.csv.gz", "x"),
            ("dt=2026-11-15/country=de%2Fat/a.csv", "xy"),
            ("dt=2026-11-14/country=__HIVE_DEFAULT_PARTITION__/a.jsonl.zst", ""),
            ("_SUCCESS", ""),
            (".hidden/a.csv", ""),
        ] {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let input = find(&[root], &LocalFiles, &ReadOptions::default()).unwrap();
        let told = |file: &File| {
            let parts = file.partitions.iter().map(|part| part.value.clone());
            (file.format, file.compression, parts.collect::<Vec<_>>())
        };
        let found: Vec<_> = input.files.iter().map(told).collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            found,
            [
                (Format::JsonLines, Compression::Zstd, vec![some("2026-11-14"), None]),
                (Format::Csv, Compression::None, vec![some("2026-11-15"), some("de/at")]),
                (Format::Csv, Compression::Gzip, vec![some("2026-11-15"), some("de/at")]),
            ]
        );
        assert_eq!(input.bytes(), Some(3));
    }

    #[test]
    fn standard_input_is_text_and_comes_once() {
        let find = |count: usize, format| {
            let options = ReadOptions { format, ..ReadOptions::default() };
            find(&vec![PathBuf::from("-"); count], &LocalFiles, &options)
        };
        let input = find(1, None).unwrap();
        assert!(input.has_standard() && input.bytes().is_none());
        assert_eq!(input.describe(), "standard input");
        let twice = find(2, None).unwrap_err().to_string();
        assert_eq!(twice, "standard input can be read once, and is named twice");
        let parquet = find(1, Some(Format::Parquet)).unwrap_err().to_string();
        assert_eq!(parquet, "standard input cannot be Parquet");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let find = |path: PathBuf| find(&[path], &LocalFiles, &ReadOptions::default());
        let code = |path: PathBuf| find(path).unwrap_err().to_string();
        assert!(code(dir.path().join("absent")).starts_with("cannot read"));
        assert!(code(dir.path().to_owned()).starts_with("there are no files in"));
        std::fs::write(dir.path().join("rows"), "").unwrap();
        assert!(code(dir.path().to_owned()).contains("does not say whether it is CSV"));
    }
}
