//! An operation of the API: its name in the contract, its route, and what a caller needs.

use crate::app::App;
use crate::auth::{Requirement, guard};
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware;
use axum::routing::{MethodFilter, MethodRouter, on};

/// An operation of the contract and the handler that answers it.
pub struct Operation {
    /// `operationId` of the contract; also the `operation` label of metrics and logs.
    pub id: &'static str,
    /// HTTP method.
    pub method: Method,
    /// Path with `{parameters}`, from the root.
    pub path: &'static str,
    handler: MethodRouter<App>,
}

/// The operation that a request was matched to, as a request and response extension.
#[derive(Debug, Clone, Copy)]
pub struct OperationId(pub &'static str);

macro_rules! constructor {
    ($name:ident, $method:ident) => {
        #[doc = concat!("An operation of method ", stringify!($method), ".")]
        pub fn $name<H, T>(path: &'static str, id: &'static str, handler: H) -> Operation
        where
            H: Handler<T, App>,
            T: 'static,
        {
            Operation { id, method: Method::$method, path, handler: on(MethodFilter::$method, handler) }
        }
    };
}

constructor!(get, GET);
constructor!(post, POST);
constructor!(put, PUT);
constructor!(patch, PATCH);
constructor!(delete, DELETE);

impl Operation {
    /// What a caller needs. An operation that the table of requirements does not know needs everything.
    pub fn requirement(&self) -> Requirement {
        Requirement::of(self.id).unwrap_or(Requirement::ADMIN_OF_ALL)
    }

    /// The handler behind the guard that names the operation and checks the caller.
    pub(crate) fn guarded(self, app: App) -> (&'static str, MethodRouter<App>) {
        let state = guard::Guard { app, operation: OperationId(self.id), requirement: self.requirement() };
        (self.path, self.handler.route_layer(middleware::from_fn_with_state(state, guard::check)))
    }
}
