//! The routes.

use std::convert::Infallible;
use std::io;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use futures_util::{Stream, stream};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Board;

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
                      connect-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'";

#[derive(Clone, Debug)]
struct Shown {
    board: watch::Receiver<Board>,
    stop: CancellationToken,
}

/// Shows `board` on `listener` until `stop`: `/` the page, `/healthz`, `/api/v1/live` the drawings
/// as server-sent events, `/api/v1/board` the figures as JSON.
pub async fn serve(
    listener: TcpListener,
    board: watch::Receiver<Board>,
    stop: CancellationToken,
) -> io::Result<()> {
    let routes = Router::new()
        .route("/", get(page))
        .route(
            "/page.css",
            get(([(CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("page.css"))),
        )
        .route("/page.js", get(([(CONTENT_TYPE, "text/javascript")], include_str!("page.js"))))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/api/v1/board", get(figures))
        .route("/api/v1/live", get(live))
        .with_state(Shown { board, stop: stop.clone() });
    axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn page(State(shown): State<Shown>) -> Response {
    let page = shown.board.borrow().page();
    ([(CONTENT_SECURITY_POLICY, POLICY)], page).into_response()
}

async fn figures(State(shown): State<Shown>) -> Json<Board> {
    Json(shown.board.borrow().clone())
}

async fn live(State(shown): State<Shown>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let Shown { mut board, stop } = shown;
    board.mark_changed();
    let drawings = stream::unfold((board, stop), |(mut board, stop)| async move {
        tokio::select! {
            // The last drawing is sent before the end, though both are there at once.
            biased;
            changed = board.changed() => changed.ok()?,
            () = stop.cancelled() => return None,
        }
        let drawing = board.borrow_and_update().draw().into_string();
        Some((Ok(Event::default().data(drawing)), (board, stop)))
    });
    Sse::new(drawings).keep_alive(KeepAlive::default())
}
