//! What operators and their machines ask a running service over HTTP.

use std::io;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use axum::{Router, middleware};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{Meters, Overview, Tokens};

/// What is answered.
#[derive(Clone, Debug)]
pub struct Operations {
    /// For `/healthz` and `/readyz`.
    pub overview: Overview,
    /// For `/metrics`.
    pub meters: Meters,
    /// For `/engine/snapshot`.
    pub manifest: Value,
    /// Who may ask, where that is not everybody who can.
    pub tokens: Option<Tokens>,
}

/// Answers on `listener` until `stop`: `/healthz` (200 unless a task was given up) and, with a token
/// where there are tokens, `/readyz` (200, or 503 with reasons), `/metrics` and `/engine/snapshot`.
pub async fn operate(
    listener: TcpListener,
    operations: Operations,
    stop: CancellationToken,
) -> io::Result<()> {
    let shared = Arc::new(operations);
    let routes = Router::new()
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics))
        .route("/engine/snapshot", get(manifest))
        .fallback(nothing)
        .layer(from_fn_with_state(Arc::clone(&shared), admit))
        .route("/healthz", get(health))
        .layer(middleware::map_response(fresh))
        .with_state(shared);
    axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn admit(State(own): State<Arc<Operations>>, request: Request, next: Next) -> Response {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    if own.tokens.as_ref().is_none_or(|tokens| tokens.let_in_bearer(header)) {
        return next.run(request).await;
    }
    let problem = json!({ "error": "show a token: Authorization: Bearer TOKEN" });
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], Json(problem)).into_response()
}

/// What is true now is not kept by anybody on the way.
async fn fresh(mut response: Response) -> Response {
    let no_store = axum::http::HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    response
}

/// Says which tasks, not why: anybody may ask this.
async fn health(State(own): State<Arc<Operations>>) -> Response {
    let given_up = own.overview.given_up();
    let code = if given_up.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({ "healthy": given_up.is_empty(), "given_up": given_up });
    (code, Json(body)).into_response()
}

async fn readiness(State(own): State<Arc<Operations>>) -> Response {
    let readiness = own.overview.readiness();
    let code = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(readiness)).into_response()
}

async fn metrics(State(own): State<Arc<Operations>>) -> Response {
    let text = own.meters.render();
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn manifest(State(own): State<Arc<Operations>>) -> Json<Value> {
    Json(own.manifest.clone())
}

async fn nothing() -> Response {
    let problem = json!({
        "error": "there is /healthz, /readyz, /metrics and /engine/snapshot",
    });
    (StatusCode::NOT_FOUND, Json(problem)).into_response()
}
