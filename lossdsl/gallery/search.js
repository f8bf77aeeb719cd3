// Search: a row stays if it has every word. Sort: a click on a head, again for the other way. `#word` in the address searches.
const box = document.getElementById("search");
const body = document.querySelector("#all tbody");
const rows = [...body.rows];
const count = document.getElementById("count");

function search() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    row.hidden = !words.every((word) => row.dataset.words.includes(word));
    shown += !row.hidden;
  }
  count.textContent = words.length ? `${shown} of ${rows.length}` : "";
}

function fromAddress() {
  if (location.hash) box.value = decodeURIComponent(location.hash.slice(1));
  search();
}

document.querySelectorAll("#all th").forEach((head, i) => {
  head.firstChild.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") !== "ascending";
    document.querySelectorAll("#all th").forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "ascending" : "descending");
    const key = (row) => row.cells[i].textContent;
    rows.sort((a, b) => (down ? 1 : -1) * key(a).localeCompare(key(b)));
    body.append(...rows);
  });
});
box.addEventListener("input", search);
addEventListener("hashchange", fromAddress);
fromAddress();
