//! The dependency graph between the crates: an edge leads to a strictly lower layer, so the graph
//! can be read from top to bottom and two neighbours never grow together.

use crate::metadata::Package;

/// The crates by layer, lowest first. Two on one layer do not know each other.
const LAYERS: [&[&str]; 6] = [
    &["helenus-model"],
    &["helenus-cql", "helenus-sqlite", "helenus-tls"],
    &["helenus-commitlog", "helenus-store", "helenus-broker"],
    &["helenus-relay", "helenus-capture", "helenus-replicate", "helenus-versions"],
    &["helenus-server", "helenus"],
    &["helenus-cli"],
];

/// Test support and tasks: outside the layers, and no part of any product.
const TOOLS: [&str; 2] = ["helenus-testkit", "xtask"];

/// Crates that compute and do nothing else.
const PURE: [&str; 3] = ["helenus-model", "helenus-cql", "helenus-commitlog"];

/// What pure crates must not depend on.
const IMPURE: [&str; 5] = ["tokio", "rusqlite", "scylla", "rdkafka", "ureq"];

/// Directories of the pure crates under `crates/`, for the checks on sources.
pub(super) fn pure_directories() -> impl Iterator<Item = &'static str> {
    PURE.into_iter().filter_map(|name| name.strip_prefix("helenus-"))
}

/// Every edge that should not be.
pub(super) fn check(packages: &[Package]) -> Vec<String> {
    let members: Vec<&Package> = packages.iter().filter(|package| package.in_workspace).collect();
    let mut findings = Vec::new();
    for package in &members {
        let from = package.name.as_str();
        if TOOLS.contains(&from) {
            continue;
        }
        let Some(own_layer) = layer(from) else {
            findings.push(format!("{from} has no layer; give it one in xtask/src/tidy/layers.rs"));
            continue;
        };
        for dependency in &package.dependencies {
            let to = dependency.name.as_str();
            if PURE.contains(&from) && IMPURE.contains(&to) && !dependency.is_dev {
                findings.push(format!("{from} is pure and must not depend on {to}"));
            }
            if !members.iter().any(|member| member.name == to) {
                continue;
            }
            if TOOLS.contains(&to) {
                if !dependency.is_dev {
                    findings.push(format!("{from} may use {to} only as a dev-dependency"));
                }
            } else if layer(to).is_some_and(|layer| layer >= own_layer) {
                findings
                    .push(format!("{from} must not depend on {to}: it is not on a lower layer"));
            }
        }
    }
    findings
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Dependency;

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|(name, is_dev)| Dependency { name: (*name).to_owned(), is_dev: *is_dev })
            .collect();
        Package { name: name.to_owned(), in_workspace: true, dependencies, ..Package::default() }
    }

    #[test]
    fn edges_lead_downward() {
        let fine = [
            package("helenus-model", &[("serde", false), ("tokio", true)]),
            package("helenus-store", &[("helenus-model", false), ("helenus-testkit", true)]),
            package("helenus-broker", &[("helenus-model", false), ("tokio", false)]),
            package("helenus-testkit", &[("helenus-store", false)]),
            package("xtask", &[("helenus-testkit", false)]),
        ];
        assert_eq!(check(&fine), Vec::<String>::new());
    }

    #[test]
    fn other_edges_are_found() {
        let wrong = [
            package("helenus-model", &[("tokio", false), ("helenus-store", false)]),
            package("helenus-store", &[("helenus-broker", true), ("helenus-testkit", false)]),
            package("helenus-broker", &[]),
            package("helenus-testkit", &[]),
            package("helenus-surprise", &[]),
        ];
        assert_eq!(
            check(&wrong),
            [
                "helenus-model is pure and must not depend on tokio",
                "helenus-model must not depend on helenus-store: it is not on a lower layer",
                "helenus-store must not depend on helenus-broker: it is not on a lower layer",
                "helenus-store may use helenus-testkit only as a dev-dependency",
                "helenus-surprise has no layer; give it one in xtask/src/tidy/layers.rs",
            ]
        );
    }
}
