// Tables that are sorted by a click on a heading, and shortened by what is typed.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  for (const button of table.querySelectorAll("thead button")) {
    button.addEventListener("click", () => {
      const heading = button.closest("th");
      const up = heading.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[heading.cellIndex].dataset.key;
      const compare = (a, b) => {
        const [one, other] = [key(a), key(b)];
        const order = one - other || one.localeCompare(other, undefined, { numeric: true });
        return up ? order : -order;
      };
      body.append(...[...body.rows].sort(compare));
    });
  }
}
for (const input of document.querySelectorAll("input[type=search]")) {
  const ids = input.getAttribute("aria-controls").trim().split(" ");
  const shown = document.getElementById(input.getAttribute("aria-describedby"));
  const rows = ids.flatMap((id) => [...document.getElementById(id).tBodies[0].rows]);
  input.addEventListener("input", () => {
    const word = input.value.trim().toLowerCase();
    let count = 0;
    for (const row of rows) {
      row.hidden = !row.dataset.text.toLowerCase().includes(word);
      count += !row.hidden;
    }
    shown.textContent = `${count} of ${rows.length} shown`;
  });
}
