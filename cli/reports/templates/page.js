"use strict";
document.documentElement.classList.add("live");
const batches = [...document.querySelectorAll(".batch")];
const rows = batches.flatMap((batch) => [...batch.children]);

// A kind is drawn once: a row that unfolds shows a copy of its kind, and lets go of it when it folds.
for (const list of document.querySelectorAll(".rows")) {
  list.addEventListener("toggle", (event) => {
    const row = event.target;
    if (!row.dataset.kind) return;
    row.querySelector(":scope > .body")?.remove();
    const link = row.lastElementChild;
    link.hidden = row.open;
    if (!row.open) return;
    const body = document.createElement("div");
    body.className = "body";
    body.append(...document.getElementById(`kind-${row.dataset.kind}`).cloneNode(true).childNodes);
    row.append(body);
  }, true);
}

// The first row that was rewritten is open: it shows what a drawing tells.
const opened = document.querySelector(".kind[open] > .explained");
const first = opened && document.querySelector(`.rows [data-kind="${opened.id.slice(5)}"]`);
if (first) first.open = true;

const filters = document.querySelector(".filters");
if (filters) {
  const search = document.getElementById("search");
  const selects = ["verdict", "operator"].map((name) => [document.getElementById(name), `.${name}`]);
  const shown = document.getElementById("shown");
  const texts = rows.map((row) => row.querySelector("summary").textContent.toLowerCase());
  const fits = (row, index, words) =>
    words.every((word) => texts[index].includes(word)) &&
    selects.every(([select, part]) => !select.value || row.querySelector(part).textContent === select.value);
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let number = 0;
    rows.forEach((row, index) => {
      row.hidden = !fits(row, index, words);
      number += row.hidden ? 0 : 1;
    });
    for (const batch of batches) batch.hidden = [...batch.children].every((row) => row.hidden);
    shown.textContent = number === rows.length ? `${number} nodes` : `${number} of ${rows.length} nodes`;
  };
  filters.addEventListener("input", filter);
  filters.addEventListener("submit", (event) => event.preventDefault());
}
