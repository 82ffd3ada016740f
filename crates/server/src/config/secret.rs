//! Values that must not be printed.

use std::fmt;
use std::str::FromStr;
use url::Url;

/// A credential. `Debug` shows only that there is one.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The credential itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// `postgresql://user:password@host:port/database?options`. Printing it leaves out the password and the options.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(Url);

impl DatabaseUrl {
    /// The URL with its credentials, for the one place that connects.
    pub fn expose(&self) -> &str {
        self.0.as_str()
    }

    /// The same URL with another user or password, where they are given.
    ///
    /// # Errors
    /// When the URL has no place for them.
    pub fn with_credentials(mut self, user: Option<&str>, password: Option<&Secret>) -> Result<Self, String> {
        let no_place = |()| "the database URL names no host to log in to".to_owned();
        if let Some(user) = user {
            self.0.set_username(user).map_err(no_place)?;
        }
        if let Some(password) = password {
            self.0.set_password(Some(password.expose())).map_err(no_place)?;
        }
        Ok(self)
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.clone();
        if shown.password().is_some() {
            let _ = shown.set_password(Some("***"));
        }
        shown.set_query(None);
        shown.set_fragment(None);
        shown.fmt(f)
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for DatabaseUrl {
    type Err = String;

    /// Reads a URL; the error never repeats the text, which may hold a password.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url = Url::parse(text.trim()).map_err(|error| format!("not a URL ({error})"))?;
        match url.scheme() {
            "postgres" | "postgresql" => Ok(Self(url)),
            _ => Err("must start with postgresql:// (postgresql://user:password@host:5432/database)".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_shows_no_credential() {
        let url: DatabaseUrl = "postgresql://hog:s3cret@db:5432/lake?password=s3cret".parse().unwrap();
        let shown = format!("{url} {url:?} {:?}", Secret::from_str("s3cret").unwrap());
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("hog:***@db:5432/lake"), "{shown}");
        assert!(url.expose().contains("s3cret"));
    }

    #[test]
    fn a_wrong_url_is_not_repeated() {
        for bad in ["hog:s3cret@db/lake", "mysql://hog:s3cret@db/lake", "postgresql://hog:s3cret@db:99999/lake"] {
            let error = DatabaseUrl::from_str(bad).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn credentials_of_their_own_win() {
        let url: DatabaseUrl = "postgresql://db/lake".parse().unwrap();
        let secret = Secret::from_str("p@ss/word").unwrap();
        let url = url.with_credentials(Some("hog"), Some(&secret)).unwrap();
        assert_eq!(url.expose(), "postgresql://hog:p%40ss%2Fword@db/lake");
    }
}
