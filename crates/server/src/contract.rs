//! The contracts that this server keeps, as they are checked in.

/// The catalog control plane, OpenAPI in YAML.
pub const CATALOG: &str = include_str!("../../../openapi/catalog.yaml");

/// Conversion between table formats, OpenAPI in YAML.
pub const CONVERSION: &str = include_str!("../../../openapi/conversion.yaml");
