//! What a token may do.

use hoglake_model::CatalogName;
use std::fmt;
use std::str::FromStr;

/// A kind of access; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Looking.
    Read,
    /// Commits, DDL, views, consumer offsets.
    Write,
    /// Catalogs, their options, maintenance, publications.
    Admin,
}

impl Access {
    /// The word of the tokens file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

/// Access to one catalog or to all; written `sales:write`, `*:read`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    catalog: Option<CatalogName>,
    access: Access,
}

impl Grant {
    /// Everything.
    pub const ADMIN_OF_ALL: Self = Self { catalog: None, access: Access::Admin };

    /// Whether this covers `access` to `catalog` (`None`: to all of them).
    pub fn covers(&self, access: Access, catalog: Option<&str>) -> bool {
        let reaches = match (&self.catalog, catalog) {
            (None, _) => true,
            (Some(granted), Some(wanted)) => granted.as_str() == wanted,
            (Some(_), None) => false,
        };
        reaches && self.access >= access
    }
}

impl FromStr for Grant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("scope `{text}` must be catalog:access, such as sales:write or *:read");
        let (catalog, access) = text.split_once(':').ok_or_else(wrong)?;
        let catalog = match catalog {
            "*" => None,
            name => Some(CatalogName::parse(name).map_err(|refusal| refusal.detail)?),
        };
        let access = [Access::Read, Access::Write, Access::Admin]
            .into_iter()
            .find(|known| known.as_str() == access)
            .ok_or_else(|| format!("scope `{text}`: access must be read, write or admin"))?;
        Ok(Self { catalog, access })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let catalog = self.catalog.as_ref().map_or("*", CatalogName::as_str);
        write!(f, "{catalog}:{}", self.access.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_includes_what_is_below_it_and_nothing_else() {
        let grant: Grant = "sales:write".parse().unwrap();
        assert!(grant.covers(Access::Read, Some("sales")) && grant.covers(Access::Write, Some("sales")));
        assert!(!grant.covers(Access::Admin, Some("sales")));
        assert!(!grant.covers(Access::Read, Some("sale")) && !grant.covers(Access::Read, None));
        let all: Grant = "*:read".parse().unwrap();
        assert!(all.covers(Access::Read, Some("anything")) && all.covers(Access::Read, None));
        assert!(!all.covers(Access::Write, Some("anything")));
    }

    #[test]
    fn scopes_print_as_they_are_written() {
        for text in ["sales:write", "*:admin", "a-b_c:read"] {
            assert_eq!(text.parse::<Grant>().unwrap().to_string(), text);
        }
        for bad in ["", "sales", "sales:", ":read", "Sales:read", "sales:Read", "**:read", "sales:read:x"] {
            assert!(bad.parse::<Grant>().is_err(), "{bad}");
        }
    }
}
