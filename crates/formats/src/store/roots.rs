//! The places that may be read and written.

use hoglake_model::{Location, Refusal, Root};

/// Prefixes of stores. A location is inside when it is one of them or lies below one, however both are spelled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roots {
    places: Vec<Location>,
    /// Account of Azure locations that name none.
    azure_account: Option<String>,
}

impl Roots {
    /// Reads prefixes, each a location.
    ///
    /// # Errors
    /// As [`Location::parse`].
    pub fn parse<'a>(
        prefixes: impl IntoIterator<Item = &'a str>,
        azure_account: Option<&str>,
    ) -> Result<Self, Refusal> {
        let places = prefixes.into_iter().map(Location::parse).collect::<Result<_, _>>()?;
        Ok(Self { places, azure_account: azure_account.map(str::to_owned) })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether some of them are folders of this machine.
    pub fn has_local(&self) -> bool {
        self.places.iter().any(|place| *place.root() == Root::Local)
    }

    /// Whether `location` is inside.
    pub fn covers(&self, location: &Location) -> bool {
        self.covers_key(location.root(), location.key())
    }

    /// Whether `key` below `root` is inside.
    pub(super) fn covers_key(&self, root: &Root, key: &str) -> bool {
        let root = self.normal(root);
        self.places.iter().any(|place| self.normal(place.root()) == root && is_below(key, place.key()))
    }

    /// The prefixes of this machine, as absolute paths.
    pub(super) fn local_folders(&self) -> impl Iterator<Item = String> {
        let local = self.places.iter().filter(|place| *place.root() == Root::Local);
        local.map(|place| format!("/{}", place.key()))
    }

    /// One name for one place: the same for every spelling of it.
    pub fn canonical(&self, location: &Location) -> String {
        let root = match self.normal(location.root()) {
            Root::Local => "file://".to_owned(),
            Root::S3 { bucket } => format!("s3://{bucket}"),
            Root::Gcs { bucket } => format!("gs://{bucket}"),
            Root::Azure { account, container } => format!("abfs://{container}@{}", account.unwrap_or_default()),
        };
        format!("{root}/{}", location.key())
    }

    fn normal(&self, root: &Root) -> Root {
        let Root::Azure { account, container } = root else { return root.clone() };
        let account = account.clone().or_else(|| self.azure_account.clone()).map(|account| {
            let account = account.to_ascii_lowercase();
            if account.contains('.') { account } else { format!("{account}.core.windows.net") }
        });
        Root::Azure { account, container: container.clone() }
    }
}

fn is_below(key: &str, prefix: &str) -> bool {
    prefix.is_empty() || key.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(roots: &[&str], location: &str) -> bool {
        let roots = Roots::parse(roots.iter().copied(), Some("acc")).unwrap();
        roots.covers(&Location::parse(location).unwrap())
    }

    #[test]
    fn spellings_of_a_place_inside_are_inside_and_neighbours_are_not() {
        let roots = ["s3://lake/a/", "/srv/lake", "abfss://c@acc.dfs.core.windows.net/t"];
        for inside in [
            "s3://lake/a",
            "s3a://lake/a/b",
            "S3N://lake/a/b c",
            "file:/srv/lake/t",
            "file:///srv//lake/t",
            "/srv/lake",
            "abfs://c@ACC.dfs.core.windows.net/t/x",
            "wasbs://c@acc.blob.core.windows.net/t",
            "az://c/t",
            "abfs://c@acc/t",
        ] {
            assert!(covers(&roots, inside), "{inside}");
        }
        for outside in [
            "s3://lake",
            "s3://lake/ab",
            "s3://lake/A",
            "s3://Lake/a",
            "s3://lake2/a",
            "gs://lake/a",
            "/srv/lake2",
            "/srv",
            "/",
            "abfs://c@other.dfs.core.windows.net/t",
            "abfs://c@acc.dfs.example.com/t",
            "abfs://d@acc.dfs.core.windows.net/t",
            "az://c/u",
        ] {
            assert!(!covers(&roots, outside), "{outside}");
        }
        assert!(!covers(&[], "s3://lake/a") && covers(&["s3://lake"], "s3a://lake/x"));
    }

    #[test]
    fn one_place_has_one_name() {
        let roots = Roots::parse([], Some("acc")).unwrap();
        let name = |text: &str| roots.canonical(&Location::parse(text).unwrap());
        assert_eq!(name("s3a://b/t/"), name("s3://b/t"));
        assert_eq!(name("file:/b//t"), name("/b/t"));
        assert_eq!(name("az://c/t"), name("abfss://c@acc.dfs.core.windows.net/t"));
        assert_ne!(name("gs://b/t"), name("s3://b/t"));
    }
}
