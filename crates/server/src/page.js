// Swaps in each new drawing of the board; closes when the run has ended.
const board = document.getElementById("board");
const live = new EventSource("/api/v1/live");
live.onmessage = (event) => {
  board.innerHTML = event.data;
  if (board.querySelector('[data-ended="true"]')) live.close();
};
