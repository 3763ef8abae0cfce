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

/// Whatever runs, asked how it is.
pub trait Condition: std::fmt::Debug + Send + Sync {
    /// Parts that will not be started again: somebody has to look.
    fn given_up(&self) -> Vec<&'static str>;

    /// Whether it does all it is for, and what there is to say about that.
    fn readiness(&self) -> (bool, Value);
}

impl Condition for Overview {
    fn given_up(&self) -> Vec<&'static str> {
        Overview::given_up(self)
    }

    fn readiness(&self) -> (bool, Value) {
        let readiness = Overview::readiness(self);
        (readiness.ready, json!(readiness))
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub struct Operations {
    /// For `/healthz` and `/readyz`.
    pub condition: Arc<dyn Condition>,
    /// For `/metrics`.
    pub meters: Meters,
    /// For `/engine/snapshot`, where there is one.
    pub manifest: Option<Value>,
    /// Who may ask, where that is not everybody who can.
    pub tokens: Option<Tokens>,
}

/// Answers on `listener` until `stop`: `/healthz` (200 unless a part was given up) and, with a token
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
    let given_up = own.condition.given_up();
    let code = if given_up.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({ "healthy": given_up.is_empty(), "given_up": given_up });
    (code, Json(body)).into_response()
}

async fn readiness(State(own): State<Arc<Operations>>) -> Response {
    let (ready, told) = own.condition.readiness();
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(told)).into_response()
}

async fn metrics(State(own): State<Arc<Operations>>) -> Response {
    let text = own.meters.render();
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn manifest(state: State<Arc<Operations>>) -> Response {
    match &state.manifest {
        Some(manifest) => Json(manifest).into_response(),
        None => nothing(state).await,
    }
}

async fn nothing(State(own): State<Arc<Operations>>) -> Response {
    let paths = match own.manifest {
        Some(_) => "/healthz, /readyz, /metrics and /engine/snapshot",
        None => "/healthz, /readyz and /metrics",
    };
    let problem = json!({ "error": format!("there is {paths}") });
    (StatusCode::NOT_FOUND, Json(problem)).into_response()
}
