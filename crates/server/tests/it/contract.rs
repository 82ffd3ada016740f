//! The contracts and the routes are the same list, and they use the same words.
//!
//! That every operation is also asked for in a test is checked where the asking happens: the end-to-end suite records
//! what it asked and fails when an operation is missing (`e2e/conftest.py`, `--whole-contract`).

use hoglake_model::ErrorCode;
use hoglake_server::auth::Requirement;
use hoglake_server::contract::{CATALOG, CONVERSION};
use hoglake_server::router::operations;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Method and path of every operation of a contract, by `operationId`.
fn contracted(contract: &Value) -> BTreeMap<String, (String, String)> {
    let prefix = contract["servers"][0]["url"].as_str().unwrap().trim_end_matches('/');
    let mut operations = BTreeMap::new();
    for (path, methods) in contract["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} has no operationId"));
            let place = (method.to_uppercase(), format!("{prefix}{path}"));
            assert_eq!(operations.insert(id.to_owned(), place), None, "{id} is the name of two operations");
        }
    }
    operations
}

fn parse(contract: &str) -> Value {
    serde_norway::from_str(contract).unwrap()
}

fn both() -> BTreeMap<String, (String, String)> {
    let mut all = contracted(&parse(CATALOG));
    for (id, place) in contracted(&parse(CONVERSION)) {
        assert_eq!(all.insert(id.clone(), place), None, "{id} is in both contracts");
    }
    all
}

#[test]
fn every_operation_has_a_handler_and_every_handler_an_operation() {
    let served: BTreeMap<String, (String, String)> =
        operations().into_iter().map(|o| (o.id.to_owned(), (o.method.to_string(), o.path.to_owned()))).collect();
    let contracted = both();
    let missing: Vec<_> = contracted.iter().filter(|(id, _)| !served.contains_key(*id)).collect();
    let extra: Vec<_> = served.iter().filter(|(id, _)| !contracted.contains_key(*id)).collect();
    assert!(missing.is_empty() && extra.is_empty(), "without a handler: {missing:?}\nnot in a contract: {extra:?}");
    assert_eq!(served, contracted, "the same operations, at other places");
    assert_eq!(operations().len(), served.len(), "an operation is served twice");
}

#[test]
fn every_operation_says_what_a_caller_needs() {
    for id in both().keys() {
        assert!(Requirement::of(id).is_some(), "{id} is not in the table of requirements");
    }
}

#[test]
fn the_error_codes_are_the_contracts() {
    const ALL: [ErrorCode; 16] = [
        ErrorCode::BadRequest,
        ErrorCode::Unauthenticated,
        ErrorCode::Forbidden,
        ErrorCode::NotFound,
        ErrorCode::MethodNotAllowed,
        ErrorCode::AlreadyExists,
        ErrorCode::CommitConflict,
        ErrorCode::OffsetRegression,
        ErrorCode::IdlessFilesPresent,
        ErrorCode::Expired,
        ErrorCode::PayloadTooLarge,
        ErrorCode::Validation,
        ErrorCode::InternalError,
        ErrorCode::NotImplemented,
        ErrorCode::CommitQueueTimeout,
        ErrorCode::Unavailable,
    ];
    let contract = parse(CATALOG);
    let listed: BTreeSet<&str> = contract["components"]["schemas"]["ApiError"]["properties"]["error"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(|code| code.as_str().unwrap())
        .collect();
    assert_eq!(listed, ALL.iter().map(|code| code.as_str()).collect());
    let prose = contract["info"]["description"].as_str().unwrap();
    for code in ALL {
        let row = format!("| {} | `{}` |", code.status(), code.as_str());
        assert!(prose.contains(&row), "the contract's table of errors has no row {row}");
    }
}

/// Operations that change something take an `Idempotency-Key`, may be refused as a rule, and may have to wait.
#[test]
fn every_change_can_be_repeated_safely() {
    let contract = parse(CATALOG);
    for (path, methods) in contract["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            let keyed = operation["parameters"]
                .as_array()
                .is_some_and(|all| all.iter().any(|p| p["$ref"] == "#/components/parameters/idempotencyKey"));
            // Verification is asked for with POST and changes nothing.
            assert_eq!(keyed, method != "get" && id != "runVerify", "{method} {path}");
            let statuses: BTreeSet<&str> =
                operation["responses"].as_object().unwrap().keys().map(String::as_str).collect();
            for status in ["400", "401", "403", "500", "503"] {
                assert!(statuses.contains(status), "{id} does not declare {status}");
            }
            assert_eq!(statuses.contains("413"), operation.get("requestBody").is_some(), "{id} and 413");
            assert_eq!(statuses.contains("404"), path.contains("{catalog}"), "{id} and 404");
        }
    }
}
